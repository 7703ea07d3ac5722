// The devices of the runs that are made to fail: virtual CPU devices; in gpu_tests, GPUs.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "banyan/base/text.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "banyan/train/train.hpp"

namespace banyan {

#if defined(BANYAN_GPU_TESTS)
inline constexpr DeviceKind kRunDevices = DeviceKind::cuda;
#else
inline constexpr DeviceKind kRunDevices = DeviceKind::cpu;
#endif

/// Why there are none; "" if there are.
inline std::string why_no_run_devices() {
  std::string why;
  if (kRunDevices == DeviceKind::cuda && cuda_device_count(&why) == 0) return "no CUDA device: " + why;
  return "";
}

/// GPUs: several replicas on each where there are fewer than asked for.
inline std::vector<DeviceChoice> run_devices(int number) {
  std::vector<DeviceChoice> devices;
  const int there = kRunDevices == DeviceKind::cpu ? number : cuda_device_count();
  for (int i = 0; i < number; ++i) devices.push_back({kRunDevices, i % there});
  return devices;
}

/// As devices call themselves.
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
