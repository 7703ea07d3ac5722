// Direct convolution of channels-last f32 images whose output channels leave vectors partly empty, or whose
// rows of inputs are short: forward pass and gradient of the weights.
//
// oneDNN's kernels use vectors of output channels, and compute 64 for 50. Here 48 are in vectors; the other
// two are dot products along the kernel's rows, whose values are adjacent in memory.
#pragma once

#include "banyan/ops/convolution.hpp"

namespace banyan::ops {

/// A rule based only on shapes: measurements could differ between runs, and results would not be
/// bit-identical. Only for processors with AVX-512 (when compiled for them), two spatial axes, one group, no
/// padding, and no dilation along the rows.
bool rows_pay(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output);

/// `relu`: ends with a ReLU.
void forward_by_rows(Context& context, const ConvolutionGeometry& geometry, const Tensor& input,
                     const Tensor& weight, const Tensor& bias, bool relu, Tensor& output);
/// Adds, as Convolution::backward_weight does.
void backward_weight_by_rows(Context& context, const ConvolutionGeometry& geometry, const Tensor& input,
                             const Tensor& grad_output, Tensor& grad_weight, Tensor& grad_bias);

}  // namespace banyan::ops
