// Order within the ranks: sweeps that put each node at the mean place of its neighbours, and swaps of
// neighbours within a rank, as long as that saves crossings.
#include <algorithm>
#include <numeric>

#include "draw/layered.hpp"

namespace banyan::draw {
namespace {

constexpr int kSweeps = 12, kSwapRounds = 8;

/// Pairs of pieces that cross. `ends`: places at which they end, in the order in which they begin.
int inversions(const std::vector<int>& ends, std::size_t places) {
  std::vector<int> tree(places + 1, 0);  // Fenwick: how many of those seen end at a place up to i
  int total = 0, seen = 0;
  for (const int end : ends) {
    int before = 0;
    for (int i = end + 1; i > 0; i -= i & -i) before += tree[i];
    total += seen++ - before;
    for (std::size_t i = end + 1; i <= places; i += i & -i) ++tree[i];
  }
  return total;
}

int crossings_of(const Ranked& graph, const std::vector<int>& place) {
  int total = 0;
  for (std::size_t r = 0; r + 1 < graph.ranks.size(); ++r) {
    std::vector<int> ends;
    for (const int number : graph.ranks[r]) {
      const Node& node = graph.nodes[number];
      std::vector<std::pair<double, int>> pieces;
      for (std::size_t k = 0; k < node.down.size(); ++k)
        pieces.emplace_back(node.exits[k], place[node.down[k]]);
      std::sort(pieces.begin(), pieces.end());
      for (const auto& [exit, end] : pieces) ends.push_back(end);
    }
    total += inversions(ends, graph.ranks[r + 1].size());
  }
  return total;
}

class Ordering {
 public:
  explicit Ordering(Ranked& graph) : graph_(graph), place_(graph.nodes.size(), 0) { start(); }

  void improve() {
    auto best = graph_.ranks;
    int fewest = crossings_of(graph_, place_);
    for (int sweep = 0; sweep < kSweeps && fewest > 0; ++sweep) {
      sweep % 2 == 0 ? sweep_down() : sweep_up();
      swap_neighbours();
      if (const int now = crossings_of(graph_, place_); now < fewest) {
        fewest = now;
        best = graph_.ranks;
      }
    }
    graph_.ranks = best;
  }

 private:
  /// Depth first from the top, the trunk before its branches, so that branches lie to the right of it.
  void start() {
    for (auto& rank : graph_.ranks) rank.clear();
    std::vector<int> roots(graph_.nodes.size());
    std::iota(roots.begin(), roots.end(), 0);
    std::stable_sort(roots.begin(), roots.end(), [&](int a, int b) {
      const Node &one = graph_.nodes[a], &other = graph_.nodes[b];
      return std::pair(one.rank, one.slack) < std::pair(other.rank, other.slack);
    });
    std::vector<bool> seen(graph_.nodes.size(), false);
    for (const int root : roots) {
      std::vector<int> stack{root};
      while (!stack.empty()) {
        const int node = stack.back();
        stack.pop_back();
        if (seen[node]) continue;
        seen[node] = true;
        graph_.ranks[graph_.nodes[node].rank].push_back(node);
        push_neighbours(graph_.nodes[node], stack);
      }
    }
    for (std::size_t r = 0; r < graph_.ranks.size(); ++r) number(r);
  }

  /// So that the first to follow is on top.
  void push_neighbours(const Node& node, std::vector<int>& stack) const {
    std::vector<std::pair<double, int>> next;
    for (std::size_t k = 0; k < node.down.size(); ++k) next.emplace_back(node.exits[k], node.down[k]);
    std::stable_sort(next.begin(), next.end(), [&](const auto& a, const auto& b) {
      return std::pair(a.first, graph_.nodes[a.second].slack) <
             std::pair(b.first, graph_.nodes[b.second].slack);
    });
    for (auto one = next.rbegin(); one != next.rend(); ++one) stack.push_back(one->second);
  }

  void number(std::size_t rank) {
    for (std::size_t i = 0; i < graph_.ranks[rank].size(); ++i)
      place_[graph_.ranks[rank][i]] = static_cast<int>(i);
  }

  void sort_by_mean(std::size_t rank, std::vector<int> Node::*side) {
    std::vector<std::pair<double, int>> means;
    for (const int node : graph_.ranks[rank]) {
      const std::vector<int>& neighbours = graph_.nodes[node].*side;
      double mean = place_[node];
      if (!neighbours.empty()) {
        mean = 0;
        for (const int neighbour : neighbours) mean += place_[neighbour];
        mean /= static_cast<double>(neighbours.size());
      }
      means.emplace_back(mean, node);
    }
    std::stable_sort(means.begin(), means.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < means.size(); ++i) graph_.ranks[rank][i] = means[i].second;
    number(rank);
  }
  void sweep_down() {
    for (std::size_t r = 1; r < graph_.ranks.size(); ++r) sort_by_mean(r, &Node::up);
  }
  void sweep_up() {
    for (std::size_t r = graph_.ranks.size() - 1; r-- > 0;) sort_by_mean(r, &Node::down);
  }

  /// Between the pieces of two nodes of a rank, `left` being to the left of `right`.
  int crossings_between(int left, int right) const {
    int count = 0;
    for (const auto side : {&Node::up, &Node::down})
      for (const int a : graph_.nodes[left].*side)
        for (const int b : graph_.nodes[right].*side) count += place_[a] > place_[b];
    return count;
  }

  void swap_neighbours() {
    bool better = true;
    for (int round = 0; better && round < kSwapRounds; ++round) {
      better = false;
      for (auto& rank : graph_.ranks)
        for (std::size_t i = 0; i + 1 < rank.size(); ++i)
          if (crossings_between(rank[i], rank[i + 1]) > crossings_between(rank[i + 1], rank[i])) {
            std::swap(place_[rank[i]], place_[rank[i + 1]]);
            std::swap(rank[i], rank[i + 1]);
            better = true;
          }
    }
  }

  Ranked& graph_;
  std::vector<int> place_;  ///< per node: its place in its rank
};

}  // namespace

void order_ranks(Ranked& graph) { Ordering(graph).improve(); }

int count_crossings(const Ranked& graph) {
  std::vector<int> place(graph.nodes.size(), 0);
  for (const auto& rank : graph.ranks)
    for (std::size_t i = 0; i < rank.size(); ++i) place[rank[i]] = static_cast<int>(i);
  return crossings_of(graph, place);
}

}  // namespace banyan::draw
