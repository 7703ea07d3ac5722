#include "parallel/wire_values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "banyan/base/error.hpp"
#include "banyan/tensor/half.hpp"

namespace banyan::parallel {
namespace {

float scale_of(const float* values, std::int64_t count) {
  float largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  return half_scale(largest);
}

constexpr std::int64_t kValuesAtOnce = 1024;  // values that stay in the first cache

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

/// A cache line that another process has read must be asked for once more to be written, and one that a
/// device has written lies in its core's cache. These are asked for to be written, all at once, before they
/// are read: one request each instead of two, and none that waits for the one before it. The baseline of x86
/// has no such request, and its compilers then ask for a line to be read; but processors ignore what they
/// lack.
void fetch_to_write(const char* begin, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64)
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(begin[i]));
#else
    __builtin_prefetch(begin + i, /*rw=*/1);
#endif
}

/// Calls add(begin, size) for one block after the other, while the next one of `out` is fetched.
template <class T, class Add>
void in_blocks(std::int64_t count, T* out, const Add& add) {
  const auto fetch = [out](std::int64_t first, std::int64_t values) {
    fetch_to_write(reinterpret_cast<const char*>(out + first), values * static_cast<std::int64_t>(sizeof(T)));
  };
  fetch(0, std::min(kValuesAtOnce, count));
  for (std::int64_t begin = 0; begin < count; begin += kValuesAtOnce) {
    const std::int64_t size = std::min(kValuesAtOnce, count - begin), next = begin + size;
    fetch(next, std::min(kValuesAtOnce, count - next));
    add(begin, size);
  }
}

/// In order; `out` may be one of the parts.
template <class T>
void sum_plain(const std::vector<SumPart>& parts, std::int64_t count, T* out) {
  T block[kValuesAtOnce];
  const std::size_t last = parts.size() - 1;
  in_blocks(count, out, [&](std::int64_t begin, std::int64_t size) {
    const auto part = [&](std::size_t p) { return reinterpret_cast<const T*>(parts[p].data) + begin; };
    for (std::size_t p = 1; p <= last; ++p) {
      const T *first = p == 1 ? part(0) : block, *second = part(p);
      T* to = p == last ? out + begin : block;
      // Each value is read before it is written, so that what is the same memory does no harm.
#pragma GCC ivdep
      for (std::int64_t i = 0; i < size; ++i) to[i] = first[i] + second[i];
    }
  });
}

template <class T>
void sum(const std::vector<SumPart>& parts, std::int64_t count, DType packed, T* out) {
  const bool plain =
      std::none_of(parts.begin(), parts.end(), [](const SumPart& part) { return part.packed; });
  if (plain && parts.size() > 1) {
    sum_plain(parts, count, out);
    return;
  }
  T block[kValuesAtOnce];
  in_blocks(count, out, [&](std::int64_t begin, std::int64_t size) {
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
  });
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
