// bf16 as a type of stored values: the upper half of an f32. Nothing is computed in it: a value widens to
// float by itself and is rounded only where that is written. constexpr, so that kernels convert too.
#pragma once

#include <bit>
#include <cstdint>

namespace banyan {

class BFloat16 {
 public:
  BFloat16() = default;
  /// To the nearest, ties to even; NaN stays NaN.
  constexpr explicit BFloat16(float value) : bits_(static_cast<std::uint16_t>(nearest(value) >> 16)) {}
  constexpr operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16); }
  /// BFloat16(value) as a float; without the way through 16 bits, which would cost vectors most of the time.
  static constexpr float rounded(float value) { return std::bit_cast<float>(nearest(value) & kUpper); }

 private:
  static constexpr std::uint32_t kUpper = 0xffff0000u, kQuiet = 0x00400000u;
  /// In the upper half.
  static constexpr std::uint32_t nearest(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return value == value ? bits + 0x7fffu + (bits >> 16 & 1u) : bits | kQuiet;
  }
  std::uint16_t bits_;
};
static_assert(sizeof(BFloat16) == 2);

/// The type in which stored values of type T are computed with.
template <class T>
struct ArithmeticOf {
  using type = T;
};
template <>
struct ArithmeticOf<BFloat16> {
  using type = float;
};
template <class T>
using Arithmetic = typename ArithmeticOf<T>::type;

}  // namespace banyan
