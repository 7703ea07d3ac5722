// Layers in Python of SSH, CTPN and RON.
#pragma once

#include <optional>

#include "banyan/layers/layer.hpp"

namespace banyan {

/// As native_layer(), of these projects.
std::optional<caffe::LayerParameter> detector_layer(const caffe::LayerParameter& python, Phase phase);

}  // namespace banyan
