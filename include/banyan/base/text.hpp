// Names in messages: what the user may have meant, and how a name is shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace banyan {

/// Smallest number of insertions, deletions, replacements and swaps of neighbours that turns `a` into `b`.
/// Letters that differ only in case count as equal, and so do `-` and `_`.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// All candidates, nearest to `name` first; equally near ones in alphabetical order.
std::vector<std::string> nearest_first(std::string_view name, std::vector<std::string> candidates);

/// The nearest candidate if the name can be a typo of it, otherwise "". Case, `_` and `-` do not count, and
/// of the rest each word (`InnerProduct` and `inner_product` have two) has few mistakes, none of them in a
/// digit or in the first letter of the name: a name that differs in a whole word means something else.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

/// ` (did you mean "X"?)` for the nearest name, or "" if none is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

/// `text` in double quotes with control characters escaped, cut after `max_length` bytes: safe to put in a
/// message. An object: for a function, std::quoted would be the better match of strings where <iomanip> is
/// known.
struct Quoted {
  std::string operator()(std::string_view text, std::size_t max_length = 200) const;
};
inline constexpr Quoted quoted;

/// The items, separated by `separator`.
std::string join(const std::vector<std::string>& items, std::string_view separator);
/// The same with `last` before the last item: "a, b and c".
std::string join(const std::vector<std::string>& items, std::string_view separator, std::string_view last);

/// `text` as a JSON string, quotes included.
std::string json_string(std::string_view text);

/// `items`, each of which is JSON already, as a JSON array.
std::string json_array(const std::vector<std::string>& items);
/// Texts as a JSON array of strings.
std::string json_strings(const std::vector<std::string>& texts);

}  // namespace banyan
