// 1 x 1 convolutions of channels-last f32 images in groups of any size (ShuffleNet): forward pass, and
// gradient of the input.
//
// A pixel's channels of a group are a short row of a matrix. oneDNN's kernels leave most of a vector empty
// where a group has few channels, and its GEMM packs such a row for little work.
#pragma once

#include "banyan/ops/convolution.hpp"

namespace banyan::ops {

/// f32 images or volumes, channels-last, none of them empty; 1 x 1 windows without strides or padding; a
/// vector of AVX2 or more of channels in each group on both sides.
bool pointwise_applies(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output);
enum class PointwisePass : std::uint8_t { forward, backward_data };
/// Where it applies, is it faster than oneDNN's kernels? A rule based only on shapes and the instruction set:
/// measurements could differ between runs, and results would not be bit-identical.
bool pointwise_pays(PointwisePass pass, const ConvolutionGeometry& geometry, const Tensor& input,
                    const Tensor& output);

/// Ends with a ReLU of that slope; 1: with none.
inline constinit Operator<void(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& weight,
                               const Tensor& bias, double slope, Tensor& output)>
    forward_pointwise{"forward_pointwise"};
inline constinit Operator<void(const ConvolutionGeometry& geometry, const Tensor& grad_output,
                               const Tensor& weight, Tensor& grad_input)>
    backward_data_pointwise{"backward_data_pointwise"};

}  // namespace banyan::ops
