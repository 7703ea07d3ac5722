// JSON read by another program than the one that writes it.
#pragma once

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace banyan {

#if defined(__SANITIZE_THREAD__)  // Protocol Buffers' messages then have another layout than in its library
inline constexpr bool kReadsJson = false;
#else
inline constexpr bool kReadsJson = true;
#endif
inline constexpr const char* kWhyNotRead = "JSON is written, but not read, under ThreadSanitizer";

using JsonValue = google::protobuf::Value;
using JsonMembers = google::protobuf::Struct;

/// Every line must be an object and end with a newline.
inline std::vector<JsonMembers> read_json_lines(const std::string& text) {
  std::vector<JsonMembers> objects;
  if (!kReadsJson) return objects;
  EXPECT_TRUE(text.empty() || text.back() == '\n')
      << text.substr(text.size() - std::min<std::size_t>(text.size(), 200));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &objects.emplace_back()).ok()) << line;
  return objects;
}

inline bool has(const JsonMembers& object, const std::string& name) { return object.fields().contains(name); }
/// A member must be there.
inline const JsonValue& member(const JsonMembers& object, const std::string& name) {
  static const JsonValue none;
  if (has(object, name)) return object.fields().at(name);
  ADD_FAILURE() << "no member " << name << " in " << object.ShortDebugString().substr(0, 300);
  return none;
}
inline double number(const JsonMembers& object, const std::string& name) {
  return member(object, name).number_value();
}
inline std::string text(const JsonMembers& object, const std::string& name) {
  return member(object, name).string_value();
}
inline const JsonMembers& inner(const JsonMembers& object, const std::string& name) {
  return member(object, name).struct_value();
}
inline std::vector<JsonMembers> items(const JsonMembers& object, const std::string& name) {
  std::vector<JsonMembers> all;
  for (const JsonValue& value : member(object, name).list_value().values())
    all.push_back(value.struct_value());
  return all;
}
inline std::vector<double> numbers(const JsonMembers& object, const std::string& name) {
  std::vector<double> all;
  for (const JsonValue& value : member(object, name).list_value().values())
    all.push_back(value.number_value());
  return all;
}

}  // namespace banyan
