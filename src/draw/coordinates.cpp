// Columns: Brandes and Köpf 2001, "Fast and Simple Horizontal Coordinate Assignment". Each node is aligned
// with one neighbour, upwards or downwards, from the left or from the right; the four results, each of which
// keeps the distances, are averaged. As in dagre and others, blocks of aligned nodes are placed by longest
// paths, which allows for widths. Unlike there, only neighbours that have
// the least slack of all neighbours, of each other, are aligned.
#include <algorithm>
#include <limits>
#include <set>

#include "draw/layered.hpp"

namespace banyan::draw {
namespace {

constexpr double kNodeGap = 26, kBendGap = 16;

double half_space(const Node& node) { return node.width / 2 + (node.bend ? kBendGap : kNodeGap) / 2; }

/// Pieces of long arcs go straight: what crosses them is not aligned.
using Conflicts = std::set<std::pair<int, int>>;

Conflicts find_conflicts(const Ranked& graph, const std::vector<int>& place) {
  struct Piece {
    int from, to;
    bool inner;
  };
  Conflicts conflicts;
  for (std::size_t r = 0; r + 1 < graph.ranks.size(); ++r) {
    std::vector<Piece> pieces;
    for (const int node : graph.ranks[r])
      for (const int next : graph.nodes[node].down)
        pieces.push_back({node, next, graph.nodes[node].bend && graph.nodes[next].bend});
    for (const Piece& inner : pieces) {
      if (!inner.inner) continue;
      for (const Piece& other : pieces) {
        if (other.inner) continue;
        const int above = place[other.from] - place[inner.from], below = place[other.to] - place[inner.to];
        if ((above < 0 && below > 0) || (above > 0 && below < 0)) conflicts.insert({other.from, other.to});
      }
    }
  }
  return conflicts;
}

/// One of the four: nodes are visited rank by rank, `ranks` and each rank in the order of the visit.
class Alignment {
 public:
  Alignment(const Ranked& graph, std::vector<std::vector<int>> ranks, bool upwards,
            const Conflicts& conflicts)
      : graph_(graph),
        ranks_(std::move(ranks)),
        place_(graph.nodes.size()),
        root_(graph.nodes.size()),
        next_(graph.nodes.size()) {
    for (const auto& rank : ranks_)
      for (std::size_t i = 0; i < rank.size(); ++i) {
        place_[rank[i]] = static_cast<int>(i);
        root_[rank[i]] = next_[rank[i]] = rank[i];
      }
    for (const auto& rank : ranks_) {
      int last = -1;  // place of the last neighbour aligned with: alignments do not cross
      for (const int node : rank) align(node, upwards, conflicts, last);
    }
  }

  std::vector<double> columns() const {
    std::vector<std::vector<std::pair<int, double>>> right(root_.size());
    std::vector<int> missing(root_.size(), 0);
    for (const auto& rank : ranks_)
      for (std::size_t i = 0; i + 1 < rank.size(); ++i) {
        const int a = root_[rank[i]], b = root_[rank[i + 1]];
        const double space = half_space(graph_.nodes[rank[i]]) + half_space(graph_.nodes[rank[i + 1]]);
        right[a].emplace_back(b, space);
        ++missing[b];
      }
    std::vector<int> order;
    for (std::size_t n = 0; n < root_.size(); ++n)
      if (root_[n] == static_cast<int>(n) && missing[n] == 0) order.push_back(static_cast<int>(n));
    std::vector<double> x(root_.size(), 0);
    for (std::size_t i = 0; i < order.size(); ++i)
      for (const auto& [next, space] : right[order[i]]) {
        x[next] = std::max(x[next], x[order[i]] + space);
        if (--missing[next] == 0) order.push_back(next);
      }
    // What stands freely moves towards its right neighbour.
    for (auto block = order.rbegin(); block != order.rend(); ++block) {
      double most = std::numeric_limits<double>::infinity();
      for (const auto& [next, space] : right[*block]) most = std::min(most, x[next] - space);
      if (most < std::numeric_limits<double>::infinity()) x[*block] = std::max(x[*block], most);
    }
    std::vector<double> columns(root_.size());
    for (std::size_t n = 0; n < root_.size(); ++n) columns[n] = x[root_[n]];
    return columns;
  }

 private:
  int least_slack(const std::vector<int>& nodes) const {
    int least = std::numeric_limits<int>::max();
    for (const int node : nodes) least = std::min(least, graph_.nodes[node].slack);
    return least;
  }
  void align(int node, bool upwards, const Conflicts& conflicts, int& last) {
    std::vector<int> near;
    const auto& wanted = upwards ? graph_.nodes[node].up : graph_.nodes[node].down;
    for (const int neighbour : wanted) {
      const auto& wanting = upwards ? graph_.nodes[neighbour].down : graph_.nodes[neighbour].up;
      const bool mutual = graph_.nodes[neighbour].slack == least_slack(wanted) &&
                          graph_.nodes[node].slack == least_slack(wanting);
      if (mutual) near.push_back(neighbour);
    }
    if (near.empty()) return;
    std::sort(near.begin(), near.end(), [&](int a, int b) { return place_[a] < place_[b]; });
    for (const std::size_t middle : {(near.size() - 1) / 2, near.size() / 2}) {
      const int neighbour = near[middle];
      const auto piece = upwards ? std::pair(neighbour, node) : std::pair(node, neighbour);
      if (next_[node] != node || last >= place_[neighbour] || conflicts.count(piece) > 0) continue;
      next_[neighbour] = node;
      next_[node] = root_[node] = root_[neighbour];
      last = place_[neighbour];
    }
  }

  const Ranked& graph_;
  std::vector<std::vector<int>> ranks_;
  std::vector<int> place_, root_, next_;
};

}  // namespace

std::vector<double> find_columns(const Ranked& graph) {
  std::vector<int> place(graph.nodes.size());
  for (const auto& rank : graph.ranks)
    for (std::size_t i = 0; i < rank.size(); ++i) place[rank[i]] = static_cast<int>(i);
  const Conflicts conflicts = find_conflicts(graph, place);
  struct Result {
    std::vector<double> x;
    double least = 0, most = 0;
    bool from_right = false;
  };
  std::vector<Result> results;
  for (const bool upwards : {true, false})
    for (const bool from_right : {false, true}) {
      auto ranks = graph.ranks;
      if (!upwards) std::reverse(ranks.begin(), ranks.end());
      if (from_right)
        for (auto& rank : ranks) std::reverse(rank.begin(), rank.end());
      Result result{Alignment(graph, std::move(ranks), upwards, conflicts).columns(), 1e300, -1e300,
                    from_right};
      for (std::size_t n = 0; n < result.x.size(); ++n) {
        double& x = result.x[n];
        if (from_right) x = -x;
        result.least = std::min(result.least, x - graph.nodes[n].width / 2);
        result.most = std::max(result.most, x + graph.nodes[n].width / 2);
      }
      results.push_back(std::move(result));
    }
  const auto narrowest =
      std::min_element(results.begin(), results.end(),
                       [](const Result& a, const Result& b) { return a.most - a.least < b.most - b.least; });
  for (Result& result : results) {
    const double shift = result.from_right ? narrowest->most - result.most : narrowest->least - result.least;
    if (&result != &*narrowest)
      for (double& x : result.x) x += shift;
  }
  std::vector<double> columns;
  double least = 1e300;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    std::vector<double> four;
    for (const Result& result : results) four.push_back(result.x[n]);
    std::sort(four.begin(), four.end());
    columns.push_back((four[1] + four[2]) / 2);
    least = std::min(least, columns.back() - graph.nodes[n].width / 2);
  }
  for (double& x : columns) x -= least;
  return columns;
}

}  // namespace banyan::draw
