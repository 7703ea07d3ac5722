// Sampling of maps on a grid that an affine transformation moves (spatial transformers, Jaderberg et al.
// 2015). Maps are x (N, C, H, W) and y (N, C, h, w), of one layout; theta is (N, given numbers).
#pragma once

#include <cstdint>

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// Row (t11, t12, t13) of the transformation makes the row of a point, (t21, t22, t23) its column, from the
/// row and the column of a pixel of y. Rows and columns of both go from -1, the first pixel's, to 1, that of
/// one more than there are.
struct Transformation {
  double numbers[6] = {1, 0, 0, 0, 1, 0};       ///< t11, t12, t13, t21, t22, t23
  std::int32_t places[6] = {0, 1, 2, 3, 4, 5};  ///< in theta's rows; -1: the number above
  std::int64_t given = 6;                       ///< how many theta's rows hold
};

/// y is the bilinear value of x at each pixel's point; pixels outside of x are 0.
inline constinit Operator<void(const Transformation& how, const Tensor& x, const Tensor& theta, Tensor& y)>
    transform_forward{"transform_forward"};
/// Overwrites dx; every pixel gets its terms in the order of y's pixels.
inline constinit Operator<void(const Transformation& how, const Tensor& dy, const Tensor& theta, Tensor& dx)>
    transform_backward{"transform_backward"};
/// Overwrites dtheta. Where a coordinate is whole, the slope is the mean of those to both sides.
inline constinit Operator<void(const Transformation& how, const Tensor& x, const Tensor& theta,
                               const Tensor& dy, Tensor& dtheta)>
    transform_theta_backward{"transform_theta_backward"};

}  // namespace banyan::ops
