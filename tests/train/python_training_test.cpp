// Training with layers in Python: data that one program makes for all devices, and losses.
#include <gmock/gmock.h>

#include "banyan/base/error.hpp"
#include "banyan/train/session.hpp"
#include "layers/python_case.hpp"
#include "train/training_case.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;

class PythonTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& why : {why_no_test_layers(), why_no_run_devices()})
      if (!why.empty()) GTEST_SKIP() << why;
  }
};

std::string regression_net(const std::string& loss, const std::string& data = R"({"batch": 4})") {
  const auto source = [&](const char* phase) {
    return cat("layer { name: 'data' top: 'x' top: 'y' include { phase: ", phase, " } ",
               python_text("Numbers", data), "} ");
  };
  return cat(
      source("TRAIN"), source("TEST"),
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'h' inner_product_param { num_output: 5 "
      "weight_filler { type: 'xavier' } } } ",
      "layer { name: 'swish' bottom: 'h' top: 's' ", python_text("Swish", R"({"slope": 2})"),
      "param { lr_mult: 3 } } ",
      "layer { name: 'out' type: 'InnerProduct' bottom: 's' top: 'o' inner_product_param { num_output: "
      "1 weight_filler { type: 'xavier' } } } ",
      "layer { name: 'loss' bottom: 'o' bottom: 'y' top: 'loss' ", loss, "}");
}
const std::string kInPython = python_text("MeanSquares") + "loss_weight: 1 ";

TrainingCase regression(const std::string& net, const std::string& more = "") {
  TrainingCase of;
  of.solver = std::string(kFixedSolver) + more;
  of.net = net;
  of.iterations = 12;
  return of;
}

/// Sums in other orders.
constexpr double kRounding = 1e-12;

TEST_F(PythonTraining, LossInPythonIsTheLossInCpp) {
  const Trained python = train_case(regression(regression_net(kInPython)), run_devices(1));
  const Trained cpp = train_case(regression(regression_net("type: 'EuclideanLoss'")), run_devices(1));
  EXPECT_LT(largest_difference(python.values(), cpp.values()), kRounding);
  EXPECT_LT(largest_difference(python.losses(), cpp.losses()), kRounding);
  EXPECT_LT(python.losses().back(), 0.5 * python.losses().front());
  ASSERT_EQ(python.weights.layers.size(), 5u);
  EXPECT_EQ(python.weights.layers[2].type, "Python");
  EXPECT_NE(python.weights.layers[2].blobs[0].at(0), 2);  // it has learned
}

/// Two devices see in an iteration what one sees in two passes.
TEST_F(PythonTraining, DevicesTogetherAreOneDeviceWithSeveralPasses) {
  for (const char* data : {R"({"batch": 4})", R"({"batch": 2, "different": true})"})
    for (const std::string& loss : {kInPython, std::string("type: 'EuclideanLoss'")}) {
      const bool different = std::string(data).find("different") != std::string::npos;
      if (different && loss != kInPython) continue;  // one mean of all samples, not of two means
      const std::string net = regression_net(loss, data);
      const Trained one = train_case(regression(net, "iter_size: 2 "), run_devices(1));
      const Trained two = train_case(regression(net), run_devices(2));
      EXPECT_LT(largest_difference(two.values(), one.values()), kRounding) << data << loss;
      EXPECT_LT(largest_difference(two.losses(), one.losses()), kRounding) << data << loss;
      const Trained three = train_case(regression(net), run_devices(3));
      const Trained passes = train_case(regression(net, "iter_size: 3 "), run_devices(1));
      EXPECT_LT(largest_difference(three.values(), passes.values()), kRounding) << data << loss;
    }
}

TEST_F(PythonTraining, TestBatchesAreDealtWhole) {
  FLAGS_minloglevel = 2;
  std::vector<std::vector<double>> results;
  for (const int devices : {1, 2, 3}) {
    const TrainingFolder folder;
    Session session(options_of(regression(regression_net(kInPython), "test_iter: 5 test_interval: 100 "),
                               folder, run_devices(devices)));
    auto& found = results.emplace_back();
    for (int pass = 0; pass < 3; ++pass) found.push_back(session.test().at(0).outputs.at(0).values.at(0));
    EXPECT_NE(found[0], found[1]);  // the next five batches
  }
  for (const auto& of_more : results) EXPECT_LT(largest_difference(of_more, results[0]), kRounding);
}

TEST_F(PythonTraining, EndsWithWhatPythonRaises) {
  FLAGS_minloglevel = 3;
  const TrainingFolder folder;
  const std::string net = regression_net(python_text("Broken", "backward") + "loss_weight: 1 ");
  const TrainOptions options = options_of(regression(net), folder, run_devices(3));
  try {
    train(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::runtime);
    EXPECT_THAT(std::string(error.what()), HasSubstr("in backward(): ValueError: this is wrong in backward"));
  }
}

TEST_F(PythonTraining, EndsWithItsData) {
  FLAGS_minloglevel = 3;
  std::string net = regression_net(kInPython);
  net.replace(net.find("Numbers"), 7, "Ending");
  for (const int devices : {1, 3}) {
    const TrainingFolder folder;
    const TrainOptions options = options_of(regression(net), folder, run_devices(devices));
    try {
      train(options);
      FAIL();
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_THAT(
          what, HasSubstr("(Python, layers_of_tests.Ending) in forward(): ValueError: there is no batch 4"));
      const auto place = what.find("while running layer \"data\" ");
      EXPECT_NE(place, std::string::npos) << what;
      EXPECT_EQ(what.find("while running", place + 1), std::string::npos) << what;
      EXPECT_THAT(what, HasSubstr(devices == 1 ? "iteration 4" : "iteration 1"));
    }
  }
}

TEST_F(PythonTraining, GoesOnFromASnapshotWithTheFirstData) {
  const TrainingFolder folder;
  TrainingCase of = regression(regression_net(kInPython));
  train_case(of, run_devices(2), folder);
  of.iterations = 14;
  TrainOptions options = options_of(of, folder, run_devices(2));
  options.snapshot = folder.path() + "/out_iter_12.solverstate";
  EXPECT_EQ(train(options), 0);
  EXPECT_EQ(read_trained(folder, 14).state.iter(), 14);
}

}  // namespace
}  // namespace banyan
