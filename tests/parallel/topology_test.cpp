#include "banyan/parallel/topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/base/error.hpp"

namespace banyan::parallel {
namespace {

std::vector<std::string> numbered(int n) {
  std::vector<std::string> names;
  for (int i = 0; i < n; ++i) names.push_back(std::to_string(i));
  return names;
}

/// Four cards behind two switches: 0,1 and 2,3 share a switch.
LinkMatrix two_switches() {
  LinkMatrix links(4, LinkClass::phb);
  links.set(0, 1, LinkClass::pix);
  links.set(2, 3, LinkClass::pix);
  return links;
}

/// DGX-1: 8 GPUs, two quads of NVLinks, each GPU linked to its partner in the other quad; elsewhere across
/// the sockets.
LinkMatrix hybrid_cube_mesh() {
  LinkMatrix links(8, LinkClass::sys);
  for (const int quad : {0, 4})
    for (int a = 0; a < 4; ++a)
      for (int b = a + 1; b < 4; ++b) links.set(quad + a, quad + b, LinkClass::nvlink1);
  for (int i = 0; i < 4; ++i) links.set(i, i + 4, LinkClass::nvlink2);
  return links;
}

TEST(Topology, OneCardIsARoot) {
  const Tree tree = build_tree(LinkMatrix(1, LinkClass::none));
  EXPECT_EQ(tree.size(), 1);
  EXPECT_EQ(tree.parent(0, 0), -1);
  EXPECT_EQ(tree.draw({"gpu:0"}), "gpu:0\n");
}

TEST(Topology, EqualLinksGiveABinomialTree) {
  const Tree tree = build_tree(LinkMatrix(8, LinkClass::nvlink4));
  EXPECT_EQ(tree.to_string(), "-1 0 0 2 0 4 4 6");
  EXPECT_EQ(tree.depth(0), 3);
}

TEST(Topology, ThreeCards) { EXPECT_EQ(build_tree(LinkMatrix(3, LinkClass::pix)).to_string(), "-1 0 0"); }

TEST(Topology, CardsBehindOneSwitchArePairedFirst) {
  const Tree tree = build_tree(two_switches());
  EXPECT_EQ(tree.draw(numbered(4)), "0\n├── 1\n└── 2\n    └── 3\n");
  // The same box with its cards numbered the other way round: the pairs follow the switches, not the numbers.
  LinkMatrix crossed(4, LinkClass::phb);
  crossed.set(0, 2, LinkClass::pix);
  crossed.set(1, 3, LinkClass::pix);
  EXPECT_EQ(build_tree(crossed).to_string(), "-1 0 0 1");
}

TEST(Topology, HybridCubeMeshUsesNvLinksOnly) {
  const LinkMatrix links = hybrid_cube_mesh();
  const Tree tree = build_tree(links);
  for (int node = 1; node < 8; ++node)
    EXPECT_GE(links.at(node, tree.parent(node, 0)), LinkClass::nvlink1) << node;
  EXPECT_EQ(tree.draw(numbered(8)),
            "0\n├── 1\n│   └── 5\n├── 2\n│   ├── 3\n│   │   └── 7\n│   └── 6\n└── 4\n");
}

TEST(Topology, SocketsWithoutPeerAccessAreJoinedOnce) {
  LinkMatrix links(4, LinkClass::none);
  links.set(0, 1, LinkClass::phb);
  links.set(2, 3, LinkClass::phb);
  const Tree tree = build_tree(links);
  int staged = 0;
  for (int node = 1; node < 4; ++node) staged += links.at(node, tree.parent(node, 0)) == LinkClass::none;
  EXPECT_EQ(staged, 1);
}

TEST(Topology, JoinsWhereTheRootsHaveNoLink) {
  // 0-1 and 2-3 are pairs, and only 1-3 have a faster way across.
  LinkMatrix links(4, LinkClass::none);
  links.set(0, 1, LinkClass::nvlink2);
  links.set(2, 3, LinkClass::nvlink2);
  links.set(1, 3, LinkClass::nvlink1);
  EXPECT_EQ(build_tree(links).to_string(), "-1 0 3 1");
}

TEST(Tree, CanBeSeenFromAnyNode) {
  const Tree tree = build_tree(LinkMatrix(4, LinkClass::memory));  // 0 - 1, 0 - 2, 2 - 3
  EXPECT_EQ(tree.parent(0, 3), 2);
  EXPECT_EQ(tree.parent(2, 3), 3);
  EXPECT_EQ(tree.parent(3, 3), -1);
  EXPECT_THAT(tree.children(2, 3), testing::ElementsAre(0));
  EXPECT_THAT(tree.children(0, 3), testing::ElementsAre(1));
  EXPECT_THAT(tree.children(0, 0), testing::ElementsAre(1, 2));
  EXPECT_EQ(tree.depth(3), 3);
}

TEST(Tree, RefusesWhatIsNoTree) {
  EXPECT_THROW(Tree({-1, -1}), Error);
  EXPECT_THROW(Tree({-1, 2, 1}), Error);
  EXPECT_THROW(Tree({-1, 7}), Error);
}

TEST(Tree, ChainAndStar) {
  EXPECT_EQ(chain_tree(4).depth(0), 3);
  EXPECT_EQ(star_tree(4).depth(0), 1);
}

}  // namespace
}  // namespace banyan::parallel
