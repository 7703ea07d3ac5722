// Pooling over regions of interest. `rois` is R x 5: the image's number in the batch, then the corners x1,
// y1, x2, y2 in pixels of the network's input. x is (N, C, H, W), y (R, C', pooled_h, pooled_w), in one
// layout. A region of an image that is not in the batch gives zeros, see note_outside in ops/rows.hpp.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

struct RegionBins {
  std::int64_t pooled_h = 1, pooled_w = 1;
  double scale = 1;  ///< pixels of x per pixel of a corner
  /// region_average: points per bin and axis; 0: as many as the bin has pixels, rounded up.
  std::int64_t points = 0;
  /// region_maximum, region_grid: a region grows by this share of its size, x2 - x1 + 1, on each side.
  double pad = 0;
};

/// Fast R-CNN: corners are rounded to pixels, both belong to the region; bins overlap where they share
/// pixels. y is the maximum of a bin, 0 if none of its pixels is in the image; mask (i32, like y) its place h
/// * W + w, -1 without one.
inline constinit Operator<void(const RegionBins& bins, const Tensor& x, const Tensor& rois, Tensor& y,
                               Tensor& mask)>
    region_maximum{"region_maximum"};
/// Overwrites dx, as do the others; each plane gets its terms in the order of the regions.
inline constinit Operator<void(const RegionBins& bins, const Tensor& dy, const Tensor& rois,
                               const Tensor& mask, Tensor& dx)>
    region_maximum_backward{"region_maximum_backward"};

/// Mask R-CNN (ROIAlign): nothing is rounded; y is the mean of bilinear values at points spread evenly over
/// the bin, 0 for those more than a pixel outside the image. A region is at least 1 x 1.
inline constinit Operator<void(const RegionBins& bins, const Tensor& x, const Tensor& rois, Tensor& y)>
    region_average{"region_average"};
inline constinit Operator<void(const RegionBins& bins, const Tensor& dy, const Tensor& rois, Tensor& dx)>
    region_average_backward{"region_average_backward"};

/// Cascade R-CNN's ROIAlign: y is the bilinear value at each of pooled_h x pooled_w points, the outer ones at
/// the region's corners moved by half a pixel; 0 for those more than half a pixel outside the image, and
/// everywhere in a region without extent.
inline constinit Operator<void(const RegionBins& bins, const Tensor& x, const Tensor& rois, Tensor& y)>
    region_grid{"region_grid"};
inline constinit Operator<void(const RegionBins& bins, const Tensor& dy, const Tensor& rois, Tensor& dx)>
    region_grid_backward{"region_grid_backward"};

/// R-FCN: bin (i, j) of output channel c is the mean of the bin's pixels in channel (c pooled_h + i) pooled_w
/// + j of x, 0 if there are none.
inline constinit Operator<void(const RegionBins& bins, const Tensor& x, const Tensor& rois, Tensor& y)>
    region_votes{"region_votes"};
inline constinit Operator<void(const RegionBins& bins, const Tensor& dy, const Tensor& rois, Tensor& dx)>
    region_votes_backward{"region_votes_backward"};

}  // namespace banyan::ops
