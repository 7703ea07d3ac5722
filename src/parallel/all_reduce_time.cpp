#include "banyan/parallel/all_reduce_time.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

#include "banyan/base/error.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/parallel/link_cost.hpp"
#include "banyan/parallel/statistics_exchange.hpp"
#include "banyan/parallel/tree_collective.hpp"
#include "banyan/parallel/worker_group.hpp"

namespace banyan::parallel {
namespace {

using Clock = std::chrono::steady_clock;

/// Up to here one message per edge and direction is faster than segments (and their release).
constexpr std::size_t kShortMessage = std::size_t{32} << 10;

int repeats_for(std::size_t bytes, int devices) {
  constexpr std::size_t kWorth = std::size_t{2} << 30;  // bytes in all
  return static_cast<int>(
      std::clamp<std::size_t>(kWorth / (bytes * static_cast<std::size_t>(devices)), 7, 1000));
}

/// Small whole numbers: their sums are exact. Never the same on two devices.
float part(int rank, std::int64_t i) { return static_cast<float>((rank + 1) * (i % 127 + 1)); }

/// One device's side of all sums of one size.
class Worker {
 public:
  Worker(StatisticsTrees& trees, DeviceTree& tree, int rank, std::size_t bytes, std::size_t chunk_bytes)
      : context_(*tree.member(rank).device, "all-reduce"),
        rank_(rank),
        devices_(tree.size()),
        values_(context_.device(), Shape{static_cast<std::int64_t>(bytes / sizeof(float))}, DType::f32),
        exchange_(trees, rank) {
    if (bytes <= kShortMessage || devices_ == 1) return;
    const auto segments = cut_segments(values_, devices_);
    segments_ = static_cast<int>(segments.size());
    collective_ = std::make_unique<TreeCollective>(tree, rank, context_, segments, chunk_bytes);
  }

  void check() {
    std::vector<float> host(static_cast<std::size_t>(values_.count()));
    for (std::int64_t i = 0; i < values_.count(); ++i) host[static_cast<std::size_t>(i)] = part(rank_, i);
    copy_from_host(context_, host.data(), values_);
    run_once();
    copy_to_host(context_, values_, host.data());
    for (std::int64_t i = 0; i < values_.count(); ++i) {
      const float expected = static_cast<float>(devices_ * (devices_ + 1) / 2) * part(0, i);
      if (host[static_cast<std::size_t>(i)] != expected)
        runtime_failure("the sum over all devices of ", values_.bytes(), " bytes is wrong on ",
                        context_.device().name(), ": value ", i, " is ", host[static_cast<std::size_t>(i)],
                        ", not ", expected);
    }
    ops::fill(context_, values_, 0);  // sums stay 0, however often they are summed again
  }

  /// After the rounds, whether they went well or not: nothing enqueued remains.
  void drain() noexcept {
    try {
      context_.synchronize();
    } catch (...) {
      // The failure that ended the rounds is reported already.
    }
  }

  void run_once() {
    if (collective_) {
      collective_->start();
      for (int segment = 0; segment < segments_; ++segment)
        collective_->make_ready(segment, context_.stream());
      collective_->finish_and_release();
    } else {
      exchange_.all_reduce(context_, values_, Merge::sum, 0, Ticket{"all-reduce", "timing"});
    }
    context_.synchronize();
  }

 private:
  Context context_;
  int rank_, devices_;
  Tensor values_;
  StatisticsExchange exchange_;
  int segments_ = 0;
  std::unique_ptr<TreeCollective> collective_;
};

/// Device 0's median; the others only take part.
double run_rounds(Worker& worker, int repeats) {
  worker.check();
  for (int i = 0; i < repeats / 10 + 1; ++i) worker.run_once();
  std::vector<double> times;
  auto last = Clock::now();
  for (int i = 0; i < repeats; ++i) {
    worker.run_once();
    const auto now = Clock::now();
    times.push_back(std::chrono::duration<double>(now - last).count());
    last = now;
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

std::vector<AllReduceTime> time_all_reduce(const LinkMatrix& links, const Tree& tree,
                                           const std::vector<Member>& members,
                                           const std::vector<std::size_t>& sizes, int repeats,
                                           AbortState& abort, SpinPolicy policy) {
  const int devices = tree.size();
  std::vector<Activity*> activities;
  for (const Member& member : members) activities.push_back(member.activity);
  std::vector<AllReduceTime> times;
  const LinkCost cost = measure_link_cost(tree, members, policy);
  for (const std::size_t bytes : sizes) {
    const std::size_t chunk = chunk_for(tree, members[0].device->kind(), bytes, cost);
    // There is at most a segment for each device, and each rounds its number of chunks.
    const int slots = TreeCollective::slots_for({bytes}, chunk) + devices;
    StatisticsTrees trees(links, tree, members, {}, abort, policy);
    DeviceTree gradients(tree, members, abort, policy, slots);
    Rendezvous meeting(devices, abort, policy);
    AllReduceTime time{bytes, 0, repeats > 0 ? repeats : repeats_for(bytes, devices)};
    std::vector<std::unique_ptr<Worker>> workers(members.size());  // outlive every thread that reads them
    const auto body = [&](int rank) {
      Activity& activity = *activities[static_cast<std::size_t>(rank)];
      members[static_cast<std::size_t>(rank)].device->make_current();
      activity.enter(Stage::exchange, "all-reduce");
      auto& worker = workers[static_cast<std::size_t>(rank)];
      worker = std::make_unique<Worker>(trees, gradients, rank, bytes, chunk);
      meeting.meet(rank, activity, {"timing"});
      const double median = run_rounds(*worker, time.repeats);
      if (rank == 0) time.seconds_median = median;
    };
    WorkerGroup(activities, abort, {60, 2}).run(body, [&](int rank) {
      if (const auto& worker = workers[static_cast<std::size_t>(rank)]) worker->drain();
    });
    times.push_back(time);
  }
  return times;
}

}  // namespace banyan::parallel
