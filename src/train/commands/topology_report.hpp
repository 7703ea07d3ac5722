// What `trainer topology` found, and its forms: text, JSON, DOT, advice. All pure.
#pragma once

#include <string>
#include <vector>

#include "banyan/parallel/all_reduce_time.hpp"
#include "banyan/parallel/link_check.hpp"
#include "banyan/parallel/link_probe.hpp"
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

/// What one process tells the others about its devices.
struct ProcessTopology {
  std::string name;                 ///< "process 2 on b"
  std::string tree;                 ///< drawn
  std::vector<std::string> advice;  ///< empty: nothing is wrong
  std::string json;                 ///< topology_json

  std::string pack() const;
  static ProcessTopology unpack(const std::string& packed);
};
/// The network between two processes.
struct MeasuredNetwork {
  int from = 0, to = 0;
  parallel::NetworkSpeed speed;
};
/// Processes that are joined.
struct JoinedTopology {
  std::vector<ProcessTopology> processes;
  int devices = 0;
  bool all_pairs = true;  ///< otherwise neighbours only
  std::vector<MeasuredNetwork> network;
  std::vector<parallel::AllReduceTime> all_reduce;
};
std::string joined_topology_text(const JoinedTopology& report);
std::string joined_topology_json(const JoinedTopology& report);
std::vector<std::string> joined_topology_advice(const JoinedTopology& report);

std::string topology_text(const TopologyReport& report);
std::string topology_json(const TopologyReport& report);
/// The tree as an undirected graph; edges carry their classes, links that the tree does not use are dotted.
std::string topology_dot(const TopologyReport& report);
/// What the user should know or do, a sentence or two each; never empty.
std::vector<std::string> topology_advice(const TopologyReport& report);
/// The same without the sentence that nothing is wrong.
std::vector<std::string> topology_warnings(const TopologyReport& report);

}  // namespace banyan
