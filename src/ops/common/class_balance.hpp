// Weights of few positive and many negative targets, for every back end (see backend.hpp).
#pragma once

#include "banyan/ops/class_balance.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"

namespace banyan::ops {
namespace detail {

// Over memory seen as 1 x samples x length; element i is in sample `sample`.

template <class T>
struct CountClasses {
  struct State {
    double positive, negative;
  };
  const T* targets;
  double* counts;
  BANYAN_HOST_DEVICE State identity() const { return {0, 0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    s.positive += targets[i] == T(1) ? 1 : 0;
    s.negative += targets[i] == T(0) ? 1 : 0;
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const {
    into.positive += later.positive;
    into.negative += later.negative;
  }
  BANYAN_HOST_DEVICE void store(std::int64_t sample, const State& s) const {
    counts[2 * sample] = s.positive;
    counts[2 * sample + 1] = s.negative;
  }
};

template <class T>
struct ClassBalanceWeights {
  const T* targets;
  const double* counts;
  double factor;
  T* weights;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t sample) const {
    const double positive = counts[2 * sample], negative = counts[2 * sample + 1];
    const double share = targets[i] == T(1) ? negative : targets[i] == T(0) ? factor * positive : 0;
    weights[i] = static_cast<T>(share == 0 ? 0 : share / (positive + negative));
  }
};

}  // namespace detail

template <class Backend>
void class_balance_weights_on(Context& context, const Tensor& targets, std::int64_t samples, double factor,
                              Tensor& counts, Tensor& weights) {
  require_alike("class_balance_weights", targets, weights);
  require_count("class_balance_weights, counts", counts, 2 * samples);
  if (targets.count() == 0) return;
  const Broadcast over{1, samples, targets.count() / samples};
  dispatch_float(targets.dtype(), "class_balance_weights", [&]<class T>() {
    Backend::reduce_channels(context, over,
                             detail::CountClasses<T>{targets.data<T>(), counts.data<double>()});
    Backend::for_each_channel(
        context, over,
        detail::ClassBalanceWeights<T>{targets.data<T>(), counts.data<double>(), factor, weights.data<T>()});
  });
}

template <class Backend>
struct DefineClassBalance {
  DefineClassBalance() { class_balance_weights.define(Backend::kind, &class_balance_weights_on<Backend>); }
};

}  // namespace banyan::ops
