// Masks of regions: one element, or one position, per index.
#pragma once

#include "banyan/ops/masks.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/labels.hpp"
#include "ops/common/planes.hpp"
#include "ops/common/resize.hpp"

namespace banyan::ops {
namespace detail {

template <class T>
struct MultiplyByMask {
  const T *x, *mask;
  Channels over;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t outer = i / (over.channels * over.inner);
    y[i] = x[i] * mask[outer * over.inner + i % over.inner];
  }
};

template <class T>
struct MaskGradient {
  const T *x, *dy;
  Channels over;
  T* dmask;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    T sum = 0;
    std::int64_t i = first_class(over, position);
    for (std::int64_t c = 0; c < over.channels; ++c, i += over.inner) sum += x[i] * dy[i];
    dmask[position] = sum;
  }
};

/// Bilinear along an axis whose first points agree, in fractions of integers.
struct MaskAxis {
  std::int64_t input, output;

  BANYAN_HOST_DEVICE std::int64_t in_part(std::int64_t pixel) const { return pixel; }
  /// What pixel i counts in output o.
  template <class T>
  BANYAN_HOST_DEVICE T weight(std::int64_t i, std::int64_t o) const {
    const std::int64_t at = o * input, low = at / output;
    if (2 * at > (2 * input - 1) * output) return T(0);
    if (low >= input - 1) return i == input - 1 ? T(1) : T(0);
    const T fraction = static_cast<T>(at - low * output) / static_cast<T>(output);
    return i == low ? T(1) - fraction : i == low + 1 ? fraction : T(0);
  }
  BANYAN_HOST_DEVICE std::int64_t low(std::int64_t o) const {
    const std::int64_t at = o * input / output;
    return at < input - 1 ? at : input - 1;
  }
  /// The outputs whose points lie less than 1 from pixel i or beyond the last one, and perhaps a few more.
  BANYAN_HOST_DEVICE std::int64_t first_output(std::int64_t i) const {
    return i < 1 ? 0 : (i - 1) * output / input;
  }
  BANYAN_HOST_DEVICE std::int64_t last_output(std::int64_t i) const {
    const std::int64_t last = (i + 1) * output / input + 1;
    return i == input - 1 || last > output ? output : last;
  }
};

struct MaskPlanes : Planes {
  MaskAxis h, w;
};

template <class T>
struct MaskResizeForward {
  MaskPlanes over;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const PlanePosition at = over.locate(i, over.h.output, over.w.output);
    const T* const plane = x + over.base(at, over.h.input * over.w.input);
    const std::int64_t row = over.h.low(at.row), column = over.w.low(at.column);
    T sum = 0;
    for (std::int64_t r = row; r < over.h.input && r < row + 2; ++r)
      for (std::int64_t c = column; c < over.w.input && c < column + 2; ++c)
        sum += over.h.weight<T>(r, at.row) * over.w.weight<T>(c, at.column) *
               plane[(r * over.w.input + c) * over.step()];
    y[i] = sum;
  }
};

inline MaskPlanes mask_planes(const Tensor& input, const Tensor& output) {
  const Planes planes = planes_of("mask_resize", input, output);
  const Shape &in = input.shape(), &out = output.shape();
  return {planes, {in[2], out[2]}, {in[3], out[3]}};
}

}  // namespace detail

template <class Backend>
void multiply_by_mask_on(Context& context, const Tensor& x, const Tensor& mask, const Channels& over,
                         Tensor& y) {
  require_alike("multiply_by_mask", x, y);
  detail::require_positions("multiply_by_mask", x, mask, over);
  dispatch_float(x.dtype(), "multiply_by_mask", [&]<class T>() {
    Backend::for_each(context, y.count(),
                      detail::MultiplyByMask<T>{x.data<T>(), mask.data<T>(), over, y.data<T>()});
  });
}

template <class Backend>
void mask_gradient_on(Context& context, const Tensor& x, const Tensor& dy, const Channels& over,
                      Tensor& dmask) {
  require_alike("mask_gradient", x, dy);
  detail::require_positions("mask_gradient", x, dmask, over);
  dispatch_float(x.dtype(), "mask_gradient", [&]<class T>() {
    Backend::for_each_long(context, dmask.count(), over.channels,
                           detail::MaskGradient<T>{x.data<T>(), dy.data<T>(), over, dmask.data<T>()});
  });
}

template <class Backend>
void mask_resize_forward_on(Context& context, const Tensor& x, Tensor& y) {
  const detail::MaskPlanes over = detail::mask_planes(x, y);
  dispatch_float(x.dtype(), "mask_resize_forward", [&]<class T>() {
    Backend::for_each(context, y.count(), detail::MaskResizeForward<T>{over, x.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void mask_resize_backward_on(Context& context, const Tensor& dy, Tensor& dx) {
  const detail::MaskPlanes over = detail::mask_planes(dx, dy);
  dispatch_float(dy.dtype(), "mask_resize_backward", [&]<class T>() {
    Backend::for_each(context, dx.count(),
                      detail::ResizeBackward<T, detail::MaskPlanes>{over, dy.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
struct DefineMasks {
  DefineMasks() {
    multiply_by_mask.define(Backend::kind, &multiply_by_mask_on<Backend>);
    mask_gradient.define(Backend::kind, &mask_gradient_on<Backend>);
    mask_resize_forward.define(Backend::kind, &mask_resize_forward_on<Backend>);
    mask_resize_backward.define(Backend::kind, &mask_resize_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
