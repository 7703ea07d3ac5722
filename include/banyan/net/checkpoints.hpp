// Gradient checkpointing: a net is cut into segments; what a segment's layers keep for their backward pass is
// dropped after forward and recomputed, segment by segment, from what crosses the cuts (Chen et al. 2016,
// "Training Deep Nets with Sublinear Memory Cost"). Pure.
//
// The last segment is not recomputed, since its backward pass follows its forward pass directly. Of the
// others, only layers whose results some backward pass reads and which are no longer in memory run again.
//
// A net that is not cut can still drop what its batch normalizations made: they are made again one by one,
// each from its input, which is kept anyway.
#pragma once

#include <string>
#include <vector>

#include "banyan/net/lifetimes.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

struct Checkpointing {
  int segments = 1;    ///< into which the net is cut; 0: any number
  double repeats = 0;  ///< see PlanPolicy::repeats
};
/// Reads a net's `checkpoint`: "off", "normalizations", "auto", or a number of segments. Without it a net on
/// a CPU device repeats what costs next to nothing. Throws bad_input for other values.
Checkpointing read_checkpoint(const caffe::NetParameter& net, bool on_cpu);

/// Layers before which a net can be cut, ascending: no memory is written on both sides of the cut, so what
/// crosses it is not overwritten before it is read again.
std::vector<int> possible_cuts(const TensorUses& uses);

/// `cuts`: the first layer of each segment after the first, ascending, each a possible cut.
Schedule checkpointed_schedule(const TensorUses& uses, const std::vector<int>& cuts);

/// Cuts into `segments` segments (0: any number) that need little memory and, at about equal memory, repeat
/// little work. Empty where cutting saves nothing. Throws bad_input if the net cannot be cut into that many.
std::vector<int> choose_cuts(const TensorUses& uses, int segments);

/// Layers whose results are dropped after forward and made again in one sweep (LayerTraits::one_sweep), each
/// just before the first backward pass that reads them; ascending. What they are made from is kept for their
/// own backward pass.
std::vector<int> find_repeats(const TensorUses& uses);
/// The plain schedule with these layers run again.
Schedule schedule_with_repeats(const TensorUses& uses, const std::vector<int>& repeats);

/// Peak of live memory over all steps, in elements.
std::int64_t peak_of(const TensorUses& uses, const Schedule& schedule);
/// Cost of the layers that are recomputed.
double repeated_cost(const TensorUses& uses, const Schedule& schedule);

}  // namespace banyan
