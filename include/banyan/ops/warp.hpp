// Sampling of maps along a flow (Warp of PWC-Net, FlowWarp of FlowNet2). All tensors have one layout: x, y
// (N, C, H, W), flow (N, 2, H, W), to the right and down in pixels.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// Pixel (row, column) of y is the bilinear value of x at (row + down, column + right), 0 if that is outside
/// of the pixels' centres or no number.
inline constinit Operator<void(const Tensor& x, const Tensor& flow, Tensor& y)> warp_forward{"warp_forward"};
/// Overwrites dx; every pixel gets its terms in the order of y's pixels. rows (N, H, 2, i32) is scratch.
inline constinit Operator<void(const Tensor& dy, const Tensor& flow, Tensor& rows, Tensor& dx)> warp_backward{
    "warp_backward"};
/// Overwrites dflow. Where a coordinate is whole, the slope is the mean of those to both sides; that to a
/// pixel that is not there is 0.
inline constinit Operator<void(const Tensor& x, const Tensor& flow, const Tensor& dy, Tensor& dflow)>
    warp_flow_backward{"warp_flow_backward"};

}  // namespace banyan::ops
