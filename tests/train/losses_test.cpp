#include "train/losses.hpp"

#include <gtest/gtest.h>

#include "parallel/tree_fixture.hpp"
#include "train/part_bench.hpp"

namespace banyan {
namespace {

TEST(Losses, AreReadOnceEachAndSmoothed) {
  PartBench bench;
  Losses losses(bench.peers, 2);
  losses.begin(5);
  for (int i = 5; i < 9; ++i) losses.push(bench.scalar(i), i);
  losses.gather(6);
  EXPECT_EQ(losses.smoothed(), 5.5);
  losses.gather(6);
  EXPECT_EQ(losses.smoothed(), 5.5);
  losses.gather(8);
  EXPECT_EQ(losses.smoothed(), 7.5);
}

TEST(Losses, AreOverdueBeforeTheRingIsFull) {
  PartBench bench;
  Losses losses(bench.peers, 1);
  losses.begin(10);
  EXPECT_FALSE(losses.overdue(10 + Losses::kGatherEvery - 1));
  EXPECT_TRUE(losses.overdue(10 + Losses::kGatherEvery));
  for (int i = 10; i < 10 + Losses::kGatherEvery; ++i) losses.push(bench.scalar(1), i);
  losses.gather(10 + Losses::kGatherEvery - 1);
  EXPECT_FALSE(losses.overdue(10 + Losses::kGatherEvery));
}

TEST(Losses, OfAllDevicesAreAdded) {
  parallel::TreeFixture fixture({3, true, 50});
  Team team(3, fixture.abort, fixture.spin());
  team.trees = std::make_unique<parallel::StatisticsTrees>(fixture.statistics_trees());
  fixture.run([&](int rank) {
    Context context(fixture.device(rank));
    Peers peers(team, rank, fixture.activity(rank), context);
    Losses losses(peers, 1);
    Tensor loss(fixture.device(rank), Shape{1}, DType::f64);
    ops::fill(context, loss, rank + 1);
    losses.push(loss, 0);
    peers.meet("pushed");
    if (peers.first()) {
      losses.gather(0);
      EXPECT_EQ(losses.smoothed(), 6);
    }
    peers.meet("read");
    context.synchronize();
  });
}

}  // namespace
}  // namespace banyan
