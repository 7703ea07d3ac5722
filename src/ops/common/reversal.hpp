// The factor of reversed gradients for every back end (see backend.hpp).
#pragma once

#include <cmath>

#include "banyan/ops/reversal.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"

namespace banyan::ops {
namespace detail {

template <class T>
struct ReversalFactor {
  ReversalSchedule schedule;
  const std::uint64_t* draw;
  T* factor;
  BANYAN_HOST_DEVICE void operator()(std::int64_t) const {
    const auto iteration = static_cast<double>(*draw / static_cast<std::uint64_t>(schedule.passes));
    const double progress = iteration < schedule.iterations ? iteration / schedule.iterations : 1;
    const double grown = 2 / (1 + std::exp(-schedule.alpha * progress)) - 1;
    factor[0] = static_cast<T>(-(schedule.lower + (schedule.upper - schedule.lower) * grown));
  }
};

}  // namespace detail

template <class Backend>
void reversal_factor_on(Context& context, const ReversalSchedule& schedule, const std::uint64_t* draw,
                        Tensor& factor) {
  require_count("reversal_factor", factor, 1);
  dispatch_float(factor.dtype(), "reversal_factor", [&]<class T>() {
    Backend::for_each(context, 1, detail::ReversalFactor<T>{schedule, draw, factor.data<T>()});
  });
}

template <class Backend>
struct DefineReversal {
  DefineReversal() { reversal_factor.define(Backend::kind, &reversal_factor_on<Backend>); }
};

}  // namespace banyan::ops
