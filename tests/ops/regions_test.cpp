// Pooling over regions of interest against loops written from the papers' definitions, in floating point.
#include "banyan/ops/regions.hpp"

#include "banyan/ops/prior_boxes.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using Numbers = std::vector<double>;

constexpr std::int64_t kRegions = 6, kImages = 2, kHeight = 7, kWidth = 9;
/// Inside, beyond the border, upside down, one pixel, outside, of no image. Corners times scale are not close
/// to where they are rounded.
const Numbers kRois = {0, 2, 1, 13, 11, 1, -6,  3,  30,  20,  1, 12, 10, 6,  4,
                       0, 5, 5, 5,  5,  1, 100, 90, 130, 120, 2, 1,  1,  10, 10};

class RegionsTest : public DeviceTest {
 protected:
  Tensor rois() { return make({kRegions, 5}, kRois); }
};

struct Box {
  double x1, y1, x2, y2;
  std::int64_t image;
};
Box box(std::int64_t region) {
  const double* at = &kRois[static_cast<std::size_t>(region * 5)];
  return {at[1], at[2], at[3], at[4], static_cast<std::int64_t>(at[0])};
}

/// visit(output element, image, channel of y, bin row, bin column, box)
template <class Visit>
void for_each_bin(const Shape& y, const Visit& visit) {
  for (std::int64_t i = 0; i < y.count(); ++i) {
    const std::int64_t region = i / y.count(1), c = i / y.count(2) % y[1];
    const Box b = box(region);
    if (b.image < kImages) visit(static_cast<std::size_t>(i), c, i / y[3] % y[2], i % y[3], b);
  }
}

std::size_t place(std::int64_t image, std::int64_t channels, std::int64_t c, std::int64_t row,
                  std::int64_t column) {
  return static_cast<std::size_t>(((image * channels + c) * kHeight + row) * kWidth + column);
}

std::int64_t clip(double value, std::int64_t most) {
  return static_cast<std::int64_t>(std::min(std::max(value, 0.0), static_cast<double>(most)));
}

class PaddedRegionsTest : public RegionsTest {
 protected:
  void check_maximum(double pad);
};

void PaddedRegionsTest::check_maximum(double pad) {
  const ops::RegionBins bins{3, 2, 0.5, 0, pad};
  const Shape in{kImages, 3, kHeight, kWidth}, out{kRegions, 3, 3, 2};
  const Numbers x = rounded(random_values(in.count(), 1)), dy = rounded(random_values(out.count(), 2));
  Numbers y(static_cast<std::size_t>(out.count()), 0.0), mask(y.size(), -1.0), dx(x.size(), 0.0);
  for_each_bin(out, [&](std::size_t i, std::int64_t c, std::int64_t row, std::int64_t column, const Box& b) {
    const double more_x = (b.x2 - b.x1 + 1) * pad, more_y = (b.y2 - b.y1 + 1) * pad;
    const double left = std::round((b.x1 - more_x) * 0.5), top = std::round((b.y1 - more_y) * 0.5);
    const double w = std::max(std::round((b.x2 + more_x) * 0.5) - left + 1, 1.0) / 2;
    const double h = std::max(std::round((b.y2 + more_y) * 0.5) - top + 1, 1.0) / 3;
    const double tiny = 1e-9;  // the bins' borders are fractions
    const std::int64_t r0 = clip(std::floor(static_cast<double>(row) * h + tiny) + top, kHeight),
                       r1 = clip(std::ceil(static_cast<double>(row + 1) * h - tiny) + top, kHeight),
                       c0 = clip(std::floor(static_cast<double>(column) * w + tiny) + left, kWidth),
                       c1 = clip(std::ceil(static_cast<double>(column + 1) * w - tiny) + left, kWidth);
    for (std::int64_t r = r0; r < r1; ++r)
      for (std::int64_t s = c0; s < c1; ++s)
        if (mask[i] < 0 || x[place(b.image, 3, c, r, s)] > y[i]) {
          y[i] = x[place(b.image, 3, c, r, s)];
          mask[i] = static_cast<double>(r * kWidth + s);
        }
    if (mask[i] >= 0) dx[place(b.image, 3, c, 0, 0) + static_cast<std::size_t>(mask[i])] += dy[i];
  });
  for (const Layout layout : kLayouts) {
    const Tensor input = make(in, x, layout), above = make(out, dy, layout), regions = rois();
    Tensor output = empty(out, layout), gradient = empty(in, layout);
    Tensor chosen(device(), out, DType::i32, layout);
    ops::region_maximum(context(), bins, input, regions, output, chosen);
    EXPECT_EQ(values(output), y);
    EXPECT_EQ(values(chosen), mask);
    ops::region_maximum_backward(context(), bins, above, regions, chosen, gradient);
    expect_near(values(gradient), dx, 64 * epsilon());
  }
}

TEST_P(PaddedRegionsTest, MaximumFollowsFastRcnn) { check_maximum(0); }
TEST_P(PaddedRegionsTest, MaximumFollowsMsCnn) { check_maximum(0.25); }

/// Cascade R-CNN's ROIAlign, as it is described.
TEST_P(RegionsTest, GridFollowsCascadeRcnn) {
  const Shape in{kImages, 3, kHeight, kWidth}, out{kRegions, 3, 3, 4};
  const Numbers x = rounded(random_values(in.count(), 1)), dy = rounded(random_values(out.count(), 2));
  for (const double pad : {0.0, 0.125}) {
    const ops::RegionBins bins{3, 4, 0.375, 0, pad};
    Numbers y(static_cast<std::size_t>(out.count()), 0.0), dx(x.size(), 0.0);
    int inside = 0;
    for_each_bin(out, [&](std::size_t i, std::int64_t c, std::int64_t row, std::int64_t column,
                          const Box& b) {
      const auto place_of = [&](double from, double to, std::int64_t point, std::int64_t last) {
        const double more = (to - from + 1) * pad;
        const double begin = (from - more) * 0.375 - 0.5, end = (to + more) * 0.375 - 0.5;
        return end > begin ? begin + static_cast<double>(point) * (end - begin) / static_cast<double>(last)
                           : -1.0;
      };
      double at_y = place_of(b.y1, b.y2, row, 2), at_x = place_of(b.x1, b.x2, column, 3);
      if (at_y < -0.5 || at_y > kHeight - 0.5 || at_x < -0.5 || at_x > kWidth - 0.5) return;
      ++inside;
      const auto clamped = [](double value, std::int64_t length) {
        return std::min(std::max(value, 0.0), static_cast<double>(length - 1));
      };
      for (const double low_y : {0.0, 1.0})
        for (const double low_x : {0.0, 1.0}) {
          const double in_y = clamped(at_y, kHeight), in_x = clamped(at_x, kWidth);
          const double part_y = in_y - clamped(std::floor(at_y), kHeight),
                       part_x = in_x - clamped(std::floor(at_x), kWidth);
          const auto pixel_y = static_cast<std::int64_t>(clamped(std::floor(at_y) + low_y, kHeight)),
                     pixel_x = static_cast<std::int64_t>(clamped(std::floor(at_x) + low_x, kWidth));
          const double weight = (low_y > 0 ? part_y : 1 - part_y) * (low_x > 0 ? part_x : 1 - part_x);
          y[i] += weight * x[place(b.image, 3, c, pixel_y, pixel_x)];
          dx[place(b.image, 3, c, pixel_y, pixel_x)] += weight * dy[i];
        }
    });
    EXPECT_GT(inside, 30);
    for (const Layout layout : kLayouts) {
      const Tensor input = make(in, x, layout), above = make(out, dy, layout), regions = rois();
      Tensor output = empty(out, layout), gradient = empty(in, layout);
      ops::region_grid(context(), bins, input, regions, output);
      expect_near(values(output), y, 128 * epsilon());
      ops::region_grid_backward(context(), bins, above, regions, gradient);
      expect_near(values(gradient), dx, 128 * epsilon());
    }
  }
}

/// Weights of the pixels for one bin of a region: of a point, then the mean over the points.
void add_point(double y, double x, double share, std::vector<std::pair<std::size_t, double>>& weights) {
  if (y < -1 || y > kHeight || x < -1 || x > kWidth) return;
  y = std::min(std::max(y, 0.0), kHeight - 1.0);
  x = std::min(std::max(x, 0.0), kWidth - 1.0);
  for (std::int64_t row = 0; row < kHeight; ++row)
    for (std::int64_t column = 0; column < kWidth; ++column) {
      const double near_y = 1 - std::abs(y - static_cast<double>(row)),
                   near_x = 1 - std::abs(x - static_cast<double>(column));
      if (near_y > 0 && near_x > 0)
        weights.emplace_back(static_cast<std::size_t>(row * kWidth + column), share * near_y * near_x);
    }
}

TEST_P(RegionsTest, AverageFollowsRoiAlign) {
  const Shape in{kImages, 3, kHeight, kWidth}, out{kRegions, 3, 2, 3};
  const Numbers x = rounded(random_values(in.count(), 1)), dy = rounded(random_values(out.count(), 2));
  for (const std::int64_t points : {0, 2}) {
    const ops::RegionBins bins{2, 3, 0.375, points};
    Numbers y(static_cast<std::size_t>(out.count()), 0.0), dx(x.size(), 0.0);
    for_each_bin(
        out, [&](std::size_t i, std::int64_t c, std::int64_t row, std::int64_t column, const Box& b) {
          const double left = b.x1 * 0.375, top = b.y1 * 0.375;
          const double w = std::max(b.x2 * 0.375 - left, 1.0) / 3, h = std::max(b.y2 * 0.375 - top, 1.0) / 2;
          const std::int64_t down = points > 0 ? points : static_cast<std::int64_t>(std::ceil(h)),
                             right = points > 0 ? points : static_cast<std::int64_t>(std::ceil(w));
          std::vector<std::pair<std::size_t, double>> weights;
          for (std::int64_t p = 0; p < down; ++p)
            for (std::int64_t q = 0; q < right; ++q)
              add_point(top + h * (static_cast<double>(row) +
                                   (static_cast<double>(p) + 0.5) / static_cast<double>(down)),
                        left + w * (static_cast<double>(column) +
                                    (static_cast<double>(q) + 0.5) / static_cast<double>(right)),
                        1 / static_cast<double>(down * right), weights);
          for (const auto& [pixel, weight] : weights) {
            y[i] += weight * x[place(b.image, 3, c, 0, 0) + pixel];
            dx[place(b.image, 3, c, 0, 0) + pixel] += weight * dy[i];
          }
        });
    for (const Layout layout : kLayouts) {
      const Tensor input = make(in, x, layout), above = make(out, dy, layout), regions = rois();
      Tensor output = empty(out, layout), gradient = empty(in, layout);
      ops::region_average(context(), bins, input, regions, output);
      expect_near(values(output), y, 128 * epsilon());
      ops::region_average_backward(context(), bins, above, regions, gradient);
      expect_near(values(gradient), dx, 128 * epsilon());
    }
  }
}

TEST_P(RegionsTest, VotesFollowRfcn) {
  const ops::RegionBins bins{2, 2, 0.375, 0};
  const Shape in{kImages, 12, kHeight, kWidth}, out{kRegions, 3, 2, 2};
  const Numbers x = rounded(random_values(in.count(), 1)), dy = rounded(random_values(out.count(), 2));
  Numbers y(static_cast<std::size_t>(out.count()), 0.0), dx(x.size(), 0.0);
  for_each_bin(out, [&](std::size_t i, std::int64_t c, std::int64_t row, std::int64_t column, const Box& b) {
    const double left = std::round(b.x1) * 0.375, right = (std::round(b.x2) + 1) * 0.375;
    const double top = std::round(b.y1) * 0.375, bottom = (std::round(b.y2) + 1) * 0.375;
    const double w = std::max(right - left, 0.1) / 2, h = std::max(bottom - top, 0.1) / 2;
    const std::int64_t r0 = clip(std::floor(top + static_cast<double>(row) * h), kHeight),
                       r1 = clip(std::ceil(top + static_cast<double>(row + 1) * h), kHeight),
                       c0 = clip(std::floor(left + static_cast<double>(column) * w), kWidth),
                       c1 = clip(std::ceil(left + static_cast<double>(column + 1) * w), kWidth);
    if (r1 <= r0 || c1 <= c0) return;
    const double area = static_cast<double>((r1 - r0) * (c1 - c0));
    for (std::int64_t r = r0; r < r1; ++r)
      for (std::int64_t s = c0; s < c1; ++s) {
        const std::size_t at = place(b.image, 12, c * 4 + row * 2 + column, r, s);
        y[i] += x[at] / area;
        dx[at] += dy[i] / area;
      }
  });
  for (const Layout layout : kLayouts) {
    const Tensor input = make(in, x, layout), above = make(out, dy, layout), regions = rois();
    Tensor output = empty(out, layout), gradient = empty(in, layout);
    ops::region_votes(context(), bins, input, regions, output);
    expect_near(values(output), y, 64 * epsilon());
    ops::region_votes_backward(context(), bins, above, regions, gradient);
    expect_near(values(gradient), dx, 64 * epsilon());
  }
}

struct Sizes {
  std::int64_t channels, height, width, pooled_h, pooled_w;
};

class RegionLayouts : public RegionsTest {
 protected:
  /// `tolerance`: times epsilon.
  void compare(const Sizes& sizes, const Numbers& rois, double tolerance);
};

void RegionLayouts::compare(const Sizes& sizes, const Numbers& rois, double tolerance) {
  const ops::RegionBins bins{sizes.pooled_h, sizes.pooled_w, 0.375, 0};
  const auto count = static_cast<std::int64_t>(rois.size() / 5);
  const Shape in{kImages, sizes.channels, sizes.height, sizes.width},
      out{count, sizes.channels, sizes.pooled_h, sizes.pooled_w},
      many{kImages, sizes.channels * sizes.pooled_h * sizes.pooled_w, sizes.height, sizes.width};
  const Numbers x = rounded(random_values(many.count(), 1)), dy = rounded(random_values(out.count(), 2));
  const Numbers some(x.begin(), x.begin() + in.count());
  std::vector<Numbers> found[2];
  for (const Layout layout : kLayouts) {
    const Tensor input = make(in, some, layout), votes = make(many, x, layout), above = make(out, dy, layout),
                 regions = make({count, 5}, rois);
    Tensor output = empty(out, layout), gradient = empty(in, layout), of_votes = empty(many, layout);
    Tensor chosen(device(), out, DType::i32, layout);
    std::vector<Numbers>& results = found[layout == Layout::channels_last ? 1 : 0];
    ops::region_maximum(context(), bins, input, regions, output, chosen);
    results.push_back(values(output));
    results.push_back(values(chosen));
    ops::region_maximum_backward(context(), bins, above, regions, chosen, gradient);
    results.push_back(values(gradient));
    ops::region_average(context(), bins, input, regions, output);
    results.push_back(values(output));
    ops::region_average_backward(context(), bins, above, regions, gradient);
    results.push_back(values(gradient));
    ops::region_grid(context(), bins, input, regions, output);
    results.push_back(values(output));
    ops::region_grid_backward(context(), bins, above, regions, gradient);
    results.push_back(values(gradient));
    ops::region_votes(context(), bins, votes, regions, output);
    results.push_back(values(output));
    ops::region_votes_backward(context(), bins, above, regions, of_votes);
    results.push_back(values(of_votes));
  }
  for (std::size_t i = 0; i < found[0].size(); ++i) {
    SCOPED_TRACE(i);
    expect_near(found[1][i], found[0][i], tolerance * epsilon());
  }
}

// The same terms in the same order; some products may be rounded before they are added, some not.

/// More channels than a vector has, and no multiple; each thread has some of them.
TEST_P(RegionLayouts, AgreeOnManyChannels) { compare({43, kHeight, kWidth, 2, 3}, kRois, 16); }

TEST_P(RegionLayouts, AgreeOnEnoughForSeveralThreads) {
  constexpr int kMany = 60;
  const Numbers places = random_values(kMany * 4, 3, -8, 32);
  Numbers rois;
  for (int r = 0; r < kMany; ++r) {
    const double *const at = &places[static_cast<std::size_t>(4 * r)], x = at[0], y = at[1];
    rois.insert(rois.end(), {r % 10 == 9 ? 2.0 : r % 2, x, y, x + std::abs(at[2]), y + std::abs(at[3])});
  }
  // A pixel may get a term from each bin of half of the regions.
  compare({35, 12, 14, 4, 4}, rois, kMany / 2 * 16);
}

TEST_P(RegionsTest, SurviveNoRegionsAndWildOnes) {
  const double wild = 1e30, nan = std::numeric_limits<double>::quiet_NaN();
  const ops::RegionBins bins{2, 2, 1, 1};
  const Shape in{1, 4, kHeight, kWidth};
  const Numbers zeros(static_cast<std::size_t>(in.count()), 0.0), ones(zeros.size(), 1.0),
      unwritten(zeros.size(), nan);
  const Tensor roi = make({3, 5}, {0, -wild, -wild, wild, wild, 0, nan, nan, nan, nan, nan, 0, 0, 1, 1});
  const Tensor no_roi = empty({0, 5});
  for (const Layout layout : kLayouts) {
    SCOPED_TRACE(name_of(layout));
    const Tensor x = make(in, ones, layout);
    Tensor y = empty({3, 4, 2, 2}, layout), none = empty({0, 4, 2, 2}, layout),
           votes = empty({3, 1, 2, 2}, layout), no_votes = empty({0, 1, 2, 2}, layout);
    Tensor dx = make(in, unwritten, layout), mask(device(), {3, 4, 2, 2}, DType::i32, layout),
           no_mask(device(), {0, 4, 2, 2}, DType::i32, layout);
    const auto expect_finite = [&](const Tensor& tensor) {
      for (const double value : values(tensor)) ASSERT_TRUE(std::isfinite(value));
    };
    ops::region_maximum(context(), bins, x, roi, y, mask);
    EXPECT_EQ(values(y)[0], 1);
    EXPECT_EQ(values(y)[47], 0);  // its image is not a number
    ops::region_maximum_backward(context(), bins, y, roi, mask, dx);
    expect_finite(dx);
    ops::region_average(context(), bins, x, roi, y);
    EXPECT_EQ(values(y)[47], 0);
    dx = make(in, unwritten, layout);
    ops::region_average_backward(context(), bins, y, roi, dx);
    expect_finite(dx);
    for (const double pad : {0.0, 0.5}) {
      const ops::RegionBins grid{2, 2, 1, 1, pad};
      ops::region_grid(context(), grid, x, roi, y);
      EXPECT_EQ(values(y)[47], 0);
      expect_finite(y);
      dx = make(in, unwritten, layout);
      ops::region_grid_backward(context(), grid, y, roi, dx);
      expect_finite(dx);
    }
    ops::region_votes(context(), bins, x, roi, votes);
    EXPECT_EQ(values(votes)[0], 1);
    EXPECT_EQ(values(votes)[11], 0);
    dx = make(in, unwritten, layout);
    ops::region_votes_backward(context(), bins, votes, roi, dx);
    expect_finite(dx);

    ops::region_maximum(context(), bins, x, no_roi, none, no_mask);
    ops::region_average(context(), bins, x, no_roi, none);
    ops::region_grid(context(), bins, x, no_roi, none);
    ops::region_votes(context(), bins, x, no_roi, no_votes);
    dx = make(in, unwritten, layout);
    ops::region_maximum_backward(context(), bins, none, no_roi, no_mask, dx);
    EXPECT_EQ(values(dx), zeros);
    dx = make(in, unwritten, layout);
    ops::region_average_backward(context(), bins, none, no_roi, dx);
    EXPECT_EQ(values(dx), zeros);
    dx = make(in, unwritten, layout);
    ops::region_votes_backward(context(), bins, no_votes, no_roi, dx);
    EXPECT_EQ(values(dx), zeros);
    EXPECT_THROW(ops::region_votes(context(), bins, x, roi, y), Error);
  }
}

/// Tensors whose elements are in one order in both layouts, or nearly so.
TEST_P(RegionsTest, OneChannelAndOneBin) {
  const ops::RegionBins bins{1, 1, 1, 1};
  for (const Layout layout : kLayouts)
    for (const std::int64_t channels : {1, 3}) {
      SCOPED_TRACE(cat(name_of(layout), ", ", channels, " channels"));
      const Shape in{2, channels, 3, 3}, out{1, channels, 1, 1};
      Numbers x(static_cast<std::size_t>(in.count())), y, dy, dx(x.size(), 0.0);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
      // All of the second image: its largest pixel, the last, and its middle.
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t first = (channels + c) * 9;
        y.push_back(static_cast<double>(first + 8));
        dy.push_back(static_cast<double>(c + 1));
        dx[static_cast<std::size_t>(first + 8)] = dy.back();
      }
      const Tensor input = make(in, x, layout), roi = make({1, 5}, {1, 0, 0, 2, 2}),
                   above = make(out, dy, layout);
      Tensor output = empty(out, layout), gradient = empty(in, layout),
             mask(device(), out, DType::i32, layout);
      ops::region_maximum(context(), bins, input, roi, output, mask);
      EXPECT_EQ(values(output), y);
      EXPECT_EQ(values(mask), Numbers(y.size(), 8.0));
      ops::region_maximum_backward(context(), bins, above, roi, mask, gradient);
      EXPECT_EQ(values(gradient), dx);
      for (double& value : y) value -= 4;
      ops::region_average(context(), bins, input, roi, output);
      EXPECT_EQ(values(output), y);
      for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = i + 4 < dx.size() ? dx[i + 4] : 0;
      ops::region_average_backward(context(), bins, above, roi, gradient);
      EXPECT_EQ(values(gradient), dx);
      ops::region_votes(context(), bins, input, roi, output);  // the mean of all nine, which is the middle
      expect_near(values(output), y, 16 * epsilon());
      for (std::size_t i = 0; i < dx.size(); ++i)
        dx[i] = i < dx.size() / 2 ? 0 : dy[i / 9 - static_cast<std::size_t>(channels)] / 9;
      ops::region_votes_backward(context(), bins, above, roi, gradient);
      expect_near(values(gradient), dx, 2 * epsilon());
    }
}

TEST_P(RegionsTest, PriorBoxesCoverEveryPosition) {
  const Numbers sizes = {2, 2, 8, 4};
  ops::PriorBoxes boxes{2, 3, 10, 20, 5, 6, 0.5, true, {0.1, 0.1, 0.2, 0.3}};
  const Tensor on_device = make_as(DType::f64, {2, 2}, sizes);
  Tensor y = empty({1, 2, 48});
  ops::prior_boxes(context(), boxes, on_device, y);
  Numbers expected;
  for (int row = 0; row < 2; ++row)
    for (int column = 0; column < 3; ++column)
      for (std::size_t b = 0; b < 2; ++b)
        for (const double side : {-1.0, 1.0}) {
          const double at_x = (column + 0.5) * 6 + side * sizes[2 * b] / 2;
          const double at_y = (row + 0.5) * 5 + side * sizes[2 * b + 1] / 2;
          expected.push_back(std::min(std::max(at_x / 20, 0.0), 1.0));
          expected.push_back(std::min(std::max(at_y / 10, 0.0), 1.0));
        }
  for (int i = 0; i < 12; ++i) expected.insert(expected.end(), {0.1, 0.1, 0.2, 0.3});
  expect_near(values(y), expected, 2 * epsilon());
}

TEST_P(RegionsTest, DenserPriorBoxesLieAtTheLowerEdge) {
  const Numbers sizes = {2, 2, 8, 4};
  ops::PriorBoxes boxes{2, 3, 10, 20, 5, 6, 0.25, false, {0.1, 0.1, 0.2, 0.3}, true};
  const Tensor on_device = make_as(DType::f64, {2, 2}, sizes);
  Tensor y = empty({1, 2, 96});
  ops::prior_boxes(context(), boxes, on_device, y);
  Numbers expected;
  for (int row = 0; row < 2; ++row)
    for (int column = 0; column < 3; ++column)
      for (std::size_t b = 0; b < 2; ++b)
        for (const double centre_y : {(row + 0.25) * 5, (row + 1.0) * 5})
          for (const double side : {-1.0, 1.0}) {
            expected.push_back(((column + 0.25) * 6 + side * sizes[2 * b] / 2) / 20);
            expected.push_back((centre_y + side * sizes[2 * b + 1] / 2) / 10);
          }
  for (int i = 0; i < 24; ++i) expected.insert(expected.end(), {0.1, 0.1, 0.2, 0.3});
  expect_near(values(y), expected, 2 * epsilon());
}

BANYAN_ON_ALL_DEVICES(RegionsTest);
BANYAN_ON_ALL_DEVICES(PaddedRegionsTest);
BANYAN_ON_ALL_DEVICES(RegionLayouts);

}  // namespace
}  // namespace banyan
