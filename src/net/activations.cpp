#include "banyan/net/activations.hpp"

namespace banyan {

bool LayerBlobs::converts() const {
  return std::any_of(conversions.begin(), conversions.end(),
                     [](Conversion conversion) { return conversion != Conversion::none; });
}

bool LayerBlobs::output_like_input() const {
  if (inputs.empty() || outputs.empty()) return false;
  const Blob &in = *inputs[0], &out = *outputs[0];
  return in.shape == out.shape && in.layout == out.layout && in.dtype == out.dtype;
}

Blobs Activations::tensors() const {
  Blobs all;
  for (const auto& blob : blobs) all.push_back(blob.get());
  for (const LayerBlobs& layer : layers)
    for (const auto& stand_in : layer.stand_ins)
      if (stand_in) all.push_back(stand_in.get());
  return all;
}

void add_layer_blobs(const Graph& graph, DType dtype, Activations& activations) {
  LayerBlobs& layer = activations.layers.emplace_back();
  for (const int output : graph.layers.back().outputs) {
    auto blob = std::make_unique<Blob>();
    blob->name = graph.blobs[output].name;
    layer.outputs.push_back(blob.get());
    activations.blobs.push_back(std::move(blob));
  }
  choose_inputs(graph, static_cast<int>(graph.layers.size()) - 1, dtype, activations);
}

void choose_inputs(const Graph& graph, int layer, DType dtype, Activations& activations) {
  const GraphLayer& node = graph.layers[layer];
  LayerBlobs& chosen = activations.layers[layer];
  std::vector<LayoutInput> seen;
  std::vector<DType> types;
  Blobs originals;
  for (const int input : node.inputs) {
    originals.push_back(activations.blobs[input].get());
    seen.push_back({&originals.back()->shape, originals.back()->layout});
    types.push_back(originals.back()->dtype);
  }
  const DType type = choose_type(node.traits.storage, dtype, node.storage, types);
  for (Blob* output : chosen.outputs) output->dtype = type;
  const std::vector<LayoutChoice> choices = choose_layouts(node.traits.layout, seen);
  chosen.inputs = originals;
  chosen.conversions.resize(choices.size());
  chosen.stand_ins.resize(choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    chosen.conversions[i] = types[i] == type ? choices[i].conversion : Conversion::copy;
    std::unique_ptr<Blob>& stand_in = chosen.stand_ins[i];
    if (chosen.conversions[i] == Conversion::none) {
      stand_in.reset();
      continue;
    }
    if (!stand_in) stand_in = std::make_unique<Blob>();
    stand_in->name = originals[i]->name;
    stand_in->dtype = type;
    stand_in->shape = originals[i]->shape;
    stand_in->layout = choices[i].layout;
    chosen.inputs[i] = stand_in.get();
  }
}

}  // namespace banyan
