// Where to cut a net for checkpointing: a search over cuts, each judged by the peak of its schedule.
#include <algorithm>
#include <limits>

#include "banyan/base/error.hpp"
#include "banyan/net/checkpoints.hpp"

namespace banyan {
namespace {

using Cuts = std::vector<int>;  ///< positions in the list of possible cuts, ascending

struct Judged {
  Cuts cuts;
  std::int64_t peak = std::numeric_limits<std::int64_t>::max();
  double cost = 0;
};

class CutSearch {
 public:
  explicit CutSearch(const TensorUses& uses) : uses_(uses), possible_(possible_cuts(uses)) {
    made_.assign(uses.layers.size() + 1, 0);
    for (std::size_t l = 0; l < uses.layers.size(); ++l) {
      std::int64_t size = 0;
      for (const int output : uses.layers[l].outputs)
        if (owner_of(uses.data_of, output) == output) size += uses.data_size[output];
      made_[l + 1] = made_[l] + size;
    }
  }

  int most_segments() const { return static_cast<int>(possible_.size()) + 1; }

  Judged fixed(int segments) {
    Judged best = judge(spread(segments));
    while (improve(best, false)) {
    }
    return best;
  }

  Judged any() {
    Judged best = judge({});
    const std::int64_t all = best.peak;
    for (int segments = 2; segments <= std::min(most_segments(), 64); segments += 1 + segments / 4) {
      const Judged one = judge(spread(segments));
      if (better(one, best)) best = one;
    }
    while (improve(best, true)) {
    }
    return best.peak < all ? with_less_work(best) : judge({});
  }

  std::vector<int> layers_of(const Cuts& cuts) const {
    std::vector<int> layers;
    for (const int cut : cuts) layers.push_back(possible_[cut]);
    return layers;
  }

 private:
  /// Trials per search: planning takes tenths of a second even for a thousand layers.
  static constexpr int kMostTrials = 3000;
  /// Memory growth accepted for less work.
  static constexpr double kSlack = 1.02;

  Judged judge(Cuts cuts) {
    ++trials_;
    const Schedule schedule = checkpointed_schedule(uses_, layers_of(cuts));
    return {std::move(cuts), peak_of(uses_, schedule), repeated_cost(uses_, schedule)};
  }
  static bool better(const Judged& a, const Judged& b) {
    return a.peak != b.peak ? a.peak < b.peak : a.cost < b.cost;
  }

  /// Segments that make about equal amounts, as far as the possible cuts allow.
  Cuts spread(int segments) const {
    Cuts cuts;
    const int count = static_cast<int>(possible_.size());
    for (int s = 1; s < segments; ++s) {
      const double goal = static_cast<double>(made_.back()) * s / segments;
      const int lowest = cuts.empty() ? 0 : cuts.back() + 1, highest = count - (segments - s);
      int cut = lowest;
      while (cut < highest && static_cast<double>(made_[possible_[cut]]) < goal) ++cut;
      cuts.push_back(cut);
    }
    return cuts;
  }

  /// One round of moving each cut, and of adding and removing cuts if their number is free.
  bool improve(Judged& best, bool free_number) {
    const Judged before = best;
    const int count = static_cast<int>(possible_.size());
    for (std::size_t i = 0; i < best.cuts.size(); ++i)
      for (const int by : {-1, 1, -2, 2, -3, 3, -5, 5, -8, 8, -13, 13}) {
        if (i >= best.cuts.size()) break;
        Cuts cuts = best.cuts;
        cuts[i] += by;
        const int low = i == 0 ? 0 : cuts[i - 1] + 1, high = i + 1 < cuts.size() ? cuts[i + 1] : count;
        if (cuts[i] >= low && cuts[i] < high) take(best, std::move(cuts));
      }
    for (int cut = 0; cut < count && free_number; ++cut) {
      Cuts cuts = best.cuts;
      const auto place = std::lower_bound(cuts.begin(), cuts.end(), cut);
      place != cuts.end() && *place == cut ? void(cuts.erase(place)) : void(cuts.insert(place, cut));
      take(best, std::move(cuts));
    }
    return better(best, before) && trials_ < kMostTrials;
  }
  void take(Judged& best, Cuts cuts) {
    if (trials_ >= kMostTrials) return;
    Judged one = judge(std::move(cuts));
    if (better(one, best)) best = std::move(one);
  }

  /// The last segment is not recomputed: enlarges it and drops cuts while the peak hardly grows.
  Judged with_less_work(Judged best) {
    const auto limit = static_cast<std::int64_t>(static_cast<double>(best.peak) * kSlack);
    for (bool found = true; found;) {
      found = false;
      std::vector<Cuts> tries;
      for (std::size_t i = 0; i < best.cuts.size(); ++i) {
        Cuts without = best.cuts;
        without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
        tries.push_back(std::move(without));
        for (const int by : {-1, -2, -4, -8}) {
          Cuts moved = best.cuts;
          moved[i] += by;
          if (moved[i] > (i == 0 ? -1 : moved[i - 1])) tries.push_back(std::move(moved));
        }
      }
      for (Cuts& cuts : tries) {
        Judged one = judge(std::move(cuts));
        if (one.peak > limit || one.cost >= best.cost) continue;
        best = std::move(one);
        found = true;
        break;
      }
    }
    return best;
  }

  const TensorUses& uses_;
  std::vector<int> possible_;
  std::vector<std::int64_t> made_;  ///< by the layers before each layer
  int trials_ = 0;
};

}  // namespace

std::vector<int> choose_cuts(const TensorUses& uses, int segments) {
  if (segments == 1) return {};
  CutSearch search(uses);
  if (segments > search.most_segments())
    bad_input("checkpoint: \"", segments, "\" asks for more segments than the ", search.most_segments(),
              " into which the net can be cut");
  return search.layers_of((segments == 0 ? search.any() : search.fixed(segments)).cuts);
}

}  // namespace banyan
