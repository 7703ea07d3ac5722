// Sums over the tree, in both kinds of streams. With asynchronous streams every missing event wait is a data
// race that ThreadSanitizer reports and that the random delays turn into wrong sums.
#include "banyan/parallel/tree_collective.hpp"

#include <gtest/gtest.h>

#include "banyan/base/error.hpp"
#include "banyan/ops/basic.hpp"
#include "tree_fixture.hpp"

namespace banyan::parallel {
namespace {

constexpr std::int64_t kCount = 1000;

class TreeCollectiveTest : public testing::TestWithParam<TreeSetting> {};
INSTANTIATE_TEST_SUITE_P(Devices, TreeCollectiveTest, testing::ValuesIn(all_settings()), name_of_setting);

/// Four segments with roots in turn, two a wave.
std::vector<Segment> segments_of(const Tensor& buffer, int devices) {
  std::vector<Segment> segments;
  for (int s = 0; s < 4; ++s) {
    const std::int64_t at = s * kCount / 4;
    const Tensor part = buffer.slice(at, Shape{(s + 1) * kCount / 4 - at});
    segments.push_back({s % devices, s / 2, part, part});
  }
  return segments;
}
/// Bytes; four chunks of each segment, the last one not full.
constexpr std::size_t kChunk = 256;
int slots() { return TreeCollective::slots_for({1000, 1000, 1000, 1000}, kChunk); }

/// Value e of `rank` in `round`: small integers, so that sums are exact in any order.
float part(int rank, int round, std::int64_t e) {
  return static_cast<float>((rank + 1) * (round + 1) + e % 17);
}

TEST_P(TreeCollectiveTest, SumsOnEveryDeviceRoundAfterRound) {
  TreeFixture fixture(GetParam());
  const int devices = fixture.size();
  for (const Tree& shape :
       {build_tree(fixture.links()), chain_tree(devices), star_tree(devices), direct_tree(devices)}) {
    DeviceTree tree = fixture.tree(shape, slots());
    fixture.run([&](int rank) {
      Context compute(fixture.device(rank)), lane(fixture.device(rank), "lane");
      Tensor buffer(fixture.device(rank), Shape{kCount}, DType::f32);
      TreeCollective collective(tree, rank, lane, segments_of(buffer, devices), kChunk);
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

TEST_P(TreeCollectiveTest, RootsActBetweenUpAndDownAndCanBeHeld) {
  TreeFixture fixture(GetParam());
  DeviceTree tree = fixture.tree(best_tree(fixture.links()), 5);
  std::vector<int> seen(static_cast<std::size_t>(fixture.size()), 0);
  fixture.run([&](int rank) {
    Context lane(fixture.device(rank));
    Tensor up(fixture.device(rank), Shape{24}, DType::f64), down(fixture.device(rank), Shape{24}, DType::f64);
    std::vector<Segment> segments;
    for (int s = 0; s < 2; ++s)
      segments.push_back({s % fixture.size(), s, up.slice(12 * s, Shape{12}), down.slice(12 * s, Shape{12})});
    TreeCollective collective(tree, rank, lane, segments, 64);  // two chunks of each
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
    double values[24];
    copy_to_host(lane, down, values);
    for (const double value : values) EXPECT_EQ(value, 10.0 * fixture.size());
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
      TreeCollective collective(tree, rank, lane, {{0, 0, buffer, buffer}}, 64);
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
