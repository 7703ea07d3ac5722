// Where the sequences of CTC end.
#pragma once

#include "ops/common/backend.hpp"
#include "ops/common/optional_data.hpp"

namespace banyan::ops::detail {

template <class T>
BANYAN_HOST_DEVICE inline bool ends_before(const T* marks, std::int64_t sequences, std::int64_t n,
                                           std::int64_t t) {
  const T mark = marks[t * sequences + n];
  return mark > T(-1.5) && mark < T(0.5);  // what C++ truncates to 0 when 0.5 is added
}

/// Time steps of sequence n.
template <class T>
BANYAN_HOST_DEVICE inline std::int64_t marked_steps(const T* marks, std::int64_t steps,
                                                    std::int64_t sequences, std::int64_t n) {
  if (marks == nullptr || steps == 0) return steps;
  std::int64_t t = 1;
  while (t < steps && !ends_before(marks, sequences, n, t)) ++t;
  return t;
}

}  // namespace banyan::ops::detail
