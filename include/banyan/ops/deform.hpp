// What the windows of a convolution see when each of their points is moved (deformable convolution).
#pragma once

#include "banyan/ops/convolution.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// The windows of a convolution with two spatial axes; `groups` of channels that are moved together. The
/// geometry's group and channels are not used. All tensors are contiguous: x (N, C, H, W), offsets (N, 2 *
/// groups * kernel, h, w), down and to the right in pixels for each point of the window, columns (N, C *
/// kernel, h, w).
struct Deformation {
  ConvolutionGeometry geometry;
  std::int64_t groups = 1;
};

/// Channel (c, k) of the columns is the bilinear value of x where point k of the window has been moved to. It
/// is 0 above row 0, from row H on, and likewise for columns; between row H - 1 and H it is that of row H
/// - 1.
inline constinit Operator<void(const Deformation& how, const Tensor& x, const Tensor& offsets,
                               Tensor& columns)>
    deform_forward{"deform_forward"};
/// Overwrites dx; every pixel gets its terms in the order of the columns. rows (N, groups * kernel, h, 2,
/// i32) is scratch.
inline constinit Operator<void(const Deformation& how, const Tensor& dcolumns, const Tensor& offsets,
                               Tensor& rows, Tensor& dx)>
    deform_backward{"deform_backward"};
/// Overwrites doffsets. Where a coordinate is whole, the slope is that towards the next pixel.
inline constinit Operator<void(const Deformation& how, const Tensor& x, const Tensor& offsets,
                               const Tensor& dcolumns, Tensor& doffsets)>
    deform_offsets_backward{"deform_offsets_backward"};

}  // namespace banyan::ops
