// AbortState and Doorbell: how devices wait for each other without ever hanging.
//
// Every wait in the tree is a wait on the waiting device's Doorbell. Whoever changes something that a device
// may be waiting for rings its bell; an abort rings all bells. So one flag ends every wait, and no wait needs
// a timeout.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/observe/activity.hpp"
#include "banyan/parallel/spin.hpp"

namespace banyan::parallel {

class Doorbell;

class AbortState {
 public:
  AbortState() = default;
  AbortState(const AbortState&) = delete;
  AbortState& operator=(const AbortState&) = delete;
  bool raised() const { return raised_.load(std::memory_order_acquire); }
  const std::atomic<bool>& flag() const { return raised_; }
  /// Ends every present and future wait. Idempotent.
  void raise();
  /// The same, because of `error`. The first one that is not merely an abort caused by another is kept.
  void raise(const Error& error);
  /// The first error; nothing if there was none, or not yet.
  std::optional<Error> error() const;
  /// Throws Error(aborted) once raised.
  void check() const;
  /// Calls `action` when the abort is raised, immediately if it has been; on any thread, possibly twice. For
  /// waits that are not on a Doorbell. It must neither throw nor wait, and what it uses must outlive the last
  /// raise().
  void on_raise(std::function<void()> action);

 private:
  friend class Doorbell;
  void enroll(Doorbell* bell);
  void leave(Doorbell* bell);
  std::atomic<bool> raised_{false};
  std::mutex mutex_;
  std::vector<Doorbell*> bells_;
  std::vector<std::function<void()>> actions_;
  mutable std::mutex error_mutex_;  ///< of its own: actions may ask for the error
  std::optional<Error> error_;
};

class Doorbell {
 public:
  Doorbell(AbortState& abort, SpinPolicy policy);
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  void ring() {
    const std::uint32_t rung = count_.fetch_add(1) + 1;
    // Waking is a system call: the first ring wakes the sleeper; further rings before it runs need not. Only
    // a ring that the sleeper has not seen may clear its mark: a count that is still the one it sleeps at
    // does not wake it, and later rings would then assume that it is awake.
    std::uint64_t asleep = asleep_.load();
    const auto unseen = static_cast<std::int32_t>(rung - static_cast<std::uint32_t>(asleep));
    if (asleep != 0 && unseen > 0 && asleep_.compare_exchange_strong(asleep, 0)) wake();
  }
  /// Returns when `ready()` is true; throws Error(aborted) if the abort is raised first. Only the bell's
  /// owner may wait.
  template <class Ready>
  void wait(Activity& activity, Ready&& ready) {
    if (ready()) return;
    const Waiting marked(activity);
    for (int i = gauge_.pauses(); i > 0; --i) {
      pause();
      if (ready()) return;
      abort_->check();
    }
    const auto yield = [this] {
      abort_->check();
      return timed_yield();
    };
    if (gauge_.spin(yield, ready)) return;
    for (;;) {
      const std::uint32_t seen = count_.load();
      if (ready()) return;
      abort_->check();
      // A ring that does not see the sleeper has changed the count before the sleeper compares it.
      asleep_.store(kAsleep | seen);
      sleep(seen);
      asleep_.store(0);
    }
  }

 private:
  struct Waiting {
    explicit Waiting(Activity& activity) : activity_(activity) { activity_.set_waiting(true); }
    ~Waiting() { activity_.set_waiting(false); }
    Activity& activity_;
  };
  static void pause();
  static std::chrono::nanoseconds timed_yield();
  /// Until wake(), unless the count has changed already; may also return for no reason.
  void sleep(std::uint32_t seen);
  void wake();

  AbortState* abort_;
  SpinGauge gauge_;
  std::atomic<std::uint32_t> count_{0};
  static constexpr std::uint64_t kAsleep = std::uint64_t{1} << 32;
  std::atomic<std::uint64_t> asleep_{0};  ///< 0: awake; else kAsleep and the count that the sleeper has seen
};

/// Why devices meet: the same for all.
struct Topic {
  const char* what = "";    ///< a literal
  std::int64_t number = 0;  ///< such as the iteration's
};

/// A meeting of all devices for rare events (tests, snapshots, start): each waits until all have arrived.
class Rendezvous {
 public:
  Rendezvous(int devices, AbortState& abort, SpinPolicy policy);
  /// Throws Error(aborted) if the abort is raised before all have arrived, and a runtime failure that names
  /// both topics if others have come for a different one.
  void meet(int rank, Activity& activity, const Topic& topic);

 private:
  struct Seat {
    std::uint64_t attended = 0;     ///< meetings; written by its own thread
    std::array<Topic, 2> topics{};  ///< of meeting i at i % 2: others read it until they reach the next one
  };
  AbortState* abort_;
  std::atomic<std::uint64_t> arrived_{0};
  std::vector<Seat> seats_;
  std::vector<std::unique_ptr<Doorbell>> bells_;
};

}  // namespace banyan::parallel
