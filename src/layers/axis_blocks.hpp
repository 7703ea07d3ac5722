// How one axis lies in memory: what Concat and Slice copy along.
#pragma once

#include "banyan/layers/blob.hpp"

namespace banyan {

/// Memory as `outer` x (length of the axis) x `inner`.
struct AxisBlocks {
  std::int64_t outer = 1, inner = 1;
};

/// A channels-last blob may be cut only along axis 0 or 1.
inline AxisBlocks axis_blocks(const Shape& shape, Layout layout, int axis) {
  if (layout == Layout::channels_last && axis == 1) return {shape[0] * shape.count(2), 1};
  return {shape.count(0, axis), shape.count(axis + 1)};
}

}  // namespace banyan
