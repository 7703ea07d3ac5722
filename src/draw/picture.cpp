#include "draw/picture.hpp"

#include <algorithm>
#include <map>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/base/units.hpp"
#include "banyan/layers/batch_norm.hpp"

namespace banyan::draw {
namespace {

std::string shape_text(const Shape& shape) {
  if (shape.dims().empty()) return "scalar";
  std::vector<std::string> dims;
  for (const auto dim : shape.dims()) dims.push_back(std::to_string(dim));
  return join(dims, "\u00d7");
}

class Painter {
 public:
  Painter(const Net& net, const PictureOptions& options)
      : net_(net), graph_(net.graph()), plan_(net.plan()), options_(options) {}

  Picture paint() {
    find_runners();
    order_layers();
    add_cards();
    add_blobs();
    add_facts();
    return std::move(picture_);
  }

 private:
  int layers() const { return static_cast<int>(graph_.layers.size()); }
  /// Splits are drawn as forks.
  bool is_fork(int layer) const { return graph_.layers[layer].type == "Split"; }
  const PlanStep& forward_step(int layer) const { return plan_.steps[layer]; }

  /// The plan's word: a normalization that is frozen itself may run that of its Scale.
  bool has_backward(int layer) const {
    return std::any_of(plan_.steps.begin(), plan_.steps.end(), [&](const PlanStep& step) {
      return step.layer == layer && step.work == Work::backward && step.needs_backward;
    });
  }

  int memory_of(int tensor) const {
    while (plan_.tensors[tensor].data_of != tensor) tensor = plan_.tensors[tensor].data_of;
    return tensor;
  }
  /// The layer that makes it, before any forks.
  int maker_of(int blob) const {
    int layer = graph_.blobs[blob].producer;
    while (is_fork(layer)) layer = graph_.blobs[graph_.layers[layer].inputs[0]].producer;
    return layer;
  }
  int before_forks(int blob) const {
    while (is_fork(graph_.blobs[blob].producer)) blob = graph_.layers[graph_.blobs[blob].producer].inputs[0];
    return blob;
  }

  /// Layers that other steps run: a ReLU or a Scale belongs to the step that made its input, a sum to the
  /// step that adds its other input, and what is left out to the first step after it that runs.
  void find_runners() {
    runner_.resize(graph_.layers.size());
    for (int i = 0; i < layers(); ++i) {
      runner_[i] = i;
      const GraphLayer& layer = graph_.layers[i];
      if (forward_step(i).runs_layer || layer.inputs.empty()) continue;
      if (forward_step(i).inputs.empty()) {
        while (!forward_step(runner_[i]).runs_layer)
          runner_[i] = graph_.only_reader(graph_.layers[runner_[i]].outputs[0]);
        continue;
      }
      std::size_t own = 0;
      for (std::size_t k = 0; k < layer.inputs.size() && layer.inputs.size() == 2; ++k)
        if (forward_step(runner_[graph_.blobs[layer.inputs[k]].producer]).addend == layer.inputs[1 - k])
          own = k;
      runner_[i] = runner_[graph_.blobs[layer.inputs[own]].producer];
    }
  }

  int segment_of(int layer) const {
    return static_cast<int>(std::upper_bound(plan_.cuts.begin(), plan_.cuts.end(), layer) -
                            plan_.cuts.begin());
  }

  /// That of the plan, but a source comes just before its first reader: one that brings labels is drawn next
  /// to the loss. Not across a cut.
  void order_layers() {
    std::vector<std::pair<int, int>> order;  // place, layer
    for (int i = 0; i < layers(); ++i) {
      int place = i;
      if (graph_.layers[i].traits.source)
        if (const int reader = first_reader_of(i);
            reader < layers() && (!options_.plan || segment_of(reader) == segment_of(i)))
          place = reader;
      order.emplace_back(place, i);
    }
    std::stable_sort(order.begin(), order.end());
    for (const auto& [place, layer] : order) order_.push_back(layer);
  }
  int first_reader_of(int layer) const {
    int first = layers();
    for (const int output : graph_.layers[layer].outputs)
      for (const int reader : graph_.blobs[output].readers)
        first = std::min(first, is_fork(reader) ? first_reader_of(reader) : reader);
    return first;
  }

  void add_cards() {
    card_.assign(graph_.layers.size(), -1);
    row_.assign(graph_.layers.size(), 0);
    for (const int i : order_) {
      if (is_fork(i)) continue;
      if (card_[runner_[i]] < 0) {
        card_[runner_[i]] = static_cast<int>(picture_.cards.size());
        Card& card = picture_.cards.emplace_back();
        if (options_.plan) card.band = segment_of(i);
      }
      card_[i] = card_[runner_[i]];
      Card& card = picture_.cards[card_[i]];
      row_[i] = static_cast<int>(card.rows.size());
      card.rows.push_back(row_for(i));
      picture_.fused = picture_.fused || card.rows.size() > 1;
    }
    if (!options_.plan) return;
    add_steps();
    for (std::size_t c = 0; c < plan_.cuts.size(); ++c)
      picture_.cuts.push_back(cat("cut: segment ", c + 2, " of ", plan_.cuts.size() + 1));
  }

  Row row_for(int index) const {
    const GraphLayer& node = graph_.layers[index];
    const Layer& layer = *net_.layers()[index];
    const auto real = options_.types.find(node.name);
    Row row;
    row.name = node.name;
    row.type = real == options_.types.end() ? node.type : real->second;
    row.kind = kind_of(row.type);
    if (real == options_.types.end()) row.settings = settings_of(layer);
    add_marks(index, row);
    add_notes(index, layer, row);
    return row;
  }

  void add_marks(int index, Row& row) const {
    const GraphLayer& node = graph_.layers[index];
    if (node.traits.view != View::none)
      row.marks.emplace_back("view");
    else if (runner_[index] == index && overwrites_input(node))
      row.marks.emplace_back("in place");
    if (node.traits.meets == Meets::both_ways) row.marks.push_back(sync_text(index));
    const auto& store = net_.parameter_store();
    for (const int owner : store.owner[index])
      if (const std::string& other = store.parameters[owner].layer; other != node.name) {
        row.marks.push_back("shares " + other);
        break;
      }
    for (const double weight : node.loss_weights)
      if (weight != 0 && weight != 1) {
        row.marks.push_back(cat("\u00d7 ", weight));
        break;
      }
  }

  bool overwrites_input(const GraphLayer& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(), [&](int output) {
      return std::any_of(node.inputs.begin(), node.inputs.end(),
                         [&](int input) { return memory_of(input) == memory_of(output); });
    });
  }

  std::string sync_text(int index) const {
    const Layer& layer = *net_.layers()[index];
    const auto size = layer_info(layer.type()).sync_group_size;
    const int group = size == nullptr ? 0 : size(layer.parameter());
    return group == 0 ? "sync: all devices" : cat("sync: groups of ", group);
  }

  void add_notes(int index, const Layer& layer, Row& row) const {
    const GraphLayer& node = graph_.layers[index];
    row.notes.push_back(layer_info(layer.type()).about);
    std::int64_t own = 0;
    for (const int owner : net_.parameter_store().owner[index])
      if (net_.parameters()[owner].layer == node.name) own += net_.parameters()[owner].count;
    if (own > 0) row.notes.push_back(cat(own, " parameters"));
    const double work = layer.forward_flops(net_.inputs_of(index), net_.outputs_of(index));
    if (work > 0) row.notes.push_back(scaled(work) + " multiply-adds");
    if (runner_[index] != index) row.notes.push_back("runs as part of " + graph_.layers[runner_[index]].name);
    if (graph_.trains && !has_backward(index)) row.notes.emplace_back("no backward pass");
    if (node.traits.meets == Meets::forward) row.notes.emplace_back("sums its divisor over the devices");
    for (const InPlaceAbn& found : plan_.in_place_abn)
      if (found.norm == index && found.activation < 0 && !found.reason.empty())
        row.notes.push_back("keeps its input: " + found.reason);
  }

  void add_steps() {
    const char* const words[] = {"step", "converts", "again", "back"};
    using Numbers = std::map<Work, std::vector<std::string>>;
    std::vector<Numbers> numbers(picture_.cards.size());
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
      const PlanStep& step = plan_.steps[s];
      const bool works = step.runs_layer || step.work == Work::convert;
      if (works && card_[step.layer] >= 0) numbers[card_[step.layer]][step.work].push_back(std::to_string(s));
    }
    for (std::size_t c = 0; c < numbers.size(); ++c) {
      std::vector<std::string> parts;
      for (const auto& [work, steps] : numbers[c])
        parts.push_back(cat(words[static_cast<int>(work)], " ", join(steps, ", ")));
      picture_.cards[c].steps = join(parts, " \u00b7 ");
    }
  }

  /// Blobs that leave their card, or that nothing reads.
  void add_blobs() {
    drawn_.assign(graph_.blobs.size(), -1);
    for (int i = 0; i < layers(); ++i) {
      if (is_fork(i)) continue;
      for (const int output : graph_.layers[i].outputs)
        if (!stays_in_card(output)) add_blob(output);
    }
    for (int i = 0; i < layers(); ++i) {
      if (is_fork(i)) continue;
      for (const int input : graph_.layers[i].inputs)
        if (const int blob = drawn_[before_forks(input)]; blob >= 0 && picture_.blobs[blob].card != card_[i])
          picture_.connections.push_back({blob, card_[i], row_[i]});
    }
  }

  bool stays_in_card(int blob) const {
    const int reader = graph_.only_reader(blob);
    return reader >= 0 && !is_fork(reader) && card_[reader] == card_[maker_of(blob)];
  }

  void add_blob(int number) {
    const GraphBlob& blob = graph_.blobs[number];
    const PlannedTensor& tensor = plan_.tensors[number];
    drawn_[number] = static_cast<int>(picture_.blobs.size());
    DrawnBlob drawn;
    drawn.name = blob.name;
    drawn.card = card_[blob.producer];
    drawn.from_source = graph_.from_source(number);
    drawn.shape = shape_text(tensor.shape);
    if (tensor.dtype != net_.options().dtype) drawn.shape += std::string(" ") + name_of(tensor.dtype);
    const std::int64_t bytes = tensor.shape.count() * static_cast<std::int64_t>(size_of(tensor.dtype));
    drawn.notes = {cat("blob ", blob.name),
                   cat(name_of(tensor.dtype), ", ", name_of(tensor.layout), ", ", size_text(bytes))};
    const int owner = memory_of(number);
    std::string place = "not in the plan's memory";
    if (owner != number)
      place = "in the memory of " + plan_.tensors[owner].name;
    else if (tensor.data >= 0)
      place = cat("at ", tensor.data);
    drawn.notes.push_back("data " + place);
    if (options_.plan && tensor.data >= 0)
      drawn.place = cat(size_text(bytes), " at ", size_text(tensor.data));
    else if (options_.plan && owner != number)
      drawn.place = "in " + plan_.tensors[owner].name;
    picture_.blobs.push_back(std::move(drawn));
  }

  void add_facts() {
    picture_.title = net_.name();
    std::int64_t parameters = 0;
    for (const LearnableParameter& parameter : net_.parameters()) parameters += parameter.count;
    double work = 0;
    int shown = 0;
    for (int i = 0; i < layers(); ++i) {
      work += net_.layers()[i]->forward_flops(net_.inputs_of(i), net_.outputs_of(i));
      shown += !is_fork(i);
    }
    picture_.facts = {
        cat(shown, " layers"), cat(scaled(static_cast<double>(parameters)), " parameters"),
        scaled(work) + " multiply-adds",
        size_text(plan_.bytes) + " for activations" + (graph_.trains ? " and their gradients" : "")};
    if (options_.plan) picture_.facts.push_back(cat(plan_.steps.size(), " steps"));
  }

  const Net& net_;
  const Graph& graph_;
  const Plan& plan_;
  const PictureOptions& options_;
  Picture picture_;
  std::vector<int> order_;                ///< of layers
  std::vector<int> runner_, card_, row_;  ///< per layer
  std::vector<int> drawn_;                ///< per blob of the graph: its number in the picture, or -1
};

}  // namespace

Picture picture_of(const Net& net, const PictureOptions& options) { return Painter(net, options).paint(); }

}  // namespace banyan::draw
