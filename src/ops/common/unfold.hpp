// im2col, unpooling: one element per index; unpooling forward whole planes, since two of a plane's elements
// may meet. On the CPU neighbours in memory are unpooled by one call.
#pragma once

#include "banyan/ops/unfold.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/index_below.hpp"
#include "ops/common/planes.hpp"

namespace banyan::ops {
namespace detail {

/// Arrays of numbers, not of structs: it is a kernel's argument, in which GCC 12's __builtin_clear_padding
/// (used by builds that look at arguments byte by byte) clears parts of arrays of structs.
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

/// `run` neighbouring planes per index: pixels in ascending order.
template <class T>
struct UnpoolForward {
  Planes planes;
  std::int64_t run, runs;        ///< of a sample
  std::int64_t inputs, outputs;  ///< pixels of a plane
  const T *x, *mask;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t first = i % runs * run, left = planes.channels - first;
    const std::int64_t some = left < run ? left : run, step = planes.step(), next = planes.next(outputs);
    const PlanePosition at{i / runs, first, 0, 0};
    const std::int64_t from = planes.base(at, inputs), to = planes.base(at, outputs);
    for (std::int64_t pixel = 0; pixel < outputs; ++pixel)
      for (std::int64_t k = 0; k < some; ++k) y[to + pixel * step + k * next] = T(0);
    for (std::int64_t pixel = 0; pixel < inputs; ++pixel)
      for (std::int64_t k = 0; k < some; ++k) {
        const std::int64_t source = from + pixel * step + k * planes.next(inputs);
        const std::int64_t place = index_below(mask[source], outputs);
        if (place >= 0) y[to + place * step + k * next] = x[source];
      }
  }
};

/// `run` neighbours of one sample (channels-last) or plane per index.
template <class T>
struct UnpoolBackward {
  Planes planes;
  std::int64_t run, rows, columns, outputs;
  const T *dy, *mask;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t first = i * run, step = planes.step();
    const T* const plane = dy + planes.base(planes.locate(first, rows, columns), outputs);
    const std::int64_t next = planes.channels_last ? 1 : 0;
    for (std::int64_t k = 0; k < run; ++k) {
      const std::int64_t place = index_below(mask[first + k], outputs);
      dx[first + k] = place >= 0 ? plane[place * step + k * next] : T(0);
    }
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
  dispatch_storage(x.dtype(), "unfold_forward", [&]<class T>() {
    Backend::for_each(context, y.count(), detail::UnfoldForward<T>{over, x.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void unfold_backward_on(Context& context, const ConvolutionGeometry& geometry, const Tensor& dy, Tensor& dx) {
  const detail::Unfolded over = detail::unfolded(geometry, dx, dy);
  dispatch_storage(dy.dtype(), "unfold_backward", [&]<class T>() {
    Backend::for_each(context, dx.count(), detail::UnfoldBackward<T>{over, dy.data<T>(), dx.data<T>()});
  });
}

/// Planes whose pixels share cache lines are done together on the CPU.
template <class Backend>
void unpool_forward_on(Context& context, const Tensor& x, const Tensor& mask, Tensor& y) {
  const detail::Planes planes = detail::unpool_planes(x, mask, y);
  const bool together = Backend::kind == DeviceKind::cpu && planes.channels_last;
  const std::int64_t run = together ? 64 : 1, runs = (planes.channels + run - 1) / run;
  dispatch_float(x.dtype(), "unpool_forward", [&]<class T>() {
    Backend::for_each_long(context, x.shape()[0] * runs, run * y.shape().count(2),
                           detail::UnpoolForward<T>{planes, run, runs, x.shape().count(2), y.shape().count(2),
                                                    x.data<T>(), mask.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void unpool_backward_on(Context& context, const Tensor& dy, const Tensor& mask, Tensor& dx) {
  const detail::Planes planes = detail::unpool_planes(dx, mask, dy);
  const std::int64_t rows = dx.shape()[2], columns = dx.shape()[3];
  const std::int64_t run = Backend::kind != DeviceKind::cpu ? 1
                           : planes.channels_last           ? planes.channels
                                                            : rows * columns;
  if (dx.count() == 0) return;
  dispatch_float(dy.dtype(), "unpool_backward", [&]<class T>() {
    Backend::for_each_long(context, dx.count() / run, run,
                           detail::UnpoolBackward<T>{planes, run, rows, columns, dy.shape().count(2),
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
