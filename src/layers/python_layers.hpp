// Layers that programs of the Caffe family write in Python and that are native layers here.
#pragma once

#include <optional>

#include "banyan/layers/layer.hpp"

namespace banyan {

/// The layer that takes the place of a `Python` layer, with its settings; none if there is none for its
/// module and class. Throws bad_input for a param_str that cannot be read, and for a layer that other layers
/// must replace, saying which. Of the run only the phase matters.
std::optional<caffe::LayerParameter> native_layer(const caffe::LayerParameter& python, Phase phase);

}  // namespace banyan
