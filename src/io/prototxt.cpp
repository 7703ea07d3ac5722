#include "banyan/io/prototxt.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"
#include "text_blocks.hpp"

namespace banyan::io {
namespace {

namespace pb = google::protobuf;

// The deepest legal message nests 8 levels (solver, net, layer, transform, ...).
constexpr int kDeepestNesting = 64;
constexpr std::size_t kLargestText = std::size_t{256} << 20;

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

/// Collects complaints, reworded for the user.
class Complaints : public pb::io::ErrorCollector {
 public:
  Complaints(std::string_view text, const pb::Descriptor& root, const std::string& origin)
      : text_(text), root_(root), origin_(origin) {}

  void AddError(int line, pb::io::ColumnNumber column, const std::string& message) override {
    at_ = locate(text_, line, column);
    const std::string words = in_words(message);
    errors_.push_back(with_place(words));
  }
  /// Of unknown fields, where they are allowed.
  void AddWarning(int line, pb::io::ColumnNumber column, const std::string& message) override {
    at_ = locate(text_, line, column);
    const std::string words = in_words(message);
    warnings_.push_back(with_place(words));
  }

  /// Each is `file:line:column: complaint`.
  const std::vector<std::string>& errors() const { return errors_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Of the latest complaint.
  std::size_t offset() const { return at_.offset; }
  enum class Kind : std::uint8_t { unknown_value, given_twice, other };
  Kind kind() const { return kind_; }

 private:
  /// Within a layer, its name and type come first.
  std::string with_place(const std::string& words) const {
    std::string layer;
    for (const TextBlock& block : blocks_around(text_, at_.offset)) {
      if (block.name != "layer" && block.name != "layers") continue;
      const std::string name = value_in(text_, block, "name"), type = value_in(text_, block, "type");
      if (name.empty() && type.empty()) continue;
      layer = name.empty() ? "layer" : cat("layer ", quoted(name, 60));
      if (!type.empty()) layer += cat(" (", type.substr(0, 60), ")");
      layer += ": ";
    }
    return cat(origin_, ":", at_.line + 1, ":", at_.column + 1, ": ", layer, words);
  }

  std::string in_words(const std::string& message) {
    kind_ = Kind::other;
    if (message.find("has no field named") != std::string::npos) {
      return unknown_field(quoted_part(message, 0), quoted_part(message, 1));
    }
    if (message.rfind("Unknown enumeration value", 0) == 0) {
      kind_ = Kind::unknown_value;
      return unknown_value(quoted_part(message, 0), quoted_part(message, 1));
    }
    if (message.find("recursion limit") != std::string::npos) {
      return cat("blocks are nested more than ", kDeepestNesting, " deep");
    }
    if (message.find("is specified multiple times") != std::string::npos) {
      kind_ = Kind::given_twice;
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
    const pb::Descriptor* type = message_of(root_, blocks_around(text_, at_.offset));
    const std::vector<std::string> known = values_of(field, type, *root_.file());
    std::string words = cat("unknown value ", quoted(value, 60), " for ", quoted(field, 60));
    words += did_you_mean(value, known);
    return known.empty() ? words : cat(words, "; known values: ", join(known, ", "));
  }

  std::string_view text_;
  const pb::Descriptor& root_;
  const std::string& origin_;
  TextPosition at_;
  Kind kind_ = Kind::other;
  std::vector<std::string> errors_, warnings_;
};

bool nothing_set(const pb::Message& message) {
  std::vector<const pb::FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  return fields.empty();
}

std::string_view checked_text(std::string_view text, const std::string& origin) {
  if (text.substr(0, 3) == "\xef\xbb\xbf") text.remove_prefix(3);  // byte order mark of some editors
  if (text.size() > kLargestText) bad_input(origin, ": more than ", kLargestText, " bytes of text");
  if (text.find('\0') != std::string_view::npos) {
    bad_input(origin, ": expected text (.prototxt), found a binary file");
  }
  return text;
}

pb::TextFormat::Parser parser_for(Complaints& complaints, bool allow_unknown_fields) {
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&complaints);
  parser.SetRecursionLimit(kDeepestNesting);
  parser.AllowUnknownField(allow_unknown_fields);
  return parser;
}

template <class Message>
Message parse_file(std::string_view text, const std::string& origin, UnknownFields unknown,
                   const char* what) {
  Message message;
  parse_text(text, origin, message, unknown);
  if (nothing_set(message)) bad_input(origin, ": expected the description of a ", what, ", found nothing");
  return message;
}

}  // namespace

void parse_text(std::string_view text, const std::string& origin, pb::Message& message,
                UnknownFields unknown) {
  text = checked_text(text, origin);
  Complaints complaints(text, *message.GetDescriptor(), origin);
  pb::TextFormat::Parser parser = parser_for(complaints, unknown == UnknownFields::ignore);
  const bool parsed = parser.ParseFromString(std::string(text), &message);
  if (!complaints.errors().empty()) bad_input(complaints.errors().front());
  if (!parsed) bad_input(origin, ": not a readable ", message.GetDescriptor()->name());
  for (const std::string& warning : complaints.warnings()) log_warning(warning + "; ignored");
}

std::vector<std::string> find_text_problems(std::string_view text, const std::string& origin,
                                            pb::Message& message) {
  std::string rest(checked_text(text, origin));
  std::vector<std::string> problems;
  bool twice = false;
  for (;;) {
    const std::string read = rest;
    Complaints complaints(read, *message.GetDescriptor(), origin);
    pb::TextFormat::Parser parser = parser_for(complaints, true);
    message.Clear();
    // Merging, a field may be given twice.
    const bool parsed =
        twice ? parser.MergeFromString(read, &message) : parser.ParseFromString(read, &message);
    if (parsed && complaints.errors().empty()) {
      problems.insert(problems.end(), complaints.warnings().begin(), complaints.warnings().end());
      return problems;
    }
    if (complaints.errors().empty()) bad_input(origin, ": not a readable ", message.GetDescriptor()->name());
    problems.push_back(complaints.errors().front());
    const bool duplicate = complaints.kind() == Complaints::Kind::given_twice;
    const bool removed =
        complaints.kind() == Complaints::Kind::unknown_value && blank_out_value(rest, complaints.offset());
    if (!removed && (!duplicate || twice)) {
      problems.insert(problems.end() - 1, complaints.warnings().begin(), complaints.warnings().end());
      problems.back() += "; nothing after this place has been read";
      return problems;
    }
    twice = twice || duplicate;
  }
}

caffe::NetParameter parse_net_text(std::string_view text, const std::string& origin, UnknownFields unknown) {
  return parse_file<caffe::NetParameter>(text, origin, unknown, "net");
}

caffe::SolverParameter parse_solver_text(std::string_view text, const std::string& origin,
                                         UnknownFields unknown) {
  return parse_file<caffe::SolverParameter>(text, origin, unknown, "solver");
}

caffe::NetParameter read_net_text(const std::string& path, UnknownFields unknown) {
  return parse_net_text(read_file(path, kLargestText), path, unknown);
}

caffe::SolverParameter read_solver_text(const std::string& path, UnknownFields unknown) {
  return parse_solver_text(read_file(path, kLargestText), path, unknown);
}

std::size_t line_of_layer(std::string_view text, const std::string& name, const std::string& type) {
  std::size_t line = 0;
  for (const TextBlock& block : blocks_named(text, {"layer", "layers"})) {
    if (value_in(text, block, "name") != name) continue;
    const bool exact = value_in(text, block, "type") == type;
    if (line == 0 || exact) line = 1 + std::count(text.begin(), text.begin() + block.begin, '\n');
    if (exact) break;
  }
  return line;
}

std::string to_text(const pb::Message& message) {
  std::string text;
  if (!pb::TextFormat::PrintToString(message, &text)) {
    runtime_failure("cannot write a ", message.GetDescriptor()->name(), " as text");
  }
  return text;
}

}  // namespace banyan::io
