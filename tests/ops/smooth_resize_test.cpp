// Resizing with smoothing against two passes along each axis, written from the definition.
#include "banyan/ops/smooth_resize.hpp"

#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using Line = std::vector<double>;

/// Each number becomes the mean of those around it, with weights that fall to 0 at the distance `radius`.
Line smoothed_line(const Line& line, double radius) {
  const auto length = static_cast<std::int64_t>(line.size());
  Line result;
  for (std::int64_t i = 0; i < length; ++i) {
    double sum = 0, weights = 0;
    for (std::int64_t k = i - 100; k <= i + 100; ++k) {
      const double weight = radius - std::abs(static_cast<double>(k - i));
      if (weight <= 0) continue;
      weights += weight;
      sum += weight * line[static_cast<std::size_t>(std::clamp<std::int64_t>(k, 0, length - 1))];
    }
    result.push_back(sum / weights);
  }
  return result;
}

Line resized_line(Line line, const ops::SmoothAxis& axis, std::int64_t count) {
  if (axis.scale < 1) line = smoothed_line(line, 1 / std::max(axis.scale, 0.01));
  Line result;
  for (std::int64_t o = 0; o < count; ++o) {
    const double last = static_cast<double>(line.size() - 1);
    const double at = std::clamp(static_cast<double>(o) / axis.scale + axis.crop, 0.0, last);
    const auto low = static_cast<std::size_t>(at);
    const double part = at - static_cast<double>(low);
    result.push_back((1 - part) * line[low] + part * line[std::min(low + 1, line.size() - 1)]);
  }
  return result;
}

/// A plane of `rows` rows.
std::vector<double> resized_plane(const std::vector<double>& x, std::int64_t rows,
                                  const ops::SmoothAxis& down, std::int64_t height,
                                  const ops::SmoothAxis& right, std::int64_t width) {
  const std::size_t columns = x.size() / static_cast<std::size_t>(rows);
  std::vector<Line> wide;
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r)
    wide.push_back(resized_line(Line(x.begin() + static_cast<std::ptrdiff_t>(r * columns),
                                     x.begin() + static_cast<std::ptrdiff_t>((r + 1) * columns)),
                                right, width));
  std::vector<double> result(static_cast<std::size_t>(height * width));
  for (std::size_t c = 0; c < static_cast<std::size_t>(width); ++c) {
    Line column;
    for (const Line& row : wide) column.push_back(row[c]);
    const Line tall = resized_line(column, down, height);
    for (std::size_t r = 0; r < tall.size(); ++r) result[r * static_cast<std::size_t>(width) + c] = tall[r];
  }
  return result;
}

class SmoothResize : public DeviceTest {};

TEST_P(SmoothResize, FollowsItsDefinitionForwardAndBackward) {
  struct Sizes {
    std::int64_t height, width;
    ops::SmoothAxis rows, columns;
    std::int64_t channels = 3;
  };
  const std::int64_t kTall = 9, kWide = 13;
  for (const Sizes& to :
       {Sizes{4, 3, {3.0 / 8, 0}, {2.0 / 12, 0}}, Sizes{4, 3, {3.0 / 8, 0}, {2.0 / 12, 0}, 19},
        Sizes{12, 25, {11.0 / 8, 0}, {2, 0}}, Sizes{12, 25, {11.0 / 8, 0}, {2, 0}, 5},
        Sizes{9, 5, {1, 0}, {0.4, 1.25}}, Sizes{2, 2, {0.001, 0}, {1.0 / 12, 0}},
        Sizes{30, 21, {1, -10}, {0.5, 7.5}}}) {  // outputs on both sides of the image
    const std::int64_t planes = 2 * to.channels;
    const Shape in{2, to.channels, kTall, kWide}, out{2, to.channels, to.height, to.width};
    const std::vector<double> x = rounded(random_values(in.count(), 1)),
                              dy = rounded(random_values(out.count(), 2));
    std::vector<double> y;
    for (std::int64_t plane = 0; plane < planes; ++plane) {
      const auto first = x.begin() + static_cast<std::ptrdiff_t>(plane * kTall * kWide);
      const std::vector<double> one = resized_plane(std::vector<double>(first, first + kTall * kWide), kTall,
                                                    to.rows, to.height, to.columns, to.width);
      y.insert(y.end(), one.begin(), one.end());
    }
    // dx of a pixel: what dy meets when that pixel alone is 1.
    std::vector<double> dx(x.size());
    for (std::int64_t pixel = 0; pixel < kTall * kWide; ++pixel) {
      std::vector<double> unit(static_cast<std::size_t>(kTall * kWide), 0);
      unit[static_cast<std::size_t>(pixel)] = 1;
      const std::vector<double> seen = resized_plane(unit, kTall, to.rows, to.height, to.columns, to.width);
      for (std::int64_t plane = 0; plane < planes; ++plane)
        for (std::size_t k = 0; k < seen.size(); ++k)
          dx[static_cast<std::size_t>(plane * kTall * kWide + pixel)] +=
              seen[k] * dy[static_cast<std::size_t>(plane) * seen.size() + k];
    }
    for (const Layout layout : kLayouts) {
      const Tensor input = make(in, x, layout), above = make(out, dy, layout);
      Tensor output = empty(out, layout), gradient = empty(in, layout);
      ops::smooth_resize(context(), to.rows, to.columns, input, output);
      expect_near(values(output), y, 32 * epsilon());
      ops::smooth_resize_backward(context(), to.rows, to.columns, above, gradient);
      expect_near(values(gradient), dx, 512 * epsilon());
    }
  }
}

/// A pixel that is not finite shows where it has a part only, and so does a gradient.
TEST_P(SmoothResize, LeavesPixelsWithoutPartAlone) {
  const ops::SmoothAxis same, half{0.5, 0};
  const Shape in{1, 1, 8, 9}, out{1, 1, 8, 5};
  std::vector<double> x(72, 1), dy(40, 1);
  x[3 * 9 + 4] = dy[3 * 5 + 2] = INFINITY;
  Tensor output = empty(out), gradient = empty(in);
  const Tensor input = make(in, x), above = make(out, dy);
  ops::smooth_resize(context(), same, half, input, output);
  ops::smooth_resize_backward(context(), same, half, above, gradient);
  const std::vector<double> y = values(output), dx = values(gradient);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isfinite(y[i]), i != 17) << i;
  // Column 4 of the image has the weight 1 / 2 for column 2 of the output, its neighbours 1 / 4.
  for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_EQ(std::isfinite(dx[i]), i < 30 || i > 32) << i;
}

BANYAN_ON_ALL_DEVICES(SmoothResize);

}  // namespace
}  // namespace banyan
