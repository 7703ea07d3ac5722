#include "banyan/net/fusion.hpp"

#include "banyan/base/contains.hpp"

namespace banyan {
namespace {

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

void fuse_relus(const std::vector<FusionNode>& layers, std::vector<Fusion>& fusions) {
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
        fusions[static_cast<std::size_t>(producer)].runs.output = rectifier;
        fusions[i].forward_elsewhere = true;
        fusions[i].backward_elsewhere = fuses == ReluFusion::both;
      }
    }
    if (!relu.needs_backward || fusions[i].backward_elsewhere || rectifier.slope < 0) continue;
    const int reader = reader_of(layers, static_cast<int>(i), relu.outputs[0]);
    if (reader < 0) continue;
    const FusionNode& behind = layers[static_cast<std::size_t>(reader)];
    if (!behind.fuses_relu_of_input || behind.converts_inputs || !behind.propagate[0]) continue;
    fusions[static_cast<std::size_t>(reader)].runs.input = rectifier;
    fusions[i].backward_elsewhere = true;
  }
}

/// The layer that can run `sum`, being the one that makes its input `own`; -1: none. The other input must be
/// complete by then.
int maker_of(const std::vector<FusionNode>& layers, int sum, int own, int other) {
  const int maker = producer_of(layers, sum, own);
  if (maker < 0 || own == other) return -1;
  const FusionNode& made = layers[static_cast<std::size_t>(maker)];
  if (!made.fuses_sum || made.inputs == made.outputs) return -1;
  for (int i = maker; i < sum; ++i)
    if (contains(layers[static_cast<std::size_t>(i)].outputs, other)) return -1;
  for (std::size_t i = static_cast<std::size_t>(sum) + 1; i < layers.size(); ++i)
    if (contains(layers[i].inputs, own) || contains(layers[i].outputs, own)) return -1;
  return maker;
}

void fuse_sums(const std::vector<FusionNode>& layers, std::vector<Fusion>& fusions) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const FusionNode& sum = layers[i];
    if (!sum.is_plain_sum || sum.inputs.size() != 2 || sum.converts_inputs || sum.weighted) continue;
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}}) {
      const int maker = maker_of(layers, static_cast<int>(i), sum.inputs[k], sum.inputs[1 - k]);
      if (maker < 0) continue;
      Fusion& runner = fusions[static_cast<std::size_t>(maker)];
      runner.sum = static_cast<int>(i);
      runner.addend = sum.inputs[1 - k];
      runner.runs.sum = fusions[i].runs.output;
      fusions[i].forward_elsewhere = true;
      break;
    }
  }
}

}  // namespace

std::vector<Fusion> find_fusions(const std::vector<FusionNode>& layers) {
  std::vector<Fusion> fusions(layers.size());
  fuse_relus(layers, fusions);
  fuse_sums(layers, fusions);
  return fusions;
}

}  // namespace banyan
