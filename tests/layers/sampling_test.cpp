// Layers that sample maps where other blobs say: spatial transformers, regions with bins that are moved, and
// BilinearInterpolation; gradients are checked with spatial_cases.hpp, too.
#include <cmath>

#include "layers/gradient_checker.hpp"

namespace banyan::testing {
namespace {

/// The bilinear value of a map at (y, x); pixels outside are 0.
double sampled(const double* map, int height, int width, double y, double x) {
  double sum = 0;
  for (int row = 0; row < height; ++row)
    for (int column = 0; column < width; ++column)
      sum += std::max(0.0, 1 - std::abs(y - row)) * std::max(0.0, 1 - std::abs(x - column)) *
             map[row * width + column];
  return sum;
}

TEST(SpatialTransformer, SamplesTheMapAtTheMovedGrid) {
  const Shape maps{2, 3, 4, 5}, moves{2, 6};
  const Values x = spread_values(maps.count(), 1), theta = spread_values(12, 2, 1.3);
  constexpr int kRows = 3, kColumns = 7;
  Values expected;
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 3; ++c)
      for (int s = 0; s < kRows; ++s)
        for (int t = 0; t < kColumns; ++t) {
          const double* const m = theta.data() + 6 * n;
          const double down = 2.0 * s / kRows - 1, right = 2.0 * t / kColumns - 1;
          const double y = (m[0] * down + m[1] * right + m[2] + 1) / 2 * 4;
          const double at = (m[3] * down + m[4] * right + m[5] + 1) / 2 * 5;
          expected.push_back(sampled(x.data() + (3 * n + c) * 20, 4, 5, y, at));
        }
  for (const Layout layout : kBothLayouts) {
    Bench bench("type: 'SpatialTransformer' st_param { output_H: 3 output_W: 7 }", {maps, moves}, 1,
                in_layout(layout));
    bench.set_input(0, x);
    bench.set_input(1, theta);
    bench.forward();
    expect_near(bench.output(), expected, 1e-13);
  }
}

TEST(SpatialTransformer, TakesNumbersOfTheFile) {
  const Shape maps{2, 1, 3, 4};
  const Values x = spread_values(24, 1);
  Bench all("type: 'SpatialTransformer'", {maps, Shape{2, 6}}, 1);
  all.set_input(0, x);
  all.set_input(1, {0.5, 0, 0.25, 0, 2, -0.5, 0.5, 0, -1, 0, 2, 0.125});
  all.forward();
  Bench some("type: 'SpatialTransformer' st_param { theta_1_1: 0.5 theta_1_2: 0 theta_2_1: 0 theta_2_2: 2 }",
             {maps, Shape{2, 2}}, 1);
  some.set_input(0, x);
  some.set_input(1, {0.25, -0.5, -1, 0.125});
  some.forward();
  EXPECT_EQ(some.output(), all.output());
  const Values dy = spread_values(24, 5);
  all.backward(dy);
  some.backward(dy);
  const Values whole = all.input_gradient(1);
  EXPECT_EQ(some.input_gradient(1), (Values{whole[2], whole[5], whole[8], whole[11]}));
  EXPECT_EQ(some.input_gradient(0), all.input_gradient(0));
}

TEST(SpatialTransformer, TakesTransformationsOfAnyShapeInBothLayouts) {
  const Shape maps{2, 3, 4, 5};
  const auto results = [&](const Shape& theta, Layout layout) {
    BenchOptions options = in_layout(layout);
    options.three_axes = true;
    Bench bench("type: 'SpatialTransformer'", {maps, theta}, 1, options);
    bench.set_input(0, spread_values(maps.count(), 1));
    bench.set_input(1, spread_values(12, 2, 1.3));
    bench.forward();
    bench.backward(spread_values(maps.count(), 3));
    return std::vector<Values>{bench.output(), bench.input_gradient(0), bench.input_gradient(1)};
  };
  const auto expected = results({2, 6}, Layout::contiguous);
  for (const Shape& theta : {Shape{2, 2, 3}, Shape{2, 3, 2, 1}, Shape{2, 6, 1, 1}})
    for (const Layout layout : kBothLayouts) {
      const auto found = results(theta, layout);
      for (std::size_t i = 0; i < found.size(); ++i) expect_near(found[i], expected[i], 1e-14);
    }
}

TEST(SpatialTransformer, KeepsTheMapWithTheIdentityAndGivesNothingFarOutside) {
  const Values x = spread_values(40, 1);
  Bench bench("type: 'SpatialTransformer' st_param { to_compute_dU: false }",
              {Shape{1, 2, 4, 5}, Shape{1, 6}}, 1);
  bench.set_input(0, x);
  bench.set_input(1, {1, 0, 0, 0, 1, 0});
  bench.forward();
  expect_near(bench.output(), x, 1e-14);
  bench.backward(spread_values(40, 2));
  EXPECT_EQ(bench.input_gradient(0), Values(40, 0));
  for (const double far : {1e30, -1e30, std::nan("")}) {
    bench.set_input(1, {1, 0, far, 0, 1, 0});
    bench.forward();
    EXPECT_EQ(bench.output(), Values(40, 0)) << far;
    bench.backward(spread_values(40, 2));
    EXPECT_EQ(bench.input_gradient(1)[4], 0) << far;
  }
}

/// On a pixel the slope is the mean of those to both sides; pixels outside are 0.
TEST(SpatialTransformer, HasTheSlopesToBothSides) {
  Bench bench(
      "type: 'SpatialTransformer' st_param { theta_1_1: 1 theta_1_2: 0 theta_1_3: 0 theta_2_1: 0 theta_2_2: "
      "1 }",
      {Shape{1, 1, 1, 4}, Shape{1, 1}}, 1);
  bench.set_input(0, {1, 2, 4, 9});
  bench.set_input(1, {0});
  bench.forward();
  expect_near(bench.output(), {1, 2, 4, 9}, 1e-14);
  bench.backward(Values{1, 2, 3, 4});
  // A step of 1 is half of the width.
  expect_near(bench.input_gradient(1), {2 * (1 * (2 - 0) + 2 * (4 - 1) + 3 * (9 - 2) + 4 * (0 - 4)) / 2.0},
              1e-13);
  bench.set_input(1, {0.25});
  bench.forward();
  bench.backward(Values{1, 2, 3, 4});
  expect_near(bench.output(), {1.5, 3, 6.5, 4.5}, 1e-14);
  expect_near(bench.input_gradient(1), {2.0 * (1 * 1 + 2 * 2 + 3 * 5 - 4 * 9)}, 1e-13);
}

TEST(SpatialTransformer, RefusesWhatItCannotDo) {
  const Shape maps{2, 1, 3, 4};
  const auto refused = [&](const std::string& settings, const Shape& theta) {
    return refusal("type: 'SpatialTransformer' st_param { " + settings + " }", {maps, theta});
  };
  const auto has = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(refused("", {2, 4}), "expected 6 numbers for each of 2 samples: 0 of theta_1_1 to theta_2_3 are given");
  has(refused("theta_1_1: 1", {2, 6}), "expected 5 numbers");
  has(refused("", {3, 6}), "expected 6 numbers for each of 2 samples");
  has(refused("output_H: 0", {2, 6}), "must be positive");
  has(refused("transform_type: 'projective'", {2, 6}), "transform_type \"projective\" is not supported");
  has(refused("sampler_type: 'nearest'", {2, 6}), "sampler_type \"nearest\" is not supported");
  has(refused("theta_1_1: 1 theta_1_2: 0 theta_1_3: 0 theta_2_1: 0 theta_2_2: 1 theta_2_3: 0", {2, 1}),
      "nothing is left for the second input");
}

struct Voting {
  int pooled, group, part, points, classes, dims;
  double scale, reach;
};

/// As the paper describes it, one value at a time.
Values moved_votes(const Voting& how, const Shape& maps, const Values& x, const Values& rois,
                   const Values& offsets) {
  const int height = static_cast<int>(maps[2]), width = static_cast<int>(maps[3]),
            channels = static_cast<int>(maps[1]);
  const int regions = static_cast<int>(rois.size()) / 5;
  Values y;
  for (int n = 0; n < regions; ++n)
    for (int c = 0; c < how.dims; ++c)
      for (int row = 0; row < how.pooled; ++row)
        for (int column = 0; column < how.pooled; ++column) {
          const double* const roi = rois.data() + 5 * n;
          const double left = std::round(roi[1]) * how.scale - 0.5,
                       top = std::round(roi[2]) * how.scale - 0.5;
          const double wide = std::max((std::round(roi[3]) + 1) * how.scale - 0.5 - left, 0.1);
          const double high = std::max((std::round(roi[4]) + 1) * how.scale - 0.5 - top, 0.1);
          double right = 0, down = 0;
          if (!offsets.empty()) {
            const int of_class = c / (how.dims / how.classes);
            const int at = (row * how.part / how.pooled) * how.part + column * how.part / how.pooled;
            const int base = (n * how.classes + of_class) * 2 * how.part * how.part;
            right = offsets[static_cast<std::size_t>(base + at)] * how.reach * wide;
            down = offsets[static_cast<std::size_t>(base + how.part * how.part + at)] * how.reach * high;
          }
          const int group = (row * how.group / how.pooled) * how.group + column * how.group / how.pooled;
          const double* const map =
              x.data() +
              (static_cast<int>(roi[0]) * channels + c * how.group * how.group + group) * height * width;
          double sum = 0;
          int count = 0;
          for (int i = 0; i < how.points; ++i)
            for (int j = 0; j < how.points; ++j) {
              const double across =
                  left + right + (column + static_cast<double>(j) / how.points) * wide / how.pooled;
              const double along =
                  top + down + (row + static_cast<double>(i) / how.points) * high / how.pooled;
              if (across < -0.5 || across > width - 0.5 || along < -0.5 || along > height - 0.5) continue;
              ++count;
              sum += sampled(map, height, width, std::min(std::max(along, 0.0), height - 1.0),
                             std::min(std::max(across, 0.0), width - 1.0));
            }
          y.push_back(count == 0 ? 0 : sum / count);
        }
  return y;
}

std::string moved(const std::string& settings) {
  return "type: 'DeformablePSROIPooling' deformable_psroi_pooling_param { " + settings + " }";
}

const Values kMovedRegions{0, 1, 2, 9, 7, 1, -3, 0, 20, 30, 1, 4, 4, 6, 5};

TEST(DeformablePsRoiPooling, TakesVotesWhereOffsetsMoveTheBins) {
  const Shape maps{2, 16, 6, 7};
  const Values x = spread_values(maps.count(), 1);
  const struct {
    const char* settings;
    Voting how;
  } cases[] = {
      {"output_dim: 4 group_size: 2 spatial_scale: 0.5 sample_per_part: 3 trans_std: 0.5 part_size: 2",
       {2, 2, 2, 3, 2, 4, 0.5, 0.5}},
      {"output_dim: 16 group_size: 1 pooled_size: 4 spatial_scale: 0.75 sample_per_part: 2 trans_std: 0.25",
       {4, 1, 4, 2, 1, 16, 0.75, 0.25}},
      {"output_dim: 4 group_size: 2 pooled_size: 5 part_size: 3 spatial_scale: 1 trans_std: 2",
       {5, 2, 3, 1, 4, 4, 1, 2}},
  };
  for (const auto& tested : cases)
    for (const Layout layout : kBothLayouts) {
      SCOPED_TRACE(tested.settings);
      const Voting& how = tested.how;
      const Shape offsets{3, 2 * how.classes, how.part, how.part};
      const Values moves = spread_values(offsets.count(), 4);
      Bench bench(moved(tested.settings), {maps, Shape{3, 5}, offsets}, 1, in_layout(layout));
      bench.set_input(0, x);
      bench.set_input(1, kMovedRegions);
      bench.set_input(2, moves);
      bench.forward();
      expect_near(bench.output(), moved_votes(how, maps, x, kMovedRegions, moves), 1e-13);
      GradientChecker(bench).run();
      Bench still(moved(cat(tested.settings, " no_trans: true")), {maps, Shape{3, 5}, offsets}, 1,
                  in_layout(layout));
      still.set_input(0, x);
      still.set_input(1, kMovedRegions);
      still.set_input(2, moves);
      still.forward();
      expect_near(still.output(), moved_votes(how, maps, x, kMovedRegions, {}), 1e-13);
      still.backward(spread_values(still.outputs[0]->shape.count(), 7));
      EXPECT_EQ(still.input_gradient(2), Values(static_cast<std::size_t>(offsets.count()), 0));
    }
}

TEST(DeformablePsRoiPooling, RefusesWhatDoesNotFit) {
  const Shape maps{1, 8, 4, 4}, rois{3, 5};
  const auto refused = [&](const std::string& settings, const std::vector<Shape>& more = {}) {
    std::vector<Shape> shapes{maps, rois};
    shapes.insert(shapes.end(), more.begin(), more.end());
    return refusal(moved(settings), shapes);
  };
  const auto has = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const std::string good = "output_dim: 2 group_size: 2 spatial_scale: 1 ";
  has(refused("output_dim: 2 spatial_scale: 1"), "group_size must be given");
  has(refused("group_size: 2 spatial_scale: 1"), "output_dim must be given");
  has(refused("output_dim: 3 group_size: 2 spatial_scale: 1"), "need 12 channels");
  has(refused("output_dim: 2 group_size: 2"), "spatial_scale must be positive");
  has(refused(good + "sample_per_part: 0"), "sample_per_part must be positive");
  has(refused(good + "part_size: -1"), "part_size must not be negative");
  has(refused(good, {Shape{3, 2, 2, 2}}), "trans_std must be given");
  has(refused(good + "trans_std: 0.1", {Shape{3, 2, 3, 3}}), "expected 3 x 2 classes x 2 x 2");
  has(refused(good + "trans_std: 0.1", {Shape{3, 6, 2, 2}}), "classes that divide output_dim 2");
}

TEST(BilinearInterpolation, MultipliesTheSizeOrTakesThatOfAnotherBlob) {
  const std::string type = "type: 'BilinearInterpolation' ";
  Bench like(type, {Shape{1, 1, 2, 3}, Shape{1, 4, 3, 5}}, 1);
  like.set_input(0, {0, 2, 4, 10, 12, 14});
  like.forward();
  expect_near(like.output(), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, 1e-14);
  const Bench doubled(type + "bilinear_interpolation_param { interpolation_factor: 2 }", {Shape{1, 3, 2, 3}},
                      1);
  EXPECT_EQ(doubled.outputs[0]->shape, (Shape{1, 3, 4, 6}));
  const auto has = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(refusal(type + "bilinear_interpolation_param { interpolation_factor: 0 }", {Shape{1, 3, 2, 3}}),
      "must be positive; found 0");
  has(refusal(type + "bilinear_interpolation_param { interpolation_factor: 2 }",
              {Shape{1, 3, 2, 3}, Shape{1, 1, 4, 4}}),
      "found both");
}

}  // namespace
}  // namespace banyan::testing
