// Checks of settings. Internal to the room.
#pragma once

#include <cmath>
#include <string>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan::data {

/// Refuses a value of `field` that is not in [low, high].
struct RangeCheck {
  const std::string& layer;
  std::string message;
  void operator()(const char* field, double value, double low, double high = HUGE_VAL) const {
    if (value >= low && value <= high) return;
    bad_input("layer ", quoted(layer), ": ", message, ".", field, " must be ",
              high == HUGE_VAL ? cat("at least ", low) : cat("in [", low, ", ", high, "]"), ", not ", value);
  }
};

}  // namespace banyan::data
