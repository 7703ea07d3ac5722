// The matrix product of Math::bf16. Internal to the room.
#pragma once

#include "banyan/ops/basic.hpp"

namespace banyan::ops {

/// C = alpha op(A) op(B) + beta C as gemm, on the calling thread's OpenMP threads; the factors are rounded to
/// bf16 where the processor has units for it, the sums are f32.
void multiply_bf16(const GemmShape& shape, float alpha, const float* a, const float* b, float beta, float* c);

}  // namespace banyan::ops
