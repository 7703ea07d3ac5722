// The few functions of NVML (libnvidia-ml.so.1, part of the driver) that report NVLinks and the state of
// GPUs. Types and numbers are those of NVML's stable C interface; the library is loaded at run time, so that
// the program needs neither it nor its header.
#include "nvml.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <fstream>

#include "banyan/parallel/gpu_state.hpp"

namespace banyan::parallel {
namespace {

using Result = int;  // 0: success
using DeviceHandle = void*;

struct PciInfo {  // nvmlPciInfo_t
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

struct Memory {  // nvmlMemory_t
  unsigned long long total, free, used;
};

struct ProcessInfo {  // nvmlProcessInfo_t since version 2
  unsigned id;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};

enum : int { kMultiprocessorClock = 1, kMemoryClock = 2 };     // nvmlClockType_t
enum : int { kUncorrected = 1, kVolatile = 0 };                // nvmlMemoryErrorType_t, nvmlEccCounterType_t
enum : int { kExclusiveThread = 1, kProhibited, kExclusive };  // nvmlComputeMode_t
constexpr int kOnDie = 0, kSlowdown = 1;                       // nvmlTemperatureSensors_t, ...Thresholds_t
// nvmlClocksThrottleReason...
constexpr unsigned long long kApplicationClocks = 0x2, kPowerCap = 0x4, kHardware = 0x8 | 0x80,
                             kHeat = 0x20 | 0x40;
constexpr unsigned long long kNotAvailable = ~0ULL;  // NVML_VALUE_NOT_AVAILABLE

constexpr unsigned kMostLinks = 18;
constexpr int kRemoteSwitch = 2;  // NVML_NVLINK_DEVICE_TYPE_SWITCH

class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    const bool found = find("nvmlInit_v2", init) && find("nvmlShutdown", shutdown) &&
                       find("nvmlDeviceGetHandleByPciBusId_v2", device_by_bus_id) &&
                       find("nvmlDeviceGetNvLinkState", link_state) &&
                       find("nvmlDeviceGetNvLinkRemotePciInfo_v2", remote_pci);
    find("nvmlDeviceGetNvLinkRemoteDeviceType", remote_type);  // newer libraries only
    started_ = found && init() == 0;
  }
  /// A function that not every library has; nullptr then.
  template <class... Arguments>
  auto function(const char* name) const {
    return reinterpret_cast<Result (*)(Arguments...)>(dlsym(library_, name));
  }
  ~Nvml() {
    if (started_) shutdown();
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  bool usable() const { return started_; }

  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  Result (*device_by_bus_id)(const char*, DeviceHandle*) = nullptr;
  Result (*link_state)(DeviceHandle, unsigned, int*) = nullptr;
  Result (*remote_pci)(DeviceHandle, unsigned, PciInfo*) = nullptr;
  Result (*remote_type)(DeviceHandle, unsigned, int*) = nullptr;

 private:
  template <class Function>
  bool find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    return function != nullptr;
  }
  void* library_;
  bool started_ = false;
};

NvLinks links_of(const Nvml& nvml, DeviceHandle device, const std::string& bus_id) {
  NvLinks links{bus_id, {}, 0};
  for (unsigned link = 0; link < kMostLinks; ++link) {
    int active = 0;
    if (nvml.link_state(device, link, &active) != 0 || active == 0) continue;
    int type = -1;
    if (nvml.remote_type != nullptr && nvml.remote_type(device, link, &type) == 0 && type == kRemoteSwitch) {
      ++links.to_switches;
      continue;
    }
    PciInfo remote{};
    if (nvml.remote_pci(device, link, &remote) != 0) continue;
    char text[32];
    std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", remote.domain & 0xffff, remote.bus & 0xff,
                  remote.device & 0xff);
    links.remote.emplace_back(text);
  }
  return links;
}

/// Asks one GPU, function by function: each may be missing in the library, or not be supported by the GPU.
class NvmlQueries {
 public:
  NvmlQueries(const Nvml& nvml, DeviceHandle device) : nvml_(nvml), device_(device) {}

  /// The last argument of the function is where the answer goes.
  template <class T, class... Arguments>
  std::optional<T> ask(const char* name, Arguments... arguments) const {
    T value{};
    const auto function = nvml_.function<DeviceHandle, Arguments..., T*>(name);
    if (function == nullptr || function(device_, arguments..., &value) != 0) return std::nullopt;
    return value;
  }
  /// Of functions that tell what is now and what will be after a restart.
  template <class T>
  std::optional<std::pair<T, T>> ask_both(const char* name) const {
    std::pair<T, T> values{};
    const auto function = nvml_.function<DeviceHandle, T*, T*>(name);
    if (function == nullptr || function(device_, &values.first, &values.second) != 0) return std::nullopt;
    return values;
  }
  std::string text(const char* name) const {
    char value[96] = "";
    const auto function = nvml_.function<DeviceHandle, char*, unsigned>(name);
    return function != nullptr && function(device_, value, sizeof value) == 0 ? value : "";
  }
  std::vector<ProcessInfo> processes() const {
    for (const char* name :
         {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"}) {
      std::vector<ProcessInfo> found(64);
      auto count = static_cast<unsigned>(found.size());
      const auto function = nvml_.function<DeviceHandle, unsigned*, ProcessInfo*>(name);
      if (function == nullptr || function(device_, &count, found.data()) != 0) continue;
      found.resize(count);
      return found;
    }
    return {};
  }

 private:
  const Nvml& nvml_;
  DeviceHandle device_;
};

std::optional<double> watts(std::optional<unsigned> milliwatts) {
  if (!milliwatts) return std::nullopt;
  return *milliwatts / 1000.0;
}

/// "" for a process of another container, which is not seen.
std::string process_name(unsigned id) {
  std::ifstream file("/proc/" + std::to_string(id) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

GpuState state_of(const Nvml& nvml, DeviceHandle device, const std::string& bus_id) {
  const NvmlQueries gpu(nvml, device);
  GpuState state;
  state.bus_id = bus_id;
  state.name = gpu.text("nvmlDeviceGetName");
  if (const auto memory = gpu.ask<Memory>("nvmlDeviceGetMemoryInfo")) {
    state.memory = memory->total;
    state.memory_used = memory->used;
  }
  if (const auto ecc = gpu.ask_both<int>("nvmlDeviceGetEccMode")) {
    state.ecc = ecc->first != 0;
    state.ecc_after_restart = ecc->second != 0;
  }
  state.uncorrected_errors =
      gpu.ask<unsigned long long>("nvmlDeviceGetTotalEccErrors", int{kUncorrected}, int{kVolatile});
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  const auto rows =
      nvml.function<DeviceHandle, unsigned*, unsigned*, unsigned*, unsigned*>("nvmlDeviceGetRemappedRows");
  if (rows != nullptr && rows(device, &corrected, &uncorrected, &pending, &failed) == 0) {
    state.row_repair_pending = pending != 0;
    state.row_repair_failed = failed != 0;
  }
  state.clock = gpu.ask<unsigned>("nvmlDeviceGetClockInfo", int{kMultiprocessorClock});
  state.most_clock = gpu.ask<unsigned>("nvmlDeviceGetMaxClockInfo", int{kMultiprocessorClock});
  state.memory_clock = gpu.ask<unsigned>("nvmlDeviceGetClockInfo", int{kMemoryClock});
  state.most_memory_clock = gpu.ask<unsigned>("nvmlDeviceGetMaxClockInfo", int{kMemoryClock});
  if (const auto reasons = gpu.ask<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons")) {
    const std::pair<unsigned long long, ClockLimit> kinds[] = {{kApplicationClocks, ClockLimit::setting},
                                                               {kPowerCap, ClockLimit::power},
                                                               {kHeat, ClockLimit::heat},
                                                               {kHardware, ClockLimit::hardware}};
    for (const auto& [bits, limit] : kinds)
      if ((*reasons & bits) != 0) state.clock_limits.push_back(limit);
  }
  state.power_limit = watts(gpu.ask<unsigned>("nvmlDeviceGetEnforcedPowerLimit"));
  state.usual_power_limit = watts(gpu.ask<unsigned>("nvmlDeviceGetPowerManagementDefaultLimit"));
  state.temperature = gpu.ask<unsigned>("nvmlDeviceGetTemperature", int{kOnDie});
  state.slowdown_temperature = gpu.ask<unsigned>("nvmlDeviceGetTemperatureThreshold", int{kSlowdown});
  state.lanes = gpu.ask<unsigned>("nvmlDeviceGetCurrPcieLinkWidth");
  state.most_lanes = gpu.ask<unsigned>("nvmlDeviceGetMaxPcieLinkWidth");
  if (const auto mode = gpu.ask<int>("nvmlDeviceGetPersistenceMode")) state.persistent = *mode != 0;
  if (const auto mode = gpu.ask_both<unsigned>("nvmlDeviceGetMigMode")) state.mig = mode->first != 0;
  if (const auto mode = gpu.ask<int>("nvmlDeviceGetComputeMode")) {
    state.exclusive = *mode == kExclusive || *mode == kExclusiveThread;
    state.prohibited = *mode == kProhibited;
  }
  for (const ProcessInfo& process : gpu.processes())
    state.processes.push_back(
        {process.id, process.bytes == kNotAvailable ? 0 : process.bytes, process_name(process.id)});
  return state;
}

}  // namespace

std::optional<GpuStates> read_gpu_states(const std::vector<std::string>& bus_ids) {
  const Nvml nvml;
  if (!nvml.usable()) return std::nullopt;
  GpuStates states;
  char version[96] = "";
  const auto driver = nvml.function<char*, unsigned>("nvmlSystemGetDriverVersion");
  if (driver != nullptr && driver(version, sizeof version) == 0) states.driver = version;
  for (const std::string& bus_id : bus_ids) {
    DeviceHandle device = nullptr;
    if (nvml.device_by_bus_id(bus_id.c_str(), &device) != 0) return std::nullopt;
    states.gpus.push_back(state_of(nvml, device, bus_id));
  }
  return states;
}

std::optional<std::vector<NvLinks>> read_nvlinks(const std::vector<std::string>& bus_ids) {
  const Nvml nvml;
  if (!nvml.usable()) return std::nullopt;
  std::vector<NvLinks> all;
  for (const std::string& bus_id : bus_ids) {
    DeviceHandle device = nullptr;
    if (nvml.device_by_bus_id(bus_id.c_str(), &device) != 0) return std::nullopt;
    all.push_back(links_of(nvml, device, bus_id));
  }
  return all;
}

}  // namespace banyan::parallel
