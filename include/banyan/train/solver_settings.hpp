// A solver's settings as the program uses them: typed, with every default filled in. Made from the file's
// SolverParameter by solver_settings(), which refuses what Caffe refuses, unsupported settings of its forks,
// and what can only be a mistake; users of the settings need not check them again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/io/prototxt.hpp"
#include "banyan/ops/update.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

enum class LearningRatePolicy : std::uint8_t {
  fixed,
  step,
  exp,
  inv,
  multistep,
  poly,
  sigmoid,
  cosine,
  exp10,
  plateau,
  multifixed,
  triangular,
  triangular2,
};
/// As written in a solver's lr_policy.
const char* name_of(LearningRatePolicy policy);

/// What the formulas in learning_rate.hpp need. Windows, steps and ends count iterations.
struct LearningRateSettings {
  LearningRatePolicy policy = LearningRatePolicy::fixed;
  double base_lr = 0, min_lr = 0, max_lr = 0;
  double gamma = 0, power = 0;
  int stepsize = 0;                  ///< iterations
  int first_cycle = 0;               ///< the iteration at which triangular begins
  std::vector<int> stepvalues;       ///< of multistep
  std::vector<int> plateau_windows;  ///< of plateau
  std::vector<double> stage_rates;   ///< of multifixed
  std::vector<int> stage_ends;       ///< as many
  int warmup_iter = 0;               ///< linear, from warmup_start_lr; 0: none
  double warmup_start_lr = 0;
  int rampup_interval = 0;  ///< quadratic, from rampup_lr; 0: none
  double rampup_lr = 0;
  std::optional<int> base_batch_size;    ///< lr_scaling: LINEAR: samples per update that base_lr is meant for
  std::optional<int> stated_batch_size;  ///< the same without lr_scaling: nothing follows from it
};

enum class MomentumPolicy : std::uint8_t { fixed, poly, opt };

/// Rates by the norms of each parameter and its gradient (ops::LayerWiseRate).
enum class LayerWise : std::uint8_t {
  none,
  larc_scale,  ///< NVIDIA: larc, larc_policy "scale"
  larc_clip,   ///< larc_policy "clip"
  intel,       ///< local_lr_auto
};

struct UpdateSettings {
  ops::UpdateRule rule = ops::UpdateRule::sgd;
  double momentum = 0, momentum2 = 0, rms_decay = 0, delta = 0;
  MomentumPolicy momentum_policy = MomentumPolicy::fixed;  ///< others: with sgd, nesterov and sag only
  double momentum_power = 1;
  std::optional<double> max_momentum;  ///< poly: always there
  double weight_decay = 0;
  bool weight_decay_grows = false;  ///< from weight_decay to max_weight_decay
  double weight_decay_power = 1, max_weight_decay = 0;
  bool l1 = false;         ///< regularization by L1 instead of L2
  bool decoupled = false;  ///< no part of the gradient, so apart from the history (SGD, SAG)
  double breadth_decay = 0, kernel_shape_decay = 0, block_group_decay = 0;  ///< of groups of weights (SSL)
  LayerWise layer_wise = LayerWise::none;
  double layer_wise_eta = 0;
  bool larc_turbo = false;  ///< with larc_scale and larc_clip
  bool disabled = false;    ///< parameters and history stay as they are (Intel)
  /// Are the norms of whole parameters needed, whatever the parameters?
  bool needs_norms() const { return layer_wise != LayerWise::none || rule == ops::UpdateRule::lamb; }
};
/// As written in a solver's `type`: SGD, Nesterov...
const char* name_of(ops::UpdateRule rule);
/// History blobs per parameter: 2 for Adam, AdamW, LAMB and AdaDelta, else 1.
int histories_of(ops::UpdateRule rule);

/// ap_version: the area under the curve of precision over recall, the mean of its best at eleven recalls (VOC
/// 2007) or at 101 (COCO), or the area under the best (VOC 2010).
enum class AveragePrecision : std::uint8_t { integral, eleven_points, hundred_one_points, max_integral };

struct TestSettings {
  std::vector<int> batches;    ///< test_iter of each test net; there are as many test nets
  int interval = 0;            ///< iterations; 0: never
  bool initialization = true;  ///< also before the first iteration
  bool compute_loss = false;   ///< show the mean loss
  AveragePrecision precision = AveragePrecision::integral;  ///< of detections
  bool per_class = false;                                   ///< show that of each class
};

/// snapshot_format
enum class SnapshotFormat : std::uint8_t { binary, hdf5 };

struct SnapshotSettings {
  int interval = 0;           ///< iterations; 0: only at the end
  bool before_train = false;  ///< also before the first iteration
  bool after_train = true;
  bool diff = false;  ///< with the gradients
  SnapshotFormat format = SnapshotFormat::binary;
  std::optional<std::string> prefix;
};

/// Where a solver wants to run.
struct SolverDevices {
  bool gpu = false;       ///< solver_mode: GPU, where it is written
  std::vector<int> gpus;  ///< device_id; empty: the first one
};

/// What a run writes about itself (docs/metrics.md).
struct MetricsSettings {
  std::string folder;              ///< empty: nothing is written
  int histograms = 0, images = 0;  ///< iterations; 0: never
};

struct SolverSettings {
  int max_iter = 0;
  int iter_size = 1;     ///< forward and backward passes of an iteration
  int average_loss = 1;  ///< losses in the mean that is shown
  int display = 0;       ///< iterations; 0: never
  bool debug_info = false;
  std::optional<std::uint64_t> random_seed;
  LearningRateSettings rate;
  UpdateSettings update;
  std::optional<double> clip_norm;  ///< of the summed gradients
  TestSettings test;
  SnapshotSettings snapshot;
  MetricsSettings metrics;
  SolverDevices devices;
  std::vector<std::string> weights;    ///< to start from; an entry may be a comma-separated list
  bool ignore_shape_mismatch = false;  ///< of these, and of the flag's
  caffe::SolverParameter nets;  ///< only what names nets, their states and sparse_mode (solver_nets.hpp)
  io::UnknownFields unknown_fields = io::UnknownFields::refuse;  ///< of the nets' files
  std::uint32_t checksum = 0;  ///< of what must be the same in all processes of a run
  std::string text;            ///< what was read, upgraded, in text form; without nets written into it
};

/// Is something that is due every `interval` iterations (0: never) due at `iteration`?
inline bool is_turn(std::int64_t iteration, int interval) {
  return interval > 0 && iteration % interval == 0;
}

/// Needs an upgraded solver (type instead of solver_type). Throws bad_input that begins with `origin`, the
/// solver's file. A setting that another program honours and that cannot change the result is accepted
/// silently; one that probably does not do what was meant is logged as a warning.
SolverSettings solver_settings(const caffe::SolverParameter& solver, const std::string& origin);

/// Without the test nets whose test_iter is 0: they are never tested, and need not exist.
caffe::SolverParameter without_idle_tests(caffe::SolverParameter solver);

/// Everything that solver_settings() would refuse, not the first thing only.
std::vector<std::string> find_solver_problems(const caffe::SolverParameter& solver,
                                              const std::string& origin);

/// Reads and upgrades a solver file. With `max_iter`, as if that were written in it.
SolverSettings load_solver(const std::string& path, io::UnknownFields unknown = io::UnknownFields::refuse,
                           std::optional<int> max_iter = std::nullopt);

/// Level and stages of the command line; of a solver's nets they belong to the train net only, as in Caffe.
/// Without a level the state's own stays (Caffe overwrites it with 0).
void add_to_state(caffe::NetState& state, std::optional<int> level, const std::vector<std::string>& stages);

}  // namespace banyan
