#include "ops/cpu/round_to_bf16.hpp"

#include <bit>

namespace banyan::ops {
namespace {

/// bf16 is the upper half of f32.
float rounded(float value) {
  constexpr std::uint32_t kUpper = 0xffff0000u, kQuiet = 0x00400000u;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t nearest = (bits + 0x7fffu + (bits >> 16 & 1u)) & kUpper;
  return std::bit_cast<float>(value == value ? nearest : (bits & kUpper) | kQuiet);
}

}  // namespace

void round_to_bf16(int threads, std::int64_t count, const float* from, float* to) {
#pragma omp parallel for simd schedule(static) num_threads(threads)
  for (std::int64_t i = 0; i < count; ++i) to[i] = rounded(from[i]);
}

}  // namespace banyan::ops
