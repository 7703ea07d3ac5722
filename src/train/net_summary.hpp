// What `trainer summary` and a run's metrics tell about a net: layers, shapes, parameters, work and memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "banyan/net/net.hpp"

namespace banyan {

struct LayerSummary {
  std::string name, type;
  std::vector<std::string> inputs;
  std::vector<std::pair<std::string, Shape>> outputs;
  std::int64_t parameters = 0;         ///< elements that this layer owns, running statistics included
  std::int64_t shared_parameters = 0;  ///< elements that it shares with a layer further up
  double multiply_adds = 0;
  bool in_place = false;
  /// Of its own outputs: 0 in place, for views of the input, and where they are not stored.
  std::int64_t output_bytes = 0;
};

struct NetSummary {
  std::string net;
  std::vector<LayerSummary> layers;
  std::int64_t parameters = 0, parameter_bytes = 0;       ///< shared ones once
  std::int64_t running_statistics = 0, not_learning = 0;  ///< of the parameters; lr_mult 0
  double multiply_adds = 0;
  std::int64_t activation_bytes = 0;  ///< with the memory plan: activations and their gradients
  std::int64_t unshared_bytes = 0;    ///< the same if no blob shared memory
  std::vector<std::string> cuts;      ///< layers before which the net is cut for checkpointing
  std::size_t repeats = 0;            ///< batch normalizations that are made again instead
  std::int64_t uncut_bytes = 0;       ///< activation_bytes without checkpoints
  double repeated = 0;                ///< multiply-adds that are done twice
  std::vector<std::string> abn;       ///< batch normalizations in place with their activation
  std::vector<std::pair<int, std::string>> not_abn;  ///< layers that keep their input, and why
  std::int64_t without_abn_bytes = 0;                ///< activation_bytes without in_place_abn
  Precision precision;
};

/// `stood_in_for`: types in the file of layers that others replace, by name.
NetSummary summary_of(const Net& net, const std::map<std::string, std::string>& stood_in_for = {});

}  // namespace banyan
