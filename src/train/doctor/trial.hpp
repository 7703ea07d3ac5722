// A few iterations of a run, with a test and a snapshot, to see how long the whole will take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/observe/overlap.hpp"
#include "banyan/train/train.hpp"
#include "diagnosis.hpp"

namespace banyan::doctor {

struct Trial {
  std::int64_t start = 0;  ///< iteration at which the run begins
  int iterations = 0;      ///< timed
  double iteration = 0;    ///< seconds
  double test = 0;         ///< seconds of all test nets with their whole test_iter; 0: there are none
  double snapshot = 0;     ///< seconds; 0: none was taken
  std::uint64_t snapshot_bytes = 0;
  std::int64_t samples = 0;       ///< of all devices in an iteration
  double loss = 0;                ///< of the last iteration
  IterationShares shares;         ///< milliseconds, mean over iterations and devices
  std::vector<MemoryUse> memory;  ///< of each device
  std::uint64_t host_bytes = 0;   ///< that the process grew by
};

struct TrialOptions {
  TrainOptions run;    ///< with solver and devices
  int iterations = 0;  ///< to time; 0: as many as fit into some seconds
  std::string folder;  ///< where the snapshot goes; nothing of it is left
};
/// Throws what a run would throw.
Trial run_trial(const TrialOptions& options);

/// Tests and snapshots of a run from `start` to its end.
std::int64_t tests_of(const SolverSettings& solver, std::int64_t start);
std::int64_t snapshots_of(const SolverSettings& solver, std::int64_t start);

/// `free`: bytes where the snapshots go.
void judge_trial(const Trial& trial, const SolverSettings& solver, int devices, std::uint64_t free,
                 const std::string& folder, Findings& findings);

}  // namespace banyan::doctor
