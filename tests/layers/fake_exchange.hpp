// Replicas of one layer on several CPU devices, one thread each, that exchange through host memory in rank
// order.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "layers/bench.hpp"

namespace banyan::testing {

/// Where the replicas meet. A replica that fails wakes all others with an error.
class MeetingPoint {
 public:
  explicit MeetingPoint(int devices) : devices_(devices), messages_(static_cast<std::size_t>(devices)) {}

  int devices() const { return devices_; }
  int meetings() const { return meetings_; }

  /// Returns every rank's message once all ranks have reached the same ticket.
  std::vector<Values> meet(int rank, const Values& message, const std::string& ticket) {
    std::unique_lock lock(mutex_);
    if (arrived_ == 0) ticket_ = ticket;
    if (ticket_ != ticket) fail(cat("rank ", rank, " is at ", ticket, ", others are at ", ticket_));
    messages_[rank] = message;
    const int round = round_;
    if (++arrived_ == devices_) {
      result_ = messages_;
      arrived_ = 0;
      ++round_;
      ++meetings_;
      condition_.notify_all();
    }
    // Limits how long a wrong test can hang.
    condition_.wait_for(lock, std::chrono::seconds(30), [&] { return round_ != round || !failure_.empty(); });
    if (!failure_.empty()) runtime_failure(failure_);
    if (round_ == round) fail(cat("rank ", rank, " was alone at ", ticket));
    return result_;
  }
  void leave_with(const std::string& error) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = error;
    condition_.notify_all();
  }

 private:
  [[noreturn]] void fail(const std::string& error) {
    if (failure_.empty()) failure_ = error;
    condition_.notify_all();
    runtime_failure(failure_);
  }

  const int devices_;
  std::mutex mutex_;
  std::condition_variable condition_;
  std::vector<Values> messages_, result_;
  std::string ticket_, failure_;
  int arrived_ = 0, round_ = 0, meetings_ = 0;
};

class FakeExchange : public Exchange {
 public:
  FakeExchange(MeetingPoint& point, int rank) : point_(&point), rank_(rank) {}
  int rank() const override { return rank_; }
  int devices() const override { return point_->devices(); }

  void all_reduce(Context& context, Tensor& message, Merge merge, int group_size,
                  const Ticket& ticket) override {
    const std::vector<Values> all =
        point_->meet(rank_, get_values(context, message), cat(ticket.layer, " ", ticket.phase));
    const int size = group_size == 0 ? devices() : group_size, first = rank_ / size * size;
    Values merged = all[first];
    for (int r = first + 1; r < std::min(first + size, devices()); ++r)
      merge == Merge::sum ? add(merged, all[r]) : add_moments(merged, all[r]);
    set_values(context, message, merged);
  }

 private:
  static void add(Values& to, const Values& from) {
    ASSERT_EQ(to.size(), from.size());
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }
  static void add_moments(Values& to, const Values& from) {
    ASSERT_EQ(to.size(), from.size());
    if (from[0] == 0) return;
    const std::size_t channels = (to.size() - 1) / 2;
    const double count = to[0] + from[0];
    for (std::size_t c = 1; c <= channels; ++c) {
      const double delta = from[c] - to[c];
      to[channels + c] += from[channels + c] + delta * delta * to[0] * from[0] / count;
      to[c] += delta * from[0] / count;
    }
    to[0] = count;
  }

  MeetingPoint* point_;
  int rank_;
};

/// Runs body(rank) on one thread per rank; the first error becomes a test failure.
template <class Body>
void run_replicas(MeetingPoint& point, Body body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < point.devices(); ++rank) {
    threads.emplace_back([&point, &body, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
        point.leave_with(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// What run(bench, rank) returns on each of several devices; shapes(rank) are the inputs'.
template <class Run, class Shapes>
auto run_on_devices(const std::string& text, int outputs, int devices, const Shapes& shapes, const Run& run) {
  MeetingPoint point(devices);
  std::vector<std::invoke_result_t<Run, Bench&, int>> parts(static_cast<std::size_t>(devices));
  run_replicas(point, [&](int rank) {
    BenchOptions options;
    options.rank = rank;
    options.devices = devices;
    Bench bench(text, shapes(rank), outputs, options);
    FakeExchange exchange(point, rank);
    bench.pass.exchange = &exchange;
    parts[static_cast<std::size_t>(rank)] = run(bench, rank);
  });
  return parts;
}

/// What run(bench) returns on each of several devices, to which a batch of `total` is dealt sample by sample
/// (Pass::samples); shapes(number of samples) are the inputs'.
template <class Run, class Shapes>
auto run_dealt(const std::string& text, int outputs, int devices, std::int64_t total, const Shapes& shapes,
               const Run& run) {
  return run_on_devices(
      text, outputs, devices, [&](int rank) { return shapes((total - rank + devices - 1) / devices); },
      [&](Bench& bench, int rank) {
        bench.pass.samples = {rank, devices};
        return run(bench);
      });
}

/// Where the shares of a batch of 5 begin on three devices, the second of which has no sample.
inline constexpr std::int64_t kFirsts[] = {0, 2, 2, 5};

/// What run(bench, first sample, number of samples) returns on each of those devices; shapes(number of
/// samples) are the inputs'.
template <class Run, class Shapes>
auto run_shares(const std::string& text, int outputs, const Shapes& shapes, const Run& run) {
  const auto batch = [](int rank) { return kFirsts[rank + 1] - kFirsts[rank]; };
  return run_on_devices(
      text, outputs, 3, [&](int rank) { return shapes(batch(rank)); },
      [&](Bench& bench, int rank) { return run(bench, kFirsts[rank], batch(rank)); });
}

}  // namespace banyan::testing
