#include "banyan/base/json.hpp"

#include <charconv>
#include <cmath>

namespace banyan {

std::string json_number(double value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

JsonObject& JsonObject::raw(std::string_view name, std::string_view json) {
  if (members_.size() > 1) members_ += ", ";
  members_ += '"';
  members_ += name;
  members_ += "\": ";
  members_ += json;
  return *this;
}

}  // namespace banyan
