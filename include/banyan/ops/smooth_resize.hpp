// Resizing of images as in the Resize layer of appearance flow. x (N, C, H, W) and y (N, C, h, w) have one
// layout.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// Along an axis: pixel o of y shows the point o / scale + crop of x, or the nearest one between the outer
/// pixels' centres.
struct SmoothAxis {
  double scale = 1, crop = 0;
};

/// Linear interpolation along both axes. Along one whose scale is below 1, each pixel of x is first replaced
/// by a mean with weights that fall to 0 at the distance 1 / scale (100 at most); the outer pixels go on
/// beyond the image.
inline constinit Operator<void(const SmoothAxis& rows, const SmoothAxis& columns, const Tensor& x, Tensor& y)>
    smooth_resize{"smooth_resize"};
/// Overwrites dx. Gathers: a fixed order of additions.
inline constinit Operator<void(const SmoothAxis& rows, const SmoothAxis& columns, const Tensor& dy,
                               Tensor& dx)>
    smooth_resize_backward{"smooth_resize_backward"};

}  // namespace banyan::ops
