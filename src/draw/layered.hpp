// A layered drawing of a directed acyclic graph (Sugiyama, Tagawa, Toda 1981). Pure, and deterministic: the
// same graph gives the same coordinates on every machine.
//
//   ranks        arcs point down; long ones are cut into pieces, one for each rank that they cross (ranks.cpp)
//   order        within the ranks, few arcs cross (ordering.cpp)
//   coordinates  long arcs are straight, boxes stand below their most important neighbour (coordinates.cpp)
#pragma once

#include <vector>

namespace banyan::draw {

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double width = 0, height = 0;
  double below = 0;    ///< room for text under it, over its whole width
  int band = 0;        ///< boxes of a band lie above all those of later bands; arcs never lead back up
  bool minor = false;  ///< other boxes do not align with it
};

struct Arc {
  int from = 0;
  double from_x = 0;  ///< where it leaves the lower edge, relative to the middle of the box
  int to = 0;
  /// Ends above the left or right margin of the box, of width kSideMargin, to go on down beside what is drawn
  /// in it.
  bool to_side = false;
};
inline constexpr double kSideMargin = 16;

/// What is to be drawn; the arcs may be in any order but must form no cycle.
struct Plot {
  std::vector<Box> boxes;
  std::vector<Arc> arcs;
  int lines = 0;  ///< the first so many ends of bands are shown: they need room for a line with text
};

/// Pieces of cubic Bezier curves: a point, then three points for each piece.
using Curve = std::vector<Point>;

struct Drawing {
  std::vector<Point> middles;     ///< of the boxes
  std::vector<Curve> curves;      ///< of the arcs, from the lower edge of a box to the upper edge of another
  std::vector<double> band_ends;  ///< heights between the bands: one fewer than there are bands
  double width = 0, height = 0;
};

Drawing lay_out(const Plot& plot);

// The steps, for lay_out and its tests.

/// Boxes and the pieces of long arcs ("bends"), which have no size.
struct Node {
  double width = 0;
  bool bend = false;
  int rank = 0;
  /// By how many ranks the box could move without making the drawing longer. Where several neighbours want to
  /// be straight above a box, the one with the least slack is: the trunk of the net is a straight line.
  int slack = 0;
  std::vector<int> up, down;  ///< neighbours in the next ranks
  std::vector<double> exits;  ///< for each of `down`: where the arc leaves, relative to the middle
};
struct Ranked {
  std::vector<Node> nodes;               ///< the boxes first
  std::vector<std::vector<int>> chains;  ///< per arc: its nodes, from the upper box to the lower
  std::vector<std::vector<int>> ranks;   ///< nodes from left to right
  std::vector<int> band_first;           ///< first rank of each band
};
Ranked find_ranks(const Plot& plot);
/// Sorts every rank.
void order_ranks(Ranked& graph);
int count_crossings(const Ranked& graph);
/// The middle of each node; the smallest left edge is at 0.
std::vector<double> find_columns(const Ranked& graph);

}  // namespace banyan::draw
