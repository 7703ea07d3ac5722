// What `trainer topology` found, and its forms: text, JSON, DOT, advice. All pure.
#pragma once

#include <string>
#include <vector>

#include "banyan/parallel/all_reduce_time.hpp"
#include "banyan/parallel/link_check.hpp"
#include "banyan/parallel/topology.hpp"

namespace banyan {

/// One direction between two devices.
struct MeasuredLink {
  int from = 0, to = 0;
  parallel::LinkClass link = parallel::LinkClass::none;
  parallel::Access access = parallel::Access::in_place;  ///< how training will read it
  parallel::LinkCheck check;                             ///< of the way that the hardware offers
  parallel::LinkSpeed speed;  ///< of the way that training will use; 0 where it stalled
};

struct TopologyReport {
  std::vector<std::string> devices;
  bool on_gpus = false;
  int threads_per_device = 1, cores = 1;
  parallel::LinkMatrix links;
  std::string tree_choice;
  parallel::Tree tree;
  bool edges_only = false;  ///< too many pairs: only the tree's edges were measured
  std::vector<MeasuredLink> measured;
  std::vector<parallel::AllReduceTime> all_reduce;
  bool stalled() const;
};

std::string topology_text(const TopologyReport& report);
std::string topology_json(const TopologyReport& report);
/// The tree as an undirected graph; edges carry their classes, links that the tree does not use are dotted.
std::string topology_dot(const TopologyReport& report);
/// What the user should know or do, a sentence or two each; never empty.
std::vector<std::string> topology_advice(const TopologyReport& report);

}  // namespace banyan
