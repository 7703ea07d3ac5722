// Gradient of a convolution's weights as matrix products, for channels-last f32 images: of 1 x 1
// convolutions, whose images are the factors as they are, and of strided ones, whose inputs are gathered into
// columns.
//
// oneDNN's kernels transpose both factors in small pieces first, which costs up to half of their time. Its
// GEMM packs larger ones.
#pragma once

#include "banyan/ops/convolution.hpp"

namespace banyan::ops {

/// f32 images in one group with two spatial axes, channels-last, none of them empty.
bool products_apply(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output);
/// Where they apply, are they faster than oneDNN's kernels? A rule based only on shapes, threads and the
/// instruction set: measurements could differ between runs, and results would not be bit-identical.
bool products_pay(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output,
                  int threads);

/// `adds`: to grad_weight, as Convolution::backward_weight does; otherwise overwrites it.
inline constinit Operator<void(const ConvolutionGeometry& geometry, const Tensor& input,
                               const Tensor& grad_output, bool adds, Tensor& grad_weight)>
    backward_weight_by_products{"backward_weight_by_products"};

}  // namespace banyan::ops
