#include "train/test_nets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/base/error.hpp"
#include "train/part_bench.hpp"

namespace banyan {
namespace {

using testing::ElementsAre;

TEST(TestNets, ResultsComeInTheOrderOfTheBatches) {
  std::vector<DeviceBoard> boards(2);
  boards[0].test_results = {{0, 1}, {20, 21}, {40, 41}};
  boards[1].test_results = {{10, 11}, {30, 31}};
  const std::vector<double> all = order_test_results(boards, {0, {2}}, 2, 5, 0);
  EXPECT_THAT(all, ElementsAre(0, 1, 10, 11, 20, 21, 30, 31, 40, 41));
  EXPECT_THAT(sum_test_results(all, 2), ElementsAre(100, 105));
}

TEST(TestNets, BatchesOfOtherProcessesAreLeftAtZero) {
  std::vector<DeviceBoard> boards(1);  // the third of three devices
  boards[0].test_results = {{2}};
  EXPECT_THAT(order_test_results(boards, {1, {2, 1}}, 1, 5, 0), ElementsAre(0, 0, 2, 0, 0));
}

TEST(TestNets, BatchesWithDifferentNumbersOfOutputsAreRefused) {
  std::vector<DeviceBoard> boards(2);
  boards[0].test_results = {{0, 1}};
  boards[1].test_results = {{0, 1, 2}};
  try {
    order_test_results(boards, {0, {2}}, 2, 2, 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "test net #3: the outputs of batch 1 have 2 values, those of the last batch 1");
  }
}

TEST(TestNets, LogsMeansOverTheBatches) {
  PartBench bench;
  const auto trained =
      bench.net(R"(layer { name: "in" type: "Input" top: "in" input_param { shape { dim: 1 } } })");
  std::vector<std::unique_ptr<Net>> nets;
  nets.push_back(bench.net(kLossNet, Phase::test));
  TestSettings settings;
  settings.batches = {3};
  settings.compute_loss = true;
  TestNets tests(settings, bench.peers, *trained, std::move(nets));
  const LoggedLines log;
  tests.run(40);
  EXPECT_THAT(log.lines, ElementsAre("Iteration 40, Testing net (#0)", "Test loss: 4",
                                     "    Test net output #0: loss = 2 (* 2 = 4 loss)"));
}

/// Two boxes, of which one is found; another detection, less sure, is wrong.
TEST(TestNets, ShowsTheAveragePrecisionOfDetections) {
  PartBench bench;
  const auto trained =
      bench.net(R"(layer { name: "in" type: "Input" top: "in" input_param { shape { dim: 1 } } })");
  std::vector<std::unique_ptr<Net>> nets;
  nets.push_back(bench.net(R"(
      layer { name: "in" type: "Input" top: "found" top: "truth" input_param {
              shape { dim: 1 dim: 1 dim: 2 dim: 7 } shape { dim: 1 dim: 1 dim: 2 dim: 8 } } }
      layer { name: "evaluate" type: "DetectionEvaluate" bottom: "found" bottom: "truth" top: "detection_eval"
              detection_evaluate_param { num_classes: 3 } })",
                           Phase::test));
  nets[0]->set_input("found", {0, 1, 0.9, 0.1, 0.1, 0.4, 0.4, 0, 1, 0.3, 0.6, 0.6, 0.7, 0.7});
  nets[0]->set_input("truth", {0, 1, 0, 0.1, 0.1, 0.4, 0.4, 0, 0, 2, 0, 0.5, 0.5, 0.9, 0.9, 0});
  TestSettings settings;
  settings.batches = {2};
  settings.per_class = true;
  TestNets tests(settings, bench.peers, *trained, std::move(nets));
  const LoggedLines log;
  const std::vector<TestResult> results = tests.run(40);
  EXPECT_THAT(log.lines, ElementsAre("Iteration 40, Testing net (#0)", "class1: 1", "class2: 0",
                                     "    Test net output #0: detection_eval = 0.5"));
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].outputs[0].values, std::vector<double>{0.5});
}

TEST(TestNets, EndsWithoutAResultWhenAskedToStop) {
  PartBench bench;
  const auto trained =
      bench.net(R"(layer { name: "in" type: "Input" top: "in" input_param { shape { dim: 1 } } })");
  std::vector<std::unique_ptr<Net>> nets;
  nets.push_back(bench.net(kLossNet, Phase::test));
  TestSettings settings;
  settings.batches = {1000000};
  TestNets tests(settings, bench.peers, *trained, std::move(nets));
  const std::atomic<bool> stop = true;
  const LoggedLines log;
  EXPECT_TRUE(tests.run(40, &stop).empty());
  EXPECT_THAT(log.lines, ElementsAre("Iteration 40, Testing net (#0)", "Test interrupted."));
}

/// What recurrent layers carry goes from batch to batch, and no test sees the one before.
TEST(TestNets, EveryTestBeginsWithoutCarriedStates) {
  PartBench bench;
  const auto trained =
      bench.net(R"(layer { name: "in" type: "Input" top: "in" input_param { shape { dim: 1 } } })");
  const auto lines = [&](int batches, int runs) {
    std::vector<std::unique_ptr<Net>> nets;
    nets.push_back(bench.net(R"(
        layer { name: "in" type: "DummyData" top: "x" top: "cont" dummy_data_param {
                shape { dim: 2 dim: 1 dim: 1 } shape { dim: 2 dim: 1 } data_filler { value: 1 } } }
        layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "h" recurrent_param {
                num_output: 1 weight_filler { value: 0.5 } } })",
                             Phase::test));
    TestSettings settings;
    settings.batches = {batches};
    TestNets tests(settings, bench.peers, *trained, std::move(nets));
    for (int run = 1; run < runs; ++run) tests.run(0);
    const LoggedLines log;
    tests.run(0);
    return log.lines;
  };
  EXPECT_EQ(lines(3, 2), lines(3, 1));
  EXPECT_NE(lines(2, 1), lines(1, 1));
}

}  // namespace
}  // namespace banyan
