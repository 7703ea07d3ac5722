// What all devices of this process hold together. For tests and reports.
#pragma once

#include "banyan/device/device.hpp"

namespace banyan {

/// Bytes of all devices that live or ever lived; what a device still held at its end stays in use.
MemoryUse memory_of_all_devices();

/// The peak counts anew from what is in use now. Not while devices allocate.
void reset_peak_of_all_devices();

}  // namespace banyan
