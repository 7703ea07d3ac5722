// Convolution of channels-last f32 images where each channel is convolved by itself (depthwise: MobileNet,
// ShuffleNet, bilinear upsampling): forward pass, and gradients of input, weights and bias.
//
// Vectors hold neighbouring channels, which are neighbours in memory too, and the sums of neighbouring pixels
// stay in registers: images are read and written once, in order. The gradient of the input is computed from
// the side of the input, whatever the stride: for each of its pixels, the products of the windows it is in.
#pragma once

#include "banyan/ops/convolution.hpp"

namespace banyan::ops {

/// Such images, with a window per channel, that fill a vector of 8 and are not empty.
bool depthwise_applies(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output);
enum class DepthwisePass : std::uint8_t { forward, backward_data, backward_weight };
/// Where it applies, is it faster than oneDNN's kernels? A rule based only on shapes and the instruction set:
/// measurements could differ between runs, and results would not be bit-identical.
bool depthwise_pays(DepthwisePass pass, const ConvolutionGeometry& geometry, const Tensor& input,
                    const Tensor& output);

/// `end`: no ELU.
inline constinit Operator<void(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& weight,
                               const Tensor& bias, const Activation& end, Tensor& output)>
    forward_depthwise{"forward_depthwise"};
inline constinit Operator<void(const ConvolutionGeometry& geometry, const Tensor& grad_output,
                               const Tensor& weight, Tensor& grad_input)>
    backward_data_depthwise{"backward_data_depthwise"};
/// `adds`: to grad_weight and, where defined, grad_bias, as Convolution::backward_weight does; otherwise
/// overwrites them. Bit-identical for the same number of threads, each of which keeps sums of its own.
inline constinit Operator<void(const ConvolutionGeometry& geometry, const Tensor& input,
                               const Tensor& grad_output, bool adds, Tensor& grad_weight, Tensor& grad_bias)>
    backward_weight_depthwise{"backward_weight_depthwise"};

}  // namespace banyan::ops
