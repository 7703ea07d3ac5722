// Loops over the channels of channels-last pixels, with vectors that stay in registers.
#pragma once

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "banyan/ops/processor.hpp"
#include "banyan/tensor/bfloat16.hpp"

namespace banyan::ops {

#if defined(__AVX512F__)
inline constexpr std::int64_t kRegisterBytes = 64;
#elif defined(__AVX2__)
inline constexpr std::int64_t kRegisterBytes = 32;
#else
inline constexpr std::int64_t kRegisterBytes = 16;
#endif

// Between vectors of 32-bit integers and bytes, which __builtin_convertvector would do one by one.

#ifdef __AVX512F__
/// Without a mask GCC 12 warns of what its own headers leave uninitialized.
constexpr __mmask16 kAll = 0xffff;
#endif

template <class Integers>
void widen_bytes(const std::uint8_t* from, Integers& to) {
  constexpr std::size_t kElement = sizeof(to[0]), kCount = sizeof(Integers) / kElement;
#ifdef __AVX512F__
  if constexpr (kElement == 4 && kCount == 16) {
    const __m512i wide =
        _mm512_maskz_cvtepu8_epi32(kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    std::memcpy(&to, &wide, sizeof wide);
    return;
  }
#endif
#ifdef __AVX2__
  if constexpr (kElement == 4 && kCount >= 8) {
    for (std::size_t i = 0; i < kCount; i += 8) {
      const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i)));
      std::memcpy(reinterpret_cast<char*>(&to) + i * kElement, &wide, sizeof wide);
    }
    return;
  }
  if constexpr (kElement == 4 && kCount == 4) {
    std::int32_t bytes = 0;
    std::memcpy(&bytes, from, sizeof bytes);
    const __m128i wide = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(bytes));
    std::memcpy(&to, &wide, sizeof wide);
    return;
  }
#endif
  std::remove_cvref_t<decltype(to[0])> wide[kCount];
  for (std::size_t i = 0; i < kCount; ++i) wide[i] = from[i];
  std::memcpy(&to, wide, sizeof wide);
}

/// The lowest byte of each.
template <class Integers>
void narrow_to_bytes(const Integers& from, std::uint8_t* to) {
  constexpr std::size_t kElement = sizeof(from[0]), kCount = sizeof(Integers) / kElement;
#ifdef __AVX512F__
  if constexpr (kElement == 4 && kCount == 16) {
    __m512i wide;
    std::memcpy(&wide, &from, sizeof wide);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_maskz_cvtepi32_epi8(kAll, wide));
    return;
  }
#endif
#ifdef __AVX2__
  if constexpr (kElement == 4) {
    const __m128i lowest = _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    for (std::size_t i = 0; i < kCount; i += 4) {
      __m128i wide;
      std::memcpy(&wide, reinterpret_cast<const char*>(&from) + i * kElement, sizeof wide);
      const std::int32_t bytes = _mm_cvtsi128_si32(_mm_shuffle_epi8(wide, lowest));
      std::memcpy(to + i, &bytes, sizeof bytes);
    }
    return;
  }
#endif
  for (std::size_t i = 0; i < kCount; ++i) to[i] = static_cast<std::uint8_t>(from[i]);
}

/// Neighbouring channels, stored as T. Vectors are passed by reference, because the calling convention for
/// passing by value depends on the target processor.
template <class T, std::int64_t kLanes>
struct ChannelBlock {
  using A = Arithmetic<T>;
  using Index = std::conditional_t<sizeof(A) == 8, std::int64_t, std::int32_t>;
  typedef A Values __attribute__((vector_size(kLanes * sizeof(A))));
  typedef Index Places __attribute__((vector_size(kLanes * sizeof(A))));
  // Dependent types, which GCC converts in templates only then.
  typedef std::make_unsigned_t<Index> Bits __attribute__((vector_size(kLanes * sizeof(A))));
  typedef std::conditional_t<sizeof(A) == 8, std::uint32_t, std::uint16_t> Upper
      __attribute__((vector_size(kLanes * sizeof(A) / 2)));
  typedef std::int32_t Stored __attribute__((vector_size(kLanes * sizeof(std::int32_t))));

  static void load(const T* from, Values& to) {
    if constexpr (std::is_same_v<T, A>) {
      std::memcpy(&to, from, sizeof(Values));
    } else {
      static_assert(std::is_same_v<T, BFloat16>);
      Upper upper;
      std::memcpy(&upper, from, sizeof(Upper));
      to = __builtin_bit_cast(Values, __builtin_convertvector(upper, Bits) << 16);
    }
  }
  /// The factor of several products. GCC, tuned for AMD's processors, would read it for each of them again.
  static void load_factor(const T* from, Values& to) {
    Values values;
    load(from, values);
#ifdef __AVX2__
    if constexpr (sizeof(Values) <= kRegisterBytes) asm("" : "+v"(values));  // NOLINT(hicpp-no-assembler)
#endif
    to = values;
  }
  /// Rounds as BFloat16 does.
  static void store(const Values& from, T* to) {
    if constexpr (std::is_same_v<T, A>) {
      std::memcpy(to, &from, sizeof(Values));
    } else {
      const Bits bits = __builtin_bit_cast(Bits, from);
      const Bits nearest = from == from ? bits + 0x7fffU + (bits >> 16 & 1U) : bits | 0x00400000U;
      const Upper upper = __builtin_convertvector(nearest >> 16, Upper);
      std::memcpy(static_cast<void*>(to), &upper, sizeof(Upper));
    }
  }
  static void load_places(const std::int32_t* from, Places& to) {
    Stored stored;
    std::memcpy(&stored, from, sizeof(Stored));
    to = __builtin_convertvector(stored, Places);
  }
  static void load_places(const std::uint8_t* from, Places& to) { widen_bytes(from, to); }
  static void store_places(const Places& from, std::int32_t* to) {
    const Stored stored = __builtin_convertvector(from, Stored);
    std::memcpy(to, &stored, sizeof(Stored));
  }
  static void store_places(const Places& from, std::uint8_t* to) { narrow_to_bytes(from, to); }
};

/// As Relu in ops/common/activations.hpp, which is bit-identical.
template <class Values>
void end_with_relu(float slope, Values& values) {
  values = values > 0 ? values : slope * values + 0.0f;
}

/// As ClipFunction there. The compiler would compare and choose, because of numbers that are none: these come
/// through, as the second operands of the instructions.
template <class Values>
void end_with_clip(const Values& low, const Values& high, Values& values) {
#ifdef __AVX512F__
  if constexpr (sizeof(Values) == 64 && sizeof(values[0]) == 4) {
    const auto raised =
        _mm512_maskz_max_ps(kAll, __builtin_bit_cast(__m512, low), __builtin_bit_cast(__m512, values));
    values = __builtin_bit_cast(Values, _mm512_maskz_min_ps(kAll, __builtin_bit_cast(__m512, high), raised));
    return;
  }
#endif
#ifdef __AVX2__
  if constexpr (sizeof(Values) == 32 && sizeof(values[0]) == 4) {
    const auto raised = _mm256_max_ps(__builtin_bit_cast(__m256, low), __builtin_bit_cast(__m256, values));
    values = __builtin_bit_cast(Values, _mm256_min_ps(__builtin_bit_cast(__m256, high), raised));
    return;
  }
#endif
  values = values < low ? low : values > high ? high : values;
}

/// One channel, with the same operations.
template <class T>
struct SingleChannel {
  using Values = Arithmetic<T>;
  using Places = std::int32_t;
  template <class Stored, class Value>
  static void load(const Stored* from, Value& to) {
    to = *from;
  }
  template <class Value, class Stored>
  static void store(const Value& from, Stored* to) {
    *to = static_cast<Stored>(from);
  }
  template <class M>
  static void load_places(const M* from, Places& to) {
    to = *from;
  }
  template <class M>
  static void store_places(const Places& from, M* to) {
    *to = static_cast<M>(from);
  }
};

/// As many as fit into a register, and 4 at least: longer vectors GCC compares one element at a time.
template <class T>
constexpr std::int64_t block_lanes() {
  return std::max<std::int64_t>(kRegisterBytes / sizeof(Arithmetic<T>), 4);
}

/// body(std::integral_constant) with the f32 lanes of vectors of the instruction set: fewer, where the
/// channels do not fill them.
template <class Body>
void with_f32_lanes(std::int64_t channels, const Body& body) {
  if constexpr (kRegisterBytes >= 64)  // elsewhere they would never be used
    if (instruction_set() == InstructionSet::avx512 && channels >= 16)
      return body(std::integral_constant<std::int64_t, 16>());
  body(std::integral_constant<std::int64_t, 8>());
}

/// The last `rest` channels, at most kLanes: by one block, or if there are not so many channels by smaller
/// ones.
template <class T, std::int64_t kLanes, class Block>
void for_last_channels(std::int64_t channels, std::int64_t rest, const Block& block) {
  if constexpr (kLanes > 4) {
    constexpr std::int64_t kHalf = kLanes / 2;
    if (rest <= kHalf) return for_last_channels<T, kHalf>(channels, rest, block);
    if (channels < kLanes) {
      block(0, ChannelBlock<T, kHalf>());
      return block(channels - kHalf, ChannelBlock<T, kHalf>());
    }
  } else if (channels < kLanes) {
    for (std::int64_t c = 0; c < channels; ++c) block(c, SingleChannel<T>());
    return;
  }
  block(channels - kLanes, ChannelBlock<T, kLanes>());
}

/// Calls block(first channel, ChannelBlock<T, lanes>()) until all channels are covered, with fewer lanes for
/// the last channels. The last block starts early rather than being short, so some channels are processed
/// twice: stored values must not depend on previous contents. Fewer channels than 4 are processed one by one.
template <class T, class Block>
void for_channel_blocks(std::int64_t channels, const Block& block) {
  constexpr std::int64_t kLanes = block_lanes<T>();
  std::int64_t first = 0;
  for (; first + kLanes <= channels; first += kLanes) block(first, ChannelBlock<T, kLanes>());
  if (first < channels) for_last_channels<T, kLanes>(channels, channels - first, block);
}

}  // namespace banyan::ops
