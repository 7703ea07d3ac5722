// Boxes, suppression, DetectionOutput, its files and DetectionEvaluate on hand-made scenes.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "banyan/base/log.hpp"
#include "banyan/io/atomic_file.hpp"
#include "layers/boxes.hpp"
#include "layers/detection_boxes.hpp"
#include "layers/ssd_scene.hpp"

namespace banyan::testing {
namespace {

TEST(Boxes, HaveTheirAreasAndOverlaps) {
  const Box box{1, 2, 4, 8};
  EXPECT_EQ(area(box), 18);
  EXPECT_EQ(area(box, Corners::pixels), 28);  // 4 x 7 pixels
  EXPECT_EQ(area({4, 2, 1, 8}), 0);
  const Box shifted{2, 5, 5, 11};  // shares 2 x 3, or 3 x 4 pixels
  EXPECT_EQ(overlap(box, shifted), 6.0 / (18 + 18 - 6));
  EXPECT_EQ(overlap(shifted, box, Corners::pixels), 12.0 / (28 + 28 - 12));
  EXPECT_EQ(overlap(box, box), 1);
  EXPECT_EQ(overlap(box, {4, 2, 6, 8}), 0);                                     // they touch,
  EXPECT_EQ(overlap(box, {4, 2, 6, 8}, Corners::pixels), 7.0 / (28 + 21 - 7));  // sharing pixels
  EXPECT_EQ(overlap({0, 0, 0, 0}, {0, 0, 0, 0}), 0);
  EXPECT_EQ(clipped({-1, 0.5, 2, 0.75}), (Box{0, 0.5, 1, 0.75}));
  EXPECT_EQ(clipped({-1, 5, 30, 7}, 20, 6), (Box{0, 5, 20, 6}));
}

/// What torchvision.ops.nms documents: by falling score, a box goes if it overlaps a kept one by more than
/// the threshold.
TEST(Suppression, IsThatOfItsDefinition) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Values numbers = spread_values(4 * 60, seed), scores = spread_values(60, seed + 50);
    std::vector<Box> boxes;
    for (std::size_t i = 0; i < 60; ++i) {
      const double* n = &numbers[4 * i];
      boxes.push_back({n[0], n[1], n[0] + 0.6 + 0.4 * n[2], n[1] + 0.6 + 0.4 * n[3]});
    }
    std::vector<int> all(60);
    std::iota(all.begin(), all.end(), 0);
    const std::vector<int> order = by_score(all, scores);
    for (std::size_t i = 1; i < 60; ++i) EXPECT_GE(scores[order[i - 1]], scores[order[i]]);
    std::vector<int> expected;
    std::vector<bool> gone(60, false);
    for (const int best : order) {
      if (gone[best]) continue;
      expected.push_back(best);
      for (int other = 0; other < 60; ++other)
        gone[other] = gone[other] || overlap(boxes[best], boxes[other]) > 0.4;
    }
    EXPECT_EQ(suppress(boxes, order, {.threshold = 0.4}), expected);
    EXPECT_GT(expected.size(), 5u);
    EXPECT_LT(expected.size(), 50u);
    // Of the first ten candidates nothing depends on the others.
    const std::vector<int> ten(order.begin(), order.begin() + 10);
    EXPECT_EQ(suppress(boxes, order, {.threshold = 0.4, .top_k = 10}),
              suppress(boxes, ten, {.threshold = 0.4}));
  }
}

TEST(Suppression, LowersItsThresholdByEta) {
  // Neighbours overlap by 9 / 11; the thresholds after the first two boxes are 0.81 and 0.73.
  const std::vector<Box> boxes{{0, 0, 10, 1}, {1, 0, 11, 1}, {2, 0, 12, 1}, {40, 0, 50, 1}, {41, 0, 51, 1}};
  const std::vector<int> order{0, 3, 1, 4, 2};
  EXPECT_EQ(suppress(boxes, order, {.threshold = 0.9}), order);
  EXPECT_EQ(suppress(boxes, order, {.threshold = 0.9, .eta = 0.9}), (std::vector<int>{0, 3, 2}));
  EXPECT_EQ(suppress(boxes, order, {.threshold = 0.5, .eta = 0.1}), (std::vector<int>{0, 3}));
  EXPECT_EQ(suppress(boxes, order, {.top_k = 0}), std::vector<int>());
}

TEST(Suppression, ComparesWithOneBoxIfAsked) {
  // The left half of the first one, 32 of 64; and 16 of 40 of another.
  const std::vector<Box> boxes{{0, 0, 8, 8}, {0, 0, 4, 8}, {6, 0, 11, 8}};
  const auto kept = [&](SharedWith with, const std::vector<int>& order) {
    return suppress(boxes, order, {.threshold = 0.6, .shared_with = with});
  };
  using Kept = std::vector<int>;
  EXPECT_EQ(kept(SharedWith::both, {0, 1, 2}), (Kept{0, 1, 2}));
  EXPECT_EQ(kept(SharedWith::smaller, {0, 1, 2}), (Kept{0, 2}));
  EXPECT_EQ(kept(SharedWith::kept, {0, 1, 2}), (Kept{0, 1, 2}));
  EXPECT_EQ(kept(SharedWith::both, {1, 0, 2}), (Kept{1, 0, 2}));
  EXPECT_EQ(kept(SharedWith::smaller, {1, 0, 2}), (Kept{1, 2}));
  EXPECT_EQ(kept(SharedWith::kept, {1, 0, 2}), (Kept{1, 2}));
}

TEST(Scores, AreOrderedWithNanLast) {
  const double nan = std::nan("");
  EXPECT_EQ(by_score({0, 1, 2, 3, 4}, {0.5, nan, 0.75, 0.5, -1}), (std::vector<int>{2, 0, 3, 4, 1}));
  // Rounding decides nothing: neither that of f32 nor that of f64.
  EXPECT_EQ(by_score({0, 1, 2, 3}, {0.5, 0.5 + 1e-7, -3, -3 + 1e-15}), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(by_score({0, 1, 2, 3}, {0.5, 0.5 + 2e-6, -3, -3 + 1e-5}), (std::vector<int>{1, 0, 3, 2}));
}

TEST(BoxCodes, AreUndoneByDecoding) {
  const Prior prior{{0.25, 0.5, 0.75, 0.75}, {0.1, 0.2, 0.5, 0.25}};
  const Box box{0.3, 0.4, 0.9, 0.8};
  using Codes = caffe::PriorBoxParameter;
  for (const auto type : {Codes::CORNER, Codes::CENTER_SIZE, Codes::CORNER_SIZE})
    for (const bool has_variances : {true, false}) {
      const BoxCode code{type, has_variances};
      const Box back = code.decode(prior, code.encode(prior, box).data());
      expect_near({back.x1, back.y1, back.x2, back.y2}, {box.x1, box.y1, box.x2, box.y2}, 1e-15);
    }
  // Centre (0.6, 0.6) from (0.5, 0.625), size 0.6 x 0.4 from 0.5 x 0.25.
  const FourNumbers plain = BoxCode{Codes::CENTER_SIZE, false}.encode(prior, box);
  expect_near({plain.begin(), plain.end()}, {0.2, -0.1, std::log(1.2), std::log(1.6)}, 1e-15);
  const FourNumbers divided = BoxCode{Codes::CORNER_SIZE, true}.encode(prior, box);
  expect_near({divided.begin(), divided.end()}, {0.1 / 0.1, -0.4 / 0.2, 0.3 / 0.5, 0.2 / 0.25}, 1e-15);
}

/// Priors that are the boxes: codes of 0.
struct Predictions {
  std::vector<Four> boxes;
  std::vector<Values> confidences;  ///< by item, box and class
  int classes;
};
/// Rows of the output.
std::vector<Values> detect(const Predictions& made, const std::string& settings, DType dtype = DType::f64) {
  BenchOptions options;
  options.phase = Phase::test;
  options.dtype = dtype;
  const auto items = static_cast<std::int64_t>(made.confidences.size()),
             priors = static_cast<std::int64_t>(made.boxes.size());
  Bench bench(cat("type: 'DetectionOutput' detection_output_param { num_classes: ", made.classes, " ",
                  settings, " }"),
              {Shape{items, priors * 4}, Shape{items, priors * made.classes}, Shape{1, 2, priors * 4}}, 1,
              options);
  bench.set_input(0, Values(static_cast<std::size_t>(items * priors * 4), 0));
  Values confidences, values;
  for (const Values& of_item : made.confidences)
    confidences.insert(confidences.end(), of_item.begin(), of_item.end());
  for (const Four& box : made.boxes) values.insert(values.end(), box.begin(), box.end());
  values.resize(2 * values.size(), 0.5);
  bench.set_input(1, confidences);
  bench.set_input(2, values);
  bench.forward();
  EXPECT_EQ(bench.outputs[0]->shape.axes(), 4);
  EXPECT_EQ(bench.outputs[0]->shape[3], 7);
  const Values all = bench.output();
  std::vector<Values> rows;
  for (std::size_t i = 0; i < all.size(); i += 7)
    rows.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(i),
                      all.begin() + static_cast<std::ptrdiff_t>(i) + 7);
  return rows;
}
Values found(double item, double label, double score, const Four& box) {
  return {item, label, score, box[0], box[1], box[2], box[3]};
}
Values nothing(double item) { return {item, -1, -1, -1, -1, -1, -1}; }

// Boxes 0 and 1 overlap by 7 / 9, box 2 is elsewhere and crosses the border.
const Four kLeft{0, 0, 0.5, 0.5}, kNextToIt{0.0625, 0, 0.5625, 0.5}, kRight{0.75, 0.75, 1.25, 1};
const Predictions kMade{{kLeft, kNextToIt, kRight},
                        {{0.25, 0.5, 0.25, 0.125, 0.625, 0.25, 0, 0.25, 0.75}, {1, 0, 0, 1, 0, 0, 1, 0, 0}},
                        3};

TEST(DetectionOutput, KeepsTheBestOfEachClassAndImage) {
  using Rows = std::vector<Values>;
  // Class 1: boxes 1 (0.625) and 2 (0.25), box 0 is hidden. Class 2: box 2 (0.75), box 0 (0.25, before box
  // 1).
  EXPECT_EQ(
      detect(kMade, "nms_param { nms_threshold: 0.5 top_k: 3 } confidence_threshold: 0.125 keep_top_k: 5"),
      (Rows{found(0, 1, 0.625, kNextToIt), found(0, 1, 0.25, kRight), found(0, 2, 0.75, kRight),
            found(0, 2, 0.25, kLeft), nothing(0), nothing(1), nothing(1), nothing(1), nothing(1),
            nothing(1)}));
  // The threshold itself is not enough, two remain, by class.
  EXPECT_EQ(detect(kMade, "nms_param { nms_threshold: 0.5 } confidence_threshold: 0.25 keep_top_k: 2"),
            (Rows{found(0, 1, 0.625, kNextToIt), found(0, 2, 0.75, kRight), nothing(1), nothing(1)}));
  // 0.78 is no more than 0.8; one candidate per class gives two rows.
  EXPECT_EQ(detect(kMade, "nms_param { nms_threshold: 0.8 } confidence_threshold: 0.3 keep_top_k: 3"),
            (Rows{found(0, 1, 0.625, kNextToIt), found(0, 1, 0.5, kLeft), found(0, 2, 0.75, kRight),
                  nothing(1), nothing(1), nothing(1)}));
  EXPECT_EQ(detect(kMade, "nms_param { top_k: 1 } confidence_threshold: 0.01").size(), 4u);
  // Without any limit: every box of both classes.
  EXPECT_EQ(detect(kMade, "nms_param { nms_threshold: 1 }").size(), 12u);
  EXPECT_EQ(detect(kMade, "nms_param { nms_threshold: 1 }", DType::f32)[6], found(1, 1, 0, kLeft));
  // Another background: classes 0 and 1.
  EXPECT_EQ(detect(kMade, "background_label_id: 2 confidence_threshold: 0.6 keep_top_k: 1"),
            (Rows{found(0, 1, 0.625, kNextToIt), found(1, 0, 1, kLeft)}));
  EXPECT_EQ(detect(kMade, "background_label_id: -1 confidence_threshold: 0.7 keep_top_k: 1"),
            (Rows{found(0, 2, 0.75, kRight), found(1, 0, 1, kLeft)}));
  EXPECT_TRUE(detect({kMade.boxes, {}, 3}, "").empty());
}

TEST(DetectionOutput, ClipsBoxesBeforeTheyAreCompared) {
  using Rows = std::vector<Values>;
  const std::string settings = "confidence_threshold: 0.3 keep_top_k: 2 nms_param { nms_threshold: 0.5 } ";
  // They overlap by a third, and within the image entirely.
  const Four inside{0.5, 0, 1, 1}, over{0.5, 0, 2, 1};
  const Predictions made{{inside, over}, {{0, 0.5, 0, 0.75}}, 2};
  EXPECT_EQ(detect(made, settings), (Rows{found(0, 1, 0.75, over), found(0, 1, 0.5, inside)}));
  EXPECT_EQ(detect(made, settings + "clip: true"), (Rows{found(0, 1, 0.75, inside), nothing(0)}));
  // On all sides.
  const Predictions outside{{{-0.5, -0.25, 0.5, 0.5}, {0.75, 0.75, 1.25, 2}}, {{0, 0.5, 0, 0.75}}, 2};
  EXPECT_EQ(detect(outside, settings + "clip: true normalized_bbox: true group_by_classes: true"),
            (Rows{found(0, 1, 0.75, {0.75, 0.75, 1, 1}), found(0, 1, 0.5, {0, 0, 0.5, 0.5})}));
}

TEST(DetectionOutput, DecodesWhatItIsGiven) {
  for (const bool shared : {true, false})
    for (const std::string type : {"CORNER", "CENTER_SIZE", "CORNER_SIZE"})
      for (const bool encoded : {true, false}) {
        const Scene made(6, 2, 3, shared);
        caffe::MultiBoxLossParameter code;
        caffe::PriorBoxParameter::CodeType parsed{};
        ASSERT_TRUE(caffe::PriorBoxParameter::CodeType_Parse(type, &parsed));
        code.set_code_type(parsed);
        code.set_encode_variance_in_target(encoded);
        Bench bench(cat("type: 'DetectionOutput' detection_output_param { num_classes: 3 nms_param { "
                        "nms_threshold: 1 } "
                        "code_type: ",
                        type, " share_location: ", shared, " variance_encoded_in_target: ", encoded, " }"),
                    {made.shapes()[0], made.shapes()[1], made.shapes()[2]}, 1);
        bench.set_input(0, made.locations);
        bench.set_input(1, made.confidences);
        bench.set_input(2, made.prior_values());
        bench.forward();
        const Values all = bench.output();
        const std::size_t priors = made.priors.size();
        ASSERT_EQ(all.size(), 2 * 2 * priors * 7);
        for (std::size_t row = 0; row < all.size() / 7; ++row) {
          const double* r = &all[7 * row];
          const auto item = static_cast<std::size_t>(r[0]), label = static_cast<std::size_t>(r[1]);
          std::size_t p = 0;  // the prior with this confidence: all differ
          while (made.confidences[(item * priors + p) * 3 + label] != r[2]) ASSERT_LT(++p, priors);
          const std::size_t boxes = shared ? 1 : 3;
          const Four box = naive_decode(
              code, made.priors[p], &made.locations[((item * priors + p) * boxes + (shared ? 0 : label)) * 4],
              made.variances);
          expect_near({r + 3, r + 7}, {box.begin(), box.end()}, 1e-14);
        }
      }
}

/// The first step moves each image's priors by its own codes and doubts some.
TEST(DetectionOutput, OfTwoStepsBeginsWhereTheFirstOneEnds) {
  for (const bool moves : {true, false}) {
    Scene made(6, 2, 3);
    made.add_first_step(moves, 9);
    const auto run = [&](const std::string& settings, std::size_t inputs) {
      std::vector<Shape> shapes = made.shapes();
      shapes.erase(shapes.begin() + 3);
      shapes.resize(inputs);
      Bench bench(
          cat("type: 'DetectionOutput' detection_output_param { num_classes: 3 code_type: CENTER_SIZE "
              "nms_param { nms_threshold: 1 } ",
              settings, " }"),
          shapes, 1);
      const Values* const values[] = {&made.locations, &made.confidences, nullptr, &made.first_confidences,
                                      &made.first_locations};
      for (std::size_t i = 0; i < inputs; ++i) bench.set_input(i, i == 2 ? made.prior_values() : *values[i]);
      bench.forward();
      return bench.output();
    };
    caffe::MultiBoxLossParameter code;
    code.set_code_type(caffe::PriorBoxParameter::CENTER_SIZE);
    const std::size_t priors = made.priors.size();
    const Values all = run("objectness_score: 0.5", moves ? 5 : 4);
    ASSERT_EQ(all.size(), 2 * 2 * priors * 7);
    std::size_t doubted = 0;
    std::vector<int> rows_of(2 * priors, 0);
    for (std::size_t row = 0; row < all.size() / 7; ++row) {
      const double* r = &all[7 * row];
      const auto item = static_cast<std::size_t>(r[0]), label = static_cast<std::size_t>(r[1]);
      ASSERT_TRUE(label == 1 || label == 2);
      if (r[2] == 0) {
        ++doubted;
        continue;
      }
      std::size_t p = 0;  // the prior with this confidence: all differ
      while (made.confidences[(item * priors + p) * 3 + label] != r[2]) ASSERT_LT(++p, priors);
      EXPECT_GE(made.first_confidences[2 * (item * priors + p) + 1], 0.5);
      ++rows_of[item * priors + p];
      const Four box = naive_decode(code, naive_priors(made, code, static_cast<int>(item))[p],
                                    &made.locations[(item * priors + p) * 4], made.variances);
      expect_near({r + 3, r + 7}, {box.begin(), box.end()}, 1e-13);
    }
    for (std::size_t i = 0; i < rows_of.size(); ++i)
      EXPECT_EQ(rows_of[i], made.first_confidences[2 * i + 1] >= 0.5 ? 2 : 0);
    EXPECT_GT(doubted, 4u);
    EXPECT_LT(doubted, 4 * priors);
    if (!moves) {
      EXPECT_EQ(run("", 4), run("", 3));  // an image's place
    }
  }
}

/// Three priors, which are the boxes, with codes of 0 in both steps.
TEST(DetectionOutput, OfTwoStepsTakesDoubtedBoxesForTheBackground) {
  const std::vector<Four> boxes{kLeft, {0.5, 0.5, 0.625, 1}, kRight};
  const auto run = [&](const std::string& settings, bool share_location) {
    Bench bench(cat("type: 'DetectionOutput' detection_output_param { num_classes: 2 background_label_id: -1 "
                    "share_location: ",
                    share_location, " ", settings, " }"),
                {Shape{1, share_location ? 12 : 24}, Shape{1, 6}, Shape{1, 2, 12}, Shape{1, 6}, Shape{1, 12}},
                1);
    bench.set_input(0, Values(share_location ? 12 : 24, 0));
    bench.set_input(1, {0.25, 0.75, 0.375, 0.625, 0.125, 0.875});
    Values priors;
    for (const Four& box : boxes) priors.insert(priors.end(), box.begin(), box.end());
    priors.resize(24, 0.5);
    bench.set_input(2, priors);
    bench.set_input(3, {1, 0.0078125, 0.5, 0.5, 0.97, 0.03});
    bench.set_input(4, Values(12, 0));
    bench.forward();
    return bench.output();
  };
  const auto rows = [](const std::vector<Values>& all) {
    Values joined;
    for (const Values& row : all) joined.insert(joined.end(), row.begin(), row.end());
    return joined;
  };
  for (const bool share_location : {true, false}) {
    EXPECT_EQ(run("", share_location),  // objectness_score is 0.01
              rows({found(0, 0, 1, boxes[0]), found(0, 0, 0.375, boxes[1]), found(0, 0, 0.125, boxes[2]),
                    found(0, 1, 0.875, boxes[2]), found(0, 1, 0.625, boxes[1]), found(0, 1, 0, boxes[0])}));
    EXPECT_EQ(run("objectness_score: 0.5", share_location),  // which the second one has
              rows({found(0, 0, 1, boxes[0]), found(0, 0, 1, boxes[2]), found(0, 0, 0.375, boxes[1]),
                    found(0, 1, 0.625, boxes[1]), found(0, 1, 0, boxes[0]), found(0, 1, 0, boxes[2])}));
  }
}

TEST(DetectionOutput, RefusesWhatDoesNotFit) {
  const std::vector<Shape> shapes{Shape{2, 12}, Shape{2, 9}, Shape{1, 2, 12}};
  const auto expect_part = [](const std::string& settings, const std::vector<Shape>& inputs,
                              const std::string& part) {
    const std::string message =
        refusal("type: 'DetectionOutput' detection_output_param { " + settings + " }", inputs);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect_part("", shapes, "num_classes");
  expect_part("num_classes: 3 keep_top_k: 0", shapes, "keep_top_k");
  expect_part("num_classes: 3 nms_param { nms_threshold: -0.5 }", shapes, "nms_threshold");
  expect_part("num_classes: 3 nms_param { eta: 1.5 }", shapes, "eta");
  for (const char* of_opencv :
       {"normalized_bbox: false", "loc_pred_transposed: true", "group_by_classes: false"})
    expect_part(cat("num_classes: 3 ", of_opencv), shapes, "(OpenCV) are not supported");
  expect_part("num_classes: 4", shapes, "4 numbers for each of 3 prior boxes");
  expect_part("num_classes: 3 share_location: false", shapes, "expected 2 x 36");
  expect_part("num_classes: 3", {shapes[0], shapes[1], Shape{1, 1, 12}}, "1 x 2 x 4P");
  std::vector<Shape> two_steps = shapes;
  two_steps.push_back(Shape{2, 9});
  expect_part("num_classes: 3 objectness_score: 0.5", two_steps, "expected 2 x 6, 2 numbers");
  two_steps = {shapes[0], shapes[1], shapes[2], Shape{2, 6}, Shape{2, 9}};
  expect_part("num_classes: 3", two_steps, "expected 2 x 12, 4 numbers");
  const std::string save = "num_classes: 3 save_output_param { output_directory: '/nowhere/x' ";
  expect_part(save + "label_map_file: 'none' name_size_file: 'none' }", shapes, "output_format");
  const std::string polygon = "num_classes: 3 use_polygon: true ";
  const std::vector<Shape> twelve{Shape{2, 36}, Shape{2, 9}, Shape{1, 2, 12}};
  expect_part(polygon, twelve, "use_polygon needs code_type: CENTER_SIZE");
  expect_part(polygon + "code_type: CENTER_SIZE variance_encoded_in_target: true", twelve,
              "without variance_encoded");
  expect_part(polygon + "code_type: CENTER_SIZE", shapes, "expected 2 x 36");
  expect_part(polygon +
                  "code_type: CENTER_SIZE save_output_param { output_directory: '/nowhere/x' label_map_file: "
                  "'none' name_size_file: 'none' }",
              twelve, "writes boxes only");
  two_steps = {twelve[0], twelve[1], twelve[2], Shape{2, 6}, Shape{2, 12}};
  expect_part(polygon + "code_type: CENTER_SIZE", two_steps, "first step");
  expect_part(save + "output_format: 'VOC' label_map_file: 'none' name_size_file: 'none' }", shapes,
              "cannot open label_map_file");
}

/// A folder with a label map and the sizes of three images.
class Files : public ::testing::Test {
 protected:
  Files() : folder_(::testing::TempDir() + "banyan_detections_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder_);
    write("map",
          "item { name: 'none' label: 0 } item { name: 'cat' label: 1 display_name: 'Cat' } "
          "item { name: '18' label: 2 }");
    write("sizes", "first 200 100\n42 64 64\nthird.x 8 16\n");
  }
  ~Files() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) { std::ofstream(path(name)) << text; }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string read(const std::string& name) const { return io::read_file(path(name), 1 << 20); }
  std::string settings(const std::string& format, const std::string& more = "") const {
    return cat(
        "num_classes: 3 nms_param { nms_threshold: 0.5 } confidence_threshold: 0.2 keep_top_k: 9 "
        "save_output_param { output_directory: '",
        path("out"), "' output_name_prefix: 'r_' output_format: '", format, "' label_map_file: '",
        path("map"), "' name_size_file: '", path("sizes"), "' ", more, " }");
  }
  /// Two batches of two images each.
  void run(const std::string& text) {
    BenchOptions options;
    options.phase = Phase::test;
    Bench bench("type: 'DetectionOutput' detection_output_param { " + text + " }",
                {Shape{2, 12}, Shape{2, 9}, Shape{1, 2, 12}, Shape{2, 3, 4, 4}}, 1, options);
    bench.set_input(0, Values(24, 0));
    Values confidences = kMade.confidences[0], priors;
    confidences.insert(confidences.end(), kMade.confidences[1].begin(), kMade.confidences[1].end());
    confidences[9 + 2] = 0.875;  // class 2 at box 0 of the second image
    bench.set_input(1, confidences);
    for (const Four& box : kMade.boxes) priors.insert(priors.end(), box.begin(), box.end());
    priors.resize(24, 0.5);
    bench.set_input(2, priors);
    for (bench.pass.draw = 0; bench.pass.draw < 2; ++bench.pass.draw) bench.forward();
  }

 private:
  std::string folder_;
};

TEST_F(Files, AreThoseOfVoc) {
  run(settings("VOC"));
  // Images first, 42, third.x; the fourth begins a new pass. On 100 x 200 pixels kNextToIt is 6.25, 0, 56.25,
  // 100.
  EXPECT_EQ(
      read("out/r_cat.txt"),
      "first 0.625 6 0 56 100\nfirst 0.25 75 150 100 200\nthird.x 0.625 1 0 9 4\nthird.x 0.25 12 6 16 8\n");
  EXPECT_EQ(read("out/r_18.txt"),
            "first 0.75 75 150 100 200\nfirst 0.25 0 0 50 100\n42 0.875 0 0 32 32\n"
            "third.x 0.75 12 6 16 8\nthird.x 0.25 0 0 8 4\n");
  EXPECT_FALSE(std::filesystem::exists(path("out/r_none.txt")));
}

TEST_F(Files, AreThoseOfIlsvrcAndCoco) {
  run(settings("ILSVRC", "num_test_image: 2"));
  EXPECT_EQ(read("out/r_.txt"),
            "first 1 0.625 6 0 56 100\nfirst 1 0.25 75 150 100 200\nfirst 2 0.75 75 150 100 200\n"
            "first 2 0.25 0 0 50 100\n42 2 0.875 0 0 32 32\n");
  run(settings("COCO", "num_test_image: 2"));
  EXPECT_EQ(
      read("out/r_.json").substr(0, 88),
      "[{\"image_id\": \"first\", \"category_id\": \"cat\", \"bbox\": [6.25, 0, 50, 100], \"score\": 0.625}");
  EXPECT_NE(read("out/r_.json")
                .find("{\"image_id\": 42, \"category_id\": 18, \"bbox\": [0, 0, 32, 32], \"score\": 0.875}]"),
            std::string::npos)
      << read("out/r_.json");
}

TEST_F(Files, AreRefusedIfTheListsDoNotFit) {
  const auto expect_part = [&](const std::string& text, const std::string& part) {
    const std::string message = refusal("type: 'DetectionOutput' detection_output_param { " + text + " }",
                                        {Shape{2, 12}, Shape{2, 9}, Shape{1, 2, 12}});
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect_part(settings("PASCAL"), "output_format must be");
  expect_part(settings("VOC", "num_test_image: 4"), "num_test_image must be from 1 to 3");
  expect_part(settings("VOC", "resize_param { resize_mode: FIT_LARGE_SIZE_AND_PAD }"),
              "positive height and width");
  write("sizes", "first 200\n");
  expect_part(settings("VOC"), "sizes:1: expected \"name height width\"");
  write("sizes", "first 200 100\n");
  write("map", "item { name: 'cat' label: 1 }");
  expect_part(settings("VOC"), "no name for class 2");
}

TEST_F(Files, NeedOneDevice) {
  BenchOptions options;
  options.devices = 2;
  try {
    const Bench bench("type: 'DetectionOutput' detection_output_param { " + settings("VOC") + " }",
                      {Shape{2, 12}, Shape{2, 9}, Shape{1, 2, 12}}, 1, options);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("needs the images in order and so one device; there are 2"),
              std::string::npos)
        << error.message();
  }
}

std::vector<std::string>& warnings() {
  static std::vector<std::string> all;
  return all;
}

TEST(DetectionOutput, WarnsOnceThatNothingIsDrawn) {
  warnings().clear();
  set_log_sink([](Severity severity, const std::string& message, const std::source_location&) {
    if (severity == Severity::warning) warnings().push_back(message);
  });
  detect(kMade, "visualize: true visualize_threshold: 0.5 keep_top_k: 1");
  set_log_sink(nullptr);
  ASSERT_EQ(warnings().size(), 1u);
  EXPECT_NE(warnings()[0].find("visualize is ignored"), std::string::npos) << warnings()[0];
}

TEST(DetectionOutput, WritesNoFilesWithoutTheirLists) {
  for (const std::string missing : {"label_map_file", "name_size_file"}) {
    warnings().clear();
    set_log_sink([](Severity severity, const std::string& message, const std::source_location&) {
      if (severity == Severity::warning) warnings().push_back(message);
    });
    const std::string given = missing == "name_size_file" ? "label_map_file" : "name_size_file";
    detect(kMade,
           cat("keep_top_k: 1 save_output_param { output_directory: '/nowhere/x' ", given, ": 'none' }"));
    set_log_sink(nullptr);
    ASSERT_EQ(warnings().size(), 1u);
    EXPECT_NE(warnings()[0].find("has no " + missing + ": no files are written"), std::string::npos)
        << warnings()[0];
  }
}

/// TextBoxes++.
TEST(DetectionOutput, HasThePolygonsOfTheBoxesThatRemain) {
  for (const bool shared : {true, false}) {
    SCOPED_TRACE(shared);
    const std::int64_t each = shared ? 12 : 24;
    Bench bench(
        cat("type: 'DetectionOutput' detection_output_param { num_classes: 2 share_location: ", shared,
            " code_type: CENTER_SIZE use_polygon: true confidence_threshold: 0.25 nms_param { "
            "nms_threshold: 0.5 } keep_top_k: 3 }"),
        {Shape{1, 3 * each}, Shape{1, 6}, Shape{1, 2, 12}}, 1);
    EXPECT_EQ(bench.outputs[0]->shape, (Shape{1, 1, 3, 15}));
    const Values still(4, 0), polygon{1, -1, 2, -2, 3, -3, 4, -4}, other(8, 0.5);
    Values locations;
    for (int prior = 0; prior < 3; ++prior) {
      if (!shared) locations.insert(locations.end(), 12, 9);  // of the background
      locations.insert(locations.end(), still.begin(), still.end());
      const Values& of_prior = prior == 2 ? polygon : other;
      locations.insert(locations.end(), of_prior.begin(), of_prior.end());
    }
    bench.set_input(0, locations);
    bench.set_input(1, {0.5, 0.5, 0.25, 0.75, 0, 1});
    // The first is hidden by the second.
    bench.set_input(2, {0,   0,    0.25, 0.25, 0,   0,    0.25, 0.25, 0.5, 0.25, 1, 0.5,  //
                        0.5, 0.25, 1,    1,    0.5, 0.25, 1,    1,    0.5, 0.25, 1, 1});
    bench.forward();
    Values expected{0, 1, 1, 0.5, 0.25, 1, 0.5};
    // x1, y1 ...: corners moved by 0.5 * t * 0.5 and 0.25 * t * 0.25.
    const Values moved{0.5 + 0.25, 0.25 - 0.0625, 1 + 0.5,   0.25 - 0.125,
                       1 + 0.75,   0.5 - 0.1875,  0.5 + 1.0, 0.5 - 0.25};
    expected.insert(expected.end(), moved.begin(), moved.end());
    expected.insert(expected.end(), {0, 1, 0.75, 0, 0, 0.25, 0.25});
    for (const double corner : {0.0, 0.0, 0.25, 0.0, 0.25, 0.25, 0.0, 0.25}) expected.push_back(corner);
    for (std::size_t k = 22; k < 30; k += 2) {
      expected[k] += 0.5 * 0.5 * 0.25;
      expected[k + 1] += 0.25 * 0.5 * 0.25;
    }
    expected.push_back(0);
    expected.insert(expected.end(), 14, -1);
    expect_near(bench.output(), expected, 1e-14);
  }
}

TEST(BoxesOnTheImage, UndoTheResizing) {
  const NamedSize wide{"", 100, 400};  // height, width
  const auto on = [&](const Box& box, const std::string& text) {
    caffe::ResizeParameter resize;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &resize));
    const Box found = on_image(box, wide, resize);
    return Values{found.x1, found.y1, found.x2, found.y2};
  };
  const Box box{-0.25, 0.25, 0.5, 0.75};
  EXPECT_EQ(on(box, ""), (Values{0, 25, 200, 75}));
  EXPECT_EQ(on(box, "resize_mode: WARP height: 300 width: 300"), (Values{0, 25, 200, 75}));
  // 400 x 100 fills 300 x 75 of 300 x 300, from 112.5 to 187.5: half the box's height and more.
  EXPECT_EQ(on({0.25, 0.375, 0.5, 0.5}, "resize_mode: FIT_LARGE_SIZE_AND_PAD height: 300 width: 300"),
            (Values{100, 0, 200, 50}));
  EXPECT_EQ(on({0.25, 0.25, 0.5, 1}, "resize_mode: FIT_LARGE_SIZE_AND_PAD height: 100 width: 800"),
            (Values{0, 25, 200, 100}));  // as wide as half the input, in its middle
  EXPECT_EQ(on({0.5, 0.5, 2, 0.75}, "resize_mode: FIT_SMALL_SIZE height_scale: 80 width_scale: 240"),
            (Values{120, 40, 400, 60}));
  EXPECT_EQ(on(box, "resize_mode: FIT_SMALL_SIZE"), (Values{0, 25, 200, 75}));
}

/// Rows of DetectionEvaluate.
std::vector<Values> evaluate(const std::string& settings, const std::vector<Values>& detections,
                             const std::vector<Values>& truth, std::int64_t draw = 0) {
  const auto rows_of = [](const std::vector<Values>& rows) {
    Values all;
    for (const Values& row : rows) all.insert(all.end(), row.begin(), row.end());
    return all;
  };
  Bench bench("type: 'DetectionEvaluate' detection_evaluate_param { num_classes: 3 " + settings + " }",
              {Shape{1, 1, static_cast<std::int64_t>(detections.size()), 7},
               Shape{1, 1, static_cast<std::int64_t>(truth.size()), 8}},
              1);
  bench.set_input(0, rows_of(detections));
  bench.set_input(1, rows_of(truth));
  bench.pass.draw = draw;
  bench.forward();
  EXPECT_EQ(bench.outputs[0]->shape[3], 5);
  const Values all = bench.output();
  std::vector<Values> rows;
  for (std::size_t i = 0; i < all.size(); i += 5)
    rows.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(i),
                      all.begin() + static_cast<std::ptrdiff_t>(i) + 5);
  return rows;
}

TEST(DetectionEvaluate, CountsWhatIsRightAndWrong) {
  const Four box{0, 0, 0.5, 0.5}, half{0, 0, 0.5, 0.25}, far{0.75, 0.75, 1, 1};
  const auto object = [](double item, double label, const Four& at, bool difficult = false) {
    return Values{item, label, 0, at[0], at[1], at[2], at[3], difficult ? 1.0 : 0.0};
  };
  const std::vector<Values> truth{
      object(0, 1, box), object(0, 2, far, true), object(2, 1, box), {-1, -1, -1, -1, -1, -1, -1, -1}};
  const std::vector<Values> detections{
      found(0, 1, 0.25, box),  // the object has been found by
      found(0, 1, 0.5, half),  // this one, which overlaps it by just 0.5
      found(0, 2, 0.75, far),  // a difficult object
      found(0, 2, 0.5, box),   // nothing of class 2 there
      nothing(0),
      found(1, 1, 0.875, box),  // an image without objects
      found(2, 2, 0.125, box),  // none of class 2
  };
  const std::vector<Values> common{{0, 1, 0.5, 1, 0}, {0, 1, 0.25, 0, 1}};
  const auto expect_rows = [&](const std::string& settings, double difficult,
                               const std::vector<Values>& of_class_2) {
    std::vector<Values> expected{{-1, 1, 2, -1, -1}, {-1, 2, difficult, -1, -1}};
    for (const auto& part : {common, of_class_2, {{1, 1, 0.875, 0, 1}, {2, 2, 0.125, 0, 1}, Values(5, -1)}})
      expected.insert(expected.end(), part.begin(), part.end());
    EXPECT_EQ(evaluate(settings, detections, truth), expected) << settings;
  };
  expect_rows("", 1, {{0, 2, 0.75, 1, 0}, {0, 2, 0.5, 0, 1}});
  expect_rows("evaluate_difficult_gt: false", 0, {{0, 2, 0.75, 0, 0}, {0, 2, 0.5, 0, 1}});
  EXPECT_EQ(evaluate("overlap_threshold: 0.625", detections, truth)[2], (Values{0, 1, 0.5, 0, 1}));
  EXPECT_EQ(evaluate("background_label_id: 3", {}, {}).size(), 3u);
}

TEST_F(Files, TellDetectionEvaluateHowManyPixels) {
  write("sizes", "a 10 10\nb 100 100\n");
  const std::string settings = "name_size_file: '" + path("sizes") + "' overlap_threshold: 0.5";
  // A quarter of the object: 9 of 36 pixels in 10 x 10, with the last row and column; 51^2 of 101^2 ...
  const std::vector<Values> truth{{0, 1, 0, 0, 0, 0.5, 0.5, 0}, {1, 1, 0, 0, 0, 0.5, 0.5, 0}},
      detections{found(0, 1, 0.5, {0, 0, 0.5, 0.23}), found(1, 1, 0.5, {0, 0, 0.5, 0.23})};
  // 0.46 of the object; in pixels 3.3 of 6 rows and 24 of 51.
  const std::vector<Values> rows = evaluate(settings, detections, truth);
  EXPECT_EQ(rows[2], (Values{0, 1, 0.5, 1, 0}));
  EXPECT_EQ(rows[3], (Values{1, 1, 0.5, 0, 1}));
  // A batch of one: the second pass brings the second image.
  EXPECT_EQ(evaluate(settings, {detections[0]}, {truth[0]}, 1)[2], (Values{0, 1, 0.5, 0, 1}));
  EXPECT_EQ(evaluate(settings, {detections[0]}, {truth[0]}, 2)[2], (Values{0, 1, 0.5, 1, 0}));
}

TEST(DetectionEvaluate, RefusesWhatDoesNotFit) {
  const auto expect_part = [](const std::string& settings, const Shape& detections, const std::string& part) {
    const std::string message =
        refusal("type: 'DetectionEvaluate' detection_evaluate_param { " + settings + " }",
                {detections, Shape{1, 1, 2, 8}});
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const Shape rows{1, 1, 3, 7};
  expect_part("", rows, "num_classes");
  expect_part("num_classes: 3", Shape{1, 1, 3, 6}, "detections in rows of 7");
  expect_part("num_classes: 3 overlap_threshold: 0", rows, "overlap_threshold");
  expect_part("num_classes: 3 resize_param { }", rows, "name_size_file");
  expect_part("num_classes: 3 name_size_file: '/nowhere'", rows, "cannot open name_size_file \"/nowhere\"");
  for (const Values& row : {found(0, 3, 1, kLeft), found(0, 0, 1, kLeft), found(0.5, 1, 1, kLeft)})
    EXPECT_THROW(evaluate("", {row}, {}), Error);
  EXPECT_THROW(evaluate("", {}, {{0, 0, 0, 0, 0, 1, 1, 0}}), Error);
}

}  // namespace
}  // namespace banyan::testing
