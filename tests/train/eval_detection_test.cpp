// What tests show of EvalDetection: average precisions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/part_bench.hpp"
#include "train/test_nets.hpp"

namespace banyan {
namespace {

/// Two images with an object each, of different classes; both are seen as the first class, the second one
/// with less confidence.
TEST(TestNets, ShowTheAveragePrecisionOfEvalDetection) {
  PartBench bench;
  const auto trained =
      bench.net(R"(layer { name: "in" type: "Input" top: "in" input_param { shape { dim: 1 } } })");
  std::vector<std::unique_ptr<Net>> nets;
  nets.push_back(bench.net(R"(
      layer { name: "in" type: "Input" top: "map" top: "truth" input_param {
              shape { dim: 2 dim: 7 dim: 1 dim: 1 } shape { dim: 1 dim: 1 dim: 2 dim: 8 } } }
      layer { name: "evaluate" type: "EvalDetection" bottom: "map" bottom: "truth" top: "judged"
              eval_detection_param { side: 1 num_class: 2 num_object: 1 biases: [1, 1] } })",
                           Phase::test));
  nets[0]->set_input("map", {0, 0, 0, 0, 2, 5, 0, 0, 0, 0, 0, 1, 5, 0});
  nets[0]->set_input("truth", {0, 1, 0, 0, 0, 1, 1, 0, 1, 2, 0, 0, 0, 1, 1, 0});
  TestSettings settings;
  settings.batches = {2};
  settings.per_class = true;
  TestNets tests(settings, bench.peers, *trained, std::move(nets));
  const LoggedLines log;
  const std::vector<TestResult> results = tests.run(40);
  EXPECT_THAT(log.lines, testing::ElementsAre("Iteration 40, Testing net (#0)", "class0: 1", "class1: 0",
                                              "    Test net output #0: judged = 0.5"));
}

}  // namespace
}  // namespace banyan
