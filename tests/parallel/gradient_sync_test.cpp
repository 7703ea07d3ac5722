#include "banyan/parallel/gradient_sync.hpp"

#include <gtest/gtest.h>

#include "banyan/ops/basic.hpp"
#include "tree_fixture.hpp"

namespace banyan::parallel {
namespace {

TEST(PlanBuckets, CoversEverythingInOrder) {
  for (const int devices : {1, 2, 3, 8})
    for (const std::int64_t big : {10L, 100000L, 5000000L}) {
      const std::vector<ParameterRange> ranges{
          {0, 100, 9}, {112, big, 5}, {112 + big, 7, 5}, {128 + big, 50, 0}};
      const std::int64_t total = 128 + big + 64;
      const auto buckets = plan_buckets(ranges, total, 4, devices);
      std::int64_t at = 0;
      int layer = 1000;
      for (const Bucket& bucket : buckets) {
        EXPECT_EQ(bucket.offset, at);
        EXPECT_GT(bucket.count, 0);
        EXPECT_LE(bucket.ready_layer, layer);
        for (const ParameterRange& range : ranges)
          if (range.offset < bucket.offset + bucket.count && range.offset + range.count > bucket.offset) {
            EXPECT_LE(bucket.ready_layer, range.ready_layer);
          }
        layer = bucket.ready_layer;
        at += bucket.count;
        EXPECT_LT(bucket.owner, devices);
      }
      EXPECT_EQ(at, total);
      if (devices == 1) {
        EXPECT_EQ(buckets.size(), 1u);
      }
    }
}

TEST(PlanBuckets, SpreadsABigParameterOverTheOwners) {
  const auto buckets = plan_buckets({{0, 8 << 20, 0}}, 8 << 20, 4, 4);
  std::vector<std::int64_t> load(4, 0);
  for (const Bucket& bucket : buckets) load[bucket.owner] += bucket.count;
  for (const std::int64_t owned : load)
    EXPECT_NEAR(static_cast<double>(owned), (8 << 20) / 4.0, 1 << 20);  // one bucket of 4 MiB
}

TEST(PlanBuckets, CutsNoParameterThatMustStayWhole) {
  const std::vector<ParameterRange> ranges{{0, 3 << 20, 9}, {3 << 20, 9, 7}, {(3 << 20) + 16, 8 << 20, 2}};
  const std::int64_t total = (11 << 20) + 16;
  for (const auto& [whole, cut] : {std::pair{true, false}, {false, true}}) {
    const auto buckets = plan_buckets(ranges, total, 4, 4, 0, whole);
    bool any = false;
    for (const Bucket& bucket : buckets)
      for (const ParameterRange& range : ranges) {
        const std::int64_t first = std::max(range.offset, bucket.offset);
        const std::int64_t last = std::min(range.offset + range.count, bucket.offset + bucket.count);
        any = any || (first < last && last - first < range.count);
      }
    EXPECT_EQ(any, cut);
    EXPECT_GT(buckets.size(), 1u);
  }
}

/// With many processes a bucket has a piece for each of them.
TEST(PlanBuckets, BucketsGrowWithTheProcesses) {
  constexpr std::int64_t kTotal = 25'000'000;
  const auto of = [&](int processes) {
    return plan_buckets({{0, kTotal, 0}}, kTotal, 4, 8, 8 * processes, false, processes);
  };
  EXPECT_EQ(of(1)[0].count, kTotal / 32);
  EXPECT_EQ(of(4)[0].count, kTotal / 128);  // 64 KiB for each of the others would be less
  EXPECT_EQ(of(8)[0].count, 7 << 15);       // 896 KiB, not a 256th: 390 KB
  EXPECT_EQ(of(16)[0].count, 15 << 15);
  EXPECT_EQ(of(64)[0].count, 1 << 20);  // 4 MiB is the most
}

/// Otherwise nothing of it would travel while backward runs.
TEST(PlanBuckets, ASmallNetKeepsFourBucketsWithManyProcesses) {
  constexpr std::int64_t kResNet20 = 272'000;
  for (const int processes : {5, 10, 64})
    EXPECT_GE(plan_buckets({{0, kResNet20, 0}}, kResNet20, 4, 1, processes, false, processes).size(), 4u);
}

/// Between few processes, too, a message must not cost more than what it carries.
TEST(PlanBuckets, BucketsBetweenProcessesAreNotTheSmallest) {
  constexpr std::int64_t kQuick = 145'578, kLeast = 256 << 8;
  for (const int processes : {2, 3, 4, 5, 64}) {
    const auto buckets = plan_buckets({{0, kQuick, 0}}, kQuick, 4, 1, processes, false, processes);
    EXPECT_EQ(buckets.size(), 2u) << processes;
    for (std::size_t b = 0; b + 1 < buckets.size(); ++b) EXPECT_EQ(buckets[b].count, kLeast);
  }
  EXPECT_EQ(plan_buckets({{0, kQuick, 0}}, kQuick, 4, 2).size(), 8u);
  EXPECT_EQ(plan_buckets({{0, kLeast, 0}}, kLeast, 4, 1, 4, false, 4).size(), 1u);
}

/// What a process has by itself, its number of devices, changes nothing: all cut alike.
TEST(PlanBuckets, EveryProcessCutsAlike) {
  const std::vector<ParameterRange> ranges = {{0, 900'000, 2}, {900'000, 70'000, 1}, {970'000, 30'000, 0}};
  for (const int processes : {2, 4, 5, 16}) {
    const int everywhere = 3 * processes;
    const auto of = [&](int devices) {
      return plan_buckets(ranges, 1'000'000, 4, devices, everywhere, false, processes);
    };
    const auto first = of(1);
    EXPECT_GT(first.size(), 1u) << processes;
    for (const int devices : {2, 3}) {
      const auto other = of(devices);
      ASSERT_EQ(other.size(), first.size()) << processes;
      for (std::size_t b = 0; b < first.size(); ++b) {
        EXPECT_EQ(other[b].offset, first[b].offset);
        EXPECT_EQ(other[b].count, first[b].count);
        EXPECT_EQ(other[b].ready_layer, first[b].ready_layer);
      }
    }
  }
}

TEST(PlanBuckets, NothingToExchange) { EXPECT_TRUE(plan_buckets({}, 0, 4, 2).empty()); }

class GradientSyncTest : public testing::TestWithParam<TreeSetting> {};
INSTANTIATE_TEST_SUITE_P(Devices, GradientSyncTest, testing::ValuesIn(all_settings()), name_of_setting);

/// A mock net of three layers whose backward writes gradients layer by layer; the update is value -= sum of
/// gradients.
TEST_P(GradientSyncTest, UpdatesOnceAndHandsOutParametersWhileBackwardRuns) {
  TreeFixture fixture(GetParam());
  const int devices = fixture.size();
  constexpr std::int64_t kLayer = 40000, kTotal = 3 * kLayer;
  const std::vector<ParameterRange> ranges{{0, kLayer, 2}, {kLayer, kLayer, 1}, {2 * kLayer, kLayer, 0}};
  const auto buckets = plan_buckets(ranges, kTotal, 4, devices);
  constexpr std::size_t kChunk = 10000;  // bytes: the buckets are cut, and unevenly
  DeviceTree tree = fixture.tree(build_tree(fixture.links()), GradientSync::slots_for(buckets, 4, kChunk));
  fixture.run([&](int rank) {
    Context compute(fixture.device(rank));
    Context lane(fixture.device(rank), "lane");
    Tensor values(fixture.device(rank), Shape{kTotal}, DType::f32),
        gradients(fixture.device(rank), Shape{kTotal}, DType::f32);
    ops::fill(compute, values, 0);
    compute.synchronize();
    GradientSync sync(
        devices == 1 ? nullptr : &tree, rank, devices == 1 ? compute : lane, buckets, gradients, values,
        [&](int bucket) {
          const Bucket& at = buckets[bucket];
          Tensor value = values.slice(at.offset, Shape{at.count});
          ops::axpby(devices == 1 ? compute : lane, -1.0, gradients.slice(at.offset, Shape{at.count}), 1.0,
                     value);
        },
        kChunk);
    double expected = 0;
    for (int iteration = 0; iteration < 5; ++iteration) {
      if (iteration == 3) sync.hold();
      sync.start();
      for (int layer = 2; layer >= 0; --layer) {
        Tensor gradient = gradients.slice((2 - layer) * kLayer, Shape{kLayer});
        ops::fill(compute, gradient, (rank + 1) * (iteration + 1));
        sync.layer_done(layer, compute.stream());
      }
      if (iteration == 3) {
        sync.finish_reduction();
        sync.release();
      }
      sync.finish(compute.stream());
      expected -= (iteration + 1) * devices * (devices + 1) / 2.0;
      std::vector<float> host(kTotal);
      copy_to_host(compute, values, host.data());
      for (std::int64_t e = 0; e < kTotal; ++e) ASSERT_EQ(host[e], expected) << "element " << e;
    }
    compute.synchronize();
    lane.synchronize();
    fixture.meet(rank);
  });
}

}  // namespace
}  // namespace banyan::parallel
