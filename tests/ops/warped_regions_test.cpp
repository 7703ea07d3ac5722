// Warped regions against loops written from their definition; gradients of corners against differences of the
// same function without rounding.
#include "banyan/ops/warped_regions.hpp"

#include <array>

#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

constexpr std::int64_t kWarped = 7, kWarpedImages = 2, kMapHeight = 6, kMapWidth = 9, kMapChannels = 3;
/// Inside, beyond the border, upside down, without extent, outside, of no image, small. Corners by a half are
/// whole numbers.
const std::vector<double> kCorners = {0, 2, 2, 14,  10, 1,   -6,  4, 30, 20, 1,  12, 10, 6, 4, 0, 6, 4,
                                      6, 4, 1, 100, 90, 130, 120, 2, 2,  2,  10, 10, 0,  4, 2, 6, 4};
constexpr double kHalf = 0.5;

/// One bin along one axis: as many intervals as it has pixels, rounded up.
struct PlainAxis {
  double from, extent;
  std::int64_t bin, bins, intervals;
  PlainAxis(double a, double b, std::int64_t number, std::int64_t of)
      : from(a), extent(std::max(b - a, 0.0)), bin(number), bins(of) {
    intervals = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::ceil(std::round(extent) / static_cast<double>(of))));
  }
  double at(std::int64_t point) const {
    return from +
           extent * static_cast<double>(bin * intervals + point) / static_cast<double>(bins * intervals);
  }
};

bool is_near(double at, std::int64_t length) { return at >= -0.5 && at <= static_cast<double>(length) - 0.5; }

/// The weights of the two pixels that a point lies between.
std::array<std::pair<std::int64_t, double>, 2> two_pixels(double at, std::int64_t length) {
  const double inside = std::min(std::max(at, 0.0), static_cast<double>(length - 1));
  const auto low = static_cast<std::int64_t>(std::floor(inside));
  const double part = inside - std::floor(inside);
  return {{{low, 1 - part}, {std::min(low + 1, length - 1), part}}};
}

double bilinear_value(const std::vector<double>& x, std::int64_t plane, double row, double column) {
  double sum = 0;
  for (const auto& [r, down] : two_pixels(row, kMapHeight))
    for (const auto& [c, right] : two_pixels(column, kMapWidth))
      sum += down * right * x[static_cast<std::size_t>(plane + r * kMapWidth + c)];
  return sum;
}

class WarpedRegions : public DeviceTest {};

TEST_P(WarpedRegions, FollowTheirDefinition) {
  const Shape in{kWarpedImages, kMapChannels, kMapHeight, kMapWidth}, out{kWarped, kMapChannels, 2, 3};
  const ops::RegionBins bins{2, 3, kHalf, 0, 0};
  const std::vector<double> x = rounded(random_values(in.count(), 1)),
                            dy = rounded(random_values(out.count(), 2));
  std::vector<double> y(static_cast<std::size_t>(out.count()), 0), dx(x.size(), 0),
      corners(static_cast<std::size_t>(kWarped) * 5, 0);
  int found = 0;
  for (std::int64_t i = 0; i < out.count(); ++i) {
    const std::int64_t region = i / out.count(1), c = i / out.count(2) % kMapChannels;
    const double* const roi = &kCorners[static_cast<std::size_t>(5 * region)];
    if (roi[0] >= kWarpedImages) continue;
    const std::int64_t plane = (static_cast<std::int64_t>(roi[0]) * kMapChannels + c) * in.count(2);
    const PlainAxis down(roi[2] * kHalf, roi[4] * kHalf, i / 3 % 2, 2),
        right(roi[1] * kHalf, roi[3] * kHalf, i % 3, 3);
    std::int64_t row = -1, column = -1;
    double best = 0;
    for (std::int64_t r = 0; r <= down.intervals; ++r)
      for (std::int64_t s = 0; s <= right.intervals; ++s) {
        if (!is_near(down.at(r), kMapHeight) || !is_near(right.at(s), kMapWidth)) continue;
        const double value = bilinear_value(x, plane, down.at(r), right.at(s));
        if (row >= 0 && value <= best) continue;
        best = value;
        row = r;
        column = s;
      }
    if (row < 0) continue;
    ++found;
    const auto at = static_cast<std::size_t>(i);
    y[at] = best;
    for (const auto& [r, part_r] : two_pixels(down.at(row), kMapHeight))
      for (const auto& [s, part_s] : two_pixels(right.at(column), kMapWidth))
        dx[static_cast<std::size_t>(plane + r * kMapWidth + s)] += part_r * part_s * dy[at];
    // To the right of where it is, if it is a kink, as between pixels.
    const auto moved = [&](std::size_t k, double by) {
      std::array<double, 4> to{roi[1], roi[2], roi[3], roi[4]};
      to[k] += by;
      PlainAxis of_rows(to[1] * kHalf, to[3] * kHalf, i / 3 % 2, 2),
          of_columns(to[0] * kHalf, to[2] * kHalf, i % 3, 3);
      of_rows.intervals = down.intervals;
      of_columns.intervals = right.intervals;
      return std::pair{of_rows.at(row), of_columns.at(column)};
    };
    const double h = 1.0 / (1 << 20);
    const auto slope = [&](bool along_rows) {
      const double place = along_rows ? down.at(row) : right.at(column);
      const std::int64_t length = along_rows ? kMapHeight : kMapWidth;
      if (place < 0 || place >= static_cast<double>(length - 1)) return 0.0;
      const double r = down.at(row), s = right.at(column);
      return (bilinear_value(x, plane, along_rows ? r + h : r, along_rows ? s : s + h) -
              bilinear_value(x, plane, r, s)) /
             h;
    };
    for (std::size_t k = 0; k < 4; ++k) {
      const bool turned = k % 2 == 0 ? roi[3] < roi[1] : roi[4] < roi[2];
      const bool flat = k % 2 == 0 ? roi[3] == roi[1] : roi[4] == roi[2];
      double way = 0;  // of the point, per unit of the corner
      if (turned) {
        way = k < 2 ? kHalf : 0;
      } else {
        // A region without extent grows by the far corner, and as well by the near one.
        const double step = flat && k < 2 ? -h : h;
        const auto [to_row, to_column] = moved(k, step);
        way = k % 2 == 0 ? (to_column - right.at(column)) / step : (to_row - down.at(row)) / step;
      }
      corners[static_cast<std::size_t>(5 * region) + 1 + k] += dy[at] * way * slope(k % 2 == 1);
    }
  }
  EXPECT_GT(found, 40);
  for (const Layout layout : kLayouts) {
    const Tensor input = make(in, x, layout), above = make(out, dy, layout),
                 rois = make({kWarped, 5}, kCorners);
    Tensor output = empty(out, layout), gradient = empty(in, layout), of_corners = empty({kWarped, 5});
    Tensor chosen(device(), out, DType::i32, layout);
    ops::warped_maximum(context(), bins, input, rois, output, chosen);
    expect_near(values(output), y, 64 * epsilon());
    ops::warped_maximum_backward(context(), bins, above, rois, chosen, gradient);
    expect_near(values(gradient), dx, 64 * epsilon());
    ops::warped_corners_backward(context(), bins, input, above, rois, chosen, of_corners);
    expect_near(values(of_corners), corners, std::max(256 * epsilon(), 1e-8));
  }
}

/// More than 2^31 points lie in a bin of such a region.
TEST_P(WarpedRegions, MayBeAsLargeAsTheyLike) {
  const ops::RegionBins bins{1, 1, 1, 0, 0};
  const Tensor x = make({1, 1, 2, 2}, {1, 2, 4, 3}),
               rois = make({2, 5}, {0, -1e30, -1e30, 1e30, 1e30, 0, -70000, -70000, 70000, 70000});
  Tensor y = empty({2, 1, 1, 1});
  Tensor chosen(device(), {2, 1, 1, 1}, DType::i32);
  ops::warped_maximum(context(), bins, x, rois, y, chosen);
  expect_near(values(y), {4, 4}, dtype() == DType::f64 ? 1e-9 : 0.05);
}

BANYAN_ON_ALL_DEVICES(WarpedRegions);

}  // namespace
}  // namespace banyan
