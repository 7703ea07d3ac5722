#include "banyan/parallel/topology.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "banyan/base/error.hpp"

namespace banyan::parallel {
namespace {

constexpr std::array<LinkClass, 9> kFastestFirst = {
    LinkClass::memory, LinkClass::nvlink4, LinkClass::nvlink2, LinkClass::nvlink1, LinkClass::pix,
    LinkClass::pxb,    LinkClass::phb,     LinkClass::sys,     LinkClass::none};

/// A connected part of the tree under construction.
struct Group {
  int root;
  std::vector<int> members;  ///< ascending
};

/// Where two groups touch over a link of at least `wanted`: {node of a, node of b}, or {-1, -1}.
std::pair<int, int> joint(const LinkMatrix& links, const Group& a, const Group& b, LinkClass wanted) {
  if (links.at(a.root, b.root) >= wanted) return {a.root, b.root};
  for (const int from : a.members)
    for (const int to : b.members)
      if (links.at(from, to) >= wanted) return {from, to};
  return {-1, -1};
}

/// Reverses edges of b's tree so that `node` becomes its root.
void make_root(std::vector<int>& parent, int node) {
  int below = -1;
  while (node != -1) {
    const int above = parent[node];
    parent[node] = below;
    below = node;
    node = above;
  }
}

/// One round: in order of their roots, each group joins the first later free group it touches. Returns
/// whether any were joined.
bool join_round(const LinkMatrix& links, LinkClass wanted, std::vector<Group>& groups,
                std::vector<int>& parent) {
  std::vector<bool> used(groups.size(), false);
  bool joined = false;
  for (std::size_t a = 0; a < groups.size(); ++a) {
    for (std::size_t b = a + 1; !used[a] && b < groups.size(); ++b) {
      if (used[b]) continue;
      const auto [from, to] = joint(links, groups[a], groups[b], wanted);
      if (from < 0) continue;
      make_root(parent, to);
      parent[to] = from;
      groups[a].members.insert(groups[a].members.end(), groups[b].members.begin(), groups[b].members.end());
      std::sort(groups[a].members.begin(), groups[a].members.end());
      groups[b].members.clear();
      used[a] = used[b] = joined = true;
    }
  }
  std::erase_if(groups, [](const Group& group) { return group.members.empty(); });
  return joined;
}

}  // namespace

const char* name_of(LinkClass link) {
  switch (link) {
    case LinkClass::none:
      return "none";
    case LinkClass::sys:
      return "SYS";
    case LinkClass::phb:
      return "PHB";
    case LinkClass::pxb:
      return "PXB";
    case LinkClass::pix:
      return "PIX";
    case LinkClass::nvlink1:
      return "NV1";
    case LinkClass::nvlink2:
      return "NV2";
    case LinkClass::nvlink4:
      return "NV4+";
    case LinkClass::memory:
      return "MEM";
  }
  return "?";
}

LinkMatrix::LinkMatrix(int devices, LinkClass all)
    : devices_(devices), links_(static_cast<std::size_t>(devices) * static_cast<std::size_t>(devices), all) {
  for (int i = 0; i < devices; ++i) links_[index(i, i)] = LinkClass::memory;
}

void LinkMatrix::set(int a, int b, LinkClass link) { links_[index(a, b)] = links_[index(b, a)] = link; }

LinkMatrix LinkMatrix::subset(const std::vector<int>& devices) const {
  LinkMatrix result(static_cast<int>(devices.size()), LinkClass::none);
  for (std::size_t i = 0; i < devices.size(); ++i)
    for (std::size_t j = i + 1; j < devices.size(); ++j)
      result.set(static_cast<int>(i), static_cast<int>(j), at(devices[i], devices[j]));
  return result;
}

Tree::Tree(std::vector<int> parent) : parent_(std::move(parent)) {
  const std::size_t n = parent_.size();
  neighbours_.resize(n);
  root_ = -1;
  for (std::size_t i = 0; i < n; ++i) {
    const int above = parent_[i];
    if (above == -1 && root_ == -1) {
      root_ = static_cast<int>(i);
    } else if (above < 0 || above >= static_cast<int>(n) || above == static_cast<int>(i)) {
      runtime_failure("device tree: node ", i, " has the impossible parent ", above);
    } else {
      neighbours_[i].push_back(above);
      neighbours_[above].push_back(static_cast<int>(i));
    }
  }
  for (auto& list : neighbours_) std::sort(list.begin(), list.end());
  next_hop_.assign(n, std::vector<int>(n, -2));
  for (std::size_t root = 0; root < n; ++root) {
    std::vector<int> reached{static_cast<int>(root)};
    next_hop_[root][root] = -1;
    for (std::size_t k = 0; k < reached.size(); ++k)
      for (const int next : neighbours_[reached[k]])
        if (next_hop_[root][next] == -2) {
          next_hop_[root][next] = reached[k];
          reached.push_back(next);
        }
    if (reached.size() != n)
      runtime_failure("device tree: ", n - reached.size(), " of ", n, " nodes are not joined to node ", root);
  }
}

int Tree::parent(int node, int root) const { return next_hop_[root][node]; }

std::vector<int> Tree::children(int node, int root) const {
  std::vector<int> result = neighbours(node);
  std::erase_if(result, [&](int neighbour) { return parent(neighbour, root) != node; });
  return result;
}

int Tree::depth(int root) const {
  int deepest = 0;
  for (int node = 0; node < size(); ++node) {
    int steps = 0;
    for (int at = node; at != root; at = parent(at, root)) ++steps;
    deepest = std::max(deepest, steps);
  }
  return deepest;
}

int Tree::greatest_depth() const {
  int greatest = 0;
  for (int root = 0; root < size(); ++root) greatest = std::max(greatest, depth(root));
  return greatest;
}

std::string Tree::draw(const std::vector<std::string>& names) const {
  std::string out;
  const std::function<void(int, const std::string&, const std::string&)> visit =
      [&](int node, const std::string& lead, const std::string& below) {
        out += lead + names[node] + "\n";
        const std::vector<int> nodes = children(node, root_);
        for (std::size_t i = 0; i < nodes.size(); ++i) {
          const bool last = i + 1 == nodes.size();
          visit(nodes[i], below + (last ? "└── " : "├── "), below + (last ? "    " : "│   "));
        }
      };
  visit(root_, "", "");
  if (direct_) out += "(direct: every device is the root of such a star)\n";
  return out;
}

std::string Tree::to_string() const {
  if (direct_) return "direct";
  std::string out;
  for (const int above : parent_) out += cat(out.empty() ? "" : " ", above);
  return out;
}

Tree build_tree(const LinkMatrix& links) {
  std::vector<int> parent(links.devices(), -1);
  std::vector<Group> groups;
  for (int i = 0; i < links.devices(); ++i) groups.push_back({i, {i}});
  for (const LinkClass wanted : kFastestFirst)
    while (groups.size() > 1 && join_round(links, wanted, groups, parent)) {
    }
  return Tree(std::move(parent));
}

Tree chain_tree(int devices) {
  std::vector<int> parent;
  for (int i = 0; i < devices; ++i) parent.push_back(i - 1);
  return Tree(std::move(parent));
}

Tree star_tree(int devices) {
  std::vector<int> parent(devices, 0);
  parent[0] = -1;
  return Tree(std::move(parent));
}

Tree direct_tree(int devices) {
  Tree tree = star_tree(devices);
  tree.direct_ = devices > 2;
  for (int root = 0; root < devices; ++root) {
    auto& others = tree.neighbours_[root];
    others.clear();
    for (int node = 0; node < devices; ++node) {
      if (node == root) continue;
      others.push_back(node);
      tree.next_hop_[root][node] = root;
    }
  }
  return tree;
}

Tree best_tree(const LinkMatrix& links) {
  for (int a = 0; a < links.devices(); ++a)
    for (int b = 0; b < a; ++b)
      if (links.at(a, b) != LinkClass::memory) return build_tree(links);
  return direct_tree(links.devices());
}

}  // namespace banyan::parallel
