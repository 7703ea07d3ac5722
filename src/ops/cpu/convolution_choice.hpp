// Shared by the rules for when to use our own convolution kernels. tests/bench/kernels.cpp compares what they
// choose with what is fastest.
#pragma once

#include "banyan/device/processor.hpp"
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

/// f32, one to three spatial axes: oneDNN's kernels even where the rules would choose ours.
std::unique_ptr<Convolution> make_library_convolution(const ConvolutionGeometry& geometry);

}  // namespace banyan::ops
