// Overlap: how much of an iteration is computation, and how much of the communication it hides.
#pragma once

#include <cstdint>
#include <span>
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
  double divisors = 0;    ///< in another exchange (loss divisors, accuracy counts)
  double gradients = 0;   ///< no layer running, buckets in flight: working on them or waiting
  double update = 0;      ///< no layer running: the optimizer on buckets owned here
  double data = 0;        ///< no layer running, the host waits for a batch
  double other = 0;
  double hidden = 0;  ///< part of compute: while a bucket was in flight
  /// Part of statistics, divisors and gradients: another device has not reached the same exchange (or the end
  /// of its backward pass) yet. The rest is the cost of communication.
  double skew = 0;
};

/// One figure of IterationShares, as reports show it.
struct ShareFigure {
  const char* title;  ///< indented where it is a part of the one above
  const char* key;    ///< in JSON
  double (*value)(const IterationShares&);
};
/// From compute to hidden communication.
std::span<const ShareFigure> share_figures();

/// The finished spans of each device.
using SpansOfDevices = std::vector<std::vector<RecordedSpan>>;
SpansOfDevices spans_of(const Timeline& timeline);

/// For each device every iteration whose end is among its spans, in order.
std::vector<std::vector<IterationShares>> measure_overlap(const SpansOfDevices& devices);

struct LayerTime {
  std::string layer;
  /// Milliseconds, exchanges included; recomputation counts as backward.
  double forward = 0, backward = 0;
};
/// Sums over the iterations from `first` on, layers in the order of their first forward.
std::vector<LayerTime> measure_layers(const std::vector<RecordedSpan>& spans, std::int64_t first);

}  // namespace banyan
