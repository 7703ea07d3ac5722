// BoxOutput, BoxGroupOutput and DecodeBBox on maps of a few positions.
#include <gmock/gmock.h>

#include <limits>

#include "layers/bench.hpp"

namespace banyan::testing {
namespace {

using ::testing::HasSubstr;

/// A field of 8 x 8 pixels at two positions 8 pixels apart; the scores of objects are 1 and 2.
const std::string kField = "field_w: 8 field_h: 8 downsample_rate: 8 ";
std::string with_small_ones(const std::string& settings) {
  return settings.find("min_size") == std::string::npos ? settings + " min_size: 1" : settings;
}
struct OneMap : Bench {
  /// `shifts`: x, y, width and height, each of both positions.
  explicit OneMap(const std::string& settings, const Values& shifts = Values(8), const std::string& more = "")
      : Bench("type: 'BoxOutput' box_output_param { " + kField + with_small_ones(settings) + " } " + more,
              {Shape{1, 6, 1, 2}}, 2) {
    Values map{0.5, 0.5, 1.5, 2.5};
    map.insert(map.end(), shifts.begin(), shifts.end());
    set_input(0, map);
    forward();
  }
};

TEST(BoxOutput, SortsAndLimitsWhatIsLikely) {
  OneMap both("");
  EXPECT_EQ(both.outputs[0]->shape, (Shape{2, 5}));
  EXPECT_EQ(both.output(), (Values{0, 8, 0, 16, 8, 0, 0, 0, 8, 8}));
  EXPECT_EQ(both.output(1), (Values{0, 8, 0, 16, 8, 2, 0, 0, 0, 8, 8, 1}));
  const Values best{0, 8, 0, 16, 8};
  for (const char* one : {"fg_thr: 1.5", "fg_thr: 2", "max_nms_num: 1", "max_post_nms_num: 1"})
    EXPECT_EQ(OneMap(one).output(), best) << one;
  for (const char* none : {"fg_thr: 3", "min_size: 8.5"}) {
    OneMap found(none);
    EXPECT_EQ(found.output(), (Values{0, 1, 1, 10, 10})) << none;
    EXPECT_EQ(found.output(1), Values(6));
  }
}

TEST(BoxOutput, DecodesWithinLimits) {
  const double large = 100;
  // Centres move by half of 8 pixels at most, sides by a factor of 2; boxes end with the map.
  EXPECT_EQ(OneMap("", {large, 0, 0, 0, 0, 0, 0, 0}).output(), (Values{0, 8, 0, 16, 8, 0, 4, 0, 12, 8}));
  EXPECT_EQ(OneMap("field_xyr: 4", {large, 0, 0, 0, 0, 0, 0, 0}).output(),
            (Values{0, 8, 0, 16, 8, 0, 2, 0, 10, 8}));
  expect_near(OneMap("fg_thr: 2 field_whr: 4", {0, 0, 0, 0, 0, -large, 0, -large}).output(),
              {0, 11, 3, 13, 5}, 1e-14);
  expect_near(OneMap("fg_thr: 2", {0, 0, 0, 0, 0, large, 0, 0}).output(), {0, 4, 0, 16, 8}, 1e-14);
  // (x, y, width, height) = 0.5 t + 0.25, of t = (0.5, -0.5, -0.5, -0.5) for the second position.
  expect_near(OneMap("fg_thr: 2", {0, 0.5, 0, -0.5, 0, -0.5, 0, -0.5},
                     "bbox_reg_param { bbox_mean: [0.25, 0.25, 0.25, 0.25] bbox_std: [0.5, 0.5, 0.5, 0.5] }")
                  .output(),
              {0, 12, 0, 16, 8}, 1e-14);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::size_t number : {0, 2, 4, 6}) {
    Values shifts(8);
    shifts[number] = nan;
    EXPECT_EQ(OneMap("", shifts).output(), (Values{0, 8, 0, 16, 8}));
  }
}

TEST(BoxOutput, SuppressesByTheChosenOverlap) {
  // The first box grows to 0..16, so it holds the second, which is half of it.
  const Values shifts{0.5, 0, 0, 0, 10, 0, 0, 0};
  const Values one{0, 8, 0, 16, 8}, two{0, 8, 0, 16, 8, 0, 0, 0, 16, 8};
  expect_near(OneMap("iou_thr: 0.6", shifts).output(), two, 1e-14);
  EXPECT_EQ(OneMap("iou_thr: 0.4", shifts).output(), one);
  EXPECT_EQ(OneMap("iou_thr: 0.6 nms_type: 'IOMU'", shifts).output(), one);
  EXPECT_EQ(OneMap("iou_thr: 0.6 nms_type: 'IOFU'", shifts).output(), one);
}

TEST(BoxOutput, SuppressesOverAllMapsOfAnImage) {
  Bench bench(
      "type: 'BoxOutput' box_output_param { field_w: 8 field_w: 10 field_h: 8 field_h: 8 downsample_rate: 8 "
      "downsample_rate: 8 min_size: 1 iou_thr: 0.45 }",
      {Shape{3, 6, 1, 1}, Shape{3, 7, 1, 1}}, 1);
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{6, 5}));
  // The second map has two classes of objects; its boxes are 10 wide, cut off at the map's border, 8.
  bench.set_input(0, {0, 1, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0});
  bench.set_input(1, {1, 1.5, 3, 0.5, 0, 0, 0, 5, 2, 3, 0, 0, 0, 0, 0, -2, 1, 0, 0, 0, 0});
  bench.forward();
  // Image 0: the second map's 2 hides the first's 1 (they overlap). Image 1: nothing. Image 2: 3 hides 1.
  EXPECT_EQ(bench.output(), (Values{0, 4, 0, 8, 8, 2, 0, 0, 8, 8}));
}

TEST(BoxOutput, RefusesWhatDoesNotFit) {
  const auto refused = [](const std::string& settings, const std::vector<Shape>& inputs,
                          const std::string& more = "") {
    return refusal("type: 'BoxOutput' box_output_param { " + settings + " } " + more, inputs);
  };
  const Shape map{1, 6, 1, 2};
  EXPECT_EQ(refused(kField, {map}), "accepted");
  EXPECT_THAT(refused(kField, {map, map}),
              HasSubstr("field_w is given 1 times; expected 2, once for each input"));
  EXPECT_THAT(refused("field_w: 8 field_h: -1 downsample_rate: 8", {map}),
              HasSubstr("field_h must be positive"));
  EXPECT_THAT(refused(kField + "nms_type: 'BEST'", {map}), HasSubstr("\"IOU\", \"IOMU\" or \"IOFU\""));
  EXPECT_THAT(refused(kField + "field_whr: 0.5", {map}), HasSubstr("field_whr must be at least 1"));
  EXPECT_THAT(refused(kField + "field_xyr: 0", {map}), HasSubstr("field_xyr must be positive"));
  EXPECT_THAT(refused(kField + "iou_thr: -1", {map}), HasSubstr("iou_thr"));
  EXPECT_THAT(refused(kField, {Shape{1, 5, 1, 2}}), HasSubstr("(C + 4) x H x W"));
  EXPECT_THAT(refused(kField, {map}, "bbox_reg_param { bbox_std: 0.1 }"), HasSubstr("expected four times"));
  EXPECT_THAT(refused(kField, {map}, "bbox_reg_param { bbox_std: [1, 1, 0, 1] }"),
              HasSubstr("bbox_std must be positive"));
}

const std::string kGroup = "box_group_param { field_w: 8 field_w: 4 field_h: 8 field_h: 8 stride: 8 } ";

TEST(BoxGroupOutput, GoesThroughTheFieldsOfEachImage) {
  const auto found = [](const std::string& settings, double shift, int output) {
    Bench bench(
        "type: 'BoxGroupOutput' box_group_output_param { " + kGroup + with_small_ones(settings) + " }",
        {Shape{4, 2, 1, 2}, Shape{4, 4, 1, 2}}, 2);
    // Item n * 2 + k: probability of the background at both positions, of an object.
    bench.set_input(0, {.5, .875, .5, .125, .875, .25, .125, .75, 1, 1, 0, 0, 1, 0, 0, 1});
    Values shifts(32);
    shifts[4] = shift;  // the width of the first box
    bench.set_input(1, shifts);
    bench.forward();
    return bench.output(static_cast<std::size_t>(output));
  };
  const Values all{0, 10, 0, 13, 7, 0, 0, 0, 7, 7, 1, 10, 0, 13, 7};
  EXPECT_EQ(found("fg_thr: 0.25", 0, 0), all);
  EXPECT_EQ(found("fg_thr: 0.25", 0, 1),
            (Values{0, 10, 0, 13, 7, .75, 0, 0, 0, 7, 7, .5, 1, 10, 0, 13, 7, 1}));
  EXPECT_EQ(found("fg_thr: 0.25 max_nms_num: 1", 0, 0), (Values{0, 10, 0, 13, 7, 1, 10, 0, 13, 7}));
  EXPECT_EQ(found("fg_thr: 2", 0, 0), (Values{0, 1, 1, 10, 10}));
  EXPECT_EQ(found("fg_thr: 2", 0, 1), Values(6));
  // 16 wide, from -4 on.
  expect_near(found("fg_thr: 0.25", 9, 0), {0, 10, 0, 13, 7, 0, 0, 0, 11, 7, 1, 10, 0, 13, 7}, 1e-14);
  // At one position the fields share 4 of 8 columns.
  EXPECT_EQ(found("fg_thr: 0.125 iou_thr: 0.4", 0, 0).size(), 3u * 5);
  EXPECT_EQ(found("fg_thr: 0.125 iou_thr: 0.6", 0, 0).size(), 5u * 5);
  EXPECT_EQ(found("fg_thr: 0.25 min_size: 5", 0, 0), (Values{0, 0, 0, 7, 7}));
}

TEST(BoxGroupOutput, TakesSeveralMaps) {
  Bench bench(
      "type: 'BoxGroupOutput' box_group_output_param { min_size: 1 box_group_param { field_w: 8 field_h: 8 "
      "stride: 8 } box_group_param { field_w: 16 field_h: 16 } }",
      {Shape{1, 2, 1, 2}, Shape{1, 4, 1, 2}, Shape{1, 2, 1, 1}, Shape{1, 4, 1, 1}}, 1);
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{3, 5}));
  bench.set_input(0, {.5, .25, .5, .75});
  bench.set_input(1, Values(8));
  bench.set_input(2, {.125, .875});
  bench.set_input(3, Values(4));
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{0, 0, 0, 15, 15, 0, 8, 0, 15, 7, 0, 0, 0, 7, 7}));
}

TEST(BoxGroupOutput, RefusesWhatDoesNotFit) {
  const auto refused = [](const std::string& settings, const std::vector<Shape>& inputs) {
    return refusal("type: 'BoxGroupOutput' box_group_output_param { " + settings + " }", inputs);
  };
  const Shape scores{4, 2, 1, 2}, boxes{4, 4, 1, 2};
  EXPECT_EQ(refused(kGroup, {scores, boxes}), "accepted");
  EXPECT_THAT(refused("", {scores, boxes}),
              HasSubstr("box_group_param is given 0 times and there are 2 inputs"));
  EXPECT_THAT(refused(kGroup, {Shape{3, 2, 1, 2}, Shape{3, 4, 1, 2}}), HasSubstr("expected a multiple of 2"));
  EXPECT_THAT(refused(kGroup, {scores, Shape{4, 4, 2, 2}}), HasSubstr("(N g) x 4 x H x W"));
  EXPECT_THAT(refused("box_group_param { field_w: 8 field_w: 4 field_h: 8 }", {scores, boxes}),
              HasSubstr("field_h is given 1 times; expected 2"));
  EXPECT_THAT(refused("box_group_param { stride: 8 }", {scores, boxes}), HasSubstr("without field_w"));
  EXPECT_THAT(refused(kGroup + "box_group_param { field_w: 8 field_h: 8 }", {scores, boxes, scores, boxes}),
              HasSubstr("has 4 images of 1 fields"));
}

struct Decoded : Bench {
  Decoded(const Values& shifts, const Values& rois, Phase phase, const Values& truth = {},
          const std::string& settings = "")
      : Bench("type: 'DecodeBBox' " + settings, shapes(shifts, rois, truth), 1, options(phase)) {
    set_input(0, shifts);
    set_input(1, rois);
    if (!truth.empty()) set_input(2, truth);
    forward();
  }
  static std::vector<Shape> shapes(const Values& shifts, const Values& rois, const Values& truth) {
    const std::int64_t count = std::ssize(rois) / 5;
    std::vector<Shape> all{Shape{count, std::ssize(shifts) / count}, Shape{count, 5}};
    if (!truth.empty()) all.push_back(Shape{count, 4, 1, 1});
    return all;
  }
  static BenchOptions options(Phase phase) {
    BenchOptions options;
    options.phase = phase;
    return options;
  }
};

TEST(DecodeBBox, MovesTheRegionsOfTheFirstObject) {
  const Values shifts{7, 7, 7, 7, 0.1,           -0.2,          0, 0, 9, 9, 9, 9, 7, 7,
                      7, 7, 0, 0, std::log(2.0), std::log(0.5), 9, 9, 9, 9};
  const Values rois{0, 0, 0, 9, 9, 3, 10, 20, 19, 29};
  for (const Phase phase : {Phase::train, Phase::test})
    expect_near(Decoded(shifts, rois, phase).output(), {0, 1, -2, 10, 7, 3, 5, 22.5, 24, 26.5}, 1e-13);
  const std::string scale = "bbox_reg_param { bbox_mean: [0.1, 0, 0, 0] bbox_std: [0.5, 1, 1, 1] }";
  expect_near(Decoded({0, 0, 0, 0, 0.2, 0, 0, 0}, {0, 0, 0, 9, 9}, Phase::test, {}, scale).output(),
              {0, 2, 0, 11, 9}, 1e-7);  // the file's numbers are floats
}

TEST(DecodeBBox, DropsInTrainingWhatTeachesNothing) {
  const Values still(24, 0);
  const Values rois{0, 0, 0, 9, 9, 1, 9, 0, 0, 9, 2, 5, 5, 14, 14};
  // The first one is its true box, the second ends before it begins, the third shares half.
  const Values truth{0, 0, 9, 9, 0, 0, 9, 9, 5, 5, 14, 9};
  Decoded trained(still, rois, Phase::train, truth);
  EXPECT_EQ(trained.outputs[0]->shape, (Shape{1, 5}));
  EXPECT_EQ(trained.output(), (Values{2, 5, 5, 14, 14}));
  EXPECT_EQ(Decoded(still, rois, Phase::train, truth, "decode_bbox_param { gt_iou_thr: 0.5 }").output(),
            Values());
  EXPECT_EQ(Decoded(still, rois, Phase::train).output(), (Values{0, 0, 0, 9, 9, 2, 5, 5, 14, 14}));
  Decoded tested(still, rois, Phase::test, truth);
  EXPECT_EQ(tested.outputs[0]->shape, (Shape{3, 5}));
  EXPECT_FALSE(tested.layer().traits().chooses_samples);
}

TEST(DecodeBBox, RefusesWhatDoesNotFit) {
  const auto refused = [](const std::vector<Shape>& inputs, const std::string& more = "") {
    return refusal("type: 'DecodeBBox' " + more, inputs);
  };
  EXPECT_EQ(refused({Shape{3, 8, 1, 1}, Shape{3, 5}}), "accepted");
  EXPECT_THAT(refused({Shape{3, 4}, Shape{3, 5}}), HasSubstr("expected 3 x 8 or more"));
  EXPECT_THAT(refused({Shape{2, 8}, Shape{3, 5}}), HasSubstr("expected 3 x 8 or more"));
  EXPECT_THAT(refused({Shape{3, 8}, Shape{3, 4}}), HasSubstr("R x 5"));
  EXPECT_THAT(refused({Shape{3, 8}, Shape{3, 5}, Shape{3, 5}}), HasSubstr("expected 3 x 4, the true box"));
  EXPECT_THAT(refused({Shape{3, 8}, Shape{3, 5}}, "decode_bbox_param { gt_iou_thr: 2 }"),
              HasSubstr("gt_iou_thr"));
}

}  // namespace
}  // namespace banyan::testing
