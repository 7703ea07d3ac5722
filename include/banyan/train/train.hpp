// Training as `trainer train` runs it: options, requests from outside, outcome.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/device/cores.hpp"
#include "banyan/device/device.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/metrics/sink.hpp"
#include "banyan/observe/console.hpp"
#include "banyan/observe/run_board.hpp"
#include "banyan/observe/timeline.hpp"
#include "banyan/parallel/difference_coding.hpp"
#include "banyan/parallel/link_cost.hpp"
#include "banyan/tensor/dtype.hpp"
#include "banyan/train/run_precision.hpp"
#include "banyan/train/solver_settings.hpp"

namespace banyan {

namespace data {
class SharedBatches;
}
namespace parallel {
class Uplink;
class WireUplink;
}  // namespace parallel

/// One replica's place. The same GPU may occur more than once; CPU devices are virtual and numbered from 0.
struct DeviceChoice {
  DeviceKind kind = DeviceKind::cpu;
  int ordinal = 0;
  bool operator==(const DeviceChoice&) const = default;
};

/// Requests from outside (signal handlers), polled by rank 0 before each iteration. It resets `snapshot`
/// then.
struct SignalFlags {
  std::atomic<bool> stop{false};
  std::atomic<bool> snapshot{false};
};

/// What a run's metrics need besides MetricsSettings.
struct MetricsOptions {
  metrics::Existing existing = metrics::Existing::refuse;  ///< what the folder may hold
  std::vector<std::string> command_line;                   ///< to be shown
  std::vector<std::shared_ptr<metrics::Sink>> sinks;       ///< besides the folder's files
};

/// Process 0 serves: it holds parameters and the solver's state, tests and takes snapshots. With further
/// servers, the processes after it, each updates its pieces of the parameters. The others compute differences
/// (parallel/parameter_server.hpp).
struct ParameterServerOptions {
  parallel::WireUplink* uplink = nullptr;  ///< the same as TrainOptions::uplink
  int servers = 1;
  int inner = 0;  ///< servers of a tree, between process 0 and the workers; excludes further servers
  double wait_seconds =
      std::numeric_limits<double>::infinity();  ///< for the rest, from the first difference on
  int staleness = 0;          ///< a difference may be so many versions of the parameters old
  double silent_seconds = 5;  ///< a worker that is not heard of for so long is not waited for
  int spares = 0;  ///< the last processes: each waits until it gets the place of a worker that is taken out
  parallel::Compression compression;  ///< of differences
};

struct TrainOptions {
  SolverSettings solver;    ///< level and stages of the command line are already in its nets
  std::string solver_path;  ///< for messages and for the default snapshot prefix
  std::vector<DeviceChoice> devices;
  std::string snapshot;  ///< .solverstate to resume from; empty: none ("latest" is already resolved)
  std::vector<std::string> weights;  ///< .caffemodel files, later ones overwrite; empty on resume
  SyncBatchNorm sync_bn = SyncBatchNorm::as_written;
  RunPrecision precision = RunPrecision::f32;
  int threads_per_device = 0;      ///< 0: an equal share of the processor's cores
  double watchdog_seconds = 0;     ///< a device silent this long while others wait is named; 0: no watchdog
  double grace_seconds = 1.5;      ///< what a device has to stop after a failure; then the process ends
  bool keep_blobs = false;         ///< blobs share no memory (Session::blob)
  bool check_nan = false;          ///< the first iteration with a loss that is not finite ends the run
  Console* console = nullptr;      ///< shows the progress line; outlives the call; nullptr: none
  SignalFlags* signals = nullptr;  ///< outlives the call; nullptr: none
  CpuDeviceOptions
      cpu;  ///< of every CPU device; threads and cores are chosen by threads_per_device and pinning
  Pinning pinning = Pinning::automatic;
  std::size_t memory_limit = 0;  ///< bytes that each device may use; 0: no limit
  std::string tree = "auto";     ///< auto, pairs, chain, star or a file (parallel::choose_tree)
  /// Of the tree's edges, instead of what they are measured to be: chunks are then the same in every run.
  std::optional<parallel::LinkCost> link_cost;
  /// Joins this process to others that train the same net on their own devices; outlives the call. The solver
  /// must then set random_seed. Process 0 writes the snapshots. nullptr: there are no others.
  parallel::Uplink* uplink = nullptr;
  /// With an uplink: only process 0 reads the data sets (share_batches). nullptr: every process does.
  std::shared_ptr<data::SharedBatches> shared_batches;
  /// Of the processes joined by `uplink`; nothing: all train together. A server has one device.
  std::optional<ParameterServerOptions> parameter_server;
  std::shared_ptr<Timeline> timeline;  ///< what ran when is recorded here; nullptr: nowhere
  std::shared_ptr<RunBoard> board;     ///< what goes on right now is shown here; nullptr: nowhere
  MetricsOptions metrics;
  bool warnings = false;  ///< what looks wrong with the training is logged (docs/guide.md, "Early warnings")
  /// The process does nothing else: train() drops the pages that only starting needed from its memory.
  bool is_the_program = false;
};

/// Does a run need all gradients of its parameters at the same time, or look at them after the updates? If
/// not, its device updates each parameter during the backward pass, and the gradient has no memory
/// afterwards.
bool keeps_gradients(const TrainOptions& options);

/// Where the run starts: "latest" becomes the state that it names (none: empty), and a run that resumes from
/// none and has no weights takes those of the solver.
void resolve_start(TrainOptions& options);

struct TrainOutcome {
  bool stopped_early = false;
  std::int64_t samples_per_iteration = 0;  ///< of all devices
};
/// Trains to max_iter or until asked to stop. Failures are thrown.
TrainOutcome run_training(const TrainOptions& options);
/// run_training with Caffe's last log lines. Returns the exit code: 0 when done or stopped early on request.
int train(const TrainOptions& options);

}  // namespace banyan
