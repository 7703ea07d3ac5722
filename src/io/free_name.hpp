// Names of layers and blobs that an upgrade makes.
#pragma once

#include <set>
#include <string>

namespace banyan::io {

/// The name, or one like it that is not taken.
inline std::string free_name(std::string name, const std::set<std::string>& taken) {
  while (taken.contains(name)) name += "_";
  return name;
}

}  // namespace banyan::io
