#include "parallel/wire_values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "banyan/base/error.hpp"

namespace banyan::parallel {
namespace {

/// An f16's bits from an f32, to the nearest, ties to even. Without branches, so that loops of it become
/// vector instructions.
std::uint16_t to_half(float value) {
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

float from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
  const float tiny = static_cast<float>(magnitude) * 0x1p-24f;
  const std::uint32_t usual = (magnitude << 13) + (112u << 23), special = usual + (112u << 23);
  const std::uint32_t bits = magnitude < 0x400u     ? std::bit_cast<std::uint32_t>(tiny)
                             : magnitude >= 0x7c00u ? special
                                                    : usual;
  return std::bit_cast<float>(bits | sign);
}

/// The power of two that values are multiplied with before they become f16: the largest one comes to between
/// 2^14 and 2^15.
float scale_of(const float* values, std::int64_t count) {
  float largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  if (!(largest > 0) || !std::isfinite(largest)) return 1;
  int exponent = 0;
  std::frexp(largest, &exponent);
  return std::ldexp(1.0f, std::clamp(15 - exponent, -126, 126));
}

constexpr std::int64_t kBlock = 1024;  // values that stay in the first cache

/// values = packed, or += packed.
template <bool Add>
void take(const char* packed, std::int64_t begin, std::int64_t count, DType type, float* values) {
  const auto* from =
      reinterpret_cast<const std::uint16_t*>(packed + (type == DType::f16 ? sizeof(float) : 0));
  from += begin;
  if (type == DType::bf16) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(from[i]) << 16);
      values[i] = Add ? values[i] + value : value;
    }
    return;
  }
  float scale = 1;
  std::memcpy(&scale, packed, sizeof scale);
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = from_half(from[i]) * scale;
    values[i] = Add ? values[i] + value : value;
  }
}

/// In order; `out` may be one of the parts.
template <class T>
void sum_plain(const std::vector<SumPart>& parts, std::int64_t count, T* out) {
  T block[kBlock];
  const std::size_t last = parts.size() - 1;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t size = std::min(kBlock, count - begin);
    const auto part = [&](std::size_t p) { return reinterpret_cast<const T*>(parts[p].data) + begin; };
    for (std::size_t p = 1; p <= last; ++p) {
      const T *first = p == 1 ? part(0) : block, *second = part(p);
      T* to = p == last ? out + begin : block;
      // Each value is read before it is written, so that what is the same memory does no harm.
#pragma GCC ivdep
      for (std::int64_t i = 0; i < size; ++i) to[i] = first[i] + second[i];
    }
  }
}

template <class T>
void sum(const std::vector<SumPart>& parts, std::int64_t count, DType packed, T* out) {
  const bool plain =
      std::none_of(parts.begin(), parts.end(), [](const SumPart& part) { return part.packed; });
  if (plain && parts.size() > 1) {
    sum_plain(parts, count, out);
    return;
  }
  T block[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t size = std::min(kBlock, count - begin);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if constexpr (std::is_same_v<T, float>) {
        if (parts[p].packed) {
          (p == 0 ? take<false> : take<true>)(parts[p].data, begin, size, packed, block);
          continue;
        }
      }
      const T* part = reinterpret_cast<const T*>(parts[p].data) + begin;
      if (p == 0)
        std::copy(part, part + size, block);
      else
        for (std::int64_t i = 0; i < size; ++i) block[i] += part[i];
    }
    std::copy(block, block + size, out + begin);
  }
}

}  // namespace

std::size_t packed_bytes(std::int64_t count, DType type) {
  return (type == DType::f16 ? sizeof(float) : 0) + static_cast<std::size_t>(count) * sizeof(std::uint16_t);
}

void pack(const float* values, std::int64_t count, DType type, char* packed) {
  auto* to = reinterpret_cast<std::uint16_t*>(packed + (type == DType::f16 ? sizeof(float) : 0));
  if (type == DType::bf16) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = std::bit_cast<std::uint16_t>(BFloat16(values[i]));
    return;
  }
  const float scale = scale_of(values, count), back = 1 / scale;
  std::memcpy(packed, &back, sizeof back);
  for (std::int64_t i = 0; i < count; ++i) to[i] = to_half(values[i] * scale);
}

void unpack(const char* packed, std::int64_t count, DType type, float* values) {
  take<false>(packed, 0, count, type, values);
}

void sum_parts(const std::vector<SumPart>& parts, std::int64_t count, DType type, DType packed, char* out) {
  dispatch_float(type, "a sum over processes",
                 [&]<class T>() { sum<T>(parts, count, packed, reinterpret_cast<T*>(out)); });
}

}  // namespace banyan::parallel
