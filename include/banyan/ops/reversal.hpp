// The factor by which reversed gradients are multiplied (Ganin, Lempitsky 2015).
#pragma once

#include <cstdint>

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// -c in iteration i: c = lower + (upper - lower) (2 / (1 + exp(-alpha min(1, i / iterations))) - 1).
struct ReversalSchedule {
  double lower = 0, upper = 1, alpha = 10, iterations = 1;
  std::int64_t passes = 1;  ///< of one iteration
};
/// factor (1, f32 or f64) for pass `draw`, a number in device memory.
inline constinit Operator<void(const ReversalSchedule& schedule, const std::uint64_t* draw, Tensor& factor)>
    reversal_factor{"reversal_factor"};

}  // namespace banyan::ops
