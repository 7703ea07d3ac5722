// Convolutions as matrix products, for channels-last f32 images: 1 x 1 convolutions, whose images are the
// factors as they are, in all three passes; and the gradient of the weights of others, for which inputs are
// gathered into columns.
//
// For the gradient of the weights oneDNN's kernels transpose both factors in small pieces first, which costs
// up to half of their time; its GEMM packs larger ones. For that of the input they want the weights in
// another order. In groups (ShuffleNet) they leave a part of their vectors empty.
#pragma once

#include "banyan/ops/convolution.hpp"

namespace banyan::ops {

/// Are the images the factors as they are: 1 x 1, neither strided nor padded?
bool is_product(const ConvolutionGeometry& geometry);
/// f32 images or volumes, channels-last, none of them empty, in one group unless is_product.
bool products_apply(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output);
/// Where they apply, are they faster than oneDNN's kernels? A rule based only on shapes, threads and the
/// instruction set: measurements could differ between runs, and results would not be bit-identical.
bool products_pay_backward_weight(const ConvolutionGeometry& geometry, const Tensor& input,
                                  const Tensor& output, int threads);
/// The same; only where is_product.
bool products_pay_forward(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output);
bool products_pay_backward_data(const ConvolutionGeometry& geometry, const Tensor& input,
                                const Tensor& output);

/// Where is_product and products_apply. Ends with a ReLU of that slope; 1: with none.
inline constinit Operator<void(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& weight,
                               const Tensor& bias, double slope, Tensor& output)>
    forward_by_products{"forward_by_products"};
/// `adds`: to grad_weight, as Convolution::backward_weight does; otherwise overwrites it.
inline constinit Operator<void(const ConvolutionGeometry& geometry, const Tensor& input,
                               const Tensor& grad_output, bool adds, Tensor& grad_weight)>
    backward_weight_by_products{"backward_weight_by_products"};
/// Where is_product and products_apply.
inline constinit Operator<void(const ConvolutionGeometry& geometry, const Tensor& grad_output,
                               const Tensor& weight, Tensor& grad_input)>
    backward_data_by_products{"backward_data_by_products"};

}  // namespace banyan::ops
