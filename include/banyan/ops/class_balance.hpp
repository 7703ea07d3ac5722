// Weights of few positive and many negative targets (Xie, Tu 2015: holistically-nested edge detection).
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// Of the targets of each of `samples` samples, p are 1, n are 0. weights: n / (n + p) where a target is 1,
/// factor * p / (n + p) where it is 0, and 0 elsewhere. counts (2 x samples, f64): room for p and n.
inline constinit Operator<void(const Tensor& targets, std::int64_t samples, double factor, Tensor& counts,
                               Tensor& weights)>
    class_balance_weights{"class_balance_weights"};

}  // namespace banyan::ops
