#include "banyan/parallel/device_tree.hpp"

#include <utility>

namespace banyan::parallel {

DeviceTree::DeviceTree(const Tree& tree, std::vector<Member> members, AbortState& abort, SpinPolicy policy,
                       int slots, RootParent* uplink)
    : tree_(tree), members_(std::move(members)), uplink_(uplink) {
  const auto edges = static_cast<std::size_t>(size()) * static_cast<std::size_t>(size());
  pipes_.resize(edges);
  transfers_.resize(edges);
  in_place_.assign(edges, false);
  for (int node = 0; node < size(); ++node) bells_.push_back(std::make_unique<Doorbell>(abort, policy));
  for (int node = 0; node < size(); ++node) {
    for (const int next : tree_.neighbours(node)) {
      Device& from = *member(node).device;
      Device& to = *member(next).device;
      pipes_[edge(node, next)] = std::make_unique<Pipe>(from, from.name(), to.name(), bell(next), slots);
      const Access access =
          member(node).access != nullptr ? member(node).access->between(to, from) : usual_access(to, from);
      transfers_[edge(node, next)] = std::make_unique<Transfer>(access, to, from);
      in_place_[edge(node, next)] = access == Access::in_place;
    }
  }
}

}  // namespace banyan::parallel
