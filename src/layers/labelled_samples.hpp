// Scores (N x classes, further axes count as classes) with one label for each sample (N).
#pragma once

#include "banyan/base/text.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/loss.hpp"

namespace banyan {

/// Of inputs 0 and 1. refuse(parts of a message...) throws, where there are more or fewer labels.
template <class Refuse>
ops::Channels labelled_samples(const Blobs& inputs, const Refuse& refuse) {
  const Shape &scores = inputs[0]->shape, &labels = inputs[1]->shape;
  if (scores.axes() < 1 || labels.count() != scores[0])
    refuse("expected one label for each sample of ", quoted(inputs[0]->name), ", which is ",
           scores.to_string(), "; ", quoted(inputs[1]->name), " is ", labels.to_string());
  return {scores[0], scores.count(1), 1};
}

}  // namespace banyan
