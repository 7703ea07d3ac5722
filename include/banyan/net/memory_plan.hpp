// Which tensors may lie in the same memory: a pure function from lifetimes to offsets.
#pragma once

#include <cstdint>
#include <vector>

namespace banyan {

/// A tensor's size and the steps, both included, between which it must keep its contents.
struct Lifetime {
  std::int64_t size = 0;  ///< in any unit
  int first = 0, last = 0;
};

struct MemoryPlan {
  std::vector<std::int64_t> offsets;  ///< one per lifetime
  std::int64_t total = 0;             ///< size of the memory that holds them all
  std::int64_t sum = 0;               ///< what they would take without sharing
};

/// Greedy by size: the largest first, each at the lowest offset that is free during its lifetime. Offsets are
/// multiples of `alignment`; sizes are rounded up to it.
MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, std::int64_t alignment);
/// The same sizes without any sharing.
MemoryPlan plan_separate(const std::vector<Lifetime>& lifetimes, std::int64_t alignment);

}  // namespace banyan
