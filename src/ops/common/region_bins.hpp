// Where the bins of regions of interest lie.
#pragma once

#include <cmath>

#include "banyan/ops/regions.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/index_below.hpp"
#include "ops/common/planes.hpp"

namespace banyan::ops::detail {

struct Regions {
  std::int64_t count, images, height, width;
  Planes in, out;  ///< they differ in the number of channels only
  std::int64_t pooled_h, pooled_w, points;
  double scale, pad;

  BANYAN_HOST_DEVICE PlanePosition bin(std::int64_t i) const { return out.locate(i, pooled_h, pooled_w); }
  BANYAN_HOST_DEVICE PlanePosition plane(std::int64_t i) const {
    return {i / in.channels, i % in.channels, 0, 0};
  }
  BANYAN_HOST_DEVICE std::int64_t input_base(std::int64_t image, std::int64_t channel) const {
    return in.base({image, channel, 0, 0}, height * width);
  }
  BANYAN_HOST_DEVICE std::int64_t output_base(std::int64_t region, std::int64_t channel) const {
    return out.base({region, channel, 0, 0}, pooled_h * pooled_w);
  }
  /// -1: none.
  template <class T>
  BANYAN_HOST_DEVICE std::int64_t image_of(const T* roi) const {
    return index_below(roi[0], images);
  }
};

/// A coordinate far outside every image, or not a number, becomes one that can be computed with.
template <class T>
BANYAN_HOST_DEVICE inline T bounded(T coordinate) {
  constexpr T kFar = 1 << 20;
  return coordinate > -kFar ? coordinate < kFar ? coordinate : kFar : -kFar;
}

BANYAN_HOST_DEVICE inline std::int64_t clipped(std::int64_t value, std::int64_t most) {
  return value < 0 ? 0 : value < most ? value : most;
}

/// Pixels [begin, end) of an axis.
struct Span {
  std::int64_t begin, end;
  BANYAN_HOST_DEVICE bool empty() const { return end <= begin; }
};

/// Bin number `bin` of `bins` between two corners, within an axis of `length` pixels. Whole pixels: exact.
template <class T>
BANYAN_HOST_DEVICE inline Span rounded_bin(T from, T to, T scale, std::int64_t bin, std::int64_t bins,
                                           std::int64_t length) {
  const auto first = static_cast<std::int64_t>(std::round(bounded(from * scale)));
  const auto last = static_cast<std::int64_t>(std::round(bounded(to * scale)));
  const std::int64_t size = last < first ? 1 : last - first + 1;
  return {clipped(first + bin * size / bins, length),
          clipped(first + ((bin + 1) * size + bins - 1) / bins, length)};
}

/// R-FCN's bins: corners are rounded before scaling, the far one's pixel belongs to the region.
template <class T>
BANYAN_HOST_DEVICE inline Span vote_bin(T from, T to, T scale, std::int64_t bin, std::int64_t bins,
                                        std::int64_t length) {
  const T begin = std::round(bounded(from)) * scale, end = (std::round(bounded(to)) + 1) * scale;
  const T size = (end - begin > T(0.1) ? end - begin : T(0.1)) / static_cast<T>(bins);
  const T first = std::floor(static_cast<T>(bin) * size + begin);
  const T last = std::ceil(static_cast<T>(bin + 1) * size + begin);
  return {clipped(static_cast<std::int64_t>(first), length),
          clipped(static_cast<std::int64_t>(last), length)};
}

/// The pixels of one bin.
struct BinPixels {
  Span rows, columns;
  BANYAN_HOST_DEVICE bool empty() const { return rows.empty() || columns.empty(); }
  BANYAN_HOST_DEVICE std::int64_t count() const {
    return (rows.end - rows.begin) * (columns.end - columns.begin);
  }
  /// visit(pixel), row by row, in an image of that width.
  template <class Visit>
  BANYAN_HOST_DEVICE void visit(std::int64_t width, const Visit& visit) const {
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      for (std::int64_t column = columns.begin; column < columns.end; ++column) visit(row * width + column);
  }
};

/// How much further a region reaches on each side of an axis.
template <class T>
BANYAN_HOST_DEVICE inline T margin(const Regions& over, T from, T to) {
  return over.pad > 0 ? (to - from + 1) * static_cast<T>(over.pad) : T(0);
}

template <class T>
BANYAN_HOST_DEVICE inline BinPixels rounded_pixels(const Regions& over, const T* roi, std::int64_t row,
                                                   std::int64_t column) {
  const T scale = static_cast<T>(over.scale);
  const T down = margin(over, roi[2], roi[4]), right = margin(over, roi[1], roi[3]);
  return {rounded_bin(roi[2] - down, roi[4] + down, scale, row, over.pooled_h, over.height),
          rounded_bin(roi[1] - right, roi[3] + right, scale, column, over.pooled_w, over.width)};
}

template <class T>
BANYAN_HOST_DEVICE inline BinPixels vote_pixels(const Regions& over, const T* roi, std::int64_t row,
                                                std::int64_t column) {
  const T scale = static_cast<T>(over.scale);
  return {vote_bin(roi[2], roi[4], scale, row, over.pooled_h, over.height),
          vote_bin(roi[1], roi[3], scale, column, over.pooled_w, over.width)};
}

/// The points of one axis of one bin.
template <class T>
struct BinPoints {
  T first, distance;
  std::int64_t count;
  BANYAN_HOST_DEVICE BinPoints(T from, T to, const Regions& over, std::int64_t bin, std::int64_t bins) {
    const T begin = bounded(from * static_cast<T>(over.scale)),
            end = bounded(to * static_cast<T>(over.scale));
    const T size = (end - begin > T(1) ? end - begin : T(1)) / static_cast<T>(bins);
    count = over.points > 0 ? over.points : static_cast<std::int64_t>(std::ceil(size));
    distance = size / static_cast<T>(count);
    first = begin + static_cast<T>(bin) * size + distance / 2;
  }
  BANYAN_HOST_DEVICE T at(std::int64_t point) const { return first + static_cast<T>(point) * distance; }
  /// Those that may count in an axis of `length` pixels, and a few more. A region can be as long as it likes.
  BANYAN_HOST_DEVICE Span near(std::int64_t length) const {
    const auto before = static_cast<std::int64_t>(std::floor((T(-1) - first) / distance));
    const auto last = static_cast<std::int64_t>(std::floor((static_cast<T>(length) - first) / distance));
    return {clipped(before, count), clipped(last + 2, count)};
  }
};

/// A point between two pixels of an axis; outside: it counts as 0.
template <class T>
struct PointBetween {
  std::int64_t low, high;
  T fraction;
  bool outside;
  BANYAN_HOST_DEVICE PointBetween(T at, std::int64_t length)
      : PointBetween(at, !(at >= T(-1) && at <= static_cast<T>(length)), length) {}
  BANYAN_HOST_DEVICE PointBetween(T at, bool is_outside, std::int64_t length) : outside(is_outside) {
    const T inside = outside || at < T(0) ? T(0) : at;
    const auto whole = static_cast<std::int64_t>(inside);
    low = clipped(whole, length - 1);
    high = clipped(whole + 1, length - 1);
    fraction = whole < length - 1 ? inside - static_cast<T>(whole) : T(0);
  }
};

/// The four pixels that a point lies between, in an image of that width: visit(pixel, weight).
template <class T, class Visit>
BANYAN_HOST_DEVICE inline void visit_between(const PointBetween<T>& y, const PointBetween<T>& x,
                                             std::int64_t width, const Visit& visit) {
  visit(y.low * width + x.low, (1 - y.fraction) * (1 - x.fraction));
  visit(y.low * width + x.high, (1 - y.fraction) * x.fraction);
  visit(y.high * width + x.low, y.fraction * (1 - x.fraction));
  visit(y.high * width + x.high, y.fraction * x.fraction);
}

/// The points of one bin in one image, and what each pixel counts there: visit(pixel, weight).
template <class T, class Visit>
BANYAN_HOST_DEVICE inline void visit_points(const Regions& over, const T* roi, std::int64_t row,
                                            std::int64_t column, const Visit& visit) {
  const BinPoints<T> down(roi[2], roi[4], over, row, over.pooled_h);
  const BinPoints<T> right(roi[1], roi[3], over, column, over.pooled_w);
  const T share = T(1) / static_cast<T>(down.count * right.count);
  const Span rows = down.near(over.height), columns = right.near(over.width);
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    const PointBetween<T> y(down.at(i), over.height);
    for (std::int64_t j = columns.begin; j < columns.end && !y.outside; ++j) {
      const PointBetween<T> x(right.at(j), over.width);
      if (x.outside) continue;
      visit_between(y, x, over.width, [&](std::int64_t pixel, T weight) { visit(pixel, weight * share); });
    }
  }
}

/// One axis of a grid point.
template <class T>
BANYAN_HOST_DEVICE inline PointBetween<T> grid_point(T from, T to, const Regions& over, std::int64_t point,
                                                     std::int64_t points, std::int64_t length) {
  const T reach = margin(over, from, to), scale = static_cast<T>(over.scale);
  const T begin = bounded((from - reach) * scale - T(0.5)), end = bounded((to + reach) * scale - T(0.5));
  const T at = begin + static_cast<T>(point) * ((end - begin) / static_cast<T>(points - 1));
  return {at, !(end > begin && at >= T(-0.5) && at <= static_cast<T>(length) - T(0.5)), length};
}

/// The pixels that one point of the grid lies between: visit(pixel, weight).
template <class T, class Visit>
BANYAN_HOST_DEVICE inline void visit_grid_point(const Regions& over, const T* roi, std::int64_t row,
                                                std::int64_t column, const Visit& visit) {
  const PointBetween<T> y = grid_point(roi[2], roi[4], over, row, over.pooled_h, over.height);
  const PointBetween<T> x = grid_point(roi[1], roi[3], over, column, over.pooled_w, over.width);
  if (y.outside || x.outside) return;
  visit_between(y, x, over.width, visit);
}

/// Where the values of a bin come from.
struct FromBin {
  template <class T, class Visit>
  BANYAN_HOST_DEVICE void operator()(const Regions& over, const T* roi, std::int64_t row, std::int64_t column,
                                     const Visit& visit) const {
    visit_points(over, roi, row, column, visit);
  }
};
struct FromGrid {
  template <class T, class Visit>
  BANYAN_HOST_DEVICE void operator()(const Regions& over, const T* roi, std::int64_t row, std::int64_t column,
                                     const Visit& visit) const {
    visit_grid_point(over, roi, row, column, visit);
  }
};

/// Fills plane number i of dx: zeros, then what add(region, channel, plane) adds for each region of the
/// plane's image, in their order.
template <class T, class Add>
BANYAN_HOST_DEVICE inline void gather_regions(const Regions& over, const T* rois, std::int64_t i, T* dx,
                                              const Add& add) {
  const std::int64_t pixels = over.height * over.width, step = over.in.step();
  if (pixels == 0) return;
  const PlanePosition at = over.plane(i);
  T* const plane = dx + over.input_base(at.sample, at.channel);
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel) plane[pixel * step] = T(0);
  for (std::int64_t region = 0; region < over.count; ++region)
    if (over.image_of(rois + region * 5) == at.sample) add(region, at.channel, plane);
}

/// `votes`: channels of x per channel of y.
inline Regions regions_of(const RegionBins& bins, const Tensor& x, const Tensor& rois, const Tensor& y,
                          std::int64_t votes) {
  const Shape &in = x.shape(), &out = y.shape();
  const bool channels_last = !x.is_contiguous() || !y.is_contiguous();
  if (in.axes() != 4 || out.axes() != 4 || rois.count() != 5 * out[0] || in[1] != votes * out[1] ||
      out[2] != bins.pooled_h || out[3] != bins.pooled_w || !rois.is_contiguous() ||
      (channels_last && (fixed_contiguous(x) || fixed_contiguous(y))))
    runtime_failure("regions: ", in.to_string(), " ", name_of(x.layout()), ", rois ",
                    rois.shape().to_string(), " and ", out.to_string(), " ", name_of(y.layout()),
                    " do not match");
  return {out[0],
          in[0],
          in[2],
          in[3],
          {in[1], channels_last},
          {out[1], channels_last},
          bins.pooled_h,
          bins.pooled_w,
          bins.points,
          bins.scale,
          bins.pad};
}

}  // namespace banyan::ops::detail

namespace banyan::ops {

/// Maxima of regions and where they are: one element of y and mask per index.
template <class Backend, template <class> class Functor>
void maximum_of_regions(const char* op, Context& context, const RegionBins& bins, const Tensor& x,
                        const Tensor& rois, Tensor& y, Tensor& mask) {
  const detail::Regions over = detail::regions_of(bins, x, rois, y, 1);
  require_alike(op, y, mask);
  dispatch_float(x.dtype(), op, [&]<class T>() {
    Backend::for_each(context, y.count(),
                      Functor<T>{over, x.data<T>(), rois.data<T>(), y.data<T>(), mask.data<std::int32_t>()});
  });
}
/// One plane of dx per index.
template <class Backend, template <class> class Functor>
void maximum_of_regions_backward(const char* op, Context& context, const RegionBins& bins, const Tensor& dy,
                                 const Tensor& rois, const Tensor& mask, Tensor& dx) {
  const detail::Regions over = detail::regions_of(bins, dx, rois, dy, 1);
  require_alike(op, dy, mask);
  dispatch_float(dy.dtype(), op, [&]<class T>() {
    Backend::for_each_long(
        context, dx.shape().count(0, 2), over.count * bins.pooled_h * bins.pooled_w,
        Functor<T>{over, dy.data<T>(), rois.data<T>(), mask.data<std::int32_t>(), dx.data<T>()});
  });
}

}  // namespace banyan::ops
