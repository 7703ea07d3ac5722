// Activations: the blobs of a graph with their shapes, layouts and types, and what each layer gets for them.
// Layers set the shapes of their outputs (Layer::reshape); the executor binds the storage.
#pragma once

#include <memory>
#include <vector>

#include "banyan/net/graph.hpp"
#include "banyan/net/layout_plan.hpp"

namespace banyan {

struct LayerBlobs {
  /// What the layer gets: the graph's blobs, or stand-ins for inputs in another layout or type than it takes.
  Blobs inputs, outputs;
  std::vector<Conversion> conversions;           ///< one per input
  std::vector<std::unique_ptr<Blob>> stand_ins;  ///< one per input; null where nothing is converted

  bool converts() const;
  /// May the first input and output share memory, judging by shape, layout and type?
  bool output_like_input() const;
};

struct Activations {
  std::vector<std::unique_ptr<Blob>> blobs;  ///< indexed by the graph's blob numbers
  std::vector<LayerBlobs> layers;

  /// Numbered as in plans: the graph's blobs first, then stand-ins in layer order.
  Blobs tensors() const;
};

/// Makes the blobs of the layer last added to the graph. `dtype`, here and below: the type of activations
/// that are not stored in 16 bits.
void add_layer_blobs(const Graph& graph, DType dtype, Activations& activations);
/// Chooses the layer's inputs from its bottoms' current shapes, layouts and types, and the type of its
/// outputs.
void choose_inputs(const Graph& graph, int layer, DType dtype, Activations& activations);

}  // namespace banyan
