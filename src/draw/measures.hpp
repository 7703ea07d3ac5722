// How large cards are, with the texts in and below them, and where blobs leave them.
#pragma once

#include <string>
#include <vector>

#include "draw/picture.hpp"

namespace banyan::draw {

inline constexpr double kNameSize = 12.5, kSmallSize = 10.5, kMarkSize = 9.5;  ///< of fonts
inline constexpr double kFirstRow = 37, kNextRow = 21, kStepsRow = 17;         ///< heights within a card
inline constexpr double kLine = 12.5;  ///< height of a line of text below a card
inline constexpr std::size_t kLongestName = 40, kLongestSettings = 44;
/// Of one card's blobs, each with a text at its wire; more share one text.
inline constexpr std::size_t kMostLabels = 4;

double mark_width(const std::string& mark);
/// Upper edge of a row, relative to the card.
double row_top(int row);

struct CardMeasures {
  double width = 0, height = 0;
  double below = 0, room = 0;  ///< height and width that the texts below it need
  std::vector<int> blobs;      ///< that leave it
};
struct Measures {
  std::vector<CardMeasures> cards;
  std::vector<double> ports;  ///< per blob: where it leaves its card, relative to the middle
};
/// `tagged`: connections without a wire.
Measures measure(const Picture& picture, const std::vector<bool>& tagged);

/// What is written at the wire of a blob: its shape, and its name unless it is that of a layer of its card.
std::vector<std::string> label_of(const Picture& picture, int blob);
/// Of blobs that are too many for a text each.
std::string label_of_all(const Picture& picture, const std::vector<int>& blobs);

}  // namespace banyan::draw
