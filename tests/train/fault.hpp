// A fault that a test injects into one device at one place.
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "banyan/base/error.hpp"
#include "banyan/observe/activity.hpp"

namespace banyan {

/// Of runs in which a device stops: a healthy one must not look stalled.
#if defined(__SANITIZE_THREAD__)  // devices are slower by an order of magnitude
inline constexpr double kSilenceSeconds = 2;
#elif defined(BANYAN_GPU_TESTS)  // emulated GPUs are slower too
inline constexpr double kSilenceSeconds = 1;
#else
inline constexpr double kSilenceSeconds = 0.5;
#endif

/// The number in an environment variable.
inline unsigned number_from(const char* variable, unsigned absent) {
  const char* text = std::getenv(variable);
  return text == nullptr ? absent : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

/// In which all devices must have stopped after a failure: BANYAN_SECONDS, more where other programs use the
/// processor, or where devices are slower.
inline double seconds_to_stop() { return number_from("BANYAN_SECONDS", 2); }
/// As TrainOptions has it: the rest is for cleaning up.
inline double grace_seconds() { return 0.75 * seconds_to_stop(); }

enum class FaultKind : std::uint8_t {
  exception,
  out_of_memory,
  bad_record,
  stall,  ///< for good: only ending the process helps
  hang,   ///< until the run is aborted
};

struct Fault {
  int device = 0;
  Stage stage = Stage::forward;
  std::int64_t iteration = 0;
  FaultKind kind = FaultKind::exception;
  int skip = 0;  ///< this many entries into the stage in that iteration are unharmed
};

/// Installed during its lifetime; one at a time. Faults strike independently of each other, once each.
class InstalledFaults {
 public:
  using Clock = std::chrono::steady_clock;
  /// `names` of the devices; empty: cpu:0, cpu:1, ...
  explicit InstalledFaults(std::vector<Fault> faults, std::vector<std::string> names = {})
      : faults_(std::move(faults)), names_(std::move(names)), seen_(faults_.size()), places_(names_.size()) {
    current() = this;
    install_fault_injector(&strike);
  }
  ~InstalledFaults() {
    install_fault_injector(nullptr);
    current() = nullptr;
  }
  InstalledFaults(const InstalledFaults&) = delete;
  InstalledFaults& operator=(const InstalledFaults&) = delete;

  /// Prints where each of the named devices was last seen; for a signal handler.
  static void print_places() {
    if (current() == nullptr) return;
    for (const auto& place : current()->places_)
      [[maybe_unused]] const auto written = ::write(STDERR_FILENO, place.data(), std::strlen(place.data()));
  }

  int struck() const { return struck_.load(); }
  std::string name_of_device(int device) const {
    return names_.empty() ? "cpu:" + std::to_string(device) : names_[device];
  }
  /// Seconds since the first fault struck.
  double seconds_since() const {
    return std::chrono::duration<double>(Clock::now().time_since_epoch() - Clock::duration(first_.load()))
        .count();
  }

 private:
  static InstalledFaults*& current() {
    static InstalledFaults* installed = nullptr;
    return installed;
  }
  static void strike(const Activity& activity, Stage stage, const char* layer) {
    InstalledFaults& self = *current();
    const std::int64_t iteration = activity.state().iteration;
    for (std::size_t i = 0; i < self.names_.size(); ++i)
      if (activity.device() == self.names_[i])
        std::snprintf(self.places_[i].data(), self.places_[i].size(), "  %s: %s %s, iteration %lld\n",
                      self.names_[i].c_str(), name_of(stage), layer, static_cast<long long>(iteration));
    for (std::size_t i = 0; i < self.faults_.size(); ++i) {
      const Fault& fault = self.faults_[i];
      if (fault.stage != stage || fault.iteration != iteration ||
          activity.device() != self.name_of_device(fault.device))
        continue;
      if (self.seen_[i]++ != fault.skip) continue;  // only that device's thread counts here
      if (self.struck_.fetch_add(1) == 0) self.first_.store(Clock::now().time_since_epoch().count());
      carry_out(fault.kind, activity);
    }
  }
  static void carry_out(FaultKind kind, const Activity& activity) {
    switch (kind) {
      case FaultKind::exception:
        throw std::runtime_error("an injected fault");
      case FaultKind::out_of_memory:
        throw std::bad_alloc();
      case FaultKind::bad_record:
        bad_input("an injected bad record");
      case FaultKind::stall:
        for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
      case FaultKind::hang:
        while (!activity.aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::vector<Fault> faults_;
  std::vector<std::string> names_;
  std::vector<int> seen_;
  std::vector<std::array<char, 128>> places_;  ///< by device; each written by that device's thread
  std::atomic<int> struck_{0};
  std::atomic<Clock::rep> first_{0};
};

}  // namespace banyan
