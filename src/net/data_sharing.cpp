#include "banyan/net/data_sharing.hpp"

#include <algorithm>

namespace banyan {
namespace {

/// Do the other layers allow `layer` to write output 0 over its input 0?
bool may_overwrite_input(const TensorUses& uses, const LayerUse& layer) {
  const auto memory = [&](int tensor) { return owner_of(uses.data_of, tensor); };
  const int target = memory(layer.inputs[0]);
  const auto is_target = [&](int tensor) { return memory(tensor) == target; };
  for (std::size_t t = 0; t < uses.data_of.size(); ++t)
    if (uses.keeps_data[t] && is_target(static_cast<int>(t))) return false;
  for (const LayerUse& other : uses.layers) {
    const bool reads = std::any_of(other.inputs.begin(), other.inputs.end(), is_target) ||
                       std::any_of(other.converted_from.begin(), other.converted_from.end(),
                                   [&](int from) { return from >= 0 && is_target(from); });
    const bool writes = std::any_of(other.outputs.begin(), other.outputs.end(), is_target);
    if (reads && !writes && &other != &layer) return false;
    if (other.needs_backward && ((reads && other.reads_inputs) || (writes && other.reads_outputs)))
      return false;
    if (other.needs_backward &&
        std::any_of(other.backward_reads.begin(), other.backward_reads.end(), is_target))
      return false;
  }
  return true;
}

}  // namespace

void share_data(TensorUses& uses) {
  for (const LayerUse& layer : uses.layers) {
    if (!layer.in_place || layer.view || layer.inputs.empty() || layer.outputs.empty()) continue;
    const int input = layer.inputs[0], output = layer.outputs[0];
    const int target = owner_of(uses.data_of, input);
    if (uses.data_of[output] != output || target == output) continue;
    const bool fits = uses.data_size[target] == uses.data_size[output] && uses.data_size[output] > 0;
    const bool once = std::count_if(layer.inputs.begin(), layer.inputs.end(),
                                    [&](int other) { return owner_of(uses.data_of, other) == target; }) == 1;
    if (fits && once && may_overwrite_input(uses, layer)) uses.data_of[output] = target;
  }
}

}  // namespace banyan
