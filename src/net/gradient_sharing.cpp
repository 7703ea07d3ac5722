#include "banyan/net/gradient_sharing.hpp"

#include <algorithm>

namespace banyan {
namespace {

class Sharing {
 public:
  explicit Sharing(TensorUses& uses)
      : uses_(uses), taken_(uses.data_of.size(), false), is_name_(uses.data_of.size(), false) {
    for (const LayerUse& layer : uses_.layers)
      if (layer.backward_elsewhere) is_name_[layer.outputs[0]] = true;
    for (const LayerUse& layer : uses_.layers)
      for (std::size_t o = 0; o < layer.weighted.size(); ++o)
        if (layer.weighted[o]) taken_[named(layer.outputs[o])] = true;
    for (std::size_t t = 0; t < uses_.grad_of.size(); ++t)
      if (uses_.grad_of[t] != static_cast<int>(t) && !is_name_[t]) taken_[t] = taken_[root(t)] = true;
  }

  void pass_on(const LayerUse& layer) {
    for (std::size_t i = 0; i < layer.passes_gradient.size(); ++i) {
      const int input = named(layer.inputs[i]), output = layer.outputs[0];
      if (layer.passes_gradient[i] && layer.propagate[i] && layer.converted_from[i] < 0 && is_free(input) &&
          has_grad(output))
        share(input, output);
    }
  }

  void gather(const LayerUse& layer) {
    if (!layer.gathers_gradients || !layer.propagate[0] || layer.converted_from[0] >= 0) return;
    for (std::size_t o = 0; o < std::min<std::size_t>(layer.outputs.size(), 4); ++o) {
      if (!is_free(layer.outputs[o])) continue;
      share(layer.outputs[o], layer.inputs[0]);
      return;
    }
  }

 private:
  std::size_t root(std::size_t tensor) const {
    while (uses_.grad_of[tensor] != static_cast<int>(tensor))
      tensor = static_cast<std::size_t>(uses_.grad_of[tensor]);
    return tensor;
  }
  /// The gradient that this one is but another name for, because no layer works between the two.
  int named(int tensor) const {
    while (is_name_[tensor]) tensor = uses_.grad_of[tensor];
    return tensor;
  }
  bool has_grad(int tensor) const { return uses_.has_grad[tensor]; }
  bool is_free(int tensor) const { return has_grad(tensor) && !taken_[tensor]; }
  /// `tensor` moves into the memory of `owner`; after that neither may move.
  void share(int tensor, int owner) {
    uses_.grad_of[tensor] = owner;
    taken_[tensor] = true;
  }

  TensorUses& uses_;
  std::vector<bool> taken_;    ///< must keep its current gradient memory
  std::vector<bool> is_name_;  ///< of its layer's input: see LayerUse::backward_elsewhere
};

/// Where a layer works on data in place, it does so on its gradient.
void share_in_place(const LayerUse& layer, TensorUses& uses) {
  if (!layer.needs_backward || !layer.in_place || layer.view || !layer.propagate[0]) return;
  const int input = layer.inputs[0], output = layer.outputs[0];
  if (owner_of(uses.data_of, input) != owner_of(uses.data_of, output) || layer.converted_from[0] >= 0) return;
  const auto out = static_cast<std::size_t>(output);
  if (uses.has_grad[out] && uses.grad_of[out] == output && owner_of(uses.grad_of, input) != output)
    uses.grad_of[out] = input;
}

}  // namespace

void share_gradients(TensorUses& uses) {
  for (const LayerUse& layer : uses.layers) share_in_place(layer, uses);
  Sharing sharing(uses);
  for (const LayerUse& layer : uses.layers)
    if (layer.needs_backward) sharing.pass_on(layer);
  for (const LayerUse& layer : uses.layers)
    if (layer.needs_backward) sharing.gather(layer);
}

}  // namespace banyan
