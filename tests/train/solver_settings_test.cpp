#include "banyan/train/solver_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "banyan/base/error.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "train/part_bench.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;
using testing::Not;

const char kGood[] =
    "net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' max_iter: 10 momentum: 0.9 test_iter: 5 "
    "test_interval: 10 ";

caffe::SolverParameter params_of(const std::string& text) {
  caffe::SolverParameter solver;
  io::parse_text(text, "made.prototxt", solver);
  io::upgrade_solver(solver, "made.prototxt");
  return solver;
}

/// The message that refuses the good solver with `more` settings appended; later scalar settings replace
/// earlier ones.
std::string refusal(const std::string& more, const std::string& base = kGood) {
  auto solver = params_of(base);
  solver.MergeFrom(params_of(more));
  try {
    solver_settings(solver, "made.prototxt");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_THAT(error.what(), testing::StartsWith("made.prototxt: "));
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << more;
  return "";
}

SolverSettings accepted(const std::string& more, const std::string& base = kGood) {
  auto solver = params_of(base);
  solver.MergeFrom(params_of(more));
  return solver_settings(solver, "made.prototxt");
}
void expect_accepted(const std::string& more, const std::string& base = kGood) {
  EXPECT_NO_THROW(accepted(more, base)) << more;
}

TEST(SolverSettings, AcceptsWhatCaffeAccepts) {
  expect_accepted("");
  expect_accepted("iter_size: 4 average_loss: 20 clip_gradients: 35 regularization_type: 'L1'");
  expect_accepted("type: 'Nesterov'");
  expect_accepted("type: 'Adam' momentum2: 0.99 delta: 1e-6");
  expect_accepted("type: 'AdamW' momentum2: 0.99");
  expect_accepted("type: 'LAMB' momentum2: 0.99");
  expect_accepted("type: 'RMSProp' momentum: 0 rms_decay: 0.98");
  expect_accepted("train_state { stage: 'a' } test_state { stage: 'b' }");
  expect_accepted("",
                  "train_net: 'a' test_net: 'b' test_iter: 3 test_interval: 2 base_lr: 1 lr_policy: 'fixed' "
                  "max_iter: 1");
}

TEST(SolverSettings, AcceptsHarmlessSettingsOfForks) {
  expect_accepted(
      "solver_mode: GPU device_id: 0 device_id: 1 richness: 5 group_id: 0 layer_wise_reduce: false "
      "store_blobs_in_old_format: true engine: 'MKL2017' test_initialization: false snapshot_diff: true "
      "min_lr: 0.001 per_parameter_reduce: false timeout_sec: 3 ap_version: '11point'");
}

TEST(SolverSettings, ExactlyOneTrainNet) {
  EXPECT_THAT(refusal("", "base_lr: 1 lr_policy: 'fixed' max_iter: 1"), HasSubstr("no train net"));
  EXPECT_THAT(refusal("train_net: 'other'"), HasSubstr("train_net, net"));
  EXPECT_THAT(refusal("net_param {}"), HasSubstr("more than one train net"));
}

TEST(SolverSettings, TestNetsAndTheirCounts) {
  EXPECT_THAT(refusal("test_net: 'a' test_net: 'b'"), HasSubstr("2 test nets, 1 test_iter"));
  EXPECT_THAT(
      refusal("", "train_net: 'a' test_iter: 1 test_interval: 1 base_lr: 1 lr_policy: 'fixed' max_iter: 1"),
      HasSubstr("0 test nets, 1 test_iter"));
  EXPECT_THAT(refusal("test_interval: 0"), HasSubstr("test_interval > 0"));
  EXPECT_THAT(refusal("sparse_mode: SPARSE_INC"), HasSubstr("SPARSE_UPDATE keeps those that are 0"));
  EXPECT_THAT(refusal("threshold_weights: true"), HasSubstr("sets weights below sparsity_threshold to 0"));
  EXPECT_THAT(refusal("sparse_mode: SPARSE_NONE weight_connect_mode: WEIGHT_DISCONNECTED_ELTWISE"),
              HasSubstr("older name of sparse_mode (caffe-jacinto), and the two contradict"));
  EXPECT_THAT(refusal("sparse_mode: SPARSE_UPDATE weight_connect_mode: WEIGHT_CONNECTED"),
              HasSubstr("contradict"));
  EXPECT_THAT(refusal("test_iter: -1"), HasSubstr("test_iter must be >= 0, not -1"));
  EXPECT_THAT(refusal("test_state {} test_state {}"), HasSubstr("1 test nets, 2 test_state"));
}

TEST(SolverSettings, OlderNamesOfCaffeJacinto) {
  const auto mode = [](const std::string& more) { return accepted(more).nets.sparse_mode(); };
  EXPECT_EQ(mode("weight_connect_mode: WEIGHT_DISCONNECTED_ELTWISE sparsity_threshold: 1e-4"),
            caffe::SolverParameter::SPARSE_UPDATE);
  EXPECT_EQ(mode("weight_connect_mode: WEIGHT_CONNECTED threshold_weights: false"),
            caffe::SolverParameter::SPARSE_NONE);
  EXPECT_EQ(mode("weight_connect_mode: WEIGHT_DISCONNECTED_ELTWISE sparse_mode: SPARSE_UPDATE"),
            caffe::SolverParameter::SPARSE_UPDATE);
  const LoggedLines logged;
  accepted("snapshot_log: true insert_quantization_param: false quantization_start_iter: 0");
  EXPECT_TRUE(logged.lines.empty());
  accepted("insert_quantization_param: true quantization_start_iter: 2000");
  EXPECT_THAT(logged.lines,
              testing::ElementsAre(
                  HasSubstr("insert_quantization_param and quantization_start_iter (caffe-jacinto) have no "
                            "effect: everything computes in floating point")));
}

TEST(SolverSettings, GpusCountUnlessTheModeIsCpu) {
  EXPECT_THAT(accepted("device_id: 1 device_id: 3").devices.gpus, testing::ElementsAre(1, 3));
  EXPECT_TRUE(accepted("solver_mode: CPU device_id: 1").devices.gpus.empty());
}

TEST(SolverSettings, ATestNetWithoutBatchesIsNotMade) {
  const std::string rest = " base_lr: 1 lr_policy: 'fixed' max_iter: 1";
  const LoggedLines logged;
  const SolverSettings none = accepted("", "train_net: 'a' test_iter: 0 test_interval: 0" + rest);
  EXPECT_THAT(logged.lines, testing::ElementsAre(
                                HasSubstr("made.prototxt: test_iter: 0: such a test net is never tested")));
  EXPECT_TRUE(none.test.batches.empty());
  EXPECT_TRUE(accepted("", "net: 'a' test_iter: 0" + rest).test.batches.empty());
  const SolverSettings one = accepted(
      "",
      "train_net: 'a' test_net_param { name: 'x' } test_net: 'b' test_net: 'c' test_iter: 0 test_iter: 3 "
      "test_iter: 0 test_interval: 1 test_state { } test_state { stage: 's' } test_state { level: 2 }" +
          rest);
  EXPECT_THAT(one.test.batches, testing::ElementsAre(3));
  EXPECT_EQ(one.nets.test_net_param_size(), 0);
  EXPECT_THAT(one.nets.test_net(), testing::ElementsAre("b"));
  ASSERT_EQ(one.nets.test_state_size(), 1);
  EXPECT_EQ(one.nets.test_state(0).stage(0), "s");
  EXPECT_THAT(refusal("test_net: 'a' test_net: 'b' test_net: 'c' test_iter: 0"),
              HasSubstr("3 test nets, 2 test_iter"));
}

TEST(SolverSettings, RulesOfTheSolverTypes) {
  EXPECT_THAT(refusal("type: 'adam'"), HasSubstr("(did you mean \"Adam\"?); known types: "));
  EXPECT_EQ(accepted("type: 'SAG' regularization_type: 'WD' momentum_policy: 'opt'").update.rule,
            ops::UpdateRule::sag);
  EXPECT_THAT(refusal("type: 'SAG' momentum: 1"), HasSubstr("momentum must be in [0, 1) for SAG"));
  EXPECT_THAT(refusal("type: 'AdaGrad'"), HasSubstr("momentum cannot be used with AdaGrad"));
  EXPECT_THAT(refusal("type: 'RMSProp'"), HasSubstr("momentum cannot be used with RMSProp"));
  EXPECT_THAT(refusal("type: 'RMSProp' momentum: 0 rms_decay: 1"), HasSubstr("rms_decay must be in [0, 1)"));
  EXPECT_THAT(refusal("type: 'Adam' momentum2: 1"), HasSubstr("momentum2"));
  EXPECT_THAT(refusal("type: 'AdamW' regularization_type: 'L1'"), HasSubstr("cannot be used with AdamW"));
  EXPECT_THAT(refusal("type: 'Nesterov' regularization_type: 'WD'"), HasSubstr("needs solver type SGD"));
  EXPECT_THAT(refusal("type: 'AdaDelta' momentum: 1"), HasSubstr("momentum must be in [0, 1)"));
  EXPECT_THAT(refusal("momentum: -0.5"), HasSubstr("momentum must be >= 0"));
  EXPECT_THAT(refusal("weight_decay: nan"), HasSubstr("weight_decay must be a finite number"));
}

TEST(SolverSettings, LoopSettings) {
  EXPECT_THAT(refusal("iter_size: 0"), HasSubstr("iter_size must be >= 1, not 0"));
  EXPECT_THAT(refusal("average_loss: 0"), HasSubstr("average_loss"));
  EXPECT_THAT(refusal("max_iter: -1"), HasSubstr("max_iter"));
  EXPECT_THAT(refusal("", "net: 'a' base_lr: 1 lr_policy: 'fixed'"),
              HasSubstr("max_iter is missing: write it into the solver, or pass --max_iter=N"));
  EXPECT_THAT(refusal("display: -1"), HasSubstr("display"));
  EXPECT_THAT(refusal("snapshot: -1"), HasSubstr("snapshot must be"));
#ifndef BANYAN_WITH_HDF5
  EXPECT_THAT(refusal("snapshot_format: HDF5"), HasSubstr("which this build of Banyan lacks"));
#endif
  EXPECT_THAT(refusal("regularization_type: 'L3'"), HasSubstr("known: L1, L2, WD"));
}

TEST(SolverSettings, DefaultsAreThoseOfCaffe) {
  const SolverSettings plain = accepted("");
  EXPECT_EQ(plain.iter_size, 1);
  EXPECT_EQ(plain.average_loss, 1);
  EXPECT_EQ(plain.display, 0);
  EXPECT_FALSE(plain.random_seed);
  EXPECT_FALSE(plain.clip_norm);
  EXPECT_TRUE(plain.test.initialization);
  EXPECT_EQ(plain.snapshot.interval, 0);
  EXPECT_FALSE(plain.snapshot.before_train);
  EXPECT_TRUE(plain.snapshot.after_train);
  EXPECT_FALSE(plain.snapshot.prefix);
  EXPECT_EQ(plain.update.rule, ops::UpdateRule::sgd);
  EXPECT_EQ(plain.update.momentum2, 0.999F);
  EXPECT_EQ(plain.update.rms_decay, 0.99F);
  EXPECT_EQ(plain.update.delta, 1e-8F);
  EXPECT_FALSE(plain.update.l1);
  EXPECT_FALSE(plain.update.decoupled);
  EXPECT_TRUE(accepted("regularization_type: 'WD'").update.decoupled);
  EXPECT_FALSE(plain.rate.base_batch_size);
  EXPECT_FALSE(plain.devices.gpu);
}

TEST(SolverSettings, HoldWhatTheFileSays) {
  const SolverSettings all = accepted(
      "iter_size: 2 average_loss: 3 display: 4 debug_info: true random_seed: 0 clip_gradients: 0 test_iter: "
      "6 "
      "test_initialization: false test_compute_loss: true snapshot: 7 snapshot_before_train: true "
      "snapshot_after_train: false "
      "snapshot_diff: true snapshot_prefix: '' type: 'Adam' momentum: 0.5 momentum2: 0.25 delta: 0.125 "
      "weight_decay: 0.75 regularization_type: 'L1' lr_policy: 'multistep' gamma: 0.5 stepvalue: 2 "
      "stepvalue: 5 "
      "min_lr: 0.0625 warmup_iter: 8 warmup_start_lr: 0.03125 lr_scaling: LINEAR base_batch_size: 64 "
      "solver_mode: GPU device_id: 1 device_id: 0 weights: 'a,b'");
  EXPECT_EQ(all.max_iter, 10);
  EXPECT_EQ(all.iter_size, 2);
  EXPECT_EQ(all.average_loss, 3);
  EXPECT_EQ(all.display, 4);
  EXPECT_TRUE(all.debug_info);
  EXPECT_EQ(all.random_seed, 0u);
  EXPECT_EQ(all.clip_norm, 0.0);  // a norm of 0 is a bound too
  EXPECT_THAT(all.test.batches, testing::ElementsAre(5, 6));
  EXPECT_EQ(all.test.interval, 10);
  EXPECT_FALSE(all.test.initialization);
  EXPECT_TRUE(all.test.compute_loss);
  EXPECT_EQ(all.snapshot.interval, 7);
  EXPECT_TRUE(all.snapshot.before_train);
  EXPECT_FALSE(all.snapshot.after_train);
  EXPECT_TRUE(all.snapshot.diff);
  EXPECT_EQ(all.snapshot.prefix, "");
  EXPECT_STREQ(name_of(all.update.rule), "Adam");
  EXPECT_EQ(histories_of(all.update.rule), 2);
  EXPECT_EQ(all.update.momentum, 0.5);
  EXPECT_EQ(all.update.momentum2, 0.25);
  EXPECT_EQ(all.update.delta, 0.125);
  EXPECT_EQ(all.update.weight_decay, 0.75);
  EXPECT_TRUE(all.update.l1);
  EXPECT_STREQ(name_of(all.rate.policy), "multistep");
  EXPECT_EQ(all.rate.base_lr, 0.01F);
  EXPECT_THAT(all.rate.stepvalues, testing::ElementsAre(2, 5));
  EXPECT_EQ(all.rate.min_lr, 0.0625);
  EXPECT_EQ(all.rate.warmup_iter, 8);
  EXPECT_EQ(all.rate.base_batch_size, 64);
  EXPECT_TRUE(all.devices.gpu);
  EXPECT_THAT(all.devices.gpus, testing::ElementsAre(1, 0));
  EXPECT_THAT(all.weights, testing::ElementsAre("a,b"));
  EXPECT_EQ(all.nets.net(), "net.prototxt");
  EXPECT_FALSE(all.nets.has_max_iter());
}

TEST(SolverSettings, SolverModeCountsOnlyWhereItIsWritten) {
  EXPECT_FALSE(accepted("solver_mode: CPU").devices.gpu);
  EXPECT_EQ(caffe::SolverParameter().solver_mode(), caffe::SolverParameter::GPU);  // the field's default
  EXPECT_FALSE(accepted("").devices.gpu);
}

TEST(SolverSettings, Turns) {
  EXPECT_TRUE(is_turn(0, 3));
  EXPECT_FALSE(is_turn(1, 3));
  EXPECT_TRUE(is_turn(6, 3));
  EXPECT_FALSE(is_turn(0, 0));
}

TEST(SolverSettings, LearningRateProblemsNameTheFile) {
  EXPECT_THAT(refusal("lr_policy: 'setp'"), HasSubstr("(did you mean \"step\"?); known policies: "));
  EXPECT_THAT(refusal("lr_policy: 'triangular'"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(refusal("lr_scaling: LINEAR"), HasSubstr("base_batch_size"));
}

class UnsupportedOfForks : public testing::TestWithParam<std::pair<const char*, const char*>> {};
TEST_P(UnsupportedOfForks, IsRefusedByName) {
  EXPECT_THAT(refusal(GetParam().first), HasSubstr(GetParam().second));
}
INSTANTIATE_TEST_SUITE_P(
    SolverSettings, UnsupportedOfForks,
    testing::Values(
        std::pair("larc: true type: 'Adam'", "larc needs solver type SGD or SAG"),
        std::pair("local_lr_auto: true type: 'SAG'", "local_lr_auto needs solver type SGD"),
        std::pair("larc: true larc_policy: 'x'", "known policies: scale, clip"),
        std::pair("larc: true larc_eta: 0", "larc_eta must be > 0"),
        std::pair("local_lr_auto: true larc: true", "exclude each other"),
        std::pair("momentum_policy: 'quick'", "known policies: fixed, opt, poly"),
        std::pair("momentum_policy: 'poly' type: 'Adam'", "needs solver type SGD, Nesterov or SAG"),
        std::pair("weight_decay_policy: 'quick'", "weight_decay_policy"),
        std::pair("test_and_snapshot_last_epochs: 2", "test_and_snapshot_last_epochs"),
        std::pair("test_offset: 3", "not known how it moves the tests"),
        std::pair("eval_type: 'detect'", "known types: classification, detection, segmentation"),
        std::pair("ap_version: '12point'", "known versions: 101point, 11point, Integral, MaxIntegral")));

TEST(SolverSettings, LarcTurboIsPartOfLarc) {
  LoggedLines log;
  EXPECT_TRUE(accepted("larc: true larc_turbo: true").update.larc_turbo);
  EXPECT_TRUE(accepted("type: 'SAG' larc: true larc_turbo: true").update.larc_turbo);
  EXPECT_THAT(log.lines, testing::IsEmpty());
  EXPECT_FALSE(accepted("larc_turbo: true").update.larc_turbo);
  EXPECT_THAT(log.lines,
              testing::ElementsAre(HasSubstr("larc_turbo (NVIDIA) has no effect without larc: true")));
}

TEST(SolverSettings, OtherEvaluationsAreTakenWithAWarning) {
  LoggedLines log;
  EXPECT_EQ(accepted("eval_type: 'classification' ap_version: '11point'").test.precision,
            AveragePrecision::eleven_points);
  EXPECT_THAT(log.lines, testing::IsEmpty());
  accepted("eval_type: 'detection' ap_version: '11point' show_per_class_result: true");
  accepted("eval_type: 'segmentation'");
  EXPECT_THAT(log.lines, testing::ElementsAre(HasSubstr("\"segmentation\": the result per class")));
}

TEST(SolverSettings, WhatHasNoEffectIsSaid) {
  LoggedLines log;
  accepted("richness: 5 group_id: 0 timeout_sec: 3 solver_data_type: FLOAT16");
  EXPECT_THAT(log.lines, testing::ElementsAre(HasSubstr("richness (yjxiong"), HasSubstr("group_id (yjxiong)"),
                                              HasSubstr("timeout_sec and timeout_nsec (caffe-parallel)"),
                                              HasSubstr("solver_data_type (NVIDIA) has no effect")));
}

TEST(SolverSettings, LoadSolverReadsUpgradesAndChecks) {
  const std::string path = testing::TempDir() + "load_solver.prototxt";
  std::ofstream(path) << "net: 'n' base_lr: 0.1 lr_policy: 'fixed' max_iter: 3 solver_type: ADAM";
  EXPECT_EQ(load_solver(path).update.rule, ops::UpdateRule::adam);
  std::ofstream(path) << "net: 'n' base_lr: 0.1 lr_policy: 'fixed' max_iter: 3 iter_size: 0";
  EXPECT_THROW(load_solver(path), Error);
}

/// The solvers of py-faster-rcnn: its program is told the number of iterations.
TEST(SolverSettings, LoadSolverTakesTheIterationsOfTheCaller) {
  const std::string path = testing::TempDir() + "no_max_iter.prototxt";
  std::ofstream(path) << "net: 'n' base_lr: 0.1 lr_policy: 'poly' power: 1";
  EXPECT_THROW(load_solver(path), Error);
  const SolverSettings given = load_solver(path, io::UnknownFields::refuse, 40);
  EXPECT_EQ(given.max_iter, 40);
  std::ofstream(path) << "net: 'n' base_lr: 0.1 lr_policy: 'poly' power: 1 max_iter: 3";
  const SolverSettings replaced = load_solver(path, io::UnknownFields::refuse, 40);
  EXPECT_EQ(replaced.max_iter, 40);
  EXPECT_EQ(replaced.checksum, given.checksum) << "processes that read different files train alike";
}

TEST(SolverSettings, DisabledUpdatesAreSaid) {
  LoggedLines log;
  EXPECT_FALSE(accepted("").update.disabled);
  EXPECT_TRUE(accepted("disabled_update: true").update.disabled);
  EXPECT_THAT(log.lines, testing::ElementsAre(HasSubstr("disabled_update: nothing will be learned")));
}

TEST(SolverSettings, CommandLineStateKeepsWhatItDoesNotSay) {
  SolverSettings solver = accepted("train_state { level: 3 stage: 'a' }");
  caffe::NetState& state = *solver.nets.mutable_train_state();
  add_to_state(state, std::nullopt, {"b"});
  EXPECT_EQ(state.level(), 3);
  EXPECT_THAT(state.stage(), testing::ElementsAre("a", "b"));
  add_to_state(state, 0, {});
  EXPECT_EQ(state.level(), 0);
}

}  // namespace
}  // namespace banyan
