#include "banyan/parallel/topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>

#include "banyan/base/error.hpp"
#include "recorded_boxes.hpp"

namespace banyan::parallel {
namespace {

class RecordedBoxTest : public testing::TestWithParam<RecordedBox> {};
INSTANTIATE_TEST_SUITE_P(Boxes, RecordedBoxTest, testing::ValuesIn(recorded_boxes()), [](const auto& box) {
  std::string name;
  for (const char c : box.param.name)
    if (std::isalnum(static_cast<unsigned char>(c))) name += c;
  return name;
});

TEST_P(RecordedBoxTest, GetsItsTree) {
  const LinkMatrix links = parse_matrix(GetParam().matrix);
  std::vector<std::string> names;
  for (int i = 0; i < links.devices(); ++i) names.push_back("gpu:" + std::to_string(i));
  EXPECT_EQ(build_tree(links).draw(names), GetParam().tree);
}

/// The tree's slowest link cannot be avoided: without it and anything slower, the devices are not all
/// connected.
TEST_P(RecordedBoxTest, UsesNoSlowerLinkThanItMust) {
  const LinkMatrix links = parse_matrix(GetParam().matrix);
  const Tree tree = build_tree(links);
  LinkClass slowest = LinkClass::memory;
  for (int node = 1; node < tree.size(); ++node)
    slowest = std::min(slowest, links.at(node, tree.parent(node, 0)));
  std::vector<int> reached{0};
  std::vector<bool> seen(tree.size(), false);
  seen[0] = true;
  for (std::size_t k = 0; k < reached.size(); ++k)
    for (int next = 0; next < tree.size(); ++next)
      if (!seen[next] && links.at(reached[k], next) > slowest) {
        seen[next] = true;
        reached.push_back(next);
      }
  EXPECT_TRUE(tree.size() == 1 || static_cast<int>(reached.size()) < tree.size());
}

TEST_P(RecordedBoxTest, IsDrawnInTheDocs) {
  std::ifstream file(std::string(BANYAN_SOURCE) + "/docs/topology.md");
  const std::string docs{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::size_t heading = docs.find("### " + GetParam().name + "\n");
  ASSERT_NE(heading, std::string::npos) << GetParam().name;
  const std::string section = docs.substr(heading, docs.find("\n#", heading + 1) - heading);
  EXPECT_NE(section.find("```\n" + GetParam().tree + "```"), std::string::npos) << section;
}

TEST(Topology, EqualLinksGiveABinomialTree) {
  const Tree tree = build_tree(LinkMatrix(8, LinkClass::nvlink4));
  EXPECT_EQ(tree.to_string(), "-1 0 0 2 0 4 4 6");
  EXPECT_EQ(tree.depth(0), 3);
}

TEST(Topology, PairsFollowTheSwitchesNotTheNumbers) {
  LinkMatrix crossed(4, LinkClass::phb);  // 0,2 and 1,3 share a switch
  crossed.set(0, 2, LinkClass::pix);
  crossed.set(1, 3, LinkClass::pix);
  EXPECT_EQ(build_tree(crossed).to_string(), "-1 0 0 1");
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
  // 0-1 and 2-3 are pairs; only 1-3 has a faster way across.
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

TEST(Tree, DirectJoinsEveryRootToAllOthers) {
  const Tree tree = direct_tree(4);
  for (int root = 0; root < 4; ++root) {
    EXPECT_EQ(tree.depth(root), 1);
    EXPECT_EQ(tree.parent(root, root), -1);
    EXPECT_EQ(tree.children(root, root), tree.neighbours(root));
    for (int node = 0; node < 4; ++node) {
      if (node == root) continue;
      EXPECT_EQ(tree.parent(node, root), root);
      EXPECT_TRUE(tree.children(node, root).empty());
    }
  }
  EXPECT_THAT(tree.neighbours(2), testing::ElementsAre(0, 1, 3));
  EXPECT_EQ(tree.to_string(), "direct");
  EXPECT_FALSE(tree == star_tree(4));
  EXPECT_EQ(direct_tree(2), star_tree(2));
  EXPECT_EQ(direct_tree(1).neighbours(0).size(), 0u);
  EXPECT_EQ(tree.draw({"a", "b", "c", "d"}),
            "a\n├── b\n├── c\n└── d\n(direct: every device is the root of such a star)\n");
}

TEST(Topology, OnlyOneMemoryIsReadDirectly) {
  EXPECT_EQ(best_tree(LinkMatrix(4, LinkClass::memory)), direct_tree(4));
  LinkMatrix replicas_on_two_cards(4, LinkClass::memory);
  for (const int a : {0, 1})
    for (const int b : {2, 3}) replicas_on_two_cards.set(a, b, LinkClass::pix);
  EXPECT_EQ(best_tree(replicas_on_two_cards), build_tree(replicas_on_two_cards));
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

TEST(TreeDepth, GreatestOfAllRoots) {
  EXPECT_EQ(chain_tree(5).depth(2), 2);
  EXPECT_EQ(chain_tree(5).greatest_depth(), 4);
  EXPECT_EQ(star_tree(5).depth(0), 1);
  EXPECT_EQ(star_tree(5).greatest_depth(), 2);  // of the leaves
  EXPECT_EQ(direct_tree(5).greatest_depth(), 1);
  EXPECT_EQ(chain_tree(1).greatest_depth(), 0);
}

}  // namespace
}  // namespace banyan::parallel
