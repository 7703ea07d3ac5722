// Versions of the libraries that read data sets.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace banyan::data {

/// ("LMDB", "0.9.24"), ...
std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace banyan::data
