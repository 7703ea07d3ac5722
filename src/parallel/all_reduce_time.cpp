#include "banyan/parallel/all_reduce_time.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

#include "banyan/base/error.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/parallel/gradient_sync.hpp"
#include "banyan/parallel/link_cost.hpp"
#include "banyan/parallel/statistics_exchange.hpp"
#include "banyan/parallel/worker_group.hpp"
#include "base/clock.hpp"

namespace banyan::parallel {
namespace {

using Clock = std::chrono::steady_clock;

/// Up to this size one message per edge and direction is faster than buckets.
constexpr std::size_t kShortMessage = std::size_t{32} << 10;

int repeats_for(std::size_t bytes, int devices) {
  constexpr std::size_t kWorth = std::size_t{2} << 30;  // bytes in all
  return static_cast<int>(
      std::clamp<std::size_t>(kWorth / (bytes * static_cast<std::size_t>(devices)), 7, 1000));
}

/// Small integers: their sums are exact. Never the same on two devices.
float part(int rank, std::int64_t i) { return static_cast<float>((rank + 1) * (i % 127 + 1)); }

/// The buckets of one parameter of this size, as training would cut it.
std::vector<Bucket> buckets_of(std::size_t bytes, const UplinkPlace& place) {
  const auto count = static_cast<std::int64_t>(bytes / sizeof(float));
  return plan_buckets({{0, count, 0}}, count, sizeof(float),
                      *std::min_element(place.devices_of.begin(), place.devices_of.end()), place.devices(),
                      false, place.processes());
}

/// One device's side of all sums of one size.
class Worker {
 public:
  Worker(StatisticsTrees& trees, DeviceTree& tree, const UplinkPlace& place, Rendezvous& meeting, int rank,
         std::size_t bytes, std::size_t chunk_bytes)
      : meeting_(meeting),
        activity_(*tree.member(rank).activity),
        compute_(*tree.member(rank).device, "all-reduce"),
        lane_(*tree.member(rank).device, "gradients"),
        rank_(rank),
        first_rank_(place.first_rank()),
        devices_(place.devices()),
        values_(compute_.device(), Shape{static_cast<std::int64_t>(bytes / sizeof(float))}, DType::f32),
        exchange_(trees, rank) {
    if (bytes <= kShortMessage || devices_ == 1) return;
    const auto no_update = [](int) {};
    sync_ = std::make_unique<GradientSync>(&tree, rank, lane_, buckets_of(bytes, place), values_, values_,
                                           no_update, chunk_bytes);
  }

  void check() {
    std::vector<float> host(values_.count());
    for (std::int64_t i = 0; i < values_.count(); ++i) host[i] = part(first_rank_ + rank_, i);
    copy_from_host(compute_, host.data(), values_);
    run_once();
    copy_to_host(compute_, values_, host.data());
    for (std::int64_t i = 0; i < values_.count(); ++i) {
      const float expected = static_cast<float>(devices_ * (devices_ + 1) / 2) * part(0, i);
      if (host[i] != expected)
        runtime_failure("the sum over all devices of ", values_.bytes(), " bytes is wrong on ",
                        compute_.device().name(), ": value ", i, " is ", host[i], ", not ", expected);
    }
    wait_for_all();
    ops::fill(compute_, values_, 0);  // sums stay 0, however often they are summed again
  }

  /// After the rounds, whether they succeeded or not: nothing enqueued remains.
  void drain() noexcept {
    for (Context* context : {&compute_, &lane_}) {
      try {
        context->synchronize();
      } catch (...) {
        // The failure that ended the rounds has been reported already.
      }
    }
  }

  /// Training keeps gradients and parameters apart; here the sums take the place of the parts, so all must
  /// have read one round's sums before the next round begins. The statistics lane copies them.
  void wait_for_all() {
    if (sync_) meeting_.meet(rank_, activity_, {"timing"});
  }

  void run_once() {
    if (sync_) {
      sync_->start();
      sync_->layer_done(0, compute_.stream());
      sync_->finish(compute_.stream());
    } else {
      exchange_.all_reduce(compute_, values_, Merge::sum, 0, Ticket{"all-reduce", "timing"});
    }
    compute_.synchronize();
  }

 private:
  Rendezvous& meeting_;
  Activity& activity_;
  Context compute_, lane_;
  int rank_, first_rank_, devices_;
  Tensor values_;
  StatisticsExchange exchange_;
  std::unique_ptr<GradientSync> sync_;
};

/// Device 0's median; the others only take part.
double run_rounds(Worker& worker, int repeats) {
  worker.check();
  const int warm_up = repeats / 10 + 1;
  std::vector<double> times;
  for (int i = 0; i < warm_up + repeats; ++i) {
    worker.wait_for_all();
    const auto begun = Clock::now();
    worker.run_once();
    if (i >= warm_up) times.push_back(seconds_since(begun));
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

std::vector<AllReduceTime> time_all_reduce(const LinkMatrix& links, const Tree& tree,
                                           const std::vector<Member>& members,
                                           const std::vector<std::size_t>& sizes, int repeats,
                                           AbortState& abort, SpinPolicy policy, Uplink* uplink) {
  const UplinkPlace place = uplink != nullptr ? uplink->place() : UplinkPlace{0, {tree.size()}};
  std::vector<Activity*> activities;
  for (const Member& member : members) activities.push_back(member.activity);
  std::vector<AllReduceTime> times;
  const LinkCost cost = measure_link_cost(tree, members, policy).slowest;
  for (const std::size_t bytes : sizes) {
    const std::size_t chunk = chunk_for(tree, members[0].device->kind(), bytes, cost);
    const int slots = GradientSync::slots_for(buckets_of(bytes, place), sizeof(float), chunk);
    StatisticsTrees trees(links, tree, members, {}, abort, policy, uplink);
    DeviceTree gradients(tree, members, abort, policy, slots, uplink);
    Rendezvous meeting(tree.size(), abort, policy);
    AllReduceTime time{bytes, 0, repeats > 0 ? repeats : repeats_for(bytes, place.devices())};
    std::vector<std::unique_ptr<Worker>> workers(members.size());  // outlive every thread that reads them
    const auto body = [&](int rank) {
      Activity& activity = *activities[rank];
      members[rank].device->make_current();
      activity.enter(Stage::exchange, "all-reduce");
      auto& worker = workers[rank];
      worker = std::make_unique<Worker>(trees, gradients, place, meeting, rank, bytes, chunk);
      meeting.meet(rank, activity, {"timing"});
      const double median = run_rounds(*worker, time.repeats);
      if (rank == 0) time.seconds_median = median;
    };
    WorkerGroup(activities, abort, {60, 2}).run(body, [&](int rank) {
      if (const auto& worker = workers[rank]) worker->drain();
    });
    times.push_back(time);
  }
  return times;
}

}  // namespace banyan::parallel
