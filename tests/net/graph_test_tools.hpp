// Graphs for tests of decisions on graphs.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "banyan/net/graph.hpp"

namespace banyan {

/// A layer with a backward pass to all its inputs.
inline GraphLayer graph_layer(std::vector<int> inputs, std::vector<int> outputs, LayerTraits traits = {}) {
  GraphLayer layer;
  layer.propagate.assign(inputs.size(), true);
  layer.loss_weights.assign(outputs.size(), 0);
  layer.needs_backward = true;
  layer.inputs = std::move(inputs);
  layer.outputs = std::move(outputs);
  layer.traits = std::move(traits);
  return layer;
}

/// Numbers stand for blobs like names in a file: one that is written again is another blob of the same name.
inline Graph graph_of(std::vector<GraphLayer> layers) {
  Graph graph;
  graph.trains = true;
  std::map<int, int> last;
  const auto add_blob = [&](int number, int producer, int output) {
    last[number] = static_cast<int>(graph.blobs.size());
    graph.by_name[std::to_string(number)] = last[number];
    graph.blobs.push_back({std::to_string(number), producer, output, {}});
    return last[number];
  };
  for (GraphLayer& layer : layers) {
    const int index = static_cast<int>(graph.layers.size());
    for (int& input : layer.inputs) {
      if (last.count(input) == 0) ADD_FAILURE() << "nothing makes blob " << input;
      input = last[input];
      graph.blobs[input].readers.push_back(index);
    }
    for (std::size_t o = 0; o < layer.outputs.size(); ++o)
      layer.outputs[o] = add_blob(layer.outputs[o], index, static_cast<int>(o));
    graph.layers.push_back(std::move(layer));
  }
  return graph;
}

}  // namespace banyan
