#include "banyan/net/fusion.hpp"

namespace banyan {
namespace {

class Search {
 public:
  Search(const Graph& graph, const std::vector<bool>& converts, const std::vector<int>& affines,
         const std::vector<int>& kept_by)
      : graph_(graph),
        converts_(converts),
        kept_by_(kept_by),
        fusions_(only_affines(affines)),
        runner_(graph.layers.size(), -1) {
    for (std::size_t i = 0; i < affines.size(); ++i)
      if (affines[i] >= 0) runner_[affines[i]] = static_cast<int>(i);
  }

  void fuse_relu(int index) {
    const GraphLayer& relu = layer(index);
    if (!relu.traits.relu_slope || converts_[index] || relu.weighted()) return;
    if (graph_.only_reader(relu.inputs[0]) != index) return;
    const ops::Rectifier rectifier{true, *relu.traits.relu_slope};
    Fusion& fusion = fusions_[index];
    const int producer = maker_of(relu.inputs[0]);
    if (producer >= 0) {
      // A kept output holds normalized values after the activation, which the backward pass undoes.
      const ReluFusion fuses =
          kept_by_[producer] < 0 ? layer(producer).traits.fuses_relu : ReluFusion::forward;
      // With a negative slope the output does not determine the input's sign, which only `both` can do
      // without.
      if (fuses == ReluFusion::both || (fuses == ReluFusion::forward && rectifier.slope >= 0)) {
        fusions_[producer].output = rectifier;
        fusion.forward_elsewhere = true;
        fusion.backward_elsewhere = fuses == ReluFusion::both;
      }
    }
    if (!relu.needs_backward || fusion.backward_elsewhere || rectifier.slope < 0) return;
    const int reader = graph_.only_reader(relu.outputs[0]);
    if (reader < 0 || !layer(reader).traits.fuses_relu_of_input || converts_[reader]) return;
    if (layer(reader).inputs.size() != 1 || !layer(reader).propagate[0]) return;
    fusions_[reader].input = rectifier;
    fusion.backward_elsewhere = true;
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
  std::vector<int> runner_;  ///< per layer: the one that applies its slope and bias, or -1
};

}  // namespace

std::vector<int> find_affines(const Graph& graph, const std::vector<bool>& converts) {
  std::vector<int> found(graph.layers.size(), -1);
  for (std::size_t i = 0; i < graph.layers.size(); ++i) {
    const GraphLayer& layer = graph.layers[i];
    if (!layer.traits.fuses_affine || layer.outputs.size() != 1 || layer.weighted()) continue;
    const int reader = graph.only_reader(layer.outputs[0]);
    if (reader < 0 || converts[reader]) continue;
    const GraphLayer& next = graph.layers[reader];
    if (next.traits.channel_slope >= 0 && next.needs_backward == layer.needs_backward) found[i] = reader;
  }
  return found;
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
  Search search(graph, converts, affines, kept_by);
  const int layers = static_cast<int>(graph.layers.size());
  for (int i = 0; i < layers; ++i) search.fuse_relu(i);
  for (int i = 0; i < layers; ++i) search.fuse_sum(i);
  return search.take();
}

}  // namespace banyan
