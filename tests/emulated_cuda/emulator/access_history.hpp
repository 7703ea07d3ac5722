// Which work used which memory last: finds two pieces of work that use the same bytes, one of them writing,
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
  /// Addresses are those that the program sees. `now`: what is known to be done before `operation`. Complains
  /// of each conflict (once for each pair of operations).
  void use(std::uintptr_t begin, std::uintptr_t end, bool write,
           const std::shared_ptr<const Operation>& operation, const VectorClock& now);
  /// The memory has been freed. `now`: what the host knows to be done; complains of other work that has used
  /// the memory.
  void forget(std::uintptr_t begin, std::uintptr_t end, const VectorClock& now);

 private:
  struct Range {
    std::uintptr_t end = 0;
    std::shared_ptr<const Operation> writer;                // the latest
    std::vector<std::shared_ptr<const Operation>> readers;  // since then; one of each stream
  };
  using Ranges = std::map<std::uintptr_t, Range>;
  /// Makes `at` a border between ranges.
  void cut(std::uintptr_t at);
  std::mutex mutex_;
  Ranges ranges_;
};

}  // namespace emulated
