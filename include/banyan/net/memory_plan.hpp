// Which tensors may occupy the same memory: a pure function from lifetimes to offsets.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/net/lifetimes.hpp"

namespace banyan {

/// A tensor's size and the spans of steps during which it must keep its contents, ascending. It has the same
/// place in all of them.
struct Lifetime {
  std::int64_t size = 0;  ///< in any unit
  std::vector<Span> spans;
};

struct MemoryPlan {
  std::vector<std::int64_t> offsets;  ///< one per lifetime
  std::int64_t total = 0;             ///< size of the memory that holds them all
  std::int64_t sum = 0;               ///< what they would take without sharing
};

/// The smallest of several greedy plans, in each of which one after the other goes to the lowest offset that
/// is free during its lifetime: the largest first, or in other orders. Offsets are multiples of `alignment`;
/// sizes are rounded up to it.
MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, std::int64_t alignment);
/// Peak of live sizes, rounded up, over all steps: no plan can be smaller.
std::int64_t most_alive(const std::vector<Lifetime>& lifetimes, std::int64_t alignment);
/// The same sizes with no sharing.
MemoryPlan plan_separate(const std::vector<Lifetime>& lifetimes, std::int64_t alignment);

}  // namespace banyan
