// Pooling's functors: one output element per index forward, one input element per index backward.
//
// Both layouts (see planes.hpp). Backward gathers from the windows that contain the pixel, in ascending
// order, so sums have a fixed order.
#pragma once

#include <cfloat>
#include <type_traits>

#include "banyan/ops/pooling.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/divisor.hpp"
#include "ops/common/elementwise.hpp"
#include "ops/common/pack.hpp"
#include "ops/common/pass_key.hpp"
#include "ops/common/planes.hpp"

namespace banyan::ops {
namespace detail {

struct Window {
  std::int64_t start;       ///< of the whole window, which may be outside the input
  std::int64_t begin, end;  ///< clipped to the input
  std::int64_t length;  ///< of the divisor: clipped only at input + pad, unless only what is inside counts
};

struct PoolingAxis {
  std::int64_t input, output, kernel, stride, pad;
  bool counts_padding = true;
  Divisor<std::int64_t> by_input{input}, by_output{output}, by_stride{stride};
  BANYAN_HOST_DEVICE Window window(std::int64_t o) const {
    const std::int64_t begin = start(o);
    const std::int64_t end = begin + kernel < input + pad ? begin + kernel : input + pad;
    const std::int64_t first = begin > 0 ? begin : 0, last = end < input ? end : input;
    return {begin, first, last, counts_padding ? end - begin : last - first};
  }
  BANYAN_HOST_DEVICE std::int64_t start(std::int64_t o) const { return o * stride - pad; }
  /// First and one past the last output whose window contains input i.
  BANYAN_HOST_DEVICE std::int64_t first_output(std::int64_t i) const {
    return i + pad < kernel ? 0 : by_stride.quotient(i + pad - kernel) + 1;
  }
  BANYAN_HOST_DEVICE std::int64_t last_output(std::int64_t i) const {
    const std::int64_t last = by_stride.quotient(i + pad) + 1;
    return last < output ? last : output;
  }
};

struct PoolingPlanes : Planes {
  PoolingAxis h, w;
  Divisor<std::int64_t> by_channels{channels};
  BANYAN_HOST_DEVICE PlanePosition input(std::int64_t i) const {
    return locate(i, h.by_input, w.by_input, by_channels);
  }
  BANYAN_HOST_DEVICE PlanePosition output(std::int64_t i) const {
    return locate(i, h.by_output, w.by_output, by_channels);
  }
};

/// What a mask of type M says of a pixel in a window that starts there. A window without a maximum has M(-1).
template <class M>
BANYAN_HOST_DEVICE std::int32_t mark(const PoolingPlanes& p, std::int64_t start_row,
                                     std::int64_t start_column, std::int64_t row, std::int64_t column) {
  const bool in_window = sizeof(M) == 1;
  return static_cast<std::int32_t>(in_window ? (row - start_row) * p.w.kernel + column - start_column
                                             : row * p.w.input + column);
}

/// Where the search for a maximum starts: Caffe's -FLT_MAX, which would round to infinity in bf16.
template <class T>
BANYAN_HOST_DEVICE constexpr Arithmetic<T> lowest() {
  return std::is_same_v<T, BFloat16> ? -0x1.fep127f : -FLT_MAX;
}

template <class T, class M>
struct MaximumPooling {
  PoolingPlanes planes;
  const T* x;
  T* y;
  M* mask;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { pool<1>(i); }
  /// Elements i to i + kWidth - 1: one, or channels of a pixel, whose memory is aligned for packs.
  template <int kWidth>
  BANYAN_HOST_DEVICE void pool(std::int64_t i) const {
    const PlanePosition at = planes.output(i);
    const Window h = planes.h.window(at.row), w = planes.w.window(at.column);
    const T* plane = x + planes.base(at, planes.h.input * planes.w.input);
    Arithmetic<T> best[kWidth];
    std::int32_t where[kWidth];
    BANYAN_UNROLLED
    for (int k = 0; k < kWidth; ++k) {
      best[k] = lowest<T>();
      where[k] = -1;  // remains if no value is greater, as in an empty window
    }
    for (std::int64_t row = h.begin; row < h.end; ++row)
      for (std::int64_t column = w.begin; column < w.end; ++column) {
        const auto values = pack_at<kWidth>(plane + (row * planes.w.input + column) * planes.step());
        const std::int32_t here = mark<M>(planes, h.start, w.start, row, column);
        BANYAN_UNROLLED
        for (int k = 0; k < kWidth; ++k)
          if (const Arithmetic<T> value = values.values[k]; value > best[k]) {
            best[k] = value;
            where[k] = here;
          }
      }
    Pack<T, kWidth> result;
    Pack<M, kWidth> marks;
    BANYAN_UNROLLED
    for (int k = 0; k < kWidth; ++k) {
      result.values[k] = static_cast<T>(best[k]);
      marks.values[k] = static_cast<M>(where[k]);
    }
    pack_at<kWidth>(y + i) = result;
    pack_at<kWidth>(mask + i) = marks;
  }
};

template <class T>
struct AveragePooling {
  using A = Arithmetic<T>;
  PoolingPlanes planes;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const PlanePosition at = planes.output(i);
    const Window h = planes.h.window(at.row), w = planes.w.window(at.column);
    const T* plane = x + planes.base(at, planes.h.input * planes.w.input);
    A sum = 0;
    for (std::int64_t row = h.begin; row < h.end; ++row)
      for (std::int64_t column = w.begin; column < w.end; ++column)
        sum += plane[(row * planes.w.input + column) * planes.step()];
    const bool empty = h.end <= h.begin || w.end <= w.begin;
    y[i] = static_cast<T>(empty ? A(0) : sum / static_cast<A>(h.length * w.length));
  }
};

/// Training (Caffe): the first value of the window at which the running sum reaches a uniformly drawn
/// fraction of the total. Otherwise: sum(x^2) / sum(x), or 0 if the sum is not positive.
template <class T>
struct StochasticPooling {
  using A = Arithmetic<T>;
  PoolingPlanes planes;
  RandomKey key;
  SampleIndex samples;
  bool training;
  const T* x;
  T* y;
  std::int32_t* mask;

  BANYAN_HOST_DEVICE A threshold(const PlanePosition& at, A sum) const {
    const std::int64_t element = (at.channel * planes.h.output + at.row) * planes.w.output + at.column;
    const Philox4 bits = random_quad(key, samples.first + at.sample * samples.stride, element / 4);
    return static_cast<A>(uniform01(bits.v[element % 4])) * sum;
  }
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const PlanePosition at = planes.output(i);
    const Window h = planes.h.window(at.row), w = planes.w.window(at.column);
    const T* plane = x + planes.base(at, planes.h.input * planes.w.input);
    A sum = 0, squares = 0;
    for (std::int64_t row = h.begin; row < h.end; ++row)
      for (std::int64_t column = w.begin; column < w.end; ++column) {
        const A value = plane[(row * planes.w.input + column) * planes.step()];
        sum += value;
        squares += value * value;
      }
    if (!training) {
      y[i] = static_cast<T>(sum > 0 ? squares / sum : A(0));
      return;
    }
    const A wanted = threshold(at, sum);
    A reached = 0, chosen = 0;
    std::int32_t where = -1;
    for (std::int64_t row = h.begin; row < h.end; ++row)
      for (std::int64_t column = w.begin; column < w.end; ++column) {
        const std::int64_t pixel = row * planes.w.input + column;
        const A value = plane[pixel * planes.step()];
        reached += value;
        if (where < 0 && reached >= wanted) {
          where = static_cast<std::int32_t>(pixel);
          chosen = value;
        }
      }
    y[i] = static_cast<T>(chosen);
    mask[i] = where;
  }
};

/// Maximum and stochastic: the gradients of the windows that chose this pixel.
template <class T, class M>
struct ChosenPoolingBackward {
  using A = Arithmetic<T>;
  PoolingPlanes planes;
  const T* dy;
  const M* mask;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { pool<1>(i); }
  /// As in MaximumPooling.
  template <int kWidth>
  BANYAN_HOST_DEVICE void pool(std::int64_t i) const {
    const PlanePosition at = planes.input(i);
    const std::int64_t base = planes.base(at, planes.h.output * planes.w.output);
    const std::int64_t row_end = planes.h.last_output(at.row), column_end = planes.w.last_output(at.column);
    A sum[kWidth];
    BANYAN_UNROLLED
    for (int k = 0; k < kWidth; ++k) sum[k] = 0;
    for (std::int64_t row = planes.h.first_output(at.row); row < row_end; ++row)
      for (std::int64_t column = planes.w.first_output(at.column); column < column_end; ++column) {
        const std::int64_t o = base + (row * planes.w.output + column) * planes.step();
        const std::int32_t here =
            mark<M>(planes, planes.h.start(row), planes.w.start(column), at.row, at.column);
        const auto marks = pack_at<kWidth>(mask + o);
        const auto gradients = pack_at<kWidth>(dy + o);
        BANYAN_UNROLLED
        for (int k = 0; k < kWidth; ++k)
          sum[k] += marks.values[k] == here ? static_cast<A>(gradients.values[k]) : A(0);
      }
    Pack<T, kWidth> result;
    BANYAN_UNROLLED
    for (int k = 0; k < kWidth; ++k) result.values[k] = static_cast<T>(sum[k]);
    pack_at<kWidth>(dx + i) = result;
  }
};

template <class T>
struct AveragePoolingBackward {
  using A = Arithmetic<T>;
  PoolingPlanes planes;
  const T* dy;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { pool<1>(i); }
  /// As in MaximumPooling.
  template <int kWidth>
  BANYAN_HOST_DEVICE void pool(std::int64_t i) const {
    const PlanePosition at = planes.input(i);
    const std::int64_t base = planes.base(at, planes.h.output * planes.w.output);
    const std::int64_t row_end = planes.h.last_output(at.row), column_end = planes.w.last_output(at.column);
    A sum[kWidth];
    BANYAN_UNROLLED
    for (int k = 0; k < kWidth; ++k) sum[k] = 0;
    for (std::int64_t row = planes.h.first_output(at.row); row < row_end; ++row)
      for (std::int64_t column = planes.w.first_output(at.column); column < column_end; ++column) {
        const A area = static_cast<A>(planes.h.window(row).length * planes.w.window(column).length);
        const auto gradients = pack_at<kWidth>(dy + base + (row * planes.w.output + column) * planes.step());
        BANYAN_UNROLLED
        for (int k = 0; k < kWidth; ++k) sum[k] += gradients.values[k] / area;
      }
    Pack<T, kWidth> result;
    BANYAN_UNROLLED
    for (int k = 0; k < kWidth; ++k) result.values[k] = static_cast<T>(sum[k]);
    pack_at<kWidth>(dx + i) = result;
  }
};

template <class F, int kWidth>
struct PoolPack {
  F f;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { f.template pool<kWidth>(i * kWidth); }
};

/// f(i) for all `count` elements; on GPUs for channels of a pixel at a time, where all of `memory` allows it:
/// finding a pixel takes longer than moving a few of its numbers.
template <class Backend, class T, class F, class... Element>
void pool_each(Context& context, const PoolingPlanes& planes, std::int64_t count, const F& f,
               const Element*... memory) {
  if constexpr (Backend::kind == DeviceKind::cuda) {
    constexpr int kWidth = 16 / sizeof(T);
    if (planes.channels_last && planes.channels % kWidth == 0 &&
        (is_aligned_for_packs<kWidth>(memory) && ...))
      return Backend::for_each(context, count / kWidth, PoolPack<F, kWidth>{f});
  }
  Backend::for_each(context, count, f);
}

/// Checks tensors that are accessed through raw pointers.
inline PoolingPlanes pooling_planes(const PoolingGeometry& g, const Tensor& input, const Tensor& output) {
  const Planes planes = planes_of("pooling", input, output);
  const Shape &in = input.shape(), &out = output.shape();
  const bool padded = g.method != PoolingMethod::stochastic;  // Caffe's ignores its padding
  return {planes,
          {in[2], out[2], g.kernel_h, g.stride_h, padded ? g.pad_h : 0, g.counts_padding},
          {in[3], out[3], g.kernel_w, g.stride_w, padded ? g.pad_w : 0, g.counts_padding}};
}

/// Calls f.operator()<M>(), M being the type of the mask's values.
template <class F>
void dispatch_mask(const PoolingGeometry& geometry, const Tensor& mask, const F& f) {
  if (!mask.defined() || mask.dtype() != DType::u8) return f.template operator()<std::int32_t>();
  if (geometry.method != PoolingMethod::maximum || smallest_mask(geometry) != DType::u8)
    runtime_failure("pooling: a mask of bytes is for maxima of windows with less than 256 places");
  f.template operator()<std::uint8_t>();
}

}  // namespace detail

template <class Backend>
void pooling_forward_on(Context& context, const PoolingGeometry& geometry, const Tensor& input, bool training,
                        const PassKey& key, const SampleIndex& samples, Tensor& output, Tensor& mask) {
  const detail::PoolingPlanes planes = detail::pooling_planes(geometry, input, output);
  if (geometry.method == PoolingMethod::maximum || (geometry.method == PoolingMethod::stochastic && training))
    require_alike("pooling_forward", output, mask);
  dispatch_storage(input.dtype(), "pooling_forward", [&]<class T>() {
    const T* x = input.data<T>();
    T* y = output.data<T>();
    if (geometry.method == PoolingMethod::average) {
      Backend::for_each(context, output.count(), detail::AveragePooling<T>{planes, x, y});
    } else if (geometry.method == PoolingMethod::maximum) {
      detail::dispatch_mask(geometry, mask, [&]<class M>() {
        M* marks = mask.data<M>();
        detail::pool_each<Backend, T>(context, planes, output.count(),
                                      detail::MaximumPooling<T, M>{planes, x, y, marks}, x, y, marks);
      });
    } else if (!training) {
      Backend::for_each(context, output.count(),
                        detail::StochasticPooling<T>{planes, {}, samples, false, x, y, nullptr});
    } else {
      using Functor = detail::StochasticPooling<T>;
      const Functor functor{planes, {key.seed, key.stream}, samples, true, x, y, mask.data<std::int32_t>()};
      Backend::for_each_made(context, output.count(), MakeDrawing<Functor>{functor, key.iteration});
    }
  });
}

template <class Backend>
void pooling_backward_on(Context& context, const PoolingGeometry& geometry, const Tensor& grad_output,
                         const Tensor& mask, Tensor& grad_input) {
  const detail::PoolingPlanes planes = detail::pooling_planes(geometry, grad_input, grad_output);
  if (geometry.method != PoolingMethod::average) require_alike("pooling_backward", grad_output, mask);
  dispatch_storage(grad_output.dtype(), "pooling_backward", [&]<class T>() {
    const T* dy = grad_output.data<T>();
    T* dx = grad_input.data<T>();
    if (geometry.method == PoolingMethod::average)
      detail::pool_each<Backend, T>(context, planes, grad_input.count(),
                                    detail::AveragePoolingBackward<T>{planes, dy, dx}, dy, dx);
    else
      detail::dispatch_mask(geometry, mask, [&]<class M>() {
        const M* marks = mask.data<M>();
        detail::pool_each<Backend, T>(context, planes, grad_input.count(),
                                      detail::ChosenPoolingBackward<T, M>{planes, dy, marks, dx}, dy, marks,
                                      dx);
      });
  });
}

}  // namespace banyan::ops
