// From flags and solver to a list of devices.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/device/device.hpp"
#include "banyan/train/solver_settings.hpp"
#include "banyan/train/train.hpp"

namespace banyan {

struct DeviceFlags {
  std::optional<std::string> gpu;  ///< --gpu: `0,1`, `all`, `0,0` (two replicas on one GPU)
  std::optional<std::string> cpu;  ///< --cpu: number of virtual devices
};

/// What the machine has.
struct GpuCensus {
  int count = 0;
  std::string why_none;  ///< if count is 0
  bool unknown = false;  ///< the driver cannot tell; count is 0
};
/// A runtime failure if the driver cannot tell.
GpuCensus count_gpus();
/// For a program that was not asked for GPUs and can do without: does not throw.
GpuCensus count_gpus_if_possible();

struct ChosenDevices {
  std::vector<DeviceChoice> devices;
  std::string note;  ///< a line for the log, or empty
};

/// The flags decide; without them the solver does, if it says `solver_mode: GPU` (as in Caffe, only if
/// written) and there is a GPU; otherwise it is one CPU device. Throws bad_input for flags that exclude each
/// other or are malformed, and for GPUs that do not exist. `count` is called only if a GPU is requested:
/// counting loads CUDA's libraries, a tenth of a second and 200 MB.
ChosenDevices choose_devices(const DeviceFlags& flags, const SolverDevices& solver = {},
                             const std::function<GpuCensus()>& count = count_gpus);

/// Processor cores that this process may run on.
int usable_cores();

/// `threads` is for CPU devices; 0: all usable cores.
std::unique_ptr<Device> make_device(const DeviceChoice& choice, int threads,
                                    RunPrecision precision = RunPrecision::f32);

}  // namespace banyan
