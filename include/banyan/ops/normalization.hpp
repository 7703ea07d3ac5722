// Batch normalization, split at the points where devices exchange statistics, and local response
// normalization.
//
// Per-channel statistics are always f64: there are only C values per N * C * H * W of data, and the merge
// stays exact to the data's precision. `x` is (N, C, ...) in either layout; axis 1 is the channel. x, y,
// dy, dx and the addend may be bf16; slopes, biases and running statistics are then f32.
//   moments       (1 + 2 C)  count, mean[C], M2[C] (sum of squared deviations from the mean). The count is an
//                            integer (exact in f64 up to 2^53).
//   mean_inv_std  (2 C)      mean[C], 1 / sqrt(var + eps) [C]
//   sums          (2 C)      sum dy [C], sum dy * xhat [C]
#pragma once

#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// Local moments of x; an empty x gives count 0 and zeros. No cancellation: deviations are from a local mean.
inline constinit Operator<void(const Tensor& x, Tensor& moments)> batch_moments{"batch_moments"};
/// into = moments of both sets of samples together (Chan, Golub, LeVeque 1979), in place.
inline constinit Operator<void(const Tensor& other, Tensor& into)> merge_moments{"merge_moments"};
/// mean_inv_std from moments; the variance is M2 / count, or M2 / (count - 1) if `unbiased` and count > 1.
inline constinit Operator<void(const Tensor& moments, double eps, bool unbiased, Tensor& mean_inv_std)>
    finish_moments{"finish_moments"};
/// running = keep * running + add * batch value, for mean and variance (`unbiased`: M2 / (count - 1), factor
/// 1 if count is 1), in the running tensors' dtype ((C) elements each). A count of 0 changes nothing.
inline constinit Operator<void(const Tensor& moments, double keep, double add, bool unbiased,
                               Tensor& running_mean, Tensor& running_variance)>
    update_running{"update_running"};
/// mean_inv_std from stored statistics divided by `factor[0]` (undefined: 1; value 0: all statistics 0).
inline constinit Operator<void(const Tensor& running_mean, const Tensor& running_variance,
                               const Tensor& factor, double eps, Tensor& mean_inv_std)>
    stored_statistics{"stored_statistics"};
/// What follows the normalization; undefined slope / bias: 1 / 0.
struct Affine {
  Tensor slope, bias;
  Activation activation = {};
  Tensor output = {};  ///< of the activation, for the backward operators: they need an ELU's
};
/// y = activation((x - mean) * inv_std * slope + bias). y may be x.
inline constinit Operator<void(const Tensor& x, const Tensor& mean_inv_std, const Affine& affine, Tensor& y)>
    normalize_forward{"normalize_forward"};
/// y = activation((x - mean) * inv_std * slope + bias + addend). y may be x or the addend.
inline constinit Operator<void(const Tensor& x, const Tensor& mean_inv_std, const Affine& affine,
                               const Tensor& addend, Tensor& y)>
    normalize_and_add{"normalize_and_add"};
/// Sums over this device's samples. With an activation, dy is the gradient of its output: here and in
/// normalize_backward a ReLU's slope is found by recomputing its input, an ELU's by recomputing or reading
/// its output, whichever costs the device less.
inline constinit Operator<void(const Tensor& x, const Tensor& dy, const Tensor& mean_inv_std,
                               const Affine& affine, Tensor& sums)>
    normalize_backward_sums{"normalize_backward_sums"};
/// dx = slope inv_std (dy - (sum dy + xhat sum dy xhat) / count), sums and moments of the whole group;
/// undefined sums: statistics were constants, dx = slope inv_std dy. dx may be dy.
inline constinit Operator<void(const Tensor& x, const Tensor& dy, const Tensor& mean_inv_std,
                               const Affine& affine, const Tensor& sums, const Tensor& moments, Tensor& dx)>
    normalize_backward{"normalize_backward"};
/// grad_slope += sums[C..2C), grad_bias += sums[0..C), where defined.
inline constinit Operator<void(const Tensor& sums, Tensor& grad_slope, Tensor& grad_bias)>
    add_affine_gradients{"add_affine_gradients"};
/// For normalize_backward_sums and normalize_backward on the output y = slope xhat + bias in place of x:
/// of_output (2 C) stands for mean_inv_std, slope_of_output (C) for the slope, and there is no bias. Since
/// xhat = (y - bias) / slope, a channel whose |slope| is 0 or at most 1000 epsilon |bias| cannot be used:
/// unusable[c] (f64) becomes 1, otherwise it stays as it is. Undefined slope / bias: 1 / 0.
inline constinit Operator<void(const Tensor& slope, const Tensor& bias, const Tensor& mean_inv_std,
                               Tensor& of_output, Tensor& slope_of_output, Tensor& unusable)>
    output_statistics{"output_statistics"};

struct LrnParameters {
  std::int64_t size = 5;  ///< odd
  double alpha = 1, beta = 0.75, k = 1;
  bool within_channel = false;  ///< k is 1, the average is Caffe's padded average pooling
};
/// y = x * scale^-beta; `scale` (like x, f32 if that is bf16) is kept for the backward pass. x and y must
/// differ.
inline constinit Operator<void(const LrnParameters& parameters, const Tensor& x, Tensor& scale, Tensor& y)>
    lrn_forward{"lrn_forward"};
inline constinit Operator<void(const LrnParameters& parameters, const Tensor& x, const Tensor& y,
                               const Tensor& scale, const Tensor& dy, Tensor& dx)>
    lrn_backward{"lrn_backward"};

}  // namespace banyan::ops
