// What a convolution's windows see, as channels (im2col), and its transpose; pixels put where a mask says.
#pragma once

#include "banyan/ops/convolution.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// At most so many spatial axes.
inline constexpr int kMostUnfolded = 6;

/// y (N, C * kernel..., output...) from x (N, C, spatial...), both contiguous; channel (c, k...) of y shows
/// the pixel that kernel element k of the window meets, 0 outside the image. The geometry's group and
/// channels are not used.
inline constinit Operator<void(const ConvolutionGeometry& geometry, const Tensor& x, Tensor& y)>
    unfold_forward{"unfold_forward"};
/// Overwrites dx. Gathers: a fixed order of additions.
inline constinit Operator<void(const ConvolutionGeometry& geometry, const Tensor& dy, Tensor& dx)>
    unfold_backward{"unfold_backward"};

/// y (N, C, H, W) = 0 but for pixel mask[i] (h * W + w, a float as Pooling writes it) of each plane, which is
/// x[i], the last one where several have the same; x and mask (N, C, h, w), all in one layout. Positions
/// outside the plane are passed over, see note_outside in ops/rows.hpp.
inline constinit Operator<void(const Tensor& x, const Tensor& mask, Tensor& y)> unpool_forward{
    "unpool_forward"};
/// dx = dy at the mask's pixels (0 where there is none), whether or not another x went there after it.
inline constinit Operator<void(const Tensor& dy, const Tensor& mask, Tensor& dx)> unpool_backward{
    "unpool_backward"};

}  // namespace banyan::ops
