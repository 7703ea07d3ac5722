// Versions of the mathematical libraries that the program runs with.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace banyan::ops {

/// ("oneDNN", "2.6.3"), ("OpenBLAS", "0.3.21 ...")
std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace banyan::ops
