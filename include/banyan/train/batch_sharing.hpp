// BatchSharing: SharedBatches between processes that are joined by a wire (--share_data). Process 0 makes the
// batches of all of them, on threads of its own.
#pragma once

#include <memory>

#include "banyan/data/shared_batches.hpp"
#include "banyan/parallel/wire_uplink.hpp"

namespace banyan {

/// Uses the uplink until that ends; process 0 answers until then. All processes call it.
std::shared_ptr<data::SharedBatches> share_batches(parallel::WireUplink& uplink);

}  // namespace banyan
