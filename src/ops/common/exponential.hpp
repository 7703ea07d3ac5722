// e^x and a logarithm in arithmetic that the compiler vectorizes; library functions would be called once per
// number.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "ops/common/backend.hpp"

namespace banyan::ops::detail {

/// e^x is 2^steps times the series, for |x| below 10^4.
struct ExponentialParts {
  float series;
  std::int32_t steps;
};
/// With n the integer nearest to x / ln 2, it is 2^n times the Taylor series of e^r up to r^7, with r = x - n
/// ln 2 in +-0.35. ln 2 is split into two parts; n times the first is exact.
BANYAN_HOST_DEVICE inline ExponentialParts exponential_parts(float x) {
  constexpr float kWhole = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const float shifted = x * 1.44269504f + kWhole, n = shifted - kWhole;
  const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
  float series = 1.0f / 5040;
  for (const float term : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 1.0f / 2, 1.0f, 1.0f})
    series = series * r + term;
  return {series, std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kWhole)};
}
/// e^x within 2 units in the last place (relative 2^-22.9); 0 below -104, infinite above 89, NaN for NaN.
BANYAN_HOST_DEVICE inline float exponential(float x) {
  const ExponentialParts parts = exponential_parts(x < -104 ? -104.0f : x > 89 ? 89.0f : x);
  // Two factors, because 2^n itself may be subnormal.
  const std::int32_t half = parts.steps / 2, rest = parts.steps - half;
  return parts.series * std::bit_cast<float>((half + 127) << 23) * std::bit_cast<float>((rest + 127) << 23);
}
BANYAN_HOST_DEVICE inline double exponential(double x) { return std::exp(x); }

/// The same for x in +-87; beyond that it stays what it is there, 2^-125.5 or 2^125.5.
BANYAN_HOST_DEVICE inline float bounded_exponential(float x) {
  const ExponentialParts parts = exponential_parts(x < -87 ? -87.0f : x > 87 ? 87.0f : x);
  return parts.series * std::bit_cast<float>((parts.steps + 127) << 23);
}
BANYAN_HOST_DEVICE inline double bounded_exponential(double x) { return std::exp(x); }

/// log(1 + t) for t in [0, 1], within 4 units in the last place, NaN for NaN. With s = t / (2 + t) it is 2
/// artanh(s) = 2 (s + s^3 / 3 + s^5 / 5 + ...), and s is at most 1/3: the terms from s^15 on are below 2^-25
/// of the sum.
BANYAN_HOST_DEVICE inline float log_one_plus(float t) {
  const float s = t / (2 + t), square = s * s;
  float series = 1.0f / 13;
  for (const float term : {1.0f / 11, 1.0f / 9, 1.0f / 7, 1.0f / 5, 1.0f / 3, 1.0f})
    series = series * square + term;
  return 2 * s * series;
}
BANYAN_HOST_DEVICE inline double log_one_plus(double t) { return std::log1p(t); }

}  // namespace banyan::ops::detail
