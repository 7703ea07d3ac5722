// Masks of regions (MNC).
#pragma once

#include "banyan/ops/loss.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// y = x times the mask, which has one number for all channels of a position; x and y seen as `over`.
inline constinit Operator<void(const Tensor& x, const Tensor& mask, const Channels& over, Tensor& y)>
    multiply_by_mask{"multiply_by_mask"};
/// dmask[position] = the sum of x dy over the channels, in their order.
inline constinit Operator<void(const Tensor& x, const Tensor& dy, const Channels& over, Tensor& dmask)>
    mask_gradient{"mask_gradient"};

/// y (N, C, h, w) from x (N, C, H, W), in the same layout. Output d along an axis shows the point d H / h
/// between the pixels' centres, the last pixel beyond it, and 0 more than half a pixel beyond it.
inline constinit Operator<void(const Tensor& x, Tensor& y)> mask_resize_forward{"mask_resize_forward"};
/// Overwrites dx. Gathers: a fixed order of additions.
inline constinit Operator<void(const Tensor& dy, Tensor& dx)> mask_resize_backward{"mask_resize_backward"};

}  // namespace banyan::ops
