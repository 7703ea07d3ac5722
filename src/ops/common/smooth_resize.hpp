// Resizing with smoothing: one output element per index forward, one plane of the input backward.
#pragma once

#include <cmath>

#include "banyan/ops/smooth_resize.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/planes.hpp"

namespace banyan::ops {
namespace detail {

/// Along one axis, from `input` to `output` pixels.
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
  BANYAN_HOST_DEVICE double weight_at(std::int64_t distance) const {
    const double left = radius - static_cast<double>(distance < 0 ? -distance : distance);
    return left > 0 ? left : 0;
  }
  /// visit(pixel of x, weight) of pixel `o` of y; border pixels come several times.
  template <class Visit>
  BANYAN_HOST_DEVICE void visit(std::int64_t o, const Visit& visit) const {
    const auto last = static_cast<double>(input - 1);
    double at = static_cast<double>(o) / scale + crop;
    at = at > 0 ? at < last ? at : last : 0;
    const auto low = static_cast<std::int64_t>(at);
    const double part = at - static_cast<double>(low);
    for (std::int64_t pixel = low - reach; pixel <= low + 1 + reach; ++pixel) {
      const double weight = (1 - part) * weight_at(pixel - low) + part * weight_at(pixel - low - 1);
      if (weight > 0) visit(pixel < 0 ? 0 : pixel < input ? pixel : input - 1, weight / sum);
    }
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
    over.h.visit(at.row, [&](std::int64_t row, double down) {
      double of_row = 0;
      over.w.visit(at.column, [&](std::int64_t column, double right) {
        of_row += right * static_cast<double>(plane[(row * over.w.input + column) * over.step()]);
      });
      sum += down * of_row;
    });
    y[i] = static_cast<T>(sum);
  }
};

template <class T>
struct SmoothResizeBackward {
  SmoothPlanes over;
  const T* dy;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t inputs = over.h.input * over.w.input, step = over.step();
    const PlanePosition at{i / over.channels, i % over.channels, 0, 0};
    const T* const from = dy + over.base(at, over.h.output * over.w.output);
    T* const to = dx + over.base(at, inputs);
    for (std::int64_t pixel = 0; pixel < inputs; ++pixel) to[pixel * step] = T(0);
    for (std::int64_t r = 0; r < over.h.output; ++r)
      for (std::int64_t c = 0; c < over.w.output; ++c) {
        const auto gradient = static_cast<double>(from[(r * over.w.output + c) * step]);
        over.h.visit(r, [&](std::int64_t row, double down) {
          over.w.visit(c, [&](std::int64_t column, double right) {
            to[(row * over.w.input + column) * step] += static_cast<T>(gradient * down * right);
          });
        });
      }
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
  const std::int64_t window = (2 * over.h.reach + 2) * (2 * over.w.reach + 2);
  dispatch_float(dy.dtype(), "smooth_resize_backward", [&]<class T>() {
    Backend::for_each_long(context, dx.shape().count(0, 2), over.h.output * over.w.output * window,
                           detail::SmoothResizeBackward<T>{over, dy.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
struct DefineSmoothResize {
  DefineSmoothResize() {
    smooth_resize.define(Backend::kind, &smooth_resize_on<Backend>);
    smooth_resize_backward.define(Backend::kind, &smooth_resize_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
