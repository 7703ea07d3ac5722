// Memory held by all devices of this process. For tests and reports.
#pragma once

#include "banyan/device/device.hpp"

namespace banyan {

/// Bytes of all devices, past and present; what a device still held when it was destroyed counts as in use.
MemoryUse memory_of_all_devices();

/// Resets the peak to what is in use now. Not while devices allocate.
void reset_peak_of_all_devices();

}  // namespace banyan
