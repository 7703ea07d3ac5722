// Rounding of f32 values to bf16 values.
#pragma once

#include <cstdint>

namespace banyan::ops {

/// To the nearest, ties to even; NaN stays NaN. `to` may be `from`.
void round_to_bf16(int threads, std::int64_t count, const float* from, float* to);

}  // namespace banyan::ops
