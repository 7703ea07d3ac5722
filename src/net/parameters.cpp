#include "banyan/net/parameters.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "net/sparsity.hpp"

namespace banyan {
namespace {

/// With room for whole huge pages, of which CPU devices make blocks of this size.
std::int64_t in_huge_pages(std::int64_t bytes) {
  constexpr std::int64_t kHugePage = 2 << 20;
  return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

/// Multipliers of one parameter, and whether the file gives them (among sharers Caffe compares only those
/// given).
struct Multipliers {
  double lr = 1, decay = 1;
  bool lr_given = false, decay_given = false;
};

Multipliers multipliers_of(const Layer& layer, int slot) {
  const Parameter& parameter = layer.parameters()[slot];
  Multipliers result{parameter.lr_mult, parameter.decay_mult, false, false};
  if (parameter.forced_mult >= 0) return {parameter.forced_mult, parameter.forced_mult, true, true};
  if (slot < layer.parameter().param_size()) {
    result.lr_given = layer.parameter().param(slot).has_lr_mult();
    result.decay_given = layer.parameter().param(slot).has_decay_mult();
  }
  return result;
}

bool adds_to_gradient(const Layer& layer, int slot) {
  return slot >= layer.parameter().param_size() || layer.parameter().param(slot).param_propagate_down();
}

std::string described(const Layer& layer) {
  return cat("layer ", quoted(layer.name()), " (", layer.type(), ")");
}

void check_specs(const Layer& layer) {
  const int given = layer.parameter().param_size(), has = static_cast<int>(layer.parameters().size());
  if (given > has)
    bad_input(described(layer), " has ", given, " `param` entries but only ", has, " parameters");
}

/// An owner and what is needed to compare its sharers to it.
struct Shared {
  int index = 0;  // in ParameterStore::parameters
  const Layer* layer = nullptr;
  int slot = 0;
  Multipliers given;
};

void check_shared_shape(const Shared& owner, const Layer& layer, const Parameter& parameter) {
  const Parameter& owned = owner.layer->parameters()[owner.slot];
  if (owned.kind != parameter.kind)
    bad_input("parameter ", quoted(parameter.share_name), " is a running statistic in one of ",
              described(*owner.layer), " and ", described(layer),
              " and learned in the other; they cannot share it");
  if (owned.adjusted || parameter.adjusted)
    bad_input("parameter ", quoted(parameter.share_name), " is shared by ", described(*owner.layer), " and ",
              described(layer), ", which is not possible where it is normalized or kept within limits");
  const bool fits =
      parameter.permissive ? owned.shape.count() == parameter.shape.count() : owned.shape == parameter.shape;
  if (fits) return;
  bad_input(described(layer), " shares parameter ", quoted(parameter.share_name), " of shape ",
            owned.shape.to_string(), " with ", described(*owner.layer), ", but needs shape ",
            parameter.shape.to_string(),
            parameter.permissive ? "" : "; share_mode: PERMISSIVE compares counts only");
}

void merge_multiplier(const char* field, const Shared& owner, const Layer& layer, const std::string& name,
                      bool given, double value, bool& owner_given, double& owner_value) {
  if (!given) return;
  if (owner_given && owner_value != value)
    bad_input("parameter ", quoted(name), " has ", field, " ", owner_value, " in ", described(*owner.layer),
              " and ", value, " in ", described(layer), "; sharers must agree");
  owner_given = true;
  owner_value = value;
}

/// Groups of weights are the owner's: a sharer says the same, or nothing.
void check_sparsity(const Shared& owner, const Layer& layer, int slot, const std::string& name) {
  const std::string given = sparsity_text(layer, slot), owned = sparsity_text(*owner.layer, owner.slot);
  if (given.empty() || given == owned) return;
  bad_input("parameter ", quoted(name), " has ", given, " in ", described(layer), " and ",
            owned.empty() ? "nothing of it" : owned, " in ", described(*owner.layer), "; sharers must agree");
}

std::int64_t padded(std::int64_t count, std::int64_t alignment) {
  return (count + alignment - 1) / alignment * alignment;
}

}  // namespace

ParameterStore collect_parameters(const std::vector<std::unique_ptr<Layer>>& layers) {
  ParameterStore store;
  std::map<std::string, Shared> shared;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const Layer& layer = *layers[l];
    check_specs(layer);
    std::vector<int>& owner = store.owner.emplace_back();
    std::vector<bool>& adds = store.adds.emplace_back();
    for (int slot = 0; slot < static_cast<int>(layer.parameters().size()); ++slot) {
      const Parameter& parameter = layer.parameters()[slot];
      const Multipliers given = multipliers_of(layer, slot);
      adds.push_back(adds_to_gradient(layer, slot));
      const auto known = parameter.share_name.empty() ? shared.end() : shared.find(parameter.share_name);
      if (known != shared.end()) {
        Shared& first = known->second;
        LearnableParameter& entry = store.parameters[first.index];
        check_shared_shape(first, layer, parameter);
        merge_multiplier("lr_mult", first, layer, parameter.share_name, given.lr_given, given.lr,
                         first.given.lr_given, entry.lr_mult);
        merge_multiplier("decay_mult", first, layer, parameter.share_name, given.decay_given, given.decay,
                         first.given.decay_given, entry.decay_mult);
        check_sparsity(first, layer, slot, parameter.share_name);
        owner.push_back(first.index);
        continue;
      }
      const int index = static_cast<int>(store.parameters.size());
      LearnableParameter& entry = store.parameters.emplace_back();
      entry.layer = layer.name();
      entry.slot = slot;
      entry.lr_mult = given.lr;
      entry.decay_mult = given.decay;
      entry.l1 = own_l1(layer, slot);
      entry.sparsity = sparsity_of(layer, slot);
      entry.ready_layer = static_cast<int>(l);  // later sharers finish their backward pass earlier
      entry.count = parameter.shape.count();
      entry.is_statistic = parameter.kind == ParameterKind::statistic;
      if (parameter.adjusted) entry.used = &parameter.used;
      owner.push_back(index);
      if (!parameter.share_name.empty()) shared[parameter.share_name] = {index, &layer, slot, given};
    }
  }
  std::vector<bool> learned(store.parameters.size(), false);
  for (std::size_t l = 0; l < layers.size(); ++l)
    for (std::size_t s = 0; s < store.owner[l].size(); ++s)
      if (store.adds[l][s]) learned[store.owner[l][s]] = true;
  for (std::size_t p = 0; p < learned.size(); ++p)
    if (!learned[p]) store.parameters[p].lr_mult = 0;
  return store;
}

FlatLayout place_parameters(std::vector<LearnableParameter>& parameters, std::int64_t alignment) {
  FlatLayout layout;
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return parameters[a].ready_layer > parameters[b].ready_layer;
  });
  for (const std::size_t i : order) {
    LearnableParameter& parameter = parameters[i];
    parameter.offset = -1;
    if (parameter.is_statistic || parameter.lr_mult == 0) continue;
    parameter.offset = layout.exchanged;
    layout.exchanged += padded(parameter.count, alignment);
  }
  for (LearnableParameter& parameter : parameters) {
    if (!parameter.is_statistic) continue;
    parameter.offset = layout.statistics;
    layout.statistics += padded(parameter.count, alignment);
  }
  return layout;
}

void bind_parameters(Context& context, DType dtype, FlatGradients gradients,
                     const std::vector<std::unique_ptr<Layer>>& layers, ParameterStore& store) {
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  const FlatLayout flat = place_parameters(store.parameters, 64 / element);
  const bool flat_gradients = gradients != FlatGradients::none;
  const auto zeros = [&](std::int64_t count, bool in_pages = false) {
    const std::int64_t room = in_pages ? in_huge_pages(count * element) / element : count;
    Tensor tensor = Tensor(context.device(), Shape{room}, dtype).slice(0, Shape{count});
    context.stream().zero(tensor.raw(), tensor.bytes());
    return tensor;
  };
  const bool copied = gradients == FlatGradients::copied && context.device().in_host_memory();
  if (flat.exchanged > 0) store.flat_values = zeros(flat.exchanged);
  if (flat.exchanged > 0 && flat_gradients) store.flat_gradients = zeros(flat.exchanged, copied);
  if (flat.statistics > 0) store.statistics = zeros(flat.statistics);
  for (std::size_t l = 0; l < layers.size(); ++l) {
    for (std::size_t s = 0; s < store.owner[l].size(); ++s) {
      LearnableParameter& entry = store.parameters[store.owner[l][s]];
      Parameter& parameter = layers[l]->parameters()[s];
      if (!entry.value.defined()) {
        const bool frozen = entry.offset < 0;
        Tensor& home = entry.is_statistic ? store.statistics : store.flat_values;
        entry.value =
            frozen ? zeros(entry.count).reshaped(parameter.shape) : home.slice(entry.offset, parameter.shape);
        if (!frozen && !entry.is_statistic && flat_gradients)
          entry.grad = store.flat_gradients.slice(entry.offset, parameter.shape);
      }
      parameter.value = entry.value.reshaped(parameter.shape);
      if (entry.grad.defined() && store.adds[l][s]) parameter.grad = entry.grad.reshaped(parameter.shape);
      parameter.lr_mult = entry.lr_mult;
      parameter.decay_mult = entry.decay_mult;
    }
  }
}

void bind_gradients(const Tensor& memory, const std::vector<std::int64_t>& places,
                    const std::vector<std::unique_ptr<Layer>>& layers, ParameterStore& store) {
  for (std::size_t p = 0; p < store.parameters.size(); ++p) {
    LearnableParameter& entry = store.parameters[p];
    const bool placed = memory.defined() && places[p] >= 0;
    entry.grad =
        placed ? memory.bytes_as(places[p], entry.value.dtype(), entry.value.shape(), Layout::contiguous)
               : Tensor();
  }
  for (std::size_t l = 0; l < layers.size(); ++l)
    for (std::size_t s = 0; s < store.owner[l].size(); ++s) {
      const Tensor& grad = store.parameters[store.owner[l][s]].grad;
      Parameter& parameter = layers[l]->parameters()[s];
      parameter.grad = grad.defined() && store.adds[l][s] ? grad.reshaped(parameter.shape) : Tensor();
    }
}

}  // namespace banyan
