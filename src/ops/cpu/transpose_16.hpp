// 16 x 16 elements of four bytes, transposed within vector registers.
#pragma once

#include <cstdint>
#include <type_traits>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace banyan::ops {

#if defined(__AVX512F__)

template <class From, class To>
inline constexpr bool kTransposedInRegisters = std::is_same_v<From, To> && sizeof(From) == 4;

/// to[c * to_step + r] = from[r * from_step + c] for all r and c below 16; elements of any type.
inline void transpose_16(const void* from, std::int64_t from_step, void* to, std::int64_t to_step) {
  const auto* const source = static_cast<const std::int32_t*>(from);
  auto* const target = static_cast<std::int32_t*>(to);
  // GCC 12 believes that the forms without a mask read something undefined.
  constexpr __mmask16 kAll = 0xffff;
  constexpr __mmask8 kAllPairs = 0xff;
  __m512i a[16], b[16];
  for (int r = 0; r < 16; ++r) a[r] = _mm512_loadu_si512(source + r * from_step);
  for (int r = 0; r < 16; r += 2) {
    b[r] = _mm512_maskz_unpacklo_epi32(kAll, a[r], a[r + 1]);
    b[r + 1] = _mm512_maskz_unpackhi_epi32(kAll, a[r], a[r + 1]);
  }
  // Then quarter q of a[r + k] holds rows r to r + 3 of column 4 q + k.
  for (int r = 0; r < 16; r += 4)
    for (int k = 0; k < 2; ++k) {
      a[r + 2 * k] = _mm512_maskz_unpacklo_epi64(kAllPairs, b[r + k], b[r + 2 + k]);
      a[r + 2 * k + 1] = _mm512_maskz_unpackhi_epi64(kAllPairs, b[r + k], b[r + 2 + k]);
    }
  constexpr int kEven = 0x88, kOdd = 0xdd;  // quarters 0 and 2, or 1 and 3, of both operands
  for (int k = 0; k < 4; ++k) {
    const __m512i upper_even = _mm512_maskz_shuffle_i32x4(kAll, a[k], a[4 + k], kEven),
                  upper_odd = _mm512_maskz_shuffle_i32x4(kAll, a[k], a[4 + k], kOdd),
                  lower_even = _mm512_maskz_shuffle_i32x4(kAll, a[8 + k], a[12 + k], kEven),
                  lower_odd = _mm512_maskz_shuffle_i32x4(kAll, a[8 + k], a[12 + k], kOdd);
    b[k] = _mm512_maskz_shuffle_i32x4(kAll, upper_even, lower_even, kEven);
    b[4 + k] = _mm512_maskz_shuffle_i32x4(kAll, upper_odd, lower_odd, kEven);
    b[8 + k] = _mm512_maskz_shuffle_i32x4(kAll, upper_even, lower_even, kOdd);
    b[12 + k] = _mm512_maskz_shuffle_i32x4(kAll, upper_odd, lower_odd, kOdd);
  }
  for (int c = 0; c < 16; ++c) _mm512_storeu_si512(target + c * to_step, b[c]);
}

#else

template <class From, class To>
inline constexpr bool kTransposedInRegisters = false;
/// Not there: nothing calls it.
void transpose_16(const void* from, std::int64_t from_step, void* to, std::int64_t to_step);

#endif

}  // namespace banyan::ops
