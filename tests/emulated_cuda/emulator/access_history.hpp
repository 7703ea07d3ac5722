// Which work used which memory last: finds two pieces of work that use the same bytes, at least one writing,
// without an order between them (a missing event wait, whenever they happened to run).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "vector_clock.hpp"

namespace emulated {

struct Operation;

class AccessHistory {
 public:
  /// Addresses are as the program sees them. `now`: what is known to be done before `operation`. Complains
  /// about each conflict, once per pair of operations.
  void use(std::uintptr_t begin, std::uintptr_t end, bool write,
           const std::shared_ptr<const Operation>& operation, const VectorClock& now);
  /// The memory has been freed. `now`: what the host knows to be done; complains about other work that has
  /// used the memory.
  void forget(std::uintptr_t begin, std::uintptr_t end, const VectorClock& now);

 private:
  struct Range {
    std::uintptr_t end = 0;
    std::shared_ptr<const Operation> writer;                // the latest
    std::vector<std::shared_ptr<const Operation>> readers;  // since then; one per stream
  };
  using Ranges = std::map<std::uintptr_t, Range>;
  /// Makes `at` a boundary between ranges.
  void cut(std::uintptr_t at);
  std::mutex mutex_;
  Ranges ranges_;
};

}  // namespace emulated
