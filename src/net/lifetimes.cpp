#include "banyan/net/lifetimes.hpp"

namespace banyan {
namespace {

int root(const std::vector<int>& shares_with, int tensor) {
  while (shares_with[static_cast<std::size_t>(tensor)] != tensor)
    tensor = shares_with[static_cast<std::size_t>(tensor)];
  return tensor;
}

}  // namespace

TensorSpans find_lifetimes(const TensorUses& uses) {
  const std::size_t tensors = uses.data_of.size();
  TensorSpans spans{std::vector<Span>(tensors), std::vector<Span>(tensors)};
  const auto data = [&](int t) -> Span& {
    return spans.data[static_cast<std::size_t>(root(uses.data_of, t))];
  };
  const auto grad = [&](int t, int step) {
    if (uses.has_grad[static_cast<std::size_t>(t)])
      spans.grad[static_cast<std::size_t>(root(uses.grad_of, t))].include(step);
  };
  const int n = static_cast<int>(uses.layers.size());
  std::vector<bool> consumed_by_producer(tensors, false);
  for (int i = 0; i < n; ++i) {
    const LayerUse& layer = uses.layers[static_cast<std::size_t>(i)];
    const int forward = i, backward = 2 * n - 1 - i;
    for (std::size_t k = 0; k < layer.inputs.size(); ++k) {
      const int input = layer.inputs[k], from = layer.converted_from[k];
      data(input).include(forward);
      if (from >= 0) data(from).include(forward);
      if (!layer.needs_backward) continue;
      if (layer.reads_inputs) data(input).include(backward);
      if (!layer.propagate[k]) continue;
      grad(input, backward);
      if (from >= 0) {
        grad(from, backward);
        consumed_by_producer[static_cast<std::size_t>(input)] = true;
      }
    }
    for (const int output : layer.outputs) {
      data(output).include(forward);
      if (!layer.needs_backward) continue;
      if (layer.reads_outputs) data(output).include(backward);
      grad(output, backward);
      consumed_by_producer[static_cast<std::size_t>(output)] = true;
    }
  }
  for (std::size_t t = 0; t < tensors; ++t) {
    if (uses.keeps_data[t]) data(static_cast<int>(t)).include(2 * n);
    if (uses.has_grad[t] && !consumed_by_producer[t]) grad(static_cast<int>(t), 2 * n);
  }
  return spans;
}

}  // namespace banyan
