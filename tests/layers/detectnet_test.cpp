// DetectNet's layers: images and grids from boxes, boxes from grids, and how good they are, in closed form or
// as OpenCV has it; and the Python layers that they replace.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "layers/bench.hpp"
#include "layers/python_layers.hpp"
#include "layers/rectangle_groups.hpp"

namespace banyan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Images of 6 x 4 pixels, of which a grid of 3 x 2 cells is made.
const std::string kTransformation =
    "type: 'DetectNetTransformation' detectnet_groundtruth_param { image_size_x: 6 image_size_y: 4 stride: 2 "
    "scale_cvg: 1 } ";

/// Labels as the database has them: rows of 16 numbers. `objects`: left, top, width, height, class.
Values label_rows(std::size_t rows, const std::vector<std::array<double, 5>>& objects) {
  Values label(16 * rows, 0);
  label[0] = static_cast<double>(objects.size()), label[1] = 16;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    double* row = &label[16 * (i + 1)];
    std::copy_n(objects[i].begin(), 4, row);
    row[4] = 0.5;
    row[5] = objects[i][4];
    std::fill(row + 6, row + 16, 99);  // not read
  }
  return label;
}
Values concatenated(const std::vector<Values>& parts) {
  Values all;
  for (const Values& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

struct Transformation : Bench {
  Transformation(const std::string& more, const Values& images, const Values& labels,
                 Phase phase = Phase::test, std::int64_t samples = 1)
      : Bench(kTransformation + more,
              {Shape{samples, 3, 4, 6},
               Shape{samples, 1, static_cast<std::int64_t>(labels.size()) / 16 / samples, 16}},
              2, options_of(phase)) {
    set_input(0, images);
    set_input(1, labels);
    forward();
  }
  static BenchOptions options_of(Phase phase) {
    BenchOptions options;
    options.phase = phase;
    return options;
  }
  std::string problem() {
    try {
      layer().check_results(context());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      return error.message();
    }
    return "";
  }
};

Values random_images(std::int64_t samples) { return integers(samples * 3 * 4 * 6, 256, 5); }

TEST(DetectNetTransformation, MakesImagesAndGrids) {
  const Values images = random_images(2);
  const Values labels = concatenated({label_rows(3, {{2, 0, 2, 2, 1}, {0, 2, 2, 2, 4}}), label_rows(3, {})});
  Transformation bench("", images, labels, Phase::test, 2);
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{2, 3, 4, 6}));
  EXPECT_EQ(bench.outputs[1]->shape, (Shape{2, 9, 2, 3}));
  EXPECT_EQ(bench.output(0), images);
  Values grid(2 * 9 * 6, 0);
  const double cell[] = {1, 0, 0, 2, 2, 0.5, 0.5, 1, 1};  // the class 4 is not mapped
  for (std::size_t channel = 0; channel < 9; ++channel) grid[6 * channel + 1] = cell[channel];
  EXPECT_EQ(bench.output(1), grid);
  EXPECT_EQ(bench.problem(), "");
}

TEST(DetectNetTransformation, ScalesTestImagesToItsSize) {
  Bench bench(kTransformation, {Shape{1, 3, 8, 3}, Shape{1, 1, 2, 16}}, 2,
              Transformation::options_of(Phase::test));
  bench.set_input(0, Values(3 * 8 * 3, 7));
  bench.set_input(1, label_rows(2, {{1, 4, 1, 4, 1}}));
  bench.forward();
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{1, 3, 4, 6}));
  expect_near(bench.output(0), Values(3 * 4 * 6, 7), 1e-6);
  EXPECT_EQ(bench.output(1)[4], 1) << "the middle cell of the lower row";
}

TEST(DetectNetTransformation, SubtractsOneOrThreeMeanValues) {
  const Values images = random_images(1);
  for (const auto& [settings, mean] : {std::pair{"mean_value: 5", std::array{5, 5, 5}},
                                       {"mean_value: 1 mean_value: 20 mean_value: 300", {1, 20, 300}}}) {
    Values expected = images;
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] -= mean[i / 24];
    Transformation bench("transform_param { " + std::string(settings) + " }", images, label_rows(1, {}));
    EXPECT_EQ(bench.output(0), expected) << settings;
  }
}

TEST(DetectNetTransformation, SubtractsAMeanFileOfAnySize) {
  const std::string path = cat(::testing::TempDir(), "banyan_detectnet_mean_", getpid(), ".binaryproto");
  const auto run = [&](int channels, int height, int width, const Values& values) {
    caffe::BlobProto mean;
    mean.set_num(1), mean.set_channels(channels), mean.set_height(height), mean.set_width(width);
    for (const double value : values) mean.add_data(static_cast<float>(value));
    std::ofstream(path, std::ios::binary) << mean.SerializeAsString();
    Transformation bench("transform_param { mean_file: '" + path + "' }", Values(72, 100), label_rows(1, {}));
    return bench.output(0);
  };
  const Values mean = spread_values(72, 3, 50);
  Values expected;
  for (const double value : mean) expected.push_back(100 - value);
  expect_near(run(3, 4, 6, mean), expected, 1e-5);  // f32
  expected.clear();
  for (const double value : {10, 20, 30}) expected.insert(expected.end(), 24, 100 - value);
  expect_near(run(3, 1, 2, {10, 10, 20, 20, 30, 30}), expected, 1e-5);
  try {
    run(1, 4, 6, Values(24, 1));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("has 1 channels; expected 3"));
  }
  std::remove(path.c_str());
}

TEST(DetectNetTransformation, WarnsOfSettingsWithoutEffect) {
  const auto warnings = [](const std::string& settings) {
    ::testing::internal::CaptureStderr();
    Transformation bench("transform_param { " + settings + " }", random_images(1), label_rows(1, {}));
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(warnings("mean_value: 3 mirror: true"),
              HasSubstr("of transform_param only mean_value and mean_file have an effect"));
  EXPECT_EQ(warnings("mean_value: 3"), "");
}

TEST(DetectNetTransformation, ALabelOfZerosHasNoObjects) {
  Transformation bench("", random_images(1), Values(48, 0));
  EXPECT_EQ(bench.output(1), Values(9 * 6, 0));
  EXPECT_EQ(bench.problem(), "");
}

TEST(DetectNetTransformation, NamesLabelsThatMakeNoSense) {
  const auto problem = [](Values label) {
    Transformation bench("", random_images(2), concatenated({label_rows(3, {}), std::move(label)}),
                         Phase::test, 2);
    const std::string found = bench.problem();
    EXPECT_EQ(bench.problem(), "") << "said once";
    return found;
  };
  const auto changed = [](std::size_t place, double value) {
    Values label = label_rows(3, {{0, 0, 2, 2, 1}, {0, 0, 2, 2, 1}});
    label[place] = value;
    return label;
  };
  EXPECT_EQ(problem(changed(0, 2)), "");
  EXPECT_THAT(
      problem(changed(0, 3)),
      AllOf(HasSubstr("layer \"tested\""),
            HasSubstr("the label of sample 1 begins with 3, 16; expected the number of its objects, at "
                      "most 2, and 16")));
  EXPECT_THAT(problem(changed(0, 1.5)), HasSubstr("begins with 1.5, 16"));
  EXPECT_THAT(problem(changed(0, -1)), HasSubstr("begins with -1, 16"));
  EXPECT_THAT(problem(changed(0, std::nan(""))), HasSubstr("begins with nan, 16"));
  EXPECT_THAT(problem(changed(1, 15)), HasSubstr("begins with 2, 15"));
  EXPECT_THAT(problem(changed(16 + 5, -1)),
              HasSubstr("object 0 of sample 1 is 0, 0, 2, 2 with the class -1; expected finite pixels"));
  EXPECT_THAT(problem(changed(32 + 2, INFINITY)), HasSubstr("object 1 of sample 1 is 0, 0, inf, 2"));
}

const std::string kChanging =
    "detectnet_augmentation_param { flip_prob: 0.5 scale_prob: 0.5 scale_min: 0.8 scale_max: 1.2 "
    "rotation_prob: "
    "0.5 max_rotate_degree: 20 hue_rotation_prob: 0.5 desaturation_prob: 0.5 shift_x: 3 shift_y: 3 }";

/// Outputs in training for some of four samples.
std::array<Values, 2> trained_with(const std::vector<std::size_t>& samples, std::int64_t first,
                                   std::int64_t stride, std::int64_t draw = 0) {
  const Values images = random_images(4);
  std::vector<Values> some_images, labels;
  for (const std::size_t i : samples) {
    const auto begin = images.begin() + static_cast<std::ptrdiff_t>(72 * i);
    some_images.emplace_back(begin, begin + 72);
    labels.push_back(label_rows(2, {{static_cast<double>(i), 0, 3, 4, 1}}));
  }
  Bench bench(kTransformation + kChanging,
              {Shape{static_cast<std::int64_t>(samples.size()), 3, 4, 6},
               Shape{static_cast<std::int64_t>(samples.size()), 1, 2, 16}},
              2);
  bench.set_input(0, concatenated(some_images));
  bench.set_input(1, concatenated(labels));
  bench.pass.samples.first = first, bench.pass.samples.stride = stride;
  bench.pass.draw = draw;
  bench.forward();
  return {bench.output(0), bench.output(1)};
}

TEST(DetectNetTransformation, SeveralDevicesMakeWhatOneDoes) {
  const auto all = trained_with({0, 1, 2, 3}, 0, 1);
  const auto part = [](const Values& values, std::size_t sample, std::size_t of = 4) {
    const std::size_t length = values.size() / of;
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(sample * length);
    return Values(begin, begin + static_cast<std::ptrdiff_t>(length));
  };
  const auto even = trained_with({0, 2}, 0, 2), odd = trained_with({1, 3}, 1, 2),
             last = trained_with({2, 3}, 2, 1);
  for (std::size_t output = 0; output < 2; ++output) {
    EXPECT_EQ(even[output], concatenated({part(all[output], 0), part(all[output], 2)}));
    EXPECT_EQ(odd[output], concatenated({part(all[output], 1), part(all[output], 3)}));
    EXPECT_EQ(last[output], concatenated({part(all[output], 2), part(all[output], 3)}));
  }
  EXPECT_NE(trained_with({0, 1, 2, 3}, 0, 1, 1)[0], all[0]) << "another pass";
  EXPECT_EQ(trained_with({0, 1, 2, 3}, 0, 1, 0), all);
}

TEST(DetectNetTransformation, RefusesWhatDoesNotFit) {
  const Shape images{2, 3, 4, 6}, labels{2, 1, 3, 16};
  const auto expect_part = [](const std::string& more, const std::vector<Shape>& inputs, const char* part) {
    EXPECT_THAT(refusal(kTransformation + more, inputs), HasSubstr(part)) << more;
  };
  expect_part("", {Shape{2, 1, 4, 6}, labels}, "has 1 channels; expected 3: B, G, R");
  expect_part("", {images, Shape{2, 1, 3, 15}}, "expected 2 x 1 x rows x 16");
  expect_part("", {images, Shape{1, 1, 3, 16}}, "expected 2 x 1 x rows x 16");
  expect_part("", {images, Shape{2}}, "expected 2 x 1 x rows x 16");
  expect_part("transform_param { mean_value: 1 mean_value: 2 }", {images, labels}, "2 values of mean_value");
  for (const char* field :
       {"resize_param", "noise_param", "emit_constraint", "distort_param", "expand_param"})
    expect_part(
        cat("detectnet_augmentation_param { ", field, " { } }"), {images, labels},
        cat("detectnet_augmentation_param.", field, " is not supported: images change as in").c_str());
  expect_part("detectnet_augmentation_param { flip_prob: 2 }", {images, labels}, "flip_prob");
}

/// OpenCV's groupRectangles of these: three heaps and one alone. The third heap of three lies within the
/// first.
TEST(RectangleGroups, AreOpenCvs) {
  const std::vector<Rectangle> rectangles = {
      {12, 9, 38, 28},   {8, 14, 43, 31},  {7, 9, 39, 30},   {11, 12, 38, 28},  {11, 14, 37, 27},
      {100, 19, 53, 60}, {99, 20, 51, 61}, {98, 22, 52, 63}, {102, 18, 49, 61}, {15, 16, 23, 17},
      {17, 12, 17, 21},  {17, 14, 17, 17}, {97, 23, 51, 61}, {8, 12, 38, 32},   {200, 200, 30, 30}};
  using Found = std::vector<std::pair<Rectangle, int>>;
  const auto grouped = [&](int threshold, double eps) {
    Found found;
    for (const RectangleGroup& group : group_rectangles(rectangles, threshold, eps))
      found.emplace_back(group.mean, group.members);
    return found;
  };
  const Found heaps = {{{10, 12, 39, 29}, 6}, {{99, 20, 51, 61}, 5}};
  for (const int threshold : {1, 2, 3, 4}) EXPECT_EQ(grouped(threshold, 0.2), heaps) << threshold;
  EXPECT_EQ(grouped(5, 0.2), Found{heaps[0]});
  EXPECT_EQ(grouped(6, 0.2), Found{});
  EXPECT_EQ(grouped(1, 0.05), (Found{{{101, 18, 51, 60}, 2}, {{98, 22, 52, 62}, 2}}));
  Found each;
  for (const Rectangle& rectangle : rectangles) each.emplace_back(rectangle, 1);
  EXPECT_EQ(grouped(0, 0.2), each);
  EXPECT_TRUE(group_rectangles({}, 1, 0.2).empty());
}

TEST(RectangleGroups, ConnectNeighboursOfNeighbours) {
  // Each is 2 pixels from the next; 0.2 * (10 + 10) / 2 = 2.
  std::vector<Rectangle> chain = {{0, 0, 10, 10}, {2, 0, 10, 10}, {4, 0, 10, 10}, {9, 0, 10, 10}};
  std::vector<RectangleGroup> groups = group_rectangles(chain, 1, 0.2);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].mean, (Rectangle{2, 0, 10, 10}));
  EXPECT_EQ(groups[0].members, 3);
  chain.push_back({6, 0, 10, 10});  // the missing one
  chain.push_back({8, 1, 10, 10});
  groups = group_rectangles(chain, 1, 0.2);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].members, 6);
  EXPECT_EQ(groups[0].mean, (Rectangle{5, 0, 10, 10}));  // 29 / 6 and 1 / 6
}

TEST(RectangleGroups, TakeRectanglesOfAnySize) {
  const int far = 1000000000;
  for (const Rectangle& one : {Rectangle{far, far, far, far}, {-far, -far, far, far}, {0, 0, -far, -far}}) {
    const auto groups = group_rectangles({one, one, {0, 0, 5, 5}}, 1, 1000);
    for (const RectangleGroup& group : groups) EXPECT_GE(group.members, 2);
  }
}

/// A map of 4 x 3 cells of 16 pixels; each cell states its box in pixels of the image.
struct CellMap {
  Values coverage = Values(12, 0), boxes = Values(48, 0);
  void state(std::size_t row, std::size_t column, double cover, const std::array<double, 4>& box) {
    const std::size_t cell = 4 * row + column;
    coverage[cell] = cover;
    for (std::size_t k = 0; k < 4; ++k)
      boxes[12 * k + cell] = box[k] - 16 * static_cast<double>(k % 2 == 0 ? column : row);
  }
};
struct Clusters : Bench {
  Clusters(const std::string& type, const std::string& settings, const CellMap& map)
      : Bench(
            "type: '" + type + "' cluster_boxes_param { image_size_x: 64 image_size_y: 48 " + settings + " }",
            {Shape{1, 1, 3, 4}, Shape{1, 4, 3, 4}}, 1) {
    set_input(0, map.coverage);
    set_input(1, map.boxes);
    forward();
  }
};

CellMap of_two_objects() {
  CellMap map;
  map.state(0, 0, 0.7, {3, 4, 33.4, 30});
  map.state(0, 1, 0.9, {4, 4, 33, 31});
  map.state(1, 1, 0.6f, {5.4, 4, 35, 32});  // 0.6 counts
  map.state(2, 1, 0.59, {4, 4, 34, 31});    // 0.59 does not
  map.state(1, 3, 1, {40, 10, 60, 45});
  map.state(2, 3, 1, {40, 11, 60, 46});
  return map;
}

TEST(ClusterDetections, ListsTheMeansOfGroups) {
  const CellMap map = of_two_objects();
  const std::string groups = "rect_threshold: 1 rect_eps: 0.1 max_boxes: 3 ";
  // Widths 30, 29, 30 and heights 26, 27, 28 of whole pixels; the second: 40, 10 or 11 and 35 high. The mean
  // of 10 and 11 is rounded to the even number. Confidences in half precision, of which 1024ths are left
  // above 1.
  const double three = 1125. / 1024, two = std::round(std::log(2.) * 2048) / 2048;
  EXPECT_EQ(Clusters("ClusterDetections", groups, map).output(),
            (Values{4, 4, 34, 31, three, 40, 10, 60, 45, two, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Clusters("ClusterDetections", groups + "min_height: 27", map).output(),
            (Values{4, 4, 34, 31, three, 40, 10, 60, 45, two, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Clusters("ClusterDetections", groups + "min_height: 28", map).output(),
            (Values{40, 10, 60, 45, two, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Clusters("ClusterDetections", "rect_threshold: 2 rect_eps: 0.1 max_boxes: 1", map).output(),
            (Values{4, 4, 34, 31, three}));
  EXPECT_EQ(
      Clusters("ClusterDetections", "coverage_threshold: 0.95 max_boxes: 1 rect_threshold: 0", map).output(),
      (Values{40, 10, 60, 45, 0}));
  EXPECT_EQ(Clusters("ClusterDetections", "max_boxes: 2", map).output(), Values(10))
      << "more than 3 of a group";
  EXPECT_EQ(Clusters("ClusterDetections", "max_boxes: 2 rect_threshold: 0", CellMap()).output(), Values(10));
}

/// 0.02 * (50 + 50) / 2 is one pixel, though the float 0.02 is a little less.
TEST(ClusterDetections, TakesItsToleranceAsItIsWritten) {
  CellMap map;
  map.state(0, 0, 1, {0, 0, 50, 50});
  map.state(0, 1, 1, {1, 0, 51, 50});
  EXPECT_EQ(Clusters("ClusterDetections", "rect_threshold: 1 rect_eps: 0.02 max_boxes: 1", map).output()[2],
            50);
}

TEST(ClusterDetections, TakesAnyNumbers) {
  CellMap map;
  map.state(0, 0, 1, {std::nan(""), -INFINITY, 1e300, INFINITY});
  map.state(0, 1, std::nan(""), {0, 0, 50, 50});
  const Values found = Clusters("ClusterDetections", "rect_threshold: 0 max_boxes: 2", map).output();
  EXPECT_EQ(std::count(found.begin() + 5, found.end(), 0), 5);
}

TEST(ClusterGroundtruth, ListsEachBoxOnce) {
  CellMap map;
  map.state(0, 1, 1, {10, 20, 40, 30});
  map.state(0, 2, 0.1, {10, 20, 40, 30});
  map.state(1, 1, 1, {600.3, 20, 700.2, 30});  // to halves
  map.state(2, 2, 1, {10, 20, 40, 30});
  map.state(2, 3, 1, {10 + 1e-5, 20, 40, 30});  // as a float may give it
  map.boxes[0] = 99;                            // not covered
  EXPECT_EQ(Clusters("ClusterGroundtruth", "max_boxes: 3", map).output(),
            (Values{10, 20, 40, 30, 0, 600.5, 20, 700, 30, 0, 0, 0, 0, 0, 0}));
}

TEST(ClusterGroundtruth, TakesAnyNumbers) {
  CellMap map;
  for (const std::size_t cell : {0, 1, 2}) map.state(0, cell, 1, {NAN, 20, HUGE_VAL, cell == 0 ? 0.0 : -0.0});
  map.state(1, 0, 1, {10, 20, 40, 30});
  const Values found = Clusters("ClusterGroundtruth", "max_boxes: 3", map).output();
  EXPECT_TRUE(std::isnan(found[0]));
  EXPECT_EQ(Values(found.begin() + 1, found.end()),
            (Values{20, HUGE_VAL, 0, 0, 10, 20, 40, 30, 0, 0, 0, 0, 0, 0}));
}

TEST(ClusterGroundtruth, KeepsTheFirstAndWarnsOnce) {
  CellMap map;
  for (std::size_t i = 0; i < 4; ++i) {
    const double x = 10 * static_cast<double>(i);
    map.state(0, i, 1, {x, 1, x + 8, 9});
  }
  ::testing::internal::CaptureStderr();
  Clusters bench("ClusterGroundtruth", "max_boxes: 3", map);
  EXPECT_EQ(bench.output(), (Values{0, 1, 8, 9, 0, 10, 1, 18, 9, 0, 20, 1, 28, 9, 0}));
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      HasSubstr("layer \"tested\" (ClusterGroundtruth): an image has 4 boxes; only the first 3 (max_boxes) "
                "are kept, as in all that follow"));
  ::testing::internal::CaptureStderr();
  bench.forward();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(ClusterGroundtruth, OneDeviceWarnsForAll) {
  CellMap map;
  for (std::size_t i = 0; i < 2; ++i) map.state(0, i, 1, {10.0 * static_cast<double>(i), 1, 18, 9});
  const auto warnings = [&](const std::string& settings) {
    ::testing::internal::CaptureStderr();
    Clusters first("ClusterGroundtruth", settings, map), second("ClusterGroundtruth", settings, map);
    return ::testing::internal::GetCapturedStderr();
  };
  for (int run = 0; run < 2; ++run) {
    const std::string text = warnings("max_boxes: 1");
    const std::size_t first = text.find("only the first 1 (max_boxes)");
    EXPECT_NE(first, std::string::npos) << "run " << run;
    EXPECT_EQ(text.find("max_boxes", first + 30), std::string::npos) << text;
  }
}

TEST(ClusterGroundtruth, HasAListForEachClassAndSample) {
  Bench bench(
      "type: 'ClusterGroundtruth' cluster_boxes_param { image_size_x: 32 image_size_y: 35 num_classes: 2 "
      "max_boxes: "
      "1 }",
      {Shape{2, 2, 3, 3}, Shape{2, 4, 3, 3}}, 2);  // only 2 x 2 cells are of the image, 17 pixels high
  Values coverage(36), boxes(72);
  coverage[3] = coverage[9 + 2] = coverage[18 + 8] = coverage[27 + 4] = 1;
  for (const std::size_t sample : {0, 1})
    for (std::size_t k = 0; k < 4; ++k)
      for (std::size_t cell = 0; cell < 9; ++cell)
        boxes[36 * sample + 9 * k + cell] = 5 + 10 * static_cast<double>(k) + static_cast<double>(sample);
  bench.set_input(0, coverage);
  bench.set_input(1, boxes);
  bench.forward();
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{2, 1, 5}));
  EXPECT_EQ(bench.output(0), (Values{5, 15 + 17, 25, 35 + 17, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(bench.output(1), (Values{0, 0, 0, 0, 0, 6 + 16, 16 + 17, 26 + 16, 36 + 17, 0}));
}

/// What the grid was made from comes out again.
TEST(ClusterGroundtruth, UndoesTheTransformation) {
  Bench transformation(
      "type: 'DetectNetTransformation' detectnet_groundtruth_param { image_size_x: 1248 image_size_y: 352 "
      "stride: 16 "
      "scale_cvg: 1 max_cvg_len: 500 }",
      {Shape{1, 3, 352, 1248}, Shape{1, 1, 4, 16}}, 2, [] {
        BenchOptions options;
        options.phase = Phase::test;
        options.dtype = DType::f32;
        return options;
      }());
  transformation.set_input(0, Values(3 * 352 * 1248, 0));
  // KITTI's boxes have hundredths of pixels.
  transformation.set_input(1, label_rows(4, {{599.41, 156.4, 233.84, 130.15, 1},
                                             {3.3, 7.77, 60.03, 44.44, 1},
                                             {1100.4, 20.25, 199.9, 90.1, 1}}));
  transformation.forward();
  const Values grid = transformation.output(1);
  constexpr std::int64_t kCells = 22 * 78;
  BenchOptions f32;
  f32.dtype = DType::f32;
  Bench list(
      "type: 'ClusterGroundtruth' cluster_boxes_param { image_size_x: 1248 image_size_y: 352 max_boxes: 4 }",
      {Shape{1, 1, 22, 78}, Shape{1, 4, 22, 78}}, 1, f32);
  list.set_input(0, Values(grid.begin() + 8 * kCells, grid.end()));
  list.set_input(1, Values(grid.begin() + kCells, grid.begin() + 5 * kCells));
  list.forward();
  // By rows of cells. Half precision: 512ths above 2, 128ths above 4, ..., whole numbers above 1024.
  expect_near(list.output(), {3.3,   7.77,  63.33,  52.21,  0, 1100, 20.25, 1248, 110.35, 0,
                              599.5, 156.4, 833.25, 286.55, 0, 0,    0,     0,    0,      0},
              0.0005);
}

TEST(ClusterBoxes, RefuseWhatDoesNotFit) {
  const Shape coverage{2, 1, 3, 4}, boxes{2, 4, 3, 4};
  const auto expect_part = [](const std::string& settings, const std::vector<Shape>& inputs,
                              const char* part) {
    for (const char* type : {"ClusterDetections", "ClusterGroundtruth"})
      EXPECT_THAT(refusal(cat("type: '", type, "' cluster_boxes_param { ", settings, " }"), inputs),
                  HasSubstr(part))
          << settings;
  };
  expect_part("stride: 0", {coverage, boxes}, "stride must be positive");
  expect_part("image_size_x: 15", {coverage, boxes}, "an image of 15 x 384 holds no cell of 16 pixels");
  expect_part("max_boxes: 0", {coverage, boxes}, "max_boxes must be positive");
  expect_part("num_classes: 3", {coverage, boxes},
              "there are 1 outputs; expected one for each of the 3 classes");
  expect_part("", {Shape{2, 2, 3, 4}, boxes}, "has 2 channels; expected 1, one for each class");
  expect_part("", {coverage, coverage}, "expected 2 x 4 x 3 x 4");
  expect_part("", {coverage, Shape{2, 4, 3, 5}}, "expected 2 x 4 x 3 x 4");
}

struct ScoredBoxes : Bench {
  ScoredBoxes(const std::string& settings, const Values& truth, const Values& detections)
      : Bench("type: 'ScoreDetections' score_detections_param { " + settings + " }",
              {Shape{1, static_cast<std::int64_t>(truth.size()) / 5, 5},
               Shape{1, static_cast<std::int64_t>(detections.size()) / 5, 5}},
              1) {
    set_input(0, truth);
    set_input(1, detections);
    forward();
  }
};

TEST(ScoreDetections, TellsRightFromWrongAndMissed) {
  // The second detection overlaps the first box by 9 / 11, the third by more, but the second comes first.
  ScoredBoxes bench("", {0, 0, 10, 10, 0, 50, 50, 60, 60, 0, 0, 0, 0, 0, 0},
                    {30, 30, 40, 40, 3, 1, 0, 11, 10, 2, 0, 0, 10, 10, 1, 0, 0, 0, 0, 9});
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{1, 7, 5}));
  EXPECT_EQ(bench.output(), (Values{1,  0, 11, 10, 1, 30, 30, 40, 40, 2, 0, 0, 10, 10, 2, 50, 50, 60,
                                    60, 3, 0,  0,  0, 0,  0,  0,  0,  0, 0, 0, 0,  0,  0, 0,  0}));
}

TEST(ScoreDetections, ADetectionIsRightForOneBoxOnly) {
  ScoredBoxes bench("overlap_threshold: 0.5", {0, 0, 10, 10, 0, 0, 0, 10, 9, 0}, {0, 0, 10, 10, 1});
  EXPECT_EQ(bench.output(), (Values{0, 0, 10, 10, 1, 0, 0, 10, 9, 3, 0, 0, 0, 0, 0}));
}

/// As decimal numbers in a file; one of these floats is more, the other less.
TEST(ScoreDetections, TheThresholdItselfIsEnough) {
  for (const auto& [threshold, width] : {std::pair{"0.6", 6.}, {"0.7", 7.}}) {
    const std::string settings = cat("overlap_threshold: ", threshold);
    EXPECT_EQ(ScoredBoxes(settings, {0, 0, 10, 10, 0}, {0, 0, width, 10, 0}).output()[4], 1) << threshold;
    EXPECT_EQ(ScoredBoxes(settings, {0, 0, 10, 10, 0}, {0, 0, width - 0.01, 10, 0}).output()[4], 2)
        << threshold;
  }
}

TEST(ScoreDetections, SamplesAreApart) {
  Bench bench("type: 'ScoreDetections'", {Shape{2, 1, 5}, Shape{2, 1, 5}}, 1);
  bench.set_input(0, {0, 0, 10, 10, 0, 0, 0, 0, 0, 0});
  bench.set_input(1, {0, 0, 0, 0, 0, 0, 0, 10, 10, 0});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{0, 0, 10, 10, 3, 0, 0, 0, 0, 0, 0, 0, 10, 10, 2, 0, 0, 0, 0, 0}));
  for (const std::vector<Shape>& inputs :
       {std::vector<Shape>{{2, 1, 5}, {1, 1, 5}}, {{2, 1, 5}, {2, 1, 4}}, {{2, 5}, {2, 1, 5}}})
    EXPECT_THAT(refusal("type: 'ScoreDetections'", inputs), HasSubstr("samples x boxes x 5"));
}

Values precision_of(const Values& verdicts) {
  Values rows;
  for (const double verdict : verdicts) rows.insert(rows.end(), {1, 2, 3, 4, verdict});
  Bench bench("type: 'PrecisionRecall'", {Shape{1, static_cast<std::int64_t>(verdicts.size()), 5}}, 3);
  bench.set_input(0, rows);
  bench.forward();
  return {bench.output(0)[0], bench.output(1)[0], bench.output(2)[0]};
}

TEST(PrecisionRecall, AreSharesInPercent) {
  EXPECT_EQ(precision_of({1, 1, 1, 2, 3, 3, 0, 0}), (Values{45, 75, 60}));
  EXPECT_EQ(precision_of({1, 1}), (Values{100, 100, 100}));
  EXPECT_EQ(precision_of({2, 2}), (Values{0, 0, 0}));
  EXPECT_EQ(precision_of({3}), (Values{0, 0, 0}));
  EXPECT_EQ(precision_of({0, 0, 0}), (Values{0, 0, 0}));
  BenchOptions options;
  try {
    const Bench bench("type: 'PrecisionRecall'", {Shape{1, 2, 4}}, 3, options);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("expected ScoreDetections' rows, samples x rows x 5"));
  }
}

caffe::LayerParameter of_detectnet(const std::string& module, const std::string& layer,
                                   const std::string& settings = "") {
  caffe::LayerParameter python;
  python.set_name("d");
  python.set_type("Python");
  python.mutable_python_param()->set_module("caffe.layers.detectnet." + module);
  python.mutable_python_param()->set_layer(layer);
  python.mutable_python_param()->set_param_str(settings);
  const auto native = native_layer(python, Phase::test);
  if (!native.has_value()) return {};
  EXPECT_FALSE(native->has_python_param());
  EXPECT_EQ(native->name(), "d");
  return *native;
}

TEST(PythonLayersOfDetectNet, BecomeNativeOnes) {
  for (const char* text :
       {"1248, 352, 16, 0.6, 3, 0.02, 22", "1248,352,16,0.6,3,0.02,22", " 1248 ,352\n,16,.6,3,0.02,22 "}) {
    const caffe::LayerParameter layer = of_detectnet("clustering", "ClusterDetections", text);
    EXPECT_EQ(layer.type(), "ClusterDetections");
    const caffe::ClusterBoxesParameter& settings = layer.cluster_boxes_param();
    EXPECT_EQ(settings.image_size_x(), 1248u) << text;
    EXPECT_EQ(settings.image_size_y(), 352u);
    EXPECT_EQ(settings.stride(), 16u);
    EXPECT_EQ(settings.coverage_threshold(), 0.6f) << text;
    EXPECT_EQ(settings.rect_threshold(), 3u);
    EXPECT_EQ(settings.rect_eps(), 0.02f);
    EXPECT_EQ(settings.min_height(), 22u);
    EXPECT_EQ(settings.num_classes(), 1u);
    EXPECT_EQ(settings.max_boxes(), 50u);
  }
  const caffe::ClusterBoxesParameter more =
      of_detectnet("clustering", "ClusterDetections", "640, 640, 8, 0.05, 1, 0.025, 10, 2, 100, 7")
          .cluster_boxes_param();
  EXPECT_EQ(more.num_classes(), 2u);
  EXPECT_EQ(more.max_boxes(), 100u);
  const caffe::LayerParameter truth = of_detectnet("clustering", "ClusterGroundtruth", "1248, 352, 16");
  EXPECT_EQ(truth.type(), "ClusterGroundtruth");
  EXPECT_EQ(truth.cluster_boxes_param().image_size_x(), 1248u);
  EXPECT_EQ(truth.cluster_boxes_param().image_size_y(), 352u);
  EXPECT_EQ(truth.cluster_boxes_param().stride(), 16u);
  EXPECT_EQ(of_detectnet("clustering", "ClusterGroundtruth", "8,8,8,3").cluster_boxes_param().num_classes(),
            3u);
  EXPECT_EQ(of_detectnet("mean_ap", "ScoreDetections").type(), "ScoreDetections");
  const auto threshold = [](const char* text) {
    return of_detectnet("mean_ap", "ScoreDetections", text).score_detections_param().overlap_threshold();
  };
  EXPECT_EQ(threshold(""), 0.7f);
  EXPECT_EQ(threshold("0.5"), 0.5f);
  EXPECT_EQ(threshold(" 1e-1\n"), 0.1f);
  for (const char* other : {"0.5, 2", "much", "0.5x", ","}) EXPECT_EQ(threshold(other), 0.7f) << other;
  EXPECT_EQ(of_detectnet("mean_ap", "mAP").type(), "PrecisionRecall");
  for (const auto& [module, layer] :
       {std::pair{"clustering", "Other"}, {"mean_ap", "ClusterDetections"}, {"other", "mAP"}})
    EXPECT_EQ(of_detectnet(module, layer).type(), "") << layer;
}

TEST(PythonLayersOfDetectNet, SayWhatTheyDoNotUnderstand) {
  const auto expect_part = [](const char* layer, const char* settings, const char* part) {
    try {
      of_detectnet("clustering", layer, settings);
      ADD_FAILURE() << settings;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      EXPECT_THAT(error.message(), HasSubstr(part)) << settings;
    }
  };
  expect_part("ClusterDetections", "1248, 352, 16",
              "layer \"d\" (Python, \"ClusterDetections\"): param_str has 3 numbers; expected image_size_x, "
              "image_size_y, stride, coverage_threshold, rect_threshold, rect_eps, min_height, num_classes, "
              "max_boxes, of which num_classes and max_boxes may be left out");
  expect_part("ClusterGroundtruth", "1248, 352", "param_str has 2 numbers");
  expect_part("ClusterGroundtruth", "", "param_str");
  expect_part("ClusterGroundtruth", "1248, x, 16", "image_size_y cannot be \"x\"");
  expect_part("ClusterGroundtruth", "1248, -1, 16", "image_size_y cannot be \"-1\"");
  expect_part("ClusterGroundtruth", "1248, , 16", "image_size_y cannot be \"\"");
  expect_part("ClusterDetections", "1248, 352, 16, 0.6, 3.5, 0.02, 22", "rect_threshold cannot be \"3.5\"");
}

TEST(PythonLayersOfDetectNet, RunAsTheyStandInAFile) {
  Bench bench(
      "type: 'Python' python_param { module: 'caffe.layers.detectnet.clustering' layer: 'ClusterGroundtruth' "
      "param_str: '64, 48, 16' }",
      {Shape{1, 1, 3, 4}, Shape{1, 4, 3, 4}}, 1);
  CellMap map;
  map.state(1, 1, 1, {10, 20, 30, 40});
  bench.set_input(0, map.coverage);
  bench.set_input(1, map.boxes);
  bench.forward();
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{1, 50, 5}));
  const Values found = bench.output();
  EXPECT_EQ(Values(found.begin(), found.begin() + 6), (Values{10, 20, 30, 40, 0, 0}));
}

}  // namespace
}  // namespace banyan::testing
