// The gradient of a convolution's input as the forward pass of another convolution: where windows move in
// steps of 1, it is the convolution of the output's gradient with the weights turned around, which lead from
// the outputs' channels to the inputs'. oneDNN's newer kernels are for forward passes only.
#pragma once

#include "banyan/ops/convolution.hpp"

namespace banyan::ops {

/// One group, steps of 1, no more padding than windows reach beyond the pixel they belong to.
bool can_turn(const ConvolutionGeometry& geometry);
/// The other convolution.
ConvolutionGeometry turned(const ConvolutionGeometry& geometry);
/// Is it faster? A rule based only on shapes and the instruction set, as products_pay_backward_weight is.
bool turning_pays(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output);
/// Its weights (C, O, taps in reverse order) from the geometry's (O, C, taps).
void turn_weights(int threads, const ConvolutionGeometry& geometry, const float* from, float* to);

}  // namespace banyan::ops
