// WorkerGroup: one thread per device, the first error wins, nothing hangs.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "banyan/observe/activity.hpp"
#include "banyan/parallel/abort.hpp"

namespace banyan::parallel {

/// What other processes' devices do, as far as it is known here.
struct OtherDevices {
  bool any_waits = false;
  bool all_wait = true;
  std::vector<bool> held_up = {};  ///< this process's devices whose streams wait for them; empty: none
  /// When a message of an exchange last came or left, in any process: exchanges do not stand still.
  std::chrono::steady_clock::time_point moved{};
};

/// In seconds during which the process ran: a debugger or a shell may stop and resume it.
struct WatchdogOptions {
  /// A device without a heartbeat for this long, while others wait for it, is presumed dead. 0: never.
  double silence_seconds = 0;
  /// How long the others may take to stop after a failure before the process is terminated.
  double grace_seconds = 2;
  /// True: a device that waits for data is no failure, because a parameter server goes on without this
  /// process until they come.
  bool data_may_stall = false;
  /// Called now and then on the thread that watches; empty: there are no other processes.
  std::function<OtherDevices()> others = {};
  /// Where other processes end because of the same failure: does this one say it, and what is to be done
  /// before it ends? Empty: it does, and nothing.
  std::function<bool()> speaks = {};
  std::function<void()> before_end = {};
};

class WorkerGroup {
 public:
  WorkerGroup(std::vector<Activity*> activities, AbortState& abort, WatchdogOptions watchdog)
      : activities_(std::move(activities)), abort_(abort), watchdog_(watchdog) {}

  /// Runs body(rank) for every device and returns when all have returned. A single device runs on the calling
  /// thread, unless other processes wait for it. The first exception (not the aborts that it causes) raises
  /// the abort and is rethrown as an Error that names device, iteration, layer and stage; a thread that
  /// cannot be started is such a failure. A thread that does not stop within the grace period is named on
  /// stderr after the first error, and the process ends by _exit with that error's exit code.
  /// `wind_down(rank)` runs on the device's thread after its body has ended in any way, and after the abort:
  /// it drains streams, so that nothing enqueued touches what is destroyed after run(). Must not throw.
  void run(const std::function<void(int rank)>& body, const std::function<void(int rank)>& wind_down = {});

 private:
  std::vector<Activity*> activities_;
  AbortState& abort_;
  WatchdogOptions watchdog_;
};

}  // namespace banyan::parallel
