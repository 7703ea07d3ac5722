// Numbers in data that say where something is.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/common/backend.hpp"

namespace banyan::ops::detail {

/// The number if it is an integer in [0, limit); -1 for anything else, NaN included.
template <class T>
BANYAN_HOST_DEVICE inline std::int64_t index_below(T value, std::int64_t limit) {
  const bool valid = value >= T(0) && value < static_cast<T>(limit) && value == std::floor(value);
  return valid ? static_cast<std::int64_t>(value) : -1;
}

}  // namespace banyan::ops::detail
