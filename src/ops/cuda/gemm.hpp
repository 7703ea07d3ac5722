// Matrix products on raw device memory, for operators built from them.
#pragma once

#include "banyan/ops/basic.hpp"

namespace banyan::ops {

/// A row-major matrix in device memory, `stride` elements from row to row.
template <class T>
struct MatrixInMemory {
  T* data;
  std::int64_t stride;
};

/// C = alpha op(A) op(B) + beta C as in banyan/ops/basic.hpp. Factor, Result: both float or both double;
/// BFloat16 and BFloat16 or float, with sums in f32. All lengths at least 1.
template <class Factor, class Result>
void gemm_on_memory(Context& context, const GemmShape& shape, double alpha, MatrixInMemory<const Factor> a,
                    MatrixInMemory<const Factor> b, double beta, MatrixInMemory<Result> c);

}  // namespace banyan::ops
