// How long a device that waits for another one spins before it sleeps.
#pragma once

#include <chrono>

namespace banyan::parallel {

/// The most that a waiting device spins before it sleeps.
struct SpinPolicy {
  int pauses = 0;  ///< busy checks first: best if every device has its own cores
  int yields = 0;  ///< then checks after yielding the core: best if devices share cores
};
/// For `devices` solver threads that use `threads_per_device` threads each on this machine.
SpinPolicy spin_policy(int devices, int threads_per_device);

/// Decides for each wait of a device whether it yields its core before it sleeps, from how the waits before
/// it went. It has no clock: it is told how long each yield took.
///
/// Where nobody else wants the core, a yield takes less than a microsecond. Elsewhere another thread runs
/// meanwhile, for as long as the scheduler lets it: milliseconds, even if what is waited for comes
/// immediately. A sleeper that is woken usually gets a core sooner. So after a late yield the device sleeps,
/// in this wait and in a number of waits that follow. That number more than doubles with every late yield and
/// shrinks to a quarter with every wait that ends well: a busy host is tried rarely, and a quiet one soon
/// noticed. Yields that are used up in vain let the number grow too, but only up to a few waits, as nobody
/// else wanted the core; what late yields have made of it stays.
class SpinGauge {
 public:
  /// Longer than a thread of the same run needs to answer on the same core (some ten microseconds), shorter
  /// than the slices of schedulers (from 700 microseconds on).
  static constexpr std::chrono::microseconds kLate{100};
  static constexpr int kMostAfterLate = 255, kMostAfterUsedUp = 15;  ///< waits without yields

  explicit SpinGauge(SpinPolicy most) : most_(most) {}
  int pauses() const { return most_.pauses; }
  /// True once `ready()` is, after a yield; false: time to sleep. `yield()` returns how long it took. What
  /// either throws leaves the gauge as it was, but for a wait less.
  template <class Yield, class Ready>
  bool spin(Yield&& yield, Ready&& ready) {
    if (resting_ > 0) {
      --resting_;
      return false;
    }
    for (int i = 0; i < most_.yields; ++i) {
      const bool late = yield() > kLate, came = ready();
      if (late) rest(kMostAfterLate);
      if (came && !late) came_in_time();
      if (came || late) return came;
    }
    if (most_.yields > 0) rest(kMostAfterUsedUp);
    return false;
  }

 private:
  void rest(int most);
  void came_in_time();

  SpinPolicy most_;
  int rest_ = 0;     ///< the number of waits without yields after the last spin
  int resting_ = 0;  ///< how many of them are still to come
};

}  // namespace banyan::parallel
