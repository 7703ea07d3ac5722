// The axis along which softmax layers and Accuracy work.
#pragma once

#include "banyan/ops/loss.hpp"
#include "banyan/tensor/shape.hpp"

namespace banyan {

inline ops::Channels channels_along(const Shape& shape, int axis) {
  const int at = shape.canonical_axis(axis);
  return {shape.count(0, at), shape[at], shape.count(at + 1)};
}

}  // namespace banyan
