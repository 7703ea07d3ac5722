// The smaller ones of neighbouring pixels (Affinity of BVLC's opencl branch).
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// Of one channel of x (N, C, H, W), y (N, 2, H, W), both contiguous: the smaller one of each pixel and the
/// one below it, then of each and the one to its right. The last row and the last column of both are 0.
inline constinit Operator<void(const Tensor& x, std::int64_t channel, Tensor& y)> smaller_neighbours{
    "smaller_neighbours"};
/// Overwrites dx: each gradient goes to the smaller pixel, of equal ones to the one below or to the right.
inline constinit Operator<void(const Tensor& x, std::int64_t channel, const Tensor& dy, Tensor& dx)>
    smaller_neighbours_backward{"smaller_neighbours_backward"};

}  // namespace banyan::ops
