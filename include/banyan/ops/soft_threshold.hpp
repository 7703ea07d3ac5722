// Values that are drawn to 0 by thresholds. Input and output of one call have the same count, layout and
// type, output may be the input; on CPU devices they may be bf16, thresholds and their gradients are f32
// then.
#pragma once

#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// y = x - t above t = threshold[d], x + t below -t, else 0.
inline constinit Operator<void(const Tensor& x, const Tensor& threshold, const Broadcast& over, Tensor& y)>
    soft_threshold_forward{"soft_threshold_forward"};
/// dx = dy where y is not 0, else 0; dthreshold[d] += sum over outer and inner of -dy * sign(y). One that is
/// undefined is not wanted. dx may be dy.
inline constinit Operator<void(const Tensor& y, const Tensor& dy, const Broadcast& over, Tensor& dx,
                               Tensor& dthreshold)>
    soft_threshold_backward{"soft_threshold_backward"};

/// y = dy + factor * sign(x).
inline constinit Operator<void(const Tensor& x, const Tensor& dy, double factor, Tensor& y)> add_signs{
    "add_signs"};

}  // namespace banyan::ops
