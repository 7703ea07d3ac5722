// Boxes on the host: non-maximum suppression. What decides over boxes one after the other
// is small and sequential, so it runs there on any device.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/base/box.hpp"

namespace banyan {

/// What the area that two boxes share is compared with.
enum class SharedWith : std::uint8_t {
  both,     ///< the union (IOU)
  smaller,  ///< the smaller one (IOMU)
  kept      ///< the one that is kept (IOFU)
};

/// Non-maximum suppression: goes through the boxes in `order` and keeps each that overlaps no kept one by
/// more than `threshold`. Returns the kept ones in that order.
struct Suppression {
  double threshold = 0.3;
  int top_k = -1;  ///< only this many first of `order` are candidates; -1: all
  /// After each kept box the threshold is multiplied by this while it is above 0.5.
  double eta = 1;
  Corners corners = Corners::points;
  std::int64_t most = -1;  ///< ends when this many are kept; -1: never
  SharedWith shared_with = SharedWith::both;
};
std::vector<int> suppress(const std::vector<Box>& boxes, const std::vector<int>& order,
                          const Suppression& how);
/// `fraction` of `count`, in f32: 0.7 of 10 is 7, which it is not after 0.7 as a float has become a double.
inline float part_of(std::int64_t count, float fraction) { return static_cast<float>(count) * fraction; }

/// The score to 20 bits after the first, NaN lowest. What differs less does so by rounding, which is not the
/// same for every number of devices, nor for every place of an image.
double rank_of(double score);
/// `candidates`, those of a higher rank first, of equal ones in the order given.
std::vector<int> by_score(std::vector<int> candidates, const std::vector<double>& scores);
/// The first `count` of them, in any order. The candidates must be given in ascending order.
std::vector<int> best_by_score(std::vector<int> candidates, const std::vector<double>& scores,
                               std::size_t count);

}  // namespace banyan
