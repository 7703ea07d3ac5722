// Checks of how a net's layers are connected. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "banyan/layers/layer.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

/// Every bottom is produced by an earlier layer, no blob is produced twice (unless in place: top i is
/// bottom i), loss_weight has 0 or #tops entries, propagate_down 0 or #bottoms. Throws bad_input naming the
/// layers; for an unknown bottom also the layer of `whole`, the net before filter_net(), that makes it, else
/// the nearest name; for a cycle its layers.
void check_connections(const caffe::NetParameter& net, const caffe::NetParameter& whole);
/// All that is wrong with them. With `untyped_told` nothing is said of layers without a type.
std::vector<std::string> find_connection_problems(const caffe::NetParameter& net,
                                                  const caffe::NetParameter& whole,
                                                  bool untyped_told = false);

/// The layer's tops, or 1: a loss without any gets one that the file does not name.
int output_count(const caffe::LayerParameter& layer, const LayerTraits& traits);

/// Throws bad_input if the layer's type does not take that many bottoms or tops (output_count).
void check_arity(const caffe::LayerParameter& layer, const Arity& arity, int tops);

}  // namespace banyan
