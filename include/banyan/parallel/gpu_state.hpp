// The state of GPUs beyond what CUDA tells a program: their health, limits and other users, from NVML.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace banyan::parallel {

struct GpuProcess {
  unsigned id = 0;
  std::uint64_t bytes = 0;  ///< 0 if the driver does not tell
  std::string name;
};

/// What slows the clocks down now.
enum class ClockLimit : std::uint8_t {
  setting,  ///< clocks set by somebody
  power,    ///< the power limit
  heat,
  hardware,  ///< the board's power supply or its own protection
};

/// A member without a value: the GPU or its driver does not tell.
struct GpuState {
  std::string bus_id, name;
  std::optional<std::uint64_t> memory, memory_used;  ///< bytes
  std::optional<bool> ecc, ecc_after_restart;
  std::optional<std::uint64_t> uncorrected_errors;  ///< of memory, since the driver was loaded
  std::optional<bool> row_repair_failed, row_repair_pending;
  std::optional<unsigned> clock, most_clock;                ///< of the multiprocessors, MHz
  std::optional<unsigned> memory_clock, most_memory_clock;  ///< MHz
  std::vector<ClockLimit> clock_limits;
  std::optional<double> power_limit, usual_power_limit;       ///< watts
  std::optional<unsigned> temperature, slowdown_temperature;  ///< degrees Celsius
  std::optional<unsigned> lanes, most_lanes;                  ///< of PCIe
  std::optional<bool> persistent, mig;
  std::optional<bool> exclusive, prohibited;  ///< compute mode: one process only, none
  std::vector<GpuProcess> processes;          ///< that compute on it, this one included
};

struct GpuStates {
  std::string driver;  ///< its version
  std::vector<GpuState> gpus;
};
/// Of the GPUs with these bus ids (as sysfs_bus_id), in this order; nothing without NVML, or if it does not
/// know one of them.
std::optional<GpuStates> read_gpu_states(const std::vector<std::string>& bus_ids);

}  // namespace banyan::parallel
