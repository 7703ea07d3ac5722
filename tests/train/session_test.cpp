#include "banyan/train/session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <filesystem>
#include <functional>

#include "banyan/base/error.hpp"
#include "banyan/observe/activity.hpp"
#include "train/training_case.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;

/// Dropout, batches that are dealt, shuffled records: everything that an iteration depends on.
TrainingCase usual_case(int iterations) {
  TrainingCase of;
  of.solver = std::string(kFixedSolver) + "test_iter: 3 test_interval: 1000 test_initialization: false ";
  of.net = R"(
layer { name: "images" type: "Data" top: "data" top: "label" include { phase: TRAIN }
        data_param { source: "DATA" batch_size: 4 backend: LMDB shuffle: true } transform_param { scale: 0.004 } }
layer { name: "images" type: "Data" top: "data" top: "label" include { phase: TEST }
        data_param { source: "DATA" batch_size: 5 backend: LMDB } transform_param { scale: 0.004 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "bn" type: "SyncBN" bottom: "conv" top: "conv" bn_param { slope_filler { value: 1 } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "relu" }
layer { name: "drop" type: "Dropout" bottom: "relu" top: "drop" dropout_param { dropout_ratio: 0.25 } }
layer { name: "ip" type: "InnerProduct" bottom: "drop" top: "ip"
        inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" include { phase: TEST } })";
  of.iterations = iterations;
  return of;
}

class SessionOn : public testing::TestWithParam<int> {
 protected:
  SessionOn() { FLAGS_minloglevel = 2; }
  TrainOptions options(int iterations) const {
    return options_of(usual_case(iterations), folder_, GetParam());
  }
  const TrainingFolder folder_;
};

TEST_P(SessionOn, TrainsInPiecesAsInOneGo) {
  const Trained whole = train_case(usual_case(9), GetParam());
  {
    Session session(options(9));
    EXPECT_EQ(session.iteration(), 0);
    EXPECT_EQ(session.devices(), GetParam());
    EXPECT_TRUE(session.step(0));
    EXPECT_TRUE(session.step(1));
    EXPECT_EQ(session.iteration(), 1);
    EXPECT_TRUE(session.step(5));
    session.test();  // leaves no trace
    EXPECT_EQ(session.iteration(), 6);
    EXPECT_FALSE(session.train().stopped_early);
    EXPECT_EQ(session.iteration(), 9);
    EXPECT_TRUE(session.step(1));  // there is nothing left to do
    EXPECT_EQ(session.iteration(), 9);
  }
  const Trained pieces = read_trained(folder_, 9);
  EXPECT_EQ(pieces.model_bytes, whole.model_bytes);
  EXPECT_EQ(pieces.losses(), whole.losses());
}

TEST_P(SessionOn, GoesBackToASnapshot) {
  Session session(options(20));
  session.step(4);
  const std::string state = session.snapshot();
  EXPECT_EQ(state, folder_.path() + "/out_iter_4.solverstate");
  session.step(3);
  const Metrics expected = session.metrics();
  const std::vector<double> weights = session.parameter("conv", 0).values;
  const std::vector<double> statistics = session.parameter("bn", 0).values;
  session.step(6);
  EXPECT_NE(session.parameter("conv", 0).values, weights);
  session.restore(state);
  EXPECT_EQ(session.iteration(), 4);
  session.step(3);
  EXPECT_EQ(session.parameter("conv", 0).values, weights);
  EXPECT_EQ(session.parameter("bn", 0).values, statistics);
  EXPECT_EQ(session.metrics().iteration, 7);
  EXPECT_EQ(session.metrics().loss, expected.loss);
  EXPECT_FLOAT_EQ(session.metrics().rate, 0.05F);
}

/// The gradient of p is -c, so p grows by the rate times the sum of all c, whatever iter_size is.
TEST(Session, ReversesGradientsByTheIterationOfTheRun) {
  TrainingCase of = usual_case(6);
  of.solver = "base_lr: 0.05 lr_policy: 'fixed' random_seed: 3 display: 0 iter_size: 2 ";
  of.net += R"(
layer { name: "p" type: "Parameter" top: "p" parameter_param { shape { dim: 1 } } include { phase: TRAIN } }
layer { name: "reversal" type: "GradientScaler" bottom: "p" top: "reversal" include { phase: TRAIN }
        gradient_scaler_param { lower_bound: 0.5 upper_bound: 2 alpha: 1 max_iter: 4 } }
layer { name: "value" type: "Reduction" bottom: "reversal" top: "value" loss_weight: 1 include { phase: TRAIN } })";
  const TrainingFolder folder;
  const auto expected = [](int iterations) {
    double sum = 0;
    for (int i = 0; i < iterations; ++i)
      sum += 0.05 * (0.5 + 1.5 * (2 / (1 + std::exp(-std::min(1.0, i / 4.0))) - 1));
    return sum;
  };
  TrainOptions options = options_of(of, folder, 1);
  {
    Session session(options);
    session.step(2);
    EXPECT_NEAR(session.parameter("p", 0).values[0], expected(2), 1e-6);
    options.snapshot = session.snapshot();
  }
  Session resumed(options);
  resumed.step(4);
  EXPECT_NEAR(resumed.parameter("p", 0).values[0], expected(6), 1e-6);
}

/// The solver's snapshot_before_train: once, with the number of the iteration where the training starts.
TEST_P(SessionOn, SavesBeforeItTrains) {
  TrainingCase of = usual_case(4);
  of.solver += "snapshot_before_train: true snapshot_after_train: false ";
  const auto saved = [&](int iteration) {
    return std::filesystem::exists(cat(folder_.path(), "/out_iter_", iteration, ".solverstate"));
  };
  std::vector<double> weights;
  {
    Session session(options_of(of, folder_, GetParam()));
    session.step(0);
    EXPECT_FALSE(saved(0));
    weights = session.parameter("conv", 0).values;
    session.step(2);
    session.train();
    EXPECT_TRUE(saved(0));
    EXPECT_FALSE(saved(2));
    EXPECT_FALSE(saved(4));
  }
  Session session(options(9));
  session.restore(folder_.path() + "/out_iter_0.solverstate");
  EXPECT_EQ(session.iteration(), 0);
  EXPECT_EQ(session.parameter("conv", 0).values, weights);
  session.step(3);
  const std::string later = session.snapshot();
  TrainOptions resumed = options_of(of, folder_, GetParam());
  resumed.snapshot = later;
  Session again(resumed);
  for (const int iteration : {0, 3})
    std::filesystem::remove(cat(folder_.path(), "/out_iter_", iteration, ".solverstate"));
  again.train();
  EXPECT_FALSE(saved(0));
  EXPECT_TRUE(saved(3));
}

SignalFlags session_signals;

void stop_the_test(const Activity& activity, Stage stage, const char*) {
  if (stage == Stage::test && activity.device() == "cpu:0") session_signals.stop = true;
}

/// What comes after a test that was cut short does not depend on how far it had come.
TEST_P(SessionOn, AStopEndsATestToo) {
  TrainOptions asked = options(9);
  asked.solver.test.interval = 2;
  asked.signals = &session_signals;
  Session whole(asked), interrupted(asked);
  EXPECT_TRUE(whole.step(4));
  EXPECT_TRUE(interrupted.step(2));
  install_fault_injector(stop_the_test);
  EXPECT_FALSE(interrupted.step(2));  // before iteration 2
  install_fault_injector(nullptr);
  EXPECT_EQ(interrupted.iteration(), 3);
  session_signals.stop = false;
  EXPECT_TRUE(interrupted.step(1));
  EXPECT_EQ(interrupted.parameter("conv", 0).values, whole.parameter("conv", 0).values);
  EXPECT_EQ(interrupted.test()[0].loss, whole.test()[0].loss);
}

TEST_P(SessionOn, TestsWhenAsked) {
  Session session(options(5));
  const std::vector<TestResult> before = session.test();
  ASSERT_EQ(before.size(), 1U);
  ASSERT_EQ(before[0].outputs.size(), 2U);
  EXPECT_EQ(before[0].outputs[0].blob, "accuracy");
  EXPECT_EQ(before[0].outputs[1].blob, "loss");
  EXPECT_EQ(before[0].outputs[1].values, std::vector<double>{before[0].loss});
  const double accuracy = before[0].outputs[0].values.at(0);
  EXPECT_NEAR(accuracy * 15, std::round(accuracy * 15), 1e-9);  // 3 batches of 5
  session.step(5);
  EXPECT_NE(session.test()[0].loss, before[0].loss);
}

TEST_P(SessionOn, ShowsBlobsByName) {
  TrainOptions asked = options(3);
  {
    Session session(asked);
    session.step(1);
    const int last = GetParam() - 1;
    EXPECT_EQ(session.blob("data", last).shape, (Shape{4, 3, 12, 12}));
    EXPECT_EQ(session.blob("label", last).values.size(), 4U);
    double loss = 0;
    for (int device = 0; device <= last; ++device) loss += session.blob("loss", device).values.at(0);
    EXPECT_NEAR(loss, session.metrics().loss, 1e-12 * loss);  // shares, added in another order
    EXPECT_THROW(session.blob("data", GetParam()), Error);
    try {
      session.blob("relu");
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      EXPECT_THAT(error.what(), HasSubstr("\"relu\" shares its memory"));
    }
    EXPECT_THROW(session.blob("nothing"), Error);
    EXPECT_TRUE(session.step(1));  // a wrong name does not end the session
  }
  asked.keep_blobs = true;
  Session session(asked);
  session.step(1);
  const Values relu = session.blob("relu");
  EXPECT_EQ(relu.shape, (Shape{4, 6, 10, 10}));
  EXPECT_THAT(relu.values, testing::Each(testing::Ge(0)));
  EXPECT_THAT(relu.values, testing::Contains(testing::Gt(0)));
}

TEST_P(SessionOn, SetsParametersOnAllDevices) {
  Session session(options(3));
  Values weights = session.parameter("ip", 1);
  EXPECT_EQ(weights.shape, (Shape{5}));
  weights.values = {1, 2, 3, 4, 500};  // only the last class is ever predicted
  session.set_parameter("ip", 1, weights.values);
  EXPECT_EQ(session.parameter("ip", 1).values, weights.values);
  session.step(1);
  for (int device = 0; device < GetParam(); ++device) {
    std::vector<double> labels = session.blob("label", device).values;
    const auto wrong = std::count_if(labels.begin(), labels.end(), [](double label) { return label != 4; });
    const double loss = session.blob("loss", device).values.at(0) * 4 * GetParam();
    EXPECT_NEAR(loss, -std::log(double{FLT_MIN}) * wrong, 1e-9);  // the largest loss of a sample
  }
  EXPECT_THROW(session.set_parameter("ip", 1, {1, 2}), Error);
  EXPECT_THROW(session.set_parameter("ip", 2, {1}), Error);
  EXPECT_THROW(session.parameter("ip", 2), Error);
}

TEST_P(SessionOn, EndsWithItsFirstError) {
  TrainOptions asked = options(5);
  asked.check_nan = true;
  Session session(asked);
  EXPECT_THROW(session.restore(folder_.path() + "/images"), Error);
  EXPECT_TRUE(session.step(1));  // a file that is not a state is refused before anything happens
  session.set_parameter("conv", 1, std::vector<double>(6, NAN));
  std::vector<std::string> errors;
  const auto fails = [&](const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::runtime);
      errors.push_back(error.what());
    }
  };
  fails([&] { session.step(2); });
  EXPECT_THAT(errors[0], HasSubstr("iteration 1"));
  fails([&] { session.step(1); });
  fails([&] { session.test(); });
  fails([&] { session.snapshot(); });
  fails([&] { session.parameter("conv", 0); });
  EXPECT_THAT(errors, testing::Each(errors[0]));
}

/// The last loss, which display shows, is from a batch that no iteration has learned from.
TEST_P(SessionOn, SavesTheSameStateAfterTheLastLossWasShown) {
  TrainOptions asked = options(6);
  asked.solver.display = 3;
  Session session(asked);
  session.train();
  const Trained at_the_end = read_trained(folder_, 6);
  session.step(INT64_MAX);  // nothing is left to do
  session.snapshot();
  const Trained later = read_trained(folder_, 6);
  EXPECT_EQ(later.model_bytes, at_the_end.model_bytes);
  EXPECT_EQ(later.state.SerializeAsString(), at_the_end.state.SerializeAsString());
}

TEST_P(SessionOn, SourcesBeginAgainWhereAStateSaysNothingOfThem) {
  Session session(options(9));
  const std::string state = session.snapshot();
  session.step(1);
  const std::vector<double> first = session.blob("label").values;
  session.step(2);
  caffe::SolverState bare = read_snapshot(state).state;
  bare.mutable_banyan()->clear_source();
  std::ofstream(state, std::ios::binary) << bare.SerializeAsString();
  session.restore(state);
  session.step(1);
  EXPECT_EQ(session.blob("label").values, first);
}

INSTANTIATE_TEST_SUITE_P(Devices, SessionOn, testing::Values(1, 2, 3));

/// NVIDIA's normalization keeps a factor that the first batch sets.
TEST(Session, StatisticsOfASnapshotBeforeTheFirstBatchBeginAgain) {
  FLAGS_minloglevel = 2;
  TrainingCase of = usual_case(20);
  const std::string sync =
      "type: \"SyncBN\" bottom: \"conv\" top: \"conv\" bn_param { slope_filler { value: 1 } }";
  const auto at = of.net.find(sync);
  ASSERT_NE(at, std::string::npos);
  of.net.replace(at, sync.size(),
                 "type: \"BatchNorm\" bottom: \"conv\" top: \"conv\" batch_norm_param { scale_bias: true }");
  const TrainingFolder folder;
  Session session(options_of(of, folder, 1));
  const std::string state = session.snapshot();
  session.step(3);
  const std::vector<double> expected = session.parameter("bn", 1).values;
  session.restore(state);
  session.step(3);
  EXPECT_EQ(session.parameter("bn", 2).values, std::vector<double>{1});
  EXPECT_EQ(session.parameter("bn", 1).values, expected);
}

}  // namespace
}  // namespace banyan
