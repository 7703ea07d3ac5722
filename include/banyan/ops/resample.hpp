// Resizing of images as in FlowNet. x (N, C, H, W) and y (N, C, h, w) have one layout.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// Each pixel of y is the mean of x around its place, corners on corners, with weights that fall to 0 along
/// each axis at the distance of two pixels of y. Numbers that are none do not count; where they weigh more
/// than half of the others, the result is none. Lengths of 2 at least.
inline constinit Operator<void(const Tensor& x, Tensor& y)> downsample{"downsample"};

struct Resampling {
  enum class Kernel : std::uint8_t { nearest, linear, cubic };
  Kernel kernel = Kernel::linear;
  bool antialias = true;  ///< where y is smaller, a kernel as many times wider
};
/// With r = W / w and s = H / h, pixel (i, j) of y shows the point (i s + r / 2 - 1 / 2, j r + s / 2 - 1 /
/// 2).
inline constinit Operator<void(const Resampling& how, const Tensor& x, Tensor& y)> resample{"resample"};

}  // namespace banyan::ops
