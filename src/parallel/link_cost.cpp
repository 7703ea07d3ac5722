#include "banyan/parallel/link_cost.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/parallel/link_check.hpp"
#include "banyan/parallel/worker_group.hpp"
#include "base/another_thread.hpp"

namespace banyan::parallel {
namespace {

/// Stages of the pipeline after the first: the last chunk passes them alone.
double later_stages(int depth) { return 2.0 * depth - 1; }

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

/// Seconds from one device's thread to the next one's, for a token that goes round all of them. The median of
/// several laps, because devices that share cores often wait for the scheduler.
double measure_handover(const std::vector<Member>& members, SpinPolicy policy) {
  const int devices = static_cast<int>(members.size());
  constexpr int kMeasures = 9, kPerMeasure = 4, kLaps = (kMeasures + 1) * kPerMeasure;
  AbortState abort;
  std::vector<std::unique_ptr<Doorbell>> bells;
  for (int i = 0; i < devices; ++i) bells.push_back(std::make_unique<Doorbell>(abort, policy));
  std::atomic<int> token{-1};
  std::vector<double> laps;
  std::vector<std::unique_ptr<Activity>> activities;
  std::vector<Activity*> group;
  for (const Member& member : members) {
    activities.push_back(std::make_unique<Activity>(member.device->name(), &abort.flag()));
    group.push_back(activities.back().get());
  }
  const auto take_part = [&](int rank) {
    try {
      members[rank].device->make_current();  // on the device's own cores
    } catch (const Error&) {                 // its own thread will fail too
    }
    auto begun = std::chrono::steady_clock::now();
    for (int turn = rank; turn < kLaps * devices; turn += devices) {
      bells[rank]->wait(*group[rank], [&] { return token.load() == turn - 1; });
      if (rank == 0 && turn % (kPerMeasure * devices) == 0) {
        const auto now = std::chrono::steady_clock::now();
        if (turn > 0)
          laps.push_back(std::chrono::duration<double>(now - begun).count() / (kPerMeasure * devices));
        begun = now;
      }
      token.store(turn);
      bells[(rank + 1) % devices]->ring();
    }
  };
  WorkerGroup(group, abort, {}).run(take_part);
  std::nth_element(laps.begin(), laps.begin() + kMeasures / 2, laps.end());
  return laps[kMeasures / 2];
}

}  // namespace

double pipeline_seconds(std::size_t message, int depth, const LinkCost& link, std::size_t chunk) {
  if (depth == 0) return 0;
  const auto chunks = static_cast<double>(divide_up(message, chunk));
  return (chunks + later_stages(depth)) * link.seconds(static_cast<double>(std::min(chunk, message)));
}

/// With K chunks of S / K bytes and m stages after the first, the time is (K + m) (L + S / (K B)): convex in
/// K, with its minimum at K = sqrt(m S / (L B)). The integers on either side are tried.
std::size_t best_chunk(std::size_t message, int depth, const LinkCost& link, std::size_t largest) {
  const std::size_t most = std::max<std::size_t>(1, std::min(message, largest));
  if (depth == 0 || message <= 1) return most;
  const double per_latency = link.latency_s * link.bytes_per_s;  // bytes that travel during one latency
  const double ideal = std::sqrt(later_stages(depth) * static_cast<double>(message) /
                                 std::max(per_latency, 1.0 / static_cast<double>(message)));
  const auto fewest = divide_up(message, most);
  const auto near = static_cast<std::size_t>(std::min(ideal, static_cast<double>(message)));
  std::size_t best = most;
  for (const std::size_t chunks : {near, near + 1}) {
    const std::size_t chunk = divide_up(message, std::clamp(chunks, fewest, message));
    if (pipeline_seconds(message, depth, link, chunk) < pipeline_seconds(message, depth, link, best))
      best = chunk;
  }
  return best;
}

std::size_t largest_chunk(int devices, DeviceKind kind) {
  constexpr std::size_t kKi = 1024, kMi = 1024 * kKi, kCaches = 2 * kMi, kStaging = 8 * kMi;
  const auto n = static_cast<std::size_t>(devices);
  return kind == DeviceKind::cpu ? std::clamp(kCaches / (n * n), 64 * kKi, 512 * kKi) : kStaging;
}

std::size_t chunk_for(const Tree& tree, DeviceKind kind, std::size_t message, const LinkCost& link) {
  return best_chunk(message, tree.greatest_depth(), link, largest_chunk(tree.size(), kind));
}

LinkCost slowest_link(const Tree& tree, const std::function<LinkCost(int reader, int owner)>& edge) {
  LinkCost slowest{0, std::numeric_limits<double>::infinity()};
  for (int owner = 0; owner < tree.size(); ++owner)
    for (const int reader : tree.neighbours(owner)) {
      if (reader > owner) continue;
      const LinkCost cost = edge(reader, owner);
      slowest.latency_s = std::max(slowest.latency_s, cost.latency_s);
      slowest.bytes_per_s = std::min(slowest.bytes_per_s, cost.bytes_per_s);
    }
  return slowest;
}

MeasuredLinks measure_link_cost(const Tree& tree, const std::vector<Member>& members, SpinPolicy policy) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  constexpr int kRepeats = 3;
  std::optional<LinkCost> in_host;  // where all edges are the same memory
  const auto cost_of = [&](int reading, int owning) -> LinkCost {
    const Member& reader = members[reading];
    Device& owner = *members[owning].device;
    const bool host = reader.device->in_host_memory();
    if (host && in_host) return *in_host;
    const Access access = reader.access != nullptr ? reader.access->between(owner, *reader.device)
                                                   : usual_access(owner, *reader.device);
    const LinkSpeed speed = on_another_thread([&] {
      reader.device->make_current();
      return measure_link(owner, *reader.device, access, kBytes, kRepeats);
    });
    const LinkCost cost{speed.latency_seconds, speed.bytes_per_second};
    if (host) in_host = cost;
    return cost;
  };
  MeasuredLinks links;
  links.slowest = slowest_link(tree, [&](int reader, int owner) {
    return links.edges.emplace_back(MeasuredLinks::Edge{reader, owner, cost_of(reader, owner)}).copies;
  });
  if (tree.size() > 1) links.slowest.latency_s += measure_handover(members, policy);
  return links;
}

}  // namespace banyan::parallel
