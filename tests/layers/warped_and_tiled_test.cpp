// ROIWarping, ROIPooling of videos, Resize and Tiling: values, gradients, refusals.
#include <gmock/gmock.h>

#include <tuple>

#include "layers/gradient_case.hpp"

namespace banyan::testing {
namespace {

using ::testing::HasSubstr;

Values result_of(const std::string& text, const std::vector<Shape>& shapes, const std::vector<Values>& inputs,
                 Layout layout = Layout::contiguous) {
  BenchOptions options;
  options.input_layout = layout;
  Bench bench(text, shapes, 1, options);
  for (std::size_t i = 0; i < inputs.size(); ++i) bench.set_input(i, inputs[i]);
  bench.forward();
  bench.layer().check_results(bench.context());
  return bench.output();
}

std::string warping(const std::string& settings) {
  return "type: 'ROIWarping' roi_warping_param { " + settings + " } ";
}

TEST(RoiWarping, TakesTheLargestOfAFewPointsOfEachBin) {
  const Shape map{1, 1, 3, 4}, rois{1, 5};
  const Values x{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23};
  for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
    // From (0, 0) to (3, 2): bins of 1.5 x 1, whose points are 0, 0.75, 1.5 and 0, 1 from where they begin.
    EXPECT_EQ(result_of(warping("pooled_h: 2 pooled_w: 2"), {map, rois}, {x, {0, 0, 0, 3, 2}}, layout),
              (Values{11.5, 13, 21.5, 23}));
    // Corners are scaled, then rounded: 1 to 2 and 1 to 1.
    EXPECT_EQ(result_of(warping("pooled_h: 1 pooled_w: 2 spatial_scale: 0.5"), {map, rois},
                        {x, {0, 1.5, 1.8, 4.2, 2}}, layout),
              (Values{11.5, 12}));
    // Where nothing of a bin is in the map it is 0.
    EXPECT_EQ(result_of(warping("pooled_h: 1 pooled_w: 2"), {map, rois}, {x, {0, 2, 1, 10, 1}}, layout),
              (Values{13, 0}));
  }
}

TEST(RoiWarping, GradientOfTheMap) {
  check_gradients({"",
                   warping("pooled_h: 2 pooled_w: 3 spatial_scale: 0.5"),
                   {Shape{2, 3, 5, 7}, Shape{3, 5}},
                   1,
                   0,
                   false,
                   -1,
                   1,
                   0,
                   {0, 1, 2, 9, 7, 1, -3, 0, 20, 30, 1, 4, 4, 6, 5}});
}

TEST(RoiWarping, RegionsHaveAGradientWhereItIsAskedFor) {
  const std::string text = warping("pooled_h: 1 pooled_w: 1 spatial_scale: 0.5");
  EXPECT_FALSE(make_layer(layer_from_text(text), {})->traits().differentiable(1));
  EXPECT_FALSE(make_layer(layer_from_text(text + "propagate_down: true propagate_down: false"), {})
                   ->traits()
                   .differentiable(1));
  Bench bench(text + "propagate_down: true propagate_down: true", {Shape{1, 1, 3, 3}, Shape{1, 5}}, 1);
  bench.set_input(0, {0, 1, 2, 5, 6, 7, 10, 11, 12});
  bench.set_input(1, {0, 0, 0, 3, 2});  // the far corner is at (2, 1), rounded: 7
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{7}));
  bench.backward(Values{2});
  EXPECT_EQ(bench.input_gradient(0), (Values{0, 0, 0, 0, 0, 2, 0, 0, 0}));
  // Beyond the last column values do not rise; a row further down is 5 more, half of it per pixel of the
  // net's.
  EXPECT_EQ(bench.input_gradient(1), (Values{0, 0, 0, 0, 2 * 5 * 0.5}));
}

TEST(RoiWarping, Refusals) {
  const std::vector<Shape> fitting{Shape{1, 2, 3, 3}, Shape{2, 5}};
  EXPECT_THAT(refusal(warping("pooled_w: 2"), fitting), HasSubstr("pooled_h and pooled_w must be given"));
  EXPECT_THAT(refusal(warping("pooled_h: 1 pooled_w: 2 spatial_scale: 0"), fitting),
              HasSubstr("spatial_scale must be positive"));
  EXPECT_THAT(refusal(warping("pooled_h: 1 pooled_w: 2"), {fitting[0], Shape{2, 4}}),
              HasSubstr("expected R x 5"));
  EXPECT_THAT(
      [&] {
        result_of(warping("pooled_h: 1 pooled_w: 1"), {fitting[0], Shape{1, 5}},
                  {Values(18, 1), {3, 0, 0, 1, 1}});
      },
      ::testing::ThrowsMessage<Error>(HasSubstr("region 0 belongs to image 3")));
}

std::string of_videos(const std::string& settings) {
  return "type: 'ROIPooling' roi_pooling_param { " + settings + " } ";
}

TEST(RoiPooling, OfPartsOfVideos) {
  const Shape maps{1, 1, 4, 1, 2};
  const Values x{1, 2, 3, 0, 5, 9, 7, 8};
  // Steps 1 to 3 of two columns.
  EXPECT_EQ(result_of(of_videos("pooled_l: 1 pooled_h: 1 pooled_w: 2 temporal_scale: 0.5"),
                      {maps, Shape{1, 3}}, {x, {0, 2, 6}}),
            (Values{7, 9}));
  EXPECT_EQ(
      result_of(of_videos("pooled_l: 2 pooled_h: 1 pooled_w: 1"), {maps, Shape{1, 3, 1, 1}}, {x, {0, 0, 3}}),
      (Values{3, 9}));
  check_gradients({"",
                   of_videos("pooled_l: 2 pooled_h: 2 pooled_w: 2 temporal_scale: 0.5"),
                   {Shape{2, 2, 5, 3, 4}, Shape{3, 3}},
                   1,
                   0,
                   false,
                   -1,
                   1,
                   0,
                   {0, 1, 7, 1, -4, 30, 1, 2, 2}});
}

TEST(RoiPooling, RefusesPartsOfVideosThatDoNotFit) {
  const Shape maps{1, 1, 4, 1, 2}, parts{1, 3};
  const auto refused = [&](const std::string& settings) {
    return refusal(of_videos("pooled_h: 1 pooled_w: 1 " + settings), {maps, parts});
  };
  EXPECT_THAT(refused("pooled_l: 0"), HasSubstr("pooled_l must be positive"));
  EXPECT_THAT(refused("pooled_l: 1 temporal_scale: 0"), HasSubstr("temporal_scale must be positive"));
  EXPECT_THAT(refused("pooled_l: 1 pad_ratio: 0.1"), HasSubstr("pad_ratio does not go with pooled_l"));
  EXPECT_THAT(refused("temporal_scale: 0.5"), HasSubstr("temporal_scale needs pooled_l"));
  EXPECT_THAT(refusal(of_videos("pooled_h: 1 pooled_w: 1 pooled_l: 1"), {Shape{1, 1, 4, 2}, parts}),
              HasSubstr("must be N x C x L x H x W"));
  EXPECT_THAT(refusal(of_videos("pooled_h: 1 pooled_w: 1 pooled_l: 1"), {maps, Shape{1, 5}}),
              HasSubstr("expected R x 3: video, start, end"));
  EXPECT_THAT(
      [&] {
        result_of(of_videos("pooled_h: 1 pooled_w: 1 pooled_l: 1"), {maps, parts}, {Values(8, 1), {1, 0, 2}});
      },
      ::testing::ThrowsMessage<Error>(
          HasSubstr("part 0 belongs to video 1; the batch has the videos 0 to 0")));
}

std::string resizing(const std::string& settings) {
  return "type: 'Resize' resize_param { " + settings + " } ";
}

TEST(Resize, CornersOnCornersAndSmoothedWhereShorter) {
  const Shape row{1, 1, 2, 5};
  const Values x{0, 4, 8, 4, 0, 1, 1, 1, 1, 1};
  EXPECT_EQ(result_of(resizing("height: 0 width: 9"), {row}, {x}),
            (Values{0, 2, 4, 6, 8, 6, 4, 2, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  // Half as many: weights 1, 2, 1 of 4, the border goes on.
  EXPECT_EQ(result_of(resizing("height: 0 width: 3"), {row}, {x}), (Values{1, 6, 1, 1, 1, 1}));
  EXPECT_EQ(result_of(resizing("scale_y: 1 scale_x: 0.5"), {row}, {x}), (Values{1, 6, 1, 1, 1, 1}));
  // Without a pixel on each side.
  EXPECT_EQ(result_of(resizing("height: 0 width: 3 crop_x: 1"), {row}, {x}), (Values{4, 8, 4, 1, 1, 1}));
  // To the size of a second input.
  EXPECT_EQ(result_of("type: 'Resize'", {row, Shape{1, 7, 2, 3}}, {x, Values(42, 0)}),
            (Values{1, 6, 1, 1, 1, 1}));
}

/// Half pixels are rounded up, also where the scale in f32 is a little less than what is written.
TEST(Resize, RoundsSizesAsTheBranch) {
  for (const auto& [scale, width, expected] : {std::tuple{"0.7", 6, 5},
                                               {"0.9", 6, 6},
                                               {"0.5", 4, 3},
                                               {"0.5", 6, 4},
                                               {"0.1", 16, 3},
                                               {"0.3", 6, 3},
                                               {"1.7", 6, 10}}) {
    Bench bench(resizing(std::string("scale_y: 1 scale_x: ") + scale), {Shape{1, 1, 2, width}}, 1);
    bench.forward();
    EXPECT_EQ(bench.output().size(), 2 * static_cast<std::size_t>(expected)) << scale << " of " << width;
  }
}

TEST(Resize, HasTheGradientOfWhatItShows) {
  for (const char* settings : {"height: 3 width: 9", "scale: 0.6", "height: 2 scale_x: 1.5 crop: 0.5"})
    check_gradients({"", resizing(settings), {Shape{2, 2, 5, 6}}});
}

TEST(Resize, Refusals) {
  const auto refused = [](const std::string& settings) {
    return refusal(resizing(settings), {Shape{1, 1, 4, 4}});
  };
  EXPECT_THAT(refused("height: 3"), HasSubstr("give height and width, scale, or a second input"));
  EXPECT_THAT(refused("height: 3 width: 1"),
              HasSubstr("must be from 2 to 10000, or 0 for no change; found 3 and 1"));
  EXPECT_THAT(refused("height: 3 width: 3 scale: 2"), HasSubstr("give either height or a scale"));
  EXPECT_THAT(refused("scale: 0"), HasSubstr("scale must be in (0"));
  EXPECT_THAT(refused("scale: 1 crop: 1.5"), HasSubstr("fewer than 2 pixels of 4 are left"));
  EXPECT_THAT(refused("is_pyramid_test: true height: 3 width: 3"), HasSubstr("another branch's"));
}

TEST(Tiling, ChannelsBecomeSquares) {
  const std::string text = "type: 'Tiling' tiling_param { tile_dim: 2 }";
  // Two channels of 2 x 4 pixels: channel c, pixel (i, j) holds 100 c + 10 i + j.
  Values x, tiled;
  for (int channel = 0; channel < 8; ++channel)
    for (int column = 0; column < 2; ++column)
      x.push_back(100 * (channel / 4) + 10 * (channel % 4 / 2) + 2 * column + channel % 2);
  for (int c = 0; c < 2; ++c)
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 4; ++j) tiled.push_back(100 * c + 10 * i + j);
  EXPECT_EQ(result_of(text, {Shape{1, 8, 1, 2}}, {x}), tiled);
  check_gradients({"", text, {Shape{2, 8, 3, 2}}});
  EXPECT_THAT(refusal(text, {Shape{1, 6, 2, 2}}), HasSubstr("tile_dim 2 needs a multiple of 4 channels"));
  EXPECT_THAT(refusal("type: 'Tiling'", {Shape{1, 6, 2, 2}}), HasSubstr("tile_dim must be given"));
}

/// As of a Filter that lets none pass.
TEST(XCovLoss, OfNoSamplesIsZero) {
  Bench bench("type: 'XCovLoss'", {Shape{4, 2}, Shape{4, 1}}, 1);
  bench.set_input(0, {7, 1, 9, -1, 11, -1, 13, 1});
  bench.set_input(1, {2, 4, 2, 4});
  bench.forward();
  EXPECT_NE(bench.output(), (Values{0}));
  bench.reshape({Shape{0, 2}, Shape{0, 1}});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{0}));
  bench.backward(Values{1});
  EXPECT_TRUE(bench.input_gradient(0).empty() && bench.input_gradient(1).empty());
}

}  // namespace
}  // namespace banyan::testing
