#include "layers/boxes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace banyan {
namespace {

double overlap_of(const Box& kept, const Box& box, const Suppression& how) {
  if (how.shared_with == SharedWith::both) return overlap(box, kept, how.corners);
  const double shared = area({std::max(kept.x1, box.x1), std::max(kept.y1, box.y1), std::min(kept.x2, box.x2),
                              std::min(kept.y2, box.y2)},
                             how.corners);
  const double whole = how.shared_with == SharedWith::kept
                           ? area(kept, how.corners)
                           : std::min(area(kept, how.corners), area(box, how.corners));
  return shared > 0 ? shared / whole : 0;
}

}  // namespace

std::vector<int> suppress(const std::vector<Box>& boxes, const std::vector<int>& order,
                          const Suppression& how) {
  std::size_t candidates = order.size();
  if (how.top_k >= 0) candidates = std::min(candidates, static_cast<std::size_t>(how.top_k));
  std::vector<int> kept;
  double threshold = how.threshold;
  for (std::size_t i = 0; i < candidates; ++i) {
    const Box& box = boxes[order[i]];
    const auto hides = [&](int other) { return overlap_of(boxes[other], box, how) > threshold; };
    if (std::any_of(kept.begin(), kept.end(), hides)) continue;
    kept.push_back(order[i]);
    if (how.most >= 0 && static_cast<std::int64_t>(kept.size()) >= how.most) break;
    if (threshold > 0.5) threshold *= how.eta;
  }
  return kept;
}

double rank_of(double score) {
  if (std::isnan(score)) return -HUGE_VAL;
  constexpr std::uint64_t kRest = (std::uint64_t{1} << 32) - 1;
  return std::bit_cast<double>((std::bit_cast<std::uint64_t>(score) + kRest / 2 + 1) & ~kRest);
}

std::vector<int> by_score(std::vector<int> candidates, const std::vector<double>& scores) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](int a, int b) { return rank_of(scores[a]) > rank_of(scores[b]); });
  return candidates;
}

std::vector<int> best_by_score(std::vector<int> candidates, const std::vector<double>& scores,
                               std::size_t count) {
  if (count >= candidates.size()) return candidates;
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(candidates.begin(), end, candidates.end(), [&](int a, int b) {
    const double first = rank_of(scores[a]), second = rank_of(scores[b]);
    return first != second ? first > second : a < b;
  });
  candidates.resize(count);
  return candidates;
}

}  // namespace banyan
