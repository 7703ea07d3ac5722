// What the devices of one training run share. Written by the thread named at each member, read by others only
// after a meeting (Rendezvous) or after an exchange of the tree, which order memory the same way.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/device/cores.hpp"
#include "banyan/parallel/device_tree.hpp"
#include "banyan/parallel/link_cost.hpp"
#include "banyan/parallel/parameter_server.hpp"
#include "banyan/train/session.hpp"
#include "banyan/train/snapshot_files.hpp"
#include "banyan/train/solver_nets.hpp"
#include "banyan/train/train.hpp"
#include "peers.hpp"
#include "run_metrics.hpp"
#include "snapshots.hpp"

namespace banyan {

struct Run {
  /// `warn` gets a line for every link that damages data.
  Run(const TrainOptions& asked, parallel::SpinPolicy policy, std::function<void(const std::string&)> warn)
      : options(asked),
        solver(options.solver),
        spin(policy),
        access(std::move(warn)),
        team(static_cast<int>(asked.devices.size()), abort, policy,
             asked.parameter_server ? nullptr : asked.uplink) {}
  ~Run() {
    if (worker) worker->release();
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  int process() const { return options.uplink == nullptr ? 0 : options.uplink->place().process; }
  bool is_server() const { return options.parameter_server && process() == 0; }
  /// A server besides the first one, which decides and speaks for all.
  bool is_further_server() const { return options.parameter_server && process() > 0 && !is_worker(); }
  bool is_worker() const {
    return options.parameter_server && process() >= options.parameter_server->servers;
  }
  /// A worker whose differences come from workers below it.
  bool is_inner_server() const { return is_worker() && process() <= options.parameter_server->inner; }

  const TrainOptions options;
  const SolverSettings& solver;
  parallel::AbortState abort;
  parallel::SpinPolicy spin;
  parallel::LinkAccess access;
  std::uint64_t seed = 0;
  SolverNet train_net;
  std::vector<SolverNet> test_nets;
  std::optional<SolverSnapshot> resume;

  std::unique_ptr<DeviceCores> cores;  ///< nullptr for GPUs
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Activity>> activities;
  std::optional<parallel::Tree> tree;
  std::vector<parallel::Member> members;
  Team team;
  std::shared_ptr<parallel::ServerWorker> worker;  ///< above the gradient tree of a worker; made by rank 0
  /// Of a worker's devices, by the number of the pass modulo 2: written by rank 0, read after a meeting.
  std::array<parallel::ServerWorker::Task, 2> tasks;
  std::vector<std::string> names;                       ///< of all processes, with a parameter server
  std::unique_ptr<parallel::DeviceTree> gradient_tree;  ///< made by rank 0 when the buckets are known
  std::optional<parallel::LinkMatrix> link_classes;
  parallel::MeasuredLinks links;  ///< measured before the nets take their memory
  std::size_t chunk_bytes = 0;    ///< of sums of gradients; the same

  SnapshotPlan snapshots;
  TrainOutcome outcome;           ///< rank 0
  std::vector<TestResult> tests;  ///< rank 0: of the last test pass
  int interval = 0;               ///< iterations from one display, or one report of metrics, to the next
  std::unique_ptr<RunMetrics> metrics;  ///< nullptr: there are none; the devices outlive it
};

/// Checks the options, makes devices and tree, reads nets and what is resumed. Throws bad_input.
std::unique_ptr<Run> make_run(const TrainOptions& options);
/// Reads the snapshot to resume from, and logs what keeps the run from being bit-identical.
void read_resume(Run& run, const std::string& state_path);

}  // namespace banyan
