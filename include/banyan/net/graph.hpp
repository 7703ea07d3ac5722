// Checks and analyses of a net as a graph of layers and named blobs. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "banyan/layers/layer.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

/// Every bottom exists and is produced further up, no blob is produced twice (unless in place: top i is
/// bottom i), loss_weight has 0 or #tops entries, propagate_down 0 or #bottoms. Throws bad_input naming the
/// layers, for an unknown bottom the nearest name, for a cycle its layers.
void check_connections(const caffe::NetParameter& net);

/// Throws bad_input if the numbers of bottoms and tops are not those that the layer's type takes.
void check_arity(const caffe::LayerParameter& layer, const Arity& arity);

/// What backward pruning needs to know of one layer; blobs are numbers.
struct BackwardNode {
  std::vector<int> inputs, outputs;
  std::vector<bool> weighted;        ///< output i has a loss weight
  std::vector<bool> differentiable;  ///< gradients can flow to input i
  std::vector<int> propagate_down;   ///< empty, or for each input 0 or 1: the file's wish
  bool learns = false;               ///< has a parameter with lr_mult != 0
};
struct BackwardNeed {
  bool needs_backward = false;
  std::vector<bool> propagate;  ///< one per input
};
/// Caffe's rule: a layer needs backward if some input needs it or it learns, and only if it contributes to a
/// loss through inputs that propagate. `force_backward`: as if every blob needed its gradient.
std::vector<BackwardNeed> prune_backward(const std::vector<BackwardNode>& layers, bool force_backward);

}  // namespace banyan
