// RunMetrics: what a run tells about itself. The devices measure (Meter); the first one of them speaks for
// the run here, and a thread of its own makes records of that and writes them (docs/metrics.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "banyan/metrics/writer.hpp"
#include "banyan/observe/overlap.hpp"
#include "banyan/observe/sampling.hpp"
#include "banyan/train/train.hpp"
#include "early_warnings.hpp"
#include "parameter_meter.hpp"

namespace banyan {

class WarningCatcher;

class RunMetrics {
 public:
  /// Where `display` is 0, iterations from one train record to the next.
  static constexpr int kInterval = 100;

  /// Is anything told or watched at all?
  static bool wanted(const TrainOptions& options);
  /// Is it told to files or other sinks?
  static bool told(const TrainOptions& options);
  /// Opens the files. Throws bad_input if that is impossible, naming --metrics. `iteration`: the first one.
  RunMetrics(const TrainOptions& options, const std::vector<Activity*>& activities, std::int64_t iteration);
  /// Writes the end. The devices still exist, but nothing runs on them.
  ~RunMetrics();
  RunMetrics(const RunMetrics&) = delete;
  RunMetrics& operator=(const RunMetrics&) = delete;

  const MetricsSettings& settings() const { return settings_; }
  const std::string& device_name(std::size_t rank) const { return device_names_[rank]; }
  SpanSampler& sampler(int rank) { return *samplers_[static_cast<std::size_t>(rank)]; }

  // By the first device.
  /// Everything is set up.
  void start(metrics::Start description, std::vector<ParameterName> names);
  /// The run goes on from another snapshot.
  void restart(std::int64_t iteration, const std::string& snapshot);
  /// So many iterations are done.
  void at(std::int64_t iteration) { iteration_.store(iteration, std::memory_order_relaxed); }
  /// `sampled`: the iteration that the spans are of; without it there are none.
  /// `observed`: for early warnings.
  void train(std::int64_t iteration, metrics::Train record, std::optional<std::int64_t> sampled,
             SpansOfDevices spans, std::optional<Observed> observed);
  void test(std::int64_t iteration, metrics::Test record) { write(iteration, std::move(record)); }
  void snapshot(std::int64_t iteration, metrics::Snapshot record) { write(iteration, std::move(record)); }
  /// Before a snapshot: a run that is resumed from it finds all that was told before it, even if this one is
  /// killed. A disk that hardly answers holds training up for a second at most.
  void catch_up();
  void pictures(std::int64_t iteration, std::function<metrics::Pictures()> make);
  /// Is it told to files or other sinks? If not, only what warnings need is measured.
  bool tells() const { return tells_; }
  /// Are there early warnings?
  bool watches() const { return watches_; }
  /// Before start(): from here on there are early warnings, those of the facts at once.
  void watch(WarningFacts facts);
  /// Gives an early warning, unless there was one of the same cause. On any thread, after watch() began on
  /// the first device's.
  void warn_of(const EarlyWarning& warning);
  /// Logs a warning, with what to do about it. On any thread.
  void warn(const std::string& text, const std::string& advice);

  /// By each device: its part of the parameters after an iteration; nullptr: it had no time for it. On any
  /// thread.
  void parameters(std::int64_t iteration, std::shared_ptr<const ParameterSample> part);

  /// The run ends with an error.
  void failed(const std::string& error);

 private:
  friend class WarningCatcher;
  class LayerTimes;
  void open(std::int64_t iteration, metrics::Existing existing);
  void write(std::int64_t iteration, decltype(metrics::Record::what) what);
  void later(metrics::Writer::Maker maker);
  void end();
  double seconds() const;

  const MetricsSettings settings_;
  const MetricsOptions options_;
  const int max_iter_;
  const bool tells_, watches_;
  const int cores_;  ///< of the process; the devices' threads may be bound to some of them
  std::vector<std::string> device_names_;
  std::vector<std::unique_ptr<SpanSampler>> samplers_;  ///< before the writer, whose records name their spans
  std::shared_ptr<LayerTimes> layer_times_;             ///< of the writer's thread
  std::shared_ptr<EarlyWarnings> judge_;                ///< looks on the writer's thread; null: none
  std::atomic<std::int64_t> iteration_;
  std::int64_t began_ = 0;  ///< nanoseconds
  metrics::Start description_;
  std::shared_ptr<const std::vector<ParameterName>> parameter_names_;
  std::string error_;
  std::mutex mutex_;
  // Under the mutex:
  bool started_ = false;
  std::vector<metrics::Record> early_;  ///< before the start
  struct Parts {
    std::size_t arrived = 0;
    std::vector<std::shared_ptr<const ParameterSample>> samples;
  };
  std::map<std::int64_t, Parts> parts_;  ///< by iteration
  int left_out_ = 0;                     ///< of these, because earlier ones were not written yet
  std::unique_ptr<metrics::Writer> writer_;
  std::unique_ptr<WarningCatcher> warnings_;
};

}  // namespace banyan
