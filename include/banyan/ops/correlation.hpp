// Correlation of two maps (FlowNet): patches of one compared with those of the other around the same place.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

struct Correlation {
  std::int64_t pad = 0;           ///< zeros around both maps
  std::int64_t kernel = 1;        ///< side of a patch, odd
  std::int64_t displacement = 0;  ///< of a patch of the second map, at most, along each axis
  std::int64_t stride_1 = 1;      ///< between patches of the first map
  std::int64_t stride_2 = 1;      ///< between displacements
  bool subtract = false;          ///< |a - b| in place of a b

  /// Displacements to each side of 0.
  std::int64_t reach() const { return displacement / stride_2; }
  /// Channels of the result.
  std::int64_t displacements() const { return (2 * reach() + 1) * (2 * reach() + 1); }
  std::int64_t border() const { return displacement + kernel / 2; }
  /// Length of an axis of the result; less than 1 if the maps are too small.
  std::int64_t output_length(std::int64_t length) const {
    const std::int64_t inner = length + 2 * pad - 2 * border();
    return inner < 1 ? 0 : (inner + stride_1 - 1) / stride_1;
  }
};

/// a, b (N, C, H, W), y (N, displacements(), h, w), all in one layout: the mean over the patch and the
/// channels. Channel d: down by (d / n - reach()) stride_2, to the right by (d % n - reach()) stride_2, n
/// being 2 reach() + 1.
inline constinit Operator<void(const Correlation& how, const Tensor& a, const Tensor& b, Tensor& y)>
    correlation_forward{"correlation_forward"};
/// Overwrites dx, the gradient of b if `second`, else of a. Slope 0 where a and b are equal.
inline constinit Operator<void(const Correlation& how, bool second, const Tensor& a, const Tensor& b,
                               const Tensor& dy, Tensor& dx)>
    correlation_backward{"correlation_backward"};

}  // namespace banyan::ops
