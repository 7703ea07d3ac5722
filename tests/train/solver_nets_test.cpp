#include "banyan/train/solver_nets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
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

/// Processes of one run may keep their files in different places, but must not compute different things.
TEST(SolverNets, FactsLeaveOutWhereFilesAre) {
  const auto facts = [](const std::string& text) {
    return facts_of(train_net_of(solver_of("train_net_param { " + text + " }"), "made.prototxt"), "the net");
  };
  const auto net = [](const std::string& folder, int batch, int top_k) {
    return cat("layer { name: 'd' type: 'AnnotatedData' top: 'd' top: 'l' data_param { source: '", folder,
               "/lmdb' batch_size: ", batch, " prefetch: ", folder.size(),
               " } annotated_data_param { label_map_file: '", folder,
               "/labels' } } layer { name: 'o' type: 'DetectionOutput' bottom: 'd' detection_output_param { ",
               "nms_param { top_k: ", top_k, " } save_output_param { output_directory: '", folder,
               "/out' label_map_file: '", folder, "/labels' name_size_file: '", folder,
               "/sizes' output_name_prefix: 'p' } } } layer { name: 'h' type: 'HDF5Output' bottom: 'd' ",
               "hdf5_output_param { file_name: '", folder, "/h' } }");
  };
  EXPECT_EQ(facts(net("/a", 4, 9)), facts(net("/other", 4, 9)));
  const auto here = facts(net("/a", 4, 9)), larger = facts(net("/a", 5, 9)), nested = facts(net("/a", 4, 8));
  ASSERT_EQ(here.size(), 5u);  // the number of layers, three layers, the rest
  EXPECT_EQ(here[1].first, "layer \"d\" of the net");
  const auto different = [&](const auto& there) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < here.size(); ++i)
      if (here[i] != there.at(i)) places.push_back(i);
    return places;
  };
  EXPECT_THAT(different(larger), ElementsAre(1));
  EXPECT_THAT(different(nested), ElementsAre(2));
}

}  // namespace
}  // namespace banyan
