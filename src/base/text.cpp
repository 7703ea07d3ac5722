#include "banyan/base/text.hpp"

#include <algorithm>
#include <cctype>
#include <iomanip>
#include <sstream>
#include <utility>

#include "banyan/base/utf8.hpp"

namespace banyan {
namespace {

char folded(char c) {
  return c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

bool is_upper(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }
bool is_lower(char c) { return std::islower(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// `PSROIPooling` and `psroi_pooling`: `psroi`, `pooling`.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words;
  bool begins = true;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = folded(name[i]);
    if (c == '_') {
      begins = true;
      continue;
    }
    const bool after_small = i > 0 && is_upper(name[i]) && !is_upper(name[i - 1]);
    const bool last_capital = i > 0 && is_upper(name[i]) && i + 1 < name.size() && is_lower(name[i + 1]);
    if (begins || after_small || last_capital) words.emplace_back();
    begins = false;
    words.back() += c;
  }
  return words;
}

std::string digits_of(std::string_view name) {
  std::string digits;
  for (const char c : name)
    if (is_digit(c)) digits += c;
  return digits;
}

/// So many mistakes are likely in a word; in a shorter one they make another word.
std::size_t likely_mistakes(std::size_t letters) {
  return letters <= 2 ? 0 : letters <= 7 ? 1 : letters <= 15 ? 2 : 3;
}

/// Letters that are missing or too many are a few at most: this bounds the work for long names.
bool may_be_near(std::size_t a, std::size_t b) { return std::max(a, b) - std::min(a, b) <= 3; }

bool is_likely_mistake(const std::string& word, const std::string& meant) {
  const std::size_t letters = std::max(word.size(), meant.size());
  return word == meant ||
         (may_be_near(word.size(), meant.size()) && edit_distance(word, meant) <= likely_mistakes(letters));
}

/// Among so many names, another word of three letters is near one of them by chance.
constexpr std::size_t kManyNames = 32;

/// The same letters, two of which have changed places?
bool is_swap(const std::string& word, const std::string& meant) {
  return edit_distance(word, meant) == 1 &&
         std::is_permutation(word.begin(), word.end(), meant.begin(), meant.end());
}

/// Mistakes in the first letter are rare, and `SELU` is not `ELU`. It may be lost, as in copying, or have
/// changed places with the second one.
bool begin_alike(const std::string& name, const std::string& meant) {
  if (name[0] == meant[0]) return true;
  const bool swapped = name.size() > 1 && meant.size() > 1 && name[0] == meant[1] && name[1] == meant[0];
  return swapped || (name.size() >= 4 && meant.compare(1, std::string::npos, name) == 0);
}

/// Can the name be a typo of the one that is meant, which is one of `many`?
bool is_typo(std::string_view name, const std::string& meant, bool many) {
  if (digits_of(name) != digits_of(meant)) return false;
  const std::vector<std::string> words = words_of(name), meant_words = words_of(meant);
  const std::string all = join(words, ""), meant_all = join(meant_words, "");
  if (all.empty() || meant_all.empty()) return false;
  if (all == meant_all) return true;
  if (!begin_alike(all, meant_all) || !is_likely_mistake(all, meant_all)) return false;
  if (many && std::max(all.size(), meant_all.size()) <= 3 && !is_swap(all, meant_all)) return false;
  if (words.size() != meant_words.size()) return true;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (!is_likely_mistake(words[i], meant_words[i])) return false;
  return true;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table are enough: a swap of neighbours looks two rows back.
  std::vector<std::size_t> two_back(b.size() + 1), back(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(two_back, back);
    std::swap(back, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = folded(a[i - 1]) == folded(b[j - 1]);
      row[j] = std::min({back[j] + 1, row[j - 1] + 1, back[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) && folded(a[i - 2]) == folded(b[j - 1])) {
        row[j] = std::min(row[j], two_back[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::vector<std::string> nearest_first(std::string_view name, std::vector<std::string> candidates) {
  // A very long name is not a typo; truncating it bounds the work.
  const std::string_view head = name.substr(0, 100);
  std::vector<std::pair<std::size_t, std::string>> ranked;
  ranked.reserve(candidates.size());
  for (std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(head, candidate);
    ranked.emplace_back(distance, std::move(candidate));
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> sorted;
  sorted.reserve(ranked.size());
  for (auto& [distance, candidate] : ranked) sorted.push_back(std::move(candidate));
  return sorted;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string_view head = name.substr(0, 100);
  std::vector<std::string> likely;
  for (const std::string& candidate : candidates)
    if (is_typo(head, candidate, candidates.size() > kManyNames)) likely.push_back(candidate);
  return likely.empty() ? "" : nearest_first(name, std::move(likely)).front();
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string best = nearest_name(name, candidates);
  return best.empty() ? "" : " (did you mean \"" + best + "\"?)";
}

std::string Quoted::operator()(std::string_view text, std::size_t max_length) const {
  static const char* const kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, max_length)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  out += text.size() > max_length ? "...\"" : "\"";
  return out;
}

std::string join(const std::vector<std::string>& items, std::string_view separator) {
  return join(items, separator, separator);
}

std::string join(const std::vector<std::string>& items, std::string_view separator, std::string_view last) {
  std::string out;
  for (const std::string& item : items) {
    if (&item != &items.front()) out += &item == &items.back() ? last : separator;
    out += item;
  }
  return out;
}

std::string json_string(std::string_view text) {
  std::ostringstream out;
  out << '"';
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const std::optional<char32_t> c = next_utf8(text, at);
    if (!c)
      out << "\\ufffd";
    else if (*c == '"' || *c == '\\')
      out << '\\' << text[begin];
    else if (*c < 0x20)
      out << "\\u" << std::hex << std::setw(4) << std::setfill('0') << static_cast<int>(*c) << std::dec;
    else
      out << text.substr(begin, at - begin);
  }
  out << '"';
  return out.str();
}

std::string json_array(const std::vector<std::string>& items) { return "[" + join(items, ", ") + "]"; }

std::string json_strings(const std::vector<std::string>& texts) {
  std::vector<std::string> items;
  for (const std::string& text : texts) items.push_back(json_string(text));
  return json_array(items);
}

}  // namespace banyan
