// Histogram: how many of many numbers lie where. Buckets grow with the distance from 0, eight from one power
// of two to the next, so that weights and tiny gradients show in equal detail.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace banyan::metrics {

/// Numbers that are not finite are only counted.
struct Histogram {
  double min = 0, max = 0, sum = 0, sum_of_squares = 0;  ///< of the finite ones
  std::int64_t count = 0;                                ///< the same
  std::int64_t not_finite = 0;
  /// Ascending; bucket i holds those from limits[i - 1] to limits[i], the first all up to its limit.
  std::vector<double> limits;
  std::vector<std::int64_t> counts;
};

class HistogramMaker {
 public:
  void add(std::span<const float> values) { add_all(values); }
  void add(std::span<const double> values) { add_all(values); }
  /// Neither leading nor trailing buckets are empty, and no two neighbours.
  Histogram make() const;

 private:
  /// From 2^-kRange to 2^kRange; what is nearer to 0 is in one bucket around it, what is beyond in the last.
  static constexpr int kRange = 40, kPerOctave = 8, kSide = 2 * kRange * kPerOctave;
  template <class T>
  void add_all(std::span<const T> values);
  static double limit_of(int bucket);
  double min_ = 0, max_ = 0, sum_ = 0, squares_ = 0;
  std::int64_t count_ = 0, not_finite_ = 0;
  std::array<std::int64_t, 2 * kSide + 1>
      counts_{};  ///< descending negative ones, 0, ascending positive ones
};

}  // namespace banyan::metrics
