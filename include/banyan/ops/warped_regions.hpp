// Regions of interest warped to one size (MNC). Tensors are those of ops/regions.hpp.
#pragma once

#include "banyan/ops/regions.hpp"

namespace banyan::ops {

/// Corners times scale are rounded; a region is as long as they are apart, and divided into bins. y is the
/// largest of the bilinear values at points of a bin: along an axis as many intervals as the bin has pixels,
/// rounded up, ends included. Points more than half a pixel outside the image do not count; 0 without any.
/// mask (i32, like y) says which one it is, -1 without one.
inline constinit Operator<void(const RegionBins& bins, const Tensor& x, const Tensor& rois, Tensor& y,
                               Tensor& mask)>
    warped_maximum{"warped_maximum"};
/// Overwrites dx; each plane gets its terms in the order of the regions.
inline constinit Operator<void(const RegionBins& bins, const Tensor& dy, const Tensor& rois,
                               const Tensor& mask, Tensor& dx)>
    warped_maximum_backward{"warped_maximum_backward"};
/// Overwrites drois: 0 for the image's number; of the corners as if they were not rounded.
inline constinit Operator<void(const RegionBins& bins, const Tensor& x, const Tensor& dy, const Tensor& rois,
                               const Tensor& mask, Tensor& drois)>
    warped_corners_backward{"warped_corners_backward"};

}  // namespace banyan::ops
