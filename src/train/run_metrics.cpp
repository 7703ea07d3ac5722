#include "run_metrics.hpp"

#include <glog/logging.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/metrics/event_files.hpp"
#include "banyan/metrics/json_lines.hpp"

namespace banyan {
namespace {

/// Seconds that a failed run may take to write what is left.
constexpr double kPatienceAfterFailure = 1;

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The warning that this thread is logging comes with a record of its own.
thread_local bool has_own_record = false;

/// A warning that has a record of its own.
void log(const std::string& text, const std::string& advice) {
  has_own_record = true;
  LOG(WARNING) << text << (advice.empty() ? "" : "; ") << advice;
  has_own_record = false;
}

/// Enough that what follows will not fail at once.
void check_room(const std::string& folder) {
  constexpr std::size_t kRoom = 64 << 10;
  const std::string path = (std::filesystem::path(folder) / cat(".banyan_probe.", ::getpid())).string();
  try {
    io::AppendFile probe(path);
    probe.append(std::string(kRoom, ' '));
    probe.sync();
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    throw;
  }
  std::filesystem::remove(path);
}

std::vector<std::shared_ptr<metrics::Sink>> sinks_of(const std::string& folder, std::int64_t iteration,
                                                     metrics::Existing existing) {
  std::filesystem::create_directories(folder);
  check_room(folder);
  // First the one that is locked while a run writes it.
  const auto path = (std::filesystem::path(folder) / "metrics.jsonl").string();
  auto lines = std::make_shared<metrics::JsonLines>(path, iteration, existing);
  return {std::move(lines), std::make_shared<metrics::EventFiles>(folder, iteration, existing)};
}

}  // namespace

/// Every warning of the log is a record too.
class WarningCatcher : public google::LogSink {
 public:
  explicit WarningCatcher(RunMetrics& metrics) : metrics_(metrics) { google::AddLogSink(this); }
  ~WarningCatcher() override { google::RemoveLogSink(this); }
  void send(google::LogSeverity severity, const char*, const char*, int, const google::LogMessageTime&,
            const char* text, std::size_t length) override {
    if (severity >= google::GLOG_WARNING && !has_own_record)
      metrics_.write(metrics_.iteration_, metrics::Warning{std::string(text, length), ""});
  }

 private:
  RunMetrics& metrics_;
};

/// Means over the sampled iterations. Records of them come at the beginning, and then when the run has become
/// longer by some part, so that a long one does not fill its files with them.
class RunMetrics::LayerTimes {
 public:
  void add(const SpansOfDevices& devices, std::int64_t iteration) {
    for (const std::vector<RecordedSpan>& spans : devices)
      for (const LayerTime& layer : measure_layers(spans, iteration)) {
        auto found = std::find_if(sums_.begin(), sums_.end(),
                                  [&](const metrics::Layers::Time& sum) { return sum.name == layer.layer; });
        if (found == sums_.end()) found = sums_.insert(sums_.end(), metrics::Layers::Time{layer.layer});
        found->forward += layer.forward / static_cast<double>(devices.size());
        found->backward += layer.backward / static_cast<double>(devices.size());
      }
    ++sampled_;
  }
  bool due(double seconds) const { return sampled_ > 0 && seconds >= next_; }
  /// Empty if nothing was sampled.
  metrics::Layers take(double seconds) {
    constexpr double kLeast = 10, kPart = 0.1;
    next_ = seconds + std::max(kLeast, kPart * seconds);
    metrics::Layers means{std::exchange(sampled_, 0), std::move(sums_)};
    for (metrics::Layers::Time& layer : means.layers) {
      layer.forward /= means.sampled;
      layer.backward /= means.sampled;
    }
    sums_.clear();
    return means;
  }

 private:
  int sampled_ = 0;
  double next_ = 0;
  std::vector<metrics::Layers::Time> sums_;
};

bool RunMetrics::wanted(const TrainOptions& options) { return told(options) || options.warnings; }

bool RunMetrics::told(const TrainOptions& options) {
  return !options.solver.metrics.folder.empty() || !options.metrics.sinks.empty();
}

RunMetrics::RunMetrics(const TrainOptions& options, const std::vector<Activity*>& activities,
                       std::int64_t iteration)
    : settings_(options.solver.metrics),
      options_(options.metrics),
      max_iter_(options.solver.max_iter),
      tells_(told(options)),
      watches_(options.warnings),
      cores_(static_cast<int>(allowed_cores().size())),
      layer_times_(std::make_shared<LayerTimes>()),
      iteration_(iteration) {
  for (Activity* activity : activities) {
    samplers_.push_back(std::make_unique<SpanSampler>(*activity));
    device_names_.push_back(activity->device());
  }
  try {
    open(iteration, options.snapshot.empty() ? options_.existing : metrics::Existing::resume);
  } catch (const Error& error) {
    bad_input("--metrics=", settings_.folder, ": ", error.message());
  } catch (const std::filesystem::filesystem_error& error) {
    bad_input("--metrics=", settings_.folder, ": ", error.code().message());
  }
  warnings_ = std::make_unique<WarningCatcher>(*this);
  LOG_IF(INFO, !settings_.folder.empty()) << "Metrics go to " << settings_.folder;
}

RunMetrics::~RunMetrics() {
  warnings_.reset();
  end();
}

void RunMetrics::open(std::int64_t iteration, metrics::Existing existing) {
  std::vector<std::shared_ptr<metrics::Sink>> sinks = options_.sinks;
  if (!settings_.folder.empty())
    for (auto& sink : sinks_of(settings_.folder, iteration, existing)) sinks.push_back(std::move(sink));
  writer_ = std::make_unique<metrics::Writer>(std::move(sinks));
  iteration_ = iteration;
  began_ = steady_nanoseconds();
}

double RunMetrics::seconds() const { return static_cast<double>(steady_nanoseconds() - began_) / 1e9; }

void RunMetrics::start(metrics::Start description, std::vector<ParameterName> names) {
  description.host_cores = cores_;
  description_ = description;
  parameter_names_ = std::make_shared<const std::vector<ParameterName>>(std::move(names));
  began_ = steady_nanoseconds();
  const std::lock_guard<std::mutex> lock(mutex_);
  writer_->write(metrics::Record{iteration_, wall_time(), std::move(description)});
  started_ = true;
  for (metrics::Record& record : early_) writer_->write(std::move(record));
  early_.clear();
}

void RunMetrics::write(std::int64_t iteration, decltype(metrics::Record::what) what) {
  metrics::Record record{iteration, wall_time(), std::move(what)};
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!writer_) return;
  if (started_)
    writer_->write(std::move(record));
  else
    early_.push_back(std::move(record));
}

void RunMetrics::later(metrics::Writer::Maker maker) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (writer_) writer_->write(std::move(maker));
}

void RunMetrics::catch_up() {
  constexpr double kPatience = 1;
  metrics::Writer* writer = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    writer = writer_.get();
  }
  if (writer != nullptr) writer->catch_up(kPatience);
}

void RunMetrics::train(std::int64_t iteration, metrics::Train record, std::optional<std::int64_t> sampled,
                       SpansOfDevices spans, std::optional<Observed> observed) {
  record.seconds = seconds();
  const double now = wall_time();
  later([times = layer_times_, judge = judge_, iteration, now, record = std::move(record), sampled,
         spans = std::move(spans), observed = std::move(observed)]() mutable {
    std::vector<metrics::Record> records;
    if (sampled) {
      const auto shares = measure_overlap(spans);
      bool complete = true;
      for (std::size_t device = 0; device < shares.size(); ++device) {
        complete = complete && shares[device].size() == 1;
        if (shares[device].size() != 1) continue;  // some of its spans are missing
        record.devices[device].sampled = sampled;
        for (const ShareFigure& figure : share_figures())
          record.devices[device].milliseconds.emplace_back(figure.key, figure.value(shares[device][0]));
      }
      if (complete) times->add(spans, *sampled);
    }
    const double seconds = record.seconds.value_or(0);
    std::vector<EarlyWarning> warnings;
    if (judge && observed) warnings = judge->look(*observed, record);
    records.push_back({iteration, now, std::move(record)});
    if (times->due(seconds)) records.push_back({iteration, now, times->take(seconds)});
    for (const EarlyWarning& warning : warnings) {
      log(warning.text, warning.advice);
      records.push_back({iteration + 1, now, metrics::Warning{warning.text, warning.advice}});
    }
    return records;
  });
}

void RunMetrics::pictures(std::int64_t iteration, std::function<metrics::Pictures()> make) {
  later([iteration, now = wall_time(), make = std::move(make)] {
    return std::vector<metrics::Record>{{iteration, now, make()}};
  });
}

void RunMetrics::warn(const std::string& text, const std::string& advice) {
  log(text, advice);
  write(iteration_, metrics::Warning{text, advice});
}

void RunMetrics::watch(WarningFacts facts) {
  facts.cores = cores_;
  judge_ = std::make_shared<EarlyWarnings>(std::move(facts));
  for (const EarlyWarning& warning : judge_->at_start()) warn(warning.text, warning.advice);
}

void RunMetrics::warn_of(const EarlyWarning& warning) {
  if (judge_->is_new(warning.cause)) warn(warning.text, warning.advice);
}

void RunMetrics::parameters(std::int64_t iteration, std::shared_ptr<const ParameterSample> part) {
  std::vector<std::shared_ptr<const ParameterSample>> all;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Parts& parts = parts_[iteration];
    ++parts.arrived;
    if (part) parts.samples.push_back(std::move(part));
    if (parts.arrived < samplers_.size()) return;
    all = std::move(parts.samples);
    parts_.erase(iteration);
    if (all.size() < samplers_.size()) {
      ++left_out_;
      return;
    }
  }
  later([iteration, now = wall_time(), names = parameter_names_, complete = std::move(all)] {
    return std::vector<metrics::Record>{{iteration, now, measure_parameters(*names, complete)}};
  });
}

void RunMetrics::failed(const std::string& error) { error_ = error; }

void RunMetrics::restart(std::int64_t iteration, const std::string& snapshot) {
  std::unique_ptr<metrics::Writer> earlier;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    earlier = std::move(writer_);
    started_ = false;
    parts_.clear();
  }
  earlier.reset();  // closes the files
  layer_times_ = std::make_shared<LayerTimes>();
  if (judge_) judge_->restart();
  try {
    open(iteration, metrics::Existing::resume);
  } catch (const std::exception& error) {
    LOG(WARNING) << "Metrics: " << error.what() << "; none are written from here on";
    return;
  }
  metrics::Start description = description_;
  description.resumed_from = snapshot;
  start(std::move(description), *parameter_names_);
}

void RunMetrics::end() {
  if (!started_ || !writer_) return;
  metrics::End record{!error_.empty()           ? "failed"
                      : iteration_ >= max_iter_ ? "finished"
                                                : "stopped",
                      error_, seconds()};
  const double now = wall_time();
  writer_->write([times = layer_times_, iteration = iteration_.load(), now, record = std::move(record)] {
    std::vector<metrics::Record> records;
    if (metrics::Layers layers = times->take(record.seconds); layers.sampled > 0)
      records.push_back({std::max<std::int64_t>(iteration - 1, 0), now, std::move(layers)});
    records.push_back({iteration, now, record});
    return records;
  });
  LOG_IF(INFO, left_out_ > 0) << "Metrics: histograms were left out " << left_out_
                              << " times, because the last ones were not written yet";
  writer_->close(error_.empty() ? metrics::Writer::kPatience : kPatienceAfterFailure);
}

}  // namespace banyan
