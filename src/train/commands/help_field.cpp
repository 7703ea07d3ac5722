// `trainer --help-field`: what a field of solvers, nets and layers means.
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/notes.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/train/commands.hpp"
#include "field_table.hpp"

namespace banyan {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

struct Place {
  std::string path;  ///< as a user writes it: `convolution_param.weight_filler`; "" for a root
  const Descriptor* message;
};
struct FoundField {
  std::string path;
  const FieldDescriptor* field;
};

/// What files are made of, and what can be in it, nearest first. Old forms of layers and stored values are
/// left out.
const std::vector<Place>& places() {
  static const std::vector<Place> all = [] {
    std::vector<Place> found = {{"", caffe::SolverParameter::descriptor()},
                                {"", caffe::LayerParameter::descriptor()},
                                {"", caffe::NetParameter::descriptor()}};
    std::set<const Descriptor*> seen = {caffe::V1LayerParameter::descriptor(),
                                        caffe::BlobProto::descriptor()};
    for (const Place& place : found) seen.insert(place.message);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Place place = found[i];
      for (int f = 0; f < place.message->field_count(); ++f) {
        const FieldDescriptor& field = *place.message->field(f);
        if (field.message_type() == nullptr || !seen.insert(field.message_type()).second) continue;
        found.push_back(
            {place.path.empty() ? field.name() : place.path + "." + field.name(), field.message_type()});
      }
    }
    return found;
  }();
  return all;
}

std::string path_in(const Place& place, const std::string& field) {
  return (place.path.empty() ? place.message->name() : place.path) + "." + field;
}

std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts;
  std::istringstream in(name);
  for (std::string part; std::getline(in, part, '.');) parts.push_back(part);
  return parts;
}

/// The field at the end of a path of fields that begins in `message`, or nullptr.
const FieldDescriptor* follow(const Descriptor* message, const std::vector<std::string>& parts,
                              std::size_t from) {
  const FieldDescriptor* field = nullptr;
  for (std::size_t i = from; i < parts.size(); ++i) {
    if (message == nullptr) return nullptr;
    field = message->FindFieldByName(parts[i]);
    if (field == nullptr) return nullptr;
    message = field->message_type();
  }
  return field;
}

const Descriptor* message_named(const std::string& name) {
  for (const Place& place : places())
    if (place.message->name() == name) return place.message;
  return nullptr;
}

std::vector<FoundField> fields_named(const std::string& name) {
  const std::vector<std::string> parts = parts_of(name);
  std::vector<FoundField> found;
  if (parts.empty()) return found;
  if (parts.size() == 1) {
    for (const Place& place : places())
      if (const auto* field = place.message->FindFieldByName(name))
        found.push_back({path_in(place, name), field});
    return found;
  }
  if (const Descriptor* message = message_named(parts[0])) {
    if (const auto* field = follow(message, parts, 1)) found.push_back({name, field});
    return found;
  }
  // Where files begin, or, the first fields being left out, further inside.
  for (const Place& place : places()) {
    const auto* field = follow(place.message, parts, 0);
    if (field == nullptr) continue;
    if (place.path.empty()) return {{name, field}};
    found.push_back({path_in(place, name), field});
  }
  return found;
}

/// Types of layers whose settings are in this message, unless those of all that bring data are.
std::vector<std::string> types_with(const Descriptor& message) {
  std::vector<std::string> types;
  if (&message == caffe::TransformationParameter::descriptor()) return types;
  for (const std::string& type : registered_layer_types()) {
    const std::vector<std::string> fields = layer_info(type).messages();
    if (std::any_of(fields.begin(), fields.end(), [&](const std::string& name) {
          const auto* field = caffe::LayerParameter::descriptor()->FindFieldByName(name);
          return field != nullptr && field->message_type() == &message;
        }))
      types.push_back(type);
  }
  return types;
}

/// Where a field holds the settings of layers it says of which.
std::vector<FieldRow> rows_with_messages(const Descriptor& message) {
  std::vector<FieldRow> rows = rows_of(message);
  for (int i = 0; i < message.field_count(); ++i) {
    const Descriptor* inner = message.field(i)->message_type();
    if (inner == nullptr) continue;
    std::string& about = rows[static_cast<std::size_t>(i)].about;
    const std::vector<std::string> types = types_with(*inner);
    if (!types.empty())
      about = "settings of " + join(types, ", ") + (about.empty() ? "" : "; " + about);
    else if (about.empty())
      about = io::note_of(*inner);
  }
  return rows;
}

std::string about_message(const Descriptor& message) {
  const std::string note = io::note_of(message);
  std::string text = message.name() + (note.empty() ? "" : ": " + note) + "\n";
  const std::vector<std::string> types = types_with(message);
  if (!types.empty()) text += "  settings of " + join(types, ", ") + "\n";
  return text + field_table(rows_with_messages(message));
}

std::string about_field(const FoundField& found) {
  const FieldRow row = row_of(*found.field);
  std::string text = found.path + ": " + row.type;
  if (!row.fallback.empty()) text += ", default " + row.fallback;
  if (!row.branch.empty()) text += row.branch == "Banyan" ? "; Banyan's own" : "; from " + row.branch;
  text += "\n";
  if (!row.about.empty()) text += "  " + row.about + "\n";
  const std::vector<std::string> types = types_with(*found.field->containing_type());
  if (!types.empty()) text += "  a setting of " + join(types, ", ") + "\n";
  return text;
}

[[noreturn]] void refuse(const std::string& name) {
  // A name alone is compared with names, a path with paths.
  const bool path = name.find('.') != std::string::npos;
  std::set<std::string> known;
  for (const Place& place : places()) {
    known.insert(place.message->name());
    for (int f = 0; f < place.message->field_count(); ++f) {
      const std::string field = place.message->field(f)->name();
      known.insert(path ? path_in(place, field) : field);
    }
  }
  bad_input("there is no field ", quoted(name), did_you_mean(name, {known.begin(), known.end()}),
            "; --help-field=LayerParameter, NetParameter and SolverParameter list what files are made of");
}

}  // namespace

std::vector<std::string> described_fields() {
  std::set<std::string> names;
  for (const Place& place : places()) {
    names.insert(place.message->name());
    // Deeper paths would be as many again, and are found by the name of the message.
    if (place.path.find('.') != std::string::npos) continue;
    for (int f = 0; f < place.message->field_count(); ++f) {
      const std::string& field = place.message->field(f)->name();
      names.insert(place.path.empty() ? field : path_in(place, field));
    }
  }
  return {names.begin(), names.end()};
}

std::string describe_field(const std::string& name, bool json) {
  if (const Descriptor* message = message_named(name))
    return json
               ? cat("{\"message\": ", json_string(name), ", \"about\": ", json_string(io::note_of(*message)),
                     ", \"types\": ", json_strings(types_with(*message)),
                     ",\n \"fields\": ", fields_json(rows_with_messages(*message)), "}\n")
               : about_message(*message);
  const std::vector<FoundField> found = fields_named(name);
  if (found.empty()) refuse(name);
  std::vector<std::string> items;
  for (const FoundField& one : found)
    items.push_back(
        json ? cat("{\"path\": ", json_string(one.path), ", \"field\": ", field_json(row_of(*one.field)), "}")
             : about_field(one));
  if (json) return "[" + join(items, ",\n ") + "]\n";
  std::string text = join(items, "");
  // With one field there is room for what it consists of.
  if (found.size() == 1 && found[0].field->message_type() != nullptr)
    text += "\n" + about_message(*found[0].field->message_type());
  return text;
}

}  // namespace banyan
