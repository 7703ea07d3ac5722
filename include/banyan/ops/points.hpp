// Maps read at points of an image (RandBI of PixelNet). Points: rows of three numbers, the image's number,
// row and column.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// How a point's row and column become those of a map: less `padding`, by `rate`, but not below 0.
struct PointScale {
  double rate = 1, padding = 0;
};

/// Columns `first` and on of row p of y (P, ...) become the bilinear values of the channels of x (N, C, H, W,
/// either layout) at point p; 0 where it is in none of the images.
inline constinit Operator<void(const Tensor& x, const Tensor& points, const PointScale& scale,
                               std::int64_t first, Tensor& y)>
    read_points{"read_points"};
/// Adds to dx what these columns of dy are the gradients of, in the order of the points.
inline constinit Operator<void(const Tensor& dy, const Tensor& points, const PointScale& scale,
                               std::int64_t first, Tensor& dx)>
    add_at_points{"add_at_points"};
/// noted (2, f64): as note_outside in ops/rows.hpp, of the points that are in no pixel of x; the value is the
/// image's number.
inline constinit Operator<void(const Tensor& x, const Tensor& points, const PointScale& scale, Tensor& noted)>
    note_points{"note_points"};

}  // namespace banyan::ops
