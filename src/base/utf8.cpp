#include "banyan/base/utf8.hpp"

#include <array>

namespace banyan {

std::optional<char32_t> next_utf8(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at++);
  if (first < 0x80) return first;
  const std::size_t more = first >= 0xf5 || first < 0xc2 ? 0 : first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  if (more == 0 || at + more > text.size()) return std::nullopt;
  char32_t character = first & (0x3f >> more);
  for (std::size_t i = at; i < at + more; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return std::nullopt;
    character = character << 6 | (byte(i) & 0x3f);
  }
  constexpr std::array<char32_t, 4> kLeast = {0, 0x80, 0x800, 0x10000};
  const bool half_of_a_pair = character >= 0xd800 && character < 0xe000;
  if (character < kLeast[more] || character > 0x10ffff || half_of_a_pair) return std::nullopt;
  at += more;
  return character;
}

void append_utf8(std::string& text, char32_t character) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (character >> shift & 0x3f)); };
  if (character < 0x80) {
    text += static_cast<char>(character);
  } else if (character < 0x800) {
    text += static_cast<char>(0xc0 | character >> 6);
    tail(0);
  } else if (character < 0x10000) {
    text += static_cast<char>(0xe0 | character >> 12);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xf0 | character >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace banyan
