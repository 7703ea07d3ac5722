#include "draw/layered.hpp"

#include <algorithm>
#include <cmath>

namespace banyan::draw {
namespace {

constexpr double kLeastBend = 26, kMostBend = 60;  ///< height between ranks in which arcs change columns
constexpr double kArrow = 9;                       ///< above a rank, where arcs go straight down
constexpr double kBandGap = 30;
constexpr double kEntryGap = 22;  ///< between arcs that enter one box

struct RankPlace {
  double top = 0, bottom = 0;  ///< of the boxes
  double bend = 0;             ///< where arcs begin to change columns, below the boxes' texts
  double arrow = 0;            ///< where those from above have arrived in their columns
};

class Composer {
 public:
  explicit Composer(const Plot& plot)
      : boxes_(plot.boxes), arcs_(plot.arcs), lines_(plot.lines), graph_(find_ranks(plot)) {
    order_ranks(graph_);
    x_ = find_columns(graph_);
    place_entries();
    place_ranks();
  }

  Drawing take() {
    Drawing drawing;
    for (std::size_t b = 0; b < boxes_.size(); ++b) {
      const RankPlace& rank = ranks_[graph_.nodes[b].rank];
      drawing.middles.push_back({x_[b], (rank.top + rank.bottom) / 2});
    }
    for (std::size_t a = 0; a < arcs_.size(); ++a) drawing.curves.push_back(curve(a));
    for (std::size_t b = 1; b < graph_.band_first.size(); ++b)
      drawing.band_ends.push_back(band_end(graph_.band_first[b]));
    for (std::size_t n = 0; n < x_.size(); ++n)
      drawing.width = std::max(drawing.width, x_[n] + graph_.nodes[n].width / 2);
    if (!ranks_.empty()) drawing.height = ranks_.back().bend;
    return drawing;
  }

 private:
  /// Columns at which arcs end: side by side in the order in which they come.
  void place_entries() {
    entry_.assign(arcs_.size(), 0);
    std::vector<std::vector<int>> entering(boxes_.size());
    for (std::size_t a = 0; a < arcs_.size(); ++a) entering[arcs_[a].to].push_back(static_cast<int>(a));
    for (std::size_t b = 0; b < boxes_.size(); ++b) {
      std::vector<int> top;
      for (const int arc : entering[b]) {
        const double from = comes_from(arc);
        if (arcs_[arc].to_side)
          entry_[arc] = x_[b] + (from < x_[b] - 1 ? -1 : 1) * (boxes_[b].width / 2 - kSideMargin / 2);
        else
          top.push_back(arc);
      }
      std::stable_sort(top.begin(), top.end(), [&](int a, int c) { return comes_from(a) < comes_from(c); });
      const double count = static_cast<double>(top.size());
      const double gap = std::min(kEntryGap, boxes_[b].width * 0.8 / std::max(1.0, count));
      for (std::size_t i = 0; i < top.size(); ++i)
        entry_[top[i]] = x_[b] + (static_cast<double>(i) - (count - 1) / 2) * gap;
    }
  }
  double comes_from(int arc) const {
    const std::vector<int>& chain = graph_.chains[arc];
    return x_[chain[chain.size() - 2]] + (chain.size() == 2 ? arcs_[arc].from_x : 0);
  }

  void place_ranks() {
    std::vector<double> farthest(graph_.ranks.size(), 0);
    for (std::size_t a = 0; a < arcs_.size(); ++a) {
      const std::vector<int>& chain = graph_.chains[a];
      double x = x_[chain[0]] + arcs_[a].from_x;
      for (std::size_t i = 1; i < chain.size(); ++i) {
        const double next = i + 1 == chain.size() ? entry_[a] : x_[chain[i]];
        double& far = farthest[graph_.nodes[chain[i - 1]].rank];
        far = std::max(far, std::abs(next - x));
        x = next;
      }
    }
    double y = 0;
    for (std::size_t r = 0; r < graph_.ranks.size(); ++r) {
      RankPlace rank;
      double height = 0, below = 0;
      for (const int node : graph_.ranks[r]) {
        if (graph_.nodes[node].bend) continue;
        height = std::max(height, boxes_[node].height);
        below = std::max(below, boxes_[node].below);
      }
      rank.top = y;
      rank.bottom = y + height;
      rank.bend = rank.bottom + below;
      rank.arrow = rank.bend + std::clamp(farthest[r] * 0.12 + 14, kLeastBend, kMostBend);
      y = rank.arrow + kArrow;
      if (line_below(static_cast<int>(r))) {
        rank.bend += kBandGap;
        rank.arrow += kBandGap;
        y += kBandGap;
      }
      ranks_.push_back(rank);
    }
  }
  bool line_below(int rank) const {
    for (int band = 1; band <= lines_; ++band)
      if (graph_.band_first[band] == rank + 1) return true;
    return false;
  }
  double band_end(int rank) const { return rank == 0 ? 0 : ranks_[rank - 1].bend - kBandGap / 2; }

  /// Straight down through each rank, with a soft turn wherever the column changes.
  Curve curve(std::size_t arc) const {
    const std::vector<int>& chain = graph_.chains[arc];
    const Box& from = boxes_[arcs_[arc].from];
    const Box& to = boxes_[arcs_[arc].to];
    const RankPlace& first = ranks_[graph_.nodes[chain[0]].rank];
    const RankPlace& last = ranks_[graph_.nodes[chain.back()].rank];
    Point at{x_[chain[0]] + arcs_[arc].from_x, (first.top + first.bottom + from.height) / 2};
    Curve curve{at};
    const auto line_to = [&](double y) {
      if (y <= at.y) return;
      const Point next{at.x, y};
      curve.insert(curve.end(), {at, next, next});
      at = next;
    };
    for (std::size_t i = 1; i < chain.size(); ++i) {
      const RankPlace& above = ranks_[graph_.nodes[chain[i - 1]].rank];
      const double x = i + 1 == chain.size() ? entry_[arc] : x_[chain[i]];
      if (std::abs(x - at.x) > 0.05) {
        line_to(above.bend);
        const double middle = (above.bend + above.arrow) / 2;
        const Point next{x, above.arrow};
        curve.insert(curve.end(), {{at.x, middle}, {x, middle}, next});
        at = next;
      }
    }
    line_to((last.top + last.bottom - to.height) / 2);
    return curve;
  }

  const std::vector<Box>& boxes_;
  const std::vector<Arc>& arcs_;
  const int lines_;
  Ranked graph_;
  std::vector<double> x_, entry_;
  std::vector<RankPlace> ranks_;
};

}  // namespace

Drawing lay_out(const Plot& plot) { return Composer(plot).take(); }

}  // namespace banyan::draw
