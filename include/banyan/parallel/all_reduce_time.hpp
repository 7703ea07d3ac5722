// Times sums over the whole device tree, computed by the code that training uses: short messages by
// StatisticsExchange, long ones by GradientSync, without an update.
#pragma once

#include <cstddef>
#include <vector>

#include "banyan/parallel/device_tree.hpp"

namespace banyan::parallel {

struct AllReduceTime {
  std::size_t bytes = 0;
  double seconds_median = 0;  ///< on device 0
  int repeats = 0;
};

/// f32 sums of each of `sizes` bytes over all members, and those of the other processes if there is an
/// uplink, `repeats` times (0: as many as fit in a fraction of a second). Sums are checked once per size; a
/// wrong one is a runtime failure. Starts a thread per device.
std::vector<AllReduceTime> time_all_reduce(const LinkMatrix& links, const Tree& tree,
                                           const std::vector<Member>& members,
                                           const std::vector<std::size_t>& sizes, int repeats,
                                           AbortState& abort, SpinPolicy policy, Uplink* uplink = nullptr);

}  // namespace banyan::parallel
