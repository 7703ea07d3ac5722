// Which layers of a net that is not cut are worth running again, and when.
#include <algorithm>
#include <set>

#include "banyan/net/checkpoints.hpp"

namespace banyan {
namespace {

/// Of a tensor that owns its memory.
struct Memory {
  std::vector<int> writers;  ///< layers
  int first_backward = -1;   ///< the layer whose backward pass is the first to read it; -1: none does
  bool kept = false;         ///< after the pass
};

std::vector<Memory> find_memories(const TensorUses& uses) {
  std::vector<Memory> memories(uses.data_of.size());
  const auto at = [&](int tensor) -> Memory& { return memories[owner_of(uses.data_of, tensor)]; };
  for (std::size_t t = 0; t < memories.size(); ++t)
    if (uses.keeps_data[t]) at(static_cast<int>(t)).kept = true;
  for (int l = 0; l < static_cast<int>(uses.layers.size()); ++l) {
    const LayerUse& layer = uses.layers[l];
    for (std::size_t k = 0; k < layer.inputs.size(); ++k) {
      const int stand_in = owner_of(uses.data_of, layer.inputs[k]), from = layer.converted_from[k];
      if (from >= 0 && stand_in != owner_of(uses.data_of, from)) at(stand_in).writers.push_back(l);
    }
    if (!layer.view && !layer.forward_elsewhere)
      for (const int output : layer.outputs) at(output).writers.push_back(l);
    if (!layer.needs_backward) continue;
    for (const int tensor : layer.backward_reads) at(tensor).first_backward = l;
    if (layer.reads_inputs)
      for (const int input : layer.inputs) at(input).first_backward = l;
    if (layer.reads_outputs)
      for (const int output : layer.outputs) at(output).first_backward = l;
  }
  return memories;
}

}  // namespace

std::vector<int> find_repeats(const TensorUses& uses) {
  const std::vector<Memory> memories = find_memories(uses);
  std::vector<int> repeats;
  for (int l = 0; l < static_cast<int>(uses.layers.size()); ++l) {
    const LayerUse& layer = uses.layers[l];
    const bool suits = layer.one_sweep && layer.repeatable && layer.needs_backward && layer.reads_inputs &&
                       layer.inputs.size() == 1 && layer.outputs.size() == 1 && layer.converted_from[0] < 0;
    if (!suits) continue;
    const Memory& memory = memories[owner_of(uses.data_of, layer.outputs[0])];
    if (memory.writers == std::vector<int>{l} && memory.first_backward > l && !memory.kept)
      repeats.push_back(l);
  }
  // What another is made again from is kept for that.
  std::set<int> read;
  std::vector<int> left;
  for (auto repeat = repeats.rbegin(); repeat != repeats.rend(); ++repeat) {
    const LayerUse& layer = uses.layers[*repeat];
    if (read.contains(owner_of(uses.data_of, layer.outputs[0]))) continue;
    read.insert(owner_of(uses.data_of, layer.inputs[0]));
    left.insert(left.begin(), *repeat);
  }
  return left;
}

Schedule schedule_with_repeats(const TensorUses& uses, const std::vector<int>& repeats) {
  const std::vector<Memory> memories = find_memories(uses);
  const int layers = static_cast<int>(uses.layers.size());
  std::vector<std::vector<int>> before(uses.layers.size());
  for (const int l : repeats)
    before[memories[owner_of(uses.data_of, uses.layers[l].outputs[0])].first_backward].push_back(l);
  Schedule schedule;
  for (int l = 0; l < layers; ++l) schedule.push_back({Work::forward, l});
  for (int l = layers - 1; l >= 0; --l) {
    for (const int repeated : before[l]) schedule.push_back({Work::recompute, repeated});
    schedule.push_back({Work::backward, l});
  }
  return schedule;
}

}  // namespace banyan
