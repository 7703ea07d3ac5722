#include "banyan/net/fusion.hpp"

#include <algorithm>

namespace banyan {
namespace {

bool contains(const std::vector<int>& blobs, int blob) {
  return std::find(blobs.begin(), blobs.end(), blob) != blobs.end();
}

/// The last layer before `relu` that touches `blob`; -1 if it does more than write it.
int producer_of(const std::vector<FusionNode>& layers, int relu, int blob) {
  for (int i = relu - 1; i >= 0; --i) {
    const FusionNode& layer = layers[static_cast<std::size_t>(i)];
    if (!contains(layer.inputs, blob) && !contains(layer.outputs, blob)) continue;
    return layer.outputs == std::vector<int>{blob} && !layer.weighted ? i : -1;
  }
  return -1;
}

/// The one layer behind `relu` that touches `blob`; -1 if there are others or it does more than read it.
int reader_of(const std::vector<FusionNode>& layers, int relu, int blob) {
  int reader = -1;
  for (int i = relu + 1; i < static_cast<int>(layers.size()); ++i) {
    const FusionNode& layer = layers[static_cast<std::size_t>(i)];
    if (!contains(layer.inputs, blob) && !contains(layer.outputs, blob)) continue;
    if (reader >= 0 || layer.inputs != std::vector<int>{blob} || contains(layer.outputs, blob)) return -1;
    reader = i;
  }
  return reader;
}

}  // namespace

std::vector<Fusion> find_relu_fusions(const std::vector<FusionNode>& layers) {
  std::vector<Fusion> fusions(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const FusionNode& relu = layers[i];
    if (!relu.relu_slope || relu.inputs != relu.outputs || relu.converts_inputs || relu.weighted) continue;
    const ops::Rectifier rectifier{true, *relu.relu_slope};
    const int producer = producer_of(layers, static_cast<int>(i), relu.inputs[0]);
    if (producer >= 0) {
      const ReluFusion fuses = layers[static_cast<std::size_t>(producer)].fuses_relu;
      // With a negative slope the output does not tell the sign of the input, which only a layer that needs
      // neither can do without.
      if (fuses == ReluFusion::both || (fuses == ReluFusion::forward && rectifier.slope >= 0)) {
        fusions[static_cast<std::size_t>(producer)].relus.output = rectifier;
        fusions[i].forward_elsewhere = true;
        fusions[i].backward_elsewhere = fuses == ReluFusion::both;
      }
    }
    if (!relu.needs_backward || fusions[i].backward_elsewhere || rectifier.slope < 0) continue;
    const int reader = reader_of(layers, static_cast<int>(i), relu.outputs[0]);
    if (reader < 0) continue;
    const FusionNode& behind = layers[static_cast<std::size_t>(reader)];
    if (!behind.fuses_relu_of_input || behind.converts_inputs || !behind.propagate[0]) continue;
    fusions[static_cast<std::size_t>(reader)].relus.input = rectifier;
    fusions[i].backward_elsewhere = true;
  }
  return fusions;
}

}  // namespace banyan
