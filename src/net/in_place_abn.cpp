#include "banyan/net/in_place_abn.hpp"

#include "banyan/base/text.hpp"

namespace banyan {
namespace {

class InPlaceAbnSearch {
 public:
  InPlaceAbnSearch(const Graph& graph, const std::vector<bool>& converts, const std::vector<int>& affines)
      : graph_(graph), converts_(converts), affines_(affines) {}

  InPlaceAbn judge(int norm) const {
    const GraphLayer& layer = graph_.layers[norm];
    if (converts_[norm]) return no(norm, "the layout of its input is converted");
    const GraphLayer& end = affines_[norm] < 0 ? layer : graph_.layers[affines_[norm]];
    const std::vector<int>& readers = readers_of(end.outputs[0]);
    if (readers.empty() || end.weighted()) return no(norm, "its output is an output of the net");
    const int activation = readers[0];
    const GraphLayer& next = graph_.layers[activation];
    if (!next.traits.activation.invertible() || next.inputs[0] != end.outputs[0] || converts_[activation])
      return no(norm, cat("after it comes ", described(next),
                          ", not a ReLU with negative_slope > 0 or an ELU with alpha > 0"));
    if (readers.size() > 1)
      return no(norm, cat(described(graph_.layers[readers[1]]), " reads its output too"));
    if (is_kept(next.outputs[0]))
      return no(norm, cat("the output of ", described(next), " is an output of the net"));
    const std::string other = needed_by(norm, layer.inputs[0]);
    return other.empty() ? InPlaceAbn{norm, activation, ""} : no(norm, other);
  }

 private:
  static std::string described(const GraphLayer& layer) {
    return cat(quoted(layer.name), " (", layer.type, ")");
  }
  static InPlaceAbn no(int norm, std::string reason) { return {norm, -1, std::move(reason)}; }
  const std::vector<int>& readers_of(int blob) const { return graph_.blobs[blob].readers; }

  /// Is the blob's memory wanted after the pass, under any name?
  bool is_kept(int blob) const {
    if (readers_of(blob).empty() || graph_.loss_weight(blob) != 0) return true;
    for (const int reader : readers_of(blob)) {
      const GraphLayer& layer = graph_.layers[reader];
      if (layer.traits.view == View::none) continue;
      for (const int output : layer.outputs)
        if (is_kept(output)) return true;
    }
    return false;
  }

  /// Who else needs `blob`, the input of `norm`: a clause for a message, empty if nobody does.
  std::string needed_by(int norm, int blob) const {
    const GraphLayer& producer = graph_.producer_of(blob);
    if (producer.traits.view != View::none) return shared_with(norm, producer, blob);
    if (producer.traits.source) return cat("its input comes from ", described(producer));
    if (graph_.loss_weight(blob) != 0) return "its input has a loss weight";
    for (const int reader : readers_of(blob))
      if (reader != norm) return cat(described(graph_.layers[reader]), " reads its input too");
    if (producer.needs_backward && producer.traits.backward_reads_outputs)
      return cat("the backward pass of ", described(producer), " reads its input");
    return "";
  }

  /// `view` (a Split, a Flatten, ...) presents the same memory as several blobs.
  std::string shared_with(int norm, const GraphLayer& view, int blob) const {
    for (const int other : view.outputs)
      for (const int reader : readers_of(other))
        if (other != blob && reader != norm)
          return cat(described(graph_.layers[reader]), " reads its input too");
    return cat("its input is the memory of another blob, by ", described(view));
  }

  const Graph& graph_;
  const std::vector<bool>& converts_;
  const std::vector<int>& affines_;
};

}  // namespace

std::vector<InPlaceAbn> find_in_place_abn(const Graph& graph, const std::vector<bool>& converts,
                                          const std::vector<int>& affines) {
  const InPlaceAbnSearch search(graph, converts, affines);
  std::vector<InPlaceAbn> found;
  for (int i = 0; i < static_cast<int>(graph.layers.size()); ++i) {
    const GraphLayer& layer = graph.layers[i];
    // One that neither learns nor passes a gradient on has a backward pass only for the Scale after it:
    // frozen layers keep little as it is, and may have slopes of 0 (of pruned channels).
    if (layer.traits.recovers_input && layer.needs_backward && (layer.learns || layer.propagate[0]))
      found.push_back(search.judge(i));
  }
  return found;
}

}  // namespace banyan
