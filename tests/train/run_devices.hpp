// The devices of training runs in tests.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "banyan/base/text.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "banyan/train/train.hpp"

namespace banyan {

/// The first `number` virtual CPU devices.
inline std::vector<DeviceChoice> cpu_devices(int number) {
  std::vector<DeviceChoice> devices;
  for (int i = 0; i < number; ++i) devices.push_back({DeviceKind::cpu, i});
  return devices;
}

/// GPUs in numerical order, with several replicas per GPU if there are fewer than requested.
inline std::vector<DeviceChoice> gpu_devices(int number) {
  std::vector<DeviceChoice> devices;
  const int gpus = cuda_device_count();
  for (int i = 0; i < number; ++i) devices.push_back({DeviceKind::cuda, i % gpus});
  return devices;
}

/// "" if there is one.
inline std::string why_no_gpu() {
  std::string why;
  return cuda_device_count(&why) > 0 ? "" : "no CUDA device: " + why;
}

// For runs that are made to fail: virtual CPU devices; in gpu_tests, GPUs.
#if defined(BANYAN_GPU_TESTS)
/// A driver starts threads of its own when a process first uses a GPU: before tests count threads.
inline void start_the_driver() {
  for (int i = 0; i < cuda_device_count(); ++i) {
    const auto device = make_cuda_device(i, 0);
    const auto stream = device->create_stream("first");
    const std::shared_ptr<void> host = device->allocate_host(64);
    void* memory = device->allocate(64);
    stream->copy(memory, host.get(), 64);
    stream->synchronize();
    device->release(memory, 64);
  }
}
inline std::string why_no_run_devices() {
  const std::string why = why_no_gpu();
  if (why.empty()) [[maybe_unused]]
    static const bool started = (start_the_driver(), true);
  return why;
}
inline std::vector<DeviceChoice> run_devices(int number) { return gpu_devices(number); }
#else
inline std::string why_no_run_devices() { return ""; }
inline std::vector<DeviceChoice> run_devices(int number) { return cpu_devices(number); }
#endif

/// The devices' own names.
inline std::vector<std::string> names_of(const std::vector<DeviceChoice>& devices) {
  std::vector<std::string> names;
  for (const DeviceChoice& device : devices) {
    const auto replica = std::count(devices.begin(), devices.begin() + std::ssize(names), device);
    names.push_back(cat(device.kind == DeviceKind::cpu ? "cpu:" : "gpu:", device.ordinal,
                        replica == 0 ? "" : cat("#", replica)));
  }
  return names;
}

}  // namespace banyan
