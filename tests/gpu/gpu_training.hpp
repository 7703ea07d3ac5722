// Training on GPUs, for tests. Emulated ones check more and can be made to fail.
#pragma once

#include <dlfcn.h>

#include "banyan/device/cuda_devices.hpp"
#include "train/training_case.hpp"

namespace banyan {

class GpuTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  }
};

/// A function of the emulated machine (tests/emulated_cuda/emulator/control.hpp); null on a real one.
template <class Function>
Function* emulated(const char* name) {
  static_cast<void>(cuda_device_count());  // loads the back end
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace banyan
