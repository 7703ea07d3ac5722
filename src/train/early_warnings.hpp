// EarlyWarnings: what looks wrong with a training run, from the figures that it measures anyway: each once,
// with what to do about it. Pure: Vitals and Meter measure, RunMetrics has each warning logged and recorded.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "banyan/metrics/record.hpp"
#include "losses.hpp"
#include "peers.hpp"

namespace banyan {

struct EarlyWarning {
  std::string cause;  ///< of one cause there is one warning
  std::string text, advice;
  bool operator==(const EarlyWarning&) const = default;
};

/// What to do where values grow too large.
inline constexpr const char* kGentler = "a smaller base_lr, a warm-up (warmup_iter), or clip_gradients";

/// After `is not finite; `: of how many layers the parameters are not finite either, and the last of them.
std::string nor_parameters_of(std::size_t damaged, std::size_t layers, const std::string& last);

/// What is known of a run before its first iteration.
struct WarningFacts {
  struct Source {
    std::string net, layer;                ///< net: as in snapshots: train, test0...
    std::uint64_t records = 0, batch = 0;  ///< batch: of all devices, or of a test
    int test_iter = 0;
    int threads = 1;             ///< that prepare batches, on each device
    bool takes_threads = false;  ///< the layer has a setting for them
  };
  /// A layer that normalizes with the statistics of its batch.
  struct Normalization {
    std::string layer;
    std::int64_t samples = 0;  ///< that its statistics are of
    std::int64_t of_all = 0;   ///< if it were synchronized over all devices
  };
  struct Parameter {
    std::string layer;
    bool learns = false;
    bool is_matrix = false;  ///< weights, not a bias or a scale
  };
  std::vector<Source> sources;
  std::vector<Normalization> normalizations;
  std::vector<Parameter> parameters;    ///< of the train net, in its order
  std::vector<std::string> rectifiers;  ///< layers, in the order of VitalSigns::alive
  int cores = 0;                        ///< of the process
  int iter_size = 1;
  bool steps_by_gradient = false;   ///< SGD or Nesterov, with one rate for all
  std::optional<double> clip_norm;  ///< as in the solver
  std::int64_t samples = 0;         ///< of an iteration, on all devices
  double base_lr = 0;
  std::optional<int> stated_batch_size;  ///< that base_lr was chosen for, without lr_scaling
  bool scales_rate = false;              ///< lr_scaling
  std::optional<double> samples_before;  ///< of an iteration before the snapshot that is resumed
};

/// What is seen of the iterations from one display to the next.
struct Observed {
  std::int64_t iteration = 0;
  double rate = 0;
  LossInterval losses;
  VitalSigns vitals;  ///< of all devices
};
/// Adds a device's.
void merge(const VitalSigns& of_device, VitalSigns& into);

/// A test of `test_iter` batches on that many records; nothing if each counts once.
std::optional<EarlyWarning> test_coverage(std::uint64_t records, std::uint64_t batch, int test_iter);

class EarlyWarnings {
 public:
  explicit EarlyWarnings(WarningFacts facts);

  /// Before the first iteration.
  std::vector<EarlyWarning> at_start();
  /// At a display, of which `train` is the record. On one thread.
  std::vector<EarlyWarning> look(const Observed& observed, const metrics::Train& train);
  /// The next iteration does not follow the last one.
  void restart();
  /// True once for each cause. On any thread.
  bool is_new(const std::string& cause);
  /// Of values that are not finite.
  static constexpr const char* kNotFinite = "not finite";

 private:
  using Found = std::vector<EarlyWarning>;
  struct LayerState {
    std::string name;
    bool has_matrix = false;
    double last_values = -1;      ///< sum of squares
    double largest_gradient = 0;  ///< norm
    std::int64_t moved_at = -1;   ///< iteration of the last check in which its weights had changed
    int unreached = 0, unmoved = 0, vanished = 0;  ///< checks in a row
  };
  struct Mean {
    double value = 0, error = 0;  ///< error: of the mean
    std::int64_t last = 0;        ///< iteration
  };
  void judge_sources(Found& found) const;
  void judge_normalizations(Found& found) const;
  void judge_batch(Found& found) const;
  void judge_finite(const Observed& observed, const metrics::Train& train, Found& found) const;
  void judge_losses(const Observed& observed, Found& found);
  void judge_layers(const Observed& observed, const metrics::Train& train, Found& found);
  void judge_rectifiers(const Observed& observed, Found& found);
  void judge_balance(const metrics::Train& train, Found& found);
  void judge_input(const metrics::Train& train, Found& found);
  Found only_new(Found found);

  const WarningFacts facts_;
  std::vector<LayerState> layers_;
  std::vector<int> layer_of_;           ///< each parameter's; -1: it does not learn
  std::vector<std::vector<int>> dead_;  ///< for each rectifier's channels, the checks in a row without life
  int checks_ = 0;
  double largest_rate_ = 0;
  LossInterval pending_;
  std::optional<Mean> first_mean_;
  std::optional<double> best_mean_;
  std::vector<Mean> rising_;                   ///< the last means, each greater than the one before
  std::deque<std::vector<double>> own_times_;  ///< of the devices
  int displays_ = 0, starved_ = 0;
  double starved_sum_ = 0;
  std::mutex mutex_;
  std::set<std::string> said_;  ///< under the mutex
};

}  // namespace banyan
