// PSROIPooling whose bins are moved by learned offsets (Dai et al. 2017). x, rois and y are those of
// ops/regions.hpp; x has output channels times group^2.
#pragma once

#include "banyan/ops/regions.hpp"

namespace banyan::ops {

struct MovedBins {
  RegionBins bins;           ///< points: of a bin along each axis, at least 1
  std::int64_t group = 1;    ///< bins along each axis that have channels of their own
  std::int64_t part = 1;     ///< offsets along each axis
  std::int64_t classes = 1;  ///< the output's channels are divided among them
  double reach = 0;          ///< of an offset of 1, in sides of the region
};

/// Corners are rounded, the far one's pixel belongs to the region; sides are at least 0.1. A bin's offset
/// moves it to the right and down. y is the mean of the bilinear values at a bin's points, which begin at its
/// corner and are as far apart as they divide it evenly; those more than half a pixel outside do not count,
/// others outside show the border. offsets (R, 2 classes, part, part), to the right and down for each class;
/// undefined: none.
inline constinit Operator<void(const MovedBins& how, const Tensor& x, const Tensor& rois,
                               const Tensor& offsets, Tensor& y)>
    moved_votes{"moved_votes"};
/// Overwrites dx; each plane gets its terms in the order of the regions.
inline constinit Operator<void(const MovedBins& how, const Tensor& dy, const Tensor& rois,
                               const Tensor& offsets, Tensor& dx)>
    moved_votes_backward{"moved_votes_backward"};
/// Overwrites doffsets. Where a coordinate is whole, the slope is that towards the next pixel.
inline constinit Operator<void(const MovedBins& how, const Tensor& x, const Tensor& dy, const Tensor& rois,
                               const Tensor& offsets, Tensor& doffsets)>
    moved_votes_offsets_backward{"moved_votes_offsets_backward"};

}  // namespace banyan::ops
