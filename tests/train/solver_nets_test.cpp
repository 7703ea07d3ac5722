#include "banyan/train/solver_nets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "banyan/base/error.hpp"
#include "banyan/io/prototxt.hpp"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

SolverSettings solver_of(const std::string& text) {
  return solver_settings(
      io::parse_solver_text("base_lr: 1 lr_policy: 'fixed' max_iter: 1 test_interval: 1 " + text,
                            "made.prototxt"),
      "made.prototxt");
}

std::string net_file(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

TEST(SolverNets, StateIsComposedInCaffesOrder) {
  const std::string file = net_file(
      "state_net.prototxt", "name: 'n' state { level: 1 stage: 'file' } layer { name: 'd' type: 'Input' }");
  const auto solver = solver_of("net: '" + file +
                                "' train_state { level: 5 stage: 'train' } test_iter: 1 test_iter: 1 "
                                "test_state { stage: 'first' } test_state { level: 7 phase: TRAIN }");
  const auto train = train_net_of(solver, "made.prototxt");
  EXPECT_EQ(train.origin, file);
  EXPECT_EQ(train.net.name(), "n");
  EXPECT_EQ(train.net.state().phase(), caffe::TRAIN);
  EXPECT_EQ(train.net.state().level(), 5);
  EXPECT_THAT(train.net.state().stage(), ElementsAre("file", "train"));

  const auto tests = test_nets_of(solver, "made.prototxt");
  ASSERT_EQ(tests.size(), 2u);
  EXPECT_EQ(tests[0].net.state().phase(), caffe::TEST);
  EXPECT_EQ(tests[0].net.state().level(), 1);
  EXPECT_THAT(tests[0].net.state().stage(), ElementsAre("file", "first"));
  EXPECT_EQ(tests[1].net.state().phase(), caffe::TRAIN);
  EXPECT_EQ(tests[1].net.state().level(), 7);
}

TEST(SolverNets, OrderOfTheSourcesOfTestNets) {
  const std::string file = net_file("order_net.prototxt", "name: 'from test_net'");
  const auto solver = solver_of("net_param { name: 'common' } test_net: '" + file +
                                "' test_net_param { name: 'inline' } test_iter: 1 test_iter: 1 test_iter: 1");
  const auto tests = test_nets_of(solver, "made.prototxt");
  ASSERT_EQ(tests.size(), 3u);
  EXPECT_EQ(tests[0].net.name(), "inline");
  EXPECT_EQ(tests[0].origin, "test_net_param in made.prototxt");
  EXPECT_EQ(tests[1].net.name(), "from test_net");
  EXPECT_EQ(tests[2].net.name(), "common");
}

TEST(SolverNets, NetsOfEarlierFormatsAreUpgraded) {
  const auto solver = solver_of("train_net_param { layers { name: 'ip' type: INNER_PRODUCT } }");
  const auto train = train_net_of(solver, "made.prototxt");
  ASSERT_EQ(train.net.layer_size(), 1);
  EXPECT_EQ(train.net.layer(0).type(), "InnerProduct");
}

TEST(SolverNets, AMissingFileIsBadInput) {
  try {
    train_net_of(solver_of("net: '/nowhere/net.prototxt'"), "made.prototxt");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_THAT(error.what(), testing::HasSubstr("/nowhere/net.prototxt"));
  }
}

}  // namespace
}  // namespace banyan
