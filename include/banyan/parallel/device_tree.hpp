// DeviceTree: the edges of one lane. Statistics and gradients have separate trees over the same devices, so
// neither ever waits for the other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/parallel/abort.hpp"
#include "banyan/parallel/link_access.hpp"
#include "banyan/parallel/pipe.hpp"
#include "banyan/parallel/topology.hpp"
#include "banyan/parallel/uplink.hpp"

namespace banyan::parallel {

/// What the tree knows about one of its devices.
struct Member {
  Device* device = nullptr;
  Activity* activity = nullptr;
  /// Decides how it reads its neighbours' memory, shared by all members; nullptr: as the hardware allows.
  LinkAccess* access = nullptr;
};

class DeviceTree {
 public:
  /// Node i of `tree` is members[i]. Every edge gets a pipe in each direction with `slots` slots. Peer access
  /// is enabled along the edges, and verified where the members have a LinkAccess. `uplink` is above the
  /// roots and outlives the tree; nullptr: nothing is.
  DeviceTree(const Tree& tree, std::vector<Member> members, AbortState& abort, SpinPolicy policy, int slots,
             RootParent* uplink = nullptr);

  const Tree& tree() const { return tree_; }
  int size() const { return tree_.size(); }
  RootParent* uplink() const { return uplink_; }
  /// One device and no other processes: nothing to exchange.
  bool is_alone() const { return size() == 1 && uplink_ == nullptr; }
  const Member& member(int node) const { return members_[node]; }
  Pipe& pipe(int from, int to) { return *pipes_[edge(from, to)]; }
  Doorbell& bell(int node) { return *bells_[node]; }
  /// May operators of `node` read `neighbour`'s memory in place? Otherwise messages are copied first.
  bool reads_in_place(int node, int neighbour) const { return in_place_[edge(node, neighbour)]; }
  /// Copies `neighbour`'s memory to `node`'s over their link, on `node`'s stream. Called by `node`'s thread.
  void copy(int node, int neighbour, Stream& stream, Tensor& to, const Tensor& from) {
    transfers_[edge(node, neighbour)]->copy(stream, to.raw(), from.raw(), from.bytes());
  }

 private:
  std::size_t edge(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(size()) + static_cast<std::size_t>(to);
  }
  Tree tree_;
  std::vector<Member> members_;
  RootParent* uplink_;
  std::vector<std::unique_ptr<Doorbell>> bells_;
  std::vector<std::unique_ptr<Pipe>> pipes_;
  std::vector<std::unique_ptr<Transfer>> transfers_;  ///< [edge(reader, owner)]
  std::vector<bool> in_place_;                        ///< the same
};

}  // namespace banyan::parallel
