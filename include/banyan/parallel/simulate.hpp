// How long would an iteration take on a machine that is not available? The gradient exchange is simulated
// with modelled links; nothing is measured and nothing runs. Pure.
//
// Several machines: the roots' sums are exchanged by each machine's network card, which sends and receives at
// the same time, one bucket after the other, and by the thread of the uplink. All machines are alike, so that
// one is simulated. What the thread needs for rounding to 16 bits is left out, and buckets that travel with
// their headers (SlotExchange::kInline) count as longer ones.
//
// The model: one copy engine per device, which fetches what the device reads one message after the other,
// each taking latency + bytes / bandwidth of its link; adding and updating on the same engine; backward
// alongside it. It leaves out links that several pairs of devices share, SyncBN's exchanges and input.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "banyan/parallel/gradient_sync.hpp"
#include "banyan/parallel/link_cost.hpp"

namespace banyan::parallel {

/// One device's work for one layer of the net, in forward order.
struct SimulatedLayer {
  double forward_s = 0, backward_s = 0;
  std::int64_t parameters = 0;  ///< elements
};

/// How machines are joined, as by a WireUplink.
struct SimulatedNetwork {
  int machines = 1;
  LinkCost cost;                ///< of each machine's card, for each direction
  double message_s = 0;         ///< the thread's time for sending or receiving a message
  double host_bytes_per_s = 0;  ///< copies between devices and the host's memory; 0: they take no time
  double sum_bytes_per_s = 0;   ///< of incoming parts, by the thread; 0: takes no time
  double width = 1;             ///< of a value on the wire, as a part of its width in memory
};

struct SimulatedMachine {
  LinkMatrix links;
  Tree tree;
  std::map<LinkClass, LinkCost> costs;  ///< of every class that occurs
  double add_bytes_per_s = 0;           ///< of incoming sums; 0: takes no time
  double update_bytes_per_s = 0;        ///< of parameters by the optimizer; 0: takes no time
  std::size_t element_bytes = 4;
  std::size_t largest_chunk = std::size_t{8} << 20;
  SimulatedNetwork network = {};  ///< to machines like this one
  std::size_t bucket_bytes = 0;   ///< about so many in each; 0: as training cuts them
  int devices_everywhere() const { return network.machines * links.devices(); }
  const LinkCost& link(int a, int b) const { return costs.at(links.at(a, b)); }
};

struct SimulatedIteration {
  double total_s = 0;
  double compute_s = 0;                                     ///< forward and backward
  double exposed_s() const { return total_s - compute_s; }  ///< exchange and update that nothing hides
};

/// As GradientSync does it: buckets climb the tree in chunks while backward is running, each to its owner,
/// which updates it and sends it down.
SimulatedIteration simulate_tree(const SimulatedMachine& machine, const std::vector<SimulatedLayer>& layers);

/// A ring over the devices in order, as in collective libraries, for buckets of `bucket_bytes` while backward
/// is running; every device then updates everything.
SimulatedIteration simulate_ring(const SimulatedMachine& machine, const std::vector<SimulatedLayer>& layers,
                                 std::size_t bucket_bytes = std::size_t{25} << 20);

/// As Caffe's P2PSync: after backward all gradients climb the tree to device 0, in one piece per level; it
/// updates everything and sends it down the same way.
SimulatedIteration simulate_p2p_sync(const SimulatedMachine& machine,
                                     const std::vector<SimulatedLayer>& layers);

/// Only the exchange of `buckets`, in chunks of `chunk_bytes`: seconds until every device has all of them.
/// Bucket b is ready on every device after `ready_s[b]`.
double simulate_buckets(const SimulatedMachine& machine, const std::vector<Bucket>& buckets,
                        const std::vector<double>& ready_s, std::size_t chunk_bytes);

}  // namespace banyan::parallel
