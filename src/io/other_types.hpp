// Types of the Caffe family that are not here: what is said of a layer of such a type, and the table in
// docs/from_caffe.md. Beside the parser, which meets their settings first.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace banyan::io {

struct OtherType {
  const char* type;
  const char* whose;
  const char* advice;  ///< why there is no such layer, or what takes its place
};

/// In alphabetical order.
std::span<const OtherType> other_types();

/// Whose type it is and what takes its place, as the end of a sentence about the layer; "" for a type that
/// nobody knows.
std::string about_other_type(const std::string& type);

/// The same of a V1 type, such as SPATIAL_TRANSFORMER.
std::string about_other_v1_type(const std::string& type);

/// The type that is here, and that such a V1 type would be called now, if `layers` has no name for it; "" if
/// there is none, or if something else is known of the type.
std::string namesake_of_v1_type(const std::string& type);

/// The same of any type that is not here, also of one that nobody knows: what may be meant. "" for a type
/// that is here.
std::string about_missing_type(const std::string& type);

/// ` (did you mean "X"?)` for the nearest type that is here, or "".
std::string did_you_mean_type(const std::string& type);

/// A type that is here, and the fields of LayerParameter that hold its settings. Only the program knows which
/// layers it has.
void add_layer_type(const std::string& type, std::vector<std::string> settings);
/// False for a type that is not here. In a program without layers any type may be one.
bool may_be_layer_type(const std::string& type);
/// False for a field `x_param` of LayerParameter in which a layer of that type, which is here, has no
/// settings.
bool may_be_setting_of(const std::string& type, const std::string& field);

}  // namespace banyan::io
