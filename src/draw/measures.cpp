#include "draw/measures.hpp"

#include <algorithm>
#include <cmath>

#include "draw/text.hpp"

namespace banyan::draw {
namespace {

constexpr double kPadding = 12;  ///< left and right of the text in a card
constexpr double kLeastWidth = 120, kLeastSlot = 14;
constexpr double kFirstPort = 12;   ///< from the left end of its slot
constexpr double kBeforeText = 16;  ///< between wires and texts, on both sides of a text together

CardMeasures size_of(const Card& card) {
  double width = kLeastWidth;
  for (std::size_t r = 0; r < card.rows.size(); ++r) {
    const Row& row = card.rows[r];
    double marks = 0;
    for (const std::string& mark : row.marks) marks += mark_width(mark) + 4;
    const std::string name = shortened(row.name, kLongestName);
    const double what =
        text_width(row.type + (row.settings.empty() ? "" : "  " + shortened(row.settings, kLongestSettings)),
                   kSmallSize);
    width = r == 0 ? std::max({width, text_width(name, kNameSize, true) + marks, what})
                   : std::max(width, text_width("+ " + name + "   ", kSmallSize, true) + what + marks);
  }
  CardMeasures measures;
  measures.width = std::ceil(std::max(width, text_width(card.steps, kSmallSize)) + 2 * kPadding);
  measures.height = row_top(static_cast<int>(card.rows.size())) + (card.steps.empty() ? 0 : kStepsRow);
  return measures;
}

class Measurer {
 public:
  Measurer(const Picture& picture, const std::vector<bool>& tagged)
      : picture_(picture), wired_(picture.blobs.size(), false) {
    for (std::size_t i = 0; i < tagged.size(); ++i)
      if (!tagged[i]) wired_[picture.connections[i].blob] = true;
    measures_.ports.assign(picture.blobs.size(), 0);
    for (const Card& card : picture.cards) measures_.cards.push_back(size_of(card));
    for (std::size_t b = 0; b < picture.blobs.size(); ++b)
      measures_.cards[picture.blobs[b].card].blobs.push_back(static_cast<int>(b));
  }

  Measures take() {
    for (CardMeasures& card : measures_.cards) {
      if (card.blobs.empty()) continue;
      double slot = kLeastSlot;
      std::size_t lines = 1;
      for (const int blob : card.blobs) {
        const std::vector<std::string> texts = label_of(picture_, blob);
        lines = std::max(lines, texts.size());
        for (const std::string& text : texts)
          if (card.blobs.size() <= kMostLabels)
            slot = std::max(slot, text_width(text, kSmallSize) + kBeforeText);
      }
      card.below = kLine * static_cast<double>(lines) + 5;
      place_ports(card, slot);
    }
    return std::move(measures_);
  }

 private:
  /// A blob leaves from the middle if it is the only one, or the only one with a wire; the others are then to
  /// its right.
  void place_ports(CardMeasures& card, double slot) {
    const double count = static_cast<double>(card.blobs.size());
    const auto wires = std::count_if(card.blobs.begin(), card.blobs.end(), [&](int b) { return wired_[b]; });
    if (count == 1 || (wires == 1 && card.blobs.size() <= kMostLabels)) {
      double x = slot;
      for (const int blob : card.blobs)
        if (count > 1 && !wired_[blob]) {
          measures_.ports[blob] = x;
          x += slot;
        }
      card.width = std::max(card.width, 2 * (slot * (count - 1) + kFirstPort));
      card.room = 2 * slot * count;
      return;
    }
    card.width = card.room = std::max(card.width, slot * count);
    if (card.blobs.size() > kMostLabels)
      card.room =
          std::max(card.room, 2 * text_width(label_of_all(picture_, card.blobs), kSmallSize) + kBeforeText);
    for (std::size_t i = 0; i < card.blobs.size(); ++i)
      measures_.ports[card.blobs[i]] =
          slot * (static_cast<double>(i) - count / 2) + std::min(slot / 2, kFirstPort);
  }

  const Picture& picture_;
  std::vector<bool> wired_;  ///< per blob
  Measures measures_;
};

}  // namespace

double mark_width(const std::string& mark) { return text_width(mark, kMarkSize) + 10; }

double row_top(int row) { return row == 0 ? 0 : kFirstRow + kNextRow * (row - 1); }

Measures measure(const Picture& picture, const std::vector<bool>& tagged) {
  return Measurer(picture, tagged).take();
}

std::vector<std::string> label_of(const Picture& picture, int number) {
  const DrawnBlob& blob = picture.blobs[number];
  const std::vector<Row>& rows = picture.cards[blob.card].rows;
  const bool named =
      std::none_of(rows.begin(), rows.end(), [&](const Row& row) { return row.name == blob.name; });
  std::vector<std::string> lines{named ? shortened(blob.name, kLongestName) + "  " + blob.shape : blob.shape};
  if (!blob.place.empty()) lines.push_back(blob.place);
  return lines;
}

std::string label_of_all(const Picture& picture, const std::vector<int>& blobs) {
  constexpr std::size_t kMostShapes = 3;
  std::vector<std::string> shapes;
  for (const int blob : blobs)
    if (std::find(shapes.begin(), shapes.end(), picture.blobs[blob].shape) == shapes.end())
      shapes.push_back(picture.blobs[blob].shape);
  std::string text = std::to_string(blobs.size()) + " blobs: ";
  for (std::size_t i = 0; i < shapes.size() && i < kMostShapes; ++i) text += (i > 0 ? ", " : "") + shapes[i];
  return shapes.size() > kMostShapes ? text + " \u2026" : text;
}

}  // namespace banyan::draw
