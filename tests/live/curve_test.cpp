// Curves in bounded memory, and charts drawn with characters.
#include "live/curve.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace banyan::live {
namespace {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Curve, KeepsTheExtremesInBoundedMemory) {
  Curve curve;
  constexpr int kMany = 100000;
  for (int i = 0; i < kMany; ++i) curve.add(i, i == 70000 ? 50 : i == 31 ? -7 : i == 999 ? kNan : 1);
  EXPECT_LE(curve.bins().size(), Curve::kMostBins);
  EXPECT_GE(curve.bins().size(), Curve::kMostBins / 2);
  double low = 1, high = 1, last = -1;
  int lost = 0;
  for (const Curve::Bin& bin : curve.bins()) {
    EXPECT_GT(bin.first, last);
    last = bin.first;
    low = std::min(low, bin.low);
    high = std::max(high, bin.high);
    lost += bin.lost;
  }
  EXPECT_EQ(low, -7);
  EXPECT_EQ(high, 50);
  EXPECT_EQ(lost, 1);
  EXPECT_EQ(curve.bins()[0].first, 0);
  EXPECT_EQ(curve.last(), 1);
}

Chart chart_of(const std::vector<double>& values) {
  Chart chart{"loss", {}};
  for (std::size_t i = 0; i < values.size(); ++i)
    chart.named("training").curve.add(static_cast<int>(i), values[i]);
  return chart;
}

std::vector<std::string> drawn(const Chart& chart, int width, int height, bool utf8) {
  Canvas canvas(width, height);
  draw_chart(chart, canvas, 0, 0, width, height, utf8);
  return canvas.rows({utf8, false});
}

/// Nine columns of labels, then two values a character: a rising line, from the lowest dot to the highest.
TEST(Chart, ARisingLineInBraille) {
  const auto rows = drawn(chart_of({0, 1, 2, 3, 4, 5, 6, 7}), 13, 4, true);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0], "loss  7");
  EXPECT_EQ(rows[1], "       7   \u2860\u280a");
  EXPECT_EQ(rows[2], "       0 \u2860\u280a");
  EXPECT_EQ(rows[3], "         0  7");
}

TEST(Chart, ARisingLineInAscii) {
  const auto rows = drawn(chart_of({0, 1, 2, 3, 4, 5}), 15, 4, false);
  EXPECT_EQ(rows[1], "       5    .-'");
  EXPECT_EQ(rows[2], "       0 .-'");
}

/// Each step is a tenth: a straight line on a log scale.
TEST(Chart, ValuesOfManySizesAreOnALogScale) {
  const auto rows = drawn(chart_of({1, 10, 100, 1000, 1e4, 1e5, 1e6, 1e7}), 24, 4, true);
  EXPECT_EQ(rows[0], "loss (log)  1e+07");
  const auto narrow = drawn(chart_of({1, 10, 100, 1000, 1e4, 1e5, 1e6, 1e7}), 13, 4, true);
  EXPECT_EQ(narrow[1], "   1e+07   \u2860\u280a");
  EXPECT_EQ(narrow[2], "       1 \u2860\u280a");
  EXPECT_EQ(drawn(chart_of({0, 1000}), 24, 4, true)[0], "loss  1000");
}

TEST(Chart, WhatIsNotFiniteIsMarkedAndTheRestDrawn) {
  const auto rows = drawn(chart_of({1, kNan, 2, std::numeric_limits<double>::infinity(), 3}), 20, 5, true);
  EXPECT_EQ(rows[0], "loss  3");
  EXPECT_THAT(rows[1], HasSubstr("\u00d7"));
  EXPECT_THAT(rows[1], HasSubstr("       3"));
  EXPECT_THAT(rows[3], HasSubstr("       1"));
}

TEST(Chart, NothingFiniteOrOneValueOrHugeOnes) {
  EXPECT_EQ(drawn(chart_of({kNan, kNan}), 20, 5, true)[0], "loss  nan");
  EXPECT_THAT(drawn(chart_of({kNan, kNan}), 20, 5, true)[1], HasSubstr("\u00d7"));
  EXPECT_THAT(drawn(chart_of({2.5}), 20, 5, true)[1], HasSubstr("2.5"));
  const double huge = std::numeric_limits<double>::max();
  EXPECT_THAT(drawn(chart_of({-huge, huge}), 24, 5, true)[1], HasSubstr("1.8e+308"));
  drawn(chart_of({}), 20, 5, true);
  for (int width = 0; width < 14; ++width)
    for (int height = 0; height < 5; ++height) drawn(chart_of({1, 2, 3}), width, height, true);
}

TEST(Canvas, TextIsCutAndCannotBreakOut) {
  Canvas canvas(8, 1);
  canvas.put(0, 0, "abcdefghij");
  EXPECT_EQ(canvas.rows({true, false})[0], "abcdefg\u2026");
  EXPECT_EQ(canvas.rows({false, false})[0], "abcdefg~");
  canvas = Canvas(8, 1);
  canvas.put(0, 0, "a\x1b[2J\nb");
  EXPECT_EQ(canvas.rows({true, false})[0], "a [2J b");
  canvas = Canvas(8, 1);
  canvas.put(0, 0, "\xff\xc3(\u00e9\u0301");  // two broken ones, an accent that takes no column
  EXPECT_EQ(canvas.rows({true, false})[0],
            "?"
            "?(\u00e9");
  canvas = Canvas(5, 1);
  canvas.put(0, 0, "\u6f22\u5b57\u6f22");  // two columns each
  EXPECT_EQ(canvas.rows({true, false})[0], "\u6f22\u5b57\u2026");
  EXPECT_EQ(canvas.rows({false, false})[0], "????~");
}

TEST(Canvas, ColoursEndWithTheRow) {
  Canvas canvas(10, 2);
  canvas.put(0, 0, "ab", Style::warning);
  canvas.put(2, 0, "cd");
  canvas.put(0, 1, "ef", Style::bold);
  EXPECT_EQ(canvas.rows({true, true})[0], "\x1b[33mab\x1b[mcd");
  EXPECT_EQ(canvas.rows({true, true})[1], "\x1b[1mef\x1b[m");
}

}  // namespace
}  // namespace banyan::live
