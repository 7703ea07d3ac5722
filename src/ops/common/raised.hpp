// Powers, of which the usual ones are exact and quick.
#pragma once

#include <cmath>

#include "ops/common/backend.hpp"

namespace banyan::ops::detail {

template <class T>
BANYAN_HOST_DEVICE inline T raised(T base, T power) {
  if (power == T(1)) return base;
  if (power == T(2)) return base * base;
  if (power == T(0.5)) return std::sqrt(base);
  return std::pow(base, power);
}
/// d base^power / d base.
template <class T>
BANYAN_HOST_DEVICE inline T raised_slope(T base, T power) {
  if (power == T(1)) return T(1);
  if (power == T(2)) return T(2) * base;
  if (power == T(0.5)) return T(0.5) / std::sqrt(base);
  return power * std::pow(base, power - T(1));
}

}  // namespace banyan::ops::detail
