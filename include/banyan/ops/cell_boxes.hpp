// What YOLO's detectors predict: boxes of the cells of a map.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// Contiguous memory seen as boxes x (5 + classes) x cells; the channels of a box are x, y, width, height,
/// objectness, and classes.
struct CellBoxes {
  std::int64_t boxes = 1, classes = 0, cells = 1;
  bool exclusive = false;  ///< one class of each box is true, else any number of them

  constexpr std::int64_t channels() const { return 5 + classes; }
};

/// y = x for width and height, the softmax of exclusive classes, and the sigmoid of all else.
inline constinit Operator<void(const Tensor& x, const CellBoxes& over, Tensor& y)> cell_boxes_forward{
    "cell_boxes_forward"};
/// dx = dy y (1 - y) where y is a sigmoid, else dy: the slopes of what sigmoids are compared with. dx may be
/// dy.
inline constinit Operator<void(const Tensor& y, const Tensor& dy, const CellBoxes& over, Tensor& dx)>
    cell_boxes_slopes{"cell_boxes_slopes"};

}  // namespace banyan::ops
