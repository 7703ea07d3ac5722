// YOLO's losses and outputs against their definitions in loops, gradients, several devices, and what they
// refuse.
#include <gmock/gmock.h>

#include "layers/fake_exchange.hpp"
#include "layers/ssd_scene.hpp"

namespace banyan::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kYoloClasses = 3;

double yolo_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct YoloObject {
  int image, label;
  double x, y, w, h;
};

/// Objects of a few images; the first two of each image share a place and a size.
struct YoloScene {
  int images, boxes, rows, columns;
  std::vector<YoloObject> objects;
  Values map;

  YoloScene(unsigned seed, int images, int boxes, int rows = 4, int columns = 4)
      : images(images), boxes(boxes), rows(rows), columns(columns) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> place(0.05, 0.95), size(0.05, 0.9);
    for (int image = 0; image < images; ++image) {
      const int count = image == 1 ? 0 : 4;
      for (int t = 0; t < count; ++t) {
        YoloObject object{image,         static_cast<int>(random() % kYoloClasses),
                          place(random), place(random),
                          size(random),  size(random)};
        if (t == 1) {
          object = objects.back();
          object.label = (object.label + 1) % kYoloClasses;
          object.w *= 0.99;
        }
        objects.push_back(object);
      }
    }
    map = spread_values(shape().count(), seed + 1, 2);
  }

  Shape shape(int count) const { return {count, boxes * (5 + kYoloClasses), rows, columns}; }
  Shape shape() const { return shape(images); }
  /// N x 1 x 6 x 5 of images [first, end).
  Values rows_of(int first, int end) const {
    Values all;
    for (int image = first; image < end; ++image) {
      Values own;
      for (const YoloObject& o : objects)
        if (o.image == image) own.insert(own.end(), {o.label + 0.0, o.x, o.y, o.w, o.h});
      own.resize(30, 0);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }
  double x(int image, int box, int channel, int cell) const {
    return map[static_cast<std::size_t>(place(image, box, channel, cell))];
  }
  int place(int image, int box, int channel, int cell) const {
    return ((image * boxes + box) * (5 + kYoloClasses) + channel) * rows * columns + cell;
  }
};

struct YoloCase {
  std::string name, type, settings;
  int boxes;
  std::vector<double> biases;  ///< in cells
  std::vector<int> own;
  // What the settings say.
  double threshold, object = 1, no_object = 1, coordinates = 1, classes = 1;
  bool slopes = false, rescore = false, predicted_sizes = false, area = true;
  int rows = 4, columns = 4;

  bool exclusive() const { return type == "RegionLoss"; }
  std::string text() const {
    const bool region = type == "RegionLoss";
    return cat("type: '", type, "' ", region ? "region_loss_param" : "yolov3_param",
               " { num_class: ", kYoloClasses, " num: ", boxes, " ", settings, " }");
  }
};
void PrintTo(const YoloCase& tested, std::ostream* out) { *out << tested.name; }

const std::vector<YoloCase> kYoloCases = {
    {.name = "v3",
     .type = "Yolov3",
     .settings = "biases: [6, 8, 20, 12, 30, 44] mask: [0, 2] anchors_scale: 16 thresh: 0.4 coord_scale: 1.5 "
                 "class_scale: 0.75 noobject_scale: 7 object_scale: 3",
     .boxes = 2,
     .biases = {6 / 16.0, 8 / 16.0, 20 / 16.0, 12 / 16.0, 30 / 16.0, 44 / 16.0},
     .own = {0, 2},
     .threshold = 0.4,
     .coordinates = 1.5,
     .classes = 0.75},
    {.name = "v3_slopes",
     .type = "Yolov3",
     .settings = "biases: [6, 8, 20, 12, 30, 44] anchors_scale: 8 thresh: 0.3 use_logic_gradient: true "
                 "object_scale: 3 coord_scale: 1",
     .boxes = 3,
     .biases = {6 / 8.0, 8 / 8.0, 20 / 8.0, 12 / 8.0, 30 / 8.0, 44 / 8.0},
     .own = {0, 1, 2},
     .threshold = 0.3,
     .object = 3,
     .slopes = true,
     .rows = 3,
     .columns = 5},
    {.name = "v2",
     .type = "RegionLoss",
     .settings = "biases: [0.75, 0.5, 2, 2.5, 9, 9] thresh: 0.4 object_scale: 5 noobject_scale: 0.5 "
                 "class_scale: 1.25 coord_scale: 2",
     .boxes = 2,
     .biases = {0.75, 0.5, 2, 2.5},
     .own = {0, 1},
     .threshold = 0.4,
     .object = 5,
     .no_object = 0.5,
     .coordinates = 2,
     .classes = 1.25,
     .rescore = true,
     .area = false},
    {.name = "v2_by_prediction",
     .type = "RegionLoss",
     .settings = "biases: [0.75, 0.5, 2, 2.5] thresh: 0.3 rescore: 0 bias_match: 0 coord_scale: 1",
     .boxes = 2,
     .biases = {0.75, 0.5, 2, 2.5},
     .own = {0, 1},
     .threshold = 0.3,
     .no_object = 0.5,
     .predicted_sizes = true,
     .rows = 3,
     .columns = 4}};

double yolo_overlap(double ax, double ay, double aw, double ah, double bx, double by, double bw, double bh) {
  const double w = std::min(ax + aw / 2, bx + bw / 2) - std::max(ax - aw / 2, bx - bw / 2);
  const double h = std::min(ay + ah / 2, by + bh / 2) - std::max(ay - ah / 2, by - bh / 2);
  if (w <= 0 || h <= 0) return 0;
  return w * h / (aw * ah + bw * bh - w * h);
}

/// What each value is compared with and how much it counts, and from these the loss and its gradients.
struct NaiveYolo {
  Values target, weight, activated, errors, gradient;
  double loss = 0;

  NaiveYolo(const YoloCase& how, const YoloScene& scene, bool first_passes) {
    const auto count = scene.map.size();
    target = weight = activated = errors = gradient = Values(count, 0);
    for (int image = 0; image < scene.images; ++image)
      for (int box = 0; box < scene.boxes; ++box)
        for (int cell = 0; cell < scene.rows * scene.columns; ++cell)
          one_box(how, scene, first_passes, image, box, cell);
    for (const double error : errors) loss += error * error / scene.images;
  }

 private:
  static double bias(const YoloCase& how, int of_all, int k) {
    return how.biases[static_cast<std::size_t>(2 * of_all + k)];
  }

  static int box_of(const YoloCase& how, const YoloScene& scene, const YoloObject& o, int cell) {
    double most = 0;
    int best = -1;
    for (int n = 0; n < static_cast<int>(how.biases.size() / 2); ++n) {
      double w = bias(how, n, 0) / scene.columns, h = bias(how, n, 1) / scene.rows;
      if (how.predicted_sizes) {
        w *= std::exp(scene.x(o.image, n, 2, cell));
        h *= std::exp(scene.x(o.image, n, 3, cell));
      }
      const double shared = yolo_overlap(0, 0, w, h, 0, 0, o.w, o.h);
      if (shared > most) most = shared, best = n;
    }
    const auto own = std::find(how.own.begin(), how.own.end(), best);
    return own == how.own.end() ? -1 : static_cast<int>(own - how.own.begin());
  }

  void one_box(const YoloCase& how, const YoloScene& scene, bool first_passes, int image, int box, int cell) {
    const auto at = [&](int channel) {
      return static_cast<std::size_t>(scene.place(image, box, channel, cell));
    };
    const auto x = [&](int channel) { return scene.x(image, box, channel, cell); };
    const int row = cell / scene.columns, column = cell % scene.columns;
    double sum = 0;
    for (int k = 0; k < kYoloClasses; ++k) sum += std::exp(x(5 + k));
    for (int c = 0; c < 5 + kYoloClasses; ++c) {
      const bool plain = c == 2 || c == 3, softmax = c > 4 && how.exclusive();
      activated[at(c)] = plain ? x(c) : softmax ? std::exp(x(c)) / sum : yolo_sigmoid(x(c));
    }
    const double bias_w = bias(how, how.own[static_cast<std::size_t>(box)], 0),
                 bias_h = bias(how, how.own[static_cast<std::size_t>(box)], 1);
    const double px = (column + yolo_sigmoid(x(0))) / scene.columns,
                 py = (row + yolo_sigmoid(x(1))) / scene.rows, pw = std::exp(x(2)) * bias_w / scene.columns,
                 ph = std::exp(x(3)) * bias_h / scene.rows;
    double best = 0;
    std::vector<YoloObject> mine;
    for (const YoloObject& o : scene.objects) {
      if (o.image != image) continue;
      best = std::max(best, yolo_overlap(px, py, pw, ph, o.x, o.y, o.w, o.h));
      if (static_cast<int>(o.y * scene.rows) == row && static_cast<int>(o.x * scene.columns) == column &&
          box_of(how, scene, o, cell) == box)
        mine.push_back(o);
    }
    if (first_passes) {
      target[at(0)] = target[at(1)] = 0.5;
      for (int c = 0; c < 4; ++c) weight[at(c)] = 0.01;
    }
    weight[at(4)] = best > how.threshold ? 0 : how.no_object;
    if (!mine.empty()) {
      const YoloObject& o = mine.back();
      for (int c = 0; c < 4; ++c) weight[at(c)] = how.coordinates * (how.area ? 2 - o.w * o.h : 1);
      target[at(0)] = o.x * scene.columns - column;
      target[at(1)] = o.y * scene.rows - row;
      target[at(2)] = std::log(o.w * scene.columns / bias_w);
      target[at(3)] = std::log(o.h * scene.rows / bias_h);
      target[at(4)] = how.rescore ? yolo_overlap(px, py, pw, ph, o.x, o.y, o.w, o.h) : 1;
      weight[at(4)] = how.object;
      for (int k = 0; k < kYoloClasses; ++k) {
        weight[at(5 + k)] = how.classes;
        for (const YoloObject& each : mine)
          if (each.label == k && (!how.exclusive() || &each == &mine.back())) target[at(5 + k)] = 1;
      }
    }
    for (int c = 0; c < 5 + kYoloClasses; ++c) {
      const double y = activated[at(c)];
      const bool sigmoid = c < 2 || c == 4 || (c > 4 && !how.exclusive());
      const double slope = sigmoid ? y * (1 - y) : 1, error = weight[at(c)] * (y - target[at(c)]);
      errors[at(c)] = how.exclusive() ? error * slope : error;
      gradient[at(c)] = (how.exclusive() || how.slopes ? error * slope : error) / scene.images;
    }
  }
};

class YoloLoss : public ::testing::TestWithParam<YoloCase> {
 protected:
  static YoloScene scene(unsigned seed, int images = 3) {
    const YoloCase& how = GetParam();
    return {seed, images, how.boxes, how.rows, how.columns};
  }
  static std::unique_ptr<Bench> bench_of(const YoloScene& scene, const BenchOptions& options = {},
                                         int first = 0, int end = -1) {
    if (end < 0) end = scene.images;
    auto bench = std::make_unique<Bench>(
        GetParam().text(), std::vector<Shape>{scene.shape(end - first), {end - first, 1, 6, 5}}, 1, options);
    const auto each = static_cast<std::ptrdiff_t>(scene.map.size()) / scene.images;
    bench->set_input(0, Values(scene.map.begin() + first * each, scene.map.begin() + end * each));
    bench->set_input(1, scene.rows_of(first, end));
    return bench;
  }
};

TEST_P(YoloLoss, AndItsGradientsAreThoseOfTheirDefinition) {
  int objects = 0, near = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const YoloScene made = scene(seed);
    const NaiveYolo expected(GetParam(), made, GetParam().exclusive());
    const auto bench = bench_of(made);
    bench->forward();
    EXPECT_TRUE(bench->layer().traits().loss);
    EXPECT_NEAR(bench->output()[0], expected.loss, 1e-12 * expected.loss) << seed;
    bench->backward(Values{2});
    Values twice = expected.gradient;
    for (double& value : twice) value *= 2;
    expect_near(bench->input_gradient(), twice, 1e-13);
    for (std::size_t i = 0; i < expected.weight.size(); ++i) {
      objects += expected.target[i] == 1 && GetParam().coordinates > 0;
      near += static_cast<int>(i) / (made.rows * made.columns) % (5 + kYoloClasses) == 4 &&
              expected.weight[i] == 0;
    }
  }
  EXPECT_GT(objects, 40);  // the scenes test something
  EXPECT_GT(near, 20);
}

/// Of cross entropies and halved squares, in which targets and weights are constants: central differences.
TEST_P(YoloLoss, HasTheGradientsOfOtherLosses) {
  const YoloCase& how = GetParam();
  YoloScene made = scene(4);
  const NaiveYolo at(how, made, how.exclusive());
  const auto bench = bench_of(made);
  bench->forward();
  bench->backward(Values{1});
  const Values found = bench->input_gradient();
  const auto sum = [&](const NaiveYolo& now) {
    double all = 0;
    for (std::size_t i = 0; i < made.map.size(); ++i) {
      const int c = static_cast<int>(i) / (made.rows * made.columns) % (5 + kYoloClasses);
      const double y = now.activated[i], t = at.target[i];
      const bool square = c == 2 || c == 3 || how.slopes || (how.exclusive() && c < 5);
      const double one = square            ? (y - t) * (y - t) / 2
                         : how.exclusive() ? (t > 0 ? -std::log(y) : 0)
                                           : -t * std::log(y) - (1 - t) * std::log(1 - y);
      all += at.weight[i] * one / made.images;
    }
    return all;
  };
  for (std::size_t i = 0; i < made.map.size(); i += 3) {
    const double x = made.map[i];
    made.map[i] = x + 1e-5;
    const double above = sum({how, made, false});
    made.map[i] = x - 1e-5;
    const double below = sum({how, made, false});
    made.map[i] = x;
    ASSERT_NEAR(found[i], (above - below) / 2e-5, 1e-7) << i;
  }
}

TEST_P(YoloLoss, OfSeveralDevicesIsThatOfOne) {
  const YoloScene made = scene(5, 5);
  const Values weight{0.7};
  const auto whole = bench_of(made);
  whole->forward();
  whole->backward(weight);
  for (const std::vector<int>& cuts : {std::vector<int>{0, 2, 5}, {0, 1, 2, 3, 4, 5}, {0, 0, 4, 5}}) {
    const int devices = static_cast<int>(cuts.size()) - 1;
    MeetingPoint point(devices);
    std::vector<Values> losses(cuts.size() - 1), gradients = losses;
    run_replicas(point, [&](int rank) {
      BenchOptions options;
      options.rank = rank;
      options.devices = devices;
      const auto bench = bench_of(made, options, cuts[rank], cuts[rank + 1]);
      FakeExchange exchange(point, rank);
      bench->pass.exchange = &exchange;
      bench->forward();
      bench->backward(weight);
      losses[rank] = bench->output();
      gradients[rank] = bench->input_gradient();
    });
    double loss = 0;
    Values all;
    for (std::size_t rank = 0; rank < losses.size(); ++rank) {
      loss += losses[rank].at(0);
      all.insert(all.end(), gradients[rank].begin(), gradients[rank].end());
    }
    EXPECT_NEAR(loss, whole->output()[0], 1e-12 * loss);
    expect_near(all, whole->input_gradient(), 1e-13);
  }
}

TEST_P(YoloLoss, TakesAnnotatedDatasTableToo) {
  const YoloScene made = scene(6);
  const auto by_rows = bench_of(made);
  by_rows->forward();
  by_rows->backward(Values{1});
  Values table;
  for (const YoloObject& o : made.objects)
    table.insert(table.end(), {o.image + 0.0, o.label + 1.0, 0, o.x - o.w / 2, o.y - o.h / 2, o.x + o.w / 2,
                               o.y + o.h / 2, 0});
  table.insert(table.end(), {0, 1, 0, 0.2, 0.2, 0.6, 0.6, 1});  // difficult
  table.insert(table.end(), {2, 1, 0, 0.2, 0.2, 0.2, 0.6, 0});  // without area
  table.insert(table.end(), 8, -1);
  Bench bench(GetParam().text(), {made.shape(), {1, 1, std::ssize(table) / 8, 8}}, 1);
  bench.set_input(0, made.map);
  bench.set_input(1, table);
  bench.forward();
  bench.backward(Values{1});
  EXPECT_NEAR(bench.output()[0], by_rows->output()[0], 1e-12);
  expect_near(bench.input_gradient(), by_rows->input_gradient(), 1e-13);
}

INSTANTIATE_TEST_SUITE_P(Settings, YoloLoss, ::testing::ValuesIn(kYoloCases),
                         [](const auto& info) { return info.param.name; });

/// Four images in a pass: the 3200th is the first without it; tests have none.
TEST(RegionLossFirstImages, DrawBoxesToTheirPlaces) {
  const YoloCase& how = kYoloCases[2];
  const YoloScene made(3, 4, how.boxes);
  const auto loss = [&](Phase phase, std::int64_t draw) {
    BenchOptions options;
    options.phase = phase;
    Bench bench(how.text(), {made.shape(), {4, 1, 6, 5}}, 1, options);
    bench.set_input(0, made.map);
    bench.set_input(1, made.rows_of(0, 4));
    bench.pass.draw = draw;
    bench.forward();
    return bench.output()[0];
  };
  const double with = NaiveYolo(how, made, true).loss, without = NaiveYolo(how, made, false).loss;
  EXPECT_GT(with - without, 1e-5);
  EXPECT_NEAR(loss(Phase::train, 3199), with, 1e-10);
  EXPECT_NEAR(loss(Phase::train, 3200), without, 1e-10);
  EXPECT_NEAR(loss(Phase::test, 0), without, 1e-10);
}

/// One cell of 2 x 2 with biases of 2 x 1 cells; an object in the middle of the second cell.
TEST(YoloLossOfOneObject, HasTheValuesOfItsFormula) {
  Bench bench(
      "type: 'Yolov3' yolov3_param { num_class: 1 num: 1 biases: [20, 10] anchors_scale: 10 "
      "coord_scale: 1 thresh: 0.5 }",
      {{1, 6, 2, 2}, {1, 1, 1, 5}}, 1);
  bench.set_input(0, Values(24, 0));
  bench.set_input(1, {0, 0.75, 0.25, 0.5, 0.25});  // 1 x 0.5 cells
  bench.forward();
  bench.backward(Values{1});
  const double weight = 2 - 0.125, log2 = std::log(2);
  Values expected(24, 0);
  expected[2 * 4 + 1] = expected[3 * 4 + 1] = weight * log2;  // t = -log 2; x and y are exact
  for (const int cell : {0, 2, 3}) expected[4 * 4 + cell] = 0.5;
  expected[4 * 4 + 1] = expected[5 * 4 + 1] = -0.5;
  expect_near(bench.input_gradient(), expected, 1e-15);
  EXPECT_NEAR(bench.output()[0], 2 * weight * weight * log2 * log2 + 5 * 0.25, 1e-14);
}

TEST(YoloLossWithoutObjects, IsThatOfObjectness) {
  for (const YoloCase& how : kYoloCases) {
    YoloScene made(3, 2, how.boxes, how.rows, how.columns);
    made.objects.clear();
    BenchOptions options;
    options.phase = Phase::test;
    Bench bench(how.text(), {made.shape(), {2, 1, 6, 5}}, 1, options);
    bench.set_input(0, made.map);
    bench.set_input(1, Values(60, 0));
    bench.forward();
    EXPECT_NEAR(bench.output()[0], NaiveYolo(how, made, false).loss, 1e-12) << how.name;
  }
}

std::string yolo_refusal(const std::string& text, const std::vector<Shape>& shapes,
                         const Values& objects = {}) {
  try {
    Bench bench(text, shapes, 1);
    if (!objects.empty()) {
      bench.set_input(0, Values(static_cast<std::size_t>(shapes[0].count()), 0));
      bench.set_input(1, objects);
      bench.forward();
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_EQ(error.message().find("layer \"tested\" ("), 0u) << error.message();
    return error.message();
  }
  return "";
}

TEST(YoloLossRefuses, WhatMakesNoSense) {
  const std::vector<Shape> good = {{1, 16, 2, 2}, {1, 1, 2, 5}};
  const auto v3 = [](const std::string& s) {
    return cat("type: 'Yolov3' yolov3_param { num_class: 3 num: 2 ", s, " }");
  };
  const auto v2 = [](const std::string& s) {
    return cat("type: 'RegionLoss' region_loss_param { num_class: 3 num: 2 ", s, " }");
  };
  const std::string biases = "biases: [1, 2, 3, 4]";
  EXPECT_EQ(yolo_refusal(v3(biases), good, {0, 0.5, 0.5, 1, 1, 0, 0, 0, 0, 0}), "");
  EXPECT_EQ(yolo_refusal(v2(biases), good, {2, 1, 1, 0.5, 1, 0, 0.5, 0.5, 1, 0}), "");
  EXPECT_THAT(yolo_refusal(v3("biases: [1, 2, 3]"), good), HasSubstr("pairs"));
  EXPECT_THAT(yolo_refusal(v3(""), good), HasSubstr("pairs"));
  EXPECT_THAT(yolo_refusal(v3("biases: [1, 2]"), good), HasSubstr("without mask there must be biases"));
  EXPECT_THAT(yolo_refusal(v3(biases + " mask: 1"), good), HasSubstr("each of num boxes, 2; found 1"));
  EXPECT_THAT(yolo_refusal(v3(biases + " mask: [1, 2]"), good), HasSubstr("names bias 2; there are 2"));
  EXPECT_THAT(yolo_refusal(v3(biases + " anchors_scale: 0"), good), HasSubstr("anchors_scale"));
  EXPECT_THAT(yolo_refusal(v3("biases: [1, 2, 0, 4]"), good), HasSubstr("must be positive; found 0"));
  EXPECT_THAT(yolo_refusal(v2("biases: [1, 2]"), good), HasSubstr("there must be biases for num boxes, 4"));
  EXPECT_THAT(yolo_refusal(v2(biases + " coords: 5"), good), HasSubstr("coords must be 4"));
  EXPECT_THAT(yolo_refusal(v2(biases + " softmax: 0"), good), HasSubstr("softmax: 0"));
  EXPECT_THAT(yolo_refusal(v2(biases + " softmax_tree: 'a'"), good), HasSubstr("softmax_tree"));
  EXPECT_THAT(yolo_refusal(v2(biases + " class_map: 'a'"), good), HasSubstr("class_map"));
  EXPECT_THAT(yolo_refusal(v3(biases), {{1, 17, 2, 2}, {1, 1, 2, 5}}), HasSubstr("expected N x 16 x H x W"));
  EXPECT_THAT(yolo_refusal(v3(biases), {{1, 16, 2, 2}, {2, 1, 2, 5}}), HasSubstr("expected 1 x 1 x T x 5"));
  EXPECT_THAT(yolo_refusal(v3(biases), {{1, 16, 2, 2}, {1, 1, 2, 7}}), HasSubstr("expected 1 x 1 x T x 5"));
  EXPECT_THAT(yolo_refusal(v3(biases), good, {3, 0.5, 0.5, 1, 1, 0, 0, 0, 0, 0}), HasSubstr("the class 3"));
  EXPECT_THAT(yolo_refusal(v3(biases), good, {0, NAN, 0.5, 1, 1, 0, 0, 0, 0, 0}), HasSubstr("not finite"));
}

/// A box of YOLO's outputs.
struct YoloFound {
  int label;
  double score, x, y, w, h;
};

std::vector<YoloFound> naive_found(const YoloScene& scene, int image, const std::vector<double>& biases,
                                   bool exclusive) {
  std::vector<YoloFound> all;
  for (int cell = 0; cell < scene.rows * scene.columns; ++cell)
    for (int box = 0; box < scene.boxes; ++box) {
      const auto x = [&](int channel) { return scene.x(image, box, channel, cell); };
      double sum = 0;
      for (int k = 0; k < kYoloClasses; ++k) sum += std::exp(x(5 + k));
      for (int k = 0; k < kYoloClasses; ++k) {
        const double likely = exclusive ? std::exp(x(5 + k)) / sum : yolo_sigmoid(x(5 + k));
        all.push_back({k + 1, likely * yolo_sigmoid(x(4)),
                       (cell % scene.columns + yolo_sigmoid(x(0))) / scene.columns,
                       (cell / scene.columns + yolo_sigmoid(x(1))) / scene.rows,
                       std::exp(x(2)) * biases[static_cast<std::size_t>(2 * box)] / scene.columns,
                       std::exp(x(3)) * biases[static_cast<std::size_t>(2 * box + 1)] / scene.rows});
      }
    }
  return all;
}

/// Every class of every box is a candidate, and what overlaps a better one goes.
Values naive_rows(std::vector<YoloFound> all, int image, double least, double threshold, std::size_t rows) {
  std::erase_if(all, [&](const YoloFound& one) { return one.score <= least; });
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  std::vector<YoloFound> kept;
  for (const YoloFound& one : all)
    if (std::none_of(kept.begin(), kept.end(), [&](const YoloFound& k) {
          return yolo_overlap(k.x, k.y, k.w, k.h, one.x, one.y, one.w, one.h) >= threshold;
        }))
      kept.push_back(one);
  EXPECT_GT(kept.size(), 2u);
  EXPECT_LT(kept.size(), all.size());
  Values values;
  for (const YoloFound& k : kept)
    values.insert(values.end(), {image + 0.0, k.label + 0.0, k.score, k.x - k.w / 2, k.y - k.h / 2,
                                 k.x + k.w / 2, k.y + k.h / 2});
  while (values.size() < 7 * rows) values.insert(values.end(), {image + 0.0, -1, -1, -1, -1, -1, -1});
  return values;
}

TEST(YoloDetectionOutput, IsThatOfItsDefinition) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    const YoloScene coarse(seed, 2, 2, 4, 5), fine(seed + 50, 2, 2, 6, 7);
    Bench bench(
        cat("type: 'YoloDetectionOutput' yolo_detection_output_param { num_classes: ", kYoloClasses,
            " num_box: 2 biases: [0.75, 0.5, 2, 2.5] confidence_threshold: 0.25 nms_threshold: 0.4 }"),
        {coarse.shape(), fine.shape()}, 1);
    bench.set_input(0, coarse.map);
    bench.set_input(1, fine.map);
    bench.forward();
    const std::size_t boxes = 2 * 20 + 2 * 42;
    EXPECT_EQ(bench.outputs[0]->shape, (Shape{1, 1, 2 * static_cast<std::int64_t>(boxes), 7}));
    Values expected;
    for (int image = 0; image < 2; ++image) {
      std::vector<YoloFound> all = naive_found(coarse, image, {0.75, 0.5, 2, 2.5}, true);
      const auto more = naive_found(fine, image, {0.75, 0.5, 2, 2.5}, true);
      all.insert(all.end(), more.begin(), more.end());
      const Values rows = naive_rows(all, image, 0.25, 0.4, boxes);
      expected.insert(expected.end(), rows.begin(), rows.end());
    }
    expect_near(bench.output(), expected, 1e-12);
  }
}

/// Some branches draw the boxes into it.
TEST(YoloDetectionOutput, DoesNotReadAnImageAfterTheMaps) {
  const YoloScene scene(3, 2, 2, 4, 5);
  const std::string text =
      cat("type: 'YoloDetectionOutput' yolo_detection_output_param { num_classes: ", kYoloClasses,
          " num_box: 2 biases: [0.75, 0.5, 2, 2.5] visualize: true }");
  Values outputs[2];
  for (const bool shown : {false, true}) {
    std::vector<Shape> shapes{scene.shape()};
    if (shown) shapes.push_back(Shape{2, 3, 40, 50});
    Bench bench(text, shapes, 1);
    bench.set_input(0, scene.map);
    bench.forward();
    outputs[shown] = bench.output();
  }
  EXPECT_EQ(outputs[0], outputs[1]);
}

TEST(Yolov3DetectionOutput, IsThatOfItsDefinition) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    const YoloScene coarse(seed, 2, 2, 4, 4), fine(seed + 50, 2, 2, 8, 8);
    Bench bench(
        cat("type: 'Yolov3DetectionOutput' yolov3_detection_output_param { num_classes: ", kYoloClasses,
            " num_box: 2 biases: [3, 4, 10, 8, 16, 24] mask: [1, 2, 0, 1] anchors_scale: [8, 4] "
            "mask_group_num: 2 confidence_threshold: 0.5 nms_threshold: 0.3 }"),
        {coarse.shape(), fine.shape()}, 1);
    bench.set_input(0, coarse.map);
    bench.set_input(1, fine.map);
    bench.forward();
    Values expected;
    for (int image = 0; image < 2; ++image) {
      std::vector<YoloFound> all = naive_found(coarse, image, {10 / 8.0, 8 / 8.0, 16 / 8.0, 24 / 8.0}, false);
      const auto more = naive_found(fine, image, {3 / 4.0, 4 / 4.0, 10 / 4.0, 8 / 4.0}, false);
      all.insert(all.end(), more.begin(), more.end());
      const Values rows = naive_rows(all, image, 0.5, 0.3, 2 * 16 + 2 * 64);
      expected.insert(expected.end(), rows.begin(), rows.end());
    }
    expect_near(bench.output(), expected, 1e-12);
  }
}

TEST(YoloOutputsRefuse, SettingsBeforeShapesAreKnown) {
  for (const char* text :
       {"type: 'YoloDetectionOutput' yolo_detection_output_param { num_box: 2 biases: [1, 2] }",
        "type: 'Yolov3DetectionOutput' yolov3_detection_output_param { biases: [1, 2] mask: [0, 1] }"}) {
    const auto layer = make_layer(layer_from_text(text), LayerOptions());
    EXPECT_THROW(layer->read_settings(), Error) << text;
  }
}

TEST(YoloOutputsRefuse, WhatMakesNoSense) {
  const auto v2 = [](const std::string& s) {
    return yolo_refusal(
        cat("type: 'YoloDetectionOutput' yolo_detection_output_param { num_classes: 3 num_box: 2 ", s, " }"),
        {{1, 16, 2, 2}});
  };
  const auto v3 = [](const std::string& s) {
    return yolo_refusal(cat("type: 'Yolov3DetectionOutput' yolov3_detection_output_param { num_classes: 3 "
                            "num_box: 2 biases: [1, 2, 3, 4] ",
                            s, " }"),
                        {{1, 16, 2, 2}});
  };
  EXPECT_EQ(v2("biases: [1, 2, 3, 4]"), "");
  EXPECT_THAT(v2("biases: [1, 2]"), HasSubstr("for num_box boxes, 4; found 2"));
  EXPECT_THAT(v2("biases: [1, 2, 3, -4]"), HasSubstr("must be positive"));
  EXPECT_THAT(v2("biases: [1, 2, 3, 4] coords: 5"), HasSubstr("coords"));
  EXPECT_THAT(v2("biases: [1, 2, 3, 4] nms_threshold: 1.5"), HasSubstr("from 0 to 1"));
  EXPECT_EQ(v3("mask: [0, 1] anchors_scale: 8 mask_group_num: 1"), "");
  EXPECT_THAT(v3("mask: [0, 1] anchors_scale: 8"), HasSubstr("the number of inputs, 1"));
  EXPECT_THAT(v3("mask: [0, 1] mask_group_num: 1"), HasSubstr("each with an anchors_scale"));
  EXPECT_THAT(v3("mask: [0, 2] anchors_scale: 8 mask_group_num: 1"), HasSubstr("names bias 2"));
  EXPECT_THAT(v3("mask: 0 anchors_scale: 8 mask_group_num: 1"), HasSubstr("each input, 2; found 1"));
  EXPECT_THAT(v3("mask: [0, 1] anchors_scale: 0 mask_group_num: 1"), HasSubstr("anchors_scale must be"));
}

}  // namespace
}  // namespace banyan::testing
