// Largest values along an axis: contiguous memory seen as outer x length x inner.
#pragma once

#include "banyan/ops/loss.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// The `k` largest of the channels at each position, the largest first; of equal ones the later channel
/// first, and NaN before all. places[outer, rank, inner]: their channels; values: the same for
/// what they hold. Either may be undefined. `stride`: elements from one outer index to the next in both
/// results, at least k * inner.
inline constinit Operator<void(const Tensor& x, const Channels& over, int k, std::int64_t stride,
                               Tensor& places, Tensor& values)>
    largest{"largest"};

/// y = x at the `k` channels that places[outer, rank, inner] names at each position, 0 at all others.
inline constinit Operator<void(const Tensor& x, const Tensor& places, const Channels& over, int k, Tensor& y)>
    keep_places{"keep_places"};

/// How a part of an axis becomes one value: the sum, the mean, or the mean of the k largest (of all if there
/// are fewer).
struct PartReduction {
  enum class Kind : std::uint8_t { sum, mean, largest };
  Kind kind = Kind::sum;
  int k = 1;
  std::int64_t first = 0, count = 0;  ///< the channels first, first + step..., `count` of them
  std::int64_t part = 0, parts = 1;   ///< which of how many values of y, outer x parts x inner
  std::int64_t step = 1;              ///< from one of these channels to the next
};
inline constinit Operator<void(const Tensor& x, const Channels& over, const PartReduction& what, Tensor& y)>
    reduce_part{"reduce_part"};
/// Overwrites the channels of dx that belong to the part.
inline constinit Operator<void(const Tensor& x, const Tensor& dy, const Channels& over,
                               const PartReduction& what, Tensor& dx)>
    reduce_part_backward{"reduce_part_backward"};

}  // namespace banyan::ops
