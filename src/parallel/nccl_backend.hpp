// What libbanyan asks the CUDA back end for.
#pragma once

#include <string>

#include "banyan/parallel/device_wire.hpp"

namespace banyan::parallel {

/// The number counts changes to DeviceWires and DeviceWire: a library from another build is refused.
inline constexpr const char* kNcclBackendSymbol = "banyan_nccl_backend_2";
/// Type of the exported function; null, with the reason in `why`, if there is no NCCL.
using NcclBackendFunction = const DeviceWires* (*)(std::string* why);

}  // namespace banyan::parallel
