// A GPU rounds otherwise than the host: its library functions and products differ in the last places, and
// products even between shapes. The setting ulps=N makes the emulated ones differ as well, so that a test or
// a promise that holds only because both are the host's is found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace emulated {

/// What the way of computing depends on (never the values): sizes, alignment, algorithm.
class Way {
 public:
  template <class... Numbers>
  explicit Way(Numbers... numbers) {
    ((hash_ = (hash_ ^ static_cast<std::uint64_t>(numbers)) * 0x9E3779B97F4A7C15u, hash_ ^= hash_ >> 32),
     ...);
  }
  std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t hash_ = 0x243F6A8885A308D3u;
};

/// Sums of products computed this way: up to ulps units of the greater of the value and the values' root mean
/// square. What looks exact (a number of few bits) stays: such sums are exact everywhere.
void round_otherwise(float* values, std::size_t count, const Way& way);
void round_otherwise(double* values, std::size_t count, const Way& way);

/// The nearest TF32 (10 bits of mantissa): what tensor cores make of a product's f32 factor. GPUs before
/// compute capability 8.0 have none.
float as_tf32(float value);
bool has_tf32();

/// A bfloat16: the upper half of a float.
struct Bf16 {
  std::uint16_t bits;
};
inline bool has_bf16() { return has_tf32(); }  // from the same GPUs on
float as_float(Bf16 value);
/// To the nearest, ties to even; NaN stays NaN.
Bf16 as_bf16(float value);

/// What products of such elements are summed in, and scaled by.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace emulated
