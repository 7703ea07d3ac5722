// Shared by the rules for when to use our own convolution kernels.
#pragma once

#include "banyan/ops/convolution.hpp"

namespace banyan::ops {

/// f32 images in one group, channels-last in memory.
inline bool is_plain_convolution(const ConvolutionGeometry& geometry, const Tensor& input,
                                 const Tensor& output) {
  const auto suits = [](const Tensor& tensor) {
    return tensor.dtype() == DType::f32 &&
           (tensor.layout() == Layout::channels_last || tensor.shape()[1] == 1);
  };
  return geometry.spatial_axes() == 2 && geometry.group == 1 && suits(input) && suits(output);
}

/// With this many channels, is more than a fifth of the vectors empty?
inline bool fills_badly(std::int64_t channels, std::int64_t lanes) {
  return 4 * ((channels + lanes - 1) / lanes * lanes) >= 5 * channels;
}

}  // namespace banyan::ops
