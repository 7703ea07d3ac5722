// Promise 1: N devices equal one device. Promise 2: bit-identical, even when interrupted and resumed.
#include <fstream>

#include "promise_cases.hpp"

namespace banyan {
namespace {

class NDevicesTest : public testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Promises, NDevicesTest, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

TEST_P(NDevicesTest, AreOneDeviceInF64) {
  const Trained one = train_case(GetParam().what, 1);
  ASSERT_EQ(one.losses().size(), 20u);
  EXPECT_LT(one.losses().back(), one.losses().front());
  for (const auto& [devices, tree] : std::vector<std::pair<int, std::string>>{
           {2, "auto"}, {3, "chain"}, {4, "auto"}, {4, "pairs"}, {8, "pairs"}})
    expect_the_same_run(one, GetParam().what, cpu_devices(devices), tree);
}

TEST_P(NDevicesTest, AgreeInTheFirstIterationInF32) {
  const StepInF32 step = first_step_in_f32(GetParam().what);
  for (const int devices : {2, 3, 4, 8}) expect_the_same_step(step, cpu_devices(devices), 1e-5);
}

TEST(Promises, F32DriftIsThatOfAPermutedBatch) {
  expect_the_drift_of_a_permuted_batch({cpu_devices(2), cpu_devices(3), cpu_devices(4), cpu_devices(8)});
}

/// A user's tree may have any root; parameters still come from the first device, at the start and on
/// resuming.
TEST(Promises, ATreeMayHaveAnyRoot) {
  TrainingCase what{std::string(kSolver) + "snapshot: 7", data_layer() + kBody + classifier()};
  const Trained one = train_case(what, 1);
  for (const std::string tree : {"1 -1", "1 2 -1", "0 3\n1 3\n2 0"}) {
    const TrainingFolder folder;
    what.tree = folder.path() + "/tree";
    std::ofstream(what.tree) << tree << "\n";
    const int devices = tree == "1 -1" ? 2 : tree == "1 2 -1" ? 3 : 4;
    const Trained several = train_case(what, devices, folder);
    EXPECT_LE(largest_difference(one.values(), several.values()), 1e-10) << tree;
    EXPECT_LE(largest_difference(one.losses(), several.losses()), 1e-10) << tree;
    TrainOptions resumed = options_of(what, folder, devices);
    resumed.snapshot = snapshot_paths(folder.path() + "/out", 7).state;
    train(resumed);
    EXPECT_EQ(read_trained(folder, 20).values(), several.values()) << tree;
  }
}

/// Linear scaling counts the samples of all devices, even if their shares differ (24 samples on 5 devices).
TEST(Promises, ScaledRatesAreTheSameOnUnevenShares) {
  const TrainingCase what{std::string(kSolver) + "lr_scaling: LINEAR base_batch_size: 48",
                          data_layer() + kBody + classifier()};
  const Trained one = train_case(what, 1);
  EXPECT_LE(largest_difference(one.values(), train_case(what, 5).values()), 1e-10);
}

/// Without synchronization the devices normalize their own shares, so the result must differ: shows that the
/// tests above can fail.
TEST(Promises, WithoutSyncTheDevicesDiffer) {
  const TrainingCase what{kSolver, data_layer() + kBody + classifier()};
  const TrainingFolder folder;
  TrainOptions options = options_of(what, folder, 2);
  options.sync_bn = SyncBatchNorm::off;
  FLAGS_minloglevel = 2;
  train(options);
  EXPECT_GT(largest_difference(train_case(what, 1).values(), read_trained(folder, 20).values()), 1e-3);
}

class RepeatTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Promises, RepeatTest, testing::Values(1, 2, 4));

TEST_P(RepeatTest, GivesTheSameBits) {
  for (const char* type : {"SGD", "Adam", "LAMB"}) {
    TrainingCase what{std::string(kSolver) + "type: '" + type + "'", data_layer() + kBody + classifier()};
    what.precision = RunPrecision::f32;
    EXPECT_EQ(train_case(what, GetParam()).model_bytes, train_case(what, GetParam()).model_bytes);
  }
}

/// The same with streams on their own threads and random delays: neither values nor bits depend on timing.
TEST_P(RepeatTest, DoesNotDependOnTiming) {
  TrainingCase what{kSolver, data_layer() + kBody + classifier()};
  what.precision = RunPrecision::f32;
  what.iterations = 6;
  const TrainingFolder folder;
  TrainOptions options = options_of(what, folder, GetParam());
  options.cpu.asynchronous = true;
  options.cpu.max_delay_us = 50;
  FLAGS_minloglevel = 2;
  train(options);
  EXPECT_EQ(train_case(what, GetParam()).model_bytes, read_trained(folder, 6).model_bytes);
}

TEST_P(RepeatTest, ResumesBitForBit) {
  for (const std::string type : {"SGD", "SAG", "Adam", "AdaDelta", "LAMB"}) {
    for (const std::string end : {"", "epoch_end: PARTIAL"}) {
      TrainingCase what{std::string(kSolver) + "snapshot: 7 type: '" + type + "'",
                        data_layer(end) + kBody +
                            (type == "SGD"    ? kFaces
                             : type == "Adam" ? kFiltered
                                              : "") +
                            classifier()};
      if (type == "AdaDelta") what.solver += " delta: 1e-4";
      if (type == "SAG") what.solver += " larc: true larc_turbo: true larc_eta: 0.02";
      what.precision = RunPrecision::f32;
      const TrainingFolder whole, again;
      const Trained expected = train_case(what, GetParam(), whole);
      std::filesystem::copy(whole.path() + "/out_iter_7.caffemodel", again.path() + "/out_iter_7.caffemodel");
      caffe::SolverState state = read_snapshot(whole.path() + "/out_iter_7.solverstate").state;
      std::filesystem::copy(whole.path() + "/out_iter_7.solverstate",
                            again.path() + "/out_iter_7.solverstate");
      TrainOptions options = options_of(what, again, GetParam());
      options.solver.random_seed.reset();  // the state contains it
      options.snapshot = again.path() + "/out_iter_7.solverstate";
      FLAGS_minloglevel = 2;
      train(options);
      const Trained resumed = read_trained(again, 20);
      EXPECT_EQ(resumed.model_bytes, expected.model_bytes) << type << " " << end;
      ASSERT_EQ(resumed.state.history_size(), expected.state.history_size());
      for (int i = 0; i < expected.state.history_size(); ++i)
        EXPECT_EQ(resumed.state.history(i).SerializeAsString(),
                  expected.state.history(i).SerializeAsString());
      EXPECT_EQ(resumed.losses(), expected.losses());
      EXPECT_EQ(resumed.state.banyan().source(0).consumed(), expected.state.banyan().source(0).consumed());
    }
  }
}

/// The policy that depends on the losses takes the same steps, whichever iteration the state is from.
TEST_P(RepeatTest, ResumesThePlateauBitForBit) {
  TrainingCase what{
      "base_lr: 0.4 momentum: 0.9 lr_policy: 'plateau' gamma: 0.5 plateau_winsize: [2, 2, 2, 2, 2, 2] "
      "average_loss: 1 random_seed: 3 display: 0 snapshot: 1",
      data_layer() + kBody + classifier()};
  const TrainingFolder folder;
  const Trained expected = train_case(what, GetParam(), folder);
  EXPECT_GT(expected.state.current_step(), 0);
  EXPECT_LT(expected.state.current_step(), 6);
  for (int start = 1; start < what.iterations; ++start) {
    TrainOptions options = options_of(what, folder, GetParam());
    options.snapshot = snapshot_paths(folder.path() + "/out", start).state;
    options.solver.snapshot.interval = 0;
    train(options);
    const Trained resumed = read_trained(folder, what.iterations);
    EXPECT_EQ(resumed.model_bytes, expected.model_bytes) << "from " << start;
    EXPECT_EQ(resumed.state.current_step(), expected.state.current_step()) << "from " << start;
    EXPECT_EQ(resumed.state.iter_last_event(), expected.state.iter_last_event()) << "from " << start;
    EXPECT_EQ(resumed.state.minimum_loss(), expected.state.minimum_loss()) << "from " << start;
  }
}

/// Test results are added in batch order: the same for any number of devices if the parameters are the same.
TEST(Promises, TestsAreTheSameOnAnyNumberOfDevices) {
  const std::string net =
      data_layer() +
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 5 "
      "weight_filler { type: 'xavier' } } } layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' "
      "bottom: 'label' top: 'loss' } "
      "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'accuracy' include { "
      "phase: TEST } }";
  std::string first;
  for (const int devices : {1, 2, 3, 4}) {
    const TrainingFolder folder;
    TrainingCase what{
        "base_lr: 0 lr_policy: 'fixed' random_seed: 1 test_iter: 5 test_interval: 1 test_compute_loss: true",
        net};
    what.iterations = 2;
    what.precision = RunPrecision::f32;
    TrainOptions options = options_of(what, folder, devices);
    FLAGS_minloglevel = 0;
    FLAGS_logtostderr = true;
    testing::internal::CaptureStderr();
    train(options);
    std::istringstream log(testing::internal::GetCapturedStderr());
    std::string line, results;
    while (std::getline(log, line))
      if (line.find("Test net output") != std::string::npos || line.find("Test loss") != std::string::npos)
        results += line.substr(line.find("] ")) + "\n";
    FLAGS_logtostderr = false;
    EXPECT_NE(results.find("Test net output #1: loss"), std::string::npos) << results;
    if (devices == 1) first = results;
    EXPECT_EQ(results, first) << devices << " devices";
  }
}

/// A data layer with a separate `phase` is still dealt according to the net's phase.
TEST(LayerPhase, DataOfTheOtherPhaseIsDealtAsTheNets) {
  TrainingCase what = variants()[0].what;
  const auto at = what.net.find("type: 'Data'");
  ASSERT_NE(at, std::string::npos);
  what.net.insert(at, "phase: TEST ");  // crops from the centre, no mirroring
  const Trained one = train_case(what, 1);
  expect_the_same_run(one, what, cpu_devices(2));
  EXPECT_GT(largest_difference(one.values(), train_case(variants()[0].what, 1).values()), 1e-3);
}

/// A batch normalization that uses a test batch's own statistics leaves the running ones alone.
TEST(LayerPhase, ATestPassChangesNoStatistics) {
  TrainingCase what = variants()[0].what;
  const auto at = what.net.find("type: 'BatchNorm'");
  ASSERT_NE(at, std::string::npos);
  what.net.insert(at, "phase: TRAIN ");
  TrainingCase tested = what;
  tested.solver += " test_interval: 4 test_iter: 3 ";
  for (const int devices : {1, 2})
    EXPECT_EQ(train_case(tested, devices).values(), train_case(what, devices).values()) << devices;
}

}  // namespace
}  // namespace banyan
