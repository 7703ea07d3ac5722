// Which activations (ReLU, ELU), dropouts and sums run as part of neighbouring layers. Pure.
//
// An activation on its own costs a sweep over memory each way. Its forward pass can run at the end of the
// layer before it (the producer); its backward pass at the start of that layer's, or at the end of the next
// layer's (the reader). It does itself whatever no neighbour can. Likewise the sum of two branches can run at
// the end of the layer that finishes the later branch, dropout at the end of the layer whose activation it
// follows, and a Scale after a batch normalization serves as its slope and bias.
#pragma once

#include <functional>
#include <vector>

#include "banyan/net/graph.hpp"

namespace banyan {

/// For one layer: what it runs for others, and what others run for it.
struct Fusion {
  int expansion = -1;             ///< the 1 x 1 convolution before it that it runs
  bool left_out = false;          ///< a later layer runs its forward pass and nobody sees its output
  int affine = -1;                ///< the layer whose slope and bias it applies
  ops::Activation output, input;  ///< see Fused
  int drop_layer = -1;            ///< the layer whose dropout it runs
  int sum_layer = -1;             ///< the layer whose sum it runs,
  int addend = -1;                ///< with this blob,
  ops::Activation sum;            ///< and this activation after it
  bool forward_elsewhere = false, backward_elsewhere = false;
};

/// For each layer, the layer after it whose slope and bias it can apply as its own, or -1. `converts`: per
/// layer, does it take an input in another layout or type than its blob has?
std::vector<int> find_affines(const Graph& graph, const std::vector<bool>& converts);
/// The graph as it runs with these: a layer that computes the gradients of a slope and bias has a backward
/// pass and a gradient of its output, even if all before it is frozen. All decisions after find_affines are
/// made on this graph.
Graph with_affines(Graph graph, const std::vector<int>& affines);

/// All fusions except those of find_affines, which are passed as `affines`; results are bit-identical to
/// running the layers separately. `kept_by`: per layer, the activation whose output its backward pass takes
/// instead of its input, or -1 (in_place_abn.hpp).
std::vector<Fusion> find_fusions(const Graph& graph, const std::vector<bool>& converts,
                                 const std::vector<int>& affines, const std::vector<int>& kept_by);
/// Adds to fusions of a net that does not train: depthwise convolutions that run the 1 x 1 convolution before
/// them, if `pays(its number)`. Results differ by rounding.
void fuse_expansions(const Graph& graph, const std::vector<bool>& converts,
                     const std::function<bool(int layer)>& pays, std::vector<Fusion>& fusions);
/// `affines` alone.
std::vector<Fusion> only_affines(const std::vector<int>& affines);

}  // namespace banyan
