#include "banyan/parallel/link_cost.hpp"

#include <gtest/gtest.h>

#include "tree_fixture.hpp"

namespace banyan::parallel {
namespace {

TEST(BestChunk, IsAsGoodAsTheBestOfAll) {
  for (const std::size_t message : {1u, 100u, 4000u, 100000u})
    for (const int depth : {1, 2, 3, 4, 15})
      for (const double latency : {1e-7, 3e-6, 1e-4})
        for (const double rate : {1e7, 1e9, 1e11})
          for (const std::size_t largest : {std::size_t{64}, std::size_t{5000}, std::size_t{1} << 20}) {
            const LinkCost link{latency, rate};
            double least = 1e9;
            for (std::size_t chunk = 1; chunk <= std::min(message, largest); ++chunk)
              least = std::min(least, pipeline_seconds(message, depth, link, chunk));
            const std::size_t chosen = best_chunk(message, depth, link, largest);
            EXPECT_LE(chosen, largest);
            // The formula's chunks are not whole bytes: the chosen one may be a byte longer than that.
            EXPECT_LE(pipeline_seconds(message, depth, link, chosen),
                      (1 + 1.0 / static_cast<double>(chosen)) * least)
                << message << " bytes, depth " << depth << ", " << latency << " s, " << rate
                << " B/s, at most " << largest << ": " << chosen;
          }
}

TEST(BestChunk, FollowsTheLink) {
  constexpr std::size_t kMessage = 100'000'000, kAny = std::size_t{1} << 40;
  const LinkCost link{10e-6, 10e9};
  // sqrt(S L B / (2 d - 1)): 3.2 MB for one level, 1.8 MB for two.
  EXPECT_NEAR(static_cast<double>(best_chunk(kMessage, 1, link, kAny)), 3.2e6, 1e5);
  EXPECT_NEAR(static_cast<double>(best_chunk(kMessage, 2, link, kAny)), 1.83e6, 1e5);
  EXPECT_GT(best_chunk(kMessage, 2, {40e-6, 10e9}, kAny), best_chunk(kMessage, 2, link, kAny));
  EXPECT_LE(best_chunk(kMessage, 2, link, 1 << 20), 1u << 20);
  EXPECT_GT(best_chunk(kMessage, 2, link, 1 << 20), 1'000'000u);  // 96 equal ones instead of 95 and a rest
  EXPECT_EQ(best_chunk(kMessage, 0, link, kAny), kMessage);       // one device
  EXPECT_EQ(best_chunk(0, 2, link, kAny), 1u);
}

TEST(LinkCost, IsMeasured) {
  for (const int devices : {1, 2, 5, 6}) {
    TreeFixture fixture({devices, false, 0});
    const Tree tree = devices == 6 ? direct_tree(devices) : build_tree(fixture.links());
    const LinkCost cost = measure_link_cost(tree, fixture.members, fixture.spin());
    EXPECT_GT(cost.bytes_per_s, 1e6);
    if (devices > 1) {
      EXPECT_GT(cost.latency_s, 0);
      EXPECT_LT(cost.latency_s, 1);
    }
    const std::size_t chunk = chunk_for(tree, DeviceKind::cpu, 1 << 20, cost);
    EXPECT_GE(chunk, 1u);
    EXPECT_LE(chunk, devices == 1 ? 1u << 20 : largest_chunk(devices, DeviceKind::cpu));
  }
}

}  // namespace
}  // namespace banyan::parallel
