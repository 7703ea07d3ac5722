// Python layers that read data.
#pragma once

#include <optional>

#include "banyan/layers/layer.hpp"

namespace banyan {

/// An Input, with python_param, in the place of a known `Python` layer that reads data: a program fills it.
/// None for any other layer. Throws bad_input for settings that it does not know, and for a top whose shape
/// is not known.
std::optional<caffe::LayerParameter> python_data(const caffe::LayerParameter& python, Phase phase);

}  // namespace banyan
