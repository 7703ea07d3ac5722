// StatisticsExchange: the statistics lane. One message up and one down per edge and exchange; stream-ordered,
// no allocation after the first.
//
// Rank 0 of a group is the root. A node merges its children's messages into its own in tree order, sends it
// up, receives the result and keeps a copy in a buffer for its children to read, so that the caller's tensor
// is free again as soon as the exchange returns (in stream order). One buffer is enough: before it is
// overwritten, every child has sent its next message up, which comes after its copy.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "banyan/layers/exchange.hpp"
#include "banyan/parallel/device_tree.hpp"

namespace banyan::parallel {

/// The trees of all group sizes in use, made before the threads start.
class StatisticsTrees {
 public:
  /// Group size 0 (all devices) always exists. `links` covers all members. With an `uplink` (nullptr: none)
  /// groups are made of the devices of all processes: one that spans processes has a tree in each of them,
  /// whose roots are joined.
  StatisticsTrees(const LinkMatrix& links, const Tree& whole, const std::vector<Member>& members,
                  const std::vector<int>& group_sizes, AbortState& abort, SpinPolicy policy,
                  Uplink* uplink = nullptr);
  struct Place {
    DeviceTree* tree;
    int node;
    int slot;            ///< of the exchange above the root, where the tree has an uplink
    ProcessRange among;  ///< the processes in it
  };
  /// Where this process's devices are among those of all processes.
  const UplinkPlace& above() const { return above_; }
  /// The tree of rank's group. Throws bad_input for a group size that was not announced.
  Place place(int group_size, int rank);

 private:
  /// This process's part of a group.
  struct Group {
    std::unique_ptr<DeviceTree> tree;
    int first;  ///< rank, among the devices of this process
    int slot;
    ProcessRange among;
  };
  int effective_group(int group_size) const;
  std::map<int, std::vector<Group>> groups_;  ///< by size; 0: all devices
  UplinkPlace above_;
};

class StatisticsExchange : public Exchange {
 public:
  /// `rank` among the devices of this process.
  StatisticsExchange(StatisticsTrees& trees, int rank) : trees_(trees), rank_(rank) {}
  int rank() const override { return trees_.above().first_rank() + rank_; }
  int devices() const override { return trees_.above().devices(); }
  void all_reduce(Context& context, Tensor& message, Merge merge, int group_size,
                  const Ticket& ticket) override;
  /// `values` of rank 0 to every device.
  void broadcast(Context& context, Tensor& values, const Ticket& ticket);

 private:
  /// This device in the tree of one group size.
  struct Group {
    StatisticsTrees::Place place;
    std::vector<int> children;
    int parent;
    std::uint64_t sequence = 0;
    /// The caller's, during an exchange. An aborted exchange keeps it: others, in this process or another,
    /// may still read it after the caller's handle is gone.
    Tensor message;
    Tensor result;    ///< what the children read
    Tensor outgoing;  ///< view of it with the message's shape
    Tensor staging, staged;
  };
  Group& group(int group_size);
  const Tensor& wait_for(Context& context, Group& group, int neighbour, const Meeting& meeting);
  const Tensor& readable(Context& context, Group& group, int neighbour, const Tensor& message);
  void send_down(Context& context, Group& group, const Tensor& message, const Meeting& meeting);

  void exchange_above(Context& context, Group& group, UplinkMerge merge, const Meeting& meeting);

  StatisticsTrees& trees_;
  int rank_;
  std::map<const DeviceTree*, Group> groups_;
};

}  // namespace banyan::parallel
