// Loops over the channels of channels-last pixels, with vectors that stay in registers.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "banyan/tensor/bfloat16.hpp"

namespace banyan::ops {

inline constexpr std::int64_t kBlockLanes = 16;

/// Neighbouring channels, stored as T. Vectors are passed by reference, because the calling convention for
/// passing by value depends on the target processor.
template <class T, std::int64_t kLanes = kBlockLanes>
struct ChannelBlock {
  using A = Arithmetic<T>;
  using Index = std::conditional_t<sizeof(A) == 8, std::int64_t, std::int32_t>;
  typedef A Values __attribute__((vector_size(kLanes * sizeof(A))));
  typedef Index Places __attribute__((vector_size(kLanes * sizeof(A))));
  typedef std::int32_t Stored __attribute__((vector_size(kLanes * sizeof(std::int32_t))));

  static void load(const T* from, Values& to) {
    if constexpr (std::is_same_v<T, A>)
      std::memcpy(&to, from, sizeof(Values));
    else
      for (std::int64_t lane = 0; lane < kLanes; ++lane) to[lane] = from[lane];
  }
  static void store(const Values& from, T* to) {
    if constexpr (std::is_same_v<T, A>)
      std::memcpy(to, &from, sizeof(Values));
    else
      for (std::int64_t lane = 0; lane < kLanes; ++lane) to[lane] = static_cast<T>(from[lane]);
  }
  static void load(const std::int32_t* from, Places& to) {
    Stored stored;
    std::memcpy(&stored, from, sizeof(Stored));
    to = __builtin_convertvector(stored, Places);
  }
  static void store(const Places& from, std::int32_t* to) {
    const Stored stored = __builtin_convertvector(from, Stored);
    std::memcpy(to, &stored, sizeof(Stored));
  }
};

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
};

/// Calls block(first channel, ChannelBlock<T>()) until all channels are covered. The last block starts early
/// rather than being short, so some channels are processed twice: stored values must not depend on previous
/// contents. If there are fewer channels than a block has, they are processed one by one.
template <class T, class Block>
void for_channel_blocks(std::int64_t channels, const Block& block) {
  std::int64_t first = 0;
  if (channels < kBlockLanes)
    for (; first < channels; ++first) block(first, SingleChannel<T>());
  for (; first + kBlockLanes <= channels; first += kBlockLanes) block(first, ChannelBlock<T>());
  if (first < channels) block(channels - kBlockLanes, ChannelBlock<T>());
}

}  // namespace banyan::ops
