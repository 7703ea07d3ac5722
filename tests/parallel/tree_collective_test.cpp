// Sums over the tree, in both kinds of streams. With asynchronous streams every missing event wait is a data
// race that ThreadSanitizer reports and that the random delays turn into wrong sums.
#include "banyan/parallel/tree_collective.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "banyan/base/error.hpp"
#include "banyan/ops/basic.hpp"
#include "tree_fixture.hpp"

namespace banyan::parallel {
namespace {

constexpr std::int64_t kCount = 1000;

class TreeCollectiveTest : public testing::TestWithParam<TreeSetting> {};
INSTANTIATE_TEST_SUITE_P(Devices, TreeCollectiveTest, testing::ValuesIn(all_settings()), name_of_setting);

/// Value e of `rank` in `round`: small integers, so that sums are exact in any order.
float part(int rank, int round, std::int64_t e) {
  return static_cast<float>((rank + 1) * (round + 1) + e % 17);
}

TEST_P(TreeCollectiveTest, SumsOnEveryDeviceRoundAfterRound) {
  TreeFixture fixture(GetParam());
  const int devices = fixture.size();
  for (const Tree& shape : {build_tree(fixture.links()), chain_tree(devices), star_tree(devices)}) {
    DeviceTree tree = fixture.tree(shape, 5);
    fixture.run([&](int rank) {
      Context compute(fixture.device(rank)), lane(fixture.device(rank), "lane");
      Tensor buffer(fixture.device(rank), Shape{kCount}, DType::f32);
      TreeCollective collective(tree, rank, lane,
                                cut_segments(buffer, 1024, devices));  // 4 segments, roots in turn
      for (int round = 0; round < 3; ++round) {
        std::vector<float> mine(kCount), result(kCount);
        for (std::int64_t e = 0; e < kCount; ++e) mine[static_cast<std::size_t>(e)] = part(rank, round, e);
        copy_from_host(compute, mine.data(), buffer);
        collective.start();
        for (int segment = 0; segment < 4; ++segment) collective.make_ready(segment, compute.stream());
        collective.finish_and_release();
        copy_to_host(lane, buffer, result.data());
        for (std::int64_t e = 0; e < kCount; ++e) {
          float expected = 0;
          for (int r = 0; r < devices; ++r) expected += part(r, round, e);
          ASSERT_EQ(result[static_cast<std::size_t>(e)], expected)
              << "device " << rank << " element " << e << " round " << round;
        }
      }
    });
  }
}

/// The order of additions must not depend on who arrives first: inexact sums must have the same bits every
/// time.
TEST_P(TreeCollectiveTest, BitsDoNotDependOnTiming) {
  std::vector<float> first;
  for (int run = 0; run < 10; ++run) {
    TreeFixture fixture(GetParam());
    DeviceTree tree = fixture.tree(build_tree(fixture.links()), 5);
    std::vector<float> result(kCount);
    fixture.run([&](int rank) {
      Context lane(fixture.device(rank));
      Tensor buffer(fixture.device(rank), Shape{kCount}, DType::f32);
      std::vector<float> mine(kCount);
      for (std::int64_t e = 0; e < kCount; ++e)
        mine[static_cast<std::size_t>(e)] = 1.0f / static_cast<float>(3 + rank * 7 + e);
      copy_from_host(lane, mine.data(), buffer);
      TreeCollective collective(tree, rank, lane, cut_segments(buffer, 1024, fixture.size()));
      collective.start();
      for (int segment = 0; segment < 4; ++segment) collective.make_ready(segment, lane.stream());
      collective.finish_and_release();
      if (rank == fixture.size() - 1) copy_to_host(lane, buffer, result.data());
      lane.synchronize();
    });
    if (run == 0) first = result;
    ASSERT_EQ(std::memcmp(first.data(), result.data(), kCount * sizeof(float)), 0) << "run " << run;
  }
}

TEST_P(TreeCollectiveTest, RootsActBetweenUpAndDownAndCanBeHeld) {
  TreeFixture fixture(GetParam());
  DeviceTree tree = fixture.tree(build_tree(fixture.links()), 3);
  std::vector<int> seen(static_cast<std::size_t>(fixture.size()), 0);
  fixture.run([&](int rank) {
    Context lane(fixture.device(rank));
    Tensor up(fixture.device(rank), Shape{2}, DType::f64), down(fixture.device(rank), Shape{2}, DType::f64);
    std::vector<Segment> segments;
    for (int s = 0; s < 2; ++s)
      segments.push_back({s % fixture.size(), up.slice(s, Shape{1}), down.slice(s, Shape{1})});
    TreeCollective collective(tree, rank, lane, segments);
    collective.set_at_root([&](int segment) {
      Tensor from = segments[static_cast<std::size_t>(segment)].up,
             to = segments[static_cast<std::size_t>(segment)].down;
      ops::axpby(lane, 10.0, from, 0.0, to);
      ++seen[static_cast<std::size_t>(rank)];
    });
    ops::fill(lane, up, 1.0);
    collective.hold_roots();
    collective.start();
    for (int s = 0; s < 2; ++s) collective.make_ready(s, lane.stream());
    collective.finish_reduction();
    EXPECT_TRUE(collective.all_reduced());
    EXPECT_EQ(seen[static_cast<std::size_t>(rank)], 0);
    collective.release_roots();
    collective.finish_and_release();
    double values[2];
    copy_to_host(lane, down, values);
    EXPECT_EQ(values[0], 10.0 * fixture.size());
    EXPECT_EQ(values[1], 10.0 * fixture.size());
  });
  int total = 0;
  for (const int count : seen) total += count;
  EXPECT_EQ(total, 2);
}

TEST(TreeCollective, NamesBothDevicesThatMeetAtDifferentRounds) {
  TreeFixture fixture({2, false, 0});
  DeviceTree tree = fixture.tree(build_tree(fixture.links()), 2);
  std::vector<Tensor> buffers(2);  // others may read a buffer until all threads have ended
  try {
    fixture.run([&](int rank) {
      Context lane(fixture.device(rank));
      Tensor& buffer = buffers[static_cast<std::size_t>(rank)];
      buffer = Tensor(fixture.device(rank), Shape{1}, DType::f32);
      TreeCollective collective(tree, rank, lane, {{0, buffer, buffer}});
      collective.start();
      if (rank == 1) {
        collective.start();
        collective.start();
      }
      collective.make_ready(0, lane.stream());
      collective.finish();
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cpu:1 at \"bucket\" up"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("cpu:0 at"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace banyan::parallel
