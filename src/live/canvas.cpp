#include "live/canvas.hpp"

#include <algorithm>
#include <utility>

#include "banyan/base/utf8.hpp"

namespace banyan::live {
namespace {

/// '?' for what is no UTF-8, a space for what would move the cursor.
char32_t next_character(std::string_view text, std::size_t& at) {
  const char32_t c = next_utf8(text, at).value_or(U'?');
  return c < 0x20 || (c >= 0x7f && c < 0xa0) ? U' ' : c;
}

/// What stands in for a character of ours where there is no UTF-8.
char ascii_of(char32_t c) {
  switch (c) {
    case U'\u2500':  // line
    case U'\u2581':  // lowest bar
      return '-';
    case U'\u2588':  // full block
      return '#';
    case U'\u2591':  // shade
      return '.';
    case U'\u2026':  // ellipsis
      return '~';
    case U'\u00d7':  // cross
      return 'x';
    case U'\u2502':
      return '|';
    default:
      return c < 0x80 ? static_cast<char>(c) : '?';
  }
}

const char* code_of(Style style) {
  static constexpr const char* kCodes[] = {"\x1b[m",   "\x1b[2m",  "\x1b[1m",  "\x1b[33m",
                                           "\x1b[36m", "\x1b[35m", "\x1b[32m", "\x1b[34m"};
  return kCodes[static_cast<std::size_t>(style)];
}

constexpr std::pair<char32_t, char32_t> kNone[] = {{0x300, 0x36f},   {0x200b, 0x200f}, {0x2028, 0x202e},
                                                   {0x2060, 0x206f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f},
                                                   {0xfeff, 0xfeff}};
constexpr std::pair<char32_t, char32_t> kTwo[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},  {0x3041, 0xa4cf},
                                                  {0xac00, 0xd7a3},   {0xf900, 0xfaff},  {0xfe30, 0xfe6f},
                                                  {0xff00, 0xff60},   {0xffe0, 0xffe6},  {0x1f300, 0x1f64f},
                                                  {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};

}  // namespace

Style curve_style(std::size_t number) {
  return static_cast<Style>(static_cast<std::size_t>(Style::first) + number % kCurveStyles);
}

int columns_of(char32_t c) {
  const auto inside = [c](const auto& range) { return c >= range.first && c <= range.second; };
  if (c < 0x300) return 1;
  if (std::any_of(std::begin(kNone), std::end(kNone), inside)) return 0;
  return std::any_of(std::begin(kTwo), std::end(kTwo), inside) ? 2 : 1;
}

Canvas::Canvas(int width, int height)
    : width_(std::max(width, 0)),
      height_(std::max(height, 0)),
      cells_(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_)) {}

int Canvas::put(int x, int y, std::string_view text, Style style, int most) {
  if (y < 0 || y >= height_ || x < 0 || x >= width_) return x;
  const int end = std::min(width_, x + std::clamp(most, 0, width_));
  int last = x;  // where the ellipsis would be
  for (std::size_t i = 0; i < text.size();) {
    const char32_t character = next_character(text, i);
    const int columns = columns_of(character);
    if (columns == 0) continue;
    if (x + columns > end) {
      for (int k = last; k < end; ++k) at(k, y) = {};
      if (last < end) at(last, y) = {U'\u2026', style};
      return end;
    }
    at(x, y) = {character, style};
    if (columns == 2) at(x + 1, y) = {0, style};
    last = x + columns < end ? x + columns : x;
    x += columns;
  }
  return x;
}

void Canvas::set(int x, int y, char32_t character, Style style) {
  if (x >= 0 && x < width_ && y >= 0 && y < height_) at(x, y) = {character, style};
}

std::vector<std::string> Canvas::rows(const Look& look) const {
  std::vector<std::string> rows;
  for (int y = 0; y < height_; ++y) {
    int end = width_;
    while (end > 0 && at(end - 1, y).character == U' ') --end;
    std::string row;
    Style style = Style::plain;
    for (int x = 0; x < end; ++x) {
      const Cell& cell = at(x, y);
      if (look.colour && cell.style != style && cell.character != U' ') {
        if (style != Style::plain && cell.style != Style::plain) row += code_of(Style::plain);
        row += code_of(style = cell.style);
      }
      if (look.utf8) {
        if (cell.character != 0) append_utf8(row, cell.character);
      } else {
        row += cell.character != 0 ? ascii_of(cell.character) : '?';
      }
    }
    if (style != Style::plain) row += code_of(Style::plain);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace banyan::live
