// How far apart two results are.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace banyan {

/// || a - b || / || a ||; 0 if they are equal.
inline double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += a[i] * a[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

}  // namespace banyan
