// EvalDetection: made scenes, its definition in loops, and what it refuses.
#include <gmock/gmock.h>

#include "layers/ssd_scene.hpp"

namespace banyan::testing {
namespace {

using ::testing::HasSubstr;

double logit(double p) { return std::log(p / (1 - p)); }

/// Boxes that their cells' centres and the biases give, of two classes.
struct SureBox {
  double objectness, first_class;  ///< its probability; the rest is the second's
};
/// A map of one image; `boxes` by number within the cell and cell.
Values map_of(const std::vector<std::vector<SureBox>>& boxes) {
  const std::size_t cells = boxes[0].size();
  Values map;
  for (const auto& own : boxes) {
    map.resize(map.size() + 4 * cells, 0);
    for (const SureBox& box : own) map.push_back(logit(box.objectness));
    for (const SureBox& box : own) map.push_back(std::log(box.first_class));
    for (const SureBox& box : own) map.push_back(std::log(1 - box.first_class));
  }
  return map;
}

Values judged(const std::string& settings, std::int64_t side, const std::vector<std::vector<SureBox>>& boxes,
              const std::vector<Values>& truth) {
  Bench bench(cat("type: 'EvalDetection' eval_detection_param { num_class: 2 side: ", side,
                  " num_object: ", boxes.size(), " ", settings, " }"),
              {Shape{1, static_cast<std::int64_t>(7 * boxes.size()), side, side},
               Shape{1, 1, static_cast<std::int64_t>(truth.size()), 8}},
              1);
  bench.set_input(0, map_of(boxes));
  Values rows;
  for (const Values& row : truth) rows.insert(rows.end(), row.begin(), row.end());
  bench.set_input(1, rows);
  bench.forward();
  return bench.output();
}

const Values kNoTruth(8, -1);
Values object_at(double label, const Four& box, double item = 0) {
  return {item, label, 0, box[0], box[1], box[2], box[3], 0};
}

/// The quarters of an image.
TEST(EvalDetection, SaysWhichBoxesAreRight) {
  const std::vector<std::vector<SureBox>> quarters = {{{0.8, 0.75}, {0.5, 0.9}, {0.9, 0.25}, {0.005, 0.6}}};
  const std::vector<Values> truth = {object_at(1, {0, 0, 0.5, 0.5}),
                                     object_at(2, {0.5, 0, 1, 0.5}),   // found as class 0
                                     object_at(2, {0, 0.5, 0.25, 1}),  // by half
                                     object_at(1, {0.5, 0.5, 1, 1}),   // found, but with too low a score
                                     kNoTruth};
  const auto expect = [&](const std::string& settings, const Values& expected) {
    expect_near(judged(settings + " biases: [1, 1]", 2, quarters, truth), expected, 1e-12, settings);
  };
  expect("", {2, 2, 0, 0.6, 1, 0, 0, 0.45, 0, 1, 1, 0.675, 1, 0, 0, 0, 0, 0});
  expect("threshold: 0.51", {2, 2, 0, 0.6, 1, 0, 0, 0.45, 0, 1, 1, 0.675, 0, 1, 0, 0, 0, 0});
  expect("score_type: OBJ", {2, 2, 0, 0.8, 1, 0, 0, 0.5, 0, 1, 0, 0.005, 1, 0, 1, 0.9, 1, 0});
  expect("score_type: PROB", {2, 2, 0, 0.9, 0, 1, 0, 0.75, 1, 0, 0, 0.6, 1, 0, 1, 0.75, 1, 0});
}

/// One cell with a box as large as the image, and one half as high.
TEST(EvalDetection, DropsBoxesOfAnyClassThatOverlapABetterOne) {
  const std::string biases = " biases: [1, 1, 1, 0.5]";
  const std::vector<Values> truth = {object_at(1, {0, 0, 1, 1})};
  const std::vector<std::vector<SureBox>> alike = {{{0.5, 0.75}}, {{0.8, 0.75}}},
                                          other = {{{0.5, 0.75}}, {{0.8, 0.25}}};
  expect_near(judged("nms: 0.5" + biases, 1, alike, truth), {1, 0, 0, 0.6, 1, 0, 0, 0, 0, 0}, 1e-12);
  expect_near(judged("nms: 0.5" + biases, 1, other, truth), {1, 0, 1, 0.6, 0, 1, 0, 0, 0, 0}, 1e-12);
  // Only the first to find the object is right.
  expect_near(judged("nms: 0.51" + biases, 1, alike, truth), {1, 0, 0, 0.6, 1, 0, 0, 0.375, 0, 1}, 1e-12);
  expect_near(judged("nms: 0" + biases, 1, other, {kNoTruth}), {0, 0, 1, 0.6, 0, 1, 0, 0, 0, 0}, 1e-12);
}

struct EvalScene {
  static constexpr int kSide = 5, kClasses = 3, kBoxes = 2, kImages = 2;
  static constexpr int kEach = kBoxes * (5 + kClasses) * kSide * kSide;
  static constexpr int kWidth = kClasses + 4 * kBoxes * kSide * kSide;
  const std::vector<double> biases{0.75, 0.5, 2, 2.5};
  Values map;
  std::vector<Object> objects;

  explicit EvalScene(unsigned seed) : map(spread_values(kImages * kEach, seed, 2.5)) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> place(0, 0.6), size(0.1, 0.5);
    for (int i = 0; i < 12; ++i) {
      const double x = place(random), y = place(random);
      objects.push_back({i % kImages,
                         1 + static_cast<int>(random() % kClasses),
                         {x, y, x + size(random), y + size(random)},
                         i % 5 == 0});
    }
  }
  Values truth() const {
    Values rows;
    for (const Object& o : objects)
      rows.insert(rows.end(), {o.item + 0.0, o.label + 0.0, 0, o.box[0], o.box[1], o.box[2], o.box[3],
                               o.difficult ? 1.0 : 0.0});
    return rows;
  }
  Values run(const std::string& settings) const {
    Bench bench(
        cat("type: 'EvalDetection' eval_detection_param { side: 5 num_class: 3 num_object: 2 biases: ",
            "[0.75, 0.5, 2, 2.5] ", settings, " }"),
        {Shape{kImages, kEach / kSide / kSide, kSide, kSide},
         Shape{1, 1, static_cast<std::int64_t>(objects.size()), 8}, Shape{kImages, 3, 7, 9}},
        1);
    bench.set_input(0, map);
    bench.set_input(1, truth());
    bench.forward();
    EXPECT_EQ(bench.outputs[0]->shape, (Shape{kImages, kWidth}));
    return bench.output();
  }
};

/// Class by class of each box as a candidate of its own: the best class hides the others, whose boxes are
/// the same.
Values naive_judged(const EvalScene& scene, double threshold, double nms) {
  struct Candidate {
    int label;
    double score;
    Four box;
  };
  Values all;
  for (int image = 0; image < EvalScene::kImages; ++image) {
    std::vector<Candidate> candidates;
    const int cells = EvalScene::kSide * EvalScene::kSide;
    for (int cell = 0; cell < cells; ++cell)
      for (int n = 0; n < EvalScene::kBoxes; ++n) {
        const auto t = [&](int k) {
          return scene.map[static_cast<std::size_t>(image * EvalScene::kEach +
                                                    (n * (5 + EvalScene::kClasses) + k) * cells + cell)];
        };
        const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
        const double x = (cell % EvalScene::kSide + sigmoid(t(0))) / EvalScene::kSide,
                     y = (cell / EvalScene::kSide + sigmoid(t(1))) / EvalScene::kSide,
                     w = std::exp(t(2)) * scene.biases[static_cast<std::size_t>(2 * n)] / EvalScene::kSide,
                     h = std::exp(t(3)) * scene.biases[static_cast<std::size_t>(2 * n + 1)] /
                         EvalScene::kSide;
        const double sum = std::exp(t(5)) + std::exp(t(6)) + std::exp(t(7));
        for (int k = 0; k < EvalScene::kClasses; ++k)
          candidates.push_back(
              {k, sigmoid(t(4)) * std::exp(t(5 + k)) / sum, {x - w / 2, y - h / 2, x + w / 2, y + h / 2}});
      }
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
    std::vector<Candidate> kept;
    for (const Candidate& one : candidates)
      if (std::none_of(kept.begin(), kept.end(),
                       [&](const Candidate& k) { return naive_overlap(k.box, one.box) >= nms; }))
        kept.push_back(one);
    std::erase_if(kept, [](const Candidate& one) { return one.score < 0.005; });
    EXPECT_GT(kept.size(), 10U);
    Values row, boxes;
    for (int label = 0; label < EvalScene::kClasses; ++label) {
      int count = 0;
      for (const Object& o : scene.objects) count += o.item == image && o.label == label + 1 ? 1 : 0;
      row.push_back(count);
      std::vector<const Object*> used;
      for (const Candidate& one : kept) {
        if (one.label != label) continue;
        const Object* best = nullptr;
        for (const Object& o : scene.objects)
          if (o.item == image && o.label == label + 1 &&
              (best == nullptr || naive_overlap(one.box, o.box) > naive_overlap(one.box, best->box)))
            best = &o;
        const bool right = best != nullptr && naive_overlap(one.box, best->box) >= threshold &&
                           std::find(used.begin(), used.end(), best) == used.end();
        if (right) used.push_back(best);
        boxes.insert(boxes.end(), {label + 0.0, one.score, right ? 1.0 : 0.0, right ? 0.0 : 1.0});
      }
    }
    row.insert(row.end(), boxes.begin(), boxes.end());
    row.resize(EvalScene::kWidth, 0);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

TEST(EvalDetection, IsThatOfItsDefinition) {
  double right = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const EvalScene scene(seed);
    const Values found = scene.run("threshold: 0.25 nms: 0.6");
    expect_near(found, naive_judged(scene, 0.25, 0.6), 1e-12, cat("seed ", seed));
    expect_near(scene.run(""), naive_judged(scene, 0.5, 0.45), 1e-12, cat("seed ", seed));
    for (int image = 0; image < EvalScene::kImages; ++image)
      for (int at = EvalScene::kClasses + 2; at < EvalScene::kWidth; at += 4)
        right += found[static_cast<std::size_t>(image * EvalScene::kWidth + at)];
  }
  EXPECT_GT(right, 40);  // of 240 objects
}

TEST(EvalDetection, RefusesWhatMakesNoSense) {
  const std::vector<Shape> good = {{2, 14, 3, 3}, {1, 1, 1, 8}};
  const auto message = [&](const std::string& settings, const std::vector<Shape>& shapes) {
    return refusal(
        cat("type: 'EvalDetection' eval_detection_param { num_class: 2 num_object: 2 ", settings, " }"),
        shapes);
  };
  const std::string biases = "biases: [1, 2, 3, 4] ", enough = biases + "side: 3 ";
  EXPECT_EQ(message(enough, good), "accepted");
  EXPECT_THAT(message(biases, good), HasSubstr("side, num_class and num_object must be positive; found 0"));
  EXPECT_THAT(message(biases + "side: 4", good), HasSubstr("expected N x 14 x 4 x 4"));
  EXPECT_THAT(message("side: 3 biases: [1, 2]", good), HasSubstr("num_object boxes, 2; found 2 numbers"));
  EXPECT_THAT(message("side: 3 biases: [1, 2, 3, 0]", good), HasSubstr("biases must be positive; found 0"));
  EXPECT_THAT(message(enough + "nms: -1", good), HasSubstr("nms must be from 0 to 1; found -1"));
  EXPECT_THAT(message(enough + "threshold: 0", good), HasSubstr("threshold must be positive"));
  EXPECT_THAT(message(enough, {{2, 12, 3, 3}, {1, 1, 1, 8}}), HasSubstr("7 channels for each of 2 boxes"));
  EXPECT_THAT(message(enough, {{2, 14, 3, 3}, {1, 1, 1, 5}}), HasSubstr("ground truth in rows of 8"));
  const auto refused = [](const Values& truth) -> std::string {
    try {
      judged("biases: [1, 1]", 1, {{{0.5, 0.5}}}, {truth});
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_EQ(refused(object_at(2, {0, 0, 1, 1})), "");
  EXPECT_THAT(refused(object_at(3, {0, 0, 1, 1})), HasSubstr("has the label 3; expected a class below 3"));
  EXPECT_THAT(refused(object_at(0, {0, 0, 1, 1})), HasSubstr("other than the background, 0"));
  EXPECT_THAT(refused(object_at(1, {0, 0, 1, 1}, 1)), HasSubstr("belongs to item 1; the batch has 1"));
}

}  // namespace
}  // namespace banyan::testing
