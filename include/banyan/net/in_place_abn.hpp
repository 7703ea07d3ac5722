// Which batch normalizations keep only the output of the activation behind them: In-Place ABN (Rota Bulo,
// Porzi, Kontschieder 2018). Pure.
//
// Batch normalization's backward pass needs its input, the layer behind the activation the activation's
// output: two tensors are kept (three where the activation needs its own input). If the activation can be
// undone, its output is enough, and normalization and activation work over the memory of their input.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "banyan/ops/elementwise.hpp"

namespace banyan {

/// What find_in_place_abn needs to know of one layer; blobs are numbers.
struct AbnNode {
  std::string name, type;
  std::vector<int> inputs, outputs;
  bool normalizes = false;  ///< Layer::recovers_input
  std::optional<ops::InvertibleActivation> inverse;
  bool needs_backward = false, reads_outputs = false;  ///< reads_outputs: in the backward pass
  bool converts_inputs = false;                        ///< an input comes in another layout than its blob has
  bool weighted = false;                               ///< an output has a loss weight
  bool source = false;
  bool view = false;  ///< the outputs show the memory of an input
};

struct InPlaceAbn {
  int norm = 0;         ///< layers
  int activation = -1;  ///< -1: the normalization keeps its input
  std::string reason;   ///< why it does
};

/// One for each batch normalization with a backward pass. `kept`: blobs that are wanted after the pass.
std::vector<InPlaceAbn> find_in_place_abn(const std::vector<AbnNode>& layers, const std::vector<int>& kept);

}  // namespace banyan
