// What `trainer time` reports about whole iterations, and about multiple devices working together.
#pragma once

#include <string>
#include <vector>

#include "banyan/observe/overlap.hpp"

namespace banyan {

/// Means over the counted iterations, milliseconds.
struct TimeReport {
  std::vector<std::string> devices;
  int iterations = 0;                      ///< counted ones
  std::int64_t samples_per_iteration = 0;  ///< of all devices
  double elapsed = 0;                      ///< of the counted iterations
  std::vector<IterationShares> shares;     ///< of each device
  std::vector<LayerTime> layers;           ///< mean over the devices
};

/// From a run of `warm_up` + some iterations on every device of the timeline.
TimeReport report_times(const Timeline& timeline, int warm_up);
/// Mean over the devices.
IterationShares mean_shares(const TimeReport& report);
/// Lines for the log: the shares of an iteration, with all devices side by side.
std::vector<std::string> share_lines(const TimeReport& report);
std::string time_json(const TimeReport& report);

}  // namespace banyan
