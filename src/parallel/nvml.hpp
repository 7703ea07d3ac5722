// NVML, loaded at run time if the driver has installed it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "banyan/parallel/links.hpp"

namespace banyan::parallel {

/// The NVLinks of the GPUs with these bus ids, in this order; nothing without NVML, or if it does not know
/// one of them.
std::optional<std::vector<NvLinks>> read_nvlinks(const std::vector<std::string>& bus_ids);

}  // namespace banyan::parallel
