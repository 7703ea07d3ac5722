// Between f32 values and bf16 values, for kernels that know one of them only.
#pragma once

#include <cstdint>

#include "banyan/tensor/bfloat16.hpp"

namespace banyan::ops {

/// As BFloat16 rounds, in f32. `to` may be `from`.
void round_to_bf16(int threads, std::int64_t count, const float* from, float* to);
void narrow(int threads, std::int64_t count, const float* from, BFloat16* to);
void widen(int threads, std::int64_t count, const BFloat16* from, float* to);

}  // namespace banyan::ops
