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
/// outside the plane are passed over, see note_outside.
inline constinit Operator<void(const Tensor& x, const Tensor& mask, Tensor& y)> unpool_forward{
    "unpool_forward"};
/// dx = dy at the mask's pixels (0 where there is none), whether or not another x went there after it.
inline constinit Operator<void(const Tensor& dy, const Tensor& mask, Tensor& dx)> unpool_backward{
    "unpool_backward"};

/// noted (2, f64): the first of the values x[0], x[step], x[2 step] ... in memory order that is no integer in
/// [0, limit), as 1 + its number, and the value; written only where noted[0] is 0, so that the record of one
/// pass stays until it is read and cleared.
inline constinit Operator<void(const Tensor& x, std::int64_t step, std::int64_t limit, Tensor& noted)>
    note_outside{"note_outside"};

}  // namespace banyan::ops
