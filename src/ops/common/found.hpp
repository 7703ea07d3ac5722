// What reducers that look for one element have in common.
#pragma once

#include <cstdint>

#include "ops/common/backend.hpp"

namespace banyan::ops::detail {

/// The first of what is looked for in a pass: 1 + its number (0: none), and its value.
struct Found {
  double place, value;
  BANYAN_HOST_DEVICE void note(const Found& other) {
    if (other.place != 0 && (place == 0 || other.place < place)) *this = other;
  }
  /// As 1 + number and value, or, with rows of `inner` elements, as 1 + row, number in the row and value. The
  /// record of an earlier pass stays until the host has read it.
  BANYAN_HOST_DEVICE void keep(double* noted, std::int64_t inner) const {
    if (place == 0 || noted[0] != 0) return;
    const auto number = static_cast<std::int64_t>(place) - 1;
    noted[0] = inner > 0 ? static_cast<double>(number / inner + 1) : place;
    if (inner > 0) noted[1] = static_cast<double>(number % inner);
    noted[inner > 0 ? 2 : 1] = value;
  }
};

/// A reducer that looks for the first element of a kind, which its add() knows.
struct FindFirst {
  using State = Found;
  double* noted;
  std::int64_t inner;  ///< 0: there are no rows
  BANYAN_HOST_DEVICE State identity() const { return {0, 0}; }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { into.note(later); }
  BANYAN_HOST_DEVICE void store(std::int64_t, const State& s) const { s.keep(noted, inner); }
  static BANYAN_HOST_DEVICE void note(State& s, std::int64_t number, double value) {
    s.note({static_cast<double>(number + 1), value});
  }
};

}  // namespace banyan::ops::detail
