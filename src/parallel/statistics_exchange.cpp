#include "banyan/parallel/statistics_exchange.hpp"

#include <algorithm>
#include <numeric>

#include "banyan/base/error.hpp"
#include "banyan/observe/spans.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/normalization.hpp"

namespace banyan::parallel {
namespace {

/// The root of every tree here, whichever root it was built with: rank 0 has what is broadcast.
constexpr int kRoot = 0;

/// Makes room for a message of this size, which other devices read while the next one is prepared elsewhere.
void ensure_buffer(Context& context, Tensor& buffer, const Tensor& message) {
  if (buffer.defined() && buffer.dtype() == message.dtype() && buffer.count() >= message.count()) return;
  context.synchronize();
  buffer = Tensor(context.device(), message.shape(), message.dtype());
}

}  // namespace

StatisticsTrees::StatisticsTrees(const LinkMatrix& links, const Tree& whole,
                                 const std::vector<Member>& members, const std::vector<int>& group_sizes,
                                 AbortState& abort, SpinPolicy policy, Uplink* uplink)
    : devices_(static_cast<int>(members.size())) {
  above_ = uplink != nullptr ? uplink->place() : UplinkPlace{0, 1, 0, devices_};
  trees_[0].push_back(std::make_unique<DeviceTree>(whole, members, abort, policy, 1, uplink));
  for (const int wanted : group_sizes) {
    const int size = effective_group(wanted);
    if (trees_.contains(size)) continue;
    if (uplink != nullptr && (devices_ % size != 0 || above_.first_rank % size != 0))
      bad_input("sync_group_size ", wanted, " is not supported over several processes: this one has ",
                devices_, " devices after ", above_.first_rank, " others, so a group would span processes");
    auto& groups = trees_[size];
    for (int first = 0; first < devices_; first += size) {
      std::vector<int> ranks(std::min(size, devices_ - first));
      std::iota(ranks.begin(), ranks.end(), first);
      std::vector<Member> group;
      for (const int rank : ranks) group.push_back(members[rank]);
      groups.push_back(
          std::make_unique<DeviceTree>(best_tree(links.subset(ranks)), std::move(group), abort, policy, 1));
    }
  }
}

/// The number of devices that actually meet for a sync group size; 0: all.
int StatisticsTrees::effective_group(int group_size) const {
  return group_size <= 0 || group_size >= above_.devices ? 0 : group_size;
}

StatisticsTrees::Place StatisticsTrees::place(int group_size, int rank) {
  const int size = effective_group(group_size);
  const auto found = trees_.find(size);
  if (found == trees_.end())
    bad_input("sync_group_size ", group_size, " was not announced when the device tree was made");
  if (size == 0) return {found->second.front().get(), rank};
  return {found->second[rank / size].get(), rank % size};
}

StatisticsExchange::Group& StatisticsExchange::group(int group_size) {
  const StatisticsTrees::Place place = trees_.place(group_size, rank_);
  if (const auto found = groups_.find(place.tree); found != groups_.end()) return found->second;
  Group group{place, {}, -1, 0, {}, {}, {}, {}, {}};
  const Tree& tree = place.tree->tree();
  group.children = tree.children(place.node, kRoot);
  group.parent = tree.parent(place.node, kRoot);
  return groups_.emplace(place.tree, std::move(group)).first->second;
}

const Tensor& StatisticsExchange::readable(Context& context, Group& group, int neighbour,
                                           const Tensor& message) {
  if (group.place.tree->reads_in_place(group.place.node, neighbour)) return message;
  ensure_buffer(context, group.staging, message);
  group.staged = group.staging.slice(0, message.shape());
  group.place.tree->copy(group.place.node, neighbour, context.stream(), group.staged, message);
  return group.staged;
}

const Tensor& StatisticsExchange::wait_for(Context& context, Group& group, int neighbour,
                                           const Meeting& meeting) {
  DeviceTree& tree = *group.place.tree;
  const Pipe& pipe = tree.pipe(neighbour, group.place.node);
  tree.bell(group.place.node).wait(*tree.member(group.place.node).activity, [&] {
    return pipe.arrived(0, meeting);
  });
  return pipe.receive(0, context.stream());
}

void StatisticsExchange::send_down(Context& context, Group& group, const Tensor& message,
                                   const Meeting& meeting) {
  if (group.children.empty()) return;
  ensure_buffer(context, group.result, message);
  group.outgoing = group.result.slice(0, message.shape());
  context.stream().copy(group.outgoing.raw(), message.raw(), message.bytes());
  for (const int child : group.children)
    group.place.tree->pipe(group.place.node, child).send(0, group.outgoing, meeting, context.stream());
}

/// At the root: after the messages from below, before the message down.
void StatisticsExchange::exchange_above(Context& context, Group& group, UplinkMerge merge,
                                        const Meeting& meeting) {
  DeviceTree& tree = *group.place.tree;
  Uplink* uplink = tree.uplink();
  if (uplink == nullptr) return;
  Doorbell& bell = tree.bell(group.place.node);
  uplink->begin(Uplink::kStatistics, group.message, merge, meeting, context, bell);
  bell.wait(*tree.member(group.place.node).activity,
            [&] { return uplink->done(Uplink::kStatistics, context); });
}

void StatisticsExchange::all_reduce(Context& context, Tensor& message, Merge merge, int group_size,
                                    const Ticket& ticket) {
  Group& at = group(group_size);
  DeviceTree& tree = *at.place.tree;
  if (tree.is_alone()) return;
  Activity& activity = *tree.member(at.place.node).activity;
  activity.enter(Stage::exchange, ticket.layer);
  const StreamSpan span(activity, DeviceTrack::compute, context.stream(), SpanKind::exchange, ticket.layer,
                        ticket.phase);
  const Meeting meeting{ticket.layer, ticket.phase, message.count(), ++at.sequence};
  at.message = message;
  for (const int child : at.children) {
    const Tensor& part = readable(context, at, child, wait_for(context, at, child, meeting));
    if (merge == Merge::moments)
      ops::merge_moments(context, part, message);
    else
      ops::axpby(context, 1.0, part, 1.0, message);
  }
  if (at.parent >= 0) {
    tree.pipe(at.place.node, at.parent).send(0, at.message, meeting, context.stream());
    const Tensor& result = wait_for(context, at, at.parent, meeting);
    tree.copy(at.place.node, at.parent, context.stream(), message, result);
  } else {
    exchange_above(context, at, merge == Merge::moments ? UplinkMerge::moments : UplinkMerge::sum, meeting);
  }
  send_down(context, at, message, meeting);
  at.message = {};
}

void StatisticsExchange::broadcast(Context& context, Tensor& values, const Ticket& ticket) {
  Group& at = group(0);
  DeviceTree& tree = *at.place.tree;
  if (tree.is_alone()) return;
  Activity& activity = *tree.member(at.place.node).activity;
  activity.enter(Stage::broadcast, ticket.layer);
  const StreamSpan span(activity, DeviceTrack::compute, context.stream(), SpanKind::broadcast, ticket.layer,
                        ticket.phase);
  const Meeting meeting{ticket.layer, ticket.phase, values.count(), ++at.sequence};
  at.message = values;
  // A token climbs first: it says that the children have copied the last result, so the buffer is free.
  for (const int child : at.children) wait_for(context, at, child, meeting);
  if (at.parent >= 0) {
    tree.pipe(at.place.node, at.parent).send(0, at.message, meeting, context.stream());
    const Tensor& result = wait_for(context, at, at.parent, meeting);
    tree.copy(at.place.node, at.parent, context.stream(), values, result);
  } else {
    exchange_above(context, at, UplinkMerge::first, meeting);
  }
  send_down(context, at, values, meeting);
  at.message = {};
}

}  // namespace banyan::parallel
