// Layers of detectors: what they make of their settings; the values of regions are checked in tests/ops.
#include "layers/bench.hpp"

namespace banyan::testing {
namespace {

TEST(RoiPooling, TakesTheMaximumOfEveryBin) {
  Bench bench("type: 'ROIPooling' roi_pooling_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.5 }",
              {Shape{1, 1, 4, 4}, Shape{2, 5}}, 1);
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{2, 1, 2, 2}));
  Values x;
  for (int i = 0; i < 16; ++i) x.push_back(i);
  bench.set_input(0, x);
  // Corners 0..6 are pixels 0..3; 2, 2, 6, 4 is 3 x 2 pixels from (1, 1), whose middle column is in both
  // bins.
  bench.set_input(1, {0, 0, 0, 6, 6, 0, 2, 2, 6, 4});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{5, 7, 13, 15, 6, 7, 10, 11}));
  bench.backward(Values{1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(bench.input_gradient(0), (Values{0, 0, 0, 0, 0, 1, 5, 8, 0, 0, 7, 8, 0, 3, 0, 4}));
}

TEST(RoiPooling, WidensRegionsByTheirPad) {
  // A pixel of 2 x 2, and 2 more on each side.
  Bench bench("type: 'ROIPooling' roi_pooling_param { pooled_h: 1 pooled_w: 1 pad_ratio: 0.5 }",
              {Shape{1, 1, 4, 4}, Shape{2, 5}}, 1);
  Values x;
  for (int i = 0; i < 16; ++i) x.push_back(i);
  bench.set_input(0, x);
  bench.set_input(1, {0, 0, 0, 1, 1, 0, 0, 2, 0, 2});  // rounded: -1..2, and -1..1 x 2..3 (half away from 0)
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{10, 13}));
}

TEST(RoiAlign, OfCascadeRcnnGivesThePointsOfAGrid) {
  const auto grid = [](const std::string& settings, const Values& roi, const Shape& shape) {
    Bench bench("type: 'ROIAlign' roi_pooling_param { " + settings + " }", {Shape{1, 1, 4, 4}, Shape{1, 5}},
                1);
    EXPECT_EQ(bench.outputs[0]->shape, shape);
    Values x;
    for (int i = 0; i < 16; ++i) x.push_back(i);
    bench.set_input(0, x);
    bench.set_input(1, roi);
    bench.forward();
    return bench.output();
  };
  EXPECT_EQ(grid("pooled_h: 1 pooled_w: 2", {0, 1.5, 1.5, 3.5, 2.5}, Shape{1, 1, 2, 3}),
            (Values{5, 6, 7, 9, 10, 11}));
  const std::string one = "pooled_h: 1 pooled_w: 1";
  const Shape four{1, 1, 2, 2};
  // Half a pixel outside counts as the border's pixel, more as 0.
  EXPECT_EQ(grid(one, {0, 0, 0, 4, 4}, four), (Values{0, 3, 12, 15}));
  EXPECT_EQ(grid(one, {0, -0.25, 1, 3, 4.25}, four), (Values{0, 4.5, 0, 0}));
  EXPECT_EQ(grid(one, {0, 2, 1, 2, 3}, four), Values(4));  // no extent
  EXPECT_EQ(grid(one + " spatial_scale: 0.5 pad_ratio: 0.5", {0, 3, 3, 4, 4}, four),
            (Values{2.5, 4, 8.5, 10}));  // from 2 to 5, halved: 0.5 to 2
  const Shape image{1, 4, 3, 3}, rois{2, 5};
  EXPECT_NE(refusal("type: 'ROIAlign' roi_pooling_param { pooled_h: 2 }", {image, rois}).find("pooled_w"),
            std::string::npos);
  EXPECT_NE(refusal("type: 'ROIAlign' roi_pooling_param { " + one + " pad_ratio: -1 }", {image, rois})
                .find("pad_ratio must not be negative"),
            std::string::npos);
  EXPECT_NE(refusal("type: 'ROIAlign' roi_pooling_param { " + one + " } roi_align_param { " + one + " }",
                    {image, rois})
                .find("not both"),
            std::string::npos);
}

TEST(Regions, OfNoImageAreNamed) {
  for (const char* text : {"type: 'ROIPooling' roi_pooling_param { pooled_h: 1 pooled_w: 1 }",
                           "type: 'ROIAlign' roi_align_param { pooled_h: 1 pooled_w: 1 }",
                           "type: 'PSROIPooling' psroi_pooling_param { output_dim: 2 group_size: 1 "
                           "spatial_scale: 1 }"}) {
    Bench bench(text, {Shape{2, 2, 3, 3}, Shape{2, 5}}, 1);
    bench.set_input(0, spread_values(36, 1));
    bench.set_input(1, {1, 0, 0, 1, 1, 2, 0, 0, 1, 1});
    bench.forward();
    try {
      bench.layer().check_results(bench.context());
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("region 1 belongs to image 2; the batch has the images 0 to 1"),
                std::string::npos)
          << error.message();
    }
  }
}

TEST(Regions, RefuseWhatDoesNotFit) {
  const Shape image{1, 4, 3, 3}, rois{2, 5};
  EXPECT_NE(refusal("type: 'ROIPooling' roi_pooling_param { pooled_h: 2 }", {image, rois}).find("pooled_w"),
            std::string::npos);
  EXPECT_NE(
      refusal("type: 'ROIAlign' roi_align_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0 }", {image, rois})
          .find("spatial_scale"),
      std::string::npos);
  EXPECT_NE(refusal("type: 'ROIAlign' roi_align_param { pooled_h: 2 pooled_w: 2 }", {image, Shape{2, 4}})
                .find("R x 5"),
            std::string::npos);
  EXPECT_NE(refusal("type: 'ROIAlign' roi_align_param { pooled_h: 2 pooled_w: 2 }", {Shape{1, 4, 3}, rois})
                .find("4 (N, C, H, W)"),
            std::string::npos);
  const std::string psroi = "type: 'PSROIPooling' psroi_pooling_param { spatial_scale: 1 ";
  EXPECT_NE(refusal(psroi + "output_dim: 2 group_size: 2 }", {image, rois}).find("need 8 channels"),
            std::string::npos);
  EXPECT_NE(refusal(psroi + "output_dim: 2 }", {image, rois}).find("group_size"), std::string::npos);
  EXPECT_NE(refusal(psroi + "group_size: 2 }", {image, rois}).find("output_dim"), std::string::npos);
}

/// Sizes (width, height) and centres of the boxes at the first position, in pixels of the image.
struct Priors {
  std::vector<std::pair<double, double>> sizes;
  Values variances;
  double centre_x, centre_y;
  Shape shape;
};
Priors priors(const std::string& settings, const Shape& map, const Shape& image, double image_w,
              double image_h) {
  Bench bench("type: 'PriorBox' prior_box_param { " + settings + " }", {map, image}, 1);
  bench.forward();
  Priors found;
  found.shape = bench.outputs[0]->shape;
  const Values y = bench.output();
  const std::size_t half = y.size() / 2, first = half / static_cast<std::size_t>(map.count(2));
  for (std::size_t i = 0; i < first; i += 4)
    found.sizes.emplace_back((y[i + 2] - y[i]) * image_w, (y[i + 3] - y[i + 1]) * image_h);
  found.centre_x = (y[0] + y[2]) / 2 * image_w;
  found.centre_y = (y[1] + y[3]) / 2 * image_h;
  found.variances.assign(y.begin() + static_cast<std::ptrdiff_t>(half),
                         y.begin() + static_cast<std::ptrdiff_t>(half) + 4);
  return found;
}

TEST(PriorBox, OrdersItsBoxesAsSsd) {
  const Priors found = priors(
      "min_size: 30 max_size: 60 aspect_ratio: 2 aspect_ratio: 3 aspect_ratio: 0.5 variance: 0.1 "
      "variance: 0.2 variance: 0.3 variance: 0.4",
      Shape{2, 8, 3, 2}, Shape{2, 3, 300, 200}, 200, 300);
  EXPECT_EQ(found.shape, (Shape{1, 2, 3 * 2 * 6 * 4}));
  const double both = std::sqrt(30.0 * 60), r2 = std::sqrt(2.0), r3 = std::sqrt(3.0);
  const std::vector<std::pair<double, double>> expected = {
      {30, 30}, {both, both}, {30 * r2, 30 / r2}, {30 / r2, 30 * r2}, {30 * r3, 30 / r3}, {30 / r3, 30 * r3}};
  ASSERT_EQ(found.sizes.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found.sizes[i].first, expected[i].first, 1e-10) << i;
    EXPECT_NEAR(found.sizes[i].second, expected[i].second, 1e-10) << i;
  }
  EXPECT_NEAR(found.centre_x, 50, 1e-10);
  EXPECT_NEAR(found.centre_y, 50, 1e-10);
  expect_near(found.variances, {0.1, 0.2, 0.3, 0.4}, 1e-7);  // the file's numbers are floats
}

TEST(PriorBox, TakesItsSizesFromTheFileOrTheImage) {
  const Shape map{1, 1, 2, 4}, image{1, 3, 40, 80};
  const Priors plain = priors("min_size: 4 min_size: 6 aspect_ratio: 2 flip: false", map, image, 80, 40);
  EXPECT_EQ(plain.sizes.size(), 4u);
  EXPECT_NEAR(plain.sizes[2].first, 6, 1e-10);
  EXPECT_NEAR(plain.centre_x, 10, 1e-10);
  EXPECT_NEAR(plain.variances[3], 0.1, 1e-10);
  const Priors given = priors("min_size: 4 img_size: 64 step: 16 offset: 0.25", map, image, 64, 64);
  EXPECT_NEAR(given.centre_x, 4, 1e-10);
  EXPECT_NEAR(given.centre_y, 4, 1e-10);
  const Priors apart = priors("min_size: 4 img_h: 20 img_w: 50 step_h: 6 step_w: 8", map, image, 50, 20);
  EXPECT_NEAR(apart.centre_x, 4, 1e-10);
  EXPECT_NEAR(apart.centre_y, 3, 1e-10);
  // SSD512's sizes are fractions, of which SSD keeps whole pixels.
  const Priors whole = priors("min_size: 35.84 max_size: 76.8 aspect_ratio: 2", map, image, 80, 40);
  EXPECT_NEAR(whole.sizes[0].first, 35, 1e-10);
  EXPECT_NEAR(whole.sizes[1].first, std::sqrt(35.0 * 76), 1e-10);
  EXPECT_NEAR(whole.sizes[2].first, 35 * std::sqrt(2.0), 1e-10);
  const Priors clipped = priors("min_size: 30 clip: true", map, image, 80, 40);
  EXPECT_NEAR(clipped.sizes[0].first, 25, 1e-10);  // from 0 to 10 + 15
}

TEST(PriorBox, TakesBoxesOfAnyWidthAndHeight) {
  const Shape map{1, 1, 2, 4}, image{1, 3, 40, 80};
  const Priors found = priors(
      "width: 4.5 height: 7 width: 30 height: 2.25 step_h: 16 step_w: 12 variance: 0.1", map, image, 80, 40);
  EXPECT_EQ(found.shape, (Shape{1, 2, 2 * 4 * 2 * 4}));
  const std::vector<std::pair<double, double>> expected = {{4.5, 7}, {30, 2.25}};
  ASSERT_EQ(found.sizes.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(found.sizes[i].first, expected[i].first, 1e-10);
    EXPECT_NEAR(found.sizes[i].second, expected[i].second, 1e-10);
  }
  EXPECT_NEAR(found.centre_x, 6, 1e-10);
  EXPECT_NEAR(found.centre_y, 8, 1e-10);
  const std::string start = "type: 'PriorBox' prior_box_param { width: 3 ";
  for (const auto& [settings, part] : {std::pair{"}", "height 0"},
                                       {"height: 0 }", "positive"},
                                       {"height: 2 min_size: 3 }", "remove min_size"}})
    EXPECT_NE(refusal(start + settings, {map, image}).find(part), std::string::npos) << settings;
}

TEST(PriorBox, HasTwiceAsManyThatAreDenser) {
  const Priors found = priors("min_size: 4 aspect_ratio: 4 flip: false denser_prior_boxes: true",
                              Shape{1, 1, 2, 4}, Shape{1, 3, 40, 80}, 80, 40);
  EXPECT_EQ(found.shape, (Shape{1, 2, 2 * 4 * 4 * 4}));
  ASSERT_EQ(found.sizes.size(), 4u);
  EXPECT_NEAR(found.sizes[1].first, 4, 1e-10);
  EXPECT_NEAR(found.sizes[2].first, 8, 1e-10);
  EXPECT_NEAR(found.sizes[3].second, 2, 1e-10);
  EXPECT_NEAR(found.centre_y, 10, 1e-10);
}

TEST(PriorBox, RefusesContradictions) {
  const std::string start = "type: 'PriorBox' prior_box_param { ";
  const Shape map{1, 1, 2, 4}, image{1, 3, 40, 80};
  const auto expect_part = [&](const std::string& settings, const std::string& part) {
    EXPECT_NE(refusal(start + settings + " }", {map, image}).find(part), std::string::npos) << settings;
  };
  expect_part("", "min_size");
  expect_part("min_size: 0", "min_size");
  expect_part("min_size: 3 max_size: 2", "max_size 2");
  expect_part("min_size: 3 min_size: 4 max_size: 5", "as many");
  expect_part("min_size: 3 variance: 1 variance: 1", "variance");
  expect_part("min_size: 3 variance: 0", "variances");
  expect_part("min_size: 3 img_size: 4 img_h: 3 img_w: 3", "img_size");
  expect_part("min_size: 3 img_h: 3", "img_w");
  expect_part("min_size: 3 step: 3 step_h: 3 step_w: 3", "step");
  expect_part("min_size: 3 step_h: 3", "step_w");
  expect_part("min_size: 3 step: 0", "steps");
  expect_part("min_size: 3 aspect_ratio: 0", "aspect_ratio");
  EXPECT_NE(refusal(start + "min_size: 3 }", {Shape{1, 2}, image}).find("4 (N, C, H, W)"), std::string::npos);
}

}  // namespace
}  // namespace banyan::testing
