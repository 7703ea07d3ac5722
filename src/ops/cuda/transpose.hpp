// What convolutions move between tensors and scratch memory: other orders, other types.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

// Types: the same on both sides (f32, f64 or bf16), or f32 and bf16. What is added to is f32 or f64. Memory
// must not overlap.

/// `batch` matrices, rows x columns, row-major: to[b][column][row] = from[b][row][column], or += if `add`.
void transpose_on_cuda(Context& context, DType from_type, const void* from, DType to_type, void* to,
                       std::int64_t batch, std::int64_t rows, std::int64_t columns, bool add);
/// to[i] = from[i] for `count` elements, or += if `add`.
void move_on_cuda(Context& context, DType from_type, const void* from, DType to_type, void* to,
                  std::int64_t count, bool add);

}  // namespace banyan::ops
