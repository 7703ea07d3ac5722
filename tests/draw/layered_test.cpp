// The layered layout by itself: places, straight trunks, crossings.
#include "draw/layered.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace banyan::draw {
namespace {

Plot plot_of(int boxes, const std::vector<std::pair<int, int>>& arcs) {
  Plot plot;
  for (int b = 0; b < boxes; ++b) plot.boxes.push_back({100, 30, 12, 0});
  for (const auto& [from, to] : arcs) plot.arcs.push_back({from, 0, to, false});
  return plot;
}

bool overlap(const Plot& plot, const Drawing& drawing, std::size_t a, std::size_t b) {
  const Box &one = plot.boxes[a], &other = plot.boxes[b];
  return std::abs(drawing.middles[a].x - drawing.middles[b].x) < (one.width + other.width) / 2 &&
         std::abs(drawing.middles[a].y - drawing.middles[b].y) < (one.height + other.height) / 2;
}

/// Whatever the graph: boxes lie apart and within the drawing, arcs go from edge to edge and never up.
void expect_sound(const Plot& plot, const Drawing& drawing) {
  ASSERT_EQ(drawing.middles.size(), plot.boxes.size());
  ASSERT_EQ(drawing.curves.size(), plot.arcs.size());
  for (std::size_t a = 0; a < plot.boxes.size(); ++a) {
    const Box& box = plot.boxes[a];
    EXPECT_GE(drawing.middles[a].x - box.width / 2, -1e-6);
    EXPECT_LE(drawing.middles[a].x + box.width / 2, drawing.width + 1e-6);
    EXPECT_GE(drawing.middles[a].y - box.height / 2, -1e-6);
    EXPECT_LE(drawing.middles[a].y + box.height / 2 + box.below, drawing.height + 1e-6);
    for (std::size_t b = 0; b < a; ++b) EXPECT_FALSE(overlap(plot, drawing, a, b)) << a << " and " << b;
  }
  for (std::size_t i = 0; i < plot.arcs.size(); ++i) {
    const Arc& arc = plot.arcs[i];
    const Curve& curve = drawing.curves[i];
    ASSERT_EQ(curve.size() % 3, 1u);
    EXPECT_DOUBLE_EQ(curve[0].x, drawing.middles[arc.from].x + arc.from_x);
    EXPECT_DOUBLE_EQ(curve[0].y, drawing.middles[arc.from].y + plot.boxes[arc.from].height / 2);
    EXPECT_NEAR(curve.back().y, drawing.middles[arc.to].y - plot.boxes[arc.to].height / 2, 1e-9);
    EXPECT_LE(std::abs(curve.back().x - drawing.middles[arc.to].x), plot.boxes[arc.to].width / 2);
    for (std::size_t k = 1; k < curve.size(); ++k) EXPECT_GE(curve[k].y, curve[k - 1].y - 1e-9);
  }
}

/// Pieces of arcs between the ranks must not pass through boxes of the ranks that they cross.
void expect_arcs_beside_boxes(const Plot& plot, const Drawing& drawing) {
  for (std::size_t i = 0; i < plot.arcs.size(); ++i) {
    const Curve& curve = drawing.curves[i];
    for (std::size_t k = 0; k + 3 < curve.size(); k += 3)
      for (int step = 0; step <= 20; ++step) {
        const double t = step / 20.0, s = 1 - t;
        const auto mix = [&](double Point::*c) {
          return s * s * s * (curve[k].*c) + 3 * s * s * t * (curve[k + 1].*c) +
                 3 * s * t * t * (curve[k + 2].*c) + t * t * t * (curve[k + 3].*c);
        };
        const double x = mix(&Point::x), y = mix(&Point::y);
        for (std::size_t b = 0; b < plot.boxes.size(); ++b) {
          const Point& middle = drawing.middles[b];
          const bool inside = std::abs(x - middle.x) < plot.boxes[b].width / 2 - 1e-6 &&
                              std::abs(y - middle.y) < plot.boxes[b].height / 2 - 1e-6;
          EXPECT_FALSE(inside) << "arc " << i << " passes through box " << b;
        }
      }
  }
}

TEST(Layered, AChainIsStraight) {
  const Plot plot = plot_of(4, {{0, 1}, {1, 2}, {2, 3}});
  const Drawing drawing = lay_out(plot);
  expect_sound(plot, drawing);
  for (int b = 1; b < 4; ++b) {
    EXPECT_DOUBLE_EQ(drawing.middles[b].x, drawing.middles[0].x);
    EXPECT_GT(drawing.middles[b].y, drawing.middles[b - 1].y);
  }
}

TEST(Layered, TheTrunkStaysStraightBesideShortcuts) {
  // Residual blocks: 0-1-2-3-4-5-6, with shortcuts over two boxes.
  const Plot plot = plot_of(7, {{0, 1}, {1, 2}, {2, 3}, {0, 3}, {3, 4}, {4, 5}, {5, 6}, {3, 6}});
  const Drawing drawing = lay_out(plot);
  expect_sound(plot, drawing);
  expect_arcs_beside_boxes(plot, drawing);
  for (int b = 1; b < 7; ++b) EXPECT_DOUBLE_EQ(drawing.middles[b].x, drawing.middles[0].x) << b;
}

TEST(Layered, ArcsAreUncrossedWhereTheyCanBe) {
  // Two chains whose ends are listed the wrong way round, and a box that joins them.
  const Plot plot = plot_of(7, {{0, 3}, {1, 2}, {2, 5}, {3, 4}, {4, 6}, {5, 6}});
  Ranked ranked = find_ranks(plot);
  order_ranks(ranked);
  EXPECT_EQ(count_crossings(ranked), 0);
  // A complete graph between three and three has nine arcs that must cross nine times.
  Ranked complete =
      find_ranks(plot_of(6, {{0, 3}, {0, 4}, {0, 5}, {1, 3}, {1, 4}, {1, 5}, {2, 3}, {2, 4}, {2, 5}}));
  order_ranks(complete);
  EXPECT_EQ(count_crossings(complete), 9);
}

TEST(Layered, CrossingsCountAllPairs) {
  Ranked ranked = find_ranks(plot_of(4, {{0, 3}, {1, 2}}));
  ranked.ranks = {{0, 1}, {2, 3}};
  EXPECT_EQ(count_crossings(ranked), 1);
  ranked.ranks = {{0, 1}, {3, 2}};
  EXPECT_EQ(count_crossings(ranked), 0);
}

TEST(Layered, ABoxThatOnlyFeedsOthersIsJustAboveThem) {
  const Ranked ranked = find_ranks(plot_of(5, {{0, 1}, {1, 2}, {2, 3}, {4, 3}}));
  EXPECT_EQ(ranked.nodes[4].rank, 2);
}

TEST(Layered, BandsLieBelowEachOther) {
  Plot plot = plot_of(6, {{0, 1}, {1, 2}, {0, 3}, {2, 4}, {3, 5}});
  for (const int box : {2, 3, 4, 5}) plot.boxes[box].band = 1;
  plot.lines = 1;
  const Drawing drawing = lay_out(plot);
  expect_sound(plot, drawing);
  ASSERT_EQ(drawing.band_ends.size(), 1u);
  for (int b = 0; b < 6; ++b) {
    if (b < 2) {
      EXPECT_LT(drawing.middles[b].y + 15, drawing.band_ends[0]);
    } else {
      EXPECT_GT(drawing.middles[b].y - 15, drawing.band_ends[0]);
    }
  }
}

TEST(Layered, SideArcsEndAboveTheMargin) {
  Plot plot = plot_of(3, {{0, 1}, {1, 2}, {0, 2}});
  plot.boxes[2].width = 100 + 2 * kSideMargin;
  plot.arcs[2].to_side = true;
  const Drawing drawing = lay_out(plot);
  EXPECT_DOUBLE_EQ(std::abs(drawing.curves[2].back().x - drawing.middles[2].x), 50 + kSideMargin / 2);
}

/// Pseudo-random graphs with boxes of all sizes.
TEST(Layered, RandomGraphsAreSoundAndTheSameEveryTime) {
  std::mt19937 random(3);
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  for (int round = 0; round < 60; ++round) {
    const int boxes = 2 + below(40);
    Plot plot;
    for (int b = 0; b < boxes; ++b)
      plot.boxes.push_back(
          {20.0 + below(200), 10.0 + below(80), static_cast<double>(below(25)), 0, below(8) == 0});
    for (int b = 1; b < boxes; ++b)
      for (int k = below(3); k >= 0; --k) {
        const int from = below(static_cast<unsigned>(b));
        plot.arcs.push_back({from, below(2) * plot.boxes[from].width / 4, b, false});
      }
    const Drawing drawing = lay_out(plot), again = lay_out(plot);
    expect_sound(plot, drawing);
    for (int b = 0; b < boxes; ++b) {
      EXPECT_EQ(drawing.middles[b].x, again.middles[b].x);
      EXPECT_EQ(drawing.middles[b].y, again.middles[b].y);
    }
    if (HasFailure()) FAIL() << "round " << round;
  }
}

}  // namespace
}  // namespace banyan::draw
