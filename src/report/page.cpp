#include "report/page.hpp"

#include <string>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/report/report.hpp"

namespace banyan::report {
namespace {

/// JSON within a <script> element: nothing in it may look like the element's end. `<`, `>` and `&` occur in
/// texts only, where the escapes mean the same; so do the line separators that older scripts stumble over.
std::string script_json(const std::string& json) {
  std::string out;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '<')
      out += "\\u003c";
    else if (c == '>')
      out += "\\u003e";
    else if (c == '&')
      out += "\\u0026";
    else if (json.compare(i, 3, "\u2028") == 0 || json.compare(i, 3, "\u2029") == 0)
      out += json[i + 2] == '\xa8' ? "\\u2028" : "\\u2029", i += 2;
    else
      out += c;
  }
  return out;
}

/// The template with its {{NAME}}s replaced; values are not searched again.
std::string filled(std::string_view text,
                   const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string out;
  while (true) {
    const std::size_t begin = text.find("{{");
    out += text.substr(0, begin);
    if (begin == std::string_view::npos) return out;
    const std::size_t end = text.find("}}", begin);
    const std::string_view name = text.substr(begin + 2, end - begin - 2);
    for (const auto& [key, value] : values)
      if (key == name) out += value;
    text.remove_prefix(end + 2);
  }
}

/// `connect`: what the page's policy lets it ask; `more`: what follows its scripts.
std::string page(const std::string& runs, const std::string& connect, std::string_view more) {
  const std::string data = cat("{\"version\":", json_string(BANYAN_VERSION), runs, "}");
  return filled(kPageHtml, {{"STYLE", std::string(kPageCss)},
                            {"SCRIPT", cat(kPageJs, more)},
                            {"CONNECT", connect},
                            {"DATA", script_json(data)}});
}

}  // namespace

std::string page_of(const std::vector<std::string>& runs) {
  return page(cat(",\"runs\":[", join(runs, ",\n"), "]"), "", "");
}

std::string live_page_of(const std::string& run, std::int64_t version) {
  return page(cat(",\"live\":", version, ",\"runs\":[", run, "]"), "; connect-src 'self'", kLiveJs);
}

std::string live_data(const std::string& run, std::int64_t version, bool ended) {
  return cat("{\"version\":", version, ",\"ended\":", ended ? "true" : "false", ",\"run\":", run, "}");
}

}  // namespace banyan::report
