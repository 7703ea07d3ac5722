// Activity: what one device is doing right now. Written by its solver thread, read by the watchdog, for error
// messages and by the tests' fault injector. Entering a stage is also the heartbeat. If a timeline is kept,
// the activity also gives access to the device's tracks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "banyan/observe/timeline.hpp"

namespace banyan {

/// Stages in which a device can fail.
enum class Stage : std::uint8_t {
  idle,
  set_up,
  data,
  forward,
  exchange,
  backward,
  reduce,
  update,
  broadcast,
  test,
  snapshot
};
const char* name_of(Stage stage);
inline constexpr int kStages = 11;

struct ActivityState {
  Stage stage = Stage::idle;
  std::int64_t iteration = 0;
  const char* layer = "";  ///< lives as long as the net
  bool waiting = false;    ///< for another device
};

class Activity {
 public:
  /// Once `*abort` is true, enter() throws Error(aborted): a device that only computes stops too.
  explicit Activity(std::string device, const std::atomic<bool>* abort = nullptr)
      : device_(std::move(device)), abort_(abort) {}
  const std::string& device() const { return device_; }
  /// Enters a stage of work (heartbeat). May throw what an installed fault injector throws.
  void enter(Stage stage, const char* layer = "");
  void set_iteration(std::int64_t iteration) { iteration_.store(iteration, std::memory_order_relaxed); }
  /// Reports progress of something slow (first-iteration tuning, fsync, a cold disk).
  void beat();
  void set_idle() { stage_.store(Stage::idle, std::memory_order_relaxed); }
  /// The end of a wait is a heartbeat: what was waited for has come, perhaps after hours.
  void set_waiting(bool waiting) {
    if (!waiting) beat();
    waiting_.store(waiting, std::memory_order_relaxed);
    if (tracks_) trace_waiting(waiting);
  }
  ActivityState state() const;
  /// Has another device failed?
  bool aborted() const { return abort_ != nullptr && abort_->load(std::memory_order_acquire); }
  /// Steady-clock time of the last heartbeat.
  std::chrono::steady_clock::time_point last_beat() const;
  /// `while running layer "conv2" forward on cpu:1, iteration 37`
  std::string describe() const;

  /// From now on this device's spans are recorded there; nullopt: nowhere. Call before its thread starts, or
  /// on it while no span is open.
  void trace_to(const std::optional<DeviceTracks>& tracks) { tracks_ = tracks; }
  const std::optional<DeviceTracks>& tracks() const { return tracks_; }
  /// A span of the current iteration; nullptr without a timeline. Usually spans.hpp is what is needed.
  TimeSpan* open_span(DeviceTrack lane, SpanKind kind, std::string_view name, const char* detail = "",
                      std::int64_t number = -1) {
    return tracks_ ? tracks_->lanes[static_cast<std::size_t>(lane)]->open(
                         kind, name, detail, number, iteration_.load(std::memory_order_relaxed))
                   : nullptr;
  }

  /// Nanoseconds for which the device's thread has waited for batches. On that thread only.
  std::int64_t waited_for_data() const { return waited_for_data_; }
  void add_wait_for_data(std::int64_t nanoseconds) { waited_for_data_ += nanoseconds; }

 private:
  void trace_waiting(bool waiting);

  std::string device_;
  const std::atomic<bool>* abort_;
  std::atomic<Stage> stage_{Stage::idle};
  std::atomic<std::int64_t> iteration_{0};
  std::atomic<const char*> layer_{""};
  std::atomic<bool> waiting_{false};
  std::atomic<std::chrono::steady_clock::rep> beat_{
      std::chrono::steady_clock::now().time_since_epoch().count()};
  std::optional<DeviceTracks> tracks_;
  TimeSpan* wait_ = nullptr;  ///< while waiting
  std::int64_t waited_for_data_ = 0;
};

/// Called at every Activity::enter while installed; tests inject exceptions and stalls with it. Install it
/// before threads start.
using FaultInjector = void (*)(const Activity& activity, Stage stage, const char* layer);
void install_fault_injector(FaultInjector injector);

}  // namespace banyan
