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

/// C = alpha op(A) op(B) + beta C as in banyan/ops/basic.hpp. T: float or double. All lengths at least 1.
template <class T>
void gemm_on_memory(Context& context, const GemmShape& shape, double alpha, MatrixInMemory<const T> a,
                    MatrixInMemory<const T> b, double beta, MatrixInMemory<T> c);

}  // namespace banyan::ops
