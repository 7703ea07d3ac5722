#include "banyan/data/dealing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/data/epoch_order.hpp"

namespace banyan::data {
namespace {

using Items = std::vector<std::uint64_t>;

Items items_of(const Share& share) {
  Items items;
  for (std::uint64_t i = 0; i < share.count; ++i) items.push_back(share.item(i));
  return items;
}

Dealing dealing(std::uint64_t records, std::uint64_t batch, int rank, int devices, EpochEnd end) {
  return Dealing({records, batch, rank, devices, end});
}

TEST(Dealing, FourDevicesTakeTurns) {
  const Share share = dealing(100, 8, 1, 4, EpochEnd::wrap).deal(40);
  EXPECT_EQ(items_of(share), (Items{41, 45}));
  EXPECT_EQ(share.consumed, 48u);
  EXPECT_FALSE(share.ends_epoch);
}

TEST(Dealing, UnionOverDevicesIsTheBatchOfOneDevice) {
  for (const EpochEnd end : {EpochEnd::wrap, EpochEnd::partial}) {
    for (const int devices : {2, 3, 4, 8}) {
      ShareSequence alone = ShareSequence::training(dealing(37, 12, 0, 1, end), 5);
      std::vector<ShareSequence> all;
      for (int r = 0; r < devices; ++r)
        all.push_back(ShareSequence::training(dealing(37, 12, r, devices, end), 5));
      for (int step = 0; step < 20; ++step) {
        const Share whole = alone.next();
        Items expected = items_of(whole), merged(expected.size(), ~0ull);
        for (int r = 0; r < devices; ++r) {
          const Share share = all[r].next();
          EXPECT_EQ(share.consumed, whole.consumed);
          EXPECT_EQ(share.ends_epoch, whole.ends_epoch);
          // Local sample i is sample i * N + r of the global batch.
          for (std::uint64_t i = 0; i < share.count; ++i)
            merged.at(i * static_cast<std::uint64_t>(devices) + static_cast<std::uint64_t>(r)) =
                share.item(i);
        }
        EXPECT_EQ(merged, expected) << devices << " devices, step " << step;
      }
    }
  }
}

TEST(Dealing, WhereABatchStartsIsWhereStepsLead) {
  for (const EpochEnd end : {EpochEnd::wrap, EpochEnd::partial})
    for (const std::uint64_t records : {1u, 10u, 12u, 37u})
      for (const std::uint64_t batch : {1u, 4u, 12u, 50u})
        for (const std::uint64_t first : {0u, 5u, 36u, 40u}) {
          const Dealing deals = dealing(records, batch, 0, 1, end);
          std::uint64_t step = first;
          for (std::uint64_t t = 0; t < 30; ++t, step = deals.batch_end(step))
            EXPECT_EQ(deals.batch_start(first, t), step)
                << records << " " << batch << " " << first << " " << t;
        }
}

TEST(Dealing, AnnouncedBatchesComeInTheirOrder) {
  ShareSequence shares = ShareSequence::announced(dealing(100, 8, 1, 4, EpochEnd::wrap));
  EXPECT_FALSE(shares.ready());
  shares.announce(40);
  shares.announce(16);
  EXPECT_EQ(items_of(shares.next()), (Items{41, 45}));
  EXPECT_TRUE(shares.ready());
  EXPECT_EQ(items_of(shares.next()), (Items{17, 21}));
  EXPECT_FALSE(shares.ready());
  ShareSequence by_rule = ShareSequence::training(dealing(100, 8, 1, 4, EpochEnd::wrap), 0);
  EXPECT_TRUE(by_rule.ready());
  EXPECT_THROW(by_rule.announce(8), Error);
}

TEST(Dealing, WrapRunsOnAndPartialStopsAtTheEnd) {
  ShareSequence wrap = ShareSequence::training(dealing(10, 4, 0, 1, EpochEnd::wrap), 0);
  ShareSequence partial = ShareSequence::training(dealing(10, 4, 0, 1, EpochEnd::partial), 0);
  std::vector<std::size_t> wrap_sizes, partial_sizes;
  std::vector<bool> ends;
  for (int i = 0; i < 6; ++i) {
    wrap_sizes.push_back(wrap.next().count);
    const Share share = partial.next();
    partial_sizes.push_back(share.count);
    ends.push_back(share.ends_epoch);
  }
  EXPECT_EQ(wrap_sizes, (std::vector<std::size_t>{4, 4, 4, 4, 4, 4}));
  EXPECT_EQ(partial_sizes, (std::vector<std::size_t>{4, 4, 2, 4, 4, 2}));
  EXPECT_EQ(ends, (std::vector<bool>{false, false, true, false, false, true}));
}

TEST(Dealing, PartialCanLeaveADeviceWithoutItems) {
  EXPECT_EQ(dealing(9, 8, 0, 4, EpochEnd::partial).deal(8).count, 1u);
  EXPECT_EQ(dealing(9, 8, 1, 4, EpochEnd::partial).deal(8).count, 0u);
  EXPECT_EQ(dealing(9, 8, 3, 4, EpochEnd::partial).deal(8).consumed, 9u);
}

TEST(Dealing, ABatchLargerThanTheDataSetWrapsMoreThanOnce) {
  const Dealing deal = dealing(3, 8, 0, 1, EpochEnd::wrap);
  std::vector<std::uint64_t> records;
  for (const std::uint64_t item : items_of(deal.deal(0))) records.push_back(deal.record(item));
  EXPECT_EQ(records, (Items{0, 1, 2, 0, 1, 2, 0, 1}));
}

TEST(Dealing, ResumingAtTheConsumedPositionContinuesTheSequence) {
  for (const EpochEnd end : {EpochEnd::wrap, EpochEnd::partial}) {
    ShareSequence whole = ShareSequence::training(dealing(25, 6, 1, 2, end), 0);
    std::uint64_t consumed = 0;
    for (int i = 0; i < 7; ++i) consumed = whole.next().consumed;
    ShareSequence resumed = ShareSequence::training(dealing(25, 6, 1, 2, end), consumed);
    for (int i = 0; i < 9; ++i) EXPECT_EQ(items_of(resumed.next()), items_of(whole.next()));
  }
}

/// The batches of three passes of 5 batches, assembled from all devices.
std::vector<Items> test_batches(int devices, EpochEnd end) {
  constexpr std::uint64_t kBatches = 5;
  std::vector<Items> batches(3 * kBatches);
  for (int r = 0; r < devices; ++r) {
    ShareSequence shares = ShareSequence::test(dealing(17, 4, r, devices, end), 3, kBatches);
    if (!shares.has_shares()) continue;
    for (std::uint64_t pass = 0; pass < 3; ++pass)
      for (std::uint64_t t = static_cast<std::uint64_t>(r); t < kBatches;
           t += static_cast<std::uint64_t>(devices))
        batches[pass * kBatches + t] = items_of(shares.next());
  }
  return batches;
}

TEST(Dealing, TestPassesAreTheSameForAnyNumberOfDevices) {
  for (const EpochEnd end : {EpochEnd::wrap, EpochEnd::partial}) {
    const std::vector<Items> alone = test_batches(1, end);
    EXPECT_EQ(alone[0], (Items{3, 4, 5, 6}));
    for (const int devices : {2, 3, 4, 5, 8}) EXPECT_EQ(test_batches(devices, end), alone) << devices;
  }
}

TEST(Dealing, EveryDeviceEndsATestPassAtTheSamePlace) {
  for (int r = 0; r < 3; ++r) {
    ShareSequence shares = ShareSequence::test(dealing(100, 4, r, 3, EpochEnd::wrap), 8, 5);
    std::uint64_t consumed = 0;
    for (std::uint64_t i = 0; i < batches_served(5, r, 3); ++i) {
      EXPECT_NE(consumed, 28u);
      consumed = shares.next().consumed;
    }
    EXPECT_EQ(consumed, 28u) << r;
  }
  EXPECT_EQ(batches_served(5, 0, 3), 2u);
  EXPECT_EQ(batches_served(5, 2, 3), 1u);
  EXPECT_EQ(batches_served(2, 2, 3), 0u);
}

TEST(Dealing, DeviceWithoutATestBatchSaysSo) {
  ShareSequence shares = ShareSequence::test(dealing(100, 4, 2, 3, EpochEnd::wrap), 0, 2);
  EXPECT_FALSE(shares.has_shares());
  EXPECT_THROW(shares.next(), Error);
}

TEST(Dealing, RefusesNonsense) {
  EXPECT_THROW(dealing(0, 4, 0, 1, EpochEnd::wrap), Error);
  EXPECT_THROW(dealing(4, 0, 0, 1, EpochEnd::wrap), Error);
  EXPECT_THROW(dealing(4, 4, 2, 2, EpochEnd::wrap), Error);
}

TEST(EpochOrder, IsAPermutationThatDependsOnSeedAndEpochOnly) {
  const EpochOrder order(1000, true, {7, 3, 0}), same(1000, true, {7, 3, 0}), other(1000, true, {8, 3, 0});
  std::set<std::uint64_t> seen;
  int fixed = 0, equal_next = 0, equal_other = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    seen.insert(order.record(0, i));
    fixed += order.record(0, i) == i;
    equal_next += order.record(0, i) == order.record(1, i);
    equal_other += order.record(0, i) == other.record(0, i);
  }
  // Queried in a different sequence of epochs.
  for (std::uint64_t i = 0; i < 1000; ++i) {
    same.record(5, 0);
    EXPECT_EQ(same.record(0, i), order.record(0, i));
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ(*seen.rbegin(), 999u);
  // Two random permutations agree in one place on average, in ten or more with probability 1e-7.
  EXPECT_LT(fixed, 10);
  EXPECT_LT(equal_next, 10);
  EXPECT_LT(equal_other, 10);
}

TEST(EpochOrder, EveryPlaceIsEquallyLikely) {
  // Record 0 over 6000 epochs of 6 records: each place 1000 times, deviation 29; six deviations are allowed.
  const EpochOrder order(6, true, {1, 2, 0});
  std::vector<int> places(6);
  for (std::uint64_t epoch = 0; epoch < 6000; ++epoch)
    for (std::uint64_t i = 0; i < 6; ++i)
      if (order.record(epoch, i) == 0) ++places[i];
  for (const int count : places) EXPECT_NEAR(count, 1000, 174);
}

TEST(EpochOrder, WithoutShuffleIsTheRecordsOrder) {
  const EpochOrder order(5, false, {});
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(order.record(3, i), i);
}

}  // namespace
}  // namespace banyan::data
