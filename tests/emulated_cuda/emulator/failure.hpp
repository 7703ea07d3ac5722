// Calls that are made to fail (settings, fail=...).
#pragma once

#include <chrono>
#include <cstdint>

namespace emulated {

/// Calls that failed because of a setting, and calls that could have.
std::uint64_t failures_struck();
std::uint64_t calls_made();
struct FirstFailure {
  const char* call = "";  ///< a literal; "": none has failed
  std::chrono::steady_clock::time_point when;
};
FirstFailure first_failure();
/// Counting starts again, and GPUs that had failed for good work again.
void forget_failures();

}  // namespace emulated
