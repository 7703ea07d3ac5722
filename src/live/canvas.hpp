// Canvas: a rectangle of characters with styles, and rows of it as a terminal takes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace banyan::live {

/// What a terminal can show.
struct Look {
  bool utf8 = true;  ///< else ASCII stands in
  bool colour = true;
};

enum class Style : std::uint8_t { plain, dim, bold, warning, first, second, third, fourth };
inline constexpr int kCurveStyles = 4;
/// Of the curve of that number in a chart.
Style curve_style(std::size_t number);

/// Columns that a character takes in a terminal: 0, 1 or 2.
int columns_of(char32_t character);

class Canvas {
 public:
  Canvas(int width, int height);
  int width() const { return width_; }
  int height() const { return height_; }

  /// Writes UTF-8 from this place on, cut at the canvas's edge or after `most` columns, then with an
  /// ellipsis. Control characters become blanks, bytes that are no UTF-8 question marks. Returns the column
  /// after it.
  int put(int x, int y, std::string_view text, Style style = Style::plain, int most = 1 << 20);
  /// One character of one column.
  void set(int x, int y, char32_t character, Style style = Style::plain);

  /// Each row, in UTF-8 or ASCII, without blanks at its end.
  std::vector<std::string> rows(const Look& look) const;

 private:
  struct Cell {
    char32_t character = U' ';  ///< 0: the second column of the one before
    Style style = Style::plain;
  };
  Cell& at(int x, int y) { return cells_[static_cast<std::size_t>(y * width_ + x)]; }
  const Cell& at(int x, int y) const { return cells_[static_cast<std::size_t>(y * width_ + x)]; }
  int width_, height_;
  std::vector<Cell> cells_;
};

}  // namespace banyan::live
