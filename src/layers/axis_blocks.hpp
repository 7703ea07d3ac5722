// How one axis lies in memory: what Concat and Slice copy along.
#pragma once

#include "banyan/layers/layer.hpp"
#include "banyan/ops/join.hpp"

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

/// Of `whole`, which the parts are cut from along the axis.
inline ops::BlockParts block_parts(const Blob& whole, const Blobs& parts, int axis) {
  const AxisBlocks blocks = axis_blocks(whole.shape, whole.layout, axis);
  ops::BlockParts result{blocks.outer, {}};
  for (const Blob* part : parts) result.lengths.push_back(part->shape[axis] * blocks.inner);
  return result;
}

}  // namespace banyan
