// Shared by the rules for when to use our own convolution kernels. tests/bench/kernels.cpp compares what they
// choose with what is fastest.
#pragma once

#include "banyan/ops/convolution.hpp"
#include "banyan/ops/processor.hpp"

namespace banyan::ops {

/// f32, channels-last in memory.
inline bool is_kernel_order(const Tensor& tensor) {
  return tensor.dtype() == DType::f32 && (tensor.layout() == Layout::channels_last || tensor.shape()[1] == 1);
}

/// Images of that order in one group.
inline bool is_plain_convolution(const ConvolutionGeometry& geometry, const Tensor& input,
                                 const Tensor& output) {
  return geometry.spatial_axes() == 2 && geometry.group == 1 && is_kernel_order(input) &&
         is_kernel_order(output);
}

/// One to three spatial axes, f32 or with `math` bf16: oneDNN's kernels even where the rules would choose
/// ours.
std::unique_ptr<Convolution> make_library_convolution(const ConvolutionGeometry& geometry,
                                                      Math math = Math::full);
/// The same, with the gradient of the input as a forward pass (see convolution_turned.hpp); only where
/// can_turn.
std::unique_ptr<Convolution> make_turned_convolution(const ConvolutionGeometry& geometry);

}  // namespace banyan::ops
