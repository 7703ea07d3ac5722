// AbortState and Doorbell: how devices wait for each other without ever hanging.
//
// Every wait of the tree is a wait on the waiting device's Doorbell. Whoever changes something that a device
// may wait for rings its bell; an abort rings all bells. So one flag ends every wait, and no wait needs a
// time-out.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "banyan/observe/activity.hpp"

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
  /// Throws Error(aborted) once raised.
  void check() const;

 private:
  friend class Doorbell;
  void enroll(Doorbell* bell);
  void leave(Doorbell* bell);
  std::atomic<bool> raised_{false};
  std::mutex mutex_;
  std::vector<Doorbell*> bells_;
};

/// How long a waiting device burns its core before it sleeps.
struct SpinPolicy {
  int pauses = 0;  ///< busy checks first: right when every device has cores of its own
  int yields = 0;  ///< then checks after giving the core away: right when devices share cores
};
/// For `devices` solver threads that use `threads_per_device` threads each on this machine.
SpinPolicy spin_policy(int devices, int threads_per_device);

class Doorbell {
 public:
  Doorbell(AbortState& abort, SpinPolicy policy);
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  void ring() {
    count_.fetch_add(1);
    if (sleepers_.load() != 0) count_.notify_all();
  }
  /// Returns when `ready()` is true; throws Error(aborted) when the abort is raised first. Only the bell's
  /// owner waits.
  template <class Ready>
  void wait(Activity& activity, Ready&& ready) {
    if (ready()) return;
    const Waiting marked(activity);
    for (int i = 0; i < policy_.pauses + policy_.yields; ++i) {
      i < policy_.pauses ? pause() : yield();
      if (ready()) return;
      abort_->check();
    }
    sleepers_.fetch_add(1);
    const Sleeping counted(sleepers_);
    for (;;) {
      const std::uint32_t seen = count_.load();
      if (ready()) return;
      abort_->check();
      count_.wait(seen);
    }
  }

 private:
  struct Waiting {
    explicit Waiting(Activity& activity) : activity_(activity) { activity_.set_waiting(true); }
    ~Waiting() { activity_.set_waiting(false); }
    Activity& activity_;
  };
  struct Sleeping {
    explicit Sleeping(std::atomic<int>& sleepers) : sleepers_(sleepers) {}
    ~Sleeping() { sleepers_.fetch_sub(1); }
    std::atomic<int>& sleepers_;
  };
  static void pause();
  static void yield();

  AbortState* abort_;
  SpinPolicy policy_;
  std::atomic<std::uint32_t> count_{0};
  std::atomic<int> sleepers_{0};
};

/// A meeting of all devices for rare events (tests, snapshots, start): everybody waits until everybody is
/// there.
class Rendezvous {
 public:
  Rendezvous(int devices, AbortState& abort, SpinPolicy policy);
  void meet(int rank, Activity& activity);

 private:
  int devices_;
  std::atomic<std::uint64_t> arrived_{0};
  std::vector<std::unique_ptr<Doorbell>> bells_;
};

}  // namespace banyan::parallel
