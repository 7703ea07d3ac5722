// When each activation and gradient of a net is needed. Pure.
//
// Steps: layer i of n runs forward at step i and backward at step 2n - 1 - i; 2n is after the pass.
#pragma once

#include <limits>
#include <vector>

namespace banyan {

/// Tensors are numbers; an input that is converted to another layout is a tensor of its own.
struct LayerUse {
  std::vector<int> inputs, outputs;
  std::vector<int> converted_from;  ///< per input: the tensor it is converted from, or -1
  bool needs_backward = false, reads_inputs = true, reads_outputs = true;
  std::vector<bool> propagate;  ///< per input
  // For share_gradients; empty stands for "none".
  std::vector<bool> passes_gradient;  ///< per input
  bool gathers_gradients = false;
  std::vector<bool> weighted;  ///< per output: it has a loss weight
};

struct TensorUses {
  std::vector<LayerUse> layers;
  std::vector<int> data_of, grad_of;  ///< per tensor: the tensor whose memory it shares (itself: its own)
  std::vector<bool> keeps_data;       ///< per tensor: data is wanted after the pass
  std::vector<bool> has_grad;         ///< per tensor
};

/// First and last step; first > last: never needed.
struct Span {
  int first = std::numeric_limits<int>::max(), last = -1;
  void include(int step) {
    if (step < first) first = step;
    if (step > last) last = step;
  }
  bool used() const { return first <= last; }
};

struct TensorSpans {
  std::vector<Span> data, grad;  ///< per tensor; only those that own their memory have a span
};

/// Gradients whose producer has no backward pass (force_backward, propagate_down) are kept after the pass.
TensorSpans find_lifetimes(const TensorUses& uses);

}  // namespace banyan
