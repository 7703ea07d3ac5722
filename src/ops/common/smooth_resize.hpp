// Resizing with smoothing: one pixel of the output per index forward, one of the input backward.
#pragma once

#include <cmath>

#include "banyan/ops/smooth_resize.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/planes.hpp"
#include "ops/common/resize.hpp"

namespace banyan::ops {
namespace detail {

/// Along one axis, from `input` to `output` pixels. To ResizeBackward a ResizeAxis.
struct SmoothLine {
  std::int64_t input, output;
  double scale, crop;
  double radius;       ///< of the weights of the mean: 1 for none
  std::int64_t reach;  ///< pixels on each side that have such a weight
  double sum;          ///< of these weights

  SmoothLine(std::int64_t from, std::int64_t to, const SmoothAxis& axis)
      : input(from), output(to), scale(axis.scale), crop(axis.crop) {
    radius = scale < 1 ? 1 / (scale < 0.01 ? 0.01 : scale) : 1;
    reach = static_cast<std::int64_t>(radius);
    const auto whole = static_cast<double>(reach);
    sum = (2 * whole + 1) * radius - whole * (whole + 1);
  }
  /// Pixel o of y shows the point `part` of the way from pixel `low` of x to the next one.
  struct Point {
    std::int64_t low;
    double part;
  };
  BANYAN_HOST_DEVICE Point point(std::int64_t o) const {
    const auto last = static_cast<double>(input - 1);
    double at = static_cast<double>(o) / scale + crop;
    at = at > 0 ? at < last ? at : last : 0;
    const auto low = static_cast<std::int64_t>(at);
    return {low, at - static_cast<double>(low)};
  }
  /// The pixels of x that output o is made of.
  BANYAN_HOST_DEVICE std::int64_t first_input(std::int64_t o) const {
    const std::int64_t first = point(o).low - reach;
    return first > 0 ? first : 0;
  }
  BANYAN_HOST_DEVICE std::int64_t last_input(std::int64_t o) const {
    const std::int64_t last = point(o).low + 2 + reach;
    return last < input ? last : input;
  }
  /// The outputs that pixel i of x can reach.
  BANYAN_HOST_DEVICE std::int64_t first_output(std::int64_t i) const {
    const double first = std::floor((static_cast<double>(i - reach - 2) - crop) * scale);
    return first > 0 ? first < static_cast<double>(output) ? static_cast<std::int64_t>(first) : output : 0;
  }
  BANYAN_HOST_DEVICE std::int64_t last_output(std::int64_t i) const {
    if (i + reach + 2 >= input) return output;
    const double last = std::ceil((static_cast<double>(i + reach + 2) - crop) * scale) + 1;
    return last > 0 ? last < static_cast<double>(output) ? static_cast<std::int64_t>(last) : output : 0;
  }
  /// What pixel i of x, which goes on beyond the image if it is an outer one, contributes to output o.
  template <class A>
  BANYAN_HOST_DEVICE A weight(std::int64_t i, std::int64_t o) const {
    const Point at = point(o);
    const std::int64_t from = i == 0 ? at.low - reach : i, to = i == input - 1 ? at.low + 1 + reach : i;
    double total = 0;
    for (std::int64_t pixel = from; pixel <= to; ++pixel)
      total += (1 - at.part) * weight_at(pixel - at.low) + at.part * weight_at(pixel - at.low - 1);
    return static_cast<A>(total / sum);
  }
  BANYAN_HOST_DEVICE std::int64_t in_part(std::int64_t pixel) const { return pixel; }

 private:
  BANYAN_HOST_DEVICE double weight_at(std::int64_t distance) const {
    const double left = radius - static_cast<double>(distance < 0 ? -distance : distance);
    return left > 0 ? left : 0;
  }
};

struct SmoothPlanes : Planes {
  SmoothLine h, w;
};

template <class T>
struct SmoothResize {
  SmoothPlanes over;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const PlanePosition at = over.locate(i, over.h.output, over.w.output);
    const T* const plane = x + over.base(at, over.h.input * over.w.input);
    double sum = 0;
    for (std::int64_t row = over.h.first_input(at.row); row < over.h.last_input(at.row); ++row) {
      double of_row = 0;
      for (std::int64_t column = over.w.first_input(at.column); column < over.w.last_input(at.column);
           ++column)
        of_row += over.w.weight<double>(column, at.column) *
                  static_cast<double>(plane[(row * over.w.input + column) * over.step()]);
      sum += over.h.weight<double>(row, at.row) * of_row;
    }
    y[i] = static_cast<T>(sum);
  }
};

inline SmoothPlanes smooth_planes(const SmoothAxis& rows, const SmoothAxis& columns, const Tensor& input,
                                  const Tensor& output) {
  const Planes planes = planes_of("smooth_resize", input, output);
  const Shape &in = input.shape(), &out = output.shape();
  return {planes, {in[2], out[2], rows}, {in[3], out[3], columns}};
}

}  // namespace detail

template <class Backend>
void smooth_resize_on(Context& context, const SmoothAxis& rows, const SmoothAxis& columns, const Tensor& x,
                      Tensor& y) {
  const detail::SmoothPlanes over = detail::smooth_planes(rows, columns, x, y);
  const std::int64_t window = (2 * over.h.reach + 2) * (2 * over.w.reach + 2);
  dispatch_float(x.dtype(), "smooth_resize", [&]<class T>() {
    Backend::for_each_long(context, y.count(), window,
                           detail::SmoothResize<T>{over, x.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void smooth_resize_backward_on(Context& context, const SmoothAxis& rows, const SmoothAxis& columns,
                               const Tensor& dy, Tensor& dx) {
  const detail::SmoothPlanes over = detail::smooth_planes(rows, columns, dx, dy);
  dispatch_float(dy.dtype(), "smooth_resize_backward", [&]<class T>() {
    Backend::for_each(context, dx.count(),
                      detail::ResizeBackward<T, detail::SmoothPlanes>{over, dy.data<T>(), dx.data<T>()});
  });
}

}  // namespace banyan::ops
