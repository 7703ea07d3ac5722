// When each activation and gradient of a net is needed. Pure.
//
// A schedule is an array of actions, forward and backward; a step is an index into it, and the step after the
// last action stands for everything that happens later. Without checkpoints, layer i of n runs forward at
// step i and backward at step 2n - 1 - i.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace banyan {

/// Tensors are numbers; an input that is converted to another layout is a separate tensor.
struct LayerUse {
  std::vector<int> inputs, outputs;
  std::vector<int> converted_from;  ///< per input: the tensor it is converted from, or -1
  bool needs_backward = false, reads_inputs = true, reads_outputs = true;
  std::vector<int> backward_reads;  ///< other tensors that its backward pass reads and may overwrite
  std::vector<bool> propagate;      ///< per input
  // For share_gradients; empty means "none".
  std::vector<bool> passes_gradient;  ///< per input
  bool gathers_gradients = false;
  std::vector<bool> weighted;       ///< per output: it has a loss weight
  bool backward_elsewhere = false;  ///< its output's gradient counts as its input's, which it does not write
  bool in_place = false;           ///< may write output 0 over input 0, which its backward pass does not read
  bool view = false;               ///< its outputs are views of an input's memory: running it writes nothing
  bool forward_elsewhere = false;  ///< another layer makes its outputs
  bool repeatable = true;          ///< see LayerTraits::repeatable
  bool one_sweep = false;          ///< see LayerTraits::one_sweep
  double cost = 0;                 ///< of one forward pass, in any unit
};

struct TensorUses {
  std::vector<LayerUse> layers;
  std::vector<int> data_of, grad_of;  ///< per tensor: the tensor whose memory it shares (itself: its own)
  std::vector<bool> keeps_data;       ///< per tensor: its data is wanted after the pass
  std::vector<bool> has_grad;         ///< per tensor
  /// Per tensor: elements of its data and of its gradient in the planned memory, 0 where they are elsewhere.
  std::vector<std::int64_t> data_size, grad_size;
};

enum class Work : std::uint8_t {
  forward,
  convert,    ///< only the conversions of a layer's inputs, again
  recompute,  ///< conversions and forward, again
  backward
};
struct Action {
  Work work = Work::forward;
  int layer = 0;
};
using Schedule = std::vector<Action>;

/// All layers forward, then all backward in reverse order.
Schedule plain_schedule(int layers);

/// First and last step; first > last: never needed.
struct Span {
  int first = std::numeric_limits<int>::max(), last = -1;
  void include(int step) {
    if (step < first) first = step;
    if (step > last) last = step;
  }
  bool used() const { return first <= last; }
};

/// Per tensor; only those that own their memory have spans. Recomputed data has one span for each time it is
/// made.
struct TensorSpans {
  std::vector<std::vector<Span>> data;
  std::vector<Span> grad;
};

/// Gradients whose producer has no backward pass (force_backward, propagate_down) are kept after the pass.
TensorSpans find_lifetimes(const TensorUses& uses, const Schedule& schedule);

/// The tensor whose memory `tensor` shares.
int owner_of(const std::vector<int>& shares_with, int tensor);

}  // namespace banyan
