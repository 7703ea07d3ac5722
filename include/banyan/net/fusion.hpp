// Which ReLUs run as a part of the layers around them. Pure.
//
// A ReLU that works in place costs a pass over memory each way. Its forward pass can be the end of the layer
// in front of it (the producer), its backward pass the beginning of that layer's or the end of the one behind
// it (the reader). What no neighbour takes over the ReLU does itself.
#pragma once

#include <optional>
#include <vector>

#include "banyan/layers/layer.hpp"

namespace banyan {

/// What find_relu_fusions needs to know of one layer; blobs are numbers.
struct FusionNode {
  std::vector<int> inputs, outputs;
  std::optional<double> relu_slope;  ///< see Layer
  ReluFusion fuses_relu = ReluFusion::none;
  bool fuses_relu_of_input = false;
  bool converts_inputs = false;  ///< an input comes in another layout than its blob has
  bool weighted = false;         ///< an output has a loss weight
  bool needs_backward = false;
  std::vector<bool> propagate;  ///< per input
};

/// For one layer: the ReLUs that it runs, and, of a ReLU, what others run.
struct Fusion {
  FusedRelus relus;
  bool forward_elsewhere = false, backward_elsewhere = false;
};

std::vector<Fusion> find_relu_fusions(const std::vector<FusionNode>& layers);

}  // namespace banyan
