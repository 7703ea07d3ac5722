// Dashboard: a run on a terminal while it goes on: curves, what each device is doing, batches that are ready,
// the last warnings, time left; log lines scroll above (observe/panel.hpp).
#pragma once

#include <chrono>
#include <memory>

#include "banyan/metrics/sink.hpp"
#include "banyan/observe/console.hpp"
#include "banyan/observe/run_board.hpp"

namespace banyan::live {

class Dashboard {
 public:
  static constexpr std::chrono::milliseconds kPeriod{250};

  /// On a terminal that can place text (Panel::possible). Draws on a thread of its own.
  explicit Dashboard(Console& console, std::chrono::milliseconds period = kPeriod);
  /// Gives the terminal back and leaves the curves there.
  ~Dashboard();
  Dashboard(const Dashboard&) = delete;
  Dashboard& operator=(const Dashboard&) = delete;

  /// Where the run's records go, and what it shows in between: for MetricsOptions and TrainOptions.
  std::shared_ptr<metrics::Sink> sink() const;
  std::shared_ptr<RunBoard> board() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace banyan::live
