// Norms of vectors along an axis: contiguous memory seen as outer x channels x inner, one vector per outer x
// inner position. Also what MVN needs beside the operators of batch normalization.
#pragma once

#include "banyan/ops/loss.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// products[position] (f64) = add + the sum over the channels of a * b.
inline constinit Operator<void(const Tensor& a, const Tensor& b, const Channels& over, double add,
                               Tensor& products)>
    dot_products{"dot_products"};
/// y = x / sqrt(squares[position]).
inline constinit Operator<void(const Tensor& x, const Tensor& squares, const Channels& over, Tensor& y)>
    divide_by_norm{"divide_by_norm"};
/// dx = (dy - x * products[position] / squares[position]) / sqrt(squares[position]), the products being those
/// of x and dy. dx may be dy.
inline constinit Operator<void(const Tensor& x, const Tensor& dy, const Tensor& squares,
                               const Tensor& products, const Channels& over, Tensor& dx)>
    divide_by_norm_backward{"divide_by_norm_backward"};
/// y = x * factors[position], with factors of x's type. y may be x.
inline constinit Operator<void(const Tensor& x, const Tensor& factors, const Channels& over, Tensor& y)>
    scale_vectors{"scale_vectors"};

/// From moments (normalization.hpp): mean and 1 / (std + eps) for normalize_forward, with the biased
/// variance; 1 in its place where `with_variance` is false. stretch[c] (f64) is what the sums of dy * xhat
/// are to be multiplied by before normalize_backward, because eps stands outside the root: (std + eps) / std,
/// 1 for std 0, and 0 where `with_variance` is false.
inline constinit Operator<void(const Tensor& moments, double eps, bool with_variance, Tensor& mean_inv_std,
                               Tensor& stretch)>
    deviation_statistics{"deviation_statistics"};

}  // namespace banyan::ops
