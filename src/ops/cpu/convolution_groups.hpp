// Convolution of channels-last f32 images in groups of 4 or 8 channels, as many in as out (ResNeXt): forward
// pass, and gradients of input and weights.
//
// A vector of neighbouring channels holds whole groups. oneDNN's kernels treat one group after the other and
// leave most of each vector empty; here all groups of a vector are multiplied at once, by inputs whose lanes
// have been exchanged within their groups.
#pragma once

#include "banyan/ops/convolution.hpp"

namespace banyan::ops {

/// f32 images in such groups that fill vectors of AVX-512, not empty.
bool groups_apply(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output);
/// The gradient of the input is a forward pass of turned windows, which must move in steps of 1.
bool groups_can_turn(const ConvolutionGeometry& geometry);
enum class GroupPass : std::uint8_t { forward, backward_data, backward_weight };
/// Where they apply, are they faster than oneDNN's kernels? A rule based only on shapes and the instruction
/// set: measurements could differ between runs, and results would not be bit-identical.
bool groups_pay(GroupPass pass, const ConvolutionGeometry& geometry, const Tensor& input,
                const Tensor& output);

/// Ends with a ReLU of that slope; 1: with none.
inline constinit Operator<void(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& weight,
                               const Tensor& bias, double slope, Tensor& output)>
    forward_by_groups{"forward_by_groups"};
/// Where groups_can_turn.
inline constinit Operator<void(const ConvolutionGeometry& geometry, const Tensor& grad_output,
                               const Tensor& weight, Tensor& grad_input)>
    backward_data_by_groups{"backward_data_by_groups"};
/// `adds`: to grad_weight, as Convolution::backward_weight does; otherwise overwrites it.
inline constinit Operator<void(const ConvolutionGeometry& geometry, const Tensor& input,
                               const Tensor& grad_output, bool adds, Tensor& grad_weight)>
    backward_weight_by_groups{"backward_weight_by_groups"};

}  // namespace banyan::ops
