// Batch normalization's functors, shared by all back ends.
//
// Memory is treated as outer x C x inner (channels-last: inner = 1). Statistics are f64. A mean is split into
// a part in x's precision and a remainder, so that (x - high) is exact near the mean and a large mean costs
// no digits:
//   xhat = ((x - high) - low) * inv_std
#pragma once

#include <cmath>
#include <type_traits>

#include "banyan/ops/normalization.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/elementwise.hpp"
#include "ops/common/optional_data.hpp"

namespace banyan::ops {

/// Memory of a tensor whose axis 1 is the channel.
inline Broadcast channel_broadcast(const Tensor& x) {
  const ChannelView view = channel_view(x);
  if (view.channels_last) return {view.batch * view.inner, view.channels, 1};
  return {view.batch, view.channels, view.inner};
}

namespace detail {

/// Channel of a memory index.
struct ChannelOf {
  std::int64_t dim, inner;
  BANYAN_HOST_DEVICE std::int64_t operator()(std::int64_t i) const { return i / inner % dim; }
};

/// A set of samples: count, mean and sum of squared deviations.
struct Moments {
  double count, mean, m2;
};
/// Chan, Golub, LeVeque: exact up to rounding, no cancellation; either set may be empty.
BANYAN_HOST_DEVICE inline Moments together(const Moments& a, const Moments& b) {
  const double count = a.count + b.count;
  if (b.count == 0) return a;
  if (a.count == 0) return b;
  const double delta = b.mean - a.mean, share = b.count / count;
  return {count, a.mean + delta * share, a.m2 + b.m2 + delta * delta * (a.count * share)};
}

/// Sums of deviations from the first sample seen: no division per element. At worst the error grows by a
/// factor of the number of samples, because the shift cannot be farther from the mean than their spread.
template <class T>
struct MomentsReduction {
  struct State {
    double count, shift, sum, squares;
  };
  const T* x;
  double* moments;
  std::int64_t channels;
  BANYAN_HOST_DEVICE State identity() const { return {0, 0, 0, 0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t index, std::int64_t) const {
    const double value = static_cast<double>(x[index]);
    s.shift = s.count == 0 ? value : s.shift;
    const double deviation = value - s.shift;
    s.count += 1;
    s.sum += deviation;
    s.squares += deviation * deviation;
  }
  BANYAN_HOST_DEVICE static Moments moments_of(const State& s) {
    if (s.count == 0) return {0, 0, 0};
    const double mean = s.sum == 0 ? 0 : s.sum / s.count;  // 0 where states were merged: a division less
    const double m2 = s.squares - s.sum * mean;
    return {s.count, s.shift + mean, m2 > 0 ? m2 : (m2 == m2 ? 0.0 : m2)};  // NaN stays NaN
  }
  BANYAN_HOST_DEVICE void merge(State& a, const State& b) const {
    const Moments all = together(moments_of(a), moments_of(b));
    a = {all.count, all.mean, 0, all.m2};
  }
  BANYAN_HOST_DEVICE void store(std::int64_t d, const State& s) const {
    const Moments all = moments_of(s);
    if (d == 0) moments[0] = all.count;
    moments[1 + d] = all.mean;
    moments[1 + channels + d] = all.m2;
  }
};

/// Merges mean and M2 into `into`, whose count is still the old one.
struct MergeMoments {
  const double* other;
  double* into;
  std::int64_t channels;
  BANYAN_HOST_DEVICE void operator()(std::int64_t c) const {
    const Moments all = together({into[0], into[1 + c], into[1 + channels + c]},
                                 {other[0], other[1 + c], other[1 + channels + c]});
    into[1 + c] = all.mean;
    into[1 + channels + c] = all.m2;
  }
};
struct MergeCount {
  const double* other;
  double* into;
  BANYAN_HOST_DEVICE void operator()(std::int64_t) const { into[0] += other[0]; }
};

BANYAN_HOST_DEVICE inline double variance_of(double count, double m2, bool unbiased) {
  if (count == 0) return 0;
  return m2 / (unbiased && count > 1 ? count - 1 : count);
}

struct FinishMoments {
  const double* moments;
  double* mean_inv_std;
  std::int64_t channels;
  double eps;
  bool unbiased;
  BANYAN_HOST_DEVICE void operator()(std::int64_t c) const {
    const double variance = variance_of(moments[0], moments[1 + channels + c], unbiased);
    mean_inv_std[c] = moments[1 + c];
    mean_inv_std[channels + c] = 1 / std::sqrt(variance + eps);
  }
};

template <class T>
struct UpdateRunning {
  const double* moments;
  T *mean, *variance;
  std::int64_t channels;
  double keep, add;
  bool unbiased;
  BANYAN_HOST_DEVICE void operator()(std::int64_t c) const {
    if (moments[0] == 0) return;
    const double batch_variance = variance_of(moments[0], moments[1 + channels + c], unbiased);
    mean[c] = static_cast<T>(keep * static_cast<double>(mean[c]) + add * moments[1 + c]);
    variance[c] = static_cast<T>(keep * static_cast<double>(variance[c]) + add * batch_variance);
  }
};

template <class T>
struct StoredStatistics {
  const T *mean, *variance, *factor;
  double* mean_inv_std;
  std::int64_t channels;
  double eps;
  BANYAN_HOST_DEVICE void operator()(std::int64_t c) const {
    const double divisor = factor == nullptr ? 1.0 : static_cast<double>(factor[0]);
    const double scale = divisor == 0 ? 0.0 : 1 / divisor;
    mean_inv_std[c] = static_cast<double>(mean[c]) * scale;
    mean_inv_std[channels + c] = 1 / std::sqrt(static_cast<double>(variance[c]) * scale + eps);
  }
};

/// y = ((x - high) - low) * scale + bias for one channel, before the activation.
template <class T>
struct ForwardTerms {
  T high, low, scale, bias;
  BANYAN_HOST_DEVICE T apply(T x) const { return ((x - high) - low) * scale + bias; }
};
/// `end`: the activation (see with_activation).
template <class T, class End>
struct NormalizeForward {
  using A = Arithmetic<T>;
  const T* x;
  const A *slope, *bias;
  const double* mean_inv_std;
  T* y;
  ChannelOf channel;
  End end;
  const T* addend = nullptr;  ///< forward only
  const T* output = nullptr;  ///< backward only: Affine::output
  BANYAN_HOST_DEVICE ForwardTerms<A> terms(std::int64_t c) const {
    const double mean = mean_inv_std[c], inv_std = mean_inv_std[channel.dim + c];
    const A high = static_cast<A>(mean);
    return {high, static_cast<A>(mean - static_cast<double>(high)),
            static_cast<A>(slope == nullptr ? inv_std : inv_std * static_cast<double>(slope[c])),
            bias == nullptr ? A(0) : bias[c]};
  }
  /// y[i], given the terms of i's channel.
  BANYAN_HOST_DEVICE T apply(const ForwardTerms<A>& terms, std::int64_t i) const {
    const A value = terms.apply(x[i]);
    return static_cast<T>(end(addend == nullptr ? value : stored<T>(value) + addend[i]));
  }
  /// The gradient of the activation's input for dy[i], given the terms of i's channel.
  BANYAN_HOST_DEVICE A gradient(const ForwardTerms<A>& terms, std::int64_t i, A dy) const {
    return end.gradient(terms.apply(x[i]), dy);
  }
};

template <class T, class End>
struct BackwardSums {
  using Element = T;
  static constexpr int kReads = 2;
  struct State {
    double dy, dy_xhat;
  };
  NormalizeForward<T, End> forward;  ///< its y is not used
  const T* dy;
  double* sums;
  std::int64_t channels;
  BANYAN_HOST_DEVICE State identity() const { return {0, 0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t index, std::int64_t d) const {
    Arithmetic<T> local = dy[index];
    if constexpr (!std::is_same_v<End, NoEnd<T>>) local = forward.gradient(forward.terms(d), index, local);
    const double gradient = static_cast<double>(local);
    s.dy += gradient;
    s.dy_xhat += gradient * (static_cast<double>(forward.x[index]) - forward.mean_inv_std[d]);
  }
  template <class Visit>
  BANYAN_HOST_DEVICE void each_read(const Visit& visit) {
    visit(forward.x);
    visit(dy);
  }
  BANYAN_HOST_DEVICE void merge(State& a, const State& b) const {
    a.dy += b.dy;
    a.dy_xhat += b.dy_xhat;
  }
  BANYAN_HOST_DEVICE void store(std::int64_t d, const State& s) const {
    sums[d] = s.dy;
    sums[channels + d] = s.dy_xhat * forward.mean_inv_std[channels + d];
  }
};

/// dx = scale * ((dy - mean_dy) - ((x - high) - low) * slant) for one channel.
template <class T>
struct BackwardTerms {
  T high, low, scale, mean_dy, slant;
  BANYAN_HOST_DEVICE T apply(T x, T dy) const {
    return scale * ((dy - mean_dy) - ((x - high) - low) * slant);
  }
};
template <class T, class End>
struct NormalizeBackward {
  using A = Arithmetic<T>;
  NormalizeForward<T, End> forward;  ///< its y is not used
  const T* dy;
  const double *sums, *moments;  ///< null sums: statistics were constants
  T* dx;
  BANYAN_HOST_DEVICE BackwardTerms<A> terms(std::int64_t c) const {
    const ForwardTerms<A> t = forward.terms(c);
    if (sums == nullptr) return {t.high, t.low, t.scale, A(0), A(0)};
    const double inv_std = forward.mean_inv_std[forward.channel.dim + c];
    return {t.high, t.low, t.scale, static_cast<A>(sums[c] / moments[0]),
            static_cast<A>(sums[forward.channel.dim + c] * inv_std / moments[0])};
  }
  /// dx[i], given the terms of i's channel.
  BANYAN_HOST_DEVICE T apply(const ForwardTerms<A>& before, const BackwardTerms<A>& t, std::int64_t i) const {
    const A gradient = forward.gradient(before, i, dy[i]);
    return static_cast<T>(sums == nullptr ? t.scale * gradient : t.apply(forward.x[i], gradient));
  }
};

template <class T>
struct AddAffineGradients {
  const double* sums;
  T *grad_slope, *grad_bias;
  std::int64_t channels;
  BANYAN_HOST_DEVICE void operator()(std::int64_t c) const {
    if (grad_slope != nullptr)
      grad_slope[c] = static_cast<T>(static_cast<double>(grad_slope[c]) + sums[channels + c]);
    if (grad_bias != nullptr) grad_bias[c] = static_cast<T>(static_cast<double>(grad_bias[c]) + sums[c]);
  }
};

/// body(NormalizeForward) with the activation of `affine`.
template <class T, class Body>
void with_forward_functor(const Tensor& x, const Tensor& mean_inv_std, const Affine& affine, T* y,
                          const Body& body) {
  using A = Arithmetic<T>;
  const Broadcast over = channel_broadcast(x);
  with_activation<T>(affine.activation, [&](auto end) {
    body(NormalizeForward<T, decltype(end)>{x.data<T>(),
                                            optional_data<A>(affine.slope),
                                            optional_data<A>(affine.bias),
                                            mean_inv_std.data<double>(),
                                            y,
                                            {over.dim, over.inner},
                                            end,
                                            nullptr,
                                            optional_data<T>(affine.output)});
  });
}
/// body(NormalizeBackward) likewise.
template <class T, class Body>
void with_backward_functor(const Tensor& x, const Tensor& dy, const Tensor& mean_inv_std,
                           const Affine& affine, const Tensor& sums, const Tensor& moments, Tensor& dx,
                           const Body& body) {
  with_forward_functor<T>(x, mean_inv_std, affine, nullptr, [&](const auto& forward) {
    using End = std::decay_t<decltype(forward.end)>;
    body(NormalizeBackward<T, End>{forward, dy.data<T>(), optional_data<double>(sums),
                                   optional_data<double>(moments), dx.data<T>()});
  });
}

}  // namespace detail

template <class Backend>
void batch_moments_on(Context& context, const Tensor& x, Tensor& moments) {
  dispatch_storage(x.dtype(), "batch_moments", [&]<class T>() {
    const Broadcast over = channel_broadcast(x);
    Backend::reduce_channels(context, over,
                             detail::MomentsReduction<T>{x.data<T>(), moments.data<double>(), over.dim});
  });
}

template <class Backend>
void merge_moments_on(Context& context, const Tensor& other, Tensor& into) {
  const std::int64_t channels = (into.count() - 1) / 2;
  const double* from = other.data<double>();
  Backend::for_each(context, channels, detail::MergeMoments{from, into.data<double>(), channels});
  // Last, because all channels need both counts.
  Backend::for_each(context, 1, detail::MergeCount{from, into.data<double>()});
}

template <class Backend>
void finish_moments_on(Context& context, const Tensor& moments, double eps, bool unbiased,
                       Tensor& mean_inv_std) {
  const std::int64_t channels = mean_inv_std.count() / 2;
  Backend::for_each(
      context, channels,
      detail::FinishMoments{moments.data<double>(), mean_inv_std.data<double>(), channels, eps, unbiased});
}

template <class Backend>
void update_running_on(Context& context, const Tensor& moments, double keep, double add, bool unbiased,
                       Tensor& running_mean, Tensor& running_variance) {
  dispatch_float(running_mean.dtype(), "update_running", [&]<class T>() {
    const std::int64_t channels = running_mean.count();
    Backend::for_each(context, channels,
                      detail::UpdateRunning<T>{moments.data<double>(), running_mean.data<T>(),
                                               running_variance.data<T>(), channels, keep, add, unbiased});
  });
}

template <class Backend>
void stored_statistics_on(Context& context, const Tensor& running_mean, const Tensor& running_variance,
                          const Tensor& factor, double eps, Tensor& mean_inv_std) {
  dispatch_float(running_mean.dtype(), "stored_statistics", [&]<class T>() {
    const std::int64_t channels = running_mean.count();
    Backend::for_each(context, channels,
                      detail::StoredStatistics<T>{running_mean.data<T>(), running_variance.data<T>(),
                                                  detail::optional_data<T>(factor),
                                                  mean_inv_std.data<double>(), channels, eps});
  });
}

template <class Backend>
void normalize_backward_sums_on(Context& context, const Tensor& x, const Tensor& dy,
                                const Tensor& mean_inv_std, const Affine& affine, Tensor& sums) {
  dispatch_storage(x.dtype(), "normalize_backward_sums", [&]<class T>() {
    const Broadcast over = channel_broadcast(x);
    detail::with_forward_functor<T>(x, mean_inv_std, affine, nullptr, [&](const auto& forward) {
      using End = std::decay_t<decltype(forward.end)>;
      Backend::reduce_channels(
          context, over, detail::BackwardSums<T, End>{forward, dy.data<T>(), sums.data<double>(), over.dim});
    });
  });
}

template <class Backend>
void add_affine_gradients_on(Context& context, const Tensor& sums, Tensor& grad_slope, Tensor& grad_bias) {
  if (!grad_slope.defined() && !grad_bias.defined()) return;
  const DType dtype = grad_slope.defined() ? grad_slope.dtype() : grad_bias.dtype();
  dispatch_float(dtype, "add_affine_gradients", [&]<class T>() {
    const std::int64_t channels = sums.count() / 2;
    Backend::for_each(context, channels,
                      detail::AddAffineGradients<T>{sums.data<double>(), detail::optional_data<T>(grad_slope),
                                                    detail::optional_data<T>(grad_bias), channels});
  });
}

}  // namespace banyan::ops
