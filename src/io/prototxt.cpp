#include "banyan/io/prototxt.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"

namespace banyan::io {
namespace {

namespace pb = google::protobuf;

// The deepest legal message nests 8 levels (solver, net, layer, transform, ...).
constexpr int kDeepestNesting = 64;
constexpr std::size_t kLargestText = std::size_t{256} << 20;

struct Position {
  std::size_t line = 0;    // from 0
  std::size_t offset = 0;  // bytes from the beginning of the text
  std::size_t column = 0;  // bytes from the beginning of the line
};

/// Where the tokenizer's line and column are in the text. It counts a tab as a step to the next multiple
/// of 8.
Position locate(std::string_view text, int line, pb::io::ColumnNumber column) {
  Position at;
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

bool is_name_character(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// The parser reports an unknown name when it is past it: moves back to the beginning of that name.
Position move_to_name(std::string_view text, Position at, std::string_view name) {
  std::size_t found = at.offset + 1;
  while (found > 0) {
    found = text.rfind(name, found - 1);
    if (found == std::string_view::npos) return at;
    const std::size_t end = found + name.size();
    const bool whole = (found == 0 || !is_name_character(text[found - 1])) &&
                       (end == text.size() || !is_name_character(text[end]));
    if (whole) break;
  }
  Position moved;
  moved.offset = found;
  moved.line =
      static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<long>(found), '\n'));
  const std::size_t newline = found == 0 ? std::string_view::npos : text.rfind('\n', found - 1);
  moved.column = newline == std::string_view::npos ? found : found - newline - 1;
  return moved;
}

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

std::vector<std::string> field_names(const pb::Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

/// Messages inside `type` that know the field, as `a or b`; at most five of them.
std::string homes_of(const std::string& field, const pb::Descriptor& type) {
  std::vector<std::string> homes;
  for (int i = 0; i < type.field_count(); ++i) {
    const pb::Descriptor* inner = type.field(i)->message_type();
    if (inner != nullptr && inner->FindFieldByName(field) != nullptr) homes.push_back(type.field(i)->name());
  }
  if (homes.size() > 5) {
    homes.resize(5);
    homes.push_back("...");
  }
  return join(homes, " or ");
}

/// Names of the values of every enum field called `field`: the parser does not say which message it was in.
std::vector<std::string> values_of(const std::string& field, const pb::FileDescriptor& file) {
  std::set<std::string> values;
  for (int i = 0; i < file.message_type_count(); ++i) {
    const pb::FieldDescriptor* found = file.message_type(i)->FindFieldByName(field);
    if (found == nullptr || found->enum_type() == nullptr) continue;
    for (int k = 0; k < found->enum_type()->value_count(); ++k) {
      values.insert(found->enum_type()->value(k)->name());
    }
  }
  return {values.begin(), values.end()};
}

/// Keeps the first complaint, reworded for the user.
class FirstError : public pb::io::ErrorCollector {
 public:
  FirstError(std::string_view text, const pb::Descriptor& root) : text_(text), root_(root) {}

  void AddError(int line, pb::io::ColumnNumber column, const std::string& message) override {
    if (complaint_) return;
    at_ = locate(text_, line, column);
    complaint_ = in_words(message);
  }
  void AddWarning(int, pb::io::ColumnNumber, const std::string&) override {}

  /// `:line:column: complaint`, or nothing.
  std::optional<std::string> complaint() const {
    if (!complaint_) return std::nullopt;
    return cat(":", at_.line + 1, ":", at_.column + 1, ": ", *complaint_);
  }

 private:
  std::string in_words(const std::string& message) {
    if (message.find("has no field named") != std::string::npos) {
      return unknown_field(quoted_part(message, 0), quoted_part(message, 1));
    }
    if (message.rfind("Unknown enumeration value", 0) == 0) {
      return unknown_value(quoted_part(message, 0), quoted_part(message, 1));
    }
    if (message.find("recursion limit") != std::string::npos) {
      return cat("blocks are nested more than ", kDeepestNesting, " deep");
    }
    if (message.find("is specified multiple times") != std::string::npos) {
      const std::string name = quoted_part(message, 0);
      at_ = move_to_name(text_, at_, name);
      return cat("\"", name, "\" is given twice, but can be given only once here");
    }
    std::string words = message;
    while (!words.empty() && words.back() == '.') words.pop_back();
    const std::size_t got = words.find(", got: ");
    if (got != std::string::npos) {
      const std::string found = words.substr(got + 7);
      words = words.substr(0, got) + ", found " + (found.empty() ? "the end of the file" : quoted(found, 60));
    }
    words[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(words[0])));
    return words;
  }

  std::string unknown_field(const std::string& type_name, const std::string& field) {
    at_ = move_to_name(text_, at_, field);
    const pb::Descriptor* type = root_.file()->pool()->FindMessageTypeByName(type_name);
    if (type == nullptr) return cat("unknown field ", quoted(field, 60));
    std::string words = cat("unknown field ", quoted(field, 60), " in ", type->name());
    const std::string homes = homes_of(field, *type);
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

  std::string unknown_value(const std::string& value, const std::string& field) {
    at_ = move_to_name(text_, at_, value);
    const std::vector<std::string> known = values_of(field, *root_.file());
    std::string words = cat("unknown value ", quoted(value, 60), " for ", quoted(field, 60));
    words += did_you_mean(value, known);
    return known.empty() ? words : cat(words, "; known values: ", join(known, ", "));
  }

  std::string_view text_;
  const pb::Descriptor& root_;
  Position at_;
  std::optional<std::string> complaint_;
};

bool nothing_set(const pb::Message& message) {
  std::vector<const pb::FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  return fields.empty();
}

template <class Message>
Message parse_file(std::string_view text, const std::string& origin, const char* what) {
  Message message;
  parse_text(text, origin, message);
  if (nothing_set(message)) bad_input(origin, ": expected the description of a ", what, ", found nothing");
  return message;
}

}  // namespace

void parse_text(std::string_view text, const std::string& origin, pb::Message& message) {
  if (text.substr(0, 3) == "\xef\xbb\xbf") text.remove_prefix(3);  // byte order mark of some editors
  if (text.size() > kLargestText) bad_input(origin, ": more than ", kLargestText, " bytes of text");
  if (text.find('\0') != std::string_view::npos) {
    bad_input(origin, ": expected text (.prototxt), found a binary file");
  }
  FirstError errors(text, *message.GetDescriptor());
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(kDeepestNesting);
  const bool parsed = parser.ParseFromString(std::string(text), &message);
  if (const auto complaint = errors.complaint()) bad_input(origin, *complaint);
  if (!parsed) bad_input(origin, ": not a readable ", message.GetDescriptor()->name());
}

caffe::NetParameter parse_net_text(std::string_view text, const std::string& origin) {
  return parse_file<caffe::NetParameter>(text, origin, "net");
}

caffe::SolverParameter parse_solver_text(std::string_view text, const std::string& origin) {
  return parse_file<caffe::SolverParameter>(text, origin, "solver");
}

caffe::NetParameter read_net_text(const std::string& path) {
  return parse_net_text(read_file(path, kLargestText), path);
}

caffe::SolverParameter read_solver_text(const std::string& path) {
  return parse_solver_text(read_file(path, kLargestText), path);
}

std::string to_text(const pb::Message& message) {
  std::string text;
  if (!pb::TextFormat::PrintToString(message, &text)) {
    runtime_failure("cannot write a ", message.GetDescriptor()->name(), " as text");
  }
  return text;
}

}  // namespace banyan::io
