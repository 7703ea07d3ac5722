#include "field_table.hpp"

#include <algorithm>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/notes.hpp"

namespace banyan {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

/// As it is written in a file.
std::string fallback_of(const FieldDescriptor& field) {
  if (!field.has_default_value()) return "";
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return cat(field.default_value_int32());
    case FieldDescriptor::CPPTYPE_INT64:
      return cat(field.default_value_int64());
    case FieldDescriptor::CPPTYPE_UINT32:
      return cat(field.default_value_uint32());
    case FieldDescriptor::CPPTYPE_UINT64:
      return cat(field.default_value_uint64());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return cat(field.default_value_float());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return cat(field.default_value_double());
    case FieldDescriptor::CPPTYPE_BOOL:
      return field.default_value_bool() ? "true" : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return field.default_value_enum()->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return quoted(field.default_value_string());
    default:
      return "";
  }
}

}  // namespace

FieldRow row_of(const FieldDescriptor& field) {
  const io::FieldNote note = io::note_of(field);
  FieldRow row{field.name(), field.type_name(), fallback_of(field), note.branch, note.about, {}};
  if (field.message_type() != nullptr) row.type = field.message_type()->name();
  if (field.enum_type() != nullptr) {
    for (int i = 0; i < field.enum_type()->value_count(); ++i)
      row.values.push_back(field.enum_type()->value(i)->name());
    row.type = join(row.values, "|");
    if (row.about.empty()) row.about = io::note_of(*field.enum_type());
  }
  if (field.is_repeated()) row.type += ", repeated";
  return row;
}

std::vector<FieldRow> rows_of(const Descriptor& message) {
  std::vector<FieldRow> rows;
  for (int i = 0; i < message.field_count(); ++i) rows.push_back(row_of(*message.field(i)));
  return rows;
}

std::string field_table(const std::vector<FieldRow>& rows) {
  // A type of many words has no influence on the others' column.
  constexpr std::size_t kWidest = 24;
  std::size_t name = 0, type = 0, fallback = 0;
  for (const FieldRow& row : rows) {
    name = std::max(name, row.name.size());
    if (row.type.size() <= kWidest) type = std::max(type, row.type.size());
    fallback = std::max(fallback, row.fallback.size());
  }
  std::vector<std::string> branches = {""};
  for (const FieldRow& row : rows)
    if (std::find(branches.begin(), branches.end(), row.branch) == branches.end())
      branches.push_back(row.branch);
  std::string text;
  for (const std::string& branch : branches) {
    if (!branch.empty())
      text += cat("  ",
                  branch == "Banyan"             ? "Banyan's own"
                  : branch.ends_with("branches") ? branch
                                                 : "from " + branch,
                  ":\n");
    for (const FieldRow& row : rows) {
      if (row.branch != branch) continue;
      std::string line = "  " + row.name;
      line.resize(2 + name + 2, ' ');
      line += row.type;
      line.resize(std::max(line.size() + 2, 2 + name + 2 + type + 2), ' ');
      const std::size_t with_fallback = line.size() + fallback + 2;
      line += row.fallback;
      if (!row.about.empty()) {
        line.resize(with_fallback, ' ');
        line += row.about;
      }
      while (line.ends_with(' ')) line.pop_back();
      text += line + "\n";
    }
  }
  return text;
}

std::string field_json(const FieldRow& row) {
  return cat("{\"name\": ", json_string(row.name), ", \"type\": ", json_string(row.type),
             ", \"default\": ", json_string(row.fallback), ", \"values\": ", json_strings(row.values),
             ", \"branch\": ", json_string(row.branch), ", \"about\": ", json_string(row.about), "}");
}

std::string fields_json(const std::vector<FieldRow>& rows) {
  std::vector<std::string> items;
  for (const FieldRow& row : rows) items.push_back(field_json(row));
  return "[" + join(items, ",\n  ") + "]";
}

}  // namespace banyan
