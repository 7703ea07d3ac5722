// Gradient of a convolution's input by GEMM and col2im, for channels-last f32 images.
//
// oneDNN's direct kernels compute full vectors of input channels: for 20 channels they compute 32. The
// product that gives the columns has rows of channels x kernel values and wastes almost nothing; adding up
// the columns, one or a few images at a time, can cost less than that waste.
#pragma once

#include "banyan/ops/convolution.hpp"

namespace banyan::ops {

/// A rule based only on sizes: measurements could differ between runs, and results would not be
/// bit-identical.
bool columns_pay(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output, int threads);

/// For channels-last images in one group.
void backward_data_by_columns(Context& context, const ConvolutionGeometry& geometry,
                              const Tensor& grad_output, const Tensor& weight, Tensor& grad_input);

}  // namespace banyan::ops
