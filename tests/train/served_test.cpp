// Training by a parameter server, with processes joined through memory: where it waits for all workers it is
// the training of one process with all their batches.
#include <gmock/gmock.h>

#include <numeric>

#include "joined_run.hpp"
#include "promise_cases.hpp"

namespace banyan {
namespace {

using testing::Each;
using testing::HasSubstr;

/// Each sample's part in the loss does not depend on the others of its batch, and nothing is drawn for each
/// process: only then is the mean of the workers' differences that of one batch.
std::string plain_net(int batch, const std::string& data = "") {
  return cat("layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'DATA' "
             "backend: LMDB "
             "batch_size: ",
             batch, " ", data,
             R"( } transform_param { scale: 0.01 crop_size: 10 pad: 1 mirror: true mean_value: 60 } }
layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' param { lr_mult: 2 } param { decay_mult: 0 }
  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'msra' } } }
layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' }
layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'pool1' pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: 'drop' type: 'InnerProduct' bottom: 'pool1' top: 'drop' param { lr_mult: 0 } param { lr_mult: 0 }
  inner_product_param { num_output: 9 weight_filler { type: 'xavier' } } }
)") + classifier();
}

ParameterServerOptions waiting_for_all() { return {}; }

Joined train_served(const TrainingCase& what, const std::vector<int>& devices,
                    const ParameterServerOptions& server = waiting_for_all(),
                    const TrainingFolder& folder = TrainingFolder(),
                    const std::function<void(int, TrainOptions&)>& change = {}) {
  return train_joined(what, devices, change, folder, server);
}

struct ServedCase {
  std::string name, solver;
};
class ServedPromiseTest : public testing::TestWithParam<ServedCase> {};
INSTANTIATE_TEST_SUITE_P(
    Solvers, ServedPromiseTest,
    testing::Values(ServedCase{"sgd", kSolver},
                    ServedCase{"clipped", std::string(kSolver) + "clip_gradients: 0.5 iter_size: 2"},
                    ServedCase{"adam",
                               "type: 'Adam' base_lr: 0.01 momentum: 0.9 momentum2: 0.99 lr_policy: "
                               "'poly' power: 1 random_seed: 3 display: 7 weight_decay: 0.01 "},
                    ServedCase{"lamb",
                               "type: 'LAMB' base_lr: 0.01 momentum: 0.9 momentum2: 0.99 lr_policy: "
                               "'fixed' random_seed: 3 weight_decay: 0.01 "},
                    ServedCase{"larc_turbo",
                               std::string(kSolver) + "larc: true larc_turbo: true larc_eta: 0.02"},
                    ServedCase{"scaled", std::string(kSolver) + "lr_scaling: LINEAR base_batch_size: 10"}),
    [](const auto& info) { return info.param.name; });

/// As in expect_the_same_run: f64 leaves room for other orders of additions.
TEST_P(ServedPromiseTest, WaitingForAllIsOneProcessWithAllBatches) {
  for (const char* data : {"", "shuffle: true"}) {
    TrainingCase what{GetParam().solver, plain_net(24, data)};
    const Trained one = train_case(what, 1);
    for (const std::vector<int>& devices : std::vector<std::vector<int>>{{1, 1, 1, 1}, {1, 2, 2}, {1, 3}}) {
      const int share = 24 / (devices[1] * (static_cast<int>(devices.size()) - 1));
      what.net = plain_net(share, data);
      SCOPED_TRACE(cat(testing::PrintToString(devices), " ", data));
      const Joined served = train_served(what, devices);
      ASSERT_THAT(served.errors, Each(""));
      EXPECT_LE(largest_difference(one.values(), served.trained.values()), 1e-10);
      EXPECT_LE(largest_difference(one.losses(), served.trained.losses()), 1e-10);
    }
  }
}

/// The server's state is all there is: history, rate, positions in data.
TEST_P(ServedPromiseTest, ResumesWithTheSameBits) {
  TrainingCase what{GetParam().solver + " snapshot: 7", plain_net(6, "shuffle: true")};
  const TrainingFolder folder;
  const Joined whole = train_served(what, {1, 2, 2}, waiting_for_all(), folder);
  ASSERT_THAT(whole.errors, Each(""));
  const Joined resumed =
      train_served(what, {1, 2, 2}, waiting_for_all(), folder, [&](int process, TrainOptions& options) {
        const std::string state = snapshot_paths(folder.path() + "/out", 7).state;
        options.snapshot = process == 0 ? state : "/nowhere/" + state;
      });
  ASSERT_THAT(resumed.errors, Each(""));
  EXPECT_EQ(resumed.trained.model_bytes, whole.trained.model_bytes);
  EXPECT_EQ(resumed.trained.losses(), whole.trained.losses());
  EXPECT_EQ(resumed.trained.state.banyan().source(0).consumed(),
            whole.trained.state.banyan().source(0).consumed());
}

/// More parameters: pieces for several servers.
std::string widened(std::string net, const std::string& narrow, const std::string& wide) {
  return net.replace(net.find(narrow), narrow.size(), wide);
}
std::string wide_net(int batch, const std::string& data = "") {
  return widened(plain_net(batch, data), "num_output: 9 ", "num_output: 1000 ");
}

ParameterServerOptions several(int servers) {
  ParameterServerOptions options;
  options.servers = servers;
  return options;
}

/// The same pieces, added and updated in the same way, wherever that is.
TEST_P(ServedPromiseTest, TwoServersGiveTheBitsOfOne) {
  for (const RunPrecision precision : {RunPrecision::f64, RunPrecision::f32}) {
    TrainingCase what{GetParam().solver, wide_net(6, "shuffle: true")};
    what.precision = precision;
    const Joined one = train_served(what, {1, 2, 2}), two = train_served(what, {1, 1, 2, 2}, several(2));
    ASSERT_THAT(one.errors, Each(""));
    ASSERT_THAT(two.errors, Each(""));
    EXPECT_EQ(two.trained.model_bytes, one.trained.model_bytes);
    EXPECT_EQ(two.trained.losses(), one.trained.losses());
  }
}

ParameterServerOptions spare(int spares, int servers = 1) {
  ParameterServerOptions options = several(servers);
  options.spares = spares;
  return options;
}

/// A snapshot tells of the workers that have tasks; batches and rates are theirs.
TEST_P(ServedPromiseTest, SparesThatAreNotNeededChangeNothing) {
  const TrainingCase what{GetParam().solver, wide_net(6, "shuffle: true")};
  const Joined without = train_served(what, {1, 2, 2}), with = train_served(what, {1, 2, 2, 2, 2}, spare(2));
  const Joined two = train_served(what, {1, 1, 2, 2, 2}, spare(1, 2));
  for (const Joined* each : {&without, &with, &two}) {
    ASSERT_THAT(each->errors, Each(""));
    EXPECT_EQ(each->trained.model_bytes, without.trained.model_bytes);
    EXPECT_EQ(each->trained.losses(), without.trained.losses());
  }
}

/// A snapshot does not tell how many servers there were.
TEST_P(ServedPromiseTest, AnotherNumberOfServersGoesOn) {
  const TrainingCase what{GetParam().solver + " snapshot: 7", wide_net(6, "shuffle: true")};
  const Joined whole = train_served(what, {1, 1, 1});
  ASSERT_THAT(whole.errors, Each(""));
  const std::vector<std::pair<int, int>> changes = {{2, 1}, {1, 2}};
  for (const auto& [before, after] : changes) {
    SCOPED_TRACE(cat(before, " servers, then ", after));
    const TrainingFolder folder;
    const auto processes = [](int servers) {
      return std::vector<int>(static_cast<std::size_t>(servers) + 2, 1);
    };
    ASSERT_THAT(train_served(what, processes(before), several(before), folder).errors, Each(""));
    const Joined resumed =
        train_served(what, processes(after), several(after), folder, [&](int process, TrainOptions& options) {
          const std::string state = snapshot_paths(folder.path() + "/out", 7).state;
          options.snapshot = process == 0 ? state : "/nowhere/" + state;
        });
    ASSERT_THAT(resumed.errors, Each(""));
    EXPECT_EQ(resumed.trained.model_bytes, whole.trained.model_bytes);
    EXPECT_EQ(resumed.trained.losses(), whole.trained.losses());
  }
}

TEST(Served, ThreeServersWithLayersThatDependOnTheBatch) {
  const TrainingCase what{kSolver,
                          data_layer() + widened(kBody, "num_output: 8 ", "num_output: 64 ") + classifier()};
  const Joined one = train_served(what, {1, 1, 1}), three = train_served(what, {1, 1, 1, 1, 1}, several(3));
  ASSERT_THAT(one.errors, Each(""));
  ASSERT_THAT(three.errors, Each(""));
  EXPECT_EQ(three.trained.model_bytes, one.trained.model_bytes);
}

ParameterServerOptions tree_of(int inner) {
  ParameterServerOptions options;
  options.inner = inner;
  return options;
}

/// f64 leaves room for another order of additions: first below each inner server, then above.
TEST_P(ServedPromiseTest, ATreeIsOneServer) {
  const TrainingCase what{GetParam().solver, wide_net(6, "shuffle: true")};
  const Joined flat = train_served(what, {1, 1, 1, 1, 1}),
               tree = train_served(what, {1, 1, 1, 1, 1, 1, 1}, tree_of(2));
  ASSERT_THAT(flat.errors, Each(""));
  ASSERT_THAT(tree.errors, Each(""));
  EXPECT_LE(largest_difference(flat.trained.values(), tree.trained.values()), 1e-10);
  EXPECT_LE(largest_difference(flat.trained.losses(), tree.trained.losses()), 1e-10);
  EXPECT_EQ(flat.trained.state.banyan().source(0).consumed(),
            tree.trained.state.banyan().source(0).consumed());
}

/// Workers with several devices, not as many below each inner server, running statistics, and a run that goes
/// on without the tree.
TEST(Served, AnUnevenTreeGoesOnWithoutIt) {
  const TrainingCase what{std::string(kSolver) + " snapshot: 7", data_layer() + kBody + classifier()};
  const TrainingFolder folder;
  const Joined flat = train_served(what, {1, 2, 2, 2});
  ASSERT_THAT(flat.errors, Each(""));
  const Joined tree = train_served(what, {1, 1, 1, 2, 2, 2}, tree_of(2), folder);
  ASSERT_THAT(tree.errors, Each(""));
  EXPECT_LE(largest_difference(flat.trained.values(), tree.trained.values()), 1e-10);
  const Joined resumed =
      train_served(what, {1, 2, 2, 2}, waiting_for_all(), folder, [&](int process, TrainOptions& options) {
        const std::string state = snapshot_paths(folder.path() + "/out", 7).state;
        options.snapshot = process == 0 ? state : "/nowhere/" + state;
      });
  ASSERT_THAT(resumed.errors, Each(""));
  EXPECT_LE(largest_difference(flat.trained.values(), resumed.trained.values()), 1e-10);
}

TEST(Served, AnAsynchronousTreeLearns) {
  TrainingCase what{"base_lr: 0.02 lr_policy: 'fixed' random_seed: 3 average_loss: 100 ", wide_net(10)};
  what.precision = RunPrecision::f32;
  what.iterations = 20;
  const double in_the_beginning = train_served(what, {1, 1}).trained.losses()[0];
  what.iterations = 800;  // differences are older on a busy machine, and more are dropped
  ParameterServerOptions server = tree_of(2);
  server.wait_seconds = 0;
  server.staleness = 4;
  server.compression = {DType::bf16, 0.3};
  const Joined served = train_served(what, {1, 1, 1, 1, 1, 1, 1}, server);
  ASSERT_THAT(served.errors, Each(""));
  const std::vector<double> losses = served.trained.losses();
  ASSERT_EQ(losses.size(), 100U);  // the last ones: differences are used in another order in each run
  EXPECT_LT(std::accumulate(losses.begin(), losses.end(), 0.0) / 100, 0.5 * in_the_beginning);
}

TEST(Served, NoSnapshotBeforeTraining) {
  const TrainingCase what{std::string(kSolver) + " snapshot_before_train: true", plain_net(8)};
  EXPECT_THAT(train_served(what, {1, 1, 1}).errors,
              Each(testing::HasSubstr("only trains: no snapshot_before_train")));
}

/// A run without a server goes on where one with a server was, and with the same data.
TEST(Served, ARunWithoutServerGoesOn) {
  TrainingCase what{std::string(kSolver) + " snapshot: 7", plain_net(24)};
  const Trained one = train_case(what, 1);
  const TrainingFolder folder;
  what.net = plain_net(8);
  ASSERT_THAT(train_served(what, {1, 1, 1, 1}, waiting_for_all(), folder).errors, Each(""));
  what.net = plain_net(24);
  TrainOptions options = options_of(what, folder, 1);
  options.snapshot = snapshot_paths(folder.path() + "/out", 7).state;
  train(options);
  EXPECT_LE(largest_difference(one.values(), read_trained(folder, what.iterations).values()), 1e-10);
}

/// With one worker even dropout and synchronized batch normalization are the same, and running statistics.
TEST(Served, OneWorkerIsARunByItself) {
  const TrainingCase what{kSolver, data_layer("shuffle: true") + kBody + classifier()};
  for (const int devices : {1, 2, 3}) {
    const Trained alone = train_case(what, devices);
    const Joined served = train_served(what, {1, devices});
    ASSERT_THAT(served.errors, Each(""));
    EXPECT_LE(largest_difference(alone.values(), served.trained.values()), 1e-10) << devices;
    EXPECT_LE(largest_difference(alone.losses(), served.trained.losses()), 1e-10) << devices;
  }
}

TEST(Served, EveryRunHasTheSameBits) {
  TrainingCase what{kSolver, data_layer() + kBody + classifier() + kSecondLoss};
  what.precision = RunPrecision::f32;
  const Joined first = train_served(what, {1, 2, 2}), second = train_served(what, {1, 2, 2});
  ASSERT_THAT(first.errors, Each(""));
  EXPECT_EQ(first.trained.model_bytes, second.trained.model_bytes);
}

/// Nobody waits, differences are old and compressed: it learns nevertheless, at a rate that is low enough for
/// whatever ages they happen to have (with four times that, some runs diverge for a while).
TEST(Served, AsynchronousTrainingLearns) {
  TrainingCase what{"base_lr: 0.005 momentum: 0.5 lr_policy: 'fixed' random_seed: 3 average_loss: 20 ",
                    wide_net(10)};
  what.precision = RunPrecision::f32;
  what.iterations = 20;
  const double in_the_beginning = train_served(what, {1, 1}).trained.losses()[0];
  what.iterations = 600;
  for (const parallel::Compression& compression :
       {parallel::Compression{}, parallel::Compression{DType::bf16, 1},
        parallel::Compression{std::nullopt, 0.1}}) {
    ParameterServerOptions server;
    server.wait_seconds = 0;
    server.staleness = 4;
    server.compression = compression;
    server.servers = compression.narrow ? 1 : 2;
    const Joined served = train_served(what, {1, 1, 1, 1, 1}, server);
    ASSERT_THAT(served.errors, Each(""));
    const std::vector<double> losses = served.trained.losses();
    double mean = 0;
    for (const double loss : losses) mean += loss / static_cast<double>(losses.size());
    EXPECT_LT(mean, 0.5 * in_the_beginning);
  }
}

TEST(Served, TestsAndSnapshotsAreTheServers) {
  TrainingCase what{std::string(kFixedSolver) + "test_iter: 3 test_interval: 5 snapshot: 5",
                    plain_net(6) +
                        "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: "
                        "'accuracy' include { phase: TEST } }"};
  const TrainingFolder folder;
  const Joined served = train_served(what, {1, 1, 1}, waiting_for_all(), folder);
  ASSERT_THAT(served.errors, Each(""));
  EXPECT_EQ(find_latest_snapshot(folder.path() + "/out"), snapshot_paths(folder.path() + "/out", 20).state);
}

TEST(Served, WhatCannotBeIsSaidByAll) {
  const TrainingCase what{kSolver, plain_net(6)};
  for (const std::string& error : train_served(what, {1, 1, 2}).errors)
    EXPECT_THAT(error, HasSubstr("all workers must have as many"));
  for (const std::string& error : train_served(what, {1}).errors)
    EXPECT_THAT(error, HasSubstr("needs at least one worker"));
  for (const std::string& error : train_served(what, {1, 1}, several(2)).errors)
    EXPECT_THAT(error, HasSubstr("2 parameter servers need at least one worker"));
  for (const std::string& error : train_served(what, {1, 1, 1, 1}, tree_of(2)).errors)
    EXPECT_THAT(error, HasSubstr("2 inner parameter servers needs a worker for each: start 5 processes"));
  for (const std::string& error : train_served(what, {1, 1, 1}, spare(2)).errors)
    EXPECT_THAT(error, HasSubstr("a parameter server needs at least one worker besides 2 spare: start 4 "));
  ParameterServerOptions both = tree_of(1);
  both.spares = 1;
  for (const std::string& error : train_served(what, {1, 1, 1, 1}, both).errors)
    EXPECT_THAT(error, HasSubstr("spare workers and a tree of parameter servers exclude each other"));
  for (const std::string& error : train_served(what, {1, 1, 1}, several(2)).errors)
    EXPECT_THAT(error, HasSubstr("1 piece: too few for 2 parameter servers"));
  for (const std::string& error :
       train_served(what, {1, 1, 1}, several(2), TrainingFolder(), [](int process, TrainOptions&options) {
         if (process == 2) options.parameter_server->servers = 1;
       }).errors)
    EXPECT_THAT(
        error, HasSubstr("process 2 has another --servers, --server_tree or --spare_workers than process 0"));
  const std::string frozen = plain_net(6);
  const TrainingCase nothing{
      kSolver,
      frozen.substr(0, frozen.find("layer { name: 'conv1'")) +
          "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' param { lr_mult: 0 } param { "
          "lr_mult: 0 } inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } } layer { "
          "name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }"};
  for (const std::string& error : train_served(nothing, {1, 1}).errors)
    EXPECT_THAT(error, HasSubstr("has nothing to learn"));
  std::string unit = frozen;
  unit.replace(unit.rfind("inner_product_param { "), 22, "inner_product_param { normalize: true ");
  for (const std::string& error : train_served({kSolver, unit}, {1, 1}).errors)
    EXPECT_THAT(error,
                HasSubstr("normalized or kept within limits are not possible with a parameter server"));
}

/// The same of a further server.
TEST(Served, AFailureOfAServerEndsAll) {
  const TrainingCase what{kSolver, wide_net(6)};
  const Joined served =
      train_served(what, {1, 1, 1, 1}, several(2), TrainingFolder(), [](int process, TrainOptions& options) {
        if (process == 1) options.memory_limit = 4096;
      });
  for (const std::string& error : served.errors) EXPECT_THAT(error, HasSubstr("process 1")) << error;
}

/// A failure of one ends all, with its error.
TEST(Served, AFailureOfAWorkerEndsAll) {
  const TrainingCase what{kSolver, plain_net(6)};
  const Joined served = train_served(what, {1, 1, 1}, waiting_for_all(), TrainingFolder(),
                                     [](int process, TrainOptions& options) {
                                       if (process == 2) options.memory_limit = 4096;
                                     });
  for (const std::string& error : served.errors) EXPECT_THAT(error, HasSubstr("process 2")) << error;
}

}  // namespace
}  // namespace banyan
