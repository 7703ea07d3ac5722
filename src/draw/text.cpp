#include "draw/text.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace banyan::draw {
namespace {

/// Thousandths of the size, from the space on.
constexpr std::array<std::uint16_t, 95> kWidths = {
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333,  278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667,  611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278,  556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500,  500, 334, 260, 334, 584};
constexpr double kOtherFonts = 1.06, kBold = 1.07;
constexpr char32_t kUnknown = 0xfffd;

/// The next character; advances `at`. Overlong forms, surrogates and what XML does not allow are kUnknown.
char32_t next_character(const std::string& text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at++);
  if (first < 0x80) return first < 0x20 || first == 0x7f ? kUnknown : first;
  const int more = first >= 0xf0 && first < 0xf5   ? 3
                   : first >= 0xe0 && first < 0xf0 ? 2
                   : first >= 0xc2 && first < 0xe0 ? 1
                                                   : 0;
  if (more == 0) return kUnknown;
  char32_t character = first & (0x3f >> more);
  for (int i = 0; i < more; ++i) {
    if (at + i >= text.size() || (byte(at + i) & 0xc0) != 0x80) return kUnknown;
    character = character << 6 | (byte(at + i) & 0x3f);
  }
  constexpr std::array<char32_t, 4> kLeast = {0, 0x80, 0x800, 0x10000};
  if (character < kLeast[more] || character > 0x10ffff || (character >= 0xd800 && character < 0xe000))
    return kUnknown;
  at += more;
  return character == 0xfffe || character == 0xffff || character < 0xa0 ? kUnknown : character;
}

std::vector<char32_t> characters(const std::string& text) {
  std::vector<char32_t> all;
  for (std::size_t at = 0; at < text.size();) all.push_back(next_character(text, at));
  return all;
}

void append(std::string& out, char32_t c) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (c >> shift & 0x3f)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | c >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0 | c >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

double text_width(const std::string& text, double size, bool bold) {
  double thousandths = 0;
  for (const char32_t c : characters(text))
    thousandths += c >= 0x20 && c < 0x7f          ? kWidths[c - 0x20]
                   : c >= 0x1100 && c != kUnknown ? (c < 0x2e80 ? 600 : 1000)
                                                  : 600;
  return thousandths / 1000 * size * kOtherFonts * (bold ? kBold : 1);
}

std::string shortened(const std::string& text, std::size_t most) {
  const std::vector<char32_t> all = characters(text);
  std::string out;
  const std::size_t front = all.size() <= most ? all.size() : most / 2;
  for (std::size_t i = 0; i < front; ++i) append(out, all[i]);
  if (front == all.size()) return out;
  append(out, 0x2026);
  for (std::size_t i = all.size() - (most - front - 1); i < all.size(); ++i) append(out, all[i]);
  return out;
}

std::string xml(const std::string& text) {
  std::string out;
  for (const char32_t c : characters(text)) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else
      append(out, c);
  }
  return out;
}

}  // namespace banyan::draw
