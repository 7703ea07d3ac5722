#include "draw/text.hpp"

#include <array>
#include <cstdint>
#include <vector>

#include "banyan/base/utf8.hpp"

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

/// What XML does not allow, and what is no UTF-8, is kUnknown.
char32_t next_character(const std::string& text, std::size_t& at) {
  const char32_t c = next_utf8(text, at).value_or(kUnknown);
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xfffe || c == 0xffff ? kUnknown : c;
}

std::vector<char32_t> characters(const std::string& text) {
  std::vector<char32_t> all;
  for (std::size_t at = 0; at < text.size();) all.push_back(next_character(text, at));
  return all;
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
  for (std::size_t i = 0; i < front; ++i) append_utf8(out, all[i]);
  if (front == all.size()) return out;
  append_utf8(out, 0x2026);
  for (std::size_t i = all.size() - (most - front - 1); i < all.size(); ++i) append_utf8(out, all[i]);
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
      append_utf8(out, c);
  }
  return out;
}

}  // namespace banyan::draw
