#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "draw/layered.hpp"

namespace banyan::draw {
namespace {

constexpr int kUnimportant = std::numeric_limits<int>::max();  ///< slack of bends

struct Links {
  std::vector<std::vector<int>> up, down;
};

Links links_of(std::size_t boxes, const std::vector<Arc>& arcs) {
  Links links{std::vector<std::vector<int>>(boxes), std::vector<std::vector<int>>(boxes)};
  for (const Arc& arc : arcs) {
    links.down[arc.from].push_back(arc.to);
    links.up[arc.to].push_back(arc.from);
  }
  return links;
}

/// Band by band; within a band what arcs point to comes later, otherwise by number.
std::vector<int> topological(const std::vector<Box>& boxes, const Links& links) {
  std::vector<int> missing(boxes.size()), order;
  std::set<std::pair<int, int>> ready;
  for (std::size_t b = 0; b < boxes.size(); ++b) {
    missing[b] = static_cast<int>(links.up[b].size());
    if (missing[b] == 0) ready.insert({boxes[b].band, static_cast<int>(b)});
  }
  while (!ready.empty()) {
    const int box = ready.begin()->second;
    ready.erase(ready.begin());
    order.push_back(box);
    for (const int next : links.down[box])
      if (--missing[next] == 0) ready.insert({boxes[next].band, next});
  }
  return order;
}

class Ranks {
 public:
  Ranks(const std::vector<Box>& boxes, const Links& links)
      : boxes_(boxes), links_(links), order_(topological(boxes, links)), rank_(boxes.size(), 0) {
    for (const Box& box : boxes) bands_ = std::max(bands_, box.band + 1);
  }

  /// Every box as high as possible, every band below the band before it.
  void lift() {
    first_.assign(bands_, 0);
    int lowest = -1, band = 0;
    for (const int box : order_) {
      for (; band < boxes_[box].band; ++band) first_[band + 1] = lowest + 1;
      rank_[box] = first_[band];
      for (const int above : links_.up[box]) rank_[box] = std::max(rank_[box], rank_[above] + 1);
      lowest = std::max(lowest, rank_[box]);
    }
    for (; band + 1 < bands_; ++band) first_[band + 1] = lowest + 1;
    count_ = lowest + 1;
  }

  /// A box with more arcs below than above goes down to the first that it points to.
  void lower() {
    for (auto box = order_.rbegin(); box != order_.rend(); ++box)
      if (links_.down[*box].size() > links_.up[*box].size()) rank_[*box] = lowest_place(*box, rank_);
  }

  std::vector<int> slack() const {
    std::vector<int> late(rank_.size()), slack(rank_.size());
    for (auto box = order_.rbegin(); box != order_.rend(); ++box) {
      late[*box] = lowest_place(*box, late);
      slack[*box] = late[*box] - rank_[*box];
    }
    return slack;
  }

  const std::vector<int>& ranks() const { return rank_; }
  const std::vector<int>& first() const { return first_; }
  int count() const { return count_; }

 private:
  int lowest_place(int box, const std::vector<int>& ranks) const {
    const int band = boxes_[box].band;
    int place = (band + 1 < bands_ ? first_[band + 1] : count_) - 1;
    for (const int below : links_.down[box]) place = std::min(place, ranks[below] - 1);
    return place;
  }

  const std::vector<Box>& boxes_;
  const Links& links_;
  const std::vector<int> order_;
  std::vector<int> rank_, first_;
  int bands_ = 1, count_ = 0;
};

void connect(Ranked& graph, int above, int below, double exit) {
  graph.nodes[above].down.push_back(below);
  graph.nodes[above].exits.push_back(exit);
  graph.nodes[below].up.push_back(above);
}

}  // namespace

Ranked find_ranks(const Plot& plot) {
  const auto& [boxes, arcs, lines] = plot;
  const Links links = links_of(boxes.size(), arcs);
  Ranks ranks(boxes, links);
  ranks.lift();
  ranks.lower();
  const std::vector<int> slack = ranks.slack();
  Ranked graph;
  graph.ranks.resize(ranks.count());
  graph.band_first = ranks.first();
  for (std::size_t b = 0; b < boxes.size(); ++b)
    graph.nodes.push_back(
        {boxes[b].width, false, ranks.ranks()[b], boxes[b].minor ? kUnimportant : slack[b], {}, {}, {}});
  for (const Arc& arc : arcs) {
    std::vector<int> chain{arc.from};
    double exit = arc.from_x;
    for (int rank = graph.nodes[arc.from].rank + 1; rank < graph.nodes[arc.to].rank; ++rank) {
      const int bend = static_cast<int>(graph.nodes.size());
      graph.nodes.push_back({0, true, rank, kUnimportant, {}, {}, {}});
      connect(graph, chain.back(), bend, std::exchange(exit, 0));
      chain.push_back(bend);
    }
    connect(graph, chain.back(), arc.to, exit);
    chain.push_back(arc.to);
    graph.chains.push_back(std::move(chain));
  }
  return graph;
}

}  // namespace banyan::draw
