#include "banyan/parallel/statistics_exchange.hpp"

#include <algorithm>
#include <numeric>
#include <set>

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
                                 AbortState& abort, SpinPolicy policy, Uplink* uplink) {
  const auto here = static_cast<int>(members.size());
  above_ = uplink != nullptr ? uplink->place() : UplinkPlace{0, {here}};
  groups_[0].push_back({std::make_unique<DeviceTree>(whole, members, abort, policy, 1, uplink), 0,
                        Uplink::kStatistics, above_.everybody()});
  std::set<int> sizes;
  for (const int wanted : group_sizes) sizes.insert(effective_group(wanted));
  sizes.erase(0);
  const int first_rank = above_.first_rank(), all = above_.devices();
  int slots = 0;  // of the groups of smaller sizes, in all processes
  for (const int size : sizes) {
    for (int number = first_rank / size; number * size < first_rank + here; ++number) {
      const int begin = number * size, end = std::min(begin + size, all);
      const int first = std::max(begin - first_rank, 0), last = std::min(end - first_rank, here) - 1;
      std::vector<int> ranks(last - first + 1);
      std::iota(ranks.begin(), ranks.end(), first);
      const ProcessRange among = above_.holding(begin, end - 1);
      groups_[size].push_back({std::make_unique<DeviceTree>(
                                   best_tree(links.subset(ranks)),
                                   std::vector<Member>(members.begin() + first, members.begin() + last + 1),
                                   abort, policy, 1, among.size() > 1 ? uplink : nullptr),
                               first, -1 - slots - number, among});
    }
    slots += (all + size - 1) / size;
  }
}

/// The number of devices that actually meet for a sync group size; 0: all.
int StatisticsTrees::effective_group(int group_size) const {
  return group_size <= 0 || group_size >= above_.devices() ? 0 : group_size;
}

StatisticsTrees::Place StatisticsTrees::place(int group_size, int rank) {
  const int size = effective_group(group_size);
  const auto found = groups_.find(size);
  if (found == groups_.end())
    bad_input("sync_group_size ", group_size, " was not announced when the device tree was made");
  const int first_rank = above_.first_rank();
  const int number = size == 0 ? 0 : (first_rank + rank) / size - first_rank / size;
  const Group& group = found->second[number];
  return {group.tree.get(), rank - group.first, group.slot, group.among};
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
  RootParent* uplink = tree.uplink();
  if (uplink == nullptr) return;
  Doorbell& bell = tree.bell(group.place.node);
  const int slot = group.place.slot;
  uplink->begin(slot, group.message, merge, meeting, group.place.among, context, bell);
  bell.wait(*tree.member(group.place.node).activity, [&] { return uplink->done(slot, context); });
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
