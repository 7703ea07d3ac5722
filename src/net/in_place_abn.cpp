#include "banyan/net/in_place_abn.hpp"

#include <algorithm>

#include "banyan/base/contains.hpp"
#include "banyan/base/text.hpp"

namespace banyan {
namespace {

class Search {
 public:
  Search(const std::vector<AbnNode>& layers, const std::vector<int>& kept) : layers_(layers), kept_(kept) {}

  InPlaceAbn judge(int norm) const {
    const AbnNode& layer = at(norm);
    if (layer.converts_inputs) return no(norm, "the layout of its input is converted");
    const int activation = next_reader(norm, layer.outputs[0]);
    if (activation < 0 || layer.weighted) return no(norm, "its output is an output of the net");
    const AbnNode& behind = at(activation);
    if (!behind.inverse || behind.inputs[0] != layer.outputs[0] || behind.converts_inputs)
      return no(norm, cat("behind it stands ", described(behind),
                          ", not a ReLU with negative_slope > 0 or an ELU with alpha > 0"));
    if (is_kept(activation))
      return no(norm, cat("the output of ", described(behind), " is an output of the net"));
    const std::string other = needed_by(norm, layer.inputs[0]);
    return other.empty() ? InPlaceAbn{norm, activation, ""} : no(norm, other);
  }

 private:
  const AbnNode& at(int layer) const { return layers_[static_cast<std::size_t>(layer)]; }
  static std::string described(const AbnNode& layer) {
    return cat(quoted(layer.name), " (", layer.type, ")");
  }
  static InPlaceAbn no(int norm, std::string reason) { return {norm, -1, std::move(reason)}; }

  int next_reader(int after, int blob) const {
    for (int i = after + 1; i < static_cast<int>(layers_.size()); ++i)
      if (contains(at(i).inputs, blob)) return i;
    return -1;
  }

  /// Is the memory that the layer writes wanted after the pass, under whatever name?
  bool is_kept(int activation) const {
    std::vector<int> names = at(activation).outputs;
    bool weighted = at(activation).weighted;
    for (int i = activation + 1; i < static_cast<int>(layers_.size()); ++i) {
      const AbnNode& layer = at(i);
      if (!layer.view || !contains(names, layer.inputs[0])) continue;
      names.insert(names.end(), layer.outputs.begin(), layer.outputs.end());
      weighted = weighted || layer.weighted;
    }
    return weighted ||
           std::any_of(names.begin(), names.end(), [&](int name) { return contains(kept_, name); });
  }

  /// Who else needs `blob`, the input of `norm`: a sentence, empty if nobody does.
  std::string needed_by(int norm, int blob) const {
    for (int i = 0; i < static_cast<int>(layers_.size()); ++i) {
      const AbnNode& layer = at(i);
      const bool reads = contains(layer.inputs, blob), writes = contains(layer.outputs, blob);
      if (i == norm || (!reads && !writes)) continue;
      if (writes && layer.view) return shared_with(i, blob);
      if (layer.source) return cat("its input comes from ", described(layer));
      if (layer.weighted) return "its input has a loss weight";
      if (reads && !writes) return cat(described(layer), " reads its input too");
      if (layer.needs_backward && layer.reads_outputs)
        return cat("the backward pass of ", described(layer), " reads its input");
    }
    return "";
  }

  /// Layer `view` (a Split, a Flatten, ...) shows the same memory in several blobs.
  std::string shared_with(int view, int blob) const {
    for (const int other : at(view).outputs) {
      const int reader = other == blob ? -1 : next_reader(view, other);
      if (reader >= 0) return cat(described(at(reader)), " reads its input too");
    }
    return cat("its input is the memory of another blob, by ", described(at(view)));
  }

  const std::vector<AbnNode>& layers_;
  const std::vector<int>& kept_;
};

}  // namespace

std::vector<InPlaceAbn> find_in_place_abn(const std::vector<AbnNode>& layers, const std::vector<int>& kept) {
  const Search search(layers, kept);
  std::vector<InPlaceAbn> found;
  for (int i = 0; i < static_cast<int>(layers.size()); ++i)
    if (layers[static_cast<std::size_t>(i)].normalizes && layers[static_cast<std::size_t>(i)].needs_backward)
      found.push_back(search.judge(i));
  return found;
}

}  // namespace banyan
