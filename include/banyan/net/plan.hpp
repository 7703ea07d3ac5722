// Plan: how a graph runs, in full detail: tensors with their places in memory, and a list of steps. Made by
// pure functions from the graph, the shapes of its blobs and a few policies; the executor (executor.hpp) runs
// it without deciding anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/net/activations.hpp"
#include "banyan/net/in_place_abn.hpp"
#include "banyan/net/lifetimes.hpp"
#include "banyan/net/parameters.hpp"
#include "banyan/net/sample_parts.hpp"

namespace banyan {

struct PlanPolicy {
  /// Blobs share memory where their lifetimes do not overlap. Off: each keeps its data and gradient.
  bool reuse_memory = true;
  // Off without reuse_memory:
  bool fuse = true;        ///< activations, dropouts and sums run in other layers, with bit-identical results
  bool fuse_scale = true;  ///< and Scales as part of batch normalizations, with one rounding less
  bool in_place_abn = false;
  /// With at least so many bytes of a sample, the output of a 1 x 1 convolution before a depthwise one is not
  /// stored (fuse_expansions); 0: it always is. Only in nets that do not train; off without reuse_memory.
  std::int64_t expansion_bytes = 0;
  /// Bytes of an element of a parameter's gradient, where these are placed among the activations; 0: they are
  /// elsewhere.
  std::size_t gradient_element = 0;
  /// See find_sample_parts; 0: every step runs for all samples. Only in nets that do not train.
  std::int64_t cache = 0;
  int segments = 1;  ///< see read_checkpoint
  /// The layers of find_repeats run again if that costs at most this part of a forward and backward pass and
  /// saves memory; only in nets that are not cut.
  double repeats = 0;
  std::optional<std::vector<int>> cuts;  ///< if given, no others are chosen
};

/// A blob, or its stand-in in another layout.
struct PlannedTensor {
  std::string name;
  Shape shape;
  Layout layout = Layout::contiguous;
  DType dtype = DType::f32;
  int data_of = 0, grad_of = 0;  ///< tensors whose memory holds its data and gradient; itself: its own memory
  /// Byte offsets in the activations' memory; -1: none, or in another tensor's memory.
  std::int64_t data = -1, grad = -1;
  /// Its data is outside that memory and outlives a pass: a user may have filled it.
  bool outside = false;
  bool zeroed = false;  ///< where memory is new; only outside
  /// Its memory, or that of the tensor that it shares, holds so many samples at a time; 0: all.
  std::int64_t samples = 0;
};

/// A tensor's data or gradient in the activations' memory, or the gradient of a parameter, and the steps
/// during which its contents are needed (lifetimes.hpp; Plan::steps.size(): after the pass).
struct PlannedBlock {
  int tensor = 0;  ///< -1: of a parameter
  int parameter = -1;
  bool gradient = false;
  std::int64_t offset = 0, bytes = 0;
  std::vector<Span> spans;
};

struct PlanStep {
  struct Copy {
    int from = 0, to = 0;  ///< tensors
  };
  struct LossTerm {
    int tensor = 0;
    double weight = 0;
    bool first = true;     ///< forward: of the pass
    bool receives = true;  ///< backward: the gradient holds the readers' contributions
  };
  Work work = Work::forward;
  int layer = 0;
  std::vector<int> inputs, outputs;  ///< tensors
  bool runs_layer = true;            ///< false: other steps do the layer's work, or there is none
  bool needs_backward = false;       ///< of backward steps: there is more to do than clear gradients
  std::vector<bool> propagate;       ///< of backward steps, per input: its gradient is computed
  /// Between layouts: data before the layer runs; in backward steps, gradients after it.
  std::vector<Copy> copies;
  /// Weighted outputs: forward, added to the loss after the layer; backward, seeded as gradients before it.
  std::vector<LossTerm> losses;
  // Parts of other layers, as in Fused; -1: none.
  int affine = -1, drop_layer = -1, expansion = -1;  ///< layers
  ops::Activation expanded;
  ops::Activation output, input, sum;
  int addend = -1, kept_output = -1;
  ops::Activation kept_activation;
  // Parameters of the layer whose gradients no earlier backward step has touched:
  std::uint64_t fresh = 0;  ///< bit k: the layer overwrites that of parameter k
  std::vector<int> clears;  ///< zeroed before the layer runs
  bool completes = false;   ///< backward: a parameter's gradient is complete and can be exchanged
  bool does_something() const { return runs_layer || !copies.empty(); }  ///< forward, without losses
};

struct Plan {
  std::vector<PlannedTensor> tensors;  ///< the graph's blobs first, then stand-ins in order of layers
  std::vector<PlanStep> steps;         ///< forward, then backward; includes steps of layers that do nothing
  std::size_t backward = 0;            ///< the first step of the backward pass
  std::int64_t bytes = 0;              ///< of the activations and their gradients, and what is placed there
  std::int64_t unshared_bytes = 0;     ///< if no blob shared memory
  std::int64_t bytes_without_cuts = 0;
  std::vector<PlannedBlock> blocks;  ///< of tensors that own their memory, then of parameters
  /// Of each parameter: the byte offset of its gradient; -1: elsewhere, or there is none.
  std::vector<std::int64_t> parameter_gradients;
  std::vector<int> cuts;     ///< first layer of each segment after the first (checkpoints.hpp)
  std::vector<int> repeats;  ///< layers that run again, where there are no cuts
  std::vector<InPlaceAbn> in_place_abn;
  std::vector<SampleParts> parts;  ///< ascending
};

/// `costs`: of one forward pass of each layer, in any unit. Throws bad_input if the net cannot be cut as
/// asked.
Plan make_plan(const Graph& graph, const Activations& activations, const ParameterStore& parameters,
               const std::vector<double>& costs, const PlanPolicy& policy);

/// One line for each tensor and each step.
std::string to_text(const Graph& graph, const Plan& plan);

}  // namespace banyan
