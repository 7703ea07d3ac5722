// Where things are in the text of a .prototxt: for messages about it, whether it can be parsed or not.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace banyan::io {

constexpr int kDeepestNesting = 64;  ///< of blocks; a legal message nests 8 levels (solver, net, layer, ...)

struct TextPosition {
  std::size_t line = 0;    // from 0
  std::size_t offset = 0;  // bytes from the beginning of the text
  std::size_t column = 0;  // bytes from the beginning of the line
};

TextPosition position_of(std::string_view text, std::size_t offset);

/// Of braces.
bool closes_more_than_opens(std::string_view text);

/// Where the tokenizer's line and column are in the text. It counts a tab as a step to the next multiple
/// of 8.
TextPosition locate(std::string_view text, int line, int column);

/// The parser reports an unknown name when it is past it: moves back to the beginning of that name.
TextPosition move_to_name(std::string_view text, TextPosition at, std::string_view name);

struct TextBlock {
  std::string name;       ///< before its brace: `layer`
  std::size_t begin = 0;  ///< after its brace
};

/// The blocks that are open at `offset`, outermost first.
std::vector<TextBlock> blocks_around(std::string_view text, std::size_t offset);

struct TextSpan {
  std::size_t begin = 0, end = 0;
};

struct MissingBraces {
  TextSpan within;  // the blocks that are open there, and should not be: from the outermost one's name on
  bool in_list = false;  // one of them is a list
};

/// Up to the first layer that begins within another one, or in any block that has no layers, or to the end;
/// nothing where each brace has its counterpart from there on.
std::optional<MissingBraces> missing_braces(std::string_view text);

/// What closes these blocks from the `first` one on, innermost first.
std::string closing_of(std::string_view text, const std::vector<TextBlock>& blocks, std::size_t first);

/// What the block says of itself in `field`, such as a layer's `name`; "" if nothing.
std::string value_in(std::string_view text, const TextBlock& block, std::string_view field);

/// Where the block's closing brace ends, or the text.
std::size_t end_of(std::string_view text, const TextBlock& block);

/// use(path, name, offset) for each name of a field, with the names of the blocks around it.
void for_each_field(
    std::string_view text,
    const std::function<void(const std::vector<TextBlock>&, std::string_view, std::size_t)>& use);

/// The word before `offset`, after which only blanks and comments come; empty if there is none.
TextSpan word_before(std::string_view text, std::size_t offset);

/// The last string that begins before `offset`; it ends with its line at the latest.
TextSpan string_before(std::string_view text, std::size_t offset);

/// What is there and on the rest of its line, up to a brace or bracket; a `]`, and a closing brace of no
/// block, alone; a comment of C++ whole. Empty at the end of the text and at other braces.
TextSpan stray_at(std::string_view text, std::size_t offset);

/// `field: value` for each of these fields that the block itself gives one value.
std::vector<TextSpan> fields_in(std::string_view text, const TextBlock& block,
                                const std::vector<std::string>& fields);

/// Does the block itself have one of these fields?
bool has_field(std::string_view text, const TextBlock& block, const std::vector<std::string>& fields);

/// Every block of the text with one of these names, at any depth.
std::vector<TextBlock> blocks_named(std::string_view text, const std::vector<std::string>& names);

/// Where fields end with a comma or a semicolon, as they may; not those between the values of a list, nor
/// between two texts, which would be one text without it, nor between two numbers.
std::vector<std::size_t> field_separators(std::string_view text);

/// A value as it is written, right or wrong.
struct TextValue {
  std::string field;      ///< whose value it is, or an element of it; "" where no value belongs
  bool has_colon = true;  ///< false: the value follows the field's name
  TextSpan span;          ///< empty where the value is missing
};

/// The value that begins at `offset` or, without quotes and braces, has it inside.
TextValue value_at(std::string_view text, std::size_t offset);

/// use(value, begin, end) for every value that a block of this name gives for `field`: a word or a text,
/// which with its quotes is at [begin, end). It may replace these characters by as many.
void for_each_value(const std::string& text, std::string_view block, std::string_view field,
                    const std::function<void(std::string_view, std::size_t, std::size_t)>& use);

}  // namespace banyan::io
