#include "banyan/parallel/tree_choice.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "banyan/base/error.hpp"

namespace banyan::parallel {
namespace {

const LinkMatrix kFour(4, LinkClass::pix);

/// The message for a refused tree.
std::string refusal(const std::string& text, int devices = 4) {
  try {
    parse_tree(text, "tree.txt", devices);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return "accepted";
}

TEST(TreeChoice, Names) {
  EXPECT_EQ(choose_tree("auto", kFour), build_tree(kFour));
  EXPECT_EQ(choose_tree("pairs", kFour), build_tree(kFour));
  EXPECT_EQ(choose_tree("direct", kFour), direct_tree(4));
  EXPECT_EQ(choose_tree("chain", kFour), chain_tree(4));
  EXPECT_EQ(choose_tree("star", kFour), star_tree(4));
}

TEST(TreeChoice, UnknownNameThatIsNoFile) {
  try {
    choose_tree("chian", kFour);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(
        std::string(error.what()).find("--tree=chian: expected auto, direct, pairs, chain, star or a file"),
        std::string::npos);
    EXPECT_NE(std::string(error.what()).find("did you mean \"chain\"?"), std::string::npos);
  }
}

TEST(TreeChoice, File) {
  const std::string path = testing::TempDir() + "tree_choice_test.txt";
  std::ofstream(path) << "1 0\n2 1\n3 1\n";
  EXPECT_EQ(choose_tree(path, kFour).to_string(), "-1 0 1 1");
  try {
    choose_tree(path, LinkMatrix(3, LinkClass::pix));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), path + ":3: there is no device 3; the 3 devices are 0 to 2");
  }
}

TEST(ParseTree, Edges) {
  EXPECT_EQ(parse_tree("# by hand\n3 2  # far\n\n0 2\n1 0\n", "f", 4).to_string(), "2 0 -1 2");
  EXPECT_EQ(parse_tree("1 0", "f", 2).to_string(), "-1 0");
  EXPECT_EQ(parse_tree("", "f", 1).to_string(), "-1");
}

TEST(ParseTree, ListOfParents) {
  EXPECT_EQ(parse_tree("-1 0 0 2\n", "f", 4).to_string(), "-1 0 0 2");
  EXPECT_EQ(parse_tree("1 -1", "f", 2).to_string(), "1 -1");
  EXPECT_EQ(parse_tree("-1", "f", 1).to_string(), "-1");
}

TEST(ParseTree, NamesFileAndLineOfWhatIsWrong) {
  EXPECT_EQ(refusal("1 0\n2 x\n"), "tree.txt:2: expected a device number, found \"x\"");
  EXPECT_EQ(refusal("1 0\n2 0 1\n"), "tree.txt:2: expected two numbers, CHILD PARENT, found 3");
  EXPECT_EQ(refusal("1 0\n9 0\n"), "tree.txt:2: there is no device 9; the 4 devices are 0 to 3");
  EXPECT_EQ(refusal("1 0\n-1 0\n"), "tree.txt:2: there is no device -1; the 4 devices are 0 to 3");
  EXPECT_EQ(refusal("1 0\n2 2\n"), "tree.txt:2: device 2 cannot be its own parent");
  EXPECT_EQ(refusal("1 0\n1 2\n"), "tree.txt:2: device 1 has the parent 0 already");
  EXPECT_EQ(refusal("-1 0 0\n"), "tree.txt:1: expected the parents of 4 devices, found 3 numbers");
  EXPECT_EQ(refusal("99999999999 0\n"), "tree.txt:1: expected a device number, found \"99999999999\"");
}

TEST(ParseTree, WhatIsNoTree) {
  EXPECT_EQ(refusal("1 0\n"),
            "tree.txt: exactly one device, the root, has no parent; here these have none: 0, 2, 3");
  EXPECT_EQ(refusal("0 1\n1 0\n2 0\n3 0\n"),
            "tree.txt: exactly one device, the root, has no parent; here every device has one");
  EXPECT_EQ(refusal("1 2\n2 3\n3 1\n"), "tree.txt: the parents of device 1 form a cycle");
}

}  // namespace
}  // namespace banyan::parallel
