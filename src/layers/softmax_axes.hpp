// The axis along which softmax layers and Accuracy work.
#pragma once

#include "banyan/base/text.hpp"
#include "banyan/ops/loss.hpp"
#include "banyan/tensor/shape.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

inline ops::Channels channels_along(const Shape& shape, int axis) {
  const int at = shape.canonical_axis(axis);
  return {shape.count(0, at), shape[at], shape.count(at + 1)};
}

/// refuse(parts of a message...) throws, where caffe-windows divides by lengths in place of a softmax.
template <class Refuse>
void require_softmax(const caffe::SoftmaxParameter& settings, const Refuse& refuse) {
  if (settings.normalize_type() != "Softmax")
    refuse("normalize_type ", quoted(settings.normalize_type()),
           " of softmax_param is not supported, only \"Softmax\"; a Normalize layer divides by lengths");
}

}  // namespace banyan
