// Conversion between f32 and bf16 values, for kernels that support only one of them.
#pragma once

#include <cstdint>

#include "banyan/tensor/bfloat16.hpp"

namespace banyan::ops {

/// Rounds as BFloat16 does, staying in f32. `to` may be `from`.
void round_to_bf16(int threads, std::int64_t count, const float* from, float* to);
void narrow(int threads, std::int64_t count, const float* from, BFloat16* to);
void widen(int threads, std::int64_t count, const BFloat16* from, float* to);

}  // namespace banyan::ops
