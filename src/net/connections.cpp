#include "banyan/net/connections.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/net/filter.hpp"

namespace banyan {
namespace {

std::string described(const caffe::LayerParameter& layer) {
  const std::string name = cat("layer ", quoted(layer.name()));
  return layer.type().empty() ? name : cat(name, " (", layer.type(), ")");
}

bool writes(const caffe::LayerParameter& layer, const std::string& blob) {
  return contains(layer.top(), blob);
}

/// Not if it only changes it in place.
bool makes(const caffe::LayerParameter& layer, const std::string& blob) {
  for (int k = 0; k < layer.top_size(); ++k)
    if (layer.top(k) == blob && !(k < layer.bottom_size() && layer.bottom(k) == blob)) return true;
  return false;
}

/// Stages that make a rule of the layer match, each set of them once; what --stage takes.
void add_missing_stages(const caffe::LayerParameter& layer, const caffe::NetState& state,
                        std::set<std::vector<std::string>>& stages) {
  for (const caffe::NetStateRule& rule : layer.include()) {
    caffe::NetState with = state;
    with.mutable_stage()->MergeFrom(rule.stage());
    if (matches(with, rule)) stages.emplace(rule.stage().begin(), rule.stage().end());
  }
}

/// Of layers that the net's state leaves out: which one makes the blob, as the end of a complaint; "" if none
/// does.
std::string made_elsewhere(const caffe::NetParameter& whole, const caffe::NetState& state,
                           const std::string& blob) {
  std::set<std::vector<std::string>> stages;
  std::string others;
  caffe::NetState other_phase = state;
  other_phase.set_phase(state.phase() == caffe::TRAIN ? caffe::TEST : caffe::TRAIN);
  for (const caffe::LayerParameter& layer : whole.layer()) {
    if (!makes(layer, blob) || keeps(state, layer)) continue;
    add_missing_stages(layer, state, stages);
    if (!others.empty()) continue;
    others = keeps(other_phase, layer)
                 ? cat("; in phase ", caffe::Phase_Name(other_phase.phase()), " ", described(layer), " does")
                 : cat("; the rules of ", described(layer), ", which does, leave it out");
  }
  if (stages.empty()) return others;
  std::vector<std::string> names, flags;
  for (const std::vector<std::string>& needed : stages) {
    std::vector<std::string> shown;
    for (const std::string& stage : needed) shown.push_back(quoted(stage));
    names.push_back(join(shown, " and "));
    flags.push_back("--stage=" + join(needed, ","));
  }
  return cat(names.size() == 1 ? "; a layer with stage " : "; layers with stage ", join(names, ", ", " or "),
             names.size() == 1 ? " makes it: " : " make it: ", join(flags, ", ", " or "));
}

/// The layers on a path from `from` back to `to` through the blobs they read, `from` first; empty if there is
/// none.
std::vector<int> way_back(const caffe::NetParameter& net, int from, int to) {
  std::map<int, int> reached_from{{from, -1}};
  std::vector<int> queue{from};
  for (std::size_t head = 0; head < queue.size(); ++head) {
    const int reader = queue[head];
    if (reader == to) {
      std::vector<int> way;
      for (int i = to; i >= 0; i = reached_from[i]) way.push_back(i);
      std::reverse(way.begin(), way.end());
      return way;
    }
    for (const std::string& bottom : net.layer(reader).bottom())
      for (int i = 0; i < net.layer_size(); ++i)
        if (writes(net.layer(i), bottom) && reached_from.emplace(i, reader).second) queue.push_back(i);
  }
  return {};
}

[[noreturn]] void refuse_bottom(const caffe::NetParameter& net, const caffe::NetParameter& whole, int index,
                                const std::string& bottom) {
  const caffe::LayerParameter& layer = net.layer(index);
  std::vector<std::string> tops;
  for (int i = 0; i < net.layer_size(); ++i) {
    for (const std::string& top : net.layer(i).top())
      if (top != bottom) tops.push_back(top);
    if (i < index || !makes(net.layer(i), bottom)) continue;
    const std::vector<int> way = way_back(net, i, index);
    if (way.empty())
      bad_input(described(layer), " reads blob ", quoted(bottom), " before ", described(net.layer(i)),
                " further down produces it; put the layers into the order in which they run");
    std::string cycle = quoted(layer.name());
    for (const int step : way) cycle += " <- " + quoted(net.layer(step).name());
    bad_input("the net has a cycle: ", described(layer), " reads blob ", quoted(bottom),
              ", which depends on its own result (", cycle, ")");
  }
  const std::string elsewhere = made_elsewhere(whole, net.state(), bottom);
  bad_input(described(layer), " reads blob ", quoted(bottom), ", which no layer of the net produces",
            elsewhere.empty() ? did_you_mean(bottom, tops) : elsewhere);
}

void check_top(const caffe::LayerParameter& layer, int i,
               std::map<std::string, const caffe::LayerParameter*>& produced) {
  const std::string& top = layer.top(i);
  const bool is_first =
      std::find(layer.top().begin(), layer.top().begin() + i, top) == layer.top().begin() + i;
  if (!is_first) bad_input(described(layer), " produces blob ", quoted(top), " twice");
  const bool in_place = i < layer.bottom_size() && layer.bottom(i) == top;
  const auto [entry, is_new] = produced.emplace(top, &layer);
  if (is_new || in_place) return;
  if (!makes(*entry->second, top)) {  // it reads what nothing before it makes, which is the problem
    entry->second = &layer;
    return;
  }
  if (contains(layer.bottom(), top))
    bad_input(described(layer), " works in place on blob ", quoted(top),
              ", which then must stand at the same place of ", "`bottom` and `top`");
  bad_input("blob ", quoted(top), " is produced twice: by ", described(*entry->second), " and by ",
            described(layer));
}

void check_weights(const caffe::LayerParameter& layer) {
  if (layer.loss_weight_size() != 0 && layer.loss_weight_size() != layer.top_size() &&
      !(layer.top_size() == 0 && layer.loss_weight_size() == 1))
    bad_input(described(layer), " has ", layer.loss_weight_size(), " loss_weight entries for ",
              layer.top_size(), " tops; give one for each top, or none");
}

void check_propagation(const caffe::LayerParameter& layer) {
  if (layer.propagate_down_size() != 0 && layer.propagate_down_size() != layer.bottom_size())
    bad_input(described(layer), " has ", layer.propagate_down_size(), " propagate_down entries for ",
              layer.bottom_size(), " bottoms; give one for each bottom, or none");
}

std::string range_text(int minimum, int maximum) {
  if (maximum < 0) return cat("at least ", minimum);
  if (minimum == maximum) return minimum == 0 ? std::string("no") : cat(minimum);
  return cat(minimum, " to ", maximum);
}

/// A layer without blobs whose parameters are another's (extreme learning machines).
std::string about_namesake(const caffe::LayerParameter& layer) {
  if (layer.type() != "Transpose" || layer.bottom_size() + layer.top_size() > 0 || layer.param_size() == 0)
    return "";
  return "; that of a branch for extreme learning machines, which transposes the weights of another layer, "
         "is "
         "not here";
}

void check_range(const caffe::LayerParameter& layer, const char* what, int found, int minimum, int maximum) {
  if (found >= minimum && (maximum < 0 || found <= maximum)) return;
  bad_input(described(layer), " takes ", range_text(minimum, maximum), " ", what,
            minimum == 1 && maximum == 1 ? "" : "s", ", found ", found, about_namesake(layer));
}

}  // namespace

void check_connections(const caffe::NetParameter& net, const caffe::NetParameter& whole) {
  const std::vector<std::string> problems = find_connection_problems(net, whole);
  if (!problems.empty()) bad_input(problems.front());
}

std::vector<std::string> find_connection_problems(const caffe::NetParameter& net,
                                                  const caffe::NetParameter& whole, bool untyped_told) {
  std::vector<std::string> problems;
  const auto note = [&](auto check) {
    try {
      check();
    } catch (const Error& error) {
      problems.push_back(error.message());
    }
  };
  std::map<std::string, const caffe::LayerParameter*> produced;
  std::set<std::string> of_untyped;
  for (int i = 0; i < net.layer_size(); ++i) {
    const caffe::LayerParameter& layer = net.layer(i);
    if (untyped_told && layer.type().empty()) {
      of_untyped.insert(layer.top().begin(), layer.top().end());
      continue;
    }
    for (const std::string& bottom : layer.bottom())
      if (produced.count(bottom) + of_untyped.count(bottom) == 0)
        note([&] { refuse_bottom(net, whole, i, bottom); });
    for (int k = 0; k < layer.top_size(); ++k)
      if (of_untyped.count(layer.top(k)) == 0) note([&] { check_top(layer, k, produced); });
    note([&] { check_weights(layer); });
    note([&] { check_propagation(layer); });
  }
  return problems;
}

int output_count(const caffe::LayerParameter& layer, const LayerTraits& traits) {
  const bool unnamed = layer.top_size() == 0 && traits.arity.min_outputs > 0 && traits.loss;
  return unnamed ? 1 : layer.top_size();
}

void check_arity(const caffe::LayerParameter& layer, const Arity& arity, int tops) {
  check_range(layer, "bottom", layer.bottom_size(), arity.min_inputs, arity.max_inputs);
  check_range(layer, "top", tops, arity.min_outputs, arity.max_outputs);
  if (arity.outputs_equal_inputs && layer.bottom_size() != tops)
    bad_input(described(layer), " takes as many tops as bottoms, found ", layer.bottom_size(),
              " bottoms and ", tops, " tops");
}

}  // namespace banyan
