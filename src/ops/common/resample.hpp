// Resizing of images as in FlowNet: one output pixel per index.
#pragma once

#include <cmath>

#include "banyan/ops/resample.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/planes.hpp"

namespace banyan::ops {
namespace detail {

struct ResampledPlanes : Planes {
  std::int64_t height, width, out_height, out_width;
};

/// Along one axis: weights of the pixels [first, end) around a point.
template <class T>
struct DownsampledPoint {
  T at, scale;
  std::int64_t first, end;
  BANYAN_HOST_DEVICE DownsampledPoint(std::int64_t o, std::int64_t length, std::int64_t out_length) {
    at = static_cast<T>(o * (length - 1)) / static_cast<T>(out_length - 1);
    scale = static_cast<T>(length - 1) / static_cast<T>(out_length - 1);
    const auto middle = static_cast<std::int64_t>(std::round(at));
    const auto radius = static_cast<std::int64_t>(std::ceil(scale));
    first = middle - radius < 0 ? 0 : middle - radius;
    end = middle + radius + 1 < length ? middle + radius + 1 : length;
  }
  BANYAN_HOST_DEVICE T weight(std::int64_t pixel) const {
    const T rest = T(1) - std::fabs(static_cast<T>(pixel) - at) / scale;
    return rest > T(0) ? rest : T(0);
  }
};

template <class T>
struct Downsample {
  ResampledPlanes over;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const PlanePosition at = over.locate(i, over.out_height, over.out_width);
    const T* const plane = x + over.base(at, over.height * over.width);
    const DownsampledPoint<T> rows(at.row, over.height, over.out_height);
    const DownsampledPoint<T> columns(at.column, over.width, over.out_width);
    T sum = 0, counted = 0, left_out = 0;
    for (std::int64_t row = rows.first; row < rows.end; ++row)
      for (std::int64_t column = columns.first; column < columns.end; ++column) {
        const T value = plane[(row * over.width + column) * over.step()];
        const T weight = rows.weight(row) * columns.weight(column);
        const bool counts = value == value;
        sum += counts ? weight * value : T(0);
        counted += counts ? weight : T(0);
        left_out += counts ? T(0) : weight;
      }
    y[i] = counted > T(0) && left_out <= counted / T(2) ? sum / counted : static_cast<T>(NAN);
  }
};

/// Along one axis: the kernel around a point. A point is never far outside of the axis's sides together.
template <class T>
struct ResampledPoint {
  T at, shrink;
  std::int64_t first, end;
  BANYAN_HOST_DEVICE ResampledPoint(T point, T factor, std::int64_t length, const Resampling& how) {
    at = point;
    shrink = how.antialias && factor > T(1) ? T(1) / factor : T(1);
    const T radius = (how.kernel == Resampling::Kernel::cubic ? T(2) : T(1)) / shrink;
    const auto low = static_cast<std::int64_t>(std::ceil(at - radius));
    const auto high = static_cast<std::int64_t>(std::floor(at + radius)) + 1;
    first = low < 0 ? 0 : low;
    end = high < length ? high : length;
  }
  BANYAN_HOST_DEVICE T weight(std::int64_t pixel, bool cubic) const {
    const T d = std::fabs(at - static_cast<T>(pixel)) * shrink;
    if (!cubic) return d < T(1) ? T(1) - d : T(0);
    // Cubic convolution (Keys 1981), a = -1/2.
    if (d < T(1)) return (T(1.5) * d - T(2.5)) * d * d + T(1);
    return d < T(2) ? ((T(-0.5) * d + T(2.5)) * d - T(4)) * d + T(2) : T(0);
  }
};

template <class T>
struct Resample {
  ResampledPlanes over;
  Resampling how;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const PlanePosition to = over.locate(i, over.out_height, over.out_width);
    const T* const plane = x + over.base(to, over.height * over.width);
    const T right = static_cast<T>(over.width) / static_cast<T>(over.out_width);
    const T down = static_cast<T>(over.height) / static_cast<T>(over.out_height);
    const T row = static_cast<T>(to.row) * down + right / T(2) - T(0.5);
    const T column = static_cast<T>(to.column) * right + down / T(2) - T(0.5);
    if (how.kernel == Resampling::Kernel::nearest) {
      y[i] = plane[(nearest(row, over.height) * over.width + nearest(column, over.width)) * over.step()];
      return;
    }
    const bool cubic = how.kernel == Resampling::Kernel::cubic;
    const ResampledPoint<T> rows(row, down, over.height, how), columns(column, right, over.width, how);
    T sum = 0, all = 0;
    for (std::int64_t r = rows.first; r < rows.end; ++r)
      for (std::int64_t c = columns.first; c < columns.end; ++c) {
        const T weight = rows.weight(r, cubic) * columns.weight(c, cubic);
        sum += weight * plane[(r * over.width + c) * over.step()];
        all += weight;
      }
    y[i] = all == T(0) ? T(0) : sum / all;
  }

 private:
  BANYAN_HOST_DEVICE static std::int64_t nearest(T at, std::int64_t length) {
    const auto pixel = static_cast<std::int64_t>(std::round(at));
    return pixel < 0 ? 0 : pixel < length ? pixel : length - 1;
  }
};

inline ResampledPlanes resampled_planes(const char* op, const Tensor& x, const Tensor& y) {
  const Planes planes = planes_of(op, x, y);
  return {planes, x.shape()[2], x.shape()[3], y.shape()[2], y.shape()[3]};
}

}  // namespace detail

template <class Backend>
void downsample_on(Context& context, const Tensor& x, Tensor& y) {
  const detail::ResampledPlanes over = detail::resampled_planes("downsample", x, y);
  dispatch_float(x.dtype(), "downsample", [&]<class T>() {
    Backend::for_each_long(context, y.count(), 16, detail::Downsample<T>{over, x.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void resample_on(Context& context, const Resampling& how, const Tensor& x, Tensor& y) {
  const detail::ResampledPlanes over = detail::resampled_planes("resample", x, y);
  dispatch_float(x.dtype(), "resample", [&]<class T>() {
    Backend::for_each_long(context, y.count(), 16, detail::Resample<T>{over, how, x.data<T>(), y.data<T>()});
  });
}

template <class Backend>
struct DefineResample {
  DefineResample() {
    downsample.define(Backend::kind, &downsample_on<Backend>);
    resample.define(Backend::kind, &resample_on<Backend>);
  }
};

}  // namespace banyan::ops
