// Snapshots: saving and restoring a run. Owners contribute their pieces of the optimizer's state; the first
// device writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/net/net.hpp"
#include "banyan/train/learning_rate.hpp"
#include "banyan/train/snapshot_files.hpp"
#include "banyan/train/updater.hpp"
#include "losses.hpp"
#include "peers.hpp"
#include "sources.hpp"

namespace banyan {

/// What the devices of a process share for snapshots.
struct SnapshotPlan {
  bool diff = false;  ///< with the gradients
  SnapshotFormat format = SnapshotFormat::binary;
  std::string prefix;      ///< of the files
  caffe::BanyanState run;  ///< what states record of the run itself: devices, seed, precision...
  std::vector<caffe::BlobProto>
      history;                  ///< during a snapshot: made by the first device, filled by all owners
  std::vector<double> cosines;  ///< the same for larc_turbo, of each parameter; empty: without it
  std::vector<char> gradients;  ///< the same for snapshot_diff: bytes of the flat buffer; empty: not wanted
};

/// Whose state makes up a snapshot, on one device.
struct SnapshotParts {
  Net& net;
  Updater& updater;
  LearningRate& rate;
  Losses& losses;
  Sources& sources;
};

class Snapshots {
 public:
  /// `lane`: the context of updates.
  Snapshots(SnapshotPlan& plan, Peers& peers, Context& lane, const SnapshotParts& parts);
  /// Writes a snapshot after `iterations` iterations; the losses are gathered. All devices meet. The first
  /// one of the first process returns the paths.
  std::optional<SnapshotPaths> save(std::int64_t iterations);
  /// Restores what the device needs from a snapshot; parameters on the first device only. Returns the
  /// iterations done.
  std::int64_t restore(const SolverSnapshot& saved);

 private:
  caffe::SolverState describe_state() const;
  void compare_parameters() const;
  std::optional<SnapshotPaths> save_here(std::int64_t iterations);
  void send_carried(std::int64_t iterations);
  caffe::BanyanState gather_carried();
  void take_summed_gradients();
  SnapshotPaths write(std::int64_t iterations);

  SnapshotPlan& plan_;
  Peers& peers_;
  Context& lane_;
  SnapshotParts parts_;
  bool carries_ = false;  ///< layers hand something to the next pass
};

}  // namespace banyan
