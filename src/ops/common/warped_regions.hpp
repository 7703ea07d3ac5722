// Warped regions: one output element per index forward, one plane of the input backward, one region for the
// gradient of corners.
#pragma once

#include <cfloat>

#include "banyan/ops/warped_regions.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/region_bins.hpp"

namespace banyan::ops {
namespace detail {

/// The points of one bin along one axis.
template <class T>
struct WarpedAxis {
  T first, size;  ///< of the region, in pixels
  bool turned;    ///< the far corner comes first: no extent
  std::int64_t bin, bins, intervals;

  BANYAN_HOST_DEVICE WarpedAxis(T from, T to, T scale, std::int64_t number, std::int64_t of)
      : first(std::round(bounded(from * scale))), bin(number), bins(of) {
    const T last = std::round(bounded(to * scale));
    turned = last < first;
    size = turned ? T(0) : last - first;
    intervals = static_cast<std::int64_t>(std::ceil(size / static_cast<T>(bins)));
    if (intervals < 1) intervals = 1;
  }
  /// Where the point lies between the region's corners: 0 to 1.
  BANYAN_HOST_DEVICE T part(std::int64_t point) const {
    return static_cast<T>(bin * intervals + point) / static_cast<T>(bins * intervals);
  }
  BANYAN_HOST_DEVICE T place(std::int64_t point) const {
    return first + static_cast<T>(bin * intervals + point) * size / static_cast<T>(bins * intervals);
  }
  BANYAN_HOST_DEVICE PointBetween<T> at(std::int64_t point, std::int64_t length) const {
    const T where = place(point);
    return {where, !(where >= T(-0.5) && where <= static_cast<T>(length) - T(0.5)), length};
  }
  /// Points that may count in an axis of `length` pixels, and a few more. A region can be as long as it
  /// likes.
  BANYAN_HOST_DEVICE Span near(std::int64_t length) const {
    if (!(size > T(0))) return {0, 1};
    const T distance = size / static_cast<T>(bins * intervals), begin = place(0);
    const auto before = static_cast<std::int64_t>(std::floor((T(-1) - begin) / distance));
    const auto last = static_cast<std::int64_t>(std::floor((static_cast<T>(length) - begin) / distance));
    return {clipped(before, intervals), clipped(last + 2, intervals + 1)};
  }
};

template <class T>
struct WarpedBin {
  WarpedAxis<T> down, right;
  Span rows, columns;  ///< points, numbered row by row
  BANYAN_HOST_DEVICE WarpedBin(const Regions& over, const T* roi, std::int64_t row, std::int64_t column)
      : down(roi[2], roi[4], static_cast<T>(over.scale), row, over.pooled_h),
        right(roi[1], roi[3], static_cast<T>(over.scale), column, over.pooled_w),
        rows(down.near(over.height)),
        columns(right.near(over.width)) {}
  BANYAN_HOST_DEVICE std::int64_t points() const {
    return rows.empty() || columns.empty() ? 0 : (rows.end - rows.begin) * (columns.end - columns.begin);
  }
  BANYAN_HOST_DEVICE std::int64_t row(std::int64_t point) const {
    return rows.begin + point / (columns.end - columns.begin);
  }
  BANYAN_HOST_DEVICE std::int64_t column(std::int64_t point) const {
    return columns.begin + point % (columns.end - columns.begin);
  }
};

/// A point's four pixels.
template <class T>
struct FourPixels {
  PointBetween<T> y, x;
  BANYAN_HOST_DEVICE FourPixels(const WarpedBin<T>& bin, std::int64_t number, const Regions& over)
      : y(bin.down.at(bin.row(number), over.height)), x(bin.right.at(bin.column(number), over.width)) {}
  /// visit(pixel, weight)
  template <class Visit>
  BANYAN_HOST_DEVICE void visit(std::int64_t width, const Visit& visit) const {
    visit_between(y, x, width, visit);
  }
};

template <class T>
struct WarpedMaximum {
  Regions over;
  const T *x, *rois;
  T* y;
  std::int32_t* mask;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const PlanePosition at = over.bin(i);
    const T* const roi = rois + at.sample * 5;
    const std::int64_t image = over.image_of(roi), step = over.in.step();
    T best = -FLT_MAX;
    std::int64_t where = -1;
    if (image >= 0 && over.height > 0 && over.width > 0) {
      const T* const plane = x + over.input_base(image, at.channel);
      const WarpedBin<T> bin(over, roi, at.row, at.column);
      const std::int64_t points = bin.points();
      for (std::int64_t number = 0; number < points; ++number) {
        const FourPixels<T> point(bin, number, over);
        if (point.y.outside || point.x.outside) continue;
        T value = 0;
        point.visit(over.width, [&](std::int64_t pixel, T weight) { value += weight * plane[pixel * step]; });
        if (!(value > best)) continue;
        best = value;
        where = number;
      }
    }
    y[i] = where < 0 ? T(0) : best;
    mask[i] = static_cast<std::int32_t>(where);
  }
};

template <class T>
struct WarpedMaximumBackward {
  Regions over;
  const T *dy, *rois;
  const std::int32_t* mask;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t step = over.in.step();
    gather_regions(over, rois, i, dx, [&](std::int64_t region, std::int64_t channel, T* plane) {
      const std::int64_t from = over.output_base(region, channel);
      for (std::int64_t bin = 0; bin < over.pooled_h * over.pooled_w; ++bin) {
        const std::int64_t number = mask[from + bin * step];
        if (number < 0) continue;
        const WarpedBin<T> points(over, rois + region * 5, bin / over.pooled_w, bin % over.pooled_w);
        const T gradient = dy[from + bin * step];
        FourPixels<T>(points, number, over).visit(over.width, [&](std::int64_t pixel, T weight) {
          plane[pixel * step] += weight * gradient;
        });
      }
    });
  }
};

/// One region's gradient: a reducer (see backend.hpp) over its elements of y, in memory order.
template <class T>
struct WarpedCorners {
  Regions over;
  const T *x, *dy, *rois;
  const std::int32_t* mask;
  T* drois;

  struct State {
    T sums[4];
  };
  BANYAN_HOST_DEVICE State identity() const { return {{0, 0, 0, 0}}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t index, std::int64_t region) const {
    const std::int64_t number = mask[index];
    if (number < 0) return;
    const PlanePosition at = over.bin(index);
    const T* const roi = rois + region * 5;
    const WarpedBin<T> bin(over, roi, at.row, at.column);
    const FourPixels<T> point(bin, number, over);
    const std::int64_t step = over.in.step(), width = over.width;
    const T* const plane = x + over.input_base(over.image_of(roi), at.channel);
    const auto value = [&](std::int64_t row, std::int64_t column) {
      return plane[(row * width + column) * step];
    };
    // Beyond the outer pixels' centres low is high, or the fraction is 0 and the value that of the border.
    const T to_right =
        (1 - point.y.fraction) * (value(point.y.low, point.x.high) - value(point.y.low, point.x.low)) +
        point.y.fraction * (value(point.y.high, point.x.high) - value(point.y.high, point.x.low));
    const T down =
        (1 - point.x.fraction) * (value(point.y.high, point.x.low) - value(point.y.low, point.x.low)) +
        point.x.fraction * (value(point.y.high, point.x.high) - value(point.y.low, point.x.high));
    add_axis(s, 0, bin.right, bin.column(number), dy[index] * to_right, over.width);
    add_axis(s, 1, bin.down, bin.row(number), dy[index] * down, over.height);
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const {
    for (int k = 0; k < 4; ++k) into.sums[k] += later.sums[k];
  }
  BANYAN_HOST_DEVICE void store(std::int64_t region, const State& s) const {
    T* const to = drois + region * 5;
    to[0] = T(0);
    for (int k = 0; k < 4; ++k) to[1 + k] = s.sums[k];
  }

 private:
  BANYAN_HOST_DEVICE void add_axis(State& s, int axis, const WarpedAxis<T>& of, std::int64_t point,
                                   T gradient, std::int64_t length) const {
    const T where = of.place(point);
    if (where < T(0) || where >= static_cast<T>(length - 1)) return;  // the border's value
    const T far = of.turned ? T(0) : of.part(point), scaled = gradient * static_cast<T>(over.scale);
    s.sums[axis] += scaled * (1 - far);
    s.sums[axis + 2] += scaled * far;
  }
};

}  // namespace detail

template <class Backend>
void warped_maximum_on(Context& context, const RegionBins& bins, const Tensor& x, const Tensor& rois,
                       Tensor& y, Tensor& mask) {
  maximum_of_regions<Backend, detail::WarpedMaximum>("warped_maximum", context, bins, x, rois, y, mask);
}

template <class Backend>
void warped_maximum_backward_on(Context& context, const RegionBins& bins, const Tensor& dy,
                                const Tensor& rois, const Tensor& mask, Tensor& dx) {
  maximum_of_regions_backward<Backend, detail::WarpedMaximumBackward>("warped_maximum_backward", context,
                                                                      bins, dy, rois, mask, dx);
}

template <class Backend>
void warped_corners_backward_on(Context& context, const RegionBins& bins, const Tensor& x, const Tensor& dy,
                                const Tensor& rois, const Tensor& mask, Tensor& drois) {
  const detail::Regions over = detail::regions_of(bins, x, rois, dy, 1);
  require_alike("warped_corners_backward", dy, mask);
  require_alike("warped_corners_backward", rois, drois);
  dispatch_float(dy.dtype(), "warped_corners_backward", [&]<class T>() {
    Backend::reduce_channels(context, {1, over.count, dy.shape().count(1)},
                             detail::WarpedCorners<T>{over, x.data<T>(), dy.data<T>(), rois.data<T>(),
                                                      mask.data<std::int32_t>(), drois.data<T>()});
  });
}

template <class Backend>
struct DefineWarpedRegions {
  DefineWarpedRegions() {
    warped_maximum.define(Backend::kind, &warped_maximum_on<Backend>);
    warped_maximum_backward.define(Backend::kind, &warped_maximum_backward_on<Backend>);
    warped_corners_backward.define(Backend::kind, &warped_corners_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
