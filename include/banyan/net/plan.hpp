// Plan: how a graph runs, decided to the last detail: tensors with their places in memory, and a list of
// steps. Made by pure functions from the graph, the shapes of its blobs and a few policies; the executor
// (executor.hpp) runs it without deciding anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/net/activations.hpp"
#include "banyan/net/in_place_abn.hpp"
#include "banyan/net/lifetimes.hpp"
#include "banyan/net/parameters.hpp"

namespace banyan {

struct PlanPolicy {
  /// Blobs share memory where their lifetimes do not overlap. Off: each keeps its data and gradient.
  bool reuse_memory = true;
  // Off without reuse_memory:
  bool fuse = true;        ///< ReLUs and sums run as a part of other layers; the bits are the same
  bool fuse_scale = true;  ///< and Scales as a part of batch normalizations, with a rounding less
  bool in_place_abn = false;
  int segments = 1;                      ///< as read_checkpoint has it
  std::optional<std::vector<int>> cuts;  ///< given, they are not searched for again
};

/// A blob, or what stands in for it in another layout.
struct PlannedTensor {
  std::string name;
  Shape shape;
  Layout layout = Layout::contiguous;
  DType dtype = DType::f32;
  int data_of = 0, grad_of = 0;  ///< tensors whose memory its data and gradient are; itself: its own
  /// Offsets in the memory of the activations, in bytes; -1: none, or that of another tensor.
  std::int64_t data = -1, grad = -1;
  /// Its data lies outside that memory and outlives a pass: a user may have filled it.
  bool outside = false;
  bool zeroed = false;  ///< where memory is new; only outside
};

struct PlanStep {
  struct Copy {
    int from = 0, to = 0;  ///< tensors
  };
  struct LossTerm {
    int tensor = 0;
    double weight = 0;
    bool first = true;     ///< forward: of the pass
    bool receives = true;  ///< backward: the gradient holds what the readers gave
  };
  Work work = Work::forward;
  int layer = 0;
  std::vector<int> inputs, outputs;  ///< tensors
  bool runs_layer = true;            ///< false: what the layer does is a part of other steps, or nothing
  bool needs_backward = false;       ///< of backward steps: there is something to do but clearing gradients
  std::vector<bool> propagate;       ///< of backward steps, per input: its gradient is made
  /// Between layouts: of data, before the layer runs; in backward steps of gradients, after it.
  std::vector<Copy> copies;
  /// Weighted outputs: forward, added to the loss after the layer; backward, made gradients before it.
  std::vector<LossTerm> losses;
  // Parts of other layers, as in Fused; -1: none.
  int affine = -1;  ///< layer
  ops::Rectifier output, input, sum;
  int addend = -1, kept_output = -1;
  ops::InvertibleActivation kept_activation;
  // Parameters of the layer whose gradients no earlier step of the backward pass has touched:
  std::uint64_t fresh = 0;  ///< bit k: the layer overwrites that of parameter k
  std::vector<int> clears;  ///< zeroed before the layer runs
  bool completes = false;   ///< backward: a parameter's gradient is complete and can be exchanged
};

struct Plan {
  std::vector<PlannedTensor> tensors;  ///< the graph's blobs first, then stand-ins in order of layers
  std::vector<PlanStep> steps;         ///< forward, then backward; steps of a layer that does nothing too
  std::size_t backward = 0;            ///< the first step of the backward pass
  std::int64_t bytes = 0;              ///< of the activations and their gradients
  std::int64_t unshared_bytes = 0;     ///< if no blob shared memory
  std::int64_t bytes_without_cuts = 0;
  std::vector<int> cuts;  ///< first layers of the segments after the first one (checkpoints.hpp)
  std::vector<InPlaceAbn> in_place_abn;
};

/// `costs`: of one forward pass of each layer, in any unit. Throws bad_input if the net cannot be cut as
/// asked.
Plan make_plan(const Graph& graph, const Activations& activations, const ParameterStore& parameters,
               const std::vector<double>& costs, const PlanPolicy& policy);

/// One line for each tensor and each step.
std::string to_text(const Graph& graph, const Plan& plan);

}  // namespace banyan
