// Copies between tensors whose elements are numbered by several indices: permuting axes, cutting out boxes,
// reversing.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// Indices i_k in [0, length[k]), and where an element lies: offset + sum of i_k stride[k], in elements of
/// memory order. Strides may be negative, those of the source 0. The order of the indices makes
/// no difference.
struct Grid {
  static constexpr int kMostAxes = 12;
  std::int64_t axes = 0;
  std::int64_t length[kMostAxes], from_stride[kMostAxes], to_stride[kMostAxes];
  std::int64_t from_offset = 0, to_offset = 0;
  /// Another index. Throws a runtime failure when there are too many.
  void add(std::int64_t length_of_axis, std::int64_t stride_in_source, std::int64_t stride_in_target);
  std::int64_t count() const;
  /// The copy back.
  Grid reversed() const;
};

/// to[...] = from[...] for all indices of the grid; same dtype, any. No two may have one place in the target.
inline constinit Operator<void(const Tensor& from, Tensor& to, const Grid& grid)> copy_grid{"copy_grid"};

/// Distance in memory between neighbours along each axis.
std::vector<std::int64_t> strides_of(const Shape& shape, Layout layout);

}  // namespace banyan::ops
