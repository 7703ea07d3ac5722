#include "banyan/net/memory_plan.hpp"

#include <algorithm>
#include <numeric>

namespace banyan {
namespace {

std::int64_t rounded(std::int64_t size, std::int64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

}  // namespace

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, std::int64_t alignment) {
  MemoryPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lifetimes[a].size > lifetimes[b].size; });
  std::vector<std::size_t> placed;  // in ascending order of offset
  for (const std::size_t i : order) {
    const Lifetime& life = lifetimes[i];
    const std::int64_t size = rounded(life.size, alignment);
    plan.sum += size;
    if (size == 0) continue;
    std::int64_t offset = 0;
    for (const std::size_t other : placed) {
      const Lifetime& taken = lifetimes[other];
      if (taken.first > life.last || taken.last < life.first) continue;
      if (plan.offsets[other] >= offset + size) break;
      offset = std::max(offset, plan.offsets[other] + rounded(taken.size, alignment));
    }
    plan.offsets[i] = offset;
    plan.total = std::max(plan.total, offset + size);
    const auto place =
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [&](std::int64_t value, std::size_t other) { return value < plan.offsets[other]; });
    placed.insert(place, i);
  }
  return plan;
}

MemoryPlan plan_separate(const std::vector<Lifetime>& lifetimes, std::int64_t alignment) {
  MemoryPlan plan;
  for (const Lifetime& life : lifetimes) {
    plan.offsets.push_back(plan.total);
    plan.total += rounded(life.size, alignment);
  }
  plan.sum = plan.total;
  return plan;
}

}  // namespace banyan
