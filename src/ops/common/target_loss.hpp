// Losses that compare each element with a target, for every back end (see backend.hpp).
#pragma once

#include "banyan/ops/target_loss.hpp"
#include "ops/common/activations.hpp"
#include "ops/common/labels.hpp"
#include "ops/common/optional_data.hpp"
#include "ops/common/sums.hpp"

namespace banyan::ops {
namespace detail {

// value(x, target, weight) and slope: the derivative in x.

template <class T>
struct SigmoidCrossEntropy {
  BANYAN_HOST_DEVICE T value(T x, T target, T) const {
    return (x > T(0) ? x : T(0)) - x * target + log_one_plus(exponential(-std::fabs(x)));
  }
  BANYAN_HOST_DEVICE T slope(T x, T target, T) const { return Sigmoid<T>{}(x)-target; }
};
template <class T>
struct AbsoluteDifference {
  BANYAN_HOST_DEVICE T value(T x, T target, T weight) const { return std::fabs(weight * (x - target)); }
  BANYAN_HOST_DEVICE T slope(T x, T target, T weight) const {
    const T d = weight * (x - target);
    return d > T(0) ? weight : d < T(0) ? -weight : T(0);
  }
};
template <class T>
struct SquaredDifference {
  BANYAN_HOST_DEVICE T value(T x, T target, T weight) const {
    const T d = weight * (x - target);
    return d * d / T(2);
  }
  BANYAN_HOST_DEVICE T slope(T x, T target, T weight) const { return weight * weight * (x - target); }
};
template <class T>
struct SmoothAbsoluteDifference {
  T square;  ///< of sigma
  BANYAN_HOST_DEVICE T value(T x, T target, T weight) const {
    const T d = std::fabs(weight * (x - target));
    return d < T(1) / square ? square * d * d / T(2) : d - T(1) / (T(2) * square);
  }
  BANYAN_HOST_DEVICE T slope(T x, T target, T weight) const {
    const T d = square * weight * (x - target);
    return weight * (d >= T(1) ? T(1) : d <= T(-1) ? T(-1) : d);
  }
};

/// kWeighted: at least one of the two weights is there.
template <class T, bool kWeighted>
struct TargetData {
  const T *x, *target, *inside, *outside;
  IgnoreLabel ignore;
  explicit TargetData(const Targets& what, const IgnoreLabel& ignored)
      : x(what.x.data<T>()),
        target(what.target.data<T>()),
        inside(detail::optional_data<T>(what.inside)),
        outside(detail::optional_data<T>(what.outside)),
        ignore(ignored) {}
  BANYAN_HOST_DEVICE bool counts(std::int64_t i) const {
    const bool is_label = target[i] == static_cast<T>(ignore.label);  // read in any case: no branch
    return !(ignore.enabled & is_label);
  }
  BANYAN_HOST_DEVICE T inside_of(std::int64_t i) const { return weight(inside, i); }
  BANYAN_HOST_DEVICE T outside_of(std::int64_t i) const { return weight(outside, i); }

 private:
  BANYAN_HOST_DEVICE static T weight(const T* weights, std::int64_t i) {
    if constexpr (kWeighted)
      return weights == nullptr ? T(1) : weights[i];
    else
      return T(1);
  }
};

/// What target_loss_forward and the others have in common: the data and the functor of the loss.
template <class T, class Loss, bool kWeighted>
struct TargetLossOf {
  using Value = T;
  TargetData<T, kWeighted> data;
  Loss loss;
  BANYAN_HOST_DEVICE T value(std::int64_t i) const {
    return data.outside_of(i) * loss.value(data.x[i], data.target[i], data.inside_of(i));
  }
  BANYAN_HOST_DEVICE T slope(std::int64_t i) const {
    return data.outside_of(i) * loss.slope(data.x[i], data.target[i], data.inside_of(i));
  }
};

// Of is a TargetLossOf.

template <class Of>
struct TargetLossSum : LossSum {
  Of of;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    const bool counts = of.data.counts(i);
    const auto value = static_cast<double>(of.value(i));
    s.loss += counts ? value : 0;
    s.counted += counts ? 1 : 0;
  }
};

template <class Of>
struct TargetLossOfPosition {
  Of of;
  Channels over;
  typename Of::Value* losses;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    double sum = 0;
    std::int64_t i = first_class(over, position);
    for (std::int64_t c = 0; c < over.channels; ++c, i += over.inner)
      if (of.data.counts(i)) sum += static_cast<double>(of.value(i));
    losses[position] = static_cast<typename Of::Value>(sum);
  }
};

template <class Of>
struct TargetLossGradient {
  using T = typename Of::Value;
  Of of;
  T sign;
  const T* grad_loss;
  const double* divisor;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const T scale = sign * loss_scale(grad_loss, divisor), slope = of.slope(i);
    dx[i] = of.data.counts(i) ? slope * scale : T(0);
  }
};

/// log(cosh(t)) is |t| - log(2) + log(1 + e^(-2|t|)), which no t is too large for.
template <class T>
struct QuantizationLossSum : LossSumOverAll {
  const T* x;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    const double t = std::fabs(std::fabs(static_cast<double>(x[i])) - 1);
    s.sum += t - 0.69314718055994530942 + log_one_plus(exponential(-2 * t));
  }
};

template <class T>
struct QuantizationLossGradient {
  const T *x, *grad_loss;
  const double* divisor;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const T slope = hyperbolic_tangent(std::fabs(x[i]) - T(1));
    dx[i] = (x[i] < T(0) ? -slope : slope) * loss_scale(grad_loss, divisor);
  }
};

/// body(the TargetLossOf).
template <class T, class Body>
void with_loss(const Targets& what, const TargetLoss& loss, const Body& body) {
  const auto run = [&](auto functor) {
    using Loss = decltype(functor);
    if (what.inside.defined() || what.outside.defined())
      body(TargetLossOf<T, Loss, true>{TargetData<T, true>(what, loss.ignore), functor});
    else
      body(TargetLossOf<T, Loss, false>{TargetData<T, false>(what, loss.ignore), functor});
  };
  switch (loss.kind) {
    case TargetLoss::Kind::sigmoid_cross_entropy:
      return run(SigmoidCrossEntropy<T>{});
    case TargetLoss::Kind::absolute:
      return run(AbsoluteDifference<T>{});
    case TargetLoss::Kind::squared:
      return run(SquaredDifference<T>{});
    case TargetLoss::Kind::smooth_absolute:
      return run(SmoothAbsoluteDifference<T>{static_cast<T>(loss.sigma * loss.sigma)});
  }
}

inline void require_targets(const char* op, const Targets& what) {
  require_alike(op, what.x, what.target);
  for (const Tensor* weights : {&what.inside, &what.outside})
    if (weights->defined()) require_alike(op, what.x, *weights);
}

}  // namespace detail

template <class Backend>
void target_loss_forward_on(Context& context, const Targets& what, const TargetLoss& loss, Tensor& partial) {
  detail::require_targets("target_loss_forward", what);
  require_count("target_loss_forward, partial", partial, 2);
  dispatch_float(what.x.dtype(), "target_loss_forward", [&]<class T>() {
    detail::with_loss<T>(what, loss, [&](auto of) {
      Backend::reduce_all(context, what.x.count(),
                          detail::TargetLossSum<decltype(of)>{{partial.data<double>()}, of});
    });
  });
}

template <class Backend>
void target_losses_on(Context& context, const Targets& what, const TargetLoss& loss, const Channels& over,
                      Tensor& losses) {
  detail::require_targets("target_losses", what);
  detail::require_positions("target_losses", what.x, losses, over);
  dispatch_float(what.x.dtype(), "target_losses", [&]<class T>() {
    detail::with_loss<T>(what, loss, [&](auto of) {
      Backend::for_each(context, losses.count(),
                        detail::TargetLossOfPosition<decltype(of)>{of, over, losses.data<T>()});
    });
  });
}

template <class Backend>
void target_loss_backward_on(Context& context, const Targets& what, const TargetLoss& loss, double sign,
                             const Tensor& grad_loss, const Tensor& divisor, Tensor& dx) {
  detail::require_targets("target_loss_backward", what);
  require_alike("target_loss_backward", what.x, dx);
  dispatch_float(what.x.dtype(), "target_loss_backward", [&]<class T>() {
    detail::with_loss<T>(what, loss, [&](auto of) {
      Backend::for_each(
          context, dx.count(),
          detail::TargetLossGradient<decltype(of)>{of, static_cast<T>(sign), grad_loss.data<T>(),
                                                   divisor.data<double>(), dx.data<T>()});
    });
  });
}

template <class Backend>
void quantization_loss_forward_on(Context& context, const Tensor& x, Tensor& partial) {
  require_count("quantization_loss_forward, partial", partial, 2);
  dispatch_float(x.dtype(), "quantization_loss_forward", [&]<class T>() {
    Backend::reduce_all(context, x.count(),
                        detail::QuantizationLossSum<T>{
                            {static_cast<double>(x.count()), partial.data<double>()}, x.data<T>()});
  });
}

template <class Backend>
void quantization_loss_backward_on(Context& context, const Tensor& x, const Tensor& grad_loss,
                                   const Tensor& divisor, Tensor& dx) {
  require_alike("quantization_loss_backward", x, dx);
  dispatch_float(x.dtype(), "quantization_loss_backward", [&]<class T>() {
    Backend::for_each(context, dx.count(),
                      detail::QuantizationLossGradient<T>{x.data<T>(), grad_loss.data<T>(),
                                                          divisor.data<double>(), dx.data<T>()});
  });
}

template <class Backend>
struct DefineTargetLoss {
  DefineTargetLoss() {
    target_loss_forward.define(Backend::kind, &target_loss_forward_on<Backend>);
    target_losses.define(Backend::kind, &target_losses_on<Backend>);
    target_loss_backward.define(Backend::kind, &target_loss_backward_on<Backend>);
    quantization_loss_forward.define(Backend::kind, &quantization_loss_forward_on<Backend>);
    quantization_loss_backward.define(Backend::kind, &quantization_loss_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
