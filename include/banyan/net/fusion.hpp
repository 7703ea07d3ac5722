// Which ReLUs and sums run as a part of the layers around them. Pure.
//
// A ReLU by itself costs a pass over memory each way. Its forward pass can be the end of the layer before it
// (the producer), its backward pass the beginning of that layer's or the end of the one after it (the
// reader). What no neighbour does the ReLU does itself. Likewise the sum of two branches can be the end
// of the layer that finishes the later branch, and the Scale after a batch normalization is its slope and
// bias.
#pragma once

#include <vector>

#include "banyan/net/graph.hpp"

namespace banyan {

/// For one layer: what it runs of others, and what others run of it.
struct Fusion {
  int affine = -1;               ///< the layer whose slope and bias it applies
  ops::Rectifier output, input;  ///< see Fused
  int sum_layer = -1;            ///< the layer whose sum it runs,
  int addend = -1;               ///< with this blob,
  ops::Rectifier sum;            ///< and this ReLU after it
  bool forward_elsewhere = false, backward_elsewhere = false;
};

/// For each layer the one after it whose slope and bias it can apply as its own, or -1. `converts`: for each
/// layer, does it take an input in another layout or type than its blob has?
std::vector<int> find_affines(const Graph& graph, const std::vector<bool>& converts);

/// All but what find_affines finds, which is `affines`; with the bits of the layers by themselves. `kept_by`:
/// for each layer, the activation whose output its backward pass takes instead of its input, or -1
/// (in_place_abn.hpp).
std::vector<Fusion> find_fusions(const Graph& graph, const std::vector<bool>& converts,
                                 const std::vector<int>& affines, const std::vector<int>& kept_by);
/// `affines` alone.
std::vector<Fusion> only_affines(const std::vector<int>& affines);

}  // namespace banyan
