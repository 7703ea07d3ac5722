// A picture with places: cards in columns, wires between them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "draw/layered.hpp"
#include "draw/picture.hpp"

namespace banyan::draw {

/// Lays out each graph by itself.
using LayoutEngine = std::function<std::vector<Drawing>(const std::vector<Plot>&)>;

struct PlacedCard {
  int card = 0;
  double x = 0, y = 0, width = 0, height = 0;
};
/// A blob's name in place of a long wire from a source.
struct Tag {
  int blob = 0;
  double x = 0, y = 0, width = 0, height = 0;
};
struct Wire {
  int blob = 0;
  Curve curve;
  bool sideways = false;  ///< the last piece ends at a side of a card
  bool open = false;      ///< nothing reads the blob
};
struct Label {
  double x = 0, y = 0;  ///< left end of the first base line
  std::vector<std::string> lines;
  std::vector<std::string> notes;
};
struct CutLine {
  double x = 0, y = 0, width = 0;
  std::string text;
};
/// From the lower end of a column to the upper end of the next.
struct Trunk {
  int blob = 0;
  std::vector<Point> corners;
};

struct Scene {
  double width = 0, height = 0;
  std::vector<PlacedCard> cards;
  std::vector<Tag> tags;
  std::vector<Wire> wires;
  std::vector<Trunk> trunks;
  std::vector<Label> labels;
  std::vector<CutLine> cuts;
  bool bridges_touch_cards = false;  ///< of a net in the form of a U: it should not have been folded
};

inline constexpr double kNameSize = 12.5, kSmallSize = 10.5, kMarkSize = 9.5;
inline constexpr double kFirstRow = 37, kNextRow = 21, kStepsRow = 17;  ///< heights within a card
inline constexpr std::size_t kLongestName = 40, kLongestSettings = 44;
double mark_width(const std::string& mark);
/// Upper edge of a row, relative to the card.
double row_top(int row);

Scene arrange(const Picture& picture, const LayoutEngine& engine);

}  // namespace banyan::draw
