#include "banyan/net/memory_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace banyan {
namespace {

std::int64_t rounded_up(std::int64_t size, std::int64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

bool overlap(const std::vector<Span>& a, const std::vector<Span>& b) {
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    if (a[i].last < b[k].first)
      ++i;
    else if (b[k].last < a[i].first)
      ++k;
    else
      return true;
  }
  return false;
}

/// Steps during which it keeps its contents.
std::int64_t steps_of(const Lifetime& life) {
  std::int64_t steps = 0;
  for (const Span& span : life.spans) steps += span.last - span.first + 1;
  return steps;
}

/// In a greedy plan what has more of this comes first.
using Rank = std::int64_t (*)(const Lifetime&);
std::int64_t by_size(const Lifetime& life) { return life.size; }
std::int64_t by_size_and_steps(const Lifetime& life) { return life.size * steps_of(life); }
std::int64_t by_first_step(const Lifetime& life) {
  return life.spans.empty() ? 0 : -life.spans.front().first;
}
std::int64_t by_last_step(const Lifetime& life) { return life.spans.empty() ? 0 : life.spans.back().last; }

MemoryPlan plan_in_order(const std::vector<Lifetime>& lifetimes, std::int64_t alignment, Rank rank) {
  MemoryPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rank(lifetimes[a]) > rank(lifetimes[b]); });
  std::vector<std::size_t> placed;  // in ascending order of offset
  for (const std::size_t i : order) {
    const Lifetime& life = lifetimes[i];
    const std::int64_t size = rounded_up(life.size, alignment);
    plan.sum += size;
    if (size == 0) continue;
    std::int64_t offset = 0;
    for (const std::size_t other : placed) {
      const Lifetime& taken = lifetimes[other];
      if (!overlap(taken.spans, life.spans)) continue;
      if (plan.offsets[other] >= offset + size) break;
      offset = std::max(offset, plan.offsets[other] + rounded_up(taken.size, alignment));
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

}  // namespace

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, std::int64_t alignment) {
  const std::int64_t least = most_alive(lifetimes, alignment);
  MemoryPlan best = plan_in_order(lifetimes, alignment, by_size);
  for (const Rank rank : {by_size_and_steps, by_first_step, by_last_step}) {
    if (best.total <= least) break;
    MemoryPlan plan = plan_in_order(lifetimes, alignment, rank);
    if (plan.total < best.total) best = std::move(plan);
  }
  return best;
}

std::int64_t most_alive(const std::vector<Lifetime>& lifetimes, std::int64_t alignment) {
  int end = 0;
  for (const Lifetime& life : lifetimes)
    for (const Span& span : life.spans) end = std::max(end, span.last + 2);
  std::vector<std::int64_t> change(static_cast<std::size_t>(end), 0);
  for (const Lifetime& life : lifetimes)
    for (const Span& span : life.spans) {
      change[span.first] += rounded_up(life.size, alignment);
      change[static_cast<std::size_t>(span.last) + 1] -= rounded_up(life.size, alignment);
    }
  std::int64_t alive = 0, most = 0;
  for (const std::int64_t by : change) most = std::max(most, alive += by);
  return most;
}

MemoryPlan plan_separate(const std::vector<Lifetime>& lifetimes, std::int64_t alignment) {
  MemoryPlan plan;
  for (const Lifetime& life : lifetimes) {
    plan.offsets.push_back(plan.total);
    plan.total += rounded_up(life.size, alignment);
  }
  plan.sum = plan.total;
  return plan;
}

}  // namespace banyan
