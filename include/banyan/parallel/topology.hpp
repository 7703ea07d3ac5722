// Topology: link classes in, a device tree out. Pure functions: the same classes always give the same tree,
// so that sums are added in the same order in every run; measured speed never decides.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace banyan::parallel {

/// How two devices reach each other, slowest first. The names are those of the vendors' topology tools.
enum class LinkClass : std::uint8_t {
  none,     ///< no peer access: staged through host memory
  sys,      ///< across the sockets' interconnect
  phb,      ///< through one host bridge
  pxb,      ///< through several PCIe switches
  pix,      ///< through one PCIe switch
  nvlink1,  ///< one NVLink
  nvlink2,  ///< two NVLinks
  nvlink4,  ///< four and more, or an NVSwitch
  memory,   ///< the same memory: virtual CPU devices, replicas on one GPU
};
const char* name_of(LinkClass link);

class LinkMatrix {
 public:
  LinkMatrix(int devices, LinkClass all);
  int devices() const { return devices_; }
  LinkClass at(int a, int b) const { return links_[index(a, b)]; }
  void set(int a, int b, LinkClass link);  ///< both directions
  /// The matrix of some of the devices, in the given order.
  LinkMatrix subset(const std::vector<int>& devices) const;

 private:
  std::size_t index(int a, int b) const {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(devices_) + static_cast<std::size_t>(b);
  }
  int devices_;
  std::vector<LinkClass> links_;
};

/// A spanning tree seen from any of its nodes: the edges are fixed, the root is chosen per call. Or a direct
/// tree, in which each root has its own star: it is joined to all others.
class Tree {
 public:
  /// `parent[root] == -1`. Throws a runtime failure if this is not a tree.
  explicit Tree(std::vector<int> parent);
  int size() const { return static_cast<int>(parent_.size()); }
  /// The root that it was built with; drawings begin here. Each exchange names its own root.
  int root() const { return root_; }
  /// Nodes joined to `node` by an edge, ascending.
  const std::vector<int>& neighbours(int node) const { return neighbours_[node]; }
  /// The neighbour of `node` on the path to `root`; -1 for the root itself.
  int parent(int node, int root) const;
  /// The other neighbours, ascending: the order in which they are added.
  std::vector<int> children(int node, int root) const;
  int depth(int root) const;
  int greatest_depth() const;  ///< of any root
  /// Drawing with box characters, one node per line; `names[i]` labels node i.
  std::string draw(const std::vector<std::string>& names) const;
  /// The parents in order, such as "-1 0 0 2", or "direct".
  std::string to_string() const;
  bool operator==(const Tree& other) const { return parent_ == other.parent_ && direct_ == other.direct_; }

 private:
  friend Tree direct_tree(int devices);
  std::vector<int> parent_;
  int root_ = 0;
  bool direct_ = false;
  std::vector<std::vector<int>> neighbours_;
  std::vector<std::vector<int>> next_hop_;  ///< [root][node]
};

/// Joins groups over the fastest class first, then over the next slower one; in every round each group joins
/// at most one other, so that n equal devices become a binomial tree of depth log2 n. Two groups are joined
/// at their roots if these have the link, otherwise at the lowest-numbered pair that has it. Device 0 is the
/// root.
Tree build_tree(const LinkMatrix& links);
Tree chain_tree(int devices);
Tree star_tree(int devices);
/// Every device reads all others: least traffic and one level, for devices that all reach each other equally
/// well. For up to two devices it is the only tree.
Tree direct_tree(int devices);
/// direct_tree if all devices share one memory, otherwise build_tree.
Tree best_tree(const LinkMatrix& links);

}  // namespace banyan::parallel
