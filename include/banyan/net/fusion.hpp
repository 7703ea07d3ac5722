// Which ReLUs and sums run as a part of the layers around them. Pure.
//
// A ReLU that works in place costs a pass over memory each way. Its forward pass can be the end of the layer
// in front of it (the producer), its backward pass the beginning of that layer's or the end of the one behind
// it (the reader). What no neighbour takes over the ReLU does itself. Likewise the sum of two branches can be
// the end of the layer that finishes the later branch.
#pragma once

#include <optional>
#include <vector>

#include "banyan/layers/layer.hpp"

namespace banyan {

/// What find_fusions needs to know of one layer; blobs are numbers.
struct FusionNode {
  std::vector<int> inputs, outputs;
  std::optional<double> relu_slope;  ///< see Layer
  ReluFusion fuses_relu = ReluFusion::none;
  bool fuses_relu_of_input = false;
  bool fuses_sum = false, is_plain_sum = false;
  bool converts_inputs = false;  ///< an input comes in another layout than its blob has
  bool weighted = false;         ///< an output has a loss weight
  bool needs_backward = false;
  std::vector<bool> propagate;  ///< per input
};

/// For one layer: what it runs of others, and what others run of it.
struct Fusion {
  Fused runs;    ///< but for the addend, which is blob `addend`
  int sum = -1;  ///< the layer whose sum it runs
  int addend = -1;
  bool forward_elsewhere = false, backward_elsewhere = false;
};

std::vector<Fusion> find_fusions(const std::vector<FusionNode>& layers);

}  // namespace banyan
