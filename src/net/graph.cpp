#include "banyan/net/graph.hpp"

#include <algorithm>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/net/connections.hpp"

namespace banyan {
namespace {

void add_output(Graph& graph, const std::string& name) {
  const int layer = static_cast<int>(graph.layers.size()) - 1;
  std::vector<int>& outputs = graph.layers.back().outputs;
  graph.blobs.push_back({name, layer, static_cast<int>(outputs.size()), {}});
  outputs.push_back(static_cast<int>(graph.blobs.size()) - 1);
}

/// Which layers could have a backward pass: they, or layers below them, want a gradient.
void mark_wanted(Graph& graph, bool force_backward) {
  for (GraphLayer& layer : graph.layers) {
    layer.needs_backward = layer.learns;
    layer.propagate.clear();
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      bool wanted = force_backward || graph.producer_of(layer.inputs[i]).needs_backward;
      if (!force_backward && !layer.propagate_down.empty()) wanted = layer.propagate_down[i] != 0;
      layer.propagate.push_back(wanted && layer.traits.differentiable(static_cast<int>(i)) &&
                                graph.is_differentiable(layer.inputs[i]));
      layer.needs_backward = layer.needs_backward || layer.propagate[i];
    }
  }
}

/// Do only layers that pass it on, or none, read the blob?
bool is_only_shown(const Graph& graph, int blob) {
  const std::vector<int>& readers = graph.blobs[blob].readers;
  return std::all_of(readers.begin(), readers.end(), [&](int reader) {
    const std::vector<int>& outputs = graph.layers[reader].outputs;
    const bool passes_on = graph.layers[reader].type == "Split" || outputs.empty();
    return passes_on && std::all_of(outputs.begin(), outputs.end(),
                                    [&](int output) { return is_only_shown(graph, output); });
  });
}

}  // namespace

const GraphLayer& Graph::producer_of(int blob) const { return layers[blobs[blob].producer]; }

double Graph::loss_weight(int blob) const { return producer_of(blob).loss_weights[blobs[blob].output]; }

int Graph::only_reader(int blob) const {
  const std::vector<int>& readers = blobs[blob].readers;
  return readers.size() == 1 ? readers[0] : -1;
}

bool Graph::is_differentiable(int blob) const {
  return producer_of(blob).traits.differentiable_output(blobs[blob].output);
}

bool Graph::receives_gradient(int blob) const {
  for (const int reader : blobs[blob].readers) {
    const GraphLayer& layer = layers[reader];
    for (std::size_t i = 0; i < layer.propagate.size(); ++i)
      if (layer.inputs[i] == blob && layer.propagate[i]) return true;
  }
  return false;
}

bool Graph::has_gradient(int blob) const {
  return receives_gradient(blob) || (producer_of(blob).needs_backward && loss_weight(blob) != 0);
}

std::vector<int> Graph::outputs() const {
  std::vector<int> found;
  for (const auto& [name, blob] : by_name)
    if (blobs[blob].readers.empty()) found.push_back(blob);
  return found;
}

void add_layer(Graph& graph, const caffe::LayerParameter& parameter, const LayerTraits& traits) {
  const int outputs = output_count(parameter, traits);
  check_arity(parameter, traits.arity, outputs);
  const int index = static_cast<int>(graph.layers.size());
  GraphLayer& layer = graph.layers.emplace_back();
  layer.name = parameter.name();
  layer.type = parameter.type();
  layer.traits = traits;
  layer.propagate_down.assign(parameter.propagate_down().begin(), parameter.propagate_down().end());
  for (const std::string& bottom : parameter.bottom()) {
    layer.inputs.push_back(graph.by_name.at(bottom));
    graph.blobs[layer.inputs.back()].readers.push_back(index);
  }
  for (const std::string& top : parameter.top()) {
    add_output(graph, top);
    graph.by_name[top] = layer.outputs.back();
  }
  if (outputs > parameter.top_size()) add_output(graph, "(automatic)");
  for (int o = 0; o < outputs; ++o) {
    const double absent = traits.loss && o == 0 ? 1 : 0;
    layer.loss_weights.push_back(o < parameter.loss_weight_size() ? parameter.loss_weight(o) : absent);
  }
}

void mark_backward(Graph& graph, bool force_backward) {
  mark_wanted(graph, force_backward);
  for (std::size_t l = graph.layers.size(); l-- > 0;) {
    GraphLayer& layer = graph.layers[l];
    const bool contributes = std::any_of(layer.outputs.begin(), layer.outputs.end(), [&](int output) {
      return graph.is_differentiable(output) &&
             (graph.loss_weight(output) != 0 || graph.receives_gradient(output));
    });
    layer.needs_backward = graph.trains && layer.needs_backward && contributes;
    if (!layer.needs_backward) layer.propagate.assign(layer.inputs.size(), false);
  }
}

std::vector<int> layers_after(const Graph& graph, int layer) {
  std::vector<bool> is_after(graph.layers.size(), false);
  is_after[layer] = true;
  std::vector<int> found;
  for (int l = layer + 1; l < static_cast<int>(graph.layers.size()); ++l) {
    const std::vector<int>& inputs = graph.layers[l].inputs;
    is_after[l] = std::any_of(inputs.begin(), inputs.end(),
                              [&](int input) { return is_after[graph.blobs[input].producer]; });
    if (is_after[l]) found.push_back(l);
  }
  return found;
}

void check_shares(const Graph& graph) {
  std::vector<bool> from_batch(graph.blobs.size());  // is it different on each device?
  for (const GraphLayer& layer : graph.layers) {
    const bool differs = layer.traits.source || std::any_of(layer.inputs.begin(), layer.inputs.end(),
                                                            [&](int input) { return from_batch[input]; });
    for (const int output : layer.outputs) from_batch[output] = differs;
    for (std::size_t i = 0; i < layer.inputs.size() && layer.traits.compared_inputs >= 0; ++i)
      if (static_cast<int>(i) >= layer.traits.compared_inputs && from_batch[layer.inputs[i]])
        bad_input("layer ", quoted(layer.name), " (", layer.type, ") compares each sample with all of input ",
                  i + 1, ", of which each device has a share: this needs one device");
    if (layer.traits.loss) continue;
    for (int o = 0; o < layer.traits.shares && o < static_cast<int>(layer.outputs.size()); ++o) {
      if (!is_only_shown(graph, layer.outputs[o]))
        bad_input("layer ", quoted(layer.name), " (", layer.type,
                  ") reduces the batch, of which each device has a share: on several devices no layer can "
                  "read its output");
      if (!differs)
        bad_input("layer ", quoted(layer.name), " (", layer.type,
                  ") reduces a blob that is the same on every device as if it were the batch: this needs one "
                  "device");
    }
  }
}

}  // namespace banyan
