// Training on GPUs, for tests. Emulated ones check more and can be made to fail.
#pragma once

#include <dlfcn.h>

#include <filesystem>

#include "banyan/device/cuda_devices.hpp"
#include "banyan/train/kernel_differences.hpp"
#include "train/training_case.hpp"

namespace banyan {

class GpuTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  }

  /// Twice the same bits on two GPUs, and once more when it is resumed; the solver says snapshot: 7.
  static void expect_the_same_bits_when_repeated_and_resumed(const TrainingCase& what) {
    const TrainingFolder whole, again;
    const Trained expected = train_case(what, gpu_devices(2), whole);
    EXPECT_EQ(train_case(what, gpu_devices(2)).model_bytes, expected.model_bytes);
    for (const char* file : {"/out_iter_7.caffemodel", "/out_iter_7.solverstate"})
      std::filesystem::copy(whole.path() + file, again.path() + file);
    TrainOptions options = options_of(what, again, gpu_devices(2));
    options.solver.random_seed.reset();  // the state contains it
    options.snapshot = again.path() + "/out_iter_7.solverstate";
    // So that a run which goes on elsewhere can tell that it has other algorithms.
    EXPECT_FALSE(saved_kernels(read_snapshot(options.snapshot).state.banyan()).empty());
    FLAGS_minloglevel = 2;
    train(options);
    const Trained resumed = read_trained(again, what.iterations);
    EXPECT_EQ(resumed.model_bytes, expected.model_bytes);
    EXPECT_EQ(resumed.losses(), expected.losses());
  }
};

/// A function of the emulated machine (tests/emulated_cuda/emulator/control.hpp); null on a real one.
template <class Function>
Function* emulated(const char* name) {
  static_cast<void>(cuda_device_count());  // loads the back end
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace banyan
