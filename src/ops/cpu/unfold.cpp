// im2col on CPU devices: line by line along the last axis, so that what is in the padding is known for a
// line.
#include "ops/common/unfold.hpp"

#include <algorithm>
#include <vector>

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

using detail::Unfolded;

/// Outputs of the last axis whose windows' element lies in the image: from `begin` to `end`; that of output o
/// is pixel first + o * stride.
struct Line {
  std::int64_t begin, end, first, stride;
  Line(const Unfolded& over, std::int64_t element) {
    const std::int64_t k = over.axes - 1, input = over.input[k], output = over.output[k];
    stride = over.stride[k];
    first = element * over.dilation[k] - over.pad[k];
    begin = std::min(first < 0 ? (-first + stride - 1) / stride : 0, output);
    end = std::clamp(first < input ? (input - 1 - first) / stride + 1 : 0, begin, output);
  }
};

/// line(first output, first pixel or -1 for a line in the padding, which outputs lie in the image) for all
/// lines that one element of the kernel meets in a plane.
template <class Body>
void for_each_line(const Unfolded& over, std::int64_t element, const Body& body) {
  const std::int64_t last = over.axes - 1;
  if (last < 0) return;
  const Line line(over, element % over.kernel[last]);
  const std::int64_t rest = element / over.kernel[last];
  for (std::int64_t output = 0; output < over.outputs; output += over.output[last]) {
    std::int64_t position = output / over.output[last], place = rest, row = 0, step = over.input[last];
    bool inside = true;
    for (std::int64_t k = last; k-- > 0;) {
      const std::int64_t at = position % over.output[k] * over.stride[k] - over.pad[k] +
                              place % over.kernel[k] * over.dilation[k];
      inside = inside && at >= 0 && at < over.input[k];
      row += at * step;
      step *= over.input[k];
      position /= over.output[k];
      place /= over.kernel[k];
    }
    body(output, inside ? row : -1, line);
  }
}

template <class T>
void unfold(int threads, const Unfolded& over, std::int64_t planes, const T* x, T* y) {
  const std::int64_t length = over.output[over.axes - 1];
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t i = 0; i < planes * over.kernels; ++i) {
    const T* const plane = x + i / over.kernels * over.inputs;
    for_each_line(over, i % over.kernels, [&](std::int64_t output, std::int64_t row, const Line& line) {
      T* const to = y + i * over.outputs + output;
      if (row < 0) return void(std::fill_n(to, length, T(0)));
      const T* const from = plane + row + line.first;
      std::fill_n(to, line.begin, T(0));
      if (line.stride == 1)
        std::copy(from + line.begin, from + line.end, to + line.begin);
      else
        for (std::int64_t o = line.begin; o < line.end; ++o) to[o] = from[o * line.stride];
      std::fill(to + line.end, to + length, T(0));
    });
  }
}

/// Each pixel gets its terms in the order of the kernel's elements.
template <class T>
void fold(int threads, const Unfolded& over, std::int64_t planes, const T* dy, T* dx) {
#pragma omp parallel num_threads(threads)
  {
    std::vector<Arithmetic<T>> sums(static_cast<std::size_t>(over.inputs));
#pragma omp for schedule(static)
    for (std::int64_t plane = 0; plane < planes; ++plane) {
      std::fill(sums.begin(), sums.end(), Arithmetic<T>(0));
      for (std::int64_t element = 0; element < over.kernels; ++element) {
        const T* const gradient = dy + (plane * over.kernels + element) * over.outputs;
        for_each_line(over, element, [&](std::int64_t output, std::int64_t row, const Line& line) {
          if (row < 0) return;
          auto* const to = sums.data() + row + line.first;
          const T* const from = gradient + output;
          const std::int64_t stride = line.stride;
          if (stride == 1) {
#pragma omp simd
            for (std::int64_t o = line.begin; o < line.end; ++o) to[o] += from[o];
          } else {
            for (std::int64_t o = line.begin; o < line.end; ++o) to[o * stride] += from[o];
          }
        });
      }
      T* const to = dx + plane * over.inputs;
      for (std::int64_t i = 0; i < over.inputs; ++i) to[i] = static_cast<T>(sums[i]);
    }
  }
}

void unfold_forward_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& x,
                           Tensor& y) {
  const Unfolded over = detail::unfolded(geometry, x, y);
  if (over.axes == 0) return unfold_forward_on<CpuBackend>(context, geometry, x, y);
  const int threads = CpuBackend::threads_for(context, y.count());
  dispatch_storage(x.dtype(), "unfold_forward", [&]<class T>() {
    context.run([=, planes = x.shape().count(0, 2), from = x.data<T>(), to = y.data<T>()] {
      unfold(threads, over, planes, from, to);
    });
  });
}

void unfold_backward_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& dy,
                            Tensor& dx) {
  const Unfolded over = detail::unfolded(geometry, dx, dy);
  if (over.axes == 0) return unfold_backward_on<CpuBackend>(context, geometry, dy, dx);
  const int threads = CpuBackend::threads_for(context, dy.count());
  dispatch_storage(dy.dtype(), "unfold_backward", [&]<class T>() {
    context.run([=, planes = dx.shape().count(0, 2), from = dy.data<T>(), to = dx.data<T>()] {
      fold(threads, over, planes, from, to);
    });
  });
}

/// Channels-last: places first, for a few channels of a pixel at a time.
template <class T>
void unpool_pixels(int threads, std::int64_t batch, std::int64_t channels, std::int64_t inputs,
                   std::int64_t outputs, const T* x, const T* mask, T* y) {
  constexpr std::int64_t kFew = 64, kLine = 64 / sizeof(T);
  std::int64_t width = kFew;  // less for a few images, so that there is work for all threads
  while (width > kLine && batch * ((channels + width - 1) / width) < threads) width /= 2;
  const std::int64_t runs = (channels + width - 1) / width;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t task = 0; task < batch * runs; ++task) {
    const std::int64_t sample = task / runs, first = task % runs * width,
                       few = std::min(width, channels - first);
    T* const to = y + sample * outputs * channels + first;
    if (few == channels)
      std::fill_n(to, outputs * channels, T(0));
    else
      for (std::int64_t pixel = 0; pixel < outputs; ++pixel) std::fill_n(to + pixel * channels, few, T(0));
    for (std::int64_t pixel = 0; pixel < inputs; ++pixel) {
      const std::int64_t from = (sample * inputs + pixel) * channels + first;
      std::int64_t places[kFew];
      for (std::int64_t c = 0; c < few; ++c) places[c] = detail::index_below(mask[from + c], outputs);
      for (std::int64_t c = 0; c < few; ++c)
        if (places[c] >= 0) to[places[c] * channels + c] = x[from + c];
    }
  }
}

template <class T>
void unpool_pixels_backward(int threads, std::int64_t batch, std::int64_t channels, std::int64_t inputs,
                            std::int64_t outputs, const T* dy, const T* mask, T* dx) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t pixel = 0; pixel < batch * inputs; ++pixel) {
    const T* const image = dy + pixel / inputs * outputs * channels;
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t place = detail::index_below(mask[pixel * channels + c], outputs);
      const T gradient = image[(place >= 0 ? place : 0) * channels + c];
      dx[pixel * channels + c] = place >= 0 ? gradient : T(0);
    }
  }
}

void unpool_forward_on_cpu(Context& context, const Tensor& x, const Tensor& mask, Tensor& y) {
  if (!detail::unpool_planes(x, mask, y).channels_last)
    return unpool_forward_on<CpuBackend>(context, x, mask, y);
  const int threads = CpuBackend::threads_for(context, y.count());
  dispatch_float(x.dtype(), "unpool_forward", [&]<class T>() {
    context.run(
        [=, batch = x.shape()[0], channels = x.shape()[1], inputs = x.shape().count(2),
         outputs = y.shape().count(2), from = x.data<T>(), places = mask.data<T>(),
         to = y.data<T>()] { unpool_pixels(threads, batch, channels, inputs, outputs, from, places, to); });
  });
}

void unpool_backward_on_cpu(Context& context, const Tensor& dy, const Tensor& mask, Tensor& dx) {
  if (dy.count() == 0 || !detail::unpool_planes(dx, mask, dy).channels_last)
    return unpool_backward_on<CpuBackend>(context, dy, mask, dx);
  const int threads = CpuBackend::threads_for(context, dx.count());
  dispatch_float(dy.dtype(), "unpool_backward", [&]<class T>() {
    context.run([=, batch = dx.shape()[0], channels = dx.shape()[1], inputs = dx.shape().count(2),
                 outputs = dy.shape().count(2), from = dy.data<T>(), places = mask.data<T>(),
                 to = dx.data<T>()] {
      unpool_pixels_backward(threads, batch, channels, inputs, outputs, from, places, to);
    });
  });
}

const Define define_unfold_forward(unfold_forward, DeviceKind::cpu, &unfold_forward_on_cpu);
const Define define_unfold_backward(unfold_backward, DeviceKind::cpu, &unfold_backward_on_cpu);
const Define define_unpool_forward(unpool_forward, DeviceKind::cpu, &unpool_forward_on_cpu);
const Define define_unpool_backward(unpool_backward, DeviceKind::cpu, &unpool_backward_on_cpu);

}  // namespace
}  // namespace banyan::ops
