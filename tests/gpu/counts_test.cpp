// What one iteration costs on emulated GPUs, for tests/bench/gpu_counts.py: differences between two
// iterations of one process, each starting with all devices waiting for each other.
#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "banyan/observe/activity.hpp"
#include "banyan/train/solver_settings.hpp"
#include "gpu/gpu_training.hpp"

namespace banyan {
namespace {

constexpr std::int64_t kFirst = 2, kLast = 3;
/// Chunks follow from it, and the number of copies from them: about PCIe 4.0's.
constexpr parallel::LinkCost kLink{1e-5, 25e9};
std::unique_ptr<std::barrier<>> everybody;
std::string file;

/// Writes what has run so far when the device that counts iterations takes its data.
void count(const Activity& activity, Stage stage, const char*) {
  const std::int64_t iteration = activity.state().iteration;
  if (stage != Stage::data || (iteration != kFirst && iteration != kLast)) return;
  everybody->arrive_and_wait();
  if (activity.device() == "gpu:0")
    std::ofstream(cat(file, iteration == kFirst ? ".before" : ".after"))
        << emulated<const char*()>("emulated_cuda_counts")();
  everybody->arrive_and_wait();
}

/// BANYAN_COUNTS=SOLVER,GPUS,SYNC_BN,FILE; four iterations or more, nets with one data layer.
TEST(EmulatedCounts, OfOneIteration) {
  const char* wanted = std::getenv("BANYAN_COUNTS");
  if (wanted == nullptr) GTEST_SKIP() << "for tests/bench/gpu_counts.py";
  ASSERT_NE(emulated<const char*()>("emulated_cuda_counts"), nullptr) << "needs emulated GPUs";
  std::istringstream words(wanted);
  std::string solver, gpus, sync;
  std::getline(words, solver, ',');
  std::getline(words, gpus, ',');
  std::getline(words, sync, ',');
  std::getline(words, file);
  TrainOptions options;
  options.solver = load_solver(solver);
  options.solver_path = solver;
  options.devices = gpu_devices(std::stoi(gpus));
  options.precision = RunPrecision::f32;
  options.sync_bn = sync == "on" ? SyncBatchNorm::on : SyncBatchNorm::off;
  options.link_cost = kLink;
  everybody = std::make_unique<std::barrier<>>(std::ssize(options.devices));
  FLAGS_minloglevel = 2;
  install_fault_injector(count);
  EXPECT_EQ(train(options), 0);
  install_fault_injector(nullptr);
}

}  // namespace
}  // namespace banyan
