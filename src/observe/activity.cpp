#include "banyan/observe/activity.hpp"

#include "banyan/base/error.hpp"

namespace banyan {
namespace {

std::atomic<FaultInjector> installed{nullptr};

}  // namespace

const char* name_of(Stage stage) {
  static constexpr const char* kNames[kStages] = {"idle",      "set-up",   "data",    "forward",
                                                  "exchange",  "backward", "reduce",  "update",
                                                  "broadcast", "test",     "snapshot"};
  const auto index = static_cast<std::size_t>(stage);
  return index < kStages ? kNames[index] : "unknown";
}

void Activity::enter(Stage stage, const char* layer) {
  beat();  // first: the watchdog looks at nothing else while a device is idle
  stage_.store(stage, std::memory_order_relaxed);
  layer_.store(layer, std::memory_order_release);  // together with the characters that it points to
  if (aborted()) throw Error(ErrorKind::aborted, "another device failed");
  if (const FaultInjector injector = installed.load(std::memory_order_acquire)) injector(*this, stage, layer);
}

void Activity::beat() {
  beat_.store(std::chrono::steady_clock::now().time_since_epoch().count(), std::memory_order_relaxed);
}

void Activity::trace_waiting(bool waiting) {
  if (waiting) {
    wait_ = open_span(DeviceTrack::solver, SpanKind::wait, layer_.load(std::memory_order_relaxed),
                      name_of(stage_.load(std::memory_order_relaxed)));
    if (wait_ != nullptr) wait_->begin = steady_nanoseconds();
  } else if (wait_ != nullptr) {
    wait_->end = steady_nanoseconds();
    wait_ = nullptr;
  }
}

ActivityState Activity::state() const {
  ActivityState state;
  state.stage = stage_.load(std::memory_order_relaxed);
  state.iteration = iteration_.load(std::memory_order_relaxed);
  state.layer = layer_.load(std::memory_order_acquire);
  state.waiting = waiting_.load(std::memory_order_relaxed);
  return state;
}

std::chrono::steady_clock::time_point Activity::last_beat() const {
  return std::chrono::steady_clock::time_point(
      std::chrono::steady_clock::duration(beat_.load(std::memory_order_relaxed)));
}

std::string Activity::describe() const {
  const ActivityState now = state();
  const std::string layer = *now.layer != 0 ? cat("layer \"", now.layer, "\" ") : std::string();
  return cat("while running ", layer, name_of(now.stage), " on ", device_, ", iteration ", now.iteration);
}

void install_fault_injector(FaultInjector injector) { installed.store(injector, std::memory_order_release); }

}  // namespace banyan
