// Verifies and measures links between devices, for `trainer topology` and `trainer doctor`.
#pragma once

#include <vector>

#include "topology_report.hpp"

namespace banyan {

/// Fills report.measured: every pair in both directions, with many devices the tree's links only. Ends at the
/// first link that stalls: the devices concerned may be stuck.
void measure_links(const std::vector<Device*>& devices, TopologyReport& report);

}  // namespace banyan
