// The solvers' update rules for every back end (see backend.hpp): one sweep over weight, gradient and
// history.
//
// With g the gradient after scaling and decay, and D the amount subtracted from the weight:
//   sgd       h = m h + r g                                    D = h (+ r decoupled w)
//   sag       h = m h + (1 - m) g                              D = r h (+ r decoupled w)
//   nesterov  h' = m h + r g                                   D = (1 + m) h' - m h
//   adagrad   h = h + g^2                                      D = r g / (sqrt(h) + delta)
//   rmsprop   h = q h + (1 - q) g^2                            D = r g / (sqrt(h) + delta)
//   adadelta  h = m h + (1 - m) g^2,
//             u = g sqrt((h2 + delta) / (h + delta)),
//             h2 = m h2 + (1 - m) u^2                          D = r u
//   adam      h = m h + (1 - m) g,
//             h2 = m2 h2 + (1 - m2) g^2,
//             c = sqrt(1 - m2^t) / (1 - m^t)                   D = r c h / (sqrt(h2) + delta)
//   adamw     g without decay (which is l2 w), h and h2 as adam,
//             D = r (h / (1 - m^t) / (sqrt(h2 / (1 - m2^t)) + delta) + l2 w)
//   lamb      D as adamw for r = 1, then follow_direction
#pragma once

#include <cmath>

#include "banyan/ops/update.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"

namespace banyan::ops {

template <class T, UpdateRule kRule>
struct Update {
  T gradient_scale, l2, l1, rate, momentum, momentum2, rms_decay, delta;
  T root, rest;      ///< adamw, lamb
  T decoupled_rate;  ///< sgd, sag
  const T* gradient;
  T *weight, *history, *history2, *direction;

  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const T w = weight[i];
    if constexpr (kRule == UpdateRule::adamw) {
      weight[i] = w - rate * decayed_direction(i, w);
      return;
    } else if constexpr (kRule == UpdateRule::lamb) {
      direction[i] = decayed_direction(i, w);
      return;
    }
    const T sign = w > T(0) ? T(1) : w < T(0) ? T(-1) : T(0);
    const T g = gradient_scale * gradient[i] + l2 * w + l1 * sign;
    if constexpr (kRule == UpdateRule::sgd || kRule == UpdateRule::sag)
      weight[i] = w - (amount(i, g) + decoupled_rate * w);
    else
      weight[i] = w - amount(i, g);
  }

 private:
  BANYAN_HOST_DEVICE T first_moment(std::int64_t i, T g) const {
    return history[i] = momentum * history[i] + (T(1) - momentum) * g;
  }
  BANYAN_HOST_DEVICE T second_moment(std::int64_t i, T g) const {
    return history2[i] = momentum2 * history2[i] + (T(1) - momentum2) * g * g;
  }
  BANYAN_HOST_DEVICE T decayed_direction(std::int64_t i, T w) const {
    const T g = gradient_scale * gradient[i];
    return first_moment(i, g) / rest / (std::sqrt(second_moment(i, g)) / root + delta) + l2 * w;
  }

  /// Updates the history and returns D.
  BANYAN_HOST_DEVICE T amount(std::int64_t i, T g) const {
    const T h = history[i];
    if constexpr (kRule == UpdateRule::sgd) {
      return history[i] = momentum * h + rate * g;
    } else if constexpr (kRule == UpdateRule::sag) {
      return rate * first_moment(i, g);
    } else if constexpr (kRule == UpdateRule::nesterov) {
      const T next = history[i] = momentum * h + rate * g;
      return (T(1) + momentum) * next - momentum * h;
    } else if constexpr (kRule == UpdateRule::adagrad) {
      const T next = history[i] = h + g * g;
      return rate * g / (std::sqrt(next) + delta);
    } else if constexpr (kRule == UpdateRule::rmsprop) {
      const T next = history[i] = rms_decay * h + (T(1) - rms_decay) * g * g;
      return rate * g / (std::sqrt(next) + delta);
    } else if constexpr (kRule == UpdateRule::adadelta) {
      const T next = history[i] = momentum * h + (T(1) - momentum) * g * g;
      const T u = g * std::sqrt((history2[i] + delta) / (next + delta));
      history2[i] = momentum * history2[i] + (T(1) - momentum) * u * u;
      return rate * u;
    } else {
      const T first = first_moment(i, g);
      return rate * first / (std::sqrt(second_moment(i, g)) + delta);
    }
  }
};

/// An Update with the values of the iteration in which it runs.
template <class T, UpdateRule kRule>
struct MakeUpdate {
  UpdateStep step;
  const UpdateValues* values;
  const T* gradient;
  T *weight, *history, *history2, *direction;
  BANYAN_HOST_DEVICE Update<T, kRule> operator()() const {
    double rate = step.layer_wise.squares == nullptr ? values->rate * step.lr_mult : layer_wise_rate();
    if constexpr (kRule == UpdateRule::adam) rate = rate * values->correction_root / values->correction_rest;
    return {static_cast<T>(values->gradient_scale),
            static_cast<T>(step.l2 * values->weight_decay),
            static_cast<T>(step.l1 * values->weight_decay),
            static_cast<T>(rate),
            static_cast<T>(values->momentum),
            static_cast<T>(values->momentum2),
            static_cast<T>(step.rms_decay),
            static_cast<T>(step.delta),
            static_cast<T>(values->correction_root),
            static_cast<T>(values->correction_rest),
            static_cast<T>(step.decoupled * values->weight_decay * rate),
            gradient,
            weight,
            history,
            history2,
            direction};
  }

 private:
  BANYAN_HOST_DEVICE double layer_wise_rate() const {
    const LayerWiseRate& by = step.layer_wise;
    const double w = std::sqrt(by.squares[0]);
    const double g = (by.by_history ? 1 : std::abs(values->gradient_scale)) * std::sqrt(by.squares[1]);
    double local = 1;
    if (w > 0 && g > 0) {
      local = by.eta * w / (g + by.decay * w);
      if (by.times_one_minus_momentum) local *= 1 - values->momentum;
    }
    if (by.cosine != nullptr)
      local = by.by_history ? local * (1 - 0.9 * *by.cosine) : local - 0.9 * *by.cosine;
    if (!by.clips) return values->rate * local;
    return values->rate < local ? values->rate : local;
  }
};

template <class Backend>
void update_tensors(Context& context, const UpdateStep& step, const UpdateValues* values, Tensor& weight,
                    const Tensor& gradient, Tensor& history, Tensor& history2, Tensor& direction) {
  constexpr const char* kName = "update_parameters";
  const std::int64_t count = weight.count();
  const bool two = step.rule == UpdateRule::adadelta || corrects_bias(step.rule);
  require_count(kName, gradient, count);
  require_count(kName, history, count);
  if (two) require_count(kName, history2, count);
  if (step.rule == UpdateRule::lamb) require_count(kName, direction, count);
  dispatch_float(weight.dtype(), kName, [&]<class T>() {
    const auto run = [&]<UpdateRule kRule>() {
      Backend::for_each_made(context, count,
                             MakeUpdate<T, kRule>{step, values, gradient.data<T>(), weight.data<T>(),
                                                  history.data<T>(), two ? history2.data<T>() : nullptr,
                                                  kRule == UpdateRule::lamb ? direction.data<T>() : nullptr});
    };
    switch (step.rule) {
      case UpdateRule::sgd:
        return run.template operator()<UpdateRule::sgd>();
      case UpdateRule::nesterov:
        return run.template operator()<UpdateRule::nesterov>();
      case UpdateRule::sag:
        return run.template operator()<UpdateRule::sag>();
      case UpdateRule::adagrad:
        return run.template operator()<UpdateRule::adagrad>();
      case UpdateRule::rmsprop:
        return run.template operator()<UpdateRule::rmsprop>();
      case UpdateRule::adadelta:
        return run.template operator()<UpdateRule::adadelta>();
      case UpdateRule::adam:
        return run.template operator()<UpdateRule::adam>();
      case UpdateRule::adamw:
        return run.template operator()<UpdateRule::adamw>();
      case UpdateRule::lamb:
        return run.template operator()<UpdateRule::lamb>();
    }
  });
}

template <class T>
struct Follow {
  T rate;
  const T* direction;
  T* weight;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { weight[i] -= rate * direction[i]; }
};

template <class T>
struct MakeFollow {
  double lr_mult;
  const UpdateValues* values;
  const double* squares;
  const T* direction;
  T* weight;
  BANYAN_HOST_DEVICE Follow<T> operator()() const {
    const double ratio = squares[0] > 0 && squares[1] > 0 ? std::sqrt(squares[0] / squares[1]) : 1;
    return {static_cast<T>(values->rate * lr_mult * ratio), direction, weight};
  }
};

template <class Backend>
void follow_on(Context& context, double lr_mult, const UpdateValues* values, const double* squares,
               const Tensor& direction, Tensor& weight) {
  constexpr const char* kName = "follow_direction";
  require_count(kName, direction, weight.count());
  dispatch_float(weight.dtype(), kName, [&]<class T>() {
    Backend::for_each_made(context, weight.count(),
                           MakeFollow<T>{lr_mult, values, squares, direction.data<T>(), weight.data<T>()});
  });
}

struct FollowCosine {
  const UpdateValues* values;
  const double* products;
  double* cosine;
  BANYAN_HOST_DEVICE void operator()(std::int64_t) const {
    const double g = products[0], h = products[1];
    const double now = g > 0 && h > 0 ? products[2] / (std::sqrt(g) * std::sqrt(h)) : 0;
    *cosine += values->cosine_share * (now - *cosine);
  }
};

template <class Backend>
void follow_cosine_on(Context& context, const UpdateValues* values, const Tensor& products, Tensor& cosine) {
  require_count("follow_cosine", products, 3);
  require_count("follow_cosine", cosine, 1);
  Backend::for_each(context, 1, FollowCosine{values, products.data<double>(), cosine.data<double>()});
}

/// Registers the above for a back end.
template <class Backend>
struct DefineUpdate {
  DefineUpdate() {
    update_parameters.define(Backend::kind, &update_tensors<Backend>);
    follow_direction.define(Backend::kind, &follow_on<Backend>);
    follow_cosine.define(Backend::kind, &follow_cosine_on<Backend>);
  }
};

}  // namespace banyan::ops
