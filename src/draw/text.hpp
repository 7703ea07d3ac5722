// Texts in a picture: their width, and what makes them safe. The fonts of the reader are not known; widths
// are those of Helvetica, which Arial and Liberation Sans share, and a little more for others.
#pragma once

#include <string>

namespace banyan::draw {

double text_width(const std::string& text, double size, bool bold = false);
/// With the middle replaced by an ellipsis if it has more than `most` characters. Bytes that are no UTF-8 and
/// control characters become U+FFFD.
std::string shortened(const std::string& text, std::size_t most);
/// For XML text and attributes, the same characters replaced.
std::string xml(const std::string& text);

}  // namespace banyan::draw
