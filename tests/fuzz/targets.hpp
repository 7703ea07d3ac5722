// What `fuzz` feeds with broken bytes: each way in which a user's files reach the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace banyan::fuzz {

struct Target {
  const char* name;
  const char* about;
  std::vector<std::string> (*seeds)();
  /// Reads `bytes` as the program would; a banyan::Error is an answer, anything else thrown is a fault.
  void (*run)(std::string_view bytes);
  bool rehearses = false;  ///< in a copy of the process (io/hdf5_file.hpp)
};

const std::vector<Target>& targets();

}  // namespace banyan::fuzz
