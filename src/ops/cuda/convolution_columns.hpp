// Convolution as matrix products over unfolded images (im2col). Everything is channels-last: images
// (N, spatial, C), weights (O, spatial, C of a group).
//
// A product of 1 x 1 windows reads the images themselves. Otherwise some samples are unfolded at a time, as
// many as fit into a limited scratch memory: the more, the better a product uses the GPU.
#pragma once

#include "banyan/ops/convolution.hpp"

namespace banyan::ops {

/// One convolution's shapes: `input` (N, C, spatial...) and `output` (N, O, spatial...).
struct ColumnsProblem {
  const ConvolutionGeometry& geometry;
  DType dtype;
  const Shape& input;
  const Shape& output;
};

/// Is each window a pixel of its own? Nothing is unfolded then.
bool has_plain_columns(const ConvolutionGeometry& geometry);
/// Bytes of scratch memory that each function below needs as `columns`.
std::size_t columns_bytes(const ColumnsProblem& problem);
/// Bytes of all unfolded images; 0 if nothing is unfolded.
std::int64_t unfolded_bytes(const ColumnsProblem& problem);
/// output = input * weight
void columns_forward(Context& context, const ColumnsProblem& problem, const void* input, const void* weight,
                     void* output, void* columns);
/// Overwrites grad_input. Gathers: a fixed order of additions.
void columns_backward_data(Context& context, const ColumnsProblem& problem, const void* grad_output,
                           const void* weight, void* grad_input, void* columns);
/// Overwrites grad_weight.
void columns_backward_weight(Context& context, const ColumnsProblem& problem, const void* input,
                             const void* grad_output, void* grad_weight, void* columns);

}  // namespace banyan::ops
