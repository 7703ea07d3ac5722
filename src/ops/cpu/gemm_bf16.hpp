// The matrix product of Math::bf16. Internal to the room.
#pragma once

#include <cstddef>

#include "banyan/ops/basic.hpp"

namespace banyan::ops {

/// Bytes of scratch memory that multiply_bf16 needs.
std::size_t bf16_scratch(const GemmShape& shape);

/// C = alpha op(A) op(B) + beta C with the OpenMP threads of the calling thread. A and B are rounded to bf16
/// in the scratch memory; sums are f32.
void multiply_bf16(const GemmShape& shape, float alpha, const float* a, const float* b, float beta, float* c,
                   void* scratch);

}  // namespace banyan::ops
