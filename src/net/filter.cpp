#include "banyan/net/filter.hpp"

#include <algorithm>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/crop_offset.hpp"

namespace banyan {

bool matches(const caffe::NetState& state, const caffe::NetStateRule& rule) {
  const auto has_stage = [&](const std::string& stage) { return contains(state.stage(), stage); };
  if (rule.has_phase() && rule.phase() != state.phase()) return false;
  if (rule.has_min_level() && state.level() < rule.min_level()) return false;
  if (rule.has_max_level() && state.level() > rule.max_level()) return false;
  return std::all_of(rule.stage().begin(), rule.stage().end(), has_stage) &&
         std::none_of(rule.not_stage().begin(), rule.not_stage().end(), has_stage);
}

bool keeps(const caffe::NetState& state, const caffe::LayerParameter& layer) {
  const auto matching = [&](const caffe::NetStateRule& rule) { return matches(state, rule); };
  return layer.include_size() > 0 ? std::any_of(layer.include().begin(), layer.include().end(), matching)
                                  : std::none_of(layer.exclude().begin(), layer.exclude().end(), matching);
}

namespace {

/// Only now is it known which layers are before a Crop.
void find_crop_offsets(caffe::NetParameter& net) {
  for (int i = 0; i < net.layer_size(); ++i) {
    if (net.layer(i).type() != "Crop" || !net.layer(i).crop_param().automatic_offset()) continue;
    caffe::CropParameter& crop = *net.mutable_layer(i)->mutable_crop_param();
    if (crop.offset_size() > 0)
      bad_input("layer ", quoted(net.layer(i).name()),
                " (Crop): automatic_offset and offset exclude each other");
    for (const std::int64_t place : io::crop_offset(net, i))
      crop.add_offset(static_cast<std::uint32_t>(place));
    crop.clear_automatic_offset();
  }
}

}  // namespace

void check_rules(const caffe::LayerParameter& layer) {
  for (const auto* rules : {&layer.include(), &layer.exclude()})
    for (const caffe::NetStateRule& rule : *rules)
      if (rule.has_solver())
        bad_input("layer ", quoted(layer.name()), ": rules with `solver` are for the V1 format (`layers`)");
  if (layer.include_size() > 0 && layer.exclude_size() > 0)
    bad_input("layer ", quoted(layer.name()),
              " has both `include` and `exclude` rules; it may have only one kind");
}

caffe::NetParameter filter_net(const caffe::NetParameter& net, const caffe::NetState& state) {
  caffe::NetParameter result = net;
  result.clear_layer();
  *result.mutable_state() = state;
  for (const caffe::LayerParameter& layer : net.layer()) {
    check_rules(layer);
    if (keeps(state, layer)) *result.add_layer() = layer;
  }
  find_crop_offsets(result);
  return result;
}

}  // namespace banyan
