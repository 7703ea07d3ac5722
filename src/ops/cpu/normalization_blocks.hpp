// The inner loops of batch normalization on CPU devices: per-channel sums over a small block that stays in
// the L1 or L2 cache, in Arithmetic<T> of the tensor's T, merged into f64.
//
// A block is `count` adjacent elements whose channels repeat with period C. To keep vector registers full for
// any C, sums are kept in `width` SIMD lanes, a multiple of C of at least 64: element i goes to lane i mod
// width, and lane j belongs to channel j mod C. A contiguous plane of one channel is the case C = 1.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "ops/common/normalization.hpp"

namespace banyan::ops {

struct Lanes {
  std::int64_t channels, width;
  explicit Lanes(std::int64_t channels_of_block)
      : channels(channels_of_block),
        width(channels >= 64 ? channels : (64 + channels - 1) / channels * channels) {}
  /// Elements per block: 64 KiB of floats, or 16 rows if a row is longer.
  std::int64_t block() const { return std::max<std::int64_t>(16384 / width, 16) * width; }
};

/// Cache lines: a vector that is in two of them takes twice as long to load, and longer after it was stored.
template <class T>
struct OnCacheLines {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  OnCacheLines() = default;
  template <class Other>
  OnCacheLines(const OnCacheLines<Other>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* place, std::size_t) { ::operator delete(place, kLine); }
  bool operator==(const OnCacheLines&) const { return true; }
};
template <class T>
using Row = std::vector<T, OnCacheLines<T>>;

/// Calls body(offset, lanes used) for each run of `width` elements; the last may be shorter.
template <class Body>
void for_each_run(const Lanes& lanes, std::int64_t count, const Body& body) {
  std::int64_t i = 0;
  for (; i + lanes.width <= count; i += lanes.width) body(i, lanes.width);
  if (i < count) body(i, count - i);
}

/// Adds up the lanes of each channel into the first C of them.
template <class T>
void fold(const Lanes& lanes, T* sums) {
  for (std::int64_t j = lanes.channels; j < lanes.width; j += lanes.channels)
    for (std::int64_t c = 0; c < lanes.channels; ++c) sums[c] += sums[j + c];
}

template <class T>
void repeat(const Lanes& lanes, T* values) {
  for (std::int64_t j = lanes.channels; j < lanes.width; ++j) values[j] = values[j - lanes.channels];
}

/// Count, mean and M2 of C channels. All channels have the same count.
struct ChannelMoments {
  double count = 0;
  Row<double> mean, m2;
  explicit ChannelMoments(std::int64_t channels) : mean(channels), m2(channels) {}

  /// Adds `n` more samples per channel by Chan's formula.
  void merge(double n, const double* other_mean, const double* other_m2) {
    if (n == 0) return;
    const double share = n / (count + n), both = count * share;
    const auto channels = static_cast<std::int64_t>(mean.size());
    double *to_mean = mean.data(), *to_m2 = m2.data();
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) {
      const double delta = other_mean[c] - to_mean[c];
      to_mean[c] += delta * share;
      to_m2[c] += other_m2[c] + delta * delta * both;
    }
    count += n;
  }
};

/// Two sweeps over a block: the sums, then the deviations from their means, corrected for the rounding of the
/// mean.
template <class T>
class BlockMoments {
  using A = Arithmetic<T>;

 public:
  explicit BlockMoments(const Lanes& lanes)
      : lanes_(lanes), mean_(size()), sum_(size()), squares_(size()), exact_mean_(size()), m2_(size()) {}

  void add(const T* x, std::int64_t count, ChannelMoments& into) {
    if (lanes_.channels == 1) return add_plane(x, count, into);
    const A n = static_cast<A>(count / lanes_.channels);
    A *mean = mean_.data(), *sum = sum_.data(), *squares = squares_.data();
    std::fill(mean_.begin(), mean_.end(), A(0));
    add_up(x, count, mean);
    fold(lanes_, mean);
    for (std::int64_t c = 0; c < lanes_.channels; ++c) mean[c] /= n;
    repeat(lanes_, mean);
    std::fill(sum_.begin(), sum_.end(), A(0));
    std::fill(squares_.begin(), squares_.end(), A(0));
    add_deviations(x, count, mean, sum, squares);
    fold(lanes_, sum);
    fold(lanes_, squares);
    for (std::int64_t c = 0; c < lanes_.channels; ++c) {
      exact_mean_[c] = static_cast<double>(mean[c]) + static_cast<double>(sum[c]) / static_cast<double>(n);
      const A m2 = squares[c] - sum[c] * (sum[c] / n);
      m2_[c] = static_cast<double>(m2 < A(0) ? A(0) : m2);
    }
    into.merge(static_cast<double>(n), exact_mean_.data(), m2_.data());
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(lanes_.width); }
  /// One channel: lanes in registers.
  void add_plane(const T* x, std::int64_t count, ChannelMoments& into) {
    const A n = static_cast<A>(count);
    A mean = 0, sum = 0, squares = 0;
#pragma omp simd reduction(+ : mean)
    for (std::int64_t i = 0; i < count; ++i) mean += x[i];
    mean /= n;
#pragma omp simd reduction(+ : sum, squares)
    for (std::int64_t i = 0; i < count; ++i) {
      const A deviation = x[i] - mean;
      sum += deviation;
      squares += deviation * deviation;
    }
    exact_mean_[0] = static_cast<double>(mean) + static_cast<double>(sum) / static_cast<double>(n);
    const double m2 = static_cast<double>(squares - sum * (sum / n));
    m2_[0] = m2 < 0 ? 0.0 : m2;
    into.merge(static_cast<double>(n), exact_mean_.data(), m2_.data());
  }
  void add_up(const T* x, std::int64_t count, A* sums) const {
    const std::int64_t w = lanes_.width;
    std::int64_t i = 0;
    for (; i + 4 * w <= count; i += 4 * w) {
      const T* at = x + i;
#pragma omp simd
      for (std::int64_t j = 0; j < w; ++j) sums[j] += (at[j] + at[w + j]) + (at[2 * w + j] + at[3 * w + j]);
    }
    for_each_run(lanes_, count - i, [&](std::int64_t k, std::int64_t used) {
#pragma omp simd
      for (std::int64_t j = 0; j < used; ++j) sums[j] += x[i + k + j];
    });
  }

  /// Four runs at a time: the lanes are read and written once for all four.
  void add_deviations(const T* x, std::int64_t count, const A* mean, A* sum, A* squares) const {
    const std::int64_t w = lanes_.width;
    std::int64_t i = 0;
    for (; i + 4 * w <= count; i += 4 * w) {
      const T* at = x + i;
#pragma omp simd
      for (std::int64_t j = 0; j < w; ++j) {
        const A a = at[j] - mean[j], b = at[w + j] - mean[j];
        const A c = at[2 * w + j] - mean[j], d = at[3 * w + j] - mean[j];
        sum[j] += (a + b) + (c + d);
        squares[j] += (a * a + b * b) + (c * c + d * d);
      }
    }
    for_each_run(lanes_, count - i, [&](std::int64_t k, std::int64_t used) {
#pragma omp simd
      for (std::int64_t j = 0; j < used; ++j) {
        const A deviation = x[i + k + j] - mean[j];
        sum[j] += deviation;
        squares[j] += deviation * deviation;
      }
    });
  }

  Lanes lanes_;
  Row<A> mean_, sum_, squares_;
  Row<double> exact_mean_, m2_;
};

/// Adds the sums of g and of g (x - mean) for one channel; mean = high + low. Not inlined: the order of
/// additions, which the compiler chooses, is the same for every activation.
template <class T>
[[gnu::noinline]] void add_plane_sums(const T* x, const Arithmetic<T>* g, std::int64_t count,
                                      Arithmetic<T> high, Arithmetic<T> low, double* g_sum,
                                      double* product_sum) {
  Arithmetic<T> sum = 0, products = 0;
#pragma omp simd reduction(+ : sum, products)
  for (std::int64_t i = 0; i < count; ++i) {
    sum += g[i];
    products += g[i] * ((x[i] - high) - low);
  }
  *g_sum += static_cast<double>(sum);
  *product_sum += static_cast<double>(products);
}

/// Sums of dy and of dy (x - mean) over a block; mean = high + low. dy is the gradient of the activation's
/// output (`end`, see with_activation).
template <class T, class End>
class BlockSums {
  using A = Arithmetic<T>;

 public:
  BlockSums(const Lanes& lanes, const End& end)
      : lanes_(lanes),
        end_(end),
        high_(size()),
        low_(size()),
        scale_(size()),
        bias_(size()),
        dy_(size()),
        product_(size()),
        of_plane_(lanes.channels == 1 ? lanes.block() : 0) {}

  /// terms(c): detail::ForwardTerms of channel c of the block.
  template <class Terms>
  void set_terms(const Terms& terms) {
    for (std::int64_t c = 0; c < lanes_.channels; ++c) {
      const detail::ForwardTerms<A> t = terms(c);
      high_[c] = t.high, low_[c] = t.low, scale_[c] = t.scale, bias_[c] = t.bias;
    }
    for (Row<A>* row : {&high_, &low_, &scale_, &bias_}) repeat(lanes_, row->data());
  }
  /// y: the activation's output, where its gradient is taken from there.
  void add(const T* x, const T* gradient, const T* y, std::int64_t count, double* dy_sums,
           double* product_sums) {
    if (lanes_.channels == 1) return add_plane(x, gradient, y, count, dy_sums, product_sums);
    A *dy = dy_.data(), *product = product_.data();
    const A *high = high_.data(), *low = low_.data(), *scale = scale_.data(), *bias = bias_.data();
    std::fill(dy_.begin(), dy_.end(), A(0));
    std::fill(product_.begin(), product_.end(), A(0));
    const End end = end_;  // a copy that no store can alias stays in a register
    const auto deviation = [=](std::int64_t i, std::int64_t j) { return (x[i + j] - high[j]) - low[j]; };
    const auto before = [=](A deviated, std::int64_t i, std::int64_t j) -> A {
      if constexpr (End::by_output)
        return end.gradient_by_output(y[i + j], gradient[i + j]);
      else
        return end.gradient(deviated * scale[j] + bias[j], gradient[i + j]);
    };
    // Four runs at a time, as in BlockMoments.
    const std::int64_t w = lanes_.width;
    std::int64_t i = 0;
    for (; i + 4 * w <= count; i += 4 * w) {
#pragma omp simd
      for (std::int64_t j = 0; j < w; ++j) {
        const A a = deviation(i, j), b = deviation(i + w, j);
        const A c = deviation(i + 2 * w, j), d = deviation(i + 3 * w, j);
        const A of_a = before(a, i, j), of_b = before(b, i + w, j);
        const A of_c = before(c, i + 2 * w, j), of_d = before(d, i + 3 * w, j);
        dy[j] += (of_a + of_b) + (of_c + of_d);
        product[j] += (of_a * a + of_b * b) + (of_c * c + of_d * d);
      }
    }
    for_each_run(lanes_, count - i, [=](std::int64_t k, std::int64_t used) {
#pragma omp simd
      for (std::int64_t j = 0; j < used; ++j) {
        const A a = deviation(i + k, j), of_a = before(a, i + k, j);
        dy[j] += of_a;
        product[j] += of_a * a;
      }
    });
    for (std::int64_t j = 0, c = 0; j < lanes_.width; ++j) {
      dy_sums[c] += static_cast<double>(dy[j]);
      product_sums[c] += static_cast<double>(product[j]);
      c = c + 1 == lanes_.channels ? 0 : c + 1;
    }
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(lanes_.width); }
  void add_plane(const T* x, const T* gradient, const T* y, std::int64_t count, double* dy_sum,
                 double* product_sum) {
    const A high = high_[0], low = low_[0];
    if constexpr (std::is_same_v<End, NoEnd<T>> && std::is_same_v<T, A>) {
      add_plane_sums(x, gradient, count, high, low, dy_sum, product_sum);
    } else {
      const A scale = scale_[0], bias = bias_[0];
      const End end = end_;
      A* g = of_plane_.data();
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) {
        if constexpr (End::by_output)
          g[i] = end.gradient_by_output(y[i], gradient[i]);
        else
          g[i] = end.gradient(((x[i] - high) - low) * scale + bias, gradient[i]);
      }
      add_plane_sums(x, g, count, high, low, dy_sum, product_sum);
    }
  }
  Lanes lanes_;
  End end_;
  Row<A> high_, low_, scale_, bias_, dy_, product_;
  Row<A> of_plane_;  ///< gradients of the activation's input for a block of one channel
};

}  // namespace banyan::ops
