// Pooling over parts of videos (R-C3D). `parts` is R x 3: the video's number in the batch, then the first and
// the last time. x is (N, C, L, H, W), y (R, C, pooled_l, pooled_h, pooled_w), both contiguous. A part of a
// video that is not in the batch gives zeros, see note_outside in ops/rows.hpp.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

struct VideoBins {
  std::int64_t pooled_l = 1, pooled_h = 1, pooled_w = 1;
  double scale = 1;  ///< time steps of x per unit of a part's times
};

/// Times are rounded to steps of x, both belong to the part; rows and columns are those of the whole map.
/// Bins overlap where they share elements. y is the maximum of a bin, 0 if none of its steps is in the video;
/// mask (i32, like y) its place (l H + h) W + w, -1 without one.
inline constinit Operator<void(const VideoBins& bins, const Tensor& x, const Tensor& parts, Tensor& y,
                               Tensor& mask)>
    video_maximum{"video_maximum"};
/// Overwrites dx; each channel of a video gets its terms in the order of the parts.
inline constinit Operator<void(const VideoBins& bins, const Tensor& dy, const Tensor& parts,
                               const Tensor& mask, Tensor& dx)>
    video_maximum_backward{"video_maximum_backward"};

}  // namespace banyan::ops
