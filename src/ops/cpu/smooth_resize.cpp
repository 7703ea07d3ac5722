// Resizing with smoothing on CPU devices: along each axis the weights, which take divisions, are worked out
// once.
#include "ops/common/smooth_resize.hpp"

#include <algorithm>

#include "ops/cpu/axis_weights.hpp"
#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

/// What each output gets from which pixels.
template <class A>
AxisWeights<A> weights_of(const detail::SmoothLine& line) {
  AxisWeights<A> result;
  for (std::int64_t o = 0; o < line.output; ++o) {
    const detail::SmoothLine::Taps taps = line.taps(o);
    result.begin(taps.first);
    for (std::int64_t i = taps.first; i < taps.last; ++i)
      result.add(static_cast<A>(line.weight(i, taps) / line.sum));
  }
  return result;
}

void smooth_resize_on_cpu(Context& context, const SmoothAxis& rows, const SmoothAxis& columns,
                          const Tensor& x, Tensor& y) {
  const detail::SmoothPlanes over = detail::smooth_planes(rows, columns, x, y);
  const int threads = CpuBackend::threads_for(context, std::max(x.count(), y.count()));
  dispatch_float(x.dtype(), "smooth_resize", [&]<class T>() {
    context.run([=, images = over.images(x), from = x.data<T>(), to = y.data<T>()] {
      weigh_planes(threads, images, over.step(), weights_of<T>(over.h), weights_of<T>(over.w), over.h.input,
                   over.w.input, from, to);
    });
  });
}

void smooth_resize_backward_on_cpu(Context& context, const SmoothAxis& rows, const SmoothAxis& columns,
                                   const Tensor& dy, Tensor& dx) {
  const detail::SmoothPlanes over = detail::smooth_planes(rows, columns, dx, dy);
  const int threads = CpuBackend::threads_for(context, std::max(dx.count(), dy.count()));
  dispatch_float(dy.dtype(), "smooth_resize_backward", [&]<class T>() {
    context.run([=, images = over.images(dx), from = dy.data<T>(), to = dx.data<T>()] {
      weigh_planes(threads, images, over.step(), weights_of<T>(over.h).transposed(over.h.input),
                   weights_of<T>(over.w).transposed(over.w.input), over.h.output, over.w.output, from, to);
    });
  });
}

const Define define_smooth_resize(smooth_resize, DeviceKind::cpu, &smooth_resize_on_cpu);
const Define define_smooth_resize_backward(smooth_resize_backward, DeviceKind::cpu,
                                           &smooth_resize_backward_on_cpu);

}  // namespace
}  // namespace banyan::ops
