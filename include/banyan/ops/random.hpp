// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). A value depends only on its key and counter, never on the device or thread that computes it.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define BANYAN_HOST_DEVICE __host__ __device__
#else
#define BANYAN_HOST_DEVICE
#endif

namespace banyan::ops {

struct Philox4 {
  std::uint32_t v[4];
};

BANYAN_HOST_DEVICE inline Philox4 philox(std::uint64_t key, std::uint64_t counter_high,
                                         std::uint64_t counter_low) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  std::uint32_t c0 = static_cast<std::uint32_t>(counter_low),
                c1 = static_cast<std::uint32_t>(counter_low >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(counter_high),
                c3 = static_cast<std::uint32_t>(counter_high >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = static_cast<std::uint64_t>(0xD2511F53u) * c0;
    const std::uint64_t p1 = static_cast<std::uint64_t>(0xCD9E8D57u) * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Uniform in [0, 1) with 24 random bits: every value is exact in float.
BANYAN_HOST_DEVICE inline float uniform01(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f);
}

/// Identifies a stream of random numbers: the solver's seed and the drawer (a layer, a data source).
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;     ///< hash of the layer's name, see stream_of
  std::uint64_t iteration = 0;  ///< iteration * iter_size + sub-iteration, or a record's position
  BANYAN_HOST_DEVICE std::uint64_t key() const {
    return seed ^ (static_cast<std::uint64_t>(stream) << 32 | (stream * 2654435761u));
  }
};

/// A RandomKey whose `iteration` is in device memory and is read when the kernel runs.
struct PassKey {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;
  const std::uint64_t* iteration = nullptr;
};

/// FNV-1a hash of a name: the same on every device, whatever else the net contains.
inline std::uint32_t stream_of(const char* name) {
  std::uint32_t hash = 2166136261u;
  for (; *name != 0; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 16777619u;
  return hash;
}

/// Random bits of elements 4 quad ... 4 quad + 3 (logical order) of one sample of the global batch; element e
/// has v[e % 4] of quad e / 4.
BANYAN_HOST_DEVICE inline Philox4 random_quad(const RandomKey& key, std::int64_t global_sample,
                                              std::int64_t quad) {
  return philox(key.key(), key.iteration,
                static_cast<std::uint64_t>(global_sample) << 32 ^ static_cast<std::uint64_t>(quad));
}

/// Where a device's samples are in the global batch: local sample i is global sample first + i * stride.
struct SampleIndex {
  std::int64_t first = 0;
  std::int64_t stride = 1;
};

}  // namespace banyan::ops
