#include "banyan/train/device_choice.hpp"

#include <glog/logging.h>

#include <algorithm>

#include "banyan/base/error.hpp"
#include "banyan/base/number.hpp"
#include "banyan/base/text.hpp"
#include "banyan/device/cores.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "banyan/ops/processor.hpp"

namespace banyan {

namespace {

constexpr int kMostCpuDevices = 256;

/// Items between commas and blanks.
std::vector<std::string> items_of(const std::string& list) {
  std::vector<std::string> items(1);
  for (char c : list)
    if (c == ',' || c == ' ')
      items.emplace_back();
    else
      items.back() += c;
  std::erase(items, "");
  return items;
}

std::string existing(int count) {
  return count == 1 ? std::string("this machine has one GPU, 0")
                    : cat("this machine has ", count, " GPUs, 0 to ", count - 1);
}

std::vector<DeviceChoice> gpus_of(const std::string& list, const GpuCensus& gpus) {
  const std::string flag = "--gpu=" + list;
  if (gpus.count == 0)
    bad_input(flag, ": no GPU can be used (", gpus.why_none, "); --cpu=N trains on the processor");
  std::vector<DeviceChoice> devices;
  if (list == "all") {
    for (int i = 0; i < gpus.count; ++i) devices.push_back({DeviceKind::cuda, i});
    return devices;
  }
  for (const auto& item : items_of(list)) {
    const auto ordinal = number_in<int>(item);
    if (!ordinal)
      bad_input(flag, ": expected a list of numbers such as 0,1 or the word all, found ", quoted(item));
    if (*ordinal < 0 || *ordinal >= gpus.count)
      bad_input(flag, ": there is no GPU ", *ordinal, "; ", existing(gpus.count));
    devices.push_back({DeviceKind::cuda, *ordinal});
  }
  if (devices.empty()) bad_input("--gpu is empty: expected a list of numbers such as 0,1 or the word all");
  return devices;
}

std::vector<DeviceChoice> cpus(int count) {
  std::vector<DeviceChoice> devices;
  for (int i = 0; i < count; ++i) devices.push_back({DeviceKind::cpu, i});
  return devices;
}

}  // namespace

GpuCensus count_gpus() {
  GpuCensus census;
  census.count = cuda_device_count(&census.why_none);
  return census;
}

GpuCensus count_gpus_if_possible() {
  try {
    return count_gpus();
  } catch (const Error& error) {
    return {0, error.message(), true};
  }
}

ChosenDevices choose_devices(const DeviceFlags& flags, const SolverDevices& solver,
                             const std::function<GpuCensus()>& count) {
  if (flags.gpu && flags.cpu)
    bad_input("--gpu and --cpu exclude each other: all devices of a run are of one kind");
  ChosenDevices chosen;
  if (flags.gpu) {
    chosen.devices = gpus_of(*flags.gpu, count());
    return chosen;
  }
  if (flags.cpu) {
    const auto wanted = number_in<int>(*flags.cpu);
    if (!wanted || *wanted < 1 || *wanted > kMostCpuDevices)
      bad_input("--cpu=", *flags.cpu, ": expected the number of virtual CPU devices, 1 to ", kMostCpuDevices);
    chosen.devices = cpus(*wanted);
    return chosen;
  }
  if (!solver.gpu) {
    chosen.devices = cpus(1);
    chosen.note =
        cat("Using one CPU device",
            solver.gpus.empty() ? "" : ": device_id in the solver counts only with solver_mode: GPU",
            " (--cpu=N uses more; --gpu=all uses the GPUs, where there are any)");
    return chosen;
  }
  const GpuCensus gpus = count();
  if (gpus.count > 0) {
    for (int id : solver.gpus) {
      if (id < 0 || id >= gpus.count)
        bad_input("device_id: ", id, " in the solver: there is no such GPU; ", existing(gpus.count));
      chosen.devices.push_back({DeviceKind::cuda, id});
    }
    if (chosen.devices.empty()) chosen.devices.push_back({DeviceKind::cuda, 0});
    return chosen;
  }
  chosen.devices = cpus(1);
  chosen.note =
      cat("Using one CPU device: the solver asks for a GPU, but none can be used (", gpus.why_none, ")");
  return chosen;
}

int usable_cores() { return static_cast<int>(allowed_cores().size()); }

std::unique_ptr<Device> make_device(const DeviceChoice& choice, int threads, RunPrecision precision) {
  if (choice.kind == DeviceKind::cuda)
    return make_cuda_device(choice.ordinal, 0, math_of(precision, choice.kind));
  CpuDeviceOptions options;
  options.threads = threads > 0 ? threads : usable_cores();
  options.math = math_of(precision, choice.kind);
  return make_cpu_device(choice.ordinal, options);
}

}  // namespace banyan
