#pragma once

#include <string>

namespace banyan {

/// As the system calls it.
std::string processor_name();

}  // namespace banyan
