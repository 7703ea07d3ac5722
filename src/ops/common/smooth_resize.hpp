// Resizing with smoothing, on GPUs one pixel of the output per index forward, one of the input backward.
#pragma once

#include <cmath>

#include "banyan/ops/smooth_resize.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/planes.hpp"
#include "ops/common/resize.hpp"

namespace banyan::ops {
namespace detail {

/// Along one axis, from `input` to `output` pixels. ResizeBackward uses it like a ResizeAxis.
struct SmoothLine {
  std::int64_t input, output;
  double scale, crop;
  double radius;       ///< of the weights of the mean: 1 for none
  std::int64_t reach;  ///< pixels on each side that have such a weight
  double sum;          ///< of these weights

  SmoothLine(std::int64_t from, std::int64_t to, const SmoothAxis& axis)
      : input(from), output(to), scale(axis.scale), crop(axis.crop) {
    radius = scale < 1 ? 1 / (scale < 0.01 ? 0.01 : scale) : 1;
    reach = static_cast<std::int64_t>(std::ceil(radius)) - 1;
    const auto whole = static_cast<double>(reach);
    sum = (2 * whole + 1) * radius - whole * (whole + 1);
  }
  /// What an output is made of: a point `part` of the way from pixel `low` of x to the next one, and so the
  /// pixels [first, last), each with a positive weight.
  struct Taps {
    std::int64_t low, first, last;
    double part;
  };
  BANYAN_HOST_DEVICE Taps taps(std::int64_t o) const {
    const auto end = static_cast<double>(input - 1);
    double at = static_cast<double>(o) / scale + crop;
    at = at > 0 ? at < end ? at : end : 0;
    const auto low = static_cast<std::int64_t>(at);
    const double part = at - static_cast<double>(low);
    const std::int64_t first = low - reach, last = low + 1 + reach + (part > 0 ? 1 : 0);
    return {low, first > 0 ? first : 0, last < input ? last : input, part};
  }
  /// That of pixel i, which goes on beyond the image if it is an outer one. The weights of an output add up
  /// to `sum`.
  BANYAN_HOST_DEVICE double weight(std::int64_t i, const Taps& taps) const {
    const std::int64_t from = i == 0 ? taps.low - reach : i, to = i == input - 1 ? taps.low + 1 + reach : i;
    double total = 0;
    for (std::int64_t pixel = from; pixel <= to; ++pixel)
      total += (1 - taps.part) * weight_at(pixel - taps.low) + taps.part * weight_at(pixel - taps.low - 1);
    return total;
  }

  BANYAN_HOST_DEVICE std::int64_t in_part(std::int64_t pixel) const { return pixel; }
  /// First and one past the last of the outputs that pixel i of x can reach; not all of them need to.
  BANYAN_HOST_DEVICE std::int64_t first_output(std::int64_t i) const {
    if (i <= reach + 1) return 0;
    const double first = std::floor((static_cast<double>(i - reach - 1) - crop) * scale);
    return first > 0 ? first < static_cast<double>(output) ? static_cast<std::int64_t>(first) : output : 0;
  }
  BANYAN_HOST_DEVICE std::int64_t last_output(std::int64_t i) const {
    if (i + reach + 1 >= input - 1) return output;
    const double last = std::ceil((static_cast<double>(i + reach + 1) - crop) * scale) + 1;
    return last > 0 ? last < static_cast<double>(output) ? static_cast<std::int64_t>(last) : output : 0;
  }
  /// What pixel i contributes to output o.
  template <class A>
  BANYAN_HOST_DEVICE A weight(std::int64_t i, std::int64_t o) const {
    const Taps of = taps(o);
    return i < of.first || i >= of.last ? A(0) : static_cast<A>(weight(i, of) / sum);
  }

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
    const SmoothLine::Taps rows = over.h.taps(at.row), columns = over.w.taps(at.column);
    double sum = 0;
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      double of_row = 0;
      for (std::int64_t column = columns.first; column < columns.last; ++column)
        of_row += over.w.weight(column, columns) *
                  static_cast<double>(plane[(row * over.w.input + column) * over.step()]);
      sum += over.h.weight(row, rows) * of_row;
    }
    y[i] = static_cast<T>(sum / (over.h.sum * over.w.sum));
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
