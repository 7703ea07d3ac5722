// Cascade R-CNN's FrcnnOutput, and DetectionEvaluate with the images' sizes.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "layers/bench.hpp"

namespace banyan::testing {
namespace {

using ::testing::HasSubstr;

Values joined_rows(const std::vector<Values>& rows) {
  Values all;
  for (const Values& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

/// Regions of one or two images of 200 x 100, and the probabilities of two classes and the background.
struct HeadScene {
  std::vector<Values> regions, probabilities, shifts;
  std::int64_t images = 1;

  Values found(const std::string& settings) const {
    const auto count = static_cast<std::int64_t>(regions.size());
    Bench bench("type: 'FrcnnOutput' " + settings,
                {Shape{count, static_cast<std::int64_t>(probabilities[0].size())},
                 Shape{count, static_cast<std::int64_t>(shifts[0].size())},
                 Shape{count, static_cast<std::int64_t>(regions[0].size())}, Shape{images, 2}},
                1);
    bench.set_input(0, joined_rows(probabilities));
    bench.set_input(1, joined_rows(shifts));
    bench.set_input(2, joined_rows(regions));
    Values sizes;
    for (std::int64_t image = 0; image < images; ++image) sizes.insert(sizes.end(), {100, 200});
    bench.set_input(3, sizes);
    bench.forward();
    bench.layer().check_results(bench.context());
    return bench.output();
  }
};
constexpr const char* kOneForAll = "bbox_reg_param { cls_aware: false } ";
const Values kOfImage0 = {0, -1, -1, -1, -1, -1, -1};

/// The first two overlap by nine tenths; the third ends outside of the image.
HeadScene three_regions() {
  return {{{0, 10, 10, 49, 49}, {0, 10, 10, 49, 45}, {0, 150, 60, 220, 120}},
          {{0.25, 0.5, 0.25}, {0.25, 0.625, 0.125}, {0.0625, 0.0625, 0.875}},
          {Values(8, 0), Values(8, 0), Values(8, 0)}};
}

TEST(FrcnnOutput, KeepsWhatIsLikelyAndFarFromBetterBoxes) {
  const HeadScene scene = three_regions();
  const Values first = {0, 10, 10, 49, 49, 1, 0.5}, second = {0, 10, 10, 49, 45, 1, 0.625},
               first_as_2 = {0, 10, 10, 49, 49, 2, 0.25}, third = {0, 150, 60, 200, 100, 2, 0.875},
               third_as_1 = {0, 150, 60, 200, 100, 1, 0.0625};
  const auto expect = [&](const std::string& settings, std::vector<Values> rows, std::size_t filled) {
    rows.insert(rows.begin(), kOfImage0);
    rows.insert(rows.end(), filled, kOfImage0);
    EXPECT_EQ(scene.found(kOneForAll + ("frcnn_output_param { " + settings + " }")), joined_rows(rows))
        << settings;
  };
  expect("", {second, third_as_1, third, first_as_2}, 2);
  expect("conf_thr: 0.25", {second, third, first_as_2}, 3);
  expect("conf_thr: 0.26", {second, third}, 4);
  expect("conf_thr: 0.25 iou_thr: 0.95", {second, first, third, first_as_2}, 2);
  expect("conf_thr: 0.25 iou_thr: 0.95 max_det_num: 3", {second, first, third}, 0);
  expect("max_det_num: 1", {third}, 0);
  expect("conf_thr: 0.875 max_det_num: 3", {third}, 2);
  expect("conf_thr: 1 max_det_num: 2", {}, 2);
}

TEST(FrcnnOutput, ComparesTheSharedAreaWithWhatNmsTypeSays) {
  HeadScene scene = three_regions();
  scene.regions = {{0, 0, 0, 9, 9}, {0, 0, 0, 19, 9}, {0, 100, 0, 109, 9}};  // the first is half the second
  const auto count = [&](double first, double second, const std::string& type) {
    scene.probabilities = {{0, first, 0}, {0, second, 0}, {0, 0, 0}};
    const Values found = scene.found(
        kOneForAll + ("frcnn_output_param { iou_thr: 0.75 conf_thr: 0.1 nms_type: '" + type + "' }"));
    std::size_t rows = 0;
    for (std::size_t at = 5; at < found.size(); at += 7) rows += found[at] > 0 ? 1 : 0;
    return rows;
  };
  EXPECT_EQ(count(0.75, 0.5, "IOU"), 2U);
  EXPECT_EQ(count(0.75, 0.5, "IOMU"), 1U);
  EXPECT_EQ(count(0.75, 0.5, "IOFU"), 1U);
  EXPECT_EQ(count(0.5, 0.75, "IOMU"), 1U);
  EXPECT_EQ(count(0.5, 0.75, "IOFU"), 2U);
}

/// The region is 20 pixels wide and 40 high around (19.5, 39.5).
TEST(FrcnnOutput, MovesRegionsByTheShiftsOfTheClass) {
  HeadScene scene;
  scene.regions = {{0, 10, 20, 29, 59, 0.75}};
  scene.probabilities = {{0.25, 0.5, 0.25}};
  scene.shifts = {{9, 9, 9, 9, 0.5, 1, std::log(2) / 0.5, 0, 1, -1, 0, 2 * std::log(0.5)}};
  const std::string scale =
      "bbox_reg_param { bbox_mean: 0.25 bbox_mean: 0 bbox_mean: 0 bbox_mean: 0 bbox_std: 0.5 bbox_std: 0.5 "
      "bbox_std: 0.5 bbox_std: 0.5 } ";
  const Values found = scene.found(scale + "frcnn_output_param { }");
  // Class 1: half a width to the right, half a height down, twice as wide; class 2: three quarters of a
  // width, half a height up, half as high.
  expect_near(found,
              joined_rows({kOfImage0,
                           {0, 29.5 - 19.5, 59.5 - 19.5, 29.5 + 19.5, 59.5 + 19.5, 1, 0.5},
                           {0, 34.5 - 9.5, 19.5 - 9.5, 34.5 + 9.5, 19.5 + 9.5, 2, 0.25}}),
              1e-12);
  // Without cls_aware, numbers 4 to 7 are those of both.
  scene.shifts = {{9, 9, 9, 9, 0.5, 1, std::log(2) / 0.5, 0}};
  const Values alike = scene.found(
      "bbox_reg_param { cls_aware: false bbox_std: [0.5, 0.5, 0.5, 0.5] } "
      "frcnn_output_param { }");
  expect_near(alike,
              joined_rows({kOfImage0,
                           {0, 24.5 - 19.5, 59.5 - 19.5, 24.5 + 19.5, 59.5 + 19.5, 1, 0.5},
                           {0, 24.5 - 19.5, 59.5 - 19.5, 24.5 + 19.5, 59.5 + 19.5, 2, 0.25}}),
              1e-12);
}

TEST(FrcnnOutput, LooksAtEachImageOfABatchAlone) {
  const HeadScene one = three_regions();
  HeadScene two = one;
  two.images = 2;
  for (std::size_t i = 0; i < 3; ++i) {
    two.regions.push_back(one.regions[2 - i]);
    two.regions.back()[0] = 1;
    two.probabilities.push_back(one.probabilities[2 - i]);
    two.shifts.push_back(one.shifts[2 - i]);
  }
  const std::string settings = kOneForAll + std::string("frcnn_output_param { max_det_num: 4 }");
  Values expected = one.found(settings), second = expected;
  for (std::size_t at = 0; at < second.size(); at += 7) second[at] = 1;
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(two.found(settings), expected);
}

TEST(FrcnnOutput, RefusesWhatDoesNotFit) {
  const std::vector<Shape> good = {{3, 4}, {3, 16}, {3, 5}, {1, 2}};
  const auto message = [&](const std::string& settings, const std::vector<Shape>& shapes) {
    return refusal("type: 'FrcnnOutput' " + settings, shapes);
  };
  EXPECT_EQ(message("", good), "accepted");
  EXPECT_THAT(message("", {{3, 1}, {3, 4}, {3, 5}, {1, 2}}), HasSubstr("at least 2 classes"));
  EXPECT_THAT(message("", {{3, 4}, {3, 8}, {3, 5}, {1, 2}}),
              HasSubstr("3 x 16, four numbers for each class"));
  EXPECT_THAT(message(kOneForAll, good), HasSubstr("3 x 8, as cls_aware: false says"));
  EXPECT_THAT(message("", {{3, 4}, {3, 16}, {2, 5}, {1, 2}}), HasSubstr("expected 3 x 5 or x 6"));
  EXPECT_THAT(message("", {{3, 4}, {3, 16}, {3, 5}, {1, 3}}), HasSubstr("height and width of each image"));
  EXPECT_THAT(message("frcnn_output_param { max_det_num: 0 }", good),
              HasSubstr("max_det_num must be positive"));
  EXPECT_THAT(message("frcnn_output_param { iou_thr: -1 }", good), HasSubstr("iou_thr must not be negative"));
  EXPECT_THAT(message("frcnn_output_param { nms_type: 'IOX' }", good), HasSubstr("found \"IOX\""));
  EXPECT_THAT(message("bbox_reg_param { bbox_std: 1 }", good), HasSubstr("expected four times"));
  HeadScene scene = three_regions();
  scene.regions[1][0] = 1;
  try {
    scene.found(kOneForAll);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("region 1 is image 1, 10, 10, 49, 45; expected one of 1 images"));
  }
}

class FrcnnFiles : public ::testing::Test {
 public:
  FrcnnFiles() : folder_(cat(::testing::TempDir(), "banyan_frcnn_", getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~FrcnnFiles() override { std::filesystem::remove_all(folder_); }

 protected:
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string folder_;
};

TEST_F(FrcnnFiles, ShowBoxesInPixelsOfTheImages) {
  write("sizes", "a 50 400\n");
  write("labels", "item { label: 1 name: 'cat' } item { label: 2 name: 'dog' }");
  three_regions().found(kOneForAll + cat("frcnn_output_param { conf_thr: 0.25 save_output_param { "
                                         "output_directory: '",
                                         path("out"), "' output_name_prefix: 'p_' output_format: 'VOC' ",
                                         "label_map_file: '", path("labels"), "' name_size_file: '",
                                         path("sizes"), "' } }"));
  EXPECT_EQ(read("out/p_cat.txt"), "a 0.625 20 5 98 22\n");
  EXPECT_EQ(read("out/p_dog.txt"), "a 0.875 300 30 400 50\na 0.25 20 5 98 24\n");
}

/// Rows of DetectionEvaluate with two classes and an image of 200 x 100 for each of `images`.
std::vector<Values> evaluated(const std::string& settings, const std::vector<Values>& detections,
                              const std::vector<Values>& truth, std::int64_t images = 1,
                              std::int64_t draw = 0) {
  Bench bench("type: 'DetectionEvaluate' detection_evaluate_param { num_classes: 3 " + settings + " }",
              {Shape{static_cast<std::int64_t>(detections.size()), 7, 1, 1},
               Shape{1, 1, static_cast<std::int64_t>(truth.size()), 8}, Shape{images, 2}},
              1);
  bench.set_input(0, joined_rows(detections));
  bench.set_input(1, joined_rows(truth));
  Values sizes;
  for (std::int64_t image = 0; image < images; ++image) sizes.insert(sizes.end(), {100, 200});
  bench.set_input(2, sizes);
  bench.pass.draw = draw;
  bench.forward();
  const Values all = bench.output();
  std::vector<Values> rows;
  for (std::size_t i = 0; i < all.size(); i += 5)
    rows.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(i),
                      all.begin() + static_cast<std::ptrdiff_t>(i) + 5);
  return rows;
}

TEST(DetectionEvaluateOfCascade, CountsWhatIsRightAndWrong) {
  const std::vector<Values> truth = {
      {0, 0, 0, 19, 19, 1, 0, 0}, {0, 50, 0, 69, 19, 2, 0, 1}, {1, 0, 0, 19, 19, 2, 1, 0}, Values(8, -1)};
  const std::vector<Values> found = {kOfImage0,
                                     {0, 0, 0, 19, 19, 1, 0.25},  // found by
                                     {0, 0, 0, 19, 9, 1, 0.5},    // this one, which has half the pixels
                                     {0, 50, 0, 69, 19, 2, 0.5},  // a difficult object
                                     {1, -1, -1, -1, -1, -1, -1},
                                     {1, 0, 0, 19, 8, 2, 0.75}};
  const auto rows = [&](double difficult, bool counts) {
    return std::vector<Values>{{-1, 1, 1, -1, -1},
                               {-1, 2, difficult, -1, -1},
                               {0, 1, 0.5, 1, 0},
                               {0, 1, 0.25, 0, 1},
                               {0, 2, 0.5, counts ? 1.0 : 0.0, 0},
                               {1, 2, 0.75, 0, 1},
                               Values(5, -1),
                               Values(5, -1)};
  };
  EXPECT_EQ(evaluated("", found, truth, 2), rows(2, true));
  EXPECT_EQ(evaluated("evaluate_difficult_gt: false", found, truth, 2), rows(1, false));
}

TEST_F(FrcnnFiles, TellDetectionEvaluateHowLargeTheImagesAre) {
  write("sizes", "a 50 100\nb 200 400\n");
  // The first half of the object's rows; in pixels of the images 5.5 of 10.5, and 19 of 39.
  const std::vector<Values> truth = {{0, 0, 0, 19, 19, 1, 0, 0}}, found = {{0, 0, 0, 19, 9, 1, 0.5}};
  const std::string settings = "name_size_file: '" + path("sizes") + "'";
  const Values right = {0, 1, 0.5, 1, 0}, wrong = {0, 1, 0.5, 0, 1};
  EXPECT_EQ(evaluated(settings, found, truth)[2], right);
  EXPECT_EQ(evaluated(settings, found, truth, 1, 1)[2], wrong);
  EXPECT_EQ(evaluated(settings, found, truth, 1, 2)[2], right);
  EXPECT_EQ(evaluated(settings + " overlap_threshold: 0.48", found, truth, 1, 1)[2], right);
}

TEST(DetectionEvaluateOfCascade, RefusesWhatDoesNotFit) {
  const auto refused = [](const auto& run) -> std::string {
    try {
      run();
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  const std::vector<Values> found = {{1, 0, 0, 19, 9, 1, 0.5}};
  EXPECT_EQ(refused([&] { evaluated("", found, {Values(8, -1)}, 2); }), "");
  EXPECT_THAT(refused([&] { evaluated("", found, {Values(8, -1)}, 1); }),
              HasSubstr("is of image 1; there are 1"));
  const std::string of_two = "type: 'DetectionEvaluate' detection_evaluate_param { num_classes: 3 }";
  EXPECT_THAT(refusal(of_two, {Shape{3, 7}, Shape{2, 8}, Shape{1, 3}}), HasSubstr("expected N x 2"));
  EXPECT_THAT(refusal(of_two, {Shape{3, 6}, Shape{2, 8}, Shape{1, 2}}), HasSubstr("in rows of 7"));
}

}  // namespace
}  // namespace banyan::testing
