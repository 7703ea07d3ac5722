#include "rounding.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "machine.hpp"

namespace emulated {

namespace {

/// NVIDIA's bound for most functions; some have a greater one.
constexpr int kMostUlpsOfFunctions = 2;

template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// Few bits: the result of exact arithmetic, as far as one can tell. Infinite and NaN, too.
template <class T>
bool looks_exact(T value) {
  constexpr int kLowBits = std::numeric_limits<T>::digits / 3;
  return !std::isfinite(value) || (std::bit_cast<Bits<T>>(value) & ((Bits<T>{1} << kLowBits) - 1)) == 0;
}

/// In [-most, most], as way and value decide.
template <class T>
int error_of(T value, int most, std::uint64_t way) {
  std::uint64_t hash = (way ^ std::bit_cast<Bits<T>>(value)) * 0xFF51AFD7ED558CCDu;
  hash ^= hash >> 33;
  return static_cast<int>(hash % (2 * static_cast<std::uint64_t>(most) + 1)) - most;
}

template <class T>
void round_all(T* values, std::size_t count, const Way& way) {
  const int most = settings().ulps;
  if (most == 0 || count == 0) return;
  double squares = 0;
  for (std::size_t i = 0; i < count; ++i) squares += static_cast<double>(values[i]) * values[i];
  const T mean = static_cast<T>(std::sqrt(squares / static_cast<double>(count)));
  for (std::size_t i = 0; i < count; ++i) {
    T& value = values[i];
    if (looks_exact(value)) continue;
    const T unit = std::max(std::abs(value), mean) * std::numeric_limits<T>::epsilon();
    if (std::isfinite(unit)) value += static_cast<T>(error_of(value, most, way.hash())) * unit;
  }
}

/// The value of a library function for a kernel.
template <class T>
T of_a_gpu(T value) {
  const int most = running == nullptr ? 0 : std::min(settings().ulps, kMostUlpsOfFunctions);
  if (most == 0 || looks_exact(value)) return value;
  return value +
         static_cast<T>(error_of(value, most, 0)) * std::abs(value) * (std::numeric_limits<T>::epsilon() / 2);
}

}  // namespace

void round_otherwise(float* values, std::size_t count, const Way& way) { round_all(values, count, way); }
void round_otherwise(double* values, std::size_t count, const Way& way) { round_all(values, count, way); }

float as_tf32(float value) {
  if (!std::isfinite(value)) return value;
  constexpr std::uint32_t kDropped = 13;
  // Half of the last bit that stays; a carry goes into the exponent, as it should.
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) + (1u << (kDropped - 1));
  return std::bit_cast<float>(bits >> kDropped << kDropped);
}

bool has_tf32() { return settings().capability >= 80; }

float as_float(Bf16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }

Bf16 as_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t upper = bits >> 16, lower = bits & 0xFFFF;
  if (std::isnan(value)) return {static_cast<std::uint16_t>(upper | 0x40)};  // quiet: still a NaN
  const bool up = lower > 0x8000 || (lower == 0x8000 && upper % 2 == 1);
  return {static_cast<std::uint16_t>(upper + (up ? 1 : 0))};
}

}  // namespace emulated

// The linker gives these to everything in the library instead of the host's functions (--wrap,
// CMakeLists.txt).
#define EMULATED_FUNCTION(T, NAME) \
  T __real_##NAME(T x);            \
  T __wrap_##NAME(T x) { return emulated::of_a_gpu(__real_##NAME(x)); }
#define EMULATED_FUNCTION_OF_TWO(T, NAME) \
  T __real_##NAME(T x, T y);              \
  T __wrap_##NAME(T x, T y) { return emulated::of_a_gpu(__real_##NAME(x, y)); }

extern "C" {
EMULATED_FUNCTION(float, cosf)
EMULATED_FUNCTION(double, cos)
EMULATED_FUNCTION(float, expf)
EMULATED_FUNCTION(double, exp)
EMULATED_FUNCTION(float, expm1f)
EMULATED_FUNCTION(double, expm1)
EMULATED_FUNCTION(float, logf)
EMULATED_FUNCTION(double, log)
EMULATED_FUNCTION(float, log1pf)
EMULATED_FUNCTION(double, log1p)
EMULATED_FUNCTION(float, sinf)
EMULATED_FUNCTION(double, sin)
EMULATED_FUNCTION(float, tanhf)
EMULATED_FUNCTION(double, tanh)
EMULATED_FUNCTION_OF_TWO(float, powf)
EMULATED_FUNCTION_OF_TWO(double, pow)
}
