// When devices yield and when they sleep, on hosts whose time is simulated: each yield takes as long as the
// test says, and what is waited for comes at a given time.
#include "banyan/parallel/spin.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "banyan/base/error.hpp"

namespace banyan::parallel {
namespace {

using std::chrono::microseconds;

constexpr SpinPolicy kMost{20, 1000};
constexpr microseconds kQuick{1},
    kSlice{3000};  ///< yields: of a free core, of one that another program wants
constexpr microseconds kShort{10}, kLong{10'000};  ///< waits: 1000 quick yields are shorter than the long one

class Host {
 public:
  /// True if what comes after `length` comes before the device would sleep.
  bool wait(SpinGauge& gauge, microseconds length, microseconds a_yield) {
    const microseconds end = now_ + length;
    const auto yield = [&] {
      ++yields_;
      now_ += a_yield;
      return a_yield;
    };
    return gauge.spin(yield, [&] { return now_ >= end; });
  }
  /// Of `waits` equal ones, those that end with sleep.
  int sleeps(SpinGauge& gauge, int waits, microseconds length, microseconds a_yield) {
    int count = 0;
    for (int i = 0; i < waits; ++i) count += wait(gauge, length, a_yield) ? 0 : 1;
    return count;
  }
  /// Since the last call.
  int yields() { return std::exchange(yields_, 0); }

 private:
  microseconds now_{0};
  int yields_ = 0;
};

TEST(SpinGauge, SpinsWhereCoresAreFree) {
  SpinGauge gauge(kMost);
  Host host;
  EXPECT_EQ(host.sleeps(gauge, 1000, kShort, kQuick), 0);
  EXPECT_EQ(host.yields(), 10'000);  // ten of a microsecond each
}

TEST(SpinGauge, ALateYieldIsTheLastOne) {
  SpinGauge gauge(kMost);
  Host host;
  EXPECT_FALSE(host.wait(gauge, kLong, kSlice));
  EXPECT_EQ(host.yields(), 1);
  EXPECT_FALSE(host.wait(gauge, kLong, kSlice)) << "the wait after it";
  EXPECT_EQ(host.yields(), 0);
}

TEST(SpinGauge, ALateYieldCountsAlsoIfTheWaitIsOver) {
  SpinGauge gauge(kMost);
  Host host;
  EXPECT_TRUE(host.wait(gauge, kShort, kSlice));
  EXPECT_FALSE(host.wait(gauge, kShort, kSlice));
  EXPECT_EQ(host.yields(), 1);
}

TEST(SpinGauge, OnlyMoreThanTheBoundIsLate) {
  SpinGauge gauge(kMost);
  Host host;
  EXPECT_TRUE(host.wait(gauge, 3 * SpinGauge::kLate, SpinGauge::kLate));
  EXPECT_EQ(host.yields(), 3);
  EXPECT_FALSE(host.wait(gauge, 3 * SpinGauge::kLate, SpinGauge::kLate + microseconds(1)));
  EXPECT_EQ(host.yields(), 1);
}

TEST(SpinGauge, ABusyHostIsTriedRarely) {
  SpinGauge gauge(kMost);
  Host host;
  host.sleeps(gauge, 10'000, kShort, kSlice);
  // The pauses of 1, 3, 7 ... 255 waits take 510; then one of 256 waits is tried.
  EXPECT_EQ(host.yields(), 8 + (10'000 - 510 + 255) / 256);
}

TEST(SpinGauge, NoticesThatTheHostHasBecomeQuiet) {
  SpinGauge gauge(kMost);
  Host host;
  host.sleeps(gauge, 10'000, kShort, kSlice);
  // At most 255 waits until the next try, then 63, 15 and 3.
  EXPECT_LE(host.sleeps(gauge, 1000, kShort, kQuick), 255 + 63 + 15 + 3);
  EXPECT_EQ(host.sleeps(gauge, 1000, kShort, kQuick), 0);
}

TEST(SpinGauge, ForgetsASingleLateYield) {
  SpinGauge gauge(kMost);
  Host host;
  host.wait(gauge, kShort, kSlice);
  EXPECT_EQ(host.sleeps(gauge, 1000, kShort, kQuick), 1);
}

TEST(SpinGauge, RarelySpinsInVain) {
  SpinGauge gauge(kMost);
  Host host;
  EXPECT_EQ(host.sleeps(gauge, 1600, kLong, kQuick), 1600);
  EXPECT_LE(host.yields(), 105 * kMost.yields);  // one of 16, and some at the beginning
  // Soon spins again where waits have become short.
  EXPECT_LE(host.sleeps(gauge, 1000, kShort, kQuick), 15 + 3);
}

/// Where others want the core again and again, one spin that is used up must not make the host look quiet.
TEST(SpinGauge, UsedUpYieldsDoNotForgetLateOnes) {
  SpinGauge gauge(kMost);
  Host host;
  host.sleeps(gauge, 10'000, kShort, kSlice);
  const auto waits_without_yields = [&] {
    int waits = 0;
    for (host.yields(); host.yields() == 0 && waits < 1000; ++waits) host.wait(gauge, kLong, kQuick);
    return waits - 1;  // the last one yielded
  };
  waits_without_yields();  // until a spin is used up
  EXPECT_EQ(waits_without_yields(), SpinGauge::kMostAfterLate);
  // One late spin in ten; the others are used up.
  int spins = 0;
  for (int i = 0; i < 100 * (SpinGauge::kMostAfterLate + 1); ++i) {
    host.wait(gauge, kLong, spins % 10 == 0 ? kSlice : kQuick);
    spins += host.yields() > 0 ? 1 : 0;
  }
  EXPECT_EQ(spins, 100);
}

/// A number of waits that only used-up yields have made is exceeded by late ones.
TEST(SpinGauge, LateYieldsGoOnFromUsedUpOnes) {
  SpinGauge gauge(kMost);
  Host host;
  host.sleeps(gauge, 100, kLong, kQuick);  // pauses of 1, 3, 7, 15, 15 ...
  host.yields();
  host.sleeps(gauge, 1000, kLong, kSlice);
  // At least one, after which pauses of 31, 63, 127 and then 255 follow.
  EXPECT_LE(host.yields(), 7);
  host.sleeps(gauge, 2560, kLong, kSlice);
  EXPECT_EQ(host.yields(), 10);
}

TEST(SpinGauge, SpinsForShortWaitsBetweenLongOnes) {
  SpinGauge gauge(kMost);
  Host host;
  int slept = 0;
  for (int i = 0; i < 100; ++i) {
    host.wait(gauge, kLong, kQuick);
    slept += host.sleeps(gauge, 7, kShort, kQuick);
  }
  EXPECT_LE(slept, 100);  // the one after each long one
}

TEST(SpinGauge, YieldsNeverWhereItMayNot) {
  SpinGauge gauge({20, 0});
  Host host;
  EXPECT_EQ(host.sleeps(gauge, 100, microseconds(0), kQuick), 100);
  EXPECT_EQ(host.yields(), 0);
}

TEST(SpinGauge, AnAbortEndsTheSpin) {
  SpinGauge gauge(kMost);
  Host host;
  const auto aborted = []() -> microseconds { throw Error(ErrorKind::aborted, "another device failed"); };
  EXPECT_THROW(gauge.spin(aborted, [] { return false; }), Error);
  EXPECT_TRUE(host.wait(gauge, kShort, kQuick));
}

}  // namespace
}  // namespace banyan::parallel
