// Display: what a run shows of its iterations, as log lines and as the progress line, and when its metrics
// are reported.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "banyan/net/net.hpp"
#include "banyan/train/progress.hpp"
#include "banyan/train/solver_settings.hpp"
#include "losses.hpp"
#include "meter.hpp"
#include "peers.hpp"

namespace banyan {

class Display {
 public:
  /// `interval`: of the solver's display, or of the metrics where that is 0. `console` shows the progress
  /// line, and `board` its numbers, on the first device; nullptr: none. `meter`: nullptr: no metrics.
  Display(const SolverSettings& solver, int interval, Peers& peers, Net& net, Losses& losses,
          Console* console, RunBoard* board, Meter* meter);
  /// `iteration`: the first one. `samples`: of all devices in each.
  void begin(std::int64_t iteration, std::int64_t samples);
  bool is_turn(std::int64_t iteration) const { return banyan::is_turn(iteration, every_); }
  /// Are there log lines?
  bool logs() const { return logs_; }
  /// After an iteration with this learning rate. All devices meet if it is shown.
  void show(std::int64_t iteration, double rate);
  /// The net does not run here: its outputs are not shown.
  void leave_out_outputs() { has_outputs_ = false; }
  /// Removes the progress line before other lines.
  void clear() { progress_.clear(); }

 private:
  std::vector<double> outputs_of_all(std::int64_t iteration);
  void log(std::int64_t iteration, double rate, const std::vector<double>& outputs);
  std::vector<metrics::Output> named(const std::vector<double>& outputs) const;
  int every_;
  bool logs_, has_outputs_ = true;
  Meter* meter_;
  Peers& peers_;
  Net& net_;
  Losses& losses_;
  Progress progress_;
  std::int64_t start_ = 0, shown_ = 0, samples_ = 0;
  std::chrono::steady_clock::time_point shown_at_;
};

}  // namespace banyan
