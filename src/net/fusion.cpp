#include "banyan/net/fusion.hpp"

#include <algorithm>

#include "banyan/base/contains.hpp"

namespace banyan {
namespace {

class FusionSearch {
 public:
  FusionSearch(const Graph& graph, const std::vector<bool>& converts, const std::vector<int>& affines,
               const std::vector<int>& kept_by)
      : graph_(graph),
        converts_(converts),
        kept_by_(kept_by),
        fusions_(only_affines(affines)),
        runner_(graph.layers.size(), -1),
        runs_forward_of_(graph.layers.size(), -1) {
    for (std::size_t i = 0; i < affines.size(); ++i)
      if (affines[i] >= 0) runner_[affines[i]] = static_cast<int>(i);
  }

  void fuse_activation(int index) {
    const GraphLayer& own = layer(index);
    const ops::Activation& activation = own.traits.activation;
    if (!activation.on() || converts_[index] || own.weighted()) return;
    if (graph_.only_reader(own.inputs[0]) != index) return;
    Fusion& fusion = fusions_[index];
    const int producer = maker_of(own.inputs[0]);
    if (producer >= 0) {
      // A kept output holds normalized values after the activation, which the backward pass undoes.
      const ActivationFusion fuses =
          kept_by_[producer] < 0 ? layer(producer).traits.fuses_activation : ActivationFusion::forward;
      // What the output does not show is in the input, which a gradient can do without only by `both`.
      const bool output_suffices = activation.shows_gradient() || !own.needs_backward;
      if (fuses == ActivationFusion::both || (fuses == ActivationFusion::forward && output_suffices)) {
        fusions_[producer].output = activation;
        fusion.forward_elsewhere = true;
        fusion.backward_elsewhere = fuses == ActivationFusion::both;
        runs_forward_of_[index] = producer;
      }
    }
    if (!own.needs_backward || fusion.backward_elsewhere || !activation.shows_gradient()) return;
    const int reader = graph_.only_reader(own.outputs[0]);
    if (reader < 0 || !takes_gradient_of(activation, reader) || converts_[reader]) return;
    if (layer(reader).inputs.size() != 1 || !layer(reader).propagate[0]) return;
    fusions_[reader].input = activation;
    fusion.backward_elsewhere = true;
  }

  void fuse_dropout(int index) {
    const GraphLayer& drop = layer(index);
    if (!drop.traits.dropping.on() || converts_[index] || drop.weighted()) return;
    if (graph_.only_reader(drop.inputs[0]) != index) return;
    const int before = graph_.blobs[drop.inputs[0]].producer;
    const int runner = runs_forward_of_[before] >= 0 ? runs_forward_of_[before] : before;
    if (!layer(runner).traits.fuses_dropout) return;
    for (const int maker : {before, runner}) {
      const bool rereads = layer(maker).needs_backward && layer(maker).traits.backward_reads_outputs &&
                           !fusions_[maker].backward_elsewhere;
      if (layer(maker).outputs.size() != 1 || layer(maker).weighted() || rereads) return;
    }
    if (contains(kept_by_, before)) return;
    fusions_[runner].drop_layer = index;
    fusions_[index].forward_elsewhere = true;
  }

  void fuse_sum(int index) {
    const GraphLayer& sum = layer(index);
    if (!sum.traits.plain_sum || sum.inputs.size() != 2 || converts_[index] || sum.weighted()) return;
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}}) {
      const int own = sum.inputs[k], other = sum.inputs[1 - k];
      const int maker = maker_of(own);
      if (maker < 0 || !layer(maker).traits.fuses_sum || graph_.only_reader(own) != index) continue;
      if (graph_.blobs[other].producer >= maker) continue;  // not made yet
      Fusion& runner = fusions_[maker];
      runner.sum_layer = index;
      runner.addend = other;
      runner.sum = fusions_[index].output;
      fusions_[index].forward_elsewhere = true;
      return;
    }
  }

  std::vector<Fusion> take() { return std::move(fusions_); }

 private:
  const GraphLayer& layer(int index) const { return graph_.layers[index]; }
  /// Can the backward pass of `reader` end with the gradient of an activation that made its input?
  bool takes_gradient_of(const ops::Activation& activation, int reader) const {
    switch (layer(reader).traits.fuses_activation_of_input) {
      case InputActivation::none:
        return false;
      case InputActivation::by_input:
        return true;
      case InputActivation::relu_by_output:
        break;
    }
    // A normalization that recovers its input wants to overwrite it.
    const std::vector<int>& next = graph_.blobs[layer(reader).outputs[0]].readers;
    return activation.kind == ops::Activation::Kind::relu &&
           std::none_of(next.begin(), next.end(), [&](int other) { return kept_by_[other] >= 0; });
  }
  /// The layer whose only output is `blob`, needed by nobody but its reader; -1: there is none.
  int maker_of(int blob) const {
    const int producer = graph_.blobs[blob].producer;
    const int index = runner_[producer] >= 0 ? runner_[producer] : producer;
    const GraphLayer& maker = layer(index);
    const bool rereads = maker.needs_backward && maker.traits.backward_reads_outputs;
    return maker.outputs.size() == 1 && !layer(producer).weighted() && !rereads ? index : -1;
  }

  const Graph& graph_;
  const std::vector<bool>& converts_;
  const std::vector<int>& kept_by_;
  std::vector<Fusion> fusions_;
  std::vector<int> runner_;           ///< per layer: the one that applies its slope and bias, or -1
  std::vector<int> runs_forward_of_;  ///< per layer: the one that ends with its activation, or -1
};

}  // namespace

void fuse_expansions(const Graph& graph, const std::vector<bool>& converts,
                     const std::function<bool(int layer)>& pays, std::vector<Fusion>& fusions) {
  for (int index = 0; index < static_cast<int>(graph.layers.size()); ++index) {
    const GraphLayer& layer = graph.layers[index];
    if (!layer.traits.fuses_pointwise || converts[index] || fusions[index].forward_elsewhere) continue;
    // Back over the activation that the pointwise convolution runs.
    std::vector<int> left_out{graph.blobs[layer.inputs[0]].producer};
    if (fusions[left_out[0]].forward_elsewhere && graph.layers[left_out[0]].traits.activation.on())
      left_out.push_back(graph.blobs[graph.layers[left_out[0]].inputs[0]].producer);
    const int pointwise = left_out.back();
    const Fusion& own = fusions[pointwise];
    const bool possible = graph.layers[pointwise].traits.pointwise && !converts[pointwise] &&
                          own.output.kind != ops::Activation::Kind::elu && !own.forward_elsewhere &&
                          own.drop_layer < 0 && own.sum_layer < 0 && own.affine < 0 && pays(pointwise);
    const bool unseen = std::all_of(left_out.begin(), left_out.end(), [&](int other) {
      const GraphLayer& part = graph.layers[other];
      return part.outputs.size() == 1 && !part.weighted() && graph.only_reader(part.outputs[0]) >= 0;
    });
    if (!possible || !unseen) continue;
    fusions[index].expansion = pointwise;
    for (const int other : left_out) fusions[other].forward_elsewhere = fusions[other].left_out = true;
  }
}

std::vector<int> find_affines(const Graph& graph, const std::vector<bool>& converts) {
  std::vector<int> found(graph.layers.size(), -1);
  for (std::size_t i = 0; i < graph.layers.size(); ++i) {
    const GraphLayer& layer = graph.layers[i];
    if (!layer.traits.fuses_affine || layer.outputs.size() != 1 || layer.weighted()) continue;
    const int reader = graph.only_reader(layer.outputs[0]);
    if (reader < 0 || converts[reader]) continue;
    if (graph.layers[reader].traits.channel_slope >= 0) found[i] = reader;
  }
  return found;
}

Graph with_affines(Graph graph, const std::vector<int>& affines) {
  for (std::size_t i = 0; i < affines.size(); ++i) {
    if (affines[i] < 0) continue;
    GraphLayer &layer = graph.layers[i], &next = graph.layers[affines[i]];
    layer.needs_backward = next.propagate[0] = next.needs_backward;
  }
  return graph;
}

std::vector<Fusion> only_affines(const std::vector<int>& affines) {
  std::vector<Fusion> fusions(affines.size());
  for (std::size_t i = 0; i < affines.size(); ++i) {
    if (affines[i] < 0) continue;
    fusions[i].affine = affines[i];
    Fusion& part = fusions[affines[i]];
    part.forward_elsewhere = part.backward_elsewhere = true;
  }
  return fusions;
}

std::vector<Fusion> find_fusions(const Graph& graph, const std::vector<bool>& converts,
                                 const std::vector<int>& affines, const std::vector<int>& kept_by) {
  FusionSearch search(graph, converts, affines, kept_by);
  const int layers = static_cast<int>(graph.layers.size());
  for (int i = 0; i < layers; ++i) search.fuse_activation(i);
  for (int i = 0; i < layers; ++i) search.fuse_dropout(i);
  for (int i = 0; i < layers; ++i) search.fuse_sum(i);
  return search.take();
}

}  // namespace banyan
