// JSON objects, member by member.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/text.hpp"

namespace banyan {

/// The shortest text that reads back as the same double. JSON has no numbers that are not finite: they become
/// the strings "nan", "inf" and "-inf".
std::string json_number(double value);

/// Names are plain: they need no escapes.
class JsonObject {
 public:
  JsonObject& add(std::string_view name, std::string_view text) { return raw(name, json_string(text)); }
  JsonObject& add(std::string_view name, const char* text) { return add(name, std::string_view(text)); }
  JsonObject& add(std::string_view name, bool value) { return raw(name, value ? "true" : "false"); }
  JsonObject& add(std::string_view name, double value) { return raw(name, json_number(value)); }
  template <std::integral Integer>
  JsonObject& add(std::string_view name, Integer value) {
    return raw(name, std::to_string(value));
  }
  /// `json` is JSON already.
  JsonObject& raw(std::string_view name, std::string_view json);
  /// An array of what `to_json` makes of each item.
  template <class Items, class ToJson>
  JsonObject& array(std::string_view name, const Items& items, ToJson to_json) {
    std::string json = "[";
    for (const auto& item : items) {
      if (json.size() > 1) json += ", ";
      json += to_json(item);
    }
    return raw(name, json + "]");
  }
  std::string text() const { return members_ + "}"; }

 private:
  std::string members_ = "{";
};

}  // namespace banyan
