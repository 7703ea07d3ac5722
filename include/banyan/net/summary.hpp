// What a net consists of: shapes, parameters, operations and memory per layer, as `trainer summary` shows
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/net/net.hpp"

namespace banyan {

struct LayerSummary {
  std::string name, type;
  std::vector<std::string> output_names;
  std::vector<Shape> output_shapes;
  std::int64_t parameters = 0;         ///< elements that this layer owns, running statistics included
  std::int64_t shared_parameters = 0;  ///< elements that it shares with a layer further up
  double flops = 0;                    ///< 2 x the multiply-adds of one forward pass
  std::int64_t activation_bytes =
      0;  ///< memory of its own outputs (0 in place and where they share the input's)
  bool in_place = false, needs_backward = false;
};

struct NetSummary {
  std::string name, phase;
  std::vector<LayerSummary> layers;
  std::int64_t parameters = 0, frozen_parameters = 0, statistics = 0;  ///< elements, each owner once
  double flops = 0;
  std::int64_t parameter_bytes = 0;   ///< values and, in a net that trains, gradients
  std::int64_t activation_bytes = 0;  ///< outputs of all layers
  std::int64_t planned_bytes = 0;     ///< activations and their gradients after memory is shared
  std::int64_t unplanned_bytes = 0;   ///< the same without sharing
  int layout_conversions = 0;
};

NetSummary summarize(const Net& net);
/// A table for people, one line per layer and the sums.
std::string to_table(const NetSummary& summary);
/// One JSON object: name, phase, layers[] {name, type, outputs[] {name, shape}, parameters, flops, ...},
/// totals.
std::string to_json(const NetSummary& summary);

}  // namespace banyan
