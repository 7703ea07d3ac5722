// The matrix product of Math::bf16. Internal to the room.
#pragma once

#include <cstddef>

#include "banyan/ops/basic.hpp"

namespace banyan::ops {

/// Bytes of scratch memory that multiply_bf16 needs.
std::size_t bf16_scratch(const GemmShape& shape);

/// C = alpha op(A) op(B) + beta C with the calling thread's OpenMP threads. Each of A, B and C is f32, or
/// bf16 as given by `stored`. f32 factors are rounded to bf16 in scratch memory; sums are f32.
struct StoredIn16Bits {
  bool a = false, b = false, c = false;
};
void multiply_bf16(const GemmShape& shape, const StoredIn16Bits& stored, float alpha, const void* a,
                   const void* b, float beta, void* c, void* scratch);

}  // namespace banyan::ops
