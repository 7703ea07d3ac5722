#include "text_blocks.hpp"

#include <algorithm>
#include <utility>

#include "banyan/base/contains.hpp"

namespace banyan::io {
namespace {

bool is_name_character(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

struct Token {
  enum class Kind { word, text, open, close, other } kind = Kind::other;
  std::string_view value;  // of a text: between its quotes
  std::size_t begin = 0, end = 0;

  /// A block or a list.
  bool opens() const { return kind == Kind::open || (kind == Kind::other && value == "["); }
  bool closes() const { return kind == Kind::close || (kind == Kind::other && value == "]"); }
};

/// Names, texts and braces, without blanks and comments. Reads what cannot be parsed too.
class Tokens {
 public:
  Tokens(std::string_view text, std::size_t begin) : text_(text), at_(begin) {}

  /// False at the end of the text.
  bool next(Token& token) {
    skip_blanks();
    if (at_ >= text_.size()) return false;
    const std::size_t begin = at_;
    const char c = text_[at_++];
    if (c == '"' || c == '\'') {
      while (at_ < text_.size() && text_[at_] != c && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
      const std::size_t end = std::min(at_, text_.size());
      at_ = std::min(end + 1, text_.size());
      token = {Token::Kind::text, text_.substr(begin + 1, end - begin - 1), begin, at_};
      return true;
    }
    Token::Kind kind = Token::Kind::other;
    if (c == '{' || c == '<') kind = Token::Kind::open;
    if (c == '}' || c == '>') kind = Token::Kind::close;
    if (is_name_character(c)) {
      kind = Token::Kind::word;
      while (at_ < text_.size() && is_name_character(text_[at_])) ++at_;
    }
    token = {kind, text_.substr(begin, at_ - begin), begin, at_};
    return true;
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && (is_blank(text_[at_]) || text_[at_] == '#')) {
      if (text_[at_] == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else
        ++at_;
    }
  }

  std::string_view text_;
  std::size_t at_;
};

/// Of values without quotes and braces.
bool ends_value(char c) {
  return is_blank(c) || std::string_view(",;:{}[]<>\"'#").find(c) != std::string_view::npos;
}

/// `begin` where what is there is no value, but a sign or the name of the next field; npos of a block that
/// does not end.
std::size_t end_of_value(std::string_view text, std::size_t begin) {
  Tokens tokens(text, begin);
  Token token;
  if (!tokens.next(token) || token.begin != begin) return begin;
  std::size_t end = token.end;
  if (token.kind == Token::Kind::text) {  // with those that continue it
    while (tokens.next(token) && token.kind == Token::Kind::text) end = token.end;
    return end;
  }
  if (token.opens()) {
    for (int depth = 1; depth > 0; end = token.end) {
      if (!tokens.next(token)) return std::string_view::npos;
      depth += token.opens() ? 1 : token.closes() ? -1 : 0;
    }
    return end;
  }
  if (ends_value(text[begin])) return begin;
  while (end < text.size() && !ends_value(text[end])) ++end;
  if (text[end - 1] == '$' && text.substr(end).starts_with('{'))  // of a template
    return std::min(text.find('}', end), text.size() - 1) + 1;
  const std::string_view written = text.substr(begin, end - begin);
  Tokens rest(text, end);
  const bool is_next_field =
      std::all_of(written.begin(), written.end(), is_name_character) && rest.next(token) &&
      (token.kind == Token::Kind::open || (token.kind == Token::Kind::other && token.value == ":"));
  return is_next_field ? begin : end;
}

}  // namespace

TextPosition position_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  return {line, offset, offset - (before.rfind('\n') + 1)};  // npos + 1 is 0
}

bool closes_more_than_opens(std::string_view text) {
  Tokens tokens(text, 0);
  Token token;
  std::int64_t open = 0;
  while (tokens.next(token))
    open += token.kind == Token::Kind::open ? 1 : token.kind == Token::Kind::close ? -1 : 0;
  return open < 0;
}

TextPosition locate(std::string_view text, int line, int column) {
  TextPosition at;
  while (at.line < static_cast<std::size_t>(std::max(line, 0))) {
    const std::size_t newline = text.find('\n', at.offset);
    if (newline == std::string_view::npos) break;
    at.offset = newline + 1;
    ++at.line;
  }
  for (int shown = 0; shown < column && at.offset < text.size() && text[at.offset] != '\n'; ++at.offset) {
    shown += text[at.offset] == '\t' ? 8 - shown % 8 : 1;
    ++at.column;
  }
  return at;
}

TextPosition move_to_name(std::string_view text, TextPosition at, std::string_view name) {
  Tokens tokens(text, 0);
  Token token;
  std::size_t found = std::string_view::npos;
  while (tokens.next(token) && token.begin <= at.offset)
    if (token.kind == Token::Kind::word && token.value == name) found = token.begin;
  if (found == std::string_view::npos) return at;
  return position_of(text, found);
}

std::vector<TextBlock> blocks_around(std::string_view text, std::size_t offset) {
  std::vector<TextBlock> blocks;
  Tokens tokens(text, 0);
  Token token;
  std::string_view word;
  while (tokens.next(token) && token.begin < offset) {
    if (token.kind == Token::Kind::word) word = token.value;
    if (token.kind == Token::Kind::open) blocks.push_back({std::string(word), token.end});
    if (token.kind == Token::Kind::close && !blocks.empty()) blocks.pop_back();
  }
  return blocks;
}

std::optional<MissingBraces> missing_braces(std::string_view text) {
  struct Open {
    std::string_view name;
    std::size_t begin;  // of its name
    bool is_list;
  };
  std::optional<MissingBraces> missing;
  std::vector<Open> open;
  Tokens tokens(text, 0);
  Token token, word;
  const auto unclosed = [&](std::size_t first, std::size_t end) {
    const auto begin = open.begin() + static_cast<std::ptrdiff_t>(first);
    return MissingBraces{{begin->begin, end},
                         std::any_of(begin, open.end(), [](const Open& block) { return block.is_list; })};
  };
  while (tokens.next(token)) {
    if (token.kind == Token::Kind::word) word = token;
    if (token.closes()) {
      if (!open.empty())
        open.pop_back();
      else if (missing)
        return {};  // what looked like two layers is one within another
    }
    if (!token.opens()) continue;
    const bool is_layer =
        token.kind == Token::Kind::open && (word.value == "layer" || word.value == "layers");
    std::size_t around = open.size();  // blocks that it may be in
    const auto may_hold_it = [&](std::string_view name) {
      return name.ends_with("net_param") || (name == "layers" && word.value == "layer");  // the latter of V0
    };
    while (is_layer && around > 0 && !may_hold_it(open[around - 1].name)) --around;
    if (around < open.size() && !missing) missing = unclosed(around, word.begin);
    open.resize(around);
    const bool is_list = token.kind != Token::Kind::open;
    open.push_back({is_list ? "" : word.value, is_list ? token.begin : word.begin, is_list});
    if (open.size() > kDeepestNesting) return {};  // no net
  }
  if (!missing && !open.empty()) missing = unclosed(0, text.size());
  return missing;
}

std::string closing_of(std::string_view text, const std::vector<TextBlock>& blocks, std::size_t first) {
  std::string braces;
  for (std::size_t k = blocks.size(); k-- > first;) braces += text[blocks[k].begin - 1] == '<' ? "> " : "} ";
  return braces;
}

std::vector<TextBlock> blocks_named(std::string_view text, const std::vector<std::string>& names) {
  std::vector<TextBlock> blocks;
  Tokens tokens(text, 0);
  Token token;
  std::string word;
  while (tokens.next(token)) {
    if (token.kind == Token::Kind::word) word = token.value;
    if (token.kind == Token::Kind::open && contains(names, word)) blocks.push_back({word, token.end});
  }
  return blocks;
}

std::size_t end_of(std::string_view text, const TextBlock& block) {
  Tokens tokens(text, block.begin);
  Token token;
  for (int depth = 0; tokens.next(token);) {
    if (token.kind == Token::Kind::close && depth-- == 0) return token.end;
    if (token.kind == Token::Kind::open) ++depth;
  }
  return text.size();
}

void for_each_field(
    std::string_view text,
    const std::function<void(const std::vector<TextBlock>&, std::string_view, std::size_t)>& use) {
  std::vector<TextBlock> blocks;
  Tokens tokens(text, 0);
  Token token, before, word;
  while (tokens.next(token)) {
    const bool opens = token.kind == Token::Kind::open;
    // A colon or a block after a word that is no value.
    if (word.end > 0 && before.begin == word.begin && (opens || token.value == ":"))
      use(blocks, word.value, word.begin);
    if (opens) blocks.push_back({std::string(word.value), token.end});
    if (token.kind == Token::Kind::close && !blocks.empty()) blocks.pop_back();
    if (token.kind == Token::Kind::word && before.value != ":") word = token;
    before = token;
  }
}

TextSpan word_before(std::string_view text, std::size_t offset) {
  Tokens tokens(text, 0);
  Token token, before;
  while (tokens.next(token) && token.begin < offset) before = token;
  return before.kind == Token::Kind::word ? TextSpan{before.begin, before.end} : TextSpan();
}

TextSpan string_before(std::string_view text, std::size_t offset) {
  Tokens tokens(text, 0);
  Token token;
  TextSpan found;
  while (tokens.next(token) && token.begin < offset)
    if (token.kind == Token::Kind::text) found = {token.begin, token.end};
  return found;
}

TextSpan stray_at(std::string_view text, std::size_t offset) {
  TextSpan stray{offset, offset};
  const std::string_view rest = text.substr(offset);
  const std::size_t line_end = std::min(text.find('\n', offset), text.size());
  if (rest.starts_with("//")) return {offset, line_end};
  if (const std::size_t end = text.find("*/", offset);
      rest.starts_with("/*") && end != std::string_view::npos)
    return {offset, end + 2};
  Tokens tokens(text, offset);
  Token token;
  while (tokens.next(token) && token.begin < line_end && !token.opens() && !token.closes())
    stray.end = token.end;
  if (stray.end > offset || token.begin != offset) return stray;
  if (token.value == "]" || (token.kind == Token::Kind::close && blocks_around(text, offset).empty()))
    stray.end = token.end;
  return stray;
}

std::vector<TextSpan> fields_in(std::string_view text, const TextBlock& block,
                                const std::vector<std::string>& fields) {
  std::vector<TextSpan> found;
  Tokens tokens(text, block.begin);
  Token token, word, before;
  for (int depth = 0; tokens.next(token);) {
    if (token.kind == Token::Kind::close && depth-- == 0) break;
    if (token.kind == Token::Kind::open) ++depth;
    const bool value = token.kind == Token::Kind::text || token.kind == Token::Kind::word;
    if (depth == 0 && value && before.value == ":" && contains(fields, word.value))
      found.push_back({word.begin, token.end});
    if (token.kind == Token::Kind::word) word = token;
    before = token;
  }
  return found;
}

bool has_field(std::string_view text, const TextBlock& block, const std::vector<std::string>& fields) {
  Tokens tokens(text, block.begin);
  Token token;
  std::string_view before;
  for (int depth = 0; tokens.next(token); before = token.value) {
    if (token.kind == Token::Kind::close && depth-- == 0) break;
    if (token.kind == Token::Kind::open) ++depth;
    if (depth == 0 && token.kind == Token::Kind::word && before != ":" && contains(fields, token.value))
      return true;
  }
  return false;
}

std::string value_in(std::string_view text, const TextBlock& block, std::string_view field) {
  Tokens tokens(text, block.begin);
  Token token;
  std::string_view word, before;
  for (int depth = 0; tokens.next(token);) {
    if (token.kind == Token::Kind::close && depth-- == 0) break;
    if (token.kind == Token::Kind::open) ++depth;
    const bool value = token.kind == Token::Kind::text || token.kind == Token::Kind::word;
    if (depth == 0 && value && word == field && before == ":") return std::string(token.value);
    if (token.kind == Token::Kind::word) word = token.value;
    before = token.value;
  }
  return "";
}

std::vector<std::size_t> field_separators(std::string_view text) {
  std::vector<std::size_t> places;
  std::vector<bool> lists;  // of what is open: is it a list of values?
  Tokens tokens(text, 0);
  Token token, before, ended;                 // ended: before places.back()
  bool after_value = false, pending = false;  // pending: places.back() is followed by this token
  const auto is_number = [](const Token& one) {
    return one.kind == Token::Kind::word && one.value.front() >= '0' && one.value.front() <= '9';
  };
  while (tokens.next(token)) {
    // A text after a text would be its continuation; a number after a number may be its decimals.
    const bool both_texts = token.kind == Token::Kind::text && ended.kind == Token::Kind::text;
    if (std::exchange(pending, false) && (both_texts || (is_number(token) && is_number(ended))))
      places.pop_back();
    const char sign = token.kind == Token::Kind::other ? token.value.front() : '\0';
    const bool opens = token.kind == Token::Kind::open || sign == '[';
    if (opens) lists.push_back(sign == '[');
    if ((token.kind == Token::Kind::close || sign == ']') && !lists.empty()) lists.pop_back();
    const bool separator = sign == ',' || sign == ';';
    if (separator && after_value && (lists.empty() || !lists.back())) {
      places.push_back(token.begin);
      ended = before;
      pending = true;
    }
    after_value = !opens && !separator && sign != ':';
    before = token;
  }
  return places;
}

TextValue value_at(std::string_view text, std::size_t offset) {
  std::size_t begin = std::min(offset, text.size());
  if (begin < text.size() && !ends_value(text[begin]))
    while (begin > 0 && !ends_value(text[begin - 1])) --begin;
  std::vector<std::string_view> open;  // of lists: their fields; of blocks: ""
  Tokens tokens(text, 0);
  Token token, before;
  std::string_view word;
  while (tokens.next(token) && token.begin < begin) {
    if (token.end > begin) return {};  // in a text
    if (token.kind == Token::Kind::word) word = token.value;
    if (token.opens()) open.push_back(token.kind == Token::Kind::open ? "" : word);
    if (token.closes() && !open.empty()) open.pop_back();
    before = token;
  }
  TextValue value;
  const bool sign = before.kind == Token::Kind::other;
  if (!open.empty() && !open.back().empty()) {
    if (sign && (before.value == "[" || before.value == ",")) value.field = open.back();
  } else if ((sign && before.value == ":") || before.kind == Token::Kind::word) {
    value.field = word;
    value.has_colon = sign;
  }
  value.span = {begin, end_of_value(text, begin)};
  return value.span.end == std::string_view::npos ? TextValue() : value;
}

void for_each_value(const std::string& text, std::string_view block, std::string_view field,
                    const std::function<void(std::string_view, std::size_t, std::size_t)>& use) {
  std::vector<std::string_view> open;
  Tokens tokens(text, 0);
  Token token;
  std::string_view word, before;
  while (tokens.next(token)) {
    if (token.kind == Token::Kind::open) open.push_back(word);
    if (token.kind == Token::Kind::close && !open.empty()) open.pop_back();
    // Not a text without its second quote, which ends after its line.
    const bool whole =
        token.end - token.begin == token.value.size() + 2 && text[token.begin] == text[token.end - 1];
    const bool value = token.kind == Token::Kind::word || (token.kind == Token::Kind::text && whole);
    const bool wanted = value && before == ":" && word == field && !open.empty() && open.back() == block;
    if (token.kind == Token::Kind::word) word = token.value;
    before = token.value;
    if (wanted) use(token.value, token.begin, token.end);
  }
}

}  // namespace banyan::io
