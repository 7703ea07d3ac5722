// Runs in which devices exchange nothing: every parameter frozen, local batch normalization, a loss that is
// not divided.
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
  TrainOptions options = options_of({kFixedSolver, kFrozenNet, 40, DType::f32, "auto"}, folder, 2);
  options.signals = &signals;
  install_fault_injector(ask_to_stop);
  EXPECT_EQ(train(options), 0);
  install_fault_injector(nullptr);
  // The request is read in the next iteration.
  EXPECT_TRUE(std::filesystem::exists(snapshot_paths(folder.path() + "/out", 7).state));
}

}  // namespace
}  // namespace banyan
