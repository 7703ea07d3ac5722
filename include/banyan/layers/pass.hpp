// Pass: everything a forward or backward pass is given besides its tensors.
#pragma once

#include <cstdint>
#include <optional>

#include "banyan/device/context.hpp"
#include "banyan/layers/exchange.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/random.hpp"

namespace banyan {

struct Parameter;
struct Pass;

/// Dropout in training: all of it but what a pass adds.
struct Dropping {
  double ratio = 0;                   ///< 0: nothing is dropped
  std::uint32_t stream = 0;           ///< of random numbers: the layer's
  std::optional<std::uint64_t> seed;  ///< instead of the run's

  bool on() const { return ratio > 0; }
  ops::PassKey key(const Pass& pass) const;
};

/// A 1 x 1 convolution whose only reader computes it (LayerTraits::pointwise).
struct FusedExpansion {
  const Tensor* input = nullptr;
  const Parameter *weight = nullptr, *bias = nullptr;  ///< bias null: none
  ops::Activation end;

  bool on() const { return input != nullptr; }
};

/// What the plan made part of one layer's step.
struct Fused {
  /// forward() begins with it: the layer's own input has no data.
  FusedExpansion expansion;
  /// Those of a Scale after a normalization that has no slope and bias itself (LayerTraits::fuses_affine);
  /// null: none.
  Parameter *slope = nullptr, *bias = nullptr;
  /// forward() ends with it; backward() begins with its gradient (ActivationFusion::both).
  ops::Activation output;
  ops::Activation input;  ///< backward() ends with the gradient of what made its input (InputActivation)
  Dropping dropping;      ///< forward() ends with it, after `output`
  /// forward() adds it to its result, whose memory is that of the sum, and ends with the activation `sum`.
  /// The backward pass is unaffected.
  const Tensor* addend = nullptr;
  ops::Activation sum;
  /// backward() takes this activation of the output instead of its input, and overwrites it.
  const Tensor* kept_output = nullptr;
  ops::Activation kept_activation;
};

struct Pass {
  Context* context = nullptr;
  std::int64_t iteration = 0;
  /// Number of the forward training pass: iteration * iter_size + sub-iteration. Key of random numbers.
  std::int64_t draw = 0;
  std::int64_t passes = 1;  ///< forward training passes of an iteration: iter_size
  std::uint64_t seed = 0;
  /// `draw` in device memory for kernels: written by Net::prepare, set by the Net.
  const std::uint64_t* draw_on_device = nullptr;
  ops::SampleIndex samples;      ///< global number of local sample i within this pass
  Exchange* exchange = nullptr;  ///< nullptr: one device, or a test pass (batches are dealt whole)
  /// False in passes that must leave no trace (timing, the extra pass of a test): running statistics are not
  /// updated, nor, except in test nets, what layers carry to the next pass.
  bool update_statistics = true;

  // For the current step, set by the Net.
  Fused fused;
  /// Bit k: the gradient of parameter k is not yet valid and backward() must overwrite it
  /// (LayerTraits::overwrites_gradients).
  std::uint64_t fresh = 0;
  bool is_fresh(std::size_t parameter) const { return (fresh >> parameter & 1) != 0; }
};

inline ops::PassKey Dropping::key(const Pass& pass) const {
  return {seed.value_or(pass.seed), stream, pass.draw_on_device};
}

}  // namespace banyan
