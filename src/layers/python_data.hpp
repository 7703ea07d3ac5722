// Python layers that read data.
#pragma once

#include <optional>

#include "banyan/layers/layer.hpp"

namespace banyan {

/// An Input, with python_param, in the place of a known `Python` layer that reads data: a program fills it.
/// None for any other layer, and where the shape of a blob is not known. None where Python finds the module
/// and can run it, except for regions of images, which py-faster-rcnn's own program hands to its layer.
/// Throws bad_input for settings that it does not know.
std::optional<caffe::LayerParameter> python_data(const caffe::LayerParameter& python, Phase phase);

}  // namespace banyan
