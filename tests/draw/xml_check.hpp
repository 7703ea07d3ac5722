// Is a text well-formed XML? Elements nest, attributes are quoted, and only XML's own entities occur.
#pragma once

#include <regex>
#include <string>
#include <vector>

namespace banyan::draw {

/// "" or what is wrong.
inline std::string xml_problem(const std::string& text) {
  static const std::regex tag(
      R"(<(/?)([A-Za-z][A-Za-z0-9]*)((?:\s+[A-Za-z][-A-Za-z0-9:]*="[^"<]*")*)\s*(/?)>)");
  static const std::regex entity("&(amp|lt|gt|quot|#39);");
  std::vector<std::string> open;
  std::size_t roots = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '<') {
      std::smatch found;
      const std::size_t end = text.find('>', at);
      const std::string one = text.substr(at, end == std::string::npos ? end : end - at + 1);
      if (!std::regex_match(one, found, tag)) return "not a tag: " + one.substr(0, 80);
      const bool closes = found[1].length() > 0, empty = found[4].length() > 0;
      roots += open.empty() && !closes;
      if (closes) {
        if (open.empty() || open.back() != found[2]) return "closes nothing: " + one;
        open.pop_back();
      } else if (!empty) {
        open.push_back(found[2]);
      }
      at += one.size();
    } else if (text[at] == '&') {
      std::smatch found;
      const std::string one = text.substr(at, 6);
      if (!std::regex_search(one, found, entity, std::regex_constants::match_continuous))
        return "not an entity: " + one;
      at += static_cast<std::size_t>(found.length());
    } else {
      const auto byte = static_cast<unsigned char>(text[at]);
      if (byte < 0x20 && byte != '\n') return "control character " + std::to_string(byte);
      if (text[at] == '>') return "a bare > at " + text.substr(at, 40);
      ++at;
    }
  }
  if (!open.empty()) return "not closed: " + open.back();
  return roots == 1 ? "" : std::to_string(roots) + " roots";
}

}  // namespace banyan::draw
