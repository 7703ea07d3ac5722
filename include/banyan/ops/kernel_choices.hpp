// Which kernels a library chose where another choice would not have been bit-identical.
#pragma once

#include <map>
#include <string>

namespace banyan::ops {

/// Work -> kernel, such as "forward of 32 3 224 224 (4816896)" -> "cuDNN's algorithm 1, contiguous".
using KernelChoices = std::map<std::string, std::string>;

}  // namespace banyan::ops
