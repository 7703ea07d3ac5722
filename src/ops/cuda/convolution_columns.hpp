// Convolution as matrix products over unfolded images (im2col), where cuDNN has no reproducible algorithm.
// Everything is contiguous; one sample at a time.
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

/// Bytes of scratch memory that each function below needs as `columns`.
std::size_t columns_bytes(const ColumnsProblem& problem);
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
