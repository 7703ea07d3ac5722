#include "ops/cpu/round_to_bf16.hpp"

#include "ops/common/backend.hpp"

namespace banyan::ops {

void round_to_bf16(int threads, std::int64_t count, const float* from, float* to) {
#pragma omp parallel for simd schedule(static) num_threads(threads)
  for (std::int64_t i = 0; i < count; ++i) to[i] = stored<BFloat16>(from[i]);
}

void narrow(int threads, std::int64_t count, const float* from, BFloat16* to) {
#pragma omp parallel for simd schedule(static) num_threads(threads)
  for (std::int64_t i = 0; i < count; ++i) to[i] = narrowed<BFloat16>(from[i]);
}

void widen(int threads, std::int64_t count, const BFloat16* from, float* to) {
#pragma omp parallel for simd schedule(static) num_threads(threads)
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}

}  // namespace banyan::ops
