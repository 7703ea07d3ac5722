// Gradients of a convolution by im2col and GEMM, for channels-last f32 images.
//
// oneDNN's direct kernels compute gradients for channels in full vectors: of 20 channels they make 32. A
// product over columns has channels x kernel values in a row and wastes next to nothing; making or adding up
// the columns, an image or a few at a time, can cost less than that.
#pragma once

#include "banyan/ops/convolution.hpp"

namespace banyan::ops {

/// Rules on sizes alone: what is measured could differ from run to run, and with it the bits.
struct ColumnsPay {
  bool data = false, weight = false;
};
ColumnsPay columns_pay(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output,
                       int threads);

/// For channels-last images and one group.
void backward_data_by_columns(Context& context, const ConvolutionGeometry& geometry,
                              const Tensor& grad_output, const Tensor& weight, Tensor& grad_input);
/// Adds, as Convolution::backward_weight does. No padding; no dilation along the rows.
void backward_weight_by_columns(Context& context, const ConvolutionGeometry& geometry, const Tensor& input,
                                const Tensor& grad_output, Tensor& grad_weight, Tensor& grad_bias);

}  // namespace banyan::ops
