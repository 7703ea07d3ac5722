// Default boxes of SSD.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

struct PriorBoxes {
  std::int64_t rows = 1, columns = 1;           ///< of the feature map: positions of the boxes
  double image_h = 1, image_w = 1;              ///< in pixels; boxes are fractions of it
  double step_h = 1, step_w = 1, offset = 0.5;  ///< a box's centre is at (index + offset) * step
  bool clip = false;                            ///< boxes are cut off at the image's border
  double variance[4] = {};
  bool denser = false;  ///< each box is followed by its copy whose centre is at (row + 1) * step_h
};

/// y (2, rows * columns * P * 4): the boxes as (xmin, ymin, xmax, ymax), P at each position in the order of
/// `sizes` (f64, P x 2: width and height in pixels, or P x 4: and how far to the right and down its centre
/// lies from that of the position; half as many if `denser`), then as many variances.
inline constinit Operator<void(const PriorBoxes& boxes, const Tensor& sizes, Tensor& y)> prior_boxes{
    "prior_boxes"};

}  // namespace banyan::ops
