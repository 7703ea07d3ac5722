#include "named_settings.hpp"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <vector>

#include "banyan/base/error.hpp"
#include "io/complaints.hpp"
#include "io/other_types.hpp"
#include "proto/banyan.pb.h"

namespace banyan {
namespace {

namespace pb = google::protobuf;

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// What a refusal says, without the layer's name and type at its beginning.
struct Said {
  std::set<std::string> words;
  std::set<std::string> values;  ///< what is in quotes
};

Said read(const std::string& refusal) {
  constexpr const char* kTypeEnd = "): ";
  const std::size_t type_end = refusal.find(kTypeEnd);
  Said said;
  std::string part;
  bool is_quoted = false;
  for (std::size_t i = type_end == std::string::npos ? 0 : type_end; i <= refusal.size(); ++i) {
    const char c = i < refusal.size() ? refusal[i] : ' ';
    const bool ends = c == '"' || i == refusal.size();
    if (is_quoted ? !ends : is_word(c)) {
      part += c;
      continue;
    }
    if (is_quoted)
      said.values.insert(part);
    else if (!part.empty())
      said.words.insert(part);
    part.clear();
    if (ends) is_quoted = !is_quoted;
  }
  return said;
}

/// What makes a layer or a net what it is, and weights.
bool is_kept(const pb::FieldDescriptor& field) {
  static const std::set<std::string> kept{"name",  "type",    "bottom",  "top",
                                          "phase", "include", "exclude", "blobs"};
  const pb::Descriptor* type = field.containing_type();
  return (io::is_layer(*type) && kept.count(field.name()) > 0) ||
         (type == caffe::NetParameter::descriptor() &&
          (field.message_type() != nullptr || field.name() == "name"));
}

struct Setting {
  pb::Message* message;
  const pb::FieldDescriptor* field;
};

/// Those that are set in the message and in the messages inside.
std::vector<Setting> settings_in(pb::Message& message) {
  const pb::Reflection& reflection = *message.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  std::vector<Setting> found;
  for (const pb::FieldDescriptor* field : fields) {
    if (is_kept(*field)) continue;
    found.push_back({&message, field});
    if (field->message_type() == nullptr) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      pb::Message& inner = field->is_repeated() ? *reflection.MutableRepeatedMessage(&message, field, i)
                                                : *reflection.MutableMessage(&message, field);
      const std::vector<Setting> within = settings_in(inner);
      found.insert(found.end(), within.begin(), within.end());
    }
  }
  return found;
}

/// Is it a text that the refusal quotes?
bool is_quoted(const Setting& setting, const Said& said) {
  if (setting.field->cpp_type() != pb::FieldDescriptor::CPPTYPE_STRING || setting.field->is_repeated())
    return false;
  return said.values.count(setting.message->GetReflection()->GetString(*setting.message, setting.field)) > 0;
}

bool is_number(const pb::FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_INT32:
    case pb::FieldDescriptor::CPPTYPE_INT64:
    case pb::FieldDescriptor::CPPTYPE_UINT32:
    case pb::FieldDescriptor::CPPTYPE_UINT64:
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
    case pb::FieldDescriptor::CPPTYPE_FLOAT:
      return true;
    default:
      return false;
  }
}

void set_number(pb::Message& message, const pb::FieldDescriptor& field, int number) {
  message.GetReflection()->ClearField(&message, &field);
  pb::TextFormat::Parser parser;
  parser.AllowPartialMessage(true);
  parser.MergeFromString(cat(field.name(), ": ", number), &message);
}

/// Takes it out. A number without a default value may have to be there: it becomes 1.
void replace(const Setting& setting) {
  const pb::FieldDescriptor& field = *setting.field;
  setting.message->GetReflection()->ClearField(setting.message, &field);
  if (is_number(field) && !field.has_default_value()) set_number(*setting.message, field, 1);
}

/// Those that the refusal names, as narrowly as it does: texts that it quotes, else fields inside of others,
/// else whole messages.
std::vector<Setting> named_in(pb::Message& message, const Said& said) {
  std::vector<Setting> named = settings_in(message);
  std::erase_if(named, [&](const Setting& setting) { return said.words.count(setting.field->name()) == 0; });
  const std::vector<std::function<bool(const Setting&)>> kinds{
      [&](const Setting& setting) { return is_quoted(setting, said); },
      [](const Setting& setting) { return setting.field->message_type() == nullptr; }};
  for (const auto& is_of_kind : kinds) {
    std::vector<Setting> chosen;
    std::copy_if(named.begin(), named.end(), std::back_inserter(chosen), is_of_kind);
    if (!chosen.empty()) return chosen;
  }
  return named;
}

/// Settings inside of others come after these, which would free them.
void replace(const std::vector<Setting>& settings) {
  for (auto setting = settings.rbegin(); setting != settings.rend(); ++setting) replace(*setting);
}

/// Messages of settings that may be the layer's: those that it has; if it has none, the first.
std::vector<const pb::FieldDescriptor*> messages_of(const pb::Message& layer, const Said& said) {
  std::vector<const pb::FieldDescriptor*> given, possible;
  const auto* current = dynamic_cast<const caffe::LayerParameter*>(&layer);
  for (int i = 0; i < layer.GetDescriptor()->field_count(); ++i) {
    const pb::FieldDescriptor* field = layer.GetDescriptor()->field(i);
    if (field->message_type() == nullptr || field->is_repeated() || is_kept(*field)) continue;
    const bool names_inner = std::any_of(said.words.begin(), said.words.end(), [&](const auto& word) {
      const pb::FieldDescriptor* inner = field->message_type()->FindFieldByName(word);
      return inner != nullptr && is_number(*inner);
    });
    if (!names_inner) continue;
    if (layer.GetReflection()->HasField(layer, field))
      given.push_back(field);
    else if (current != nullptr && io::may_be_setting_of(current->type(), field->name()))
      possible.push_back(field);
  }
  if (given.empty() && possible.size() > 1) possible.resize(1);
  return given.empty() ? possible : given;
}

/// Sets the numbers that the refusal names; returns their names.
std::set<std::string> put_numbers(pb::Message& layer, const Said& said, int number) {
  std::set<std::string> put;
  for (const pb::FieldDescriptor* field : messages_of(layer, said)) {
    pb::Message& message = *layer.GetReflection()->MutableMessage(&layer, field);
    for (const std::string& word : said.words) {
      const pb::FieldDescriptor* inner = field->message_type()->FindFieldByName(word);
      if (inner == nullptr || !is_number(*inner)) continue;
      set_number(message, *inner, number);
      put.insert(word);
    }
  }
  return put;
}

}  // namespace

bool RefusedSettings::mend(pb::Message& layer, const std::string& refusal) {
  const Said said = read(refusal);
  const std::vector<Setting> named = named_in(layer, said);
  std::set<std::string> mended;
  for (const Setting& setting : named) mended.insert(setting.field->name());
  replace(named);
  if (mended.empty()) mended = put_numbers(layer, said, 1);
  for (const std::string& name : mended) mended_.emplace(name, 0);
  return !mended.empty();
}

bool RefusedSettings::mend_again(pb::Message& layer, const std::string& refusal) {
  constexpr int kMost = 2;
  Said said = read(refusal);
  std::erase_if(said.words, [&](const std::string& word) {
    const auto found = mended_.find(word);
    return found != mended_.end() && found->second >= kMost;
  });
  int number = 1;
  for (const std::string& word : said.words)
    if (const auto found = mended_.find(word); found != mended_.end())
      number = std::max(number, found->second + 1);
  const std::set<std::string> put = put_numbers(layer, said, number);
  for (const std::string& name : put) mended_[name] = number;
  return !put.empty();
}

bool is_about_missing(const caffe::LayerParameter& layer, const std::string& refusal) {
  // Not about shapes, which name settings, too.
  constexpr const char* kSays[] = {"missing", " given", "must be"};
  if (std::none_of(std::begin(kSays), std::end(kSays),
                   [&](const char* text) { return refusal.find(text) != std::string::npos; }))
    return false;
  const Said said = read(refusal);
  caffe::LayerParameter copy = layer;
  for (const Setting& setting : settings_in(copy))
    if (setting.field->message_type() == nullptr &&
        (said.words.count(setting.field->name()) > 0 || is_quoted(setting, said)))
      return false;
  for (int i = 0; i < layer.GetDescriptor()->field_count(); ++i) {
    const pb::FieldDescriptor* field = layer.GetDescriptor()->field(i);
    if (field->message_type() == nullptr || field->is_repeated() || is_kept(*field)) continue;
    if (!layer.GetReflection()->HasField(layer, field) && !io::may_be_setting_of(layer.type(), field->name()))
      continue;
    for (const std::string& word : said.words)
      if (field->message_type()->FindFieldByName(word) != nullptr) return true;
  }
  return false;
}

bool drop_refused(caffe::NetParameter& net, const std::string& refusal) {
  const std::vector<Setting> named = named_in(net, read(refusal));
  for (const Setting& setting : named)
    setting.message->GetReflection()->ClearField(setting.message, setting.field);
  return !named.empty();
}

bool RefusedSettings::may_follow(const pb::Message& layer, const std::string& refusal) const {
  if (mended_.empty()) return false;
  // What is wrong with the number of axes is wrong with all fields that have a value for each.
  if (refusal.find("spatial axes") != std::string::npos) return true;
  const Said said = read(refusal);
  const std::unique_ptr<pb::Message> copy(layer.New());
  copy->CopyFrom(layer);
  bool names_field = false;
  std::map<std::string, int> mended = mended_;
  for (const Setting& setting : settings_in(*copy)) {
    const pb::FieldDescriptor& field = *setting.field;
    if (is_quoted(setting, said)) mended.erase(field.name());  // another field of the name
    names_field = names_field || said.words.count(field.name()) > 0;
    for (int i = 0; field.message_type() != nullptr && i < field.message_type()->field_count(); ++i)
      names_field = names_field || said.words.count(field.message_type()->field(i)->name()) > 0;
  }
  return !names_field || std::any_of(mended.begin(), mended.end(),
                                     [&](const auto& entry) { return said.words.count(entry.first) > 0; });
}

}  // namespace banyan
