// Runs in which devices exchange nothing: every parameter frozen, local batch normalization, a loss that is
// not divided. And runs whose updates are disabled.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "banyan/observe/activity.hpp"
#include "banyan/train/signals.hpp"
#include "train/training_case.hpp"

namespace banyan {
namespace {

constexpr const char* kFrozenNet = R"(
layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'DATA' backend: LMDB batch_size: 4 } }
layer { name: 'bn' type: 'BatchNorm' bottom: 'data' top: 'bn' }
layer { name: 'ip' type: 'InnerProduct' bottom: 'bn' top: 'ip' param { lr_mult: 0 } param { lr_mult: 0 }
  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' loss_param { normalization: NONE } }
)";

SignalFlags signals;

/// The user asks rank 0 to stop in iteration 5 while the other device is slow.
void ask_to_stop(const Activity& activity, Stage stage, const char*) {
  if (stage != Stage::forward) return;
  if (activity.device() == "cpu:0" && activity.state().iteration == 5) signals.stop = true;
  if (activity.device() == "cpu:1") std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

TEST(NothingLearned, AllDevicesStopAfterTheSameIteration) {
  FLAGS_minloglevel = 2;
  const TrainingFolder folder;
  TrainOptions options = options_of({kFixedSolver, kFrozenNet, 40, RunPrecision::f32, "auto"}, folder, 2);
  options.signals = &signals;
  install_fault_injector(ask_to_stop);
  EXPECT_EQ(train(options), 0);
  install_fault_injector(nullptr);
  // The request is read in the next iteration.
  EXPECT_TRUE(std::filesystem::exists(snapshot_paths(folder.path() + "/out", 7).state));
}

/// Gradients are summed, clipped and thrown away; running statistics move, the iterations are counted.
TEST(NothingLearned, DisabledUpdatesLeaveParametersAndHistory) {
  std::string net = kFrozenNet;
  for (std::size_t at; (at = net.find("lr_mult: 0")) != std::string::npos;) net.replace(at, 10, "lr_mult: 1");
  for (const int devices : {1, 2}) {
    const std::string solver = cat(kFixedSolver, "clip_gradients: 0.5 snapshot: 1 disabled_update: true");
    const TrainingFolder folder;
    const Trained last = train_case({solver, net, 6, RunPrecision::f64, "auto"}, devices, folder);
    const Trained first = read_trained(folder, 1);
    EXPECT_EQ(last.state.iter(), 6);
    for (const auto& history : last.state.history())
      for (const double value : history.double_data()) EXPECT_EQ(value, 0);
    ASSERT_EQ(last.weights.layers.size(), first.weights.layers.size());
    for (std::size_t l = 0; l < last.weights.layers.size(); ++l) {
      const io::LayerWeights &now = last.weights.layers[l], &then = first.weights.layers[l];
      const bool statistics = now.name == "bn";
      for (std::size_t b = 0; b < now.blobs.size(); ++b)
        EXPECT_EQ(now.blobs[b].at(0) != then.blobs[b].at(0), statistics) << now.name << ", blob " << b;
    }
    EXPECT_NE(last.losses().front(), last.losses().back()) << "each iteration has a batch of its own";
  }
}

}  // namespace
}  // namespace banyan
