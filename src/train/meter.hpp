// Meter: what one device measures for the metrics of a run. The host waits for its device only where the run
// is displayed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/metrics/record.hpp"
#include "banyan/net/net.hpp"
#include "banyan/observe/timeline.hpp"
#include "banyan/train/session.hpp"
#include "banyan/train/updater.hpp"
#include "parameter_meter.hpp"
#include "peers.hpp"
#include "picture_meter.hpp"
#include "run_metrics.hpp"
#include "sources.hpp"
#include "vitals.hpp"

namespace banyan {

class Meter {
 public:
  struct Parts {
    Peers& peers;
    Net& net;
    Updater& updater;
    Sources& sources;
    Context& lane;  ///< of the updates
  };
  /// `interval`: iterations between reports.
  Meter(RunMetrics& metrics, int rank, const Parts& parts, int interval);

  /// The first iteration, after start-up or a snapshot; `samples`: of all devices in each.
  void start(std::int64_t iteration, std::int64_t samples);
  /// Before the passes of an iteration, and after its update is enqueued.
  void begin(std::int64_t iteration);
  void end(std::int64_t iteration);
  /// Work that is no training: its time does not count. Returns its seconds.
  template <class Work>
  double apart(Work&& work) {
    const Moment before = now();
    work();
    const Moment after = now();
    since_.time += after.time - before.time;
    since_.waited += after.waited - before.waited;
    return static_cast<double>(after.time - before.time) / 1e9;
  }
  /// At a display: does report() read parameters and gradients?
  bool reads_parameters() const { return metrics_.tells() || checks_; }
  /// At a display, if there is anything to be told: puts what was measured on the device's board, before the
  /// devices meet. Waits for the device.
  void report();
  /// After a forward pass: says where values that are not finite come from, if the loss is not; once, and
  /// only where the host need not wait for that.
  void look_at_loss(const Pass& pass);
  /// On the first device, after they have met.
  /// `losses`: since the last display.
  void publish(std::int64_t iteration, double loss, const LossInterval& losses, double rate,
               std::vector<metrics::Output> outputs);
  /// Only the loss of an iteration of which nothing was learned.
  void publish_last(std::int64_t iteration, double loss);

 private:
  struct Moment {
    std::int64_t time = 0, waited = 0;  ///< nanoseconds
  };
  Moment now() const;
  bool is_check(std::int64_t iteration) const;
  bool samples_spans(std::int64_t iteration) const;

  RunMetrics& metrics_;
  int rank_;
  Parts parts_;
  int interval_;
  std::optional<ParameterMeter> parameters_;
  std::optional<PictureMeter> pictures_;
  std::optional<Vitals> vitals_;         ///< none without early warnings
  std::optional<std::int64_t> sampled_;  ///< iteration, not yet reported
  bool measures_parameters_ = false;     ///< in this iteration
  bool checks_ = false;                  ///< the vital signs, in this iteration
  bool looks_at_loss_ = false;           ///< nothing that is not finite has been seen yet
  std::int64_t next_check_ = 0;          ///< not before this iteration
  std::int64_t start_ = 0, reported_ = 0, samples_ = 0;
  Moment since_;         ///< the last report
  LossInterval losses_;  ///< the same
};

}  // namespace banyan
