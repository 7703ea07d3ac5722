// The progress line of a run: `Iteration 120/1000 (12 %)  loss 0.1234  lr 0.01  1520 samples/s  2 min 10 s
// left`.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

#include "banyan/observe/console.hpp"
#include "banyan/observe/run_board.hpp"

namespace banyan {

std::string progress_line(const ProgressNumbers& numbers);

/// Measures speed over the last 10 seconds and shows it at most five times a second.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  /// Both may be nullptr.
  Progress(Console* console, RunBoard* board, std::int64_t max_iter)
      : console_(console), board_(board), max_iter_(max_iter) {}

  bool active() const { return board_ != nullptr || draws(); }
  /// After `iteration` updates and `samples` samples on all devices since the start of this run.
  void update(std::int64_t iteration, std::int64_t samples, double loss, double rate,
              Clock::time_point now = Clock::now());
  void clear();

 private:
  struct Mark {
    Clock::time_point time;
    std::int64_t iteration, samples;
  };
  bool draws() const { return console_ != nullptr && console_->shows_status(); }
  Console* console_;
  RunBoard* board_;
  std::int64_t max_iter_;
  std::deque<Mark> marks_;  ///< one for each update that was shown, oldest first
};

}  // namespace banyan
