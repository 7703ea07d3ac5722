#include "layers/box_matching.hpp"

#include <algorithm>
#include <functional>

namespace banyan {
namespace {

constexpr double kLeastOverlap = 1e-6, kLeastArea = 1e-5;  // SSD's

struct Pair {
  int box, truth;
  double overlap, rank;
};

bool crosses_border(const Box& box) { return !(box == clipped(box)); }

/// Pairs that overlap, box by box.
std::vector<Pair> overlapping(const std::vector<Box>& boxes, const std::vector<GroundTruth>& truth, int label,
                              const Matches& matches) {
  std::vector<Pair> pairs;
  for (std::size_t b = 0; b < boxes.size(); ++b) {
    if (matches.truth[b] == Matches::kLeftOut) continue;
    for (std::size_t t = 0; t < truth.size(); ++t) {
      if (label >= 0 && truth[t].label != label) continue;
      const double found = overlap(boxes[b], truth[t].box);
      if (found > kLeastOverlap)
        pairs.push_back({static_cast<int>(b), static_cast<int>(t), found, rank_of(found)});
    }
  }
  return pairs;
}

/// Of equal pairs the first.
bool is_better(const Pair& pair, const Pair* than) {
  return than == nullptr || pair.rank > than->rank || (pair.rank == than->rank && &pair < than);
}

/// Difficult ground truth is never used up: whichever box comes to it is left out. So a box can only be
/// matched by pairs that are better than all of its difficult ones, and these are returned. `near`: the boxes
/// that have difficult ones.
std::vector<Pair> without_difficult(const std::vector<Pair>& pairs, const std::vector<GroundTruth>& truth,
                                    std::vector<bool>& near) {
  std::vector<const Pair*> difficult(near.size(), nullptr);  // of each box, the best
  for (const Pair& pair : pairs)
    if (truth[pair.truth].difficult && is_better(pair, difficult[pair.box])) difficult[pair.box] = &pair;
  std::vector<Pair> left;
  for (const Pair& pair : pairs)
    if (!truth[pair.truth].difficult &&
        (difficult[pair.box] == nullptr || is_better(pair, difficult[pair.box])))
      left.push_back(pair);
  std::transform(difficult.begin(), difficult.end(), near.begin(),
                 [](const Pair* pair) { return pair != nullptr; });
  return left;
}

}  // namespace

Matches match_boxes(const std::vector<Box>& boxes, const std::vector<GroundTruth>& truth, int label,
                    const MatchRules& rules) {
  Matches matches{std::vector<int>(boxes.size(), Matches::kNone), std::vector<double>(boxes.size(), 0)};
  for (std::size_t b = 0; rules.ignore_crossing && b < boxes.size(); ++b)
    if (crosses_border(boxes[b])) matches.truth[b] = Matches::kLeftOut;
  std::vector<Pair> pairs = overlapping(boxes, truth, label, matches);
  for (const Pair& pair : pairs)
    matches.overlaps[pair.box] = std::max(matches.overlaps[pair.box], pair.overlap);
  std::vector<bool> near_difficult(boxes.size(), false);
  if (rules.ignore_difficult) pairs = without_difficult(pairs, truth, near_difficult);
  const auto match = [&](const Pair& pair) {
    matches.truth[pair.box] = pair.truth;
    matches.overlaps[pair.box] = pair.overlap;
  };

  // Of each ground truth, its best pair with a box that is left; of equal ones the first.
  std::vector<const Pair*> best_of(truth.size(), nullptr);
  std::vector<bool> searched(truth.size(), false);
  while (true) {
    if (!std::ranges::all_of(searched, std::identity()))
      for (const Pair& pair : pairs)
        if (!searched[pair.truth] && matches.truth[pair.box] == Matches::kNone &&
            is_better(pair, best_of[pair.truth]))
          best_of[pair.truth] = &pair;
    searched.assign(truth.size(), true);
    const Pair* chosen = nullptr;
    for (const Pair* pair : best_of)
      if (pair != nullptr && is_better(*pair, chosen)) chosen = pair;
    if (chosen == nullptr) break;
    match(*chosen);
    best_of[chosen->truth] = nullptr;
    for (std::size_t t = 0; t < truth.size(); ++t)
      if (best_of[t] != nullptr && best_of[t]->box == chosen->box) {
        best_of[t] = nullptr;
        searched[t] = false;
      }
  }
  for (std::size_t b = 0; b < boxes.size(); ++b)
    if (near_difficult[b] && matches.truth[b] == Matches::kNone) matches.truth[b] = Matches::kLeftOut;
  if (!rules.each_box) return matches;

  const Pair* best = nullptr;  // of the box at hand
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (best == nullptr || pairs[i].rank > best->rank) best = &pairs[i];
    if (i + 1 < pairs.size() && pairs[i + 1].box == pairs[i].box) continue;
    if (matches.truth[best->box] == Matches::kNone && best->overlap >= rules.threshold) match(*best);
    best = nullptr;
  }
  return matches;
}

std::vector<int> mine(const std::vector<double>& losses, const std::vector<Box>& boxes,
                      const MiningRules& rules, const std::function<bool(std::size_t)>& may,
                      Matches& matches) {
  const bool hard = rules.type == caffe::MultiBoxLossParameter::HARD_EXAMPLE;
  std::vector<int> candidates;
  std::int64_t matched = 0;
  for (std::size_t b = 0; b < matches.truth.size(); ++b) {
    matched += matches.truth[b] >= 0 ? 1 : 0;
    if ((hard || (matches.truth[b] == Matches::kNone && matches.overlaps[b] < rules.most_overlap)) && may(b))
      candidates.push_back(static_cast<int>(b));
  }
  const float most = hard ? static_cast<float>(rules.samples) : part_of(matched, rules.negatives_per_match);
  const auto wanted =
      static_cast<std::size_t>(std::min(static_cast<double>(most), static_cast<double>(candidates.size())));
  if (rules.suppression) {
    candidates = by_score(std::move(candidates), losses);
    std::erase_if(candidates, [&](int b) { return area(boxes[b]) < kLeastArea; });
    candidates = suppress(boxes, candidates, *rules.suppression);
    candidates.resize(std::min(wanted, candidates.size()));
  } else {
    candidates = best_by_score(std::move(candidates), losses, wanted);
  }
  std::sort(candidates.begin(), candidates.end());
  if (hard)
    for (std::size_t b = 0; b < matches.truth.size(); ++b)
      if (matches.truth[b] >= 0 &&
          !std::binary_search(candidates.begin(), candidates.end(), static_cast<int>(b)))
        matches.truth[b] = Matches::kNone;
  std::erase_if(candidates, [&](int b) { return matches.truth[b] != Matches::kNone; });
  return candidates;
}

}  // namespace banyan
