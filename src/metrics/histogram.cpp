#include "banyan/metrics/histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace banyan::metrics {

/// The exponent and the three highest bits of the mantissa of a double are, as one number, the place on the
/// scale of buckets.
template <class T>
void HistogramMaker::add_all(std::span<const T> values) {
  constexpr int kMantissaBits = 52, kBias = 1023, kSubBits = std::countr_zero(unsigned{kPerOctave});
  constexpr std::int64_t kFirst = std::int64_t{kBias - kRange} << kSubBits;
  for (const T value : values) {
    const auto x = static_cast<double>(value);
    if (!std::isfinite(x)) {
      ++not_finite_;
      continue;
    }
    if (count_++ == 0) min_ = max_ = x;
    min_ = std::min(min_, x);
    max_ = std::max(max_, x);
    sum_ += x;
    squares_ += x * x;
    const auto place =
        static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(std::abs(x)) >> (kMantissaBits - kSubBits));
    const std::int64_t distance = std::clamp<std::int64_t>(place - kFirst + 1, 0, kSide);
    ++counts_[static_cast<std::size_t>(x < 0 ? kSide - distance : kSide + distance)];
  }
}
template void HistogramMaker::add_all(std::span<const float>);
template void HistogramMaker::add_all(std::span<const double>);

/// The upper end. Distance d of the bucket from the middle one: it holds magnitudes from edge(d - 1) to
/// edge(d).
double HistogramMaker::limit_of(int bucket) {
  const auto edge = [](int distance) {
    const int octave = distance / kPerOctave, part = distance % kPerOctave;
    return std::ldexp(1 + static_cast<double>(part) / kPerOctave, octave - kRange);
  };
  const int distance = bucket - kSide;
  return distance >= 0 ? edge(distance) : -edge(-distance - 1);
}

Histogram HistogramMaker::make() const {
  Histogram made;
  made.min = min_;
  made.max = max_;
  made.sum = sum_;
  made.sum_of_squares = squares_;
  made.count = count_;
  made.not_finite = not_finite_;
  int last = -1;
  for (int bucket = 0; bucket < static_cast<int>(counts_.size()); ++bucket) {
    const std::int64_t count = counts_[static_cast<std::size_t>(bucket)];
    if (count == 0) continue;
    if (last >= 0 && last + 1 < bucket) {
      made.limits.push_back(limit_of(bucket - 1));
      made.counts.push_back(0);
    }
    made.limits.push_back(limit_of(bucket));
    made.counts.push_back(count);
    last = bucket;
  }
  // The outermost buckets have no end.
  if (!made.limits.empty()) made.limits.back() = std::max(made.limits.back(), max_);
  return made;
}

}  // namespace banyan::metrics
