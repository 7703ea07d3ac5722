#include "train/requests.hpp"

#include <gtest/gtest.h>

#include "train/part_bench.hpp"

namespace banyan {
namespace {

TEST(Requests, ASnapshotIsAskedForOnceAndAStopForGood) {
  PartBench bench;
  SignalFlags signals;
  Requests requests(bench.peers, &signals);
  requests.poll(0);
  EXPECT_FALSE(requests.of_everybody(0).snapshot);
  EXPECT_FALSE(requests.of_everybody(0).stop);
  signals.snapshot = signals.stop = true;
  EXPECT_FALSE(requests.of_everybody(0).stop);  // what arrives after the poll waits for the next iteration
  requests.poll(1);
  EXPECT_TRUE(requests.of_everybody(1).snapshot);
  EXPECT_TRUE(requests.of_everybody(1).stop);
  EXPECT_FALSE(requests.of_everybody(0).stop);  // others may still be reading those of the previous iteration
  requests.poll(2);
  EXPECT_FALSE(requests.of_everybody(2).snapshot);
  EXPECT_TRUE(requests.of_everybody(2).stop);
}

TEST(Requests, WithoutSignalsNobodyAsks) {
  PartBench bench;
  Requests requests(bench.peers, nullptr);
  bench.team.wishes.fill({true, true});
  requests.poll(0);
  EXPECT_FALSE(requests.of_everybody(0).stop);
  EXPECT_FALSE(requests.of_everybody(0).snapshot);
}

}  // namespace
}  // namespace banyan
