#include "banyan/parallel/statistics_exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <tuple>

#include "banyan/base/error.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/normalization.hpp"
#include "tree_fixture.hpp"

namespace banyan::parallel {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class StatisticsExchangeTest : public testing::TestWithParam<TreeSetting> {};
INSTANTIATE_TEST_SUITE_P(Devices, StatisticsExchangeTest, testing::ValuesIn(all_settings()), name_of_setting);

TEST_P(StatisticsExchangeTest, SumsManyMessagesOfChangingSizeOnReusedMemory) {
  TreeFixture fixture(GetParam());
  StatisticsTrees trees = fixture.statistics_trees();
  const int devices = fixture.size();
  fixture.run([&](int rank) {
    Context context(fixture.device(rank));
    StatisticsExchange exchange(trees, rank);
    Tensor message(fixture.device(rank), Shape{64}, DType::f64);
    for (int round = 0; round < 30; ++round) {
      const std::int64_t count = 1 + round * 2 % 64;
      Tensor part = message.slice(0, Shape{count});
      ops::fill(
          context, part,
          rank + 1 +
              round);  // overwrites what the others may still be reading, unless the exchange protects it
      exchange.all_reduce(context, part, Merge::sum, 0, Ticket{"bn", "forward"});
      std::vector<double> values(count);
      copy_to_host(context, part, values.data());
      for (const double value : values)
        ASSERT_EQ(value, devices * (devices + 1) / 2.0 + devices * round) << "round " << round;
    }
    context.synchronize();
    fixture.meet(rank);
  });
}

TEST_P(StatisticsExchangeTest, MergesMomentsOfUnevenShares) {
  TreeFixture fixture(GetParam());
  StatisticsTrees trees = fixture.statistics_trees();
  const int devices = fixture.size();
  // Device r holds r samples (device 0 none) with values 1000 + sample number.
  std::vector<double> all;
  for (int r = 0; r < devices; ++r)
    for (int i = 0; i < r; ++i) all.push_back(1000 + static_cast<double>(all.size()));
  double mean = 0, m2 = 0;
  for (const double x : all) mean += x / static_cast<double>(all.size());
  for (const double x : all) m2 += (x - mean) * (x - mean);
  fixture.run([&](int rank) {
    Context context(fixture.device(rank));
    StatisticsExchange exchange(trees, rank);
    const int offset = rank * (rank - 1) / 2;
    std::vector<double> host{static_cast<double>(rank), 0, 0};
    for (int i = 0; i < rank; ++i) host[1] += (1000.0 + offset + i) / rank;
    for (int i = 0; i < rank; ++i) host[2] += std::pow(1000.0 + offset + i - host[1], 2);
    Tensor moments(fixture.device(rank), Shape{3}, DType::f64);
    copy_from_host(context, host.data(), moments);
    exchange.all_reduce(context, moments, Merge::moments, 0, Ticket{"bn", "forward"});
    copy_to_host(context, moments, host.data());
    EXPECT_EQ(host[0], static_cast<double>(all.size()));
    if (!all.empty()) {
      EXPECT_NEAR(host[1], mean, 1e-9);  // f64 rounding of values near 1000
      EXPECT_NEAR(host[2], m2, 1e-9 * (1 + m2));
    }
    fixture.meet(rank);
  });
}

TEST_P(StatisticsExchangeTest, BroadcastsRankZero) {
  TreeFixture fixture(GetParam());
  StatisticsTrees trees = fixture.statistics_trees();
  fixture.run([&](int rank) {
    Context context(fixture.device(rank));
    StatisticsExchange exchange(trees, rank);
    Tensor values(fixture.device(rank), Shape{5}, DType::f32);
    for (int round = 0; round < 5; ++round) {
      ops::fill(context, values, rank * 100 + round);
      exchange.broadcast(context, values, Ticket{"parameters", "start"});
      std::vector<float> host(5);
      copy_to_host(context, values, host.data());
      for (const float value : host) ASSERT_EQ(value, static_cast<float>(round));
    }
    context.synchronize();
    fixture.meet(rank);
  });
}

/// The tree may be built with another device as its root.
TEST(StatisticsExchange, BroadcastsRankZeroOverATreeOfAnotherRoot) {
  for (const std::vector<int>& parents : std::vector<std::vector<int>>{{1, -1}, {1, 2, -1}, {2, 2, -1, 0}}) {
    TreeFixture fixture({static_cast<int>(parents.size()), false, 0});
    StatisticsTrees trees(fixture.links(), Tree(parents), fixture.members, {}, fixture.abort, fixture.spin());
    fixture.run([&](int rank) {
      Context context(fixture.device(rank));
      StatisticsExchange exchange(trees, rank);
      Tensor values(fixture.device(rank), Shape{5}, DType::f32);
      ops::fill(context, values, 7 + rank);
      exchange.broadcast(context, values, Ticket{"parameters", "start"});
      std::vector<float> host(5);
      copy_to_host(context, values, host.data());
      EXPECT_THAT(host, testing::Each(7.f)) << "rank " << rank;
      fixture.meet(rank);
    });
  }
}

/// A device that fails destroys its stack objects while others may be reading them.
TEST(StatisticsExchange, AMessageOutlivesAnExchangeThatIsAborted) {
  for (const bool sum : {true, false}) {
    TreeFixture fixture({2, false, 0});
    StatisticsTrees trees = fixture.statistics_trees();
    std::vector<std::unique_ptr<StatisticsExchange>> exchanges;
    for (int rank = 0; rank < 2; ++rank)
      exchanges.push_back(std::make_unique<StatisticsExchange>(trees, rank));
    EXPECT_THROW(fixture.run([&](int rank) {
      if (rank == 0) {
        while (!fixture.activity(1).state().waiting) std::this_thread::yield();
        runtime_failure("it broke");
      }
      Context context(fixture.device(rank));
      Tensor message(fixture.device(rank), Shape{1000}, DType::f64);
      if (sum)
        exchanges[1]->all_reduce(context, message, Merge::sum, 0, Ticket{"loss", "report"});
      else
        exchanges[1]->broadcast(context, message, Ticket{"loss", "start"});
    }),
                 Error);
    EXPECT_GE(fixture.device(1).memory().in_use, 8000u);
    exchanges.clear();
    EXPECT_EQ(fixture.device(1).memory().in_use, 0u);
  }
}

TEST(StatisticsExchange, GroupsMeetAmongThemselves) {
  TreeFixture fixture({5, false, 0});
  StatisticsTrees trees = fixture.statistics_trees({2});  // {0,1} {2,3} {4}
  fixture.run([&](int rank) {
    Context context(fixture.device(rank));
    StatisticsExchange exchange(trees, rank);
    Tensor message(fixture.device(rank), Shape{1}, DType::f64);
    ops::fill(context, message, rank);
    exchange.all_reduce(context, message, Merge::sum, 2, Ticket{"bn", "forward"});
    double value = 0;
    copy_to_host(context, message, &value);
    EXPECT_EQ(value, rank < 2 ? 1 : rank < 4 ? 5 : 4);
    fixture.meet(rank);
  });
}

TEST(StatisticsExchange, RefusesAGroupSizeThatHasNoTree) {
  TreeFixture fixture({4, false, 0});
  StatisticsTrees trees = fixture.statistics_trees();
  StatisticsExchange exchange(trees, 0);
  Context context(fixture.device(0));
  Tensor message(fixture.device(0), Shape{1}, DType::f64);
  EXPECT_THROW(exchange.all_reduce(context, message, Merge::sum, 3, Ticket{"bn", "forward"}), Error);
}

/// Returns the group's report when rank `odd` is at a different exchange than the rest.
std::string report_of(int devices, int odd, const Ticket& other, std::int64_t other_count) {
  TreeFixture fixture({devices, false, 0});
  StatisticsTrees trees = fixture.statistics_trees();
  // Others may read a message until all threads have ended.
  std::vector<Tensor> messages(devices);
  try {
    fixture.run([&](int rank) {
      Context context(fixture.device(rank));
      StatisticsExchange exchange(trees, rank);
      Tensor& message = messages[rank];
      message = Tensor(fixture.device(rank), Shape{rank == odd ? other_count : 3}, DType::f64);
      ops::fill(context, message, 1);
      exchange.all_reduce(context, message, Merge::sum, 0, rank == odd ? other : Ticket{"bn3", "forward"});
    });
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(StatisticsExchange, NamesBothWhoMeetAtDifferentExchanges) {
  for (const int devices : {2, 3, 4, 8})
    for (int odd = 0; odd < devices; ++odd)
      for (const auto& [ticket, count, place] :
           {std::tuple{Ticket{"bn4", "forward"}, 3, "\"bn4\" forward (3"},
            std::tuple{Ticket{"bn3", "backward"}, 3, "\"bn3\" backward (3"},
            std::tuple{Ticket{"bn3", "forward"}, 7, "\"bn3\" forward (7"}}) {
        const std::string report = report_of(devices, odd, ticket, count);
        SCOPED_TRACE(report);
        EXPECT_THAT(report, HasSubstr("devices meet at different exchanges: cpu:"));
        EXPECT_THAT(report, HasSubstr(cat("cpu:", odd, " at ", place)));
        EXPECT_THAT(report, ContainsRegex("cpu:[0-7] at \"bn3\" forward \\(3"));
      }
}

}  // namespace
}  // namespace banyan::parallel
