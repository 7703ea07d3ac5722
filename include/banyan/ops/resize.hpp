// Bilinear resizing of images with aligned corners: the corners of the output show those of the input.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// The part of each image that is resized.
struct ImagePart {
  std::int64_t top = 0, left = 0, height = 1, width = 1;
};

/// y (N, C, h, w) from x (N, C, H, W), in the same layout and type, bf16 allowed. Output d along
/// an axis shows the point d (length - 1) / (h - 1) of the part, 0 if h is 1.
inline constinit Operator<void(const ImagePart& part, const Tensor& x, Tensor& y)> resize_forward{
    "resize_forward"};
/// Overwrites dx. Gathers: a fixed order of additions.
inline constinit Operator<void(const ImagePart& part, const Tensor& dy, Tensor& dx)> resize_backward{
    "resize_backward"};

}  // namespace banyan::ops
