// Gradient of a convolution's input by GEMM and col2im, for channels-last f32 images.
//
// oneDNN's direct kernels compute it for input channels in full vectors: of 20 channels they make 32. The
// product that gives the columns has channels x kernel values in a row and wastes next to nothing; adding up
// the columns, an image or a few at a time, can cost less than that.
#pragma once

#include "banyan/ops/convolution.hpp"

namespace banyan::ops {

/// A rule on sizes alone: what is measured could differ from run to run, and with it the bits.
bool columns_pay(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output, int threads);

/// For channels-last images and one group.
void backward_data_by_columns(Context& context, const ConvolutionGeometry& geometry,
                              const Tensor& grad_output, const Tensor& weight, Tensor& grad_input);

}  // namespace banyan::ops
