#include "complaints.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <set>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/upgrade.hpp"
#include "other_settings.hpp"
#include "other_types.hpp"
#include "proto/banyan.pb.h"

namespace banyan::io {
namespace {

namespace pb = google::protobuf;

/// Bytes in all, where a text is looked through for each complaint.
constexpr std::size_t kMostSearched = std::size_t{100} << 20;

/// What an unknown V1 type is read as: NONE, by its number.
constexpr const char* kUnknownV1Type = "0";

/// The text between the n-th pair of double quotes.
std::string quoted_part(const std::string& message, int n) {
  std::size_t begin = 0;
  for (int quote = 0; quote < 2 * n; ++quote) {
    begin = message.find('"', begin);
    if (begin == std::string::npos) return "";
    ++begin;
  }
  begin = message.find('"', begin);
  if (begin == std::string::npos) return "";
  const std::size_t end = message.find('"', begin + 1);
  return end == std::string::npos ? "" : message.substr(begin + 1, end - begin - 1);
}

/// Of templates, whose placeholders are no values: `${WIDTH}`, `%d`, `@WIDTH@`, and RANDOM_SEED for a number.
std::string about_placeholder(const std::string& complaint, const std::string& found) {
  if (found == "$" || found == "%" || found == "@")
    return ": the file is a template, whose placeholders must be filled in first";
  const bool number =
      complaint.find("integer") != std::string::npos || complaint.find("double") != std::string::npos;
  const bool capitals = found.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == std::string::npos;
  if (!number || !capitals || found.find('_') == std::string::npos) return "";
  return ": if the file is a template, its placeholders must be filled in first";
}

std::vector<std::string> field_names(const pb::Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

/// Messages inside `type` that know the field, as `a or b`; at most five of them, each by its first name
/// only. Of a layer those that can be settings of `layer_type`, and not its weights.
std::string homes_of(const std::string& field, const pb::Descriptor& type, const std::string& layer_type) {
  std::vector<std::string> homes;
  std::set<const pb::Descriptor*> seen;
  for (int i = 0; i < type.field_count(); ++i) {
    const std::string& home = type.field(i)->name();
    const pb::Descriptor* inner = type.field(i)->message_type();
    if (inner == nullptr || inner->FindFieldByName(field) == nullptr) continue;
    if (is_layer(type) && (home == "blobs" || !may_be_setting_of(layer_type, home))) continue;
    if (seen.insert(inner).second) homes.push_back(home);
  }
  if (homes.size() > 5) {
    homes.resize(5);
    homes.push_back("...");
  }
  return join(homes, " or ");
}

/// The values of an enum field of that message; without the message, of every enum field called so.
std::vector<std::string> values_of(const std::string& field, const pb::Descriptor* type,
                                   const pb::FileDescriptor& file) {
  std::vector<std::string> values;
  const auto add = [&](const pb::Descriptor& message) {
    const pb::FieldDescriptor* found = message.FindFieldByName(field);
    if (found == nullptr || found->enum_type() == nullptr) return;
    for (int k = 0; k < found->enum_type()->value_count(); ++k)
      if (!contains(values, found->enum_type()->value(k)->name()))
        values.push_back(found->enum_type()->value(k)->name());
  };
  if (type != nullptr) {
    add(*type);
  } else {
    for (int i = 0; i < file.message_type_count(); ++i) add(*file.message_type(i));
  }
  std::sort(values.begin(), values.end());
  return values;
}

/// May the parser say it of a value? Elsewhere it says the same of names of fields and of braces.
bool is_about_value(const std::string& message) {
  for (const std::string_view start :
       {"Expected integer", "Expected double", "Expected string", "Expected identifier", "Expected \"",
        "Integer out of range", "Invalid value for boolean", "Need space between number and identifier",
        "Already saw decimal point"})
    if (message.starts_with(start)) return true;
  return false;
}

template <class Number>
bool is_number(const std::string& word) {
  Number number{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size();
}

/// Can it be a text but for its quotes?
bool is_plain(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isgraph(static_cast<unsigned char>(c)) != 0 &&
           std::string_view("\"'\\${}[]<>").find(c) == std::string_view::npos;
  });
}

/// Of what was written only the kind may be wrong: a word for a text, a number within quotes. Numbers that
/// are guessed are right for most fields, so that no complaint follows from them.
StandIn stand_in_for(const pb::FieldDescriptor& field, const std::string& written) {
  const bool text =
      written.size() > 1 && (written[0] == '"' || written[0] == '\'') && written.back() == written[0];
  const std::string inner = text ? written.substr(1, written.size() - 2) : written;
  const auto either = [&](bool known, const char* guess) {
    return StandIn{{}, known ? inner : guess, !known};
  };
  switch (field.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_MESSAGE:
      return {{}, "{}", true};
    case pb::FieldDescriptor::CPPTYPE_STRING:
      if (text) return {{}, written, false};
      return is_plain(inner) ? StandIn{{}, '"' + inner + '"', false} : StandIn{{}, "\"\"", true};
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      return either(contains(std::vector<std::string>{"true", "false", "1", "0"}, inner), "false");
    case pb::FieldDescriptor::CPPTYPE_ENUM: {
      const pb::EnumDescriptor& values = *field.enum_type();
      if (is_layer(*field.containing_type()) && field.name() == "type") return {{}, kUnknownV1Type, true};
      std::vector<std::string> names;
      for (int i = 0; i < values.value_count(); ++i) names.push_back(values.value(i)->name());
      const pb::EnumValueDescriptor* meant = values.FindValueByName(nearest_name(inner, names));
      return {{}, std::to_string((meant == nullptr ? values.value(0) : meant)->number()), meant == nullptr};
    }
    case pb::FieldDescriptor::CPPTYPE_FLOAT:
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
      return either(is_number<double>(inner), "0.5");
    case pb::FieldDescriptor::CPPTYPE_UINT32:
    case pb::FieldDescriptor::CPPTYPE_UINT64:
      return either(is_number<std::uint32_t>(inner), "1");
    default:
      return either(is_number<std::int32_t>(inner), "1");
  }
}

/// A layer is of no type rather than of another one than was meant. `other`: what is known of the type.
std::string unknown_v1_type(const std::string& value, std::vector<std::string> known,
                            const std::string& other) {
  std::erase(known, "NONE");
  if (!other.empty()) return cat("the layer ", other);
  return cat("unknown value ", quoted(value, 60), " for \"type\"", did_you_mean(value, known),
             "; trainer layers lists all types, by their current names");
}

std::string about_given_again(const std::string& field) {
  return cat("\"", field, "\" is given twice, but can be given only once here");
}

std::string within_quotes(std::string_view inner) {
  std::string text = "\"";
  for (const char c : inner) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

/// The message that the blocks are of; nullptr if one of them is unknown.
const pb::Descriptor* message_of(const pb::Descriptor& root, const std::vector<TextBlock>& blocks) {
  const pb::Descriptor* type = &root;
  for (const TextBlock& block : blocks) {
    const pb::FieldDescriptor* field = type->FindFieldByName(block.name);
    type = field == nullptr ? nullptr : field->message_type();
    if (type == nullptr) return nullptr;
  }
  return type;
}

bool is_about_unknown_field(const std::string& message) {
  return message.find("has no field named") != std::string::npos;
}

/// Is it about a field that only a net has?
bool is_about_layer(const std::string& message) {
  if (!is_about_unknown_field(message)) return false;
  const std::string field = quoted_part(message, 1);
  return field == "layer" || field == "layers";
}

}  // namespace

bool is_layer(const pb::Descriptor& type) {
  return &type == caffe::LayerParameter::descriptor() || &type == caffe::V1LayerParameter::descriptor();
}

void Complaints::AddError(int line, pb::io::ColumnNumber column, const std::string& message) {
  if (error_) return;
  error_ = reworded(line, column, message);
  layer_of_error_ = {value_in(text_, layer_around(), "name"), type_around()};
}

void Complaints::AddWarning(int line, pb::io::ColumnNumber column, const std::string& message) {
  // The one warning that such settings have no effect (net/fork_settings.hpp) holds for unknown ones, too.
  if (quoted_part(message, 0) == caffe::QuantizationParameter::descriptor()->full_name() &&
      !is_about_layer(message))
    return;
  raw_warnings_.push_back({line, column, message});
}

std::vector<Complaint> Complaints::warnings(std::size_t most) {
  std::vector<Complaint> warnings;
  std::set<std::string> told;                // types that are not here of which all has been said
  std::map<std::size_t, std::size_t> lines;  // by layers of such types: the warning about them
  std::set<std::size_t> lists;               // those of them that end with a list of fields
  std::set<std::size_t> wrong_braces;        // layers of which it is said
  struct Repeated {
    std::size_t warning;
    int times;
  };
  std::map<std::pair<std::size_t, std::string>, Repeated> repeated;  // by layer and the parser's message
  std::size_t placed = 0;
  for (const Raw& raw : raw_warnings_) {
    if (warnings.size() == most) break;
    if (placed == most_placed()) {
      const std::size_t rest = raw_warnings_.size() - placed;
      warnings.push_back({text_.size(), cat(origin_, ": ", rest, " further unknown fields")});
      break;
    }
    ++placed;
    Complaint next = reworded(raw.line, raw.column, raw.message);
    if (braces_of_ && !wrong_braces.insert(*braces_of_).second) continue;
    if (missing_type_ == kUnknownV1Type) continue;  // the type is an error already
    const TextBlock layer = layer_around();
    if (!missing_type_.empty()) {
      const std::string field = quoted(quoted_part(raw.message, 1), 60);
      const auto [line, is_new] = lines.emplace(layer.begin, warnings.size());
      if (!is_new) {
        const bool listed = !lists.insert(line->second).second;
        warnings[line->second].text += cat(listed ? ", " : "; further unknown fields: ", field);
        continue;
      }
      told_layers_.emplace(value_in(text_, layer, "name"), missing_type_);
      if (!told.insert(missing_type_).second) {
        next.text = with_place("unknown fields of a type that is not here: " + field);
        lists.insert(line->second);
      }
    } else if (!braces_of_) {
      const auto [of_field, is_new] =
          repeated.emplace(std::pair{layer.begin, raw.message}, Repeated{warnings.size(), 1});
      if (!is_new) {
        ++of_field->second.times;
        continue;
      }
      keep_unknown(layer);
    }
    warnings.push_back(std::move(next));
  }
  for (const auto& [field, found] : repeated)
    if (found.times > 1) warnings[found.warning].text += cat(" (given ", found.times, " times)");
  return warnings;
}

/// That the layer has an unknown field here, of whose type something is known.
void Complaints::keep_unknown(const TextBlock& layer) {
  if (layer.begin == text_.size()) return;
  const std::pair<std::string, std::string> which{value_in(text_, layer, "name"), type_around()};
  unknown_in_layers_.insert(which);
  const std::vector<TextBlock> blocks = blocks_around(text_, at_.offset);
  if (std::any_of(blocks.begin(), blocks.end(), [&](const TextBlock& block) {
        return block.begin > layer.begin && block.name.find("transform") != std::string::npos;
      }))
    unknown_transforms_.insert(which);
}

std::optional<Complaints::Misplaced> Complaints::first_misplaced(const TextSpan& within) {
  std::size_t looked_at = 0;
  for (const Raw& raw : raw_warnings_) {
    if (looked_at == most_placed()) break;
    if (!is_about_unknown_field(raw.message)) continue;
    const std::string field = quoted_part(raw.message, 1);
    at_ = move_to_name(text_, locate(text_, raw.line, raw.column), field);
    if (at_.offset > within.end) break;
    if (at_.offset < within.begin) continue;
    ++looked_at;
    const std::vector<TextBlock> blocks = blocks_around(text_, at_.offset);
    for (std::size_t depth = blocks.size(); depth-- > 0;) {
      const pb::Descriptor* around =
          message_of(root_, {blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(depth)});
      if (around == nullptr || around->FindFieldByName(field) == nullptr) continue;
      const std::size_t missing = blocks.size() - depth;
      const pb::Descriptor* type = message_of(root_, blocks);
      const std::string words = cat("unknown field ", quoted(field, 60), " in ",
                                    type == nullptr ? blocks.back().name : type->name(), ": the ",
                                    blocks.back().name, " before it may not be closed (",
                                    missing == 1 ? "a } is" : cat(missing, " } are"), " missing)");
      return Misplaced{{at_.offset, with_place(words)}, closing_of(text_, blocks, depth)};
    }
  }
  return {};
}

/// Of how many complaints the places are told: to find one reads the text several times.
std::size_t Complaints::most_placed() const {
  return std::max<std::size_t>(20, kMostSearched / std::max<std::size_t>(1, text_.size()));
}

std::vector<Complaint> Complaints::given_again() {
  std::vector<Complaint> complaints;
  std::set<std::pair<std::size_t, std::string>> given;  // by where the block begins
  std::size_t rest = 0;
  for_each_field(text_, [&](const std::vector<TextBlock>& path, std::string_view name, std::size_t offset) {
    const pb::Descriptor* type = message_of(root_, path);
    const pb::FieldDescriptor* field = type == nullptr ? nullptr : type->FindFieldByName(std::string(name));
    if (field == nullptr || field->is_repeated()) return;
    if (given.emplace(path.empty() ? 0 : path.back().begin, name).second) return;
    if (complaints.size() == most_placed()) {
      ++rest;
      return;
    }
    at_ = position_of(text_, offset);
    complaints.push_back({offset, with_place(about_given_again(std::string(name)))});
  });
  if (rest > 0) complaints.push_back({text_.size(), cat(origin_, ": ", rest, " further fields given twice")});
  return complaints;
}

Complaint Complaints::reworded(int line, int column, const std::string& message) {
  at_ = locate(text_, line, column);
  const std::string words = in_words(message);
  return {at_.offset, with_place(words)};
}

/// Within a layer, its name and type come first, but for a type that stands in for an unknown one.
std::string Complaints::with_place(const std::string& words) const {
  std::string layer;
  for (const TextBlock& block : blocks_around(text_, at_.offset)) {
    if (block.name != "layer" && block.name != "layers") continue;
    const std::string name = value_in(text_, block, "name"), type = value_in(text_, block, "type");
    if (name.empty() && type.empty()) continue;
    layer = name.empty() ? "layer" : cat("layer ", quoted(name, 60));
    if (!type.empty() && type != kUnknownV1Type) layer += cat(" (", type.substr(0, 60), ")");
    layer += ": ";
  }
  std::size_t column = at_.column;
  const std::size_t line_begin = at_.offset - std::min(at_.offset, at_.column);
  for (const TextSpan& span : added_)
    if (span.begin >= line_begin && span.begin < at_.offset)
      column -= std::min({column, span.end - span.begin, at_.offset - span.begin});
  return cat(origin_, ":", at_.line + 1, ":", column + 1, ": ", layer, words);
}

std::string Complaints::in_words(const std::string& message) {
  braces_of_.reset();
  missing_type_.clear();
  if (is_about_unknown_field(message)) {
    return unknown_field(quoted_part(message, 0), quoted_part(message, 1));
  }
  if (message.rfind("Unknown enumeration value", 0) == 0)
    return unknown_value(quoted_part(message, 0), quoted_part(message, 1));
  stand_in_ = {};
  if (message.find("recursion limit") != std::string::npos) {
    return cat("blocks are nested more than ", kDeepestNesting, " deep");
  }
  if (message.find("is specified multiple times") != std::string::npos) {
    const std::string name = quoted_part(message, 0);
    at_ = move_to_name(text_, at_, name);
    return about_given_again(name);
  }
  if (const std::string type = type_of_new_format(message); !type.empty()) {
    wrong_value(message);  // what follows is read
    return cat("`layers` is the old format, which has no ", quoted(type, 60), ": write `layer`");
  }
  if (message.starts_with("String literals cannot cross") ||
      message.starts_with("Unexpected end of string")) {
    const std::size_t end = at_.offset;
    at_ = position_of(text_, string_before(text_, end).begin);
    stand_in_ = {{end, end}, std::string(text_.substr(at_.offset, 1)), true};
    return "the string does not end in its line: a quotation mark is missing";
  }
  if (const TextSpan decimals = decimals_after_comma(); decimals.begin < decimals.end) {
    at_ = position_of(text_, decimals.begin);
    stand_in_ = {decimals, cat(".", text_.substr(at_.offset + 1, decimals.end - at_.offset - 1)), false};
    return "found a comma in a number: its decimals stand after a point";
  }
  const bool is_ascii = !message.starts_with("Interpreting non ascii codepoint");
  std::string words = !is_ascii ? not_ascii() : is_about_value(message) ? wrong_value(message) : message;
  if (stand_in_.text.empty()) words = stray(message, words);
  const std::size_t got = words.find(", got: ");
  while (got == std::string::npos && !words.empty() && words.back() == '.') words.pop_back();
  if (got != std::string::npos) {
    const std::string found = words.substr(got + 7);
    words = words.substr(0, got) + ", found " + (found.empty() ? the_end() : quoted(found, 60)) +
            about_placeholder(words, found);
  }
  words[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(words[0])));
  return words;
}

/// What was found where more was expected.
std::string Complaints::the_end() const {
  const std::vector<TextBlock> open = blocks_around(text_, text_.size());
  if (open.empty()) return "the end of the file";
  const TextBlock& last = open.back();
  return cat("the end of the file within ", quoted(last.name, 60), " of line ",
             position_of(text_, last.begin).line + 1,
             open.size() == 1 ? " (a } is" : cat(" (", open.size(), " } are"), " missing)");
}

/// Finds what is passed over where no value is read in another one's place; a comment of C++ is none that
/// says anything. Returns what is wrong.
std::string Complaints::stray(const std::string& message, const std::string& words) {
  TextSpan place = stray_word(message);
  const bool is_word = place.begin < place.end;
  if (!is_word) place = stray_at(text_, at_.offset);
  if (place.begin == place.end) return words;
  const std::string_view found = text_.substr(place.begin, place.end - place.begin);
  stand_in_ = {place, " ", false, !found.starts_with("//") && !found.starts_with("/*")};
  if (!is_word) return words;
  at_ = position_of(text_, place.begin);
  return cat("found ", quoted(std::string(found), 60), ", which is neither a field nor a value");
}

/// `,5` of `0,5` where a field takes one number, which may be no whole one. The parser may have read on to
/// what follows.
TextSpan Complaints::decimals_after_comma() const {
  const auto is_digit = [&](std::size_t at) {
    return at < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at])) != 0;
  };
  const std::size_t first = is_digit(at_.offset) ? at_.offset : word_before(text_, at_.offset).begin;
  if (first < 2 || !is_digit(first) || text_[first - 1] != ',') return {};
  const TextValue whole = value_at(text_, first - 2);
  const pb::FieldDescriptor* field = field_of(whole);
  const bool one_number =
      field != nullptr && !field->is_repeated() &&
      (field->cpp_type() == pb::FieldDescriptor::CPPTYPE_FLOAT ||
       field->cpp_type() == pb::FieldDescriptor::CPPTYPE_DOUBLE) &&
      is_number<std::int32_t>(std::string(text_.substr(whole.span.begin, first - 1 - whole.span.begin)));
  if (!one_number) return {};
  std::size_t end = first;
  while (is_digit(end)) ++end;
  return {first - 1, end};
}

/// nullptr if the value has none, or one that is not known.
const pb::FieldDescriptor* Complaints::field_of(const TextValue& value) const {
  const pb::Descriptor* type =
      value.field.empty() ? nullptr : message_of(root_, blocks_around(text_, value.span.begin));
  return type == nullptr ? nullptr : type->FindFieldByName(value.field);
}

/// Before the place where the parser expects what follows a name: a word that names no field there.
TextSpan Complaints::stray_word(const std::string& message) const {
  if (!message.starts_with("Expected \"{\"") && !message.starts_with("Expected \":\"")) return {};
  const TextSpan word = word_before(text_, at_.offset);
  const pb::Descriptor* type = message_of(root_, blocks_around(text_, word.begin));
  const std::string name(text_.substr(word.begin, word.end - word.begin));
  return type == nullptr || type->FindFieldByName(name) != nullptr ? TextSpan() : word;
}

/// Quotation marks of texts, and whatever else is in no text.
std::string Complaints::not_ascii() {
  const std::string_view line = text_.substr(at_.offset, text_.find('\n', at_.offset) - at_.offset);
  constexpr std::pair<std::string_view, std::string_view> kMarks[] = {
      {"\u201c", "\u201d"}, {"\u201d", "\u201c"}, {"\u2018", "\u2019"}, {"\u2019", "\u2018"}};
  for (const auto& [mark, other] : kMarks) {
    if (!line.starts_with(mark)) continue;
    const std::size_t end = std::min(line.find(mark, mark.size()), line.find(other, mark.size()));
    if (end != std::string_view::npos)
      stand_in_ = {{at_.offset, at_.offset + end + other.size()},
                   within_quotes(line.substr(mark.size(), end - mark.size())),
                   false};
    return cat("found the quotation mark ", mark, "; strings stand between \" or '");
  }
  return "found a character that is not ASCII outside of a string";
}

/// A type in quotes, such as "Data", where `layers` has words in capitals; "" if the message is about
/// something else.
std::string Complaints::type_of_new_format(const std::string& message) const {
  constexpr std::string_view kStart = "Expected integer or identifier, got: ";
  const std::vector<TextBlock> blocks = blocks_around(text_, at_.offset);
  if (message.rfind(kStart, 0) != 0 || blocks.empty() || blocks.back().name != "layers") return "";
  const std::string type = value_in(text_, blocks.back(), "type");
  const bool is_it = message.compare(kStart.size(), std::string::npos, cat('"', type, '"')) == 0 ||
                     message.compare(kStart.size(), std::string::npos, cat("'", type, "'")) == 0;
  return is_it ? type : "";
}

/// Where a field's value belongs, finds the one that is read in its place. Returns what is wrong.
std::string Complaints::wrong_value(const std::string& message) {
  const bool invalid = message.starts_with("Invalid value");
  if (invalid) at_ = move_to_name(text_, at_, quoted_part(message, 1));
  const TextValue value = value_at(text_, at_.offset);
  const pb::FieldDescriptor* field = field_of(value);
  if (field == nullptr) return message;
  const std::string written(text_.substr(value.span.begin, value.span.end - value.span.begin));
  stand_in_ = stand_in_for(*field, written);
  stand_in_.place = value.span;
  if (!value.has_colon && stand_in_.text == written) {
    stand_in_.place.end = value.span.begin;
    stand_in_.text.clear();
  }
  if (written == "=")
    stand_in_ = {value.span, ":", false};  // in the place of a colon
  else if (!value.has_colon)
    stand_in_.text.insert(0, ": ");
  if (written.empty()) stand_in_.text += ' ';
  if (message.starts_with("Expected \"{\"") && written.empty() && closes_more_than_opens(text_))
    stand_in_ = {value.span, "{ ", false};
  if (text_.substr(value.span.begin).starts_with(':'))  // one too many
    stand_in_ = {{value.span.begin, value.span.begin + 1}, " ", false};
  constexpr std::string_view kWord = "Expected identifier", kTruth = "Expected true or false";
  if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_BOOL || !value.has_colon) return message;
  if (message.starts_with(kWord)) return cat(kTruth, message.substr(kWord.size()));
  return cat(kTruth, ", got: ", written);
}

std::string Complaints::unknown_field(const std::string& type_name, const std::string& field) {
  at_ = move_to_name(text_, at_, field);
  const pb::Descriptor* type = root_.file()->pool()->FindMessageTypeByName(type_name);
  if (type == nullptr) return cat("unknown field ", quoted(field, 60));
  std::string words = cat("unknown field ", quoted(field, 60), " in ", type->name());
  if ((field == "layer" || field == "layers") && layer_around().begin < text_.size()) {
    braces_of_ = layer_around().begin;
    return words + ": the layer before it may not be closed (a } is missing)";
  }
  if (type == &root_ && type->name() == "NetParameter" &&
      caffe::LayerParameter::descriptor()->FindFieldByName(field) != nullptr) {
    const std::vector<TextBlock> layers = blocks_named(text_.substr(0, at_.offset), {"layer", "layers"});
    if (!layers.empty()) {
      braces_of_ = layers.back().begin;
      return words + ": the layer before it may be closed too early (a } too many)";
    }
  }
  if (const std::string reason = about_other_field(type->name(), field); !reason.empty())
    return cat(words, ": ", reason);
  if (const std::string missing = missing_type(field); !missing.empty())
    return cat(words, ": the layer ", missing);
  const std::string homes = homes_of(field, *type, is_layer(*type) ? type_around() : "");
  if (type == &root_ && type->name() == "SolverParameter" && !homes.empty()) {
    return words + ": it is a field of a net; is this a net's file instead of a solver's?";
  }
  if (type == &root_ && type->name() == "NetParameter" &&
      caffe::SolverParameter::descriptor()->FindFieldByName(field) != nullptr) {
    return words + ": it is a field of a solver; is this a solver's file instead of a net's?";
  }
  if (!homes.empty()) return cat(words, ": it belongs inside ", homes);
  return words + did_you_mean(field, field_names(*type));
}

/// Why the layer's type is not here, if the field is one of its settings: in a message of the layer
/// (`x_param`) or such a message itself. "" otherwise.
std::string Complaints::missing_type(const std::string& field) {
  const std::vector<TextBlock> blocks = blocks_around(text_, at_.offset);
  const TextBlock layer = layer_around();
  const auto found = std::find_if(blocks.begin(), blocks.end(),
                                  [&](const TextBlock& block) { return block.begin == layer.begin; });
  if (found == blocks.end()) return "";
  const std::string& setting = found + 1 == blocks.end() ? field : (found + 1)->name;
  if (!setting.ends_with("_param")) return "";
  const std::string type = value_in(text_, layer, "type");
  if (type.empty() || is_read_as_another(current_type_name(type))) return "";
  if (type == kUnknownV1Type) {
    missing_type_ = type;
    return "has an unknown type";
  }
  std::string missing = layer.name == "layers" ? about_v1_type(type) : "";
  if (missing.empty()) missing = about_missing_type(current_type_name(type));
  if (!missing.empty()) missing_type_ = current_type_name(type);
  return missing;
}

/// What is known of a V1 type that is not here. The type of that name may be another project's.
std::string Complaints::about_v1_type(const std::string& type) const {
  const std::string namesake = namesake_of_v1_type(type);
  const std::string foreign = namesake.empty() ? "" : foreign_field(namesake);
  if (foreign.empty()) return about_other_v1_type(type);
  return cat("has the type ", quoted(type, 60), " of a branch, which Banyan does not have: its settings are ",
             "not those of ", quoted(namesake), " here, which has no ", quoted(foreign, 60));
}

/// The first setting of the layer around that is none of a layer of `type`; "" if there is none.
std::string Complaints::foreign_field(const std::string& type) const {
  const TextBlock layer = layer_around();
  std::string foreign;
  for_each_field(text_, [&](const std::vector<TextBlock>& path, std::string_view name, std::size_t) {
    if (!foreign.empty() || path.size() < 2 || path[path.size() - 2].begin != layer.begin) return;
    const pb::FieldDescriptor* settings =
        caffe::LayerParameter::descriptor()->FindFieldByName(path.back().name);
    if (settings == nullptr || settings->message_type() == nullptr ||
        !may_be_setting_of(type, settings->name()) || settings->name() == "transform_param")
      return;
    if (settings->message_type()->FindFieldByName(std::string(name)) == nullptr) foreign = name;
  });
  return foreign;
}

/// Outside of layers an empty block at the end of the text.
TextBlock Complaints::layer_around() const {
  const std::vector<TextBlock> blocks = blocks_around(text_, at_.offset);
  const auto layer = std::find_if(blocks.rbegin(), blocks.rend(), [](const TextBlock& block) {
    return block.name == "layer" || block.name == "layers";
  });
  return layer == blocks.rend() ? TextBlock{"", text_.size()} : *layer;
}

/// In its current form.
std::string Complaints::type_around() const {
  return current_type_name(value_in(text_, layer_around(), "type"));
}

std::string Complaints::unknown_value(const std::string& value, const std::string& field) {
  at_ = move_to_name(text_, at_, value);
  const pb::Descriptor* type = message_of(root_, blocks_around(text_, at_.offset));
  const std::vector<std::string> known = values_of(field, type, *root_.file());
  const pb::FieldDescriptor* found = type == nullptr ? nullptr : type->FindFieldByName(field);
  const bool is_v1_type = found != nullptr && is_layer(*type) && field == "type";
  stand_in_ = {};
  if (found != nullptr && found->enum_type() != nullptr && text_.substr(at_.offset).starts_with(value)) {
    const pb::EnumValueDescriptor* meant = found->enum_type()->FindValueByName(nearest_name(value, known));
    if (meant == nullptr) meant = found->enum_type()->value(0);
    stand_in_ = {{at_.offset, at_.offset + value.size()},
                 is_v1_type ? kUnknownV1Type : std::to_string(meant->number()),
                 false};
  }
  if (is_v1_type) return unknown_v1_type(value, known, about_v1_type(value));
  const std::string words = cat("unknown value ", quoted(value, 60), " for ", quoted(field, 60)),
                    near = did_you_mean(value, known);
  return known.empty() ? words : cat(words, near, "; known values: ", join(known, ", "));
}

}  // namespace banyan::io
