#include "train/average_precision.hpp"

#include <gtest/gtest.h>

namespace banyan {
namespace {

constexpr double kTight = 1e-12;  // a few additions in f64

/// Four objects of class 1; by falling score: right, wrong, right, right, wrong. Precisions 1, 1/2, 2/3, 3/4,
/// 3/5 at recalls 1/4, 1/4, 2/4, 3/4, 3/4. Two batches; rows of -1 fill up, and a detection of a difficult
/// object counts for nothing.
const std::vector<double> kRows = {
    -1, 1, 3, -1, -1, 0, 1, 0.5, 0, 1, 0, 1, 0.9, 1, 0, 0, 1, 0.95, 0, 0, -1, -1, -1, -1, -1,  //
    -1, 1, 1, -1, -1, 0, 1, 0.8, 0, 1, 0, 1, 0.6, 1, 0, 1, 1, 0.7,  1, 0, -1, -1, -1, -1, -1};

double only(const std::map<int, double>& precisions) {
  EXPECT_EQ(precisions.size(), 1U);
  return precisions.at(1);
}

TEST(AveragePrecision, IsTheAreaUnderTheCurve) {
  EXPECT_NEAR(only(average_precisions(kRows, AveragePrecision::integral)), (1 + 2. / 3 + 3. / 4) / 4, kTight);
}

TEST(AveragePrecision, OfTheBestPrecisionsFromEachRecallOn) {
  EXPECT_NEAR(only(average_precisions(kRows, AveragePrecision::max_integral)), (1 + 3. / 4 + 3. / 4) / 4,
              kTight);
}

/// Recalls 0, 0.1, 0.2 are reached with precision 1; 0.3 to 0.7 with 3/4; the rest never.
TEST(AveragePrecision, AtElevenRecalls) {
  EXPECT_NEAR(only(average_precisions(kRows, AveragePrecision::eleven_points)), (3 * 1 + 5 * 0.75) / 11,
              kTight);
}

/// COCO's: recalls 0 to 0.25 with precision 1, 0.26 to 0.75 with 3/4.
TEST(AveragePrecision, AtAHundredAndOneRecalls) {
  EXPECT_NEAR(only(average_precisions(kRows, AveragePrecision::hundred_one_points)),
              (26 * 1 + 50 * 0.75) / 101, kTight);
}

/// 3 of 10 objects are a recall of 0.3, however that is rounded.
TEST(AveragePrecision, ATenthIsReachedByATenth) {
  std::vector<double> rows = {-1, 1, 10, -1, -1};
  for (int i = 0; i < 3; ++i) rows.insert(rows.end(), {0, 1, 0.5, 1, 0});
  EXPECT_NEAR(only(average_precisions(rows, AveragePrecision::eleven_points)), 4. / 11, kTight);
}

TEST(AveragePrecision, ClassesWithoutObjectsOrFindingsCountAsZero) {
  const std::vector<double> rows = {-1, 1, 0, -1, -1, -1, 2, 1,  -1, -1, -1, 3, 2,   -1, -1,
                                    0,  1, 1, 0,  1,  0,  3, .9, 1,  0,  0,  3, 0.8, 1,  0};
  const std::map<int, double> found = average_precisions(rows, AveragePrecision::integral);
  EXPECT_EQ(found, (std::map<int, double>{{1, 0}, {2, 0}, {3, 1}}));
  EXPECT_NEAR(mean_of(found), 1. / 3, kTight);
  EXPECT_EQ(mean_of({}), 0);
}

}  // namespace
}  // namespace banyan
