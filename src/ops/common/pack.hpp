// Neighbours in memory that GPUs move at once: a thread that moved single elements would leave most of the
// memory's bandwidth unused.
//
// A functor may say what it reads and writes at its own index, and at no other:
//   using Element = T;            type of all of it
//   static constexpr int kReads;  number of arrays read
//   each_read(visit)              visit(pointer) for each of them, `const T*` by reference
//   each_write(visit)             the same for what operator() writes, at most one `T*`
// A copy of it can then work on elements 0 to W - 1 of a thread's own memory
// (PackOfReads::functor), which compilers keep in registers.
#pragma once

#include <cstdint>

#include "banyan/ops/operator.hpp"

/// Before a loop over a pack: unrolled, it indexes registers.
#ifdef __CUDA_ARCH__
#define BANYAN_UNROLLED _Pragma("unroll")
#else
#define BANYAN_UNROLLED
#endif

namespace banyan::ops {

template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
  T values[kWidth];
};

/// The pack whose first element is *first.
template <int kWidth, class T>
BANYAN_HOST_DEVICE Pack<T, kWidth>& pack_at(T* first) {
  return *reinterpret_cast<Pack<T, kWidth>*>(first);
}
template <int kWidth, class T>
BANYAN_HOST_DEVICE const Pack<T, kWidth>& pack_at(const T* first) {
  return *reinterpret_cast<const Pack<T, kWidth>*>(first);
}
/// May it be, wherever the index is a multiple of kWidth?
template <int kWidth, class T>
bool is_aligned_for_packs(const T* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % sizeof(Pack<T, kWidth>) == 0;
}

template <class T, int kWidth>
BANYAN_HOST_DEVICE void store_pack(const Pack<T, kWidth>& pack, T* first, bool aligned) {
  if (aligned) {
    pack_at<kWidth>(first) = pack;
  } else {
    BANYAN_UNROLLED
    for (int w = 0; w < kWidth; ++w) first[w] = pack.values[w];
  }
}

template <class F>
concept ReadsAtItsIndex = requires {
  F::kReads;
  typename F::Element;
};

/// Can all that it reads and writes be moved in packs whose first element's index is a multiple of kWidth?
template <int kWidth, ReadsAtItsIndex F>
bool is_aligned_for_packs(F f) {
  bool aligned = true;
  const auto look = [&aligned](const typename F::Element* memory) {
    aligned = aligned && is_aligned_for_packs<kWidth>(memory);
  };
  f.each_read(look);
  if constexpr (requires { f.each_write(look); }) f.each_write(look);
  return aligned;
}

/// Of a functor: what it reads at kWidth neighbouring indices.
template <class F, int kWidth>
struct PackOfReads {
  using T = typename F::Element;
  Pack<T, kWidth> reads[F::kReads];

  BANYAN_HOST_DEVICE void load(F f, std::int64_t first, bool aligned) {
    int k = 0;
    f.each_read([this, &k, first, aligned](const T*& from) {
      if (aligned) {
        reads[k] = pack_at<kWidth>(from + first);
      } else {
        BANYAN_UNROLLED
        for (int w = 0; w < kWidth; ++w) reads[k].values[w] = from[first + w];
      }
      ++k;
    });
  }
  /// The functor for which element w is that of the pack.
  BANYAN_HOST_DEVICE F functor(F f) const {
    int k = 0;
    f.each_read([this, &k](const T*& from) { from = reads[k++].values; });
    return f;
  }
};

}  // namespace banyan::ops
