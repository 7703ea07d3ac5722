// What the devices of one training run share. Written by the thread that is named at each member, read by
// others only behind a meeting (Rendezvous) or behind an exchange of the tree, which order memory the same
// way.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/parallel/abort.hpp"
#include "banyan/parallel/device_tree.hpp"
#include "banyan/parallel/link_cost.hpp"
#include "banyan/parallel/statistics_exchange.hpp"
#include "banyan/train/kernel_differences.hpp"
#include "banyan/train/progress.hpp"
#include "banyan/train/snapshot_files.hpp"
#include "banyan/train/solver_nets.hpp"
#include "banyan/train/train.hpp"

namespace banyan {

class Replica;

/// What rank 0 wants everybody to do after an iteration.
struct Wishes {
  bool stop = false;
  bool snapshot = false;
};

/// The host's view of one device's results.
struct DeviceBoard {
  std::int64_t share = 0;       ///< samples of one forward pass
  std::vector<double> outputs;  ///< train net outputs of the last displayed pass, one after the other
  std::vector<std::vector<double>>
      test_results;             ///< of the current test net: one entry for each batch served here
  double gradient_squares = 0;  ///< of the buckets owned here
  KernelChoices kernels;        ///< of the first iteration
};

struct Run {
  /// `warn` gets a line for every link that brings data over damaged.
  Run(const TrainOptions& asked, parallel::SpinPolicy policy, std::function<void(const std::string&)> warn)
      : options(asked),
        solver(options.solver),
        spin(policy),
        access(std::move(warn)),
        meeting(static_cast<int>(asked.devices.size()), abort, policy),
        boards(asked.devices.size()) {
    if (options.uplink != nullptr)
      above = options.uplink->place();
    else
      above.devices = device_count();
  }

  const TrainOptions options;
  const SolverSettings& solver;
  parallel::AbortState abort;
  parallel::SpinPolicy spin;
  parallel::LinkAccess access;
  parallel::Rendezvous meeting;  ///< of this process's devices
  parallel::UplinkPlace above;   ///< where they stand among those of all processes
  std::uint64_t seed = 0;
  std::string prefix;  ///< of snapshots
  SolverNet train_net;
  std::vector<SolverNet> test_nets;
  std::optional<SolverSnapshot> resume;

  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Activity>> activities;
  std::optional<parallel::Tree> tree;
  std::vector<parallel::Member> members;
  std::unique_ptr<parallel::StatisticsTrees> statistics_trees;  ///< nullptr for one device
  std::unique_ptr<parallel::DeviceTree> gradient_tree;          ///< made by rank 0 when the buckets are known
  parallel::LinkCost link_cost;  ///< measured before the nets take their memory
  std::size_t chunk_bytes = 0;   ///< of sums of gradients; the same

  std::vector<DeviceBoard> boards;  ///< each device writes its own
  std::array<Wishes, 2>
      wishes;  ///< of iteration i at i % 2, written by rank 0 before it sends anything of iteration i
  std::vector<char> gradients;            ///< the same for snapshot_diff: bytes of the flat buffer
  std::vector<caffe::BlobProto> history;  ///< for a snapshot: made by rank 0, filled by all owners
  std::vector<Replica*> replicas;         ///< for reading losses
  Console* console = nullptr;             ///< rank 0's progress line
  TrainOutcome outcome;                   ///< rank 0
  bool joined() const { return options.uplink != nullptr; }
  /// Of this process. Ranks without further words are among these.
  int device_count() const { return static_cast<int>(options.devices.size()); }
};

}  // namespace banyan
