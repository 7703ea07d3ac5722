// Direct convolution of channels-last f32 images whose output channels leave vectors partly empty, or whose
// rows of inputs are short: forward pass and gradient of the weights.
//
// oneDNN's kernels use vectors of output channels, and compute 64 for 50. Here 48 are in vectors; the other
// two are dot products along the kernel's rows, whose values are adjacent in memory.
#pragma once

#include "banyan/ops/convolution.hpp"

namespace banyan::ops {

/// f32 images in one group with two spatial axes, no padding, no dilation along the rows, and at least a
/// vector of output channels.
bool rows_apply(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output);
/// Where they apply, are they faster than oneDNN's kernels? A rule based only on shapes and the instruction
/// set: measurements could differ between runs, and results would not be bit-identical.
bool rows_pay_forward(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output);
bool rows_pay_backward_weight(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output);

/// Ends with a ReLU of that slope; 1: with none.
inline constinit Operator<void(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& weight,
                               const Tensor& bias, double slope, Tensor& output)>
    forward_by_rows{"forward_by_rows"};
/// Adds, as Convolution::backward_weight does.
inline constinit Operator<void(const ConvolutionGeometry& geometry, const Tensor& input,
                               const Tensor& grad_output, Tensor& grad_weight, Tensor& grad_bias)>
    backward_weight_by_rows{"backward_weight_by_rows"};

}  // namespace banyan::ops
