// UTF-8, one character after the other.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace banyan {

/// The character that begins at byte `at` of the text, which must lie inside it; `at` moves past the
/// character. Where the bytes are no UTF-8 (cut off, forms that are too long, halves of UTF-16 pairs, beyond
/// Unicode): nothing, and `at` moves past one byte.
std::optional<char32_t> next_utf8(std::string_view text, std::size_t& at);

void append_utf8(std::string& text, char32_t character);

}  // namespace banyan
