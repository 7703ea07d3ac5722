// include / exclude rules: which layers belong to the net of a phase, level and stages.
#pragma once

#include "proto/banyan.pb.h"

namespace banyan {

/// Does `state` meet all conditions of the rule? An empty rule always matches.
bool matches(const caffe::NetState& state, const caffe::NetStateRule& rule);

/// A layer without rules always, one with `include` if any rule matches, one with `exclude` if none does.
bool keeps(const caffe::NetState& state, const caffe::LayerParameter& layer);

/// Throws bad_input if the layer has both lists, or a rule that its format does not have.
void check_rules(const caffe::LayerParameter& layer);

/// The net with the layers that `state` keeps, whose Crops with automatic_offset have an offset
/// (io/crop_offset.hpp). Throws bad_input as check_rules does, and if such a Crop's offset cannot be found.
/// `state` of the result is `state`.
caffe::NetParameter filter_net(const caffe::NetParameter& net, const caffe::NetState& state);

}  // namespace banyan
