// Training on GPUs, for tests: GPUs in the order of their numbers, several replicas on each where there are
// fewer than asked for. Emulated ones have further checks and can be made to fail.
#pragma once

#include <dlfcn.h>

#include "banyan/device/cuda_devices.hpp"
#include "train/training_case.hpp"

namespace banyan {

inline std::vector<DeviceChoice> gpu_devices(int number) {
  std::vector<DeviceChoice> devices;
  const int gpus = cuda_device_count();
  for (int i = 0; i < number; ++i) devices.push_back({DeviceKind::cuda, i % gpus});
  return devices;
}

class GpuTraining : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (cuda_device_count(&why) == 0) GTEST_SKIP() << "no CUDA device: " << why;
  }
};

/// A function of the emulated machine (tests/emulated_cuda/emulator/control.hpp); null on a real one.
template <class Function>
Function* emulated(const char* name) {
  static_cast<void>(cuda_device_count());  // loads the back end
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace banyan
