#include "banyan/parallel/worker_group.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "banyan/base/error.hpp"
#include "banyan/parallel/crew.hpp"
#include "stop_this_process.hpp"
#include "thread_limit.hpp"
#include "tree_fixture.hpp"

namespace banyan::parallel {
namespace {

using Clock = std::chrono::steady_clock;

/// Of a bell that nobody rings: it only pauses, since a device that yields sleeps where its core is wanted.
constexpr SpinPolicy kNeverSleep{1 << 30, 0};

TEST(WorkerGroup, OneDeviceRunsOnTheCallingThread) {
  TreeFixture fixture({1, false, 0});
  std::thread::id ran;
  fixture.run([&](int) { ran = std::this_thread::get_id(); });
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST(WorkerGroup, TheFirstErrorWinsAndNamesThePlace) {
  for (int failing = 0; failing < 4; ++failing) {
    TreeFixture fixture({4, false, 0});
    Rendezvous meeting(4, fixture.abort, fixture.spin());
    const auto before = Clock::now();
    try {
      fixture.run([&](int rank) {
        fixture.activity(rank).set_iteration(37);
        fixture.activity(rank).enter(Stage::forward, "conv2");
        if (rank == failing) throw std::runtime_error("it broke");
        meeting.meet(rank, fixture.activity(rank), {"test"});
      });
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::runtime);
      EXPECT_EQ(std::string(error.what()), "it broke\n  while running layer \"conv2\" forward on cpu:" +
                                               std::to_string(failing) + ", iteration 37");
    }
    EXPECT_LT(Clock::now() - before, std::chrono::seconds(2));
  }
}

TEST(WorkerGroup, ADeviceThatOnlyComputesStopsToo) {
  TreeFixture fixture({2, false, 0});
  EXPECT_THROW(fixture.run([&](int rank) {
    if (rank == 1) bad_input("label 12 of 10");
    for (;;) {
      fixture.activity(rank).enter(Stage::forward, "conv1");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }),
               Error);
}

TEST(WorkerGroup, TheWatchdogNamesTheSilentDevice) {
  TreeFixture fixture({3, false, 0}, {0.3, 2});
  Rendezvous meeting(3, fixture.abort, fixture.spin());
  try {
    fixture.run([&](int rank) {
      if (rank == 2) {
        fixture.activity(rank).enter(Stage::backward, "ip1");
        while (!fixture.abort.raised()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return;
      }
      fixture.activity(rank).enter(Stage::exchange, "bn1");
      meeting.meet(rank, fixture.activity(rank), {"test"});
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("watchdog: cpu:2 has made no progress"));
    EXPECT_THAT(error.what(), testing::HasSubstr("layer \"ip1\" backward on cpu:2"));
  }
}

/// A parameter server takes such a worker out until its data come.
TEST(WorkerGroup, ADeviceThatWaitsForDataMayBeNoFailure) {
  WatchdogOptions watchdog{0.2, 2, /*data_may_stall=*/true};
  watchdog.others = [] { return OtherDevices{true, false}; };
  TreeFixture fixture({2, false, 0}, watchdog);
  Rendezvous meeting(2, fixture.abort, fixture.spin());
  fixture.run([&](int rank) {
    if (rank == 1) {
      fixture.activity(rank).enter(Stage::data, "images");
      std::this_thread::sleep_for(std::chrono::milliseconds(1000));
      fixture.activity(rank).enter(Stage::forward, "conv1");
    }
    meeting.meet(rank, fixture.activity(rank), {"test"});
  });
  EXPECT_THROW(fixture.run([&](int rank) {
    if (rank == 1) {
      fixture.activity(rank).enter(Stage::forward, "conv1");
      while (!fixture.abort.raised()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    meeting.meet(rank, fixture.activity(rank), {"test"});
  }),
               Error);
}

TEST(WorkerGroup, SlowIsNotSilent) {
  TreeFixture fixture({2, false, 0}, {0.2, 2});
  Rendezvous meeting(2, fixture.abort, fixture.spin());
  fixture.run([&](int rank) {
    if (rank == 1)
      for (int i = 0; i < 30; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        fixture.activity(rank).beat();
      }
    meeting.meet(rank, fixture.activity(rank), {"test"});
  });
}

/// A device that has waited for long for one of another process, which has now done its part: all wait for
/// the moment in which the messages travel.
TEST(WorkerGroup, ThatAllWaitForAMomentIsNoStandstill) {
  const auto begun = Clock::now();
  const auto after = [begun](int milliseconds) {
    return Clock::now() - begun > std::chrono::milliseconds(milliseconds);
  };
  WatchdogOptions watchdog{0.5, 2};
  watchdog.others = [&after] { return OtherDevices{true, after(800)}; };
  TreeFixture fixture({1, false, 0}, watchdog);
  Doorbell bell(fixture.abort, kNeverSleep);
  fixture.run([&](int rank) {
    fixture.activity(rank).enter(Stage::exchange, "differences");
    bell.wait(fixture.activity(rank), [&] { return after(1000); });
  });
}

TEST(WorkerGroup, ThatAllWaitWhileMessagesMoveIsNone) {
  const auto begun = Clock::now();
  const auto after = [begun](int milliseconds) {
    return Clock::now() - begun > std::chrono::milliseconds(milliseconds);
  };
  WatchdogOptions watchdog{0.5, 2};
  watchdog.others = [&after, begun] {
    OtherDevices others{true, true};
    others.moved = std::min(Clock::now(), begun + std::chrono::milliseconds(1500));
    return others;
  };
  TreeFixture fixture({1, false, 0}, watchdog);
  Doorbell bell(fixture.abort, kNeverSleep);
  fixture.run([&](int rank) {
    fixture.activity(rank).enter(Stage::exchange, "differences");
    bell.wait(fixture.activity(rank), [&] { return after(1600); });
  });
}

TEST(WorkerGroup, ThatAllWaitForLongIsOne) {
  WatchdogOptions watchdog{0.3, 2};
  watchdog.others = [] { return OtherDevices{true, true}; };
  TreeFixture fixture({1, false, 0}, watchdog);
  Doorbell bell(fixture.abort, kNeverSleep);
  try {
    fixture.run([&](int rank) {
      fixture.activity(rank).enter(Stage::exchange, "differences");
      bell.wait(fixture.activity(rank), [] { return false; });
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("cpu:0 has made no progress for 0.3 s while other devices "
                                                 "wait (and it waits too)"));
  }
}

/// Device 0 fails while device 1 is in a call that does not return.
void fail_beside_a_stuck_device(const std::function<void()>& fail, WatchdogOptions watchdog = {}) {
  watchdog.grace_seconds = 0.2;
  TreeFixture fixture({2, false, 0}, watchdog);
  fixture.run([&](int rank) {
    if (rank == 0) {
      while (fixture.activity(1).state().stage != Stage::data) std::this_thread::yield();
      fail();
    }
    fixture.activity(rank).enter(Stage::data, "mnist");
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  });
}

void break_down() { throw std::runtime_error("it broke"); }

TEST(WorkerGroupDeathTest, AThreadThatCannotBeStoppedEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(fail_beside_a_stuck_device(break_down), testing::ExitedWithCode(1),
              "it broke[^$]*the thread of cpu:1 cannot be stopped");
}

/// Of the processes of a host one says what has happened, and has the time to.
TEST(WorkerGroupDeathTest, AThreadThatCannotBeStoppedIsNotSaidTwice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  WatchdogOptions watchdog;
  watchdog.speaks = [] { return false; };
  watchdog.before_end = [] { std::fputs("the others have spoken", stderr); };
  EXPECT_EXIT(fail_beside_a_stuck_device(break_down, watchdog), testing::ExitedWithCode(1),
              "^the others have spoken$");
}

/// The program's caller must be able to distinguish a bad record from a failure, whatever else goes wrong.
TEST(WorkerGroupDeathTest, TheExitCodeIsThatOfTheFirstErrorAlsoThen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(fail_beside_a_stuck_device([] { bad_input("label 12 of 10"); }), testing::ExitedWithCode(2),
              "label 12 of 10[^$]*the thread of cpu:1 cannot be stopped");
}

TEST(WorkerGroupDeathTest, TimeInWhichTheProcessWasStoppedIsNoGrace) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto body = [] {
    TreeFixture fixture({2, false, 0}, {0, 1});
    EXPECT_THROW(fixture.run([&](int rank) {
      if (rank == 0) throw std::runtime_error("it broke");
      while (!fixture.abort.raised()) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the grace period has begun
      stop_this_process(2000);
    }),
                 Error);
    ::_exit(testing::Test::HasFailure() ? 3 : 0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST(WorkerGroupDeathTest, TimeInWhichTheProcessWasStoppedIsNoSilence) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto body = [] {
    TreeFixture fixture({2, false, 0}, {1, 1});
    Rendezvous meeting(2, fixture.abort, fixture.spin());
    EXPECT_NO_THROW(fixture.run([&](int rank) {
      fixture.activity(rank).enter(Stage::forward, "conv1");
      if (rank == 1) {
        stop_this_process(2000);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the watchdog checks
      }
      meeting.meet(rank, fixture.activity(rank), {"test"});
    }));
    ::_exit(testing::Test::HasFailure() ? 3 : 0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST(WorkerGroup, AThreadThatCannotBeStartedEndsTheOthers) {
  BANYAN_NEEDS_THREAD_LIMIT;
  for (int failing = 0; failing < 4; ++failing) {
    TreeFixture fixture({4, false, 0});
    Rendezvous meeting(4, fixture.abort, fixture.spin());
    std::atomic<int> started{0}, ended{0};
    std::string error;
    const ThreadLimit limit(failing);
    try {
      fixture.run([&](int rank) {
        ++started;
        try {
          meeting.meet(rank, fixture.activity(rank), {"test"});
        } catch (const Error&) {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          ++ended;
          throw;
        }
      });
    } catch (const Error& thrown) {
      EXPECT_EQ(thrown.kind(), ErrorKind::runtime);
      error = thrown.what();
    }
    EXPECT_THAT(error, testing::HasSubstr(cat("cannot start the thread of cpu:", failing, ": ")));
    EXPECT_THAT(error, testing::HasSubstr("Resource temporarily unavailable"));
    EXPECT_EQ(started, failing);
    EXPECT_EQ(ended, failing);
  }
}

TEST(Crew, AThreadThatCannotBeStartedIsAnError) {
  BANYAN_NEEDS_THREAD_LIMIT;
  for (int started = 0; started < 3; ++started) {  // one leading thread, two devices
    TreeFixture fixture({2, false, 0});
    const ThreadLimit limit(started);
    try {
      Crew crew({&fixture.activity(0), &fixture.activity(1)}, fixture.abort, {}, {});
      crew.carry_out([&](int rank) { fixture.meet(rank); });
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::runtime);
      EXPECT_THAT(error.what(), testing::HasSubstr("cannot start the thread of cpu:"));
    }
    EXPECT_TRUE(limit.reached());
  }
}

/// No device may continue as if nothing had happened because the last one came too late.
TEST(Rendezvous, IsNotCompletedAfterTheAbort) {
  TreeFixture fixture({2, false, 0});
  Rendezvous meeting(2, fixture.abort, fixture.spin());
  fixture.abort.raise();
  for (const int rank : {0, 1}) EXPECT_THROW(meeting.meet(rank, fixture.activity(rank), {"test"}), Error);
}

TEST(Rendezvous, IsForTheSame) {
  TreeFixture fixture({3, false, 0});
  for (const Topic& other : {Topic{"snapshot", 8}, Topic{"test", 7}}) {
    Rendezvous meeting(3, fixture.abort, fixture.spin());
    fixture.run([&](int rank) {
      meeting.meet(rank, fixture.activity(rank), {"snapshot", 7});
      if (rank != 2) return meeting.meet(rank, fixture.activity(rank), {"snapshot", 7});
      try {
        meeting.meet(rank, fixture.activity(rank), other);
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::runtime);
        EXPECT_EQ(error.message(), cat("devices meet for different reasons: cpu:2 for \"", other.what, "\" (",
                                       other.number, "), the first device for \"snapshot\" (7)"));
      }
    });
  }
}

TEST(Rendezvous, MeetsManyTimes) {
  TreeFixture fixture({5, false, 0});
  Rendezvous meeting(5, fixture.abort, fixture.spin());
  std::atomic<int> counter{0};
  fixture.run([&](int rank) {
    for (int i = 0; i < 200; ++i) {
      counter.fetch_add(1);
      meeting.meet(rank, fixture.activity(rank), {"test"});
      ASSERT_EQ(counter.load(), 5 * (i + 1));
      meeting.meet(rank, fixture.activity(rank), {"test"});
    }
  });
}

}  // namespace
}  // namespace banyan::parallel
