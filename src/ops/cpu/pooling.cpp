// Pooling on CPU devices. Channels-last tensors have vector loops over the channels, with rows of pixels
// divided among the threads (where they fill vectors, maxima of f32 stay in registers over the whole window);
// contiguous ones go plane by plane. Additions and comparisons are those of the shared functors, in the same
// order for each result, so the bits are the same.
#include "ops/common/pooling.hpp"

#include <cstring>
#include <type_traits>

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

using detail::PoolingPlanes;
using detail::Window;

// 16 neighbouring channels (compiler extension: two or four instructions where registers are shorter). Never
// passed by value: how, would depend on the processor.
using Floats [[gnu::vector_size(64)]] = float;
using Indices [[gnu::vector_size(64)]] = std::int32_t;
constexpr std::int64_t kLanes = 16;

/// 16 K channels.
template <int K>
void maximum_lanes(const PoolingPlanes& p, const Window& h, const Window& w, const float* image, float* y,
                   std::int32_t* mask) {
  Floats best[K], value;
  Indices chosen[K];
  for (int k = 0; k < K; ++k) {
    best[k] = Floats{} - FLT_MAX;
    chosen[k] = Indices{} - 1;
  }
  for (std::int64_t row = h.begin; row < h.end; ++row)
    for (std::int64_t column = w.begin; column < w.end; ++column) {
      const std::int64_t pixel = row * p.w.input + column;
      const Indices where = Indices{} + static_cast<std::int32_t>(pixel);
#pragma GCC unroll 4
      for (int k = 0; k < K; ++k) {
        std::memcpy(&value, image + pixel * p.channels + k * kLanes, sizeof value);
        const Indices greater = value > best[k];
        best[k] = greater ? value : best[k];
        chosen[k] = greater ? where : chosen[k];
      }
    }
  std::memcpy(y, best, sizeof best);
  std::memcpy(mask, chosen, sizeof chosen);
}

/// `channels` is a multiple of 16.
void maximum_vectors(const PoolingPlanes& p, const Window& h, const Window& w, const float* image, float* y,
                     std::int32_t* mask) {
  std::int64_t c = 0;
  for (; c + 4 * kLanes <= p.channels; c += 4 * kLanes) maximum_lanes<4>(p, h, w, image + c, y + c, mask + c);
  for (; c < p.channels; c += kLanes) maximum_lanes<1>(p, h, w, image + c, y + c, mask + c);
}

template <class T>
void maximum_pixel(const PoolingPlanes& p, const Window& h, const Window& w, const T* image, T* y,
                   std::int32_t* mask) {
  const std::int64_t channels = p.channels;
  if constexpr (std::is_same_v<T, float>)
    if (channels % kLanes == 0) return maximum_vectors(p, h, w, image, y, mask);
  for (std::int64_t c = 0; c < channels; ++c) {
    y[c] = -static_cast<T>(FLT_MAX);
    mask[c] = -1;
  }
  for (std::int64_t row = h.begin; row < h.end; ++row)
    for (std::int64_t column = w.begin; column < w.end; ++column) {
      const std::int64_t pixel = row * p.w.input + column;
      const T* x = image + pixel * channels;
      const auto where = static_cast<std::int32_t>(pixel);
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) {
        const bool greater = x[c] > y[c];
        y[c] = greater ? x[c] : y[c];
        mask[c] = greater ? where : mask[c];
      }
    }
}

template <class T>
void average_pixel(const PoolingPlanes& p, const Window& h, const Window& w, const T* image, T* y) {
  const std::int64_t channels = p.channels;
  std::fill_n(y, channels, T(0));
  if (h.end <= h.begin || w.end <= w.begin) return;
  for (std::int64_t row = h.begin; row < h.end; ++row)
    for (std::int64_t column = w.begin; column < w.end; ++column) {
      const T* x = image + (row * p.w.input + column) * channels;
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) y[c] += x[c];
    }
  const T area = static_cast<T>(h.length * w.length);
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) y[c] /= area;
}

/// mask == nullptr: average.
template <class T>
void forward_rows(int threads, const PoolingPlanes& p, std::int64_t batch, const T* x, T* y,
                  std::int32_t* mask) {
  const std::int64_t rows = batch * p.h.output, image = p.h.input * p.w.input * p.channels;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const Window h = p.h.window(r % p.h.output);
    const T* from = x + r / p.h.output * image;
    for (std::int64_t column = 0; column < p.w.output; ++column) {
      const std::int64_t to = (r * p.w.output + column) * p.channels;
      const Window w = p.w.window(column);
      if (mask != nullptr)
        maximum_pixel(p, h, w, from, y + to, mask + to);
      else
        average_pixel(p, h, w, from, y + to);
    }
  }
}

/// mask == nullptr: average.
template <class T>
void backward_pixel(const PoolingPlanes& p, std::int64_t row, std::int64_t column, const T* dy,
                    const std::int32_t* mask, T* dx) {
  const std::int64_t channels = p.channels;
  const auto pixel = static_cast<std::int32_t>(row * p.w.input + column);
  const std::int64_t row_end = p.h.last_output(row), column_end = p.w.last_output(column);
  std::fill_n(dx, channels, T(0));
  for (std::int64_t r = p.h.first_output(row); r < row_end; ++r)
    for (std::int64_t w = p.w.first_output(column); w < column_end; ++w) {
      const std::int64_t o = (r * p.w.output + w) * channels;
      const T* g = dy + o;
      if (mask != nullptr) {
        const std::int32_t* m = mask + o;
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) dx[c] += m[c] == pixel ? g[c] : T(0);
      } else {
        const T area = static_cast<T>(p.h.window(r).length * p.w.window(w).length);
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) dx[c] += g[c] / area;
      }
    }
}

template <class T>
void backward_rows(int threads, const PoolingPlanes& p, std::int64_t batch, const T* dy,
                   const std::int32_t* mask, T* dx) {
  const std::int64_t rows = batch * p.h.input, image = p.h.output * p.w.output * p.channels;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t from = r / p.h.input * image;
    for (std::int64_t column = 0; column < p.w.input; ++column)
      backward_pixel(p, r % p.h.input, column, dy + from, mask == nullptr ? nullptr : mask + from,
                     dx + (r * p.w.input + column) * p.channels);
  }
}

template <class T>
void maximum_of_plane(const PoolingPlanes& p, const Window& h, const Window& w, const T* plane, T& y,
                      std::int32_t& mask) {
  T best = -static_cast<T>(FLT_MAX);
  std::int64_t where = -1;
  for (std::int64_t row = h.begin; row < h.end; ++row)
    for (std::int64_t pixel = row * p.w.input + w.begin; pixel < row * p.w.input + w.end; ++pixel)
      if (plane[pixel] > best) {
        best = plane[pixel];
        where = pixel;
      }
  y = best;
  mask = static_cast<std::int32_t>(where);
}

template <class T>
T average_of_plane(const PoolingPlanes& p, const Window& h, const Window& w, const T* plane) {
  if (h.end <= h.begin || w.end <= w.begin) return T(0);
  T sum = 0;
  for (std::int64_t row = h.begin; row < h.end; ++row)
    for (std::int64_t pixel = row * p.w.input + w.begin; pixel < row * p.w.input + w.end; ++pixel)
      sum += plane[pixel];
  return sum / static_cast<T>(h.length * w.length);
}

/// Contiguous. mask == nullptr: average.
template <class T>
void forward_planes(int threads, const PoolingPlanes& p, std::int64_t planes, const T* x, T* y,
                    std::int32_t* mask) {
  const std::int64_t in = p.h.input * p.w.input, out = p.h.output * p.w.output;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t plane = 0; plane < planes; ++plane)
    for (std::int64_t row = 0, to = plane * out; row < p.h.output; ++row) {
      const Window h = p.h.window(row);
      for (std::int64_t column = 0; column < p.w.output; ++column, ++to) {
        if (mask != nullptr)
          maximum_of_plane(p, h, p.w.window(column), x + plane * in, y[to], mask[to]);
        else
          y[to] = average_of_plane(p, h, p.w.window(column), x + plane * in);
      }
    }
}

template <class T>
void spread_average(const PoolingPlanes& p, std::int64_t row, std::int64_t column, T gradient, T* plane) {
  const Window h = p.h.window(row), w = p.w.window(column);
  const T share = gradient / static_cast<T>(h.length * w.length);
  for (std::int64_t r = h.begin; r < h.end; ++r)
    for (std::int64_t c = w.begin; c < w.end; ++c) plane[r * p.w.input + c] += share;
}

/// Contiguous. Outputs in ascending order: each pixel gets its terms in the order of the gathering functor.
template <class T>
void backward_planes(int threads, const PoolingPlanes& p, std::int64_t planes, const T* dy,
                     const std::int32_t* mask, T* dx) {
  const std::int64_t in = p.h.input * p.w.input, out = p.h.output * p.w.output;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t plane = 0; plane < planes; ++plane) {
    T* to = dx + plane * in;
    std::fill_n(to, in, T(0));
    for (std::int64_t o = 0; o < out; ++o) {
      const T gradient = dy[plane * out + o];
      if (mask == nullptr)
        spread_average(p, o / p.w.output, o % p.w.output, gradient, to);
      else if (const std::int32_t pixel = mask[plane * out + o]; pixel >= 0 && pixel < in)
        to[pixel] += gradient;
    }
  }
}

void pooling_forward_on_cpu(Context& context, const PoolingGeometry& geometry, const Tensor& input,
                            bool training, const RandomKey& key, const SampleIndex& samples, Tensor& output,
                            Tensor& mask) {
  const PoolingPlanes planes = detail::pooling_planes(geometry, input, output);
  if (geometry.method == PoolingMethod::stochastic)
    return pooling_forward_on<CpuBackend>(context, geometry, input, training, key, samples, output, mask);
  const bool maximum = geometry.method == PoolingMethod::maximum;
  if (maximum) require_alike("pooling_forward", output, mask);
  const int threads = CpuBackend::threads_for(context, input.count());
  dispatch_float(input.dtype(), "pooling_forward", [&]<class T>() {
    const T* x = input.data<T>();
    T* y = output.data<T>();
    std::int32_t* where = maximum ? mask.data<std::int32_t>() : nullptr;
    const std::int64_t batch = input.shape()[0];
    context.run([=] {
      if (planes.channels_last)
        forward_rows(threads, planes, batch, x, y, where);
      else
        forward_planes(threads, planes, batch * planes.channels, x, y, where);
    });
  });
}

void pooling_backward_on_cpu(Context& context, const PoolingGeometry& geometry, const Tensor& grad_output,
                             const Tensor& mask, Tensor& grad_input) {
  const PoolingPlanes planes = detail::pooling_planes(geometry, grad_input, grad_output);
  const bool chosen = geometry.method != PoolingMethod::average;
  if (chosen) require_alike("pooling_backward", grad_output, mask);
  const int threads = CpuBackend::threads_for(context, grad_input.count());
  dispatch_float(grad_output.dtype(), "pooling_backward", [&]<class T>() {
    const T* dy = grad_output.data<T>();
    T* dx = grad_input.data<T>();
    const std::int32_t* where = chosen ? mask.data<std::int32_t>() : nullptr;
    const std::int64_t batch = grad_input.shape()[0];
    context.run([=] {
      if (planes.channels_last)
        backward_rows(threads, planes, batch, dy, where, dx);
      else
        backward_planes(threads, planes, batch * planes.channels, dy, where, dx);
    });
  });
}

const Define define_forward(pooling_forward, DeviceKind::cpu, &pooling_forward_on_cpu);
const Define define_backward(pooling_backward, DeviceKind::cpu, &pooling_backward_on_cpu);

}  // namespace
}  // namespace banyan::ops
