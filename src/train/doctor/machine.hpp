// The machine as the system describes it: cores, memory, limits of the process and of its control group.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "diagnosis.hpp"

namespace banyan::doctor {

/// Bytes and counts. A limit without a value is none.
struct MachineState {
  std::string processor;
  int cores = 0;                     ///< of the machine that are online
  std::optional<double> core_quota;  ///< processor time per time that the control group gets
  double load = 0;                   ///< processes that want to run, mean of a minute
  std::uint64_t memory = 0, available = 0, swap = 0, swap_free = 0;
  std::optional<std::uint64_t> memory_limit;  ///< of the control group
  std::uint64_t group_memory = 0;             ///< used by it, if there is a limit; without the page cache
  std::optional<std::uint64_t> threads_limit;
  std::uint64_t threads = 0;  ///< that count against that limit
  std::optional<std::uint64_t> files, address_space, file_size, locked, cpu_seconds;  ///< of the process
  bool overcommit = true;  ///< memory may be reserved that is not there

  /// What a new process can use without pushing others out.
  std::uint64_t usable_memory() const;
};

/// From /proc and /sys below `root` (tests have machines of their own there).
MachineState read_machine(const std::string& root = "");

/// What a run needs of the machine.
struct MachineNeeds {
  int cores = 1;    ///< that the process may use
  int threads = 1;  ///< that it will start
  bool gpus = false;
};

void judge_machine(const MachineState& machine, const MachineNeeds& needs, Findings& findings);

}  // namespace banyan::doctor
