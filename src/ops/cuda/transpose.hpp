// Batched transposition: converts activations and filters between contiguous and channels-last.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// `batch` matrices, rows x columns, row-major: to[b][column][row] = from[b][row][column], or += if `add`.
/// Memory must not overlap. Both sides have type `dtype` (f32 or f64).
void transpose_on_cuda(Context& context, DType dtype, const void* from, void* to, std::int64_t batch,
                       std::int64_t rows, std::int64_t columns, bool add);
/// to[i] += from[i] for `count` elements (f32 or f64).
void add_on_cuda(Context& context, DType dtype, const void* from, void* to, std::int64_t count);

}  // namespace banyan::ops
