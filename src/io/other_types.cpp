#include "other_types.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/upgrade.hpp"

namespace banyan::io {
namespace {

/// `CamelCase` and `V1_CASE` become `v1case`.
std::string without_case(std::string_view type) {
  std::string plain;
  for (const char c : type)
    if (c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

/// With their settings.
std::map<std::string, std::vector<std::string>>& layer_types() {
  static std::map<std::string, std::vector<std::string>> types;
  return types;
}

/// transform_param, which layers of their kind share.
bool transforms_data(std::string_view type) {
  constexpr std::array<std::string_view, 6> kWithout{"CPMData",   "CustomData", "DocData",
                                                     "DummyData", "HDF5Data",   "MemoryData"};
  return (type.ends_with("Data") && !contains(kWithout, type)) || type == "SelectSegBinary";
}

/// loss_param.
bool is_loss(std::string_view type) {
  return type.find("Loss") != std::string_view::npos || type == "Yolov3";
}

}  // namespace

std::string about_other_type(const std::string& type) {
  const std::span<const OtherType> others = other_types();
  const auto found =
      std::find_if(others.begin(), others.end(), [&](const OtherType& other) { return type == other.type; });
  if (found == others.end()) return "";
  return cat("has the type ", quoted(type), " of ", found->whose,
             ", which Banyan does not have: ", found->advice);
}

std::string namesake_of_v1_type(const std::string& type) {
  for (const OtherType& other : other_types())
    if (without_case(type) == without_case(other.type)) return "";
  const auto* names = caffe::V1LayerParameter::LayerType_descriptor();
  const auto is_known = [&](const auto& matches) {
    for (int i = 0; i < names->value_count(); ++i)
      if (matches(names->value(i)->name())) return true;
    return false;
  };
  if (is_known([&](const std::string& name) { return without_case(name) == without_case(type); })) return "";
  for (const auto& [known, settings] : layer_types())
    if (without_case(type) == without_case(known) &&
        !is_known([&](const std::string& name) { return current_type_name(name) == known; }))
      return known;
  return "";
}

std::string about_other_v1_type(const std::string& type) {
  for (const OtherType& other : other_types())
    if (without_case(type) == without_case(other.type)) return about_other_type(other.type);
  const std::string known = namesake_of_v1_type(type);
  if (known.empty()) return "";
  return cat(
      "has the type ", quoted(known),
      ", for which `layers` has no name here; write the net in the current format, with layer { type: ",
      quoted(known), " }");
}

std::string about_missing_type(const std::string& type) {
  if (type.empty()) return "has no type; trainer layers lists all types";
  if (const std::string other = about_other_type(type); !other.empty()) return other;
  if (may_be_layer_type(type)) return "";
  return cat("has the unknown type ", quoted(type), did_you_mean_type(type),
             "; trainer layers lists all types");
}

/// SoftmaxLoss is what V1 calls SoftmaxWithLoss, and a loss's name is often written without `Loss`, or a type
/// like its class in the source.
std::string did_you_mean_type(const std::string& type) {
  const auto* old = caffe::V1LayerParameter::LayerType_descriptor();
  for (int i = 0; i < old->value_count(); ++i)
    if (const std::string now = current_type_name(old->value(i)->name());
        without_case(type) == without_case(old->value(i)->name()) && layer_types().contains(now))
      return cat(" (did you mean ", quoted(now), "?)");
  if (layer_types().contains(type + "Loss")) return cat(" (did you mean ", quoted(type + "Loss"), "?)");
  constexpr std::string_view kOfClass = "Layer";
  if (type.ends_with(kOfClass))
    if (const std::string without = type.substr(0, type.size() - kOfClass.size());
        layer_types().contains(without))
      return cat(" (did you mean ", quoted(without), "?)");
  std::vector<std::string> known;
  for (const auto& [name, settings] : layer_types()) known.push_back(name);
  return did_you_mean(type, known);
}

void add_layer_type(const std::string& type, std::vector<std::string> settings) {
  layer_types()[type] = std::move(settings);
}

bool may_be_layer_type(const std::string& type) {
  return layer_types().empty() || layer_types().contains(type);
}

bool may_be_setting_of(const std::string& type, const std::string& field) {
  const auto found = layer_types().find(type);
  if (found == layer_types().end() || !field.ends_with("_param")) return true;
  return contains(found->second, field) || (field == "transform_param" && transforms_data(type)) ||
         (field == "loss_param" && is_loss(type));
}

}  // namespace banyan::io
