// The layer above the root: groups of devices joined by an uplink are one group, and equal one device.
#include <gmock/gmock.h>

#include <array>
#include <functional>
#include <thread>

#include "banyan/base/error.hpp"
#include "banyan/train/session.hpp"
#include "joined_run.hpp"

namespace banyan {
namespace {

const char* const kSgdSolver =
    "base_lr: 0.05 momentum: 0.9 weight_decay: 0.001 lr_policy: 'step' gamma: 0.5 stepsize: 8 random_seed: 3 "
    "test_iter: 5 test_interval: 5 ";

const char* const kNet = R"(
layer { name: 'data' type: 'Data' top: 'data' top: 'label'
  data_param { source: 'DATA' backend: LMDB batch_size: 24 batch_size_is_total: true }
  transform_param { scale: 0.01 crop_size: 10 pad: 1 mirror: true mean_value: 60 } }
layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'
  convolution_param { num_output: 6 kernel_size: 3 bias_term: false weight_filler { type: 'msra' } } }
layer { name: 'bn1' type: 'SyncBN' bottom: 'conv1' top: 'bn1' bn_param { slope_filler { value: 1 } } }
layer { name: 'relu1' type: 'ReLU' bottom: 'bn1' top: 'bn1' }
layer { name: 'drop' type: 'Dropout' bottom: 'bn1' top: 'drop' dropout_param { dropout_ratio: 0.3 } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'drop' top: 'ip'
  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss'
  loss_param { ignore_label: 2 normalization: VALID } }
)";

class UplinkTest : public testing::TestWithParam<std::pair<const char*, const char*>> {};
INSTANTIATE_TEST_SUITE_P(Uplink, UplinkTest,
                         testing::Values(std::pair{"Plain", "display: 0"},
                                         std::pair{"IterSize2", "iter_size: 2"},
                                         std::pair{"Clipped", "clip_gradients: 0.5"},
                                         std::pair{"Displayed", "display: 3"},
                                         std::pair{"ScaledRate", "lr_scaling: LINEAR base_batch_size: 48"}),
                         [](const auto& info) { return info.param.first; });

/// f64: ten iterations amplify rounding (1e-16) by less than 1e6 on this net, as in the tests of the
/// promises.
TEST_P(UplinkTest, GroupsOfDevicesAreOneDevice) {
  TrainingCase what{std::string(kSgdSolver) + GetParam().second, kNet};
  what.iterations = 10;
  const Trained one = train_case(what, 1);
  for (const std::vector<int>& devices : std::vector<std::vector<int>>{{2, 2}, {1, 1}, {3, 1}, {1, 2, 2}}) {
    const Joined joined = train_joined(what, devices);
    SCOPED_TRACE(testing::PrintToString(devices));
    ASSERT_THAT(joined.errors, testing::Each(""));
    EXPECT_GT(joined.messages, 0u);
    EXPECT_LE(largest_difference(one.values(), joined.trained.values()), 1e-10);
    EXPECT_LE(largest_difference(one.losses(), joined.trained.losses()), 1e-10);
    EXPECT_EQ(one.state.banyan().source(0).consumed(), joined.trained.state.banyan().source(0).consumed());
    EXPECT_EQ(joined.trained.state.history_size(), one.state.history_size());
  }
}

/// Results are bit-identical whatever the timing and whichever process finishes a sum.
TEST(Uplink, GivesTheSameBitsEveryTime) {
  TrainingCase what{kSgdSolver, kNet};
  what.iterations = 6;
  what.precision = RunPrecision::f32;
  const auto late = [](int, TrainOptions& options) {
    options.cpu.asynchronous = true;
    options.cpu.max_delay_us = 50;
  };
  EXPECT_EQ(train_joined(what, {2, 2}).trained.model_bytes,
            train_joined(what, {2, 2}, late).trained.model_bytes);
}

/// Their sums would differ in the last bits, and their parameters more and more.
TEST(Uplink, CpusAndGpusDoNotTrainTogether) {
  const Joined joined = train_joined({kSgdSolver, kNet}, {1, 1}, [](int process, TrainOptions& options) {
    options.precision = RunPrecision::f32;
    if (process == 1) options.devices = {{DeviceKind::cuda, 0}};
  });
  EXPECT_THAT(joined.errors,
              testing::Each("process 1 has another kind of devices (--cpu or --gpu) than process 0"));
}

TEST(Uplink, AFailureInOneProcessEndsTheOthers) {
  TrainingCase what{kSgdSolver, kNet};
  const Joined joined = train_joined(what, {2, 2}, [](int process, TrainOptions& options) {
    if (process == 1) options.memory_limit = 40'000;
  });
  EXPECT_THAT(joined.errors[1], testing::HasSubstr("out of memory on cpu:"));
  EXPECT_THAT(joined.errors[0], testing::HasSubstr("out of memory on cpu:"));
}

/// Also where no exchange would notice: other batches, rates of dropout, decays.
TEST(Uplink, ProcessesThatTrainDifferentNetsAreToldSo) {
  const TrainingCase what{kSgdSolver, kNet};
  const std::pair<const char*, std::function<void(caffe::NetParameter&)>> changes[] = {
      {"layer \"data\" of",
       [](auto& net) { net.mutable_layer(0)->mutable_data_param()->set_batch_size(48); }},
      {"layer \"data\" of",
       [](auto& net) { net.mutable_layer(0)->mutable_transform_param()->set_mirror(false); }},
      {"layer \"conv1\" of",
       [](auto& net) { net.mutable_layer(1)->mutable_convolution_param()->set_num_output(7); }},
      {"layer \"conv1\" of", [](auto& net) { net.mutable_layer(1)->add_param()->set_decay_mult(0); }},
      {"layer \"drop\" of",
       [](auto& net) { net.mutable_layer(4)->mutable_dropout_param()->set_dropout_ratio(0.4F); }},
      {"number of layers in", [](auto& net) {
         auto& extra = *net.add_layer();
         extra.set_name("extra");
         extra.set_type("Silence");
         extra.add_bottom("ip");
       }}};
  for (const auto& [fact, change] : changes) {
    const Joined joined = train_joined(what, {1, 1}, [&](int process, TrainOptions& options) {
      if (process == 1) change(*options.solver.nets.mutable_net_param());
    });
    EXPECT_THAT(joined.errors,
                testing::Each(cat("process 1 has another ", fact, " the training net than process 0")));
  }
}

TEST(Uplink, ProcessesThatTestDifferentNetsAreToldSo) {
  const Joined joined = train_joined({kSgdSolver, kNet}, {1, 1}, [&](int process, TrainOptions& options) {
    caffe::SolverParameter& nets = options.solver.nets;
    *nets.add_test_net_param() = nets.net_param();
    if (process == 1)
      nets.mutable_test_net_param(0)->mutable_layer(0)->mutable_data_param()->set_batch_size(6);
  });
  EXPECT_THAT(joined.errors,
              testing::Each("process 1 has another layer \"data\" of test net #0 than process 0"));
}

/// Where files are, and how they are read, is each machine's own matter.
TEST(Uplink, MachinesMayKeepTheirFilesElsewhere) {
  TrainingCase what{kSgdSolver, kNet};
  what.iterations = 4;
  const TrainingFolder elsewhere;
  const Joined same = train_joined(what, {1, 1});
  const Joined joined = train_joined(what, {1, 1}, [&](int process, TrainOptions& options) {
    if (process != 1) return;
    auto& data = *options.solver.nets.mutable_net_param()->mutable_layer(0)->mutable_data_param();
    data.set_source(elsewhere.path() + "/images");
    data.set_prefetch(2);
    data.set_threads(2);
  });
  ASSERT_THAT(joined.errors, testing::Each(""));
  EXPECT_EQ(joined.trained.values(), same.trained.values());
}

/// They would deal out each other's records, or none.
TEST(Uplink, DataSetsOfOtherSizesAreToldSo) {
  const TrainingFolder shorter({0, 1, 2, 3, 4, 5, 6, 7});
  const Joined joined = train_joined({kSgdSolver, kNet}, {2, 1}, [&](int process, TrainOptions& options) {
    if (process == 1)
      options.solver.nets.mutable_net_param()->mutable_layer(0)->mutable_data_param()->set_source(
          shorter.path() + "/images");
  });
  EXPECT_THAT(joined.errors, testing::Each(testing::HasSubstr(
                                 "process 1 has another number of records in \"data\" of the net "
                                 "\"train\" than process 0")));
}

/// The groups of a batch normalization are made of the devices of all processes.
TEST(Uplink, SyncGroupsMaySpanProcesses) {
  TrainingCase what{kSgdSolver, kNet};
  what.iterations = 10;
  const std::string sync = "slope_filler { value: 1 }";
  what.net.replace(what.net.find(sync), sync.size(), sync + " sync_group_size: 3");
  const Trained one = train_case(what, 6);
  for (const std::vector<int>& devices : std::vector<std::vector<int>>{{2, 2, 2}, {1, 5}, {4, 1, 1}}) {
    const Joined joined = train_joined(what, devices);
    SCOPED_TRACE(testing::PrintToString(devices));
    ASSERT_THAT(joined.errors, testing::Each(""));
    EXPECT_LE(largest_difference(one.values(), joined.trained.values()), 1e-10);
    EXPECT_LE(largest_difference(one.losses(), joined.trained.losses()), 1e-10);
  }
  what.net.replace(what.net.find("group_size: 3"), 13, "group_size: 6");
  EXPECT_GT(largest_difference(one.values(), train_case(what, 6).values()), 1e-3);  // the test can fail
}

/// Without random_seed all take the first one's.
TEST(Uplink, ProcessesAgreeOnADrawnSeed) {
  const TrainingCase what{kSgdSolver, kNet, 2};
  const Joined joined =
      train_joined(what, {1, 2}, [](int, TrainOptions& options) { options.solver.random_seed.reset(); });
  EXPECT_THAT(joined.errors, testing::Each(""));
}

TEST(Uplink, AWishToStopInOneProcessStopsAll) {
  TrainingCase what{kSgdSolver, kNet};
  what.iterations = 1;
  SignalFlags signals;
  signals.stop = true;
  const Joined joined = train_joined(what, {2, 1}, [&](int process, TrainOptions& options) {
    options.solver.max_iter = 1'000'000;
    options.solver.test.interval = 0;
    options.solver.test.batches.clear();
    if (process == 1) options.signals = &signals;
  });
  EXPECT_THAT(joined.errors, testing::Each(""));
  EXPECT_EQ(joined.trained.state.iter(), 1);
}

/// A call that one process refuses before its devices begin must not leave the others waiting.
TEST(Uplink, ARefusedCallEndsTheOtherProcessesToo) {
  FLAGS_minloglevel = google::FATAL;
  const TrainingFolder folder;
  TrainingCase of;
  of.net = kNet;
  of.solver = kSgdSolver;
  parallel::MemoryHub hub({1, 2});
  std::array<std::string, 2> errors;
  std::vector<std::thread> processes;
  for (int p = 0; p < 2; ++p)
    processes.emplace_back([&, p] {
      const auto uplink = hub.join(p);
      TrainOptions options = options_of(of, folder, p + 1);
      options.uplink = uplink.get();
      try {
        Session session(options);
        session.step(2);
        if (p == 0)
          session.restore(folder.path() + "/missing.solverstate");
        else
          session.step(1);
      } catch (const Error& error) {
        errors[p] = error.what();
      }
    });
  for (std::thread& process : processes) process.join();
  EXPECT_THAT(errors[0], testing::HasSubstr("missing.solverstate"));
  EXPECT_NE(errors[1], "");
}

}  // namespace
}  // namespace banyan
