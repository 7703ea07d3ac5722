// Convolution as matrix products over unfolded images (im2col). Everything is channels-last: images
// (N, spatial, C), weights (O, spatial, C of a group).
// All numbers have the problem's type (f32, f64 or bf16), but for gradients of weights: of bf16 they are f32.
//
// A product of 1 x 1 windows reads the images themselves. Otherwise some output positions are unfolded at a
// time, as many as most_columns_bytes() has room for: the more, the better a product uses the GPU. Gradients
// of images are gathered from whole samples.
#pragma once

#include <cstdint>

#include "banyan/ops/convolution.hpp"

namespace banyan::ops {

enum class ConvolutionDirection : std::uint8_t { forward, backward_data, backward_weight };

/// One convolution's shapes: `input` (N, C, spatial...) and `output` (N, O, spatial...).
struct ColumnsProblem {
  const ConvolutionGeometry& geometry;
  DType dtype;
  const Shape& input;
  const Shape& output;
};

/// Is each window a pixel of its own? Nothing is unfolded then.
bool has_plain_columns(const ConvolutionGeometry& geometry);
/// Bytes of scratch memory that the function for this direction needs as `columns`: more than
/// most_columns_bytes() only where a single sample does (backward_data) or a single position.
std::size_t columns_bytes(const ColumnsProblem& problem, ConvolutionDirection direction);
/// Bytes of a sample's unfolded image; 0 if nothing is unfolded.
std::int64_t unfolded_bytes(const ColumnsProblem& problem);
/// output = input * weight
void columns_forward(Context& context, const ColumnsProblem& problem, const void* input, const void* weight,
                     void* output, void* columns);
/// Overwrites grad_input. Gathers: a fixed order of additions.
void columns_backward_data(Context& context, const ColumnsProblem& problem, const void* grad_output,
                           const void* weight, void* grad_input, void* columns);
/// Overwrites grad_weight, which is f32 where the problem's type is bf16.
void columns_backward_weight(Context& context, const ColumnsProblem& problem, const void* input,
                             const void* grad_output, void* grad_weight, void* columns);

}  // namespace banyan::ops
