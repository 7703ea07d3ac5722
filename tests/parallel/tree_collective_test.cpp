// Sums over the tree, with both kinds of streams. With asynchronous streams every missing event wait is a
// data race that ThreadSanitizer reports and that the random delays turn into wrong sums.
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

/// Four segments with roots in turn, two per wave.
std::vector<Segment> segments_of(const Tensor& up, const Tensor& down, int devices) {
  std::vector<Segment> segments;
  for (int s = 0; s < 4; ++s) {
    const std::int64_t at = s * kCount / 4;
    const Shape shape{(s + 1) * kCount / 4 - at};
    segments.push_back({s % devices, s / 2, up.slice(at, shape), down.slice(at, shape)});
  }
  return segments;
}
/// Bytes; four chunks per segment, the last one not full.
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
      Tensor parts(fixture.device(rank), Shape{kCount}, DType::f32),
          sums(fixture.device(rank), Shape{kCount}, DType::f32);
      std::vector<Segment> segments = segments_of(parts, sums, devices);
      const auto keep_sum = [&](int s) {
        Segment& segment = segments[s];
        ops::copy(lane, segment.up, segment.down);
      };
      TreeCollective collective(tree, rank, lane, segments, keep_sum, kChunk);
      for (int round = 0; round < 3; ++round) {
        std::vector<float> mine(kCount), result(kCount);
        for (std::int64_t e = 0; e < kCount; ++e) mine[e] = part(rank, round, e);
        copy_from_host(compute, mine.data(), parts);
        collective.start();
        for (int segment = 0; segment < 4; ++segment) collective.make_ready(segment, compute.stream());
        collective.finish();
        copy_to_host(lane, sums, result.data());  // and waits, so that `parts` may be overwritten
        for (std::int64_t e = 0; e < kCount; ++e) {
          float expected = 0;
          for (int r = 0; r < devices; ++r) expected += part(r, round, e);
          ASSERT_EQ(result[e], expected) << "device " << rank << " element " << e << " round " << round;
        }
      }
      compute.synchronize();
      fixture.meet(rank);
    });
  }
}

TEST_P(TreeCollectiveTest, RootsActBetweenUpAndDownAndCanBeHeld) {
  TreeFixture fixture(GetParam());
  DeviceTree tree = fixture.tree(best_tree(fixture.links()), 4);
  std::vector<int> seen(fixture.size(), 0);
  fixture.run([&](int rank) {
    Context lane(fixture.device(rank));
    Tensor up(fixture.device(rank), Shape{24}, DType::f64), down(fixture.device(rank), Shape{24}, DType::f64);
    std::vector<Segment> segments;
    for (int s = 0; s < 2; ++s)
      segments.push_back({s % fixture.size(), s, up.slice(12 * s, Shape{12}), down.slice(12 * s, Shape{12})});
    const auto at_root = [&](int s) {
      Segment& segment = segments[s];
      ops::axpby(lane, 10.0, segment.up, 0.0, segment.down);
      ++seen[rank];
    };
    TreeCollective collective(tree, rank, lane, segments, at_root, 64);  // two chunks of each
    ops::fill(lane, up, 1.0);
    collective.hold_roots();
    collective.start();
    for (int s = 0; s < 2; ++s) collective.make_ready(s, lane.stream());
    collective.finish_reduction();
    EXPECT_TRUE(collective.all_reduced());
    EXPECT_EQ(seen[rank], 0);
    collective.release_roots();
    collective.finish();
    double values[24];
    copy_to_host(lane, down, values);
    fixture.meet(rank);
    for (const double value : values) EXPECT_EQ(value, 10.0 * fixture.size());
  });
  int total = 0;
  for (const int count : seen) total += count;
  EXPECT_EQ(total, 2);
}

TEST(TreeCollective, NamesBothDevicesThatMeetAtDifferentRounds) {
  TreeFixture fixture({2, false, 0});
  DeviceTree tree = fixture.tree(build_tree(fixture.links()), 1);
  std::vector<Tensor> buffers(2);  // others may read a buffer until all threads have ended
  try {
    fixture.run([&](int rank) {
      Context lane(fixture.device(rank));
      Tensor& buffer = buffers[rank];
      buffer = Tensor(fixture.device(rank), Shape{1}, DType::f32);
      TreeCollective collective(
          tree, rank, lane, {{0, 0, buffer, buffer}}, [](int) {}, 64);
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
