// Settings of `Python` layers: what their param_str says.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

struct PythonSetting {
  std::string key;
  std::vector<std::string> values;
  bool list = false;
};

template <class... Parts>
[[noreturn]] void refuse_python(const caffe::LayerParameter& layer, const Parts&... parts) {
  bad_input("layer ", quoted(layer.name()), " (Python, ", quoted(layer.python_param().layer()),
            "): ", parts...);
}

/// Of param_str, a dictionary as YAML writes it. Throws bad_input saying where it is anything else.
std::vector<PythonSetting> python_settings(const caffe::LayerParameter& layer);

/// Sets the fields that param_str names; `scales` and `ratios` are those of scale and ratio.
void read_python_settings(const caffe::LayerParameter& layer, google::protobuf::Message& settings);

/// What stands between commas, without blanks around it.
std::vector<std::string> comma_separated(const std::string& text);

/// The layer with another type and without python_param.
caffe::LayerParameter as_native(const caffe::LayerParameter& python, const std::string& type);

/// For a key that the layer does not know.
[[noreturn]] void refuse_python_key(const caffe::LayerParameter& layer, const std::string& key,
                                    const std::vector<std::string>& known);

/// Sets a field to what a setting says. Throws bad_input naming the setting if the field cannot be that.
void set_python_field(const caffe::LayerParameter& layer, const PythonSetting& setting,
                      const google::protobuf::FieldDescriptor& field, google::protobuf::Message& settings);

}  // namespace banyan
