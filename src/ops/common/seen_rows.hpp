// Which rows of a map points between its pixels lie in, for those that gather a gradient row by row.
#pragma once

#include <cstdint>

#include "ops/common/backend.hpp"

namespace banyan::ops::detail {

/// Of the points of row i % rows of map i / rows: seen[2 i], seen[2 i + 1] are the first and the last row
/// above them; `over.point` says where each lies (row -1: outside).
template <class T, class Points>
struct SeenRows {
  Points over;
  std::int64_t height;         ///< of the map that they lie in
  std::int64_t rows, columns;  ///< of the points
  const T* moves;
  std::int32_t* seen;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    auto first = static_cast<std::int32_t>(height);
    std::int32_t last = -2;
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int32_t row = over.point(moves, i / rows, i % rows, column).row;
      if (row < 0) continue;
      first = row < first ? row : first;
      last = row > last ? row : last;
    }
    seen[2 * i] = first;
    seen[2 * i + 1] = last;
  }
};

}  // namespace banyan::ops::detail
