#include "banyan/net/lifetimes.hpp"

#include <algorithm>

namespace banyan {
namespace {

/// Follows a schedule and records which steps use what.
class Walk {
 public:
  explicit Walk(const TensorUses& uses)
      : uses_(uses),
        spans_{std::vector<std::vector<Span>>(uses.data_of.size()), std::vector<Span>(uses.data_of.size())},
        consumed_by_producer_(uses.data_of.size(), false) {}

  void act(const Action& action, int step) {
    step_ = step;
    const LayerUse& layer = uses_.layers[action.layer];
    switch (action.work) {
      case Work::forward:
      case Work::recompute:
        convert(layer);
        return forward(layer);
      case Work::convert:
        return convert(layer);
      case Work::backward:
        if (layer.needs_backward) backward(layer);
    }
  }

  TensorSpans finish(int step) {
    step_ = step;
    for (std::size_t t = 0; t < uses_.data_of.size(); ++t) {
      if (uses_.keeps_data[t]) read(static_cast<int>(t));
      if (uses_.has_grad[t] && !consumed_by_producer_[t]) grad(static_cast<int>(t));
    }
    return std::move(spans_);
  }

 private:
  void convert(const LayerUse& layer) {
    for (std::size_t k = 0; k < layer.inputs.size(); ++k) {
      const int from = layer.converted_from[k];
      if (from < 0) continue;
      read(from);
      if (owner(layer.inputs[k]) != owner(from)) write(layer.inputs[k]);
    }
  }

  void forward(const LayerUse& layer) {
    for (const int input : layer.inputs) read(input);
    for (const int output : layer.outputs) {
      const bool in_place = std::any_of(layer.inputs.begin(), layer.inputs.end(),
                                        [&](int input) { return owner(input) == owner(output); });
      in_place ? read(output) : write(output);
    }
  }

  void backward(const LayerUse& layer) {
    for (std::size_t k = 0; k < layer.inputs.size(); ++k) {
      const int input = layer.inputs[k], from = layer.converted_from[k];
      if (layer.reads_inputs) read(input);
      if (!layer.propagate[k]) continue;
      grad(input);
      if (from < 0) continue;
      grad(from);
      consumed_by_producer_[input] = true;
    }
    for (const int tensor : layer.backward_reads) read(tensor);
    for (const int output : layer.outputs) {
      if (layer.reads_outputs) read(output);
      grad(output);
      consumed_by_producer_[output] = true;
    }
  }

  int owner(int tensor) const { return owner_of(uses_.data_of, tensor); }
  std::vector<Span>& data(int tensor) { return spans_.data[owner(tensor)]; }
  void write(int tensor) { data(tensor).push_back({step_, step_}); }
  void read(int tensor) {
    if (data(tensor).empty()) return write(tensor);  // filled from outside
    data(tensor).back().include(step_);
  }
  void grad(int tensor) {
    if (uses_.has_grad[tensor]) spans_.grad[owner_of(uses_.grad_of, tensor)].include(step_);
  }

  const TensorUses& uses_;
  TensorSpans spans_;
  std::vector<bool> consumed_by_producer_;
  int step_ = 0;
};

}  // namespace

int owner_of(const std::vector<int>& shares_with, int tensor) {
  while (shares_with[tensor] != tensor) tensor = shares_with[tensor];
  return tensor;
}

Schedule plain_schedule(int layers) {
  Schedule schedule;
  for (int l = 0; l < layers; ++l) schedule.push_back({Work::forward, l});
  for (int l = layers - 1; l >= 0; --l) schedule.push_back({Work::backward, l});
  return schedule;
}

TensorSpans find_lifetimes(const TensorUses& uses, const Schedule& schedule) {
  Walk walk(uses);
  for (std::size_t step = 0; step < schedule.size(); ++step) walk.act(schedule[step], static_cast<int>(step));
  return walk.finish(static_cast<int>(schedule.size()));
}

}  // namespace banyan
