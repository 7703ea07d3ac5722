// Losses over whole distributions, for every back end (see backend.hpp).
#pragma once

#include <cfloat>
#include <cmath>

#include "banyan/ops/distribution_loss.hpp"
#include "ops/common/labels.hpp"
#include "ops/common/sums.hpp"

namespace banyan::ops {
namespace detail {

/// Whether an entropy counts in this pass.
struct EntropyStart {
  Entropy entropy;
  const std::uint64_t* draw;
  BANYAN_HOST_DEVICE bool counts(double p) const {
    return p >= entropy.threshold && p > 0 &&
           (draw == nullptr || static_cast<std::int64_t>(*draw) / entropy.passes >= entropy.first);
  }
};

template <class T>
struct EntropySum : LossSumOverAll {
  EntropyStart start;
  const T* p;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    const auto value = static_cast<double>(p[i]);
    if (start.counts(value)) s.sum -= value * std::log(value);
  }
};

template <class T>
struct EntropyGradient {
  EntropyStart start;
  const T *p, *grad_loss;
  const double* divisor;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const auto value = static_cast<double>(p[i]);
    dx[i] =
        start.counts(value) ? static_cast<T>(-(1 + std::log(value))) * loss_scale(grad_loss, divisor) : T(0);
  }
};

template <class T>
struct DistributionLoss : LossSumOverAll {
  const T *p, *targets;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    const auto t = static_cast<double>(targets[i]), found = static_cast<double>(p[i]);
    constexpr double kLeast = FLT_MIN;
    if (t > 0) s.sum -= t * (std::log(found < kLeast ? kLeast : found) - std::log(t));
  }
};

template <class T>
struct DistributionGradient {
  Channels over;
  const T *p, *targets, *grad_loss;
  const double* divisor;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    const std::int64_t begin = first_class(over, position), end = begin + over.channels * over.inner;
    T sum = 0;
    for (std::int64_t i = begin; i < end; i += over.inner) sum += targets[i] > T(0) ? targets[i] : T(0);
    const T scale = loss_scale(grad_loss, divisor);
    for (std::int64_t i = begin; i < end; i += over.inner)
      dx[i] = (p[i] * sum - (targets[i] > T(0) ? targets[i] : T(0))) * scale;
  }
};

}  // namespace detail

template <class Backend>
void entropy_forward_on(Context& context, const Tensor& p, const Entropy& entropy, const std::uint64_t* draw,
                        Tensor& partial) {
  require_count("entropy_forward, partial", partial, 2);
  dispatch_float(p.dtype(), "entropy_forward", [&]<class T>() {
    Backend::reduce_all(
        context, p.count(),
        detail::EntropySum<T>{
            {static_cast<double>(p.count()), partial.data<double>()}, {entropy, draw}, p.data<T>()});
  });
}

template <class Backend>
void entropy_backward_on(Context& context, const Tensor& p, const Entropy& entropy, const std::uint64_t* draw,
                         const Tensor& grad_loss, const Tensor& divisor, Tensor& dx) {
  require_alike("entropy_backward", p, dx);
  dispatch_float(p.dtype(), "entropy_backward", [&]<class T>() {
    Backend::for_each(
        context, p.count(),
        detail::EntropyGradient<T>{
            {entropy, draw}, p.data<T>(), grad_loss.data<T>(), divisor.data<double>(), dx.data<T>()});
  });
}

template <class Backend>
void distribution_loss_forward_on(Context& context, const Tensor& p, const Tensor& targets,
                                  const Channels& over, Tensor& partial) {
  require_count("distribution_loss_forward, partial", partial, 2);
  require_alike("distribution_loss_forward", p, targets);
  dispatch_float(p.dtype(), "distribution_loss_forward", [&]<class T>() {
    Backend::reduce_all(
        context, p.count(),
        detail::DistributionLoss<T>{{static_cast<double>(over.outer * over.inner), partial.data<double>()},
                                    p.data<T>(),
                                    targets.data<T>()});
  });
}

template <class Backend>
void distribution_loss_backward_on(Context& context, const Tensor& p, const Tensor& targets,
                                   const Channels& over, const Tensor& grad_loss, const Tensor& divisor,
                                   Tensor& dx) {
  require_alike("distribution_loss_backward", p, targets);
  require_alike("distribution_loss_backward", p, dx);
  if (p.count() == 0) return;
  dispatch_float(p.dtype(), "distribution_loss_backward", [&]<class T>() {
    Backend::for_each_long(
        context, over.outer * over.inner, over.channels,
        detail::DistributionGradient<T>{over, p.data<T>(), targets.data<T>(), grad_loss.data<T>(),
                                        divisor.data<double>(), dx.data<T>()});
  });
}

template <class Backend>
struct DefineDistributionLoss {
  DefineDistributionLoss() {
    entropy_forward.define(Backend::kind, &entropy_forward_on<Backend>);
    entropy_backward.define(Backend::kind, &entropy_backward_on<Backend>);
    distribution_loss_forward.define(Backend::kind, &distribution_loss_forward_on<Backend>);
    distribution_loss_backward.define(Backend::kind, &distribution_loss_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
