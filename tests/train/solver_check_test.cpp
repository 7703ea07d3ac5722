#include "banyan/train/solver_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "banyan/base/error.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;

const char kGood[] =
    "net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' max_iter: 10 momentum: 0.9 test_iter: 5 "
    "test_interval: 10 ";

caffe::SolverParameter solver_of(const std::string& text) {
  caffe::SolverParameter solver;
  io::parse_text(text, "made.prototxt", solver);
  io::upgrade_solver(solver, "made.prototxt");
  return solver;
}

/// The message that refuses the good solver with `more` settings; later scalar settings replace earlier ones.
std::string refusal(const std::string& more, const std::string& base = kGood) {
  auto solver = solver_of(base);
  solver.MergeFrom(solver_of(more));
  try {
    check_solver(solver, "made.prototxt");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_THAT(error.what(), testing::StartsWith("made.prototxt: "));
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << more;
  return "";
}

void expect_accepted(const std::string& more, const std::string& base = kGood) {
  auto solver = solver_of(base);
  solver.MergeFrom(solver_of(more));
  EXPECT_NO_THROW(check_solver(solver, "made.prototxt")) << more;
}

TEST(SolverCheck, AcceptsWhatCaffeAccepts) {
  expect_accepted("");
  expect_accepted("iter_size: 4 average_loss: 20 clip_gradients: 35 regularization_type: 'L1'");
  expect_accepted("type: 'Nesterov'");
  expect_accepted("type: 'Adam' momentum2: 0.99 delta: 1e-6");
  expect_accepted("type: 'RMSProp' momentum: 0 rms_decay: 0.98");
  expect_accepted("train_state { stage: 'a' } test_state { stage: 'b' }");
  expect_accepted("",
                  "train_net: 'a' test_net: 'b' test_iter: 3 test_interval: 2 base_lr: 1 lr_policy: 'fixed' "
                  "max_iter: 1");
}

TEST(SolverCheck, AcceptsHarmlessSettingsOfForks) {
  expect_accepted(
      "solver_mode: GPU device_id: 0 device_id: 1 richness: 5 group_id: 0 layer_wise_reduce: false "
      "store_blobs_in_old_format: true engine: 'MKL2017' test_initialization: false snapshot_diff: true "
      "min_lr: 0.001 per_parameter_reduce: false timeout_sec: 3 ap_version: 'VOC2007'");
}

TEST(SolverCheck, ExactlyOneTrainNet) {
  EXPECT_THAT(refusal("", "base_lr: 1 lr_policy: 'fixed' max_iter: 1"), HasSubstr("no train net"));
  EXPECT_THAT(refusal("train_net: 'other'"), HasSubstr("train_net, net"));
  EXPECT_THAT(refusal("net_param {}"), HasSubstr("more than one train net"));
}

TEST(SolverCheck, TestNetsAndTheirCounts) {
  EXPECT_THAT(refusal("test_net: 'a' test_net: 'b'"), HasSubstr("2 test nets, 1 test_iter"));
  EXPECT_THAT(
      refusal("", "train_net: 'a' test_iter: 1 test_interval: 1 base_lr: 1 lr_policy: 'fixed' max_iter: 1"),
      HasSubstr("0 test nets, 1 test_iter"));
  EXPECT_THAT(refusal("test_interval: 0"), HasSubstr("test_interval > 0"));
  EXPECT_THAT(refusal("test_iter: 0"), HasSubstr("test_iter must be > 0"));
  EXPECT_THAT(refusal("test_state {} test_state {}"), HasSubstr("1 test nets, 2 test_state"));
  EXPECT_EQ(test_net_count(solver_of("net: 'a' test_iter: 1 test_iter: 2")), 2);
  EXPECT_EQ(test_net_count(solver_of("net: 'a' test_net: 'b' test_iter: 1 test_iter: 2")), 2);
  EXPECT_EQ(test_net_count(solver_of("net: 'a'")), 0);
  EXPECT_EQ(test_net_count(solver_of("train_net: 'a' test_net: 'b' test_iter: 1")), 1);
}

TEST(SolverCheck, RulesOfTheSolverTypes) {
  EXPECT_THAT(refusal("type: 'adam'"), HasSubstr("nearest first: Adam, "));
  EXPECT_THAT(refusal("type: 'SAG'"), HasSubstr("SAG"));
  EXPECT_THAT(refusal("type: 'AdaGrad'"), HasSubstr("momentum cannot be used with AdaGrad"));
  EXPECT_THAT(refusal("type: 'RMSProp'"), HasSubstr("momentum cannot be used with RMSProp"));
  EXPECT_THAT(refusal("type: 'RMSProp' momentum: 0 rms_decay: 1"), HasSubstr("rms_decay must be in [0, 1)"));
  EXPECT_THAT(refusal("type: 'Adam' momentum2: 1"), HasSubstr("momentum2"));
  EXPECT_THAT(refusal("type: 'AdaDelta' momentum: 1"), HasSubstr("momentum must be in [0, 1)"));
  EXPECT_THAT(refusal("momentum: -0.5"), HasSubstr("momentum must be >= 0"));
  EXPECT_THAT(refusal("weight_decay: nan"), HasSubstr("weight_decay must be a finite number"));
  EXPECT_EQ(histories_of("Adam"), 2);
  EXPECT_EQ(histories_of("SGD"), 1);
}

TEST(SolverCheck, LoopSettings) {
  EXPECT_THAT(refusal("iter_size: 0"), HasSubstr("iter_size must be >= 1, not 0"));
  EXPECT_THAT(refusal("average_loss: 0"), HasSubstr("average_loss"));
  EXPECT_THAT(refusal("max_iter: -1"), HasSubstr("max_iter"));
  EXPECT_THAT(refusal("", "net: 'a' base_lr: 1 lr_policy: 'fixed'"), HasSubstr("max_iter is missing"));
  EXPECT_THAT(refusal("display: -1"), HasSubstr("display"));
  EXPECT_THAT(refusal("snapshot: -1"), HasSubstr("snapshot must be"));
  EXPECT_THAT(refusal("snapshot_format: HDF5"), HasSubstr("HDF5 is not supported"));
  EXPECT_THAT(refusal("regularization_type: 'L3'"), HasSubstr("known: L1, L2"));
}

TEST(SolverCheck, LearningRateProblemsNameTheFile) {
  EXPECT_THAT(refusal("lr_policy: 'setp'"), HasSubstr("nearest first: step"));
  EXPECT_THAT(refusal("lr_scaling: LINEAR"), HasSubstr("base_batch_size"));
}

class UnsupportedOfForks : public testing::TestWithParam<std::pair<const char*, const char*>> {};
TEST_P(UnsupportedOfForks, IsRefusedByName) {
  EXPECT_THAT(refusal(GetParam().first), HasSubstr(GetParam().second));
}
INSTANTIATE_TEST_SUITE_P(
    SolverCheck, UnsupportedOfForks,
    testing::Values(std::pair("larc: true", "larc"), std::pair("larc_turbo: true", "larc_turbo"),
                    std::pair("local_lr_auto: true", "local_lr_auto"),
                    std::pair("momentum_policy: 'poly'", "momentum_policy"),
                    std::pair("weight_decay_policy: 'poly'", "weight_decay_policy"),
                    std::pair("solver_data_type: FLOAT16", "solver_data_type"),
                    std::pair("disabled_update: true", "disabled_update"),
                    std::pair("test_and_snapshot_last_epochs: 2", "test_and_snapshot_last_epochs"),
                    std::pair("test_offset: 3", "test_offset"),
                    std::pair("eval_type: 'detection'", "eval_type")));

TEST(SolverCheck, LoadSolverReadsUpgradesAndChecks) {
  const std::string path = testing::TempDir() + "load_solver.prototxt";
  std::ofstream(path) << "net: 'n' base_lr: 0.1 lr_policy: 'fixed' max_iter: 3 solver_type: ADAM";
  EXPECT_EQ(load_solver(path).type(), "Adam");
  std::ofstream(path) << "net: 'n' base_lr: 0.1 lr_policy: 'fixed' max_iter: 3 iter_size: 0";
  EXPECT_THROW(load_solver(path), Error);
}

TEST(SolverCheck, CommandLineStateGoesToTheTrainNet) {
  auto solver = solver_of(std::string(kGood) + "train_state { level: 3 stage: 'a' }");
  apply_command_line_state(solver, std::nullopt, {"b"});
  EXPECT_EQ(solver.train_state().level(), 3);
  EXPECT_THAT(solver.train_state().stage(), testing::ElementsAre("a", "b"));
  apply_command_line_state(solver, 0, {});
  EXPECT_EQ(solver.train_state().level(), 0);
  EXPECT_EQ(solver.test_state_size(), 0);
}

}  // namespace
}  // namespace banyan
