// Sampling of maps along a flow (Warp of PWC-Net, FlowWarp of FlowNet2, FlowTransformer of Hidden
// Two-Stream). All tensors have one layout: x, y (N, C, H, W), flow (N, 2, H, W), to the right and down in
// pixels.
#pragma once

#include <cstdint>

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// What x is beyond the centres of its outermost pixels.
enum class WarpBorder : std::uint8_t {
  none,   ///< nothing: y is 0 there
  fades,  ///< pixels of 0 are all around it, so values fade within a pixel
};

/// Pixel (row, column) of y is the bilinear value of x at (row + down, column + right), 0 if that is outside
/// or no number.
inline constinit Operator<void(const Tensor& x, const Tensor& flow, WarpBorder border, Tensor& y)>
    warp_forward{"warp_forward"};
/// Overwrites dx; every pixel gets its terms in the order of y's pixels. rows (N, H, 2, i32) is scratch.
inline constinit Operator<void(const Tensor& dy, const Tensor& flow, WarpBorder border, Tensor& rows,
                               Tensor& dx)>
    warp_backward{"warp_backward"};
/// Overwrites dflow. Where a coordinate is whole, the slope is the mean of those to both sides; that to a
/// pixel that is not there is 0 without a border, and at a pixel beyond the outermost ones all are 0.
inline constinit Operator<void(const Tensor& x, const Tensor& flow, WarpBorder border, const Tensor& dy,
                               Tensor& dflow)>
    warp_flow_backward{"warp_flow_backward"};

}  // namespace banyan::ops
