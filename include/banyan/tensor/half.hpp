// f16 as a way to pack f32 values: its bits, and the scale that its few exponents need. constexpr, so that
// kernels call it too.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace banyan {

/// An f16's bits from an f32, to the nearest, ties to even. Without branches, so that loops of it become
/// vector instructions.
constexpr std::uint16_t to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  // Below 2^-14 an f16 is a multiple of 2^-24: adding 0.5 shifts the value so far that f32's own rounding
  // leaves just those bits.
  const std::uint32_t tiny = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
                             std::bit_cast<std::uint32_t>(0.5f);
  const std::uint32_t usual = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
  const std::uint32_t finite = magnitude < (113u << 23) ? tiny : std::min(usual, 0x7c00u);
  const std::uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  return static_cast<std::uint16_t>(sign | (magnitude >= 0x7f800000u ? special : finite));
}

constexpr float from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
  const float tiny = static_cast<float>(magnitude) * 0x1p-24f;
  const std::uint32_t usual = (magnitude << 13) + (112u << 23), special = usual + (112u << 23);
  const std::uint32_t bits = magnitude < 0x400u     ? std::bit_cast<std::uint32_t>(tiny)
                             : magnitude >= 0x7c00u ? special
                                                    : usual;
  return std::bit_cast<float>(bits | sign);
}

/// The power of two that values are multiplied with before they become f16, where `largest` is the largest
/// magnitude among them: that one comes to between 2^14 and 2^15. 1 if it is 0 or infinite.
constexpr float half_scale(float largest) {
  const auto bits = std::bit_cast<std::uint32_t>(largest);
  if (!(largest > 0) || bits >= 0x7f800000u) return 1;
  const int exponent = static_cast<int>(bits >> 23) - 126;  // largest is in [2^(exponent - 1), 2^exponent)
  return std::bit_cast<float>(static_cast<std::uint32_t>(std::min(15 - exponent, 126) + 127) << 23);
}

}  // namespace banyan
