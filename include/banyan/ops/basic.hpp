// Memory and level-1 operators. All tensors of a call live on the context's device. Reductions have a fixed
// order: for the same input, device and thread count the result is bit-identical.
#pragma once

#include <span>

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// y[i] = value, any dtype.
inline constinit Operator<void(Tensor& y, double value)> fill{"fill"};
/// y = x in y's dtype and layout; same shape. Float dtypes, bf16 included, and i32/u8 -> float. y may be x.
inline constinit Operator<void(const Tensor& x, Tensor& y)> copy{"copy"};
/// y = alpha x + beta y; same count, dtype and layout; beta == 0 ignores y's contents (NaN included).
inline constinit Operator<void(double alpha, const Tensor& x, double beta, Tensor& y)> axpby{"axpby"};
/// y[i] = (y[i] + parts[0][i]) + parts[1][i] ..., in this order, in one sweep over memory; at most kMostParts
/// parts of the same count and float dtype.
inline constexpr std::size_t kMostParts = 7;
inline constinit Operator<void(std::span<const Tensor> parts, Tensor& y)> add_parts{"add_parts"};
/// result[0] = sum of x, result: f64 (1). Accumulates in f64.
inline constinit Operator<void(const Tensor& x, Tensor& result)> sum{"sum"};
/// result[0] = sum of |x|, result: f64 (1).
inline constinit Operator<void(const Tensor& x, Tensor& result)> absolute_sum{"absolute_sum"};
/// result[0] = sum of x^2, result: f64 (1).
inline constinit Operator<void(const Tensor& x, Tensor& result)> sum_of_squares{"sum_of_squares"};
/// result[0] = sum of x[i] y[i], result: f64 (1).
inline constinit Operator<void(const Tensor& x, const Tensor& y, Tensor& result)> sum_of_products{
    "sum_of_products"};
/// result[0] = number of elements that are NaN or infinite, result: f64 (1).
inline constinit Operator<void(const Tensor& x, Tensor& result)> count_not_finite{"count_not_finite"};
/// Copies `blocks` blocks of `length` elements: to[to_offset + b * to_stride ...] = from[from_offset + b *
/// from_stride ...]; offsets, strides and length in elements of memory order. Same dtype.
struct BlockCopy {
  std::int64_t blocks, length, from_offset, from_stride, to_offset, to_stride;
};
inline constinit Operator<void(const Tensor& from, Tensor& to, const BlockCopy& what)> copy_blocks{
    "copy_blocks"};
/// C (m x n) = alpha op(A) op(B) + beta C, all row-major and dense; op(A) is m x k. beta == 0 ignores C's
/// contents. Each of the three is f32 or bf16, or all are f64.
struct GemmShape {
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;
};
inline constinit Operator<void(const GemmShape& shape, double alpha, const Tensor& a, const Tensor& b,
                               double beta, Tensor& c)>
    gemm{"gemm"};

}  // namespace banyan::ops
