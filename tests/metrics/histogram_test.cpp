#include "banyan/metrics/histogram.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace banyan::metrics {
namespace {

Histogram of(const std::vector<double>& values) {
  HistogramMaker maker;
  maker.add(std::span<const double>(values));
  return maker.make();
}

TEST(Histogram, OfNothing) {
  const Histogram empty = of({});
  EXPECT_EQ(empty.count, 0);
  EXPECT_TRUE(empty.limits.empty());
}

TEST(Histogram, SumsAndExtremesAreThoseOfTheValues) {
  const Histogram some = of({-3, 0.5, 2});
  EXPECT_EQ(some.count, 3);
  EXPECT_EQ(some.min, -3);
  EXPECT_EQ(some.max, 2);
  EXPECT_DOUBLE_EQ(some.sum, -0.5);
  EXPECT_DOUBLE_EQ(some.sum_of_squares, 13.25);
}

/// 1.3 lies in the third eighth of its octave, 1.25 to 1.375; -1.3 in its mirror image.
TEST(Histogram, ANumberLiesBetweenTheLimitsOfItsBucket) {
  const Histogram one = of({1.3, 1.3, 5});
  EXPECT_THAT(one.limits, testing::ElementsAre(1.375, 5, 5.5));  // 5 to 5.5; none between 1.375 and 5
  EXPECT_THAT(one.counts, testing::ElementsAre(2, 0, 1));
  const Histogram two = of({-1.3, 1.3, 0});
  EXPECT_THAT(two.counts, testing::ElementsAre(1, 0, 1, 0, 1));
  EXPECT_DOUBLE_EQ(two.limits[0], -1.25);
  EXPECT_DOUBLE_EQ(two.limits[2], std::ldexp(1, -40));
  EXPECT_DOUBLE_EQ(two.limits[3], 1.25);
}

/// Whatever the numbers: the buckets ascend, hold all of them, and each number is counted once, on the right
/// side of every limit.
TEST(Histogram, CountsEveryNumberOnceInItsPlace) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<double> values(200);
    for (double& value : values) {
      const int exponent = static_cast<int>(random() % 120) - 60;
      value = std::ldexp(std::uniform_real_distribution<>(-1, 1)(random), exponent);
    }
    const Histogram histogram = of(values);
    ASSERT_EQ(histogram.limits.size(), histogram.counts.size());
    EXPECT_EQ(std::accumulate(histogram.counts.begin(), histogram.counts.end(), std::int64_t{0}), 200);
    EXPECT_TRUE(std::is_sorted(histogram.limits.begin(), histogram.limits.end()));
    EXPECT_GE(histogram.limits.back(), histogram.max);
    std::int64_t below = 0;
    for (std::size_t i = 0; i < histogram.limits.size(); ++i) {
      below += histogram.counts[i];
      const auto expected = std::count_if(values.begin(), values.end(),
                                          [&](double value) { return value <= histogram.limits[i]; });
      EXPECT_EQ(below, expected) << "up to " << histogram.limits[i];
    }
  }
}

TEST(Histogram, TheSameForBothTypes) {
  const std::vector<float> narrow = {-0.1f, 0.75f, 1e-20f, 3e9f};
  HistogramMaker maker;
  maker.add(std::span<const float>(narrow));
  const Histogram a = maker.make(), b = of({narrow.begin(), narrow.end()});
  EXPECT_EQ(a.limits, b.limits);
  EXPECT_EQ(a.counts, b.counts);
}

TEST(Histogram, NumbersThatAreNotFiniteAreOnlyCounted) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Histogram some = of({std::nan(""), 1, infinity, -infinity});
  EXPECT_EQ(some.count, 1);
  EXPECT_EQ(some.not_finite, 3);
  EXPECT_EQ(some.max, 1);
  EXPECT_EQ(of({std::numeric_limits<double>::max(), 5e-324}).count, 2);
}

}  // namespace
}  // namespace banyan::metrics
