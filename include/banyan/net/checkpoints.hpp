// Gradient checkpointing: a net is cut into segments; what a segment's layers keep for their backward pass is
// dropped after forward and recomputed, segment by segment, from what crosses the cuts (Chen et al. 2016,
// "Training Deep Nets with Sublinear Memory Cost"). Pure.
//
// The last segment is not recomputed, since its backward pass follows its forward pass directly. Of the
// others, only layers whose results some backward pass reads and which are no longer in memory run again.
#pragma once

#include <string>
#include <vector>

#include "banyan/net/lifetimes.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

/// Reads a net's `checkpoint`: 1 for "off" or nothing, 0 for "auto", N for "N". Throws bad_input for other
/// values.
int read_checkpoint(const caffe::NetParameter& net);

/// Layers before which a net can be cut, ascending: no memory is written on both sides of the cut, so what
/// crosses it is not overwritten before it is read again.
std::vector<int> possible_cuts(const TensorUses& uses);

/// `cuts`: the first layer of each segment after the first, ascending, each a possible cut.
Schedule checkpointed_schedule(const TensorUses& uses, const std::vector<int>& cuts);

/// Cuts into `segments` segments (0: any number) that need little memory and, at about equal memory, repeat
/// little work. Empty where cutting saves nothing. Throws bad_input if the net cannot be cut into that many.
std::vector<int> choose_cuts(const TensorUses& uses, int segments);

/// Peak of live memory over all steps, in elements.
std::int64_t peak_of(const TensorUses& uses, const Schedule& schedule);
/// Cost of the layers that are recomputed.
double repeated_cost(const TensorUses& uses, const Schedule& schedule);

}  // namespace banyan
