// SqueezeDetLoss against its definition in loops, its gradients, several devices, and what it refuses.
#include <gmock/gmock.h>

#include "layers/fake_exchange.hpp"
#include "layers/ssd_scene.hpp"

namespace banyan::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kSqueezed = 3, kShapes = 2, kHigh = 4, kWide = 5, kAll = kHigh * kWide * kShapes;
constexpr double kImageSide = 416, kPositive = 7, kNegative = 11, kOfBoxes = 5, kOfClasses = 2;
constexpr double kAnchors[kShapes][2] = {{90, 60}, {150, 200}};  // width, height

const char* const kSqueezeDet =
    "type: 'SqueezeDetLoss' squeezedet_param { classes: 3 anchors_per_grid: 2 anchor_shapes: [90, 60, 150, "
    "200] pos_conf: 7 neg_conf: 11 lambda_bbox: 5 lambda_conf: 2 }";

struct SqueezeScene {
  int images;
  Values scores, confidences, boxes, objects;

  SqueezeScene(unsigned seed, int images) : images(images) {
    scores = spread_values(images * kAll * kSqueezed, seed);
    confidences = spread_values(images * kAll, seed + 1);
    for (Values* shares : {&scores, &confidences})
      for (double& value : *shares) value = 0.5 + value / 2.5;
    boxes = spread_values(images * kAll * 4, seed + 2, 0.5);
    std::mt19937 random(seed);
    for (int image = 0; image < images; ++image) {
      Values rows;
      for (int t = 0; t < (image == 1 ? 0 : 4); ++t) {
        const double x = random() % 200, y = random() % 200;
        rows.insert(rows.end(), {x, y, x + 30 + random() % 180, y + 30 + random() % 180,
                                 static_cast<double>(random() % kSqueezed)});
        if (t != 3) continue;  // one object twice
        std::copy_n(rows.begin(), 4, rows.begin() + 15);
        rows[15] += 3;
      }
      if (image == 2) rows.insert(rows.begin(), {50, 50, 40, 60, 0});  // ends before it begins
      rows.resize(30, -1);
      objects.insert(objects.end(), rows.begin(), rows.end());
    }
  }

  std::vector<Shape> shapes(int count) const {
    return {{count, kAll, kSqueezed},
            {count, kHigh, kWide, kShapes},
            {count, kHigh, kWide, 4 * kShapes},
            {count, 30, 1, 1}};
  }
  std::unique_ptr<Bench> bench(int first, int end, const BenchOptions& options = {}) const {
    auto made = std::make_unique<Bench>(kSqueezeDet, shapes(end - first), 1, options);
    const Values* all[] = {&scores, &confidences, &boxes, &objects};
    for (std::size_t i = 0; i < 4; ++i) {
      const auto each = static_cast<std::ptrdiff_t>(all[i]->size()) / images;
      made->set_input(i, Values(all[i]->begin() + first * each, all[i]->begin() + end * each));
    }
    return made;
  }
};

/// The overlaps and the choices are those of `chosen`; null: of the scene itself.
double naive_squeezedet(const SqueezeScene& scene, const SqueezeScene* chosen, int* objects = nullptr) {
  const SqueezeScene& by = chosen == nullptr ? scene : *chosen;
  double loss = 0;
  for (int image = 0; image < scene.images; ++image) {
    std::vector<std::array<double, 5>> rows;
    for (int t = 0; t < 6; ++t) {
      std::array<double, 5> row;
      std::copy_n(scene.objects.begin() + image * 30 + t * 5, 5, row.begin());
      if (row[0] == -1) break;
      if (row[2] >= row[0]) rows.push_back(row);
    }
    const double n = static_cast<double>(rows.size());
    for (const auto& [x1, y1, x2, y2, label] : rows) {
      int best = -1;
      double most = -1;
      std::array<double, 4> anchor_of_best{};
      for (int a = 0; a < kAll; ++a) {
        const int cell = a / kShapes, shape = a % kShapes;
        const double ax = (cell % kWide + 1) * kImageSide / (kWide + 1),
                     ay = (cell / kWide + 1) * kImageSide / (kHigh + 1), aw = kAnchors[shape][0],
                     ah = kAnchors[shape][1];
        const double* d = &by.boxes[static_cast<std::size_t>((image * kAll + a) * 4)];
        const double x = ax + aw * d[0], y = ay + ah * d[1], h = ah * std::exp(d[2]), w = aw * std::exp(d[3]);
        const auto in = [](double at) { return std::min(std::max(at, 0.0), kImageSide - 1); };
        const double l = in(x - w / 2), r = in(x + w / 2), u = in(y - h / 2), b = in(y + h / 2);
        const double shared = std::max(0.0, std::min(r, x2) - std::max(l, x1)) *
                              std::max(0.0, std::min(b, y2) - std::max(u, y1));
        const double overlap = shared / ((r - l) * (b - u) + (x2 - x1) * (y2 - y1) - shared);
        if (overlap > most) most = overlap, best = a, anchor_of_best = {ax, ay, ah, aw};
      }
      if (objects != nullptr) ++*objects;
      const auto at = static_cast<std::size_t>(image * kAll + best);
      loss -=
          kOfClasses / n * std::log(scene.scores[at * kSqueezed + static_cast<std::size_t>(label)] + 1e-7);
      for (int a = 0; a < kAll; ++a) {
        const double c = scene.confidences[static_cast<std::size_t>(image * kAll + a)];
        loss += a == best ? kPositive / n * (c - most) * (c - most) : kNegative / (kAll - n) * c * c;
      }
      const auto [ax, ay, ah, aw] = anchor_of_best;
      const double w = x2 - x1 + 1, h = y2 - y1 + 1;
      const double wanted[] = {(x1 + w / 2 - ax) / aw, (y1 + h / 2 - ay) / ah, std::log(h / ah),
                               std::log(w / aw)};
      for (std::size_t k = 0; k < 4; ++k)
        loss += kOfBoxes / n * (scene.boxes[at * 4 + k] - wanted[k]) * (scene.boxes[at * 4 + k] - wanted[k]);
    }
  }
  return loss / scene.images;
}

TEST(SqueezeDetLoss, IsThatOfItsDefinition) {
  int objects = 0;
  for (unsigned seed = 0; seed < 10; ++seed) {
    const SqueezeScene scene(seed, 3);
    const auto bench = scene.bench(0, 3);
    bench->forward();
    EXPECT_TRUE(bench->layer().traits().loss);
    const double expected = naive_squeezedet(scene, nullptr, &objects);
    EXPECT_NEAR(bench->output()[0], expected, 1e-12 * expected) << seed;
  }
  EXPECT_EQ(objects, 80);
}

TEST(SqueezeDetLoss, HasTheGradientsOfDifferences) {
  const SqueezeScene at(4, 3);
  const auto bench = at.bench(0, 3);
  bench->forward();
  bench->backward(Values{1.5});
  SqueezeScene moved = at;
  Values* inputs[] = {&moved.scores, &moved.confidences, &moved.boxes};
  for (std::size_t i = 0; i < 3; ++i) {
    const Values found = bench->input_gradient(i);
    int not_zero = 0;
    for (std::size_t k = 0; k < found.size(); ++k) {
      double& value = (*inputs[i])[k];
      const double before = value;
      value = before + 1e-6;
      const double above = naive_squeezedet(moved, &at);
      value = before - 1e-6;
      const double below = naive_squeezedet(moved, &at);
      value = before;
      ASSERT_NEAR(found[k], 1.5 * (above - below) / 2e-6, 1e-6) << "input " << i << ", " << k;
      not_zero += found[k] != 0;
    }
    EXPECT_GT(not_zero, 3);
  }
}

TEST(SqueezeDetLoss, OfSeveralDevicesIsThatOfOne) {
  const SqueezeScene scene(5, 5);
  const Values weight{0.7};
  const auto whole = scene.bench(0, 5);
  whole->forward();
  whole->backward(weight);
  for (const std::vector<int>& cuts : {std::vector<int>{0, 2, 5}, {0, 1, 2, 3, 4, 5}, {0, 0, 4, 5}}) {
    const int devices = static_cast<int>(cuts.size()) - 1;
    MeetingPoint point(devices);
    std::vector<Values> losses(cuts.size() - 1), gradients[3] = {losses, losses, losses};
    run_replicas(point, [&](int rank) {
      BenchOptions options;
      options.rank = rank;
      options.devices = devices;
      const auto bench = scene.bench(cuts[rank], cuts[rank + 1], options);
      FakeExchange exchange(point, rank);
      bench->pass.exchange = &exchange;
      bench->forward();
      bench->backward(weight);
      losses[rank] = bench->output();
      for (std::size_t i = 0; i < 3; ++i) gradients[i][rank] = bench->input_gradient(i);
    });
    double loss = 0;
    for (const Values& one : losses) loss += one.at(0);
    EXPECT_NEAR(loss, whole->output()[0], 1e-12 * loss);
    for (std::size_t i = 0; i < 3; ++i) {
      Values all;
      for (const Values& part : gradients[i]) all.insert(all.end(), part.begin(), part.end());
      expect_near(all, whole->input_gradient(i), 1e-13);
    }
  }
}

TEST(SqueezeDetLoss, HasTheSameBitsOnAnAsynchronousStreamAndAfterOtherBatches) {
  std::vector<Values> expected;
  for (const bool asynchronous : {false, true}) {
    BenchOptions options;
    options.asynchronous = asynchronous;
    options.dtype = DType::f32;
    const SqueezeScene four(8, 4), one(9, 1);
    Bench bench(kSqueezeDet, four.shapes(4), 1, options);
    std::vector<Values> found;
    for (const SqueezeScene* scene : {&four, &one, &four}) {
      bench.reshape(scene->shapes(scene->images));
      bench.set_input(0, scene->scores);
      bench.set_input(1, scene->confidences);
      bench.set_input(2, scene->boxes);
      bench.set_input(3, scene->objects);
      bench.forward();
      bench.backward(Values{1});
      found.push_back(bench.output());
      for (std::size_t i = 0; i < 3; ++i) found.push_back(bench.input_gradient(i));
    }
    if (!asynchronous) expected = found;
    EXPECT_EQ(found, expected);
    EXPECT_EQ(std::vector(found.begin(), found.begin() + 4), std::vector(found.begin() + 8, found.end()));
  }
}

TEST(SqueezeDetLoss, IsZeroWithoutObjects) {
  SqueezeScene scene(2, 2);
  std::fill(scene.objects.begin(), scene.objects.end(), -1);
  const auto bench = scene.bench(0, 2);
  bench->forward();
  bench->backward(Values{1});
  EXPECT_EQ(bench->output()[0], 0);
  for (std::size_t i = 0; i < 3; ++i)
    for (const double value : bench->input_gradient(i)) EXPECT_EQ(value, 0);
}

std::string squeezedet_refusal(const std::string& settings, const std::vector<Shape>& shapes,
                               const Values& objects = {}) {
  try {
    Bench bench("type: 'SqueezeDetLoss' squeezedet_param { " + settings + " }", shapes, 1);
    if (objects.empty()) return "";
    for (std::size_t i = 0; i < 3; ++i)
      bench.set_input(i, Values(static_cast<std::size_t>(shapes[i].count()), 0.5));
    bench.set_input(3, objects);
    bench.forward();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_EQ(error.message().find("layer \"tested\" (SqueezeDetLoss): "), 0u) << error.message();
    return error.message();
  }
  return "";
}

TEST(SqueezeDetLossRefuses, WhatMakesNoSense) {
  const std::string good = "classes: 2 anchors_per_grid: 1 anchor_shapes: [9, 8] ";
  const std::vector<Shape> shapes = {{1, 4, 2}, {1, 2, 2, 1}, {1, 2, 2, 4}, {1, 5}};
  EXPECT_EQ(squeezedet_refusal(good, shapes, {1, 2, 30, 40, 1}), "");
  EXPECT_THAT(squeezedet_refusal(good, shapes, {1, 2, 30, 40, 2}), HasSubstr("has the class 2"));
  EXPECT_THAT(squeezedet_refusal(good, shapes, {1, NAN, 30, 40, 1}), HasSubstr("not finite"));
  EXPECT_THAT(squeezedet_refusal("anchors_per_grid: 1", shapes), HasSubstr("classes and anchors_per_grid"));
  EXPECT_THAT(squeezedet_refusal("classes: 2 anchors_per_grid: 1 anchor_shapes: 3", shapes),
              HasSubstr("2 numbers; found 1"));
  EXPECT_THAT(squeezedet_refusal("classes: 2 anchors_per_grid: 1 anchor_shapes: [3, 0]", shapes),
              HasSubstr("anchor_shapes must be positive"));
  EXPECT_THAT(squeezedet_refusal(good + "epsilon: 0", shapes), HasSubstr("epsilon must be positive"));
  const auto with = [&](std::size_t i, const Shape& shape) {
    std::vector<Shape> changed = shapes;
    changed[i] = shape;
    return squeezedet_refusal(good, changed);
  };
  EXPECT_THAT(with(0, {1, 4, 3}), HasSubstr("expected 1 x 4 x 2"));
  EXPECT_THAT(with(1, {1, 2, 2, 2}), HasSubstr("expected N x H x W x 1"));
  EXPECT_THAT(with(2, {1, 2, 2, 5}), HasSubstr("expected 1 x 2 x 2 x 4"));
  EXPECT_THAT(with(3, {1, 6}), HasSubstr("expected 1 x 5T"));
}

}  // namespace
}  // namespace banyan::testing
