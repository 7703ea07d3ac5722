// Sampling of maps along a flow (Warp of PWC-Net, FlowWarp of FlowNet2, FlowTransformer of Hidden
// Two-Stream) or at places (Warp of LiteFlowNet, Remap of appearance flow). All tensors have one layout: x, y
// (N, C, H, W), flow (N, 2, H, W), to the right and down in pixels. Places, and y with them, may have another
// height and width than x.
#pragma once

#include <cstdint>

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// What x is beyond the centres of its outermost pixels.
enum class WarpBorder : std::uint8_t {
  none,   ///< nothing: y is 0 there
  fades,  ///< pixels of 0 are all around it, so values fade within a pixel
};

/// What the numbers of a flow say.
struct WarpRules {
  WarpBorder border;
  bool coordinates;  ///< places in x, not shifts: (row, column) is 0 in what follows

  WarpRules(WarpBorder border, bool coordinates = false) : border(border), coordinates(coordinates) {}
};

/// flow (N, 2, H, W): the column and the row of each pixel.
inline constinit Operator<void(Tensor& flow)> warp_grid{"warp_grid"};

/// Pixel (row, column) of y is the bilinear value of x at (row + down, column + right), 0 if that is outside
/// or no number.
inline constinit Operator<void(const Tensor& x, const Tensor& flow, const WarpRules& rules, Tensor& y)>
    warp_forward{"warp_forward"};
/// Overwrites dx; every pixel gets its terms in the order of y's pixels. rows (N, H of y, 2, i32) is
/// scratch.
inline constinit Operator<void(const Tensor& dy, const Tensor& flow, const WarpRules& rules, Tensor& rows,
                               Tensor& dx)>
    warp_backward{"warp_backward"};
/// Overwrites dflow. Where a coordinate is whole, the slope is the mean of those to both sides; that to a
/// pixel that is not there is 0 without a border, and at a pixel beyond the outermost ones all are 0.
inline constinit Operator<void(const Tensor& x, const Tensor& flow, const WarpRules& rules, const Tensor& dy,
                               Tensor& dflow)>
    warp_flow_backward{"warp_flow_backward"};

}  // namespace banyan::ops
