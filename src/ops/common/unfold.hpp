// im2col, unpooling: one element per index; unpooling forward one plane, since two of its elements may meet.
#pragma once

#include "banyan/ops/unfold.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/index_below.hpp"
#include "ops/common/planes.hpp"

namespace banyan::ops {
namespace detail {

/// Arrays of numbers, not of structs: GCC 12's __builtin_clear_padding, which emulated GPUs apply to a
/// kernel's arguments, clears parts of those.
struct Unfolded {
  std::int64_t axes;
  std::int64_t input[kMostUnfolded], output[kMostUnfolded], kernel[kMostUnfolded], stride[kMostUnfolded],
      pad[kMostUnfolded], dilation[kMostUnfolded];
  std::int64_t kernels = 1, inputs = 1, outputs = 1;  ///< elements of all axes together
};

template <class T>
struct UnfoldForward {
  Unfolded over;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t position = i % over.outputs, element = i / over.outputs % over.kernels;
    const std::int64_t plane = i / over.outputs / over.kernels;
    std::int64_t pixel = 0, step = 1;
    bool inside = true;
    for (std::int64_t k = over.axes; k-- > 0;) {
      const std::int64_t at = position % over.output[k] * over.stride[k] - over.pad[k] +
                              element % over.kernel[k] * over.dilation[k];
      inside = inside && at >= 0 && at < over.input[k];
      pixel += at * step;
      step *= over.input[k];
      position /= over.output[k];
      element /= over.kernel[k];
    }
    y[i] = inside ? x[plane * over.inputs + pixel] : T(0);
  }
};

template <class T>
struct UnfoldBackward {
  using A = Arithmetic<T>;
  Unfolded over;
  const T* dy;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const T* const plane = dy + i / over.inputs * over.kernels * over.outputs;
    A sum = 0;
    for (std::int64_t element = 0; element < over.kernels; ++element) {
      std::int64_t pixel = i % over.inputs, rest = element, position = 0, step = 1;
      bool seen = true;
      for (std::int64_t k = over.axes; k-- > 0;) {
        const std::int64_t from =
            pixel % over.input[k] + over.pad[k] - rest % over.kernel[k] * over.dilation[k];
        seen = seen && from >= 0 && from % over.stride[k] == 0 && from / over.stride[k] < over.output[k];
        position += from / over.stride[k] * step;
        step *= over.output[k];
        pixel /= over.input[k];
        rest /= over.kernel[k];
      }
      if (seen) sum += plane[element * over.outputs + position];
    }
    dx[i] = static_cast<T>(sum);
  }
};

inline Unfolded unfolded(const ConvolutionGeometry& g, const Tensor& x, const Tensor& y) {
  const Shape &in = x.shape(), &out = y.shape();
  Unfolded over{};
  over.axes = g.spatial_axes();
  bool fits = over.axes <= kMostUnfolded && in.axes() == over.axes + 2 && out.axes() == in.axes() &&
              in[0] == out[0] && x.is_contiguous() && y.is_contiguous();
  for (int k = 0; fits && k < over.axes; ++k) {
    const auto a = static_cast<std::size_t>(k);
    over.input[k] = in[k + 2];
    over.output[k] = out[k + 2];
    over.kernel[k] = g.kernel[a];
    over.stride[k] = g.stride[a];
    over.pad[k] = g.pad[a];
    over.dilation[k] = g.dilation[a];
    over.kernels *= g.kernel[a];
    over.inputs *= in[k + 2];
    over.outputs *= out[k + 2];
    fits = out[k + 2] == g.output_length(k, in[k + 2]) && out[k + 2] > 0;
  }
  if (!fits || out[1] != in[1] * over.kernels)
    runtime_failure("unfold: ", in.to_string(), " and ", out.to_string(), " do not match");
  return over;
}

/// One plane per index: elements in ascending order.
template <class T>
struct UnpoolForward {
  Planes planes;
  std::int64_t inputs, outputs;  ///< pixels of a plane
  const T *x, *mask;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t plane) const {
    const PlanePosition at{plane / planes.channels, plane % planes.channels, 0, 0};
    const std::int64_t from = planes.base(at, inputs), to = planes.base(at, outputs), step = planes.step();
    for (std::int64_t pixel = 0; pixel < outputs; ++pixel) y[to + pixel * step] = T(0);
    for (std::int64_t pixel = 0; pixel < inputs; ++pixel) {
      const std::int64_t place = index_below(mask[from + pixel * step], outputs);
      if (place >= 0) y[to + place * step] = x[from + pixel * step];
    }
  }
};

template <class T>
struct UnpoolBackward {
  Planes planes;
  std::int64_t rows, columns, outputs;
  const T *dy, *mask;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t place = index_below(mask[i], outputs);
    const std::int64_t base = planes.base(planes.locate(i, rows, columns), outputs);
    dx[i] = place >= 0 ? dy[base + place * planes.step()] : T(0);
  }
};

/// Of the wide images and the narrow ones, which must be like the mask.
inline Planes unpool_planes(const Tensor& narrow, const Tensor& mask, const Tensor& wide) {
  require_alike("unpool", narrow, mask);
  return planes_of("unpool", narrow, wide);
}

}  // namespace detail

template <class Backend>
void unfold_forward_on(Context& context, const ConvolutionGeometry& geometry, const Tensor& x, Tensor& y) {
  const detail::Unfolded over = detail::unfolded(geometry, x, y);
  dispatch_activations<Backend>(x.dtype(), "unfold_forward", [&]<class T>() {
    Backend::for_each(context, y.count(), detail::UnfoldForward<T>{over, x.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void unfold_backward_on(Context& context, const ConvolutionGeometry& geometry, const Tensor& dy, Tensor& dx) {
  const detail::Unfolded over = detail::unfolded(geometry, dx, dy);
  dispatch_activations<Backend>(dy.dtype(), "unfold_backward", [&]<class T>() {
    Backend::for_each(context, dx.count(), detail::UnfoldBackward<T>{over, dy.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
void unpool_forward_on(Context& context, const Tensor& x, const Tensor& mask, Tensor& y) {
  const detail::Planes planes = detail::unpool_planes(x, mask, y);
  dispatch_float(x.dtype(), "unpool_forward", [&]<class T>() {
    Backend::for_each_long(context, x.shape().count(0, 2), y.shape().count(2),
                           detail::UnpoolForward<T>{planes, x.shape().count(2), y.shape().count(2),
                                                    x.data<T>(), mask.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void unpool_backward_on(Context& context, const Tensor& dy, const Tensor& mask, Tensor& dx) {
  const detail::Planes planes = detail::unpool_planes(dx, mask, dy);
  dispatch_float(dy.dtype(), "unpool_backward", [&]<class T>() {
    Backend::for_each(context, dx.count(),
                      detail::UnpoolBackward<T>{planes, dx.shape()[2], dx.shape()[3], dy.shape().count(2),
                                                dy.data<T>(), mask.data<T>(), dx.data<T>()});
  });
}

/// Registers all of the above for a back end.
template <class Backend>
struct DefineUnfold {
  DefineUnfold() {
    unfold_forward.define(Backend::kind, &unfold_forward_on<Backend>);
    unfold_backward.define(Backend::kind, &unfold_backward_on<Backend>);
    unpool_forward.define(Backend::kind, &unpool_forward_on<Backend>);
    unpool_backward.define(Backend::kind, &unpool_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
