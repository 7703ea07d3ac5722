// Team and Peers: what the devices of a run share in order to meet, and the other devices as one of them sees
// them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/observe/timeline.hpp"
#include "banyan/parallel/abort.hpp"
#include "banyan/parallel/statistics_exchange.hpp"
#include "banyan/parallel/uplink.hpp"
#include "banyan/train/kernel_differences.hpp"
#include "carried.hpp"
#include "loss_ring.hpp"

namespace banyan {

/// What the first device wants all devices to do after an iteration.
struct Wishes {
  bool stop = false;
  bool snapshot = false;
};

/// Of one device, for early warnings: vitals.hpp.
struct VitalSigns {
  /// For each parameter of the net, the sums of squares of what this device updates: its values, its
  /// gradient, and its gradient times its lr_mult. Empty: not measured.
  struct Squares {
    double values = 0, gradient = 0, scaled_gradient = 0;
  };
  std::vector<Squares> parameters;
  /// For each rectifier the channels that gave anything but 0; empty: it saw no samples.
  std::vector<std::vector<bool>> alive;
};

/// For the metrics of a run, at a display.
struct Measured {
  double seconds = 0, waited = 0;  ///< since the last one; in `waited` of them the host had no batch
  double gradient_squares = 0;     ///< of the buckets owned here
  MemoryUse memory;
  std::optional<std::int64_t> sampled;  ///< the iteration that the spans are of
  std::vector<RecordedSpan> spans;
  VitalSigns vitals;
};

/// The host's view of one device's results. Written by the device's own thread, read by others only after a
/// meeting or after an exchange of the tree, which order memory the same way.
struct DeviceBoard {
  std::int64_t share = 0;       ///< samples of one forward pass
  std::vector<double> outputs;  ///< train net outputs of the last displayed pass, one after the other
  std::vector<std::vector<double>>
      test_results;             ///< of the current test net: one entry for each batch served here
  double gradient_squares = 0;  ///< of the buckets owned here
  Measured measured;
  DeviceKernels kernels;  ///< so far
  CarriedStates carried;  ///< during a snapshot
  LossRing* losses = nullptr;
};

/// One for all devices of this process.
struct Team {
  /// `uplink`: to the other processes; nullptr: there are none.
  Team(int devices, parallel::AbortState& abort, parallel::SpinPolicy policy,
       parallel::Uplink* uplink = nullptr);
  /// Of this process. Ranks are among these unless stated otherwise.
  int devices() const { return static_cast<int>(boards.size()); }
  /// One device in all: nothing to exchange.
  bool alone() const { return devices() == 1 && !joined(); }
  bool joined() const { return uplink != nullptr; }

  parallel::Uplink* const uplink;  ///< to the other processes; nullptr: there are none
  parallel::UplinkPlace place;     ///< of this process's devices among those of all processes
  parallel::Rendezvous meeting;
  std::unique_ptr<parallel::StatisticsTrees> trees;  ///< nullptr for one device in all
  std::vector<DeviceBoard> boards;
  /// Of iteration i at i % 2, written by the first device before it sends anything of iteration i.
  std::array<Wishes, 2> wishes;
};

class Peers {
 public:
  /// On the device's own thread; exchanges run on the stream of `context`.
  Peers(Team& team, int rank, Activity& activity, Context& context);

  int rank_everywhere() const { return team_.place.first_rank() + rank_; }
  /// Of all processes.
  int devices() const { return team_.place.devices(); }
  /// The first device of a process speaks for it: it reads signals, writes to the log and writes files.
  bool first() const { return rank_ == 0; }
  bool alone() const { return team_.alone(); }
  bool joined() const { return team_.joined(); }
  /// Is this process 0, which provides what is the same in all processes?
  bool in_first_process() const { return team_.place.process == 0; }
  /// Does this device use values gathered from the devices of its process? The first one does, or all if the
  /// values are then summed over the processes.
  bool gathers() const { return first() || joined(); }

  Activity& activity() const { return activity_; }
  Context& context() const { return context_; }
  Team& team() const { return team_; }
  DeviceBoard& board() const { return team_.boards[rank_]; }
  const std::vector<DeviceBoard>& boards() const { return team_.boards; }
  /// nullptr for one device in all.
  parallel::StatisticsExchange* exchange() const { return exchange_.get(); }

  /// Waits until all devices of this process have arrived for the same reason. Throws as Rendezvous::meet
  /// does.
  void meet(const char* what, std::int64_t number = 0) const;
  /// Sums the `values` of the first device of every process; their number is the same on all devices. One
  /// process: unchanged.
  std::vector<double> sum_processes(std::vector<double> values, const char* what) const;
  /// Every process's text, in process order, on the first device of each; the others do not call it.
  std::vector<std::string> share(const std::string& mine) const;
  /// Sends the first device's values to all; does nothing for a single device.
  void broadcast(Tensor& values, const char* what) const;

 private:
  Team& team_;
  int rank_;
  Activity& activity_;
  Context& context_;
  std::unique_ptr<parallel::StatisticsExchange> exchange_;
};

}  // namespace banyan
