// The doorbell loses no ring: several threads ring, and the waiter falls asleep in every wait, or in some.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "banyan/parallel/abort.hpp"

namespace banyan::parallel {
namespace {

extern "C" void on_alarm(int) {
  constexpr char text[] = "a ring was lost: the waiter sleeps though all have rung, or an abort was raised\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, sizeof text - 1);
  std::abort();
}

/// Of several threads that ring, while the waiter spins at most as `policy` says.
void expect_every_ring_heard(SpinPolicy policy) {
  constexpr int kRingers = 3, kRounds = 10'000;
  AbortState abort;
  Doorbell bell(abort, policy);
  Activity activity("cpu:0");
  std::atomic<int> rung{0}, round{0}, spent{0};
  ::signal(SIGALRM, on_alarm);
  std::vector<std::thread> ringers;
  for (int i = 0; i < kRingers; ++i)
    ringers.emplace_back([&, i] {
      for (int turn = 0; turn < kRounds; ++turn) {
        while (round.load() < turn) std::this_thread::yield();
        // Rings at different times, so that the waiter falls asleep again between them.
        for (int pause = (turn * (i + 3)) % 97 * 40; pause > 0; --pause)
          spent.store(pause, std::memory_order_relaxed);
        rung.fetch_add(1);
        bell.ring();
      }
    });
  for (int turn = 0; turn < kRounds; ++turn) {
    if (turn % 100 == 0)
      ::alarm(60);  // 100 rounds take milliseconds; under ThreadSanitizer on a busy machine, a second
    round.store(turn);
    bell.wait(activity, [&] { return rung.load() == kRingers * (turn + 1); });
  }
  for (std::thread& ringer : ringers) ringer.join();
  ::alarm(0);
}

TEST(Doorbell, LosesNoRing) { expect_every_ring_heard({0, 0}); }

// Rings that come between the last yield and sleep, and waits without yields between those with them.
TEST(Doorbell, LosesNoRingAfterSpinning) { expect_every_ring_heard({2, 3}); }

/// Or a device that has waited for hours would be taken for one that makes no progress, until it says what it
/// does next.
TEST(Doorbell, TheEndOfAWaitIsAHeartbeat) {
  AbortState abort;
  Doorbell bell(abort, {});
  Activity activity("cpu:0");
  activity.enter(Stage::exchange);
  std::atomic<std::chrono::steady_clock::time_point> rung{};
  std::thread ringer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    rung = std::chrono::steady_clock::now();
    bell.ring();
  });
  bell.wait(activity, [&] { return rung.load() != std::chrono::steady_clock::time_point(); });
  ringer.join();
  EXPECT_FALSE(activity.state().waiting);
  EXPECT_GE(activity.last_beat(), rung.load());
}

/// A waiter that does not spin at all is asleep when the abort comes, or about to be.
TEST(Doorbell, AnAbortWakesTheSleeper) {
  ::signal(SIGALRM, on_alarm);
  ::alarm(60);
  for (int turn = 0; turn < 200; ++turn) {
    AbortState abort;
    Doorbell bell(abort, {0, 0});
    Activity activity("cpu:0");
    std::atomic<int> looks{0};
    std::thread other([&] {
      // It looks once before it decides to sleep and once more before it does.
      while (looks.load() < 2) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::microseconds(turn % 4 * 100));
      abort.raise();
    });
    const auto never = [&] {
      looks.fetch_add(1);
      return false;
    };
    try {
      bell.wait(activity, never);
      ADD_FAILURE() << "nobody rang for what it waits for";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::aborted);
    }
    EXPECT_GE(looks.load(), 2);
    other.join();
  }
  ::alarm(0);
}

}  // namespace
}  // namespace banyan::parallel
