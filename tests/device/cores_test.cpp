// Dividing cores among devices: a pure function on made-up machines, and the binding of this process.
#include "banyan/device/cores.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "banyan/base/error.hpp"
#include "banyan/device/device.hpp"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Shares = std::vector<std::vector<int>>;

std::vector<CoreSeat> plain(int cores) {
  std::vector<CoreSeat> seats;
  for (int core = 0; core < cores; ++core) seats.push_back({core, 0, 0});
  return seats;
}

/// Two sockets of two physical cores, each with two logical ones: neighbours (0 1), (2 3), ...
std::vector<CoreSeat> two_sockets() {
  std::vector<CoreSeat> seats;
  for (int core = 0; core < 8; ++core) seats.push_back({core, core / 4, core % 2});
  return seats;
}

TEST(ShareOut, CutsCoresIntoNeighbours) {
  EXPECT_EQ(share_out(plain(6), {}, 3, 2), (Shares{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(share_out(plain(6), {}, 2, 2), (Shares{{0, 1}, {2, 3}}));
  EXPECT_THAT(share_out(plain(3), {}, 2, 2), IsEmpty());
}

TEST(ShareOut, TakesWholePhysicalCoresFirstAndKeepsADeviceOnOneSocket) {
  EXPECT_EQ(share_out(two_sockets(), {}, 2, 2), (Shares{{0, 2}, {4, 6}}));
  EXPECT_EQ(share_out(two_sockets(), {}, 2, 4), (Shares{{0, 2, 1, 3}, {4, 6, 5, 7}}));
  EXPECT_EQ(share_out(two_sockets(), {}, 1, 2), (Shares{{0, 2}}));
}

TEST(ShareOut, LeavesTakenCoresToTheLast) {
  EXPECT_EQ(share_out(plain(4), {0, 1}, 2, 1), (Shares{{2}, {3}}));
  EXPECT_EQ(share_out(plain(4), {0, 1}, 3, 1), (Shares{{0}, {2}, {3}}));
}

TEST(CoreList, JoinsNeighbours) {
  EXPECT_EQ(core_list({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(core_list({}), "");
}

class Binding : public testing::Test {
 protected:
  void SetUp() override {
    all_ = allowed_cores();
    if (all_.size() < 2) GTEST_SKIP() << "needs two cores";
  }
  /// For this test only.
  const std::string claims_ = cat("cores_test ", ::getpid());
  std::vector<int> all_;
};

TEST_F(Binding, EveryDeviceHasItsOwnCoresAndHelpersHaveAll) {
  const DeviceCores cores(2, 1, Pinning::automatic, claims_);
  ASSERT_EQ(cores.of(0).size(), 1u);
  ASSERT_EQ(cores.of(1).size(), 1u);
  EXPECT_NE(cores.of(0), cores.of(1));
  EXPECT_THAT(cores.describe(), HasSubstr(cat("cpu:1 on ", cores.of(1)[0])));
  CpuDeviceOptions options;
  options.cores = cores.of(1);
  const auto device = make_cpu_device(1, options);
  std::vector<int> own, helper, grandchild;
  std::thread([&] {
    device->make_current();
    own = allowed_cores();
    std::thread([&] {
      grandchild = allowed_cores();
      device->make_current_for_helper();
      helper = allowed_cores();
    }).join();
  }).join();
  EXPECT_EQ(own, cores.of(1));
  EXPECT_EQ(grandchild, cores.of(1)) << "a team's threads are to be where the thread is that starts them";
  EXPECT_EQ(helper, all_);
}

TEST_F(Binding, OtherRunsKeepAwayFromClaimedCores) {
  const int count = static_cast<int>(all_.size());
  {
    const DeviceCores first(1, 1, Pinning::automatic, claims_);
    ASSERT_EQ(first.of(0).size(), 1u);
    const DeviceCores second(1, 1, Pinning::automatic, claims_);
    ASSERT_EQ(second.of(0).size(), 1u);
    EXPECT_NE(first.of(0), second.of(0));
    const DeviceCores third(count, 1, Pinning::automatic, claims_);
    EXPECT_THAT(third.of(0), IsEmpty());
    EXPECT_THAT(third.describe(), HasSubstr("other runs"));
    const DeviceCores insists(count, 1, Pinning::on, claims_);
    EXPECT_EQ(insists.of(count - 1).size(), 1u);
  }
  const DeviceCores afterwards(count, 1, Pinning::automatic, claims_);
  EXPECT_EQ(afterwards.of(0).size(), 1u) << "claims end with the run";
}

TEST_F(Binding, TooFewCoresAreShared) {
  const int count = static_cast<int>(all_.size());
  const DeviceCores shared(count + 1, 1, Pinning::automatic, claims_);
  EXPECT_THAT(shared.of(count), IsEmpty());
  EXPECT_THAT(shared.describe(), HasSubstr(cat("share ", count, " cores")));
  EXPECT_THROW(DeviceCores(count + 1, 1, Pinning::on, claims_), Error);
  EXPECT_THAT(DeviceCores(2, 1, Pinning::off, claims_).of(0), IsEmpty());
  EXPECT_THAT(DeviceCores(1, count, Pinning::automatic, claims_).of(0), IsEmpty()) << "it has them all";
}

TEST_F(Binding, StaysWithinTheCoresOfTheProcessAndGivesThemBack) {
  const std::vector<int> last = {all_.back()};
  std::thread([&] {  // as if started by taskset
    ASSERT_TRUE(run_on_cores(last));
    EXPECT_EQ(allowed_cores(), last);
    EXPECT_THROW(DeviceCores(2, 1, Pinning::on, claims_), Error);
  })
      .join();
  std::thread([&] {
    {
      const DeviceCores cores(1, 1, Pinning::on, claims_);
      ASSERT_TRUE(run_on_cores(cores.of(0)));
      EXPECT_EQ(allowed_cores().size(), 1u);
    }
    EXPECT_EQ(allowed_cores(), all_);
  }).join();
}

}  // namespace
}  // namespace banyan
