// Matrix products on raw device memory, for operators built from them.
#pragma once

#include "banyan/ops/basic.hpp"

namespace banyan::ops {

/// C = alpha op(A) op(B) + beta C as in banyan/ops/basic.hpp. T: float or double. All lengths at least 1.
template <class T>
void gemm_on_memory(Context& context, const GemmShape& shape, double alpha, const T* a, const T* b,
                    double beta, T* c);

}  // namespace banyan::ops
