// Overlap: how much of an iteration is computing, and how much of the communication hides behind it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/observe/timeline.hpp"

namespace banyan {

/// Milliseconds of one iteration on one device. `total` is the sum of the members from compute to other.
struct IterationShares {
  std::int64_t iteration = 0;
  std::int64_t begin = 0;  ///< nanoseconds of the steady clock
  double total = 0;
  double compute = 0;     ///< in a layer's forward or backward, exchanges excluded
  double statistics = 0;  ///< in an exchange of batch normalization
  double divisors = 0;    ///< in another exchange (loss divisors, counts of accuracies)
  double gradients = 0;   ///< no layer at work, and buckets under way: work on them or waiting
  double update = 0;      ///< no layer at work: the optimizer on buckets owned here
  double data = 0;        ///< no layer at work, and the host waits for a batch
  double other = 0;
  double hidden = 0;  ///< of compute: while a bucket was under way
  /// Of statistics, divisors and gradients: another device has not come to the same exchange (or to the end
  /// of its backward pass) yet. The rest is what communicating costs.
  double skew = 0;
};

/// Every iteration of which the timeline holds the end, in order.
std::vector<IterationShares> measure_overlap(const Timeline& timeline, int device);

struct LayerTime {
  std::string layer;
  /// Milliseconds, exchanges included; what runs again for backward counts as backward.
  double forward = 0, backward = 0;
};
/// Sums over the iterations from `first` on, layers in the order of their first forward.
std::vector<LayerTime> measure_layers(const Timeline& timeline, int device, std::int64_t first);

}  // namespace banyan
