// RunBoard: what a run shows of itself right now, between two records of its metrics: how far it is, what
// each device is doing, how many batches are ready. The run writes, displays read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "banyan/observe/activity.hpp"

namespace banyan {

struct ProgressNumbers {
  std::int64_t iteration = 0;  ///< updates done
  std::int64_t max_iter = 0;
  double loss = 0, rate = 0;
  double samples_per_second = 0;  ///< 0: not known yet
  double seconds_left = -1;       ///< < 0: not known yet
};

/// How many batches are ready for a device.
struct QueueGauge {
  std::atomic<int> filled{0}, most{0};  ///< most: 0 before the first batch is asked for
};

/// All members may be called by several threads at once.
class RunBoard {
 public:
  struct Queue {
    std::string name;  ///< of the layer
    int filled = 0, most = 0;
  };
  struct Device {
    std::string name;
    Stage stage = Stage::idle;
    std::string layer;
    bool waiting = false;  ///< for another device
    std::vector<Queue> queues;
  };

  // By the run.
  /// From here until detach() the activities and the nets that they name layers of exist.
  void attach(std::vector<const Activity*> devices);
  void detach();
  void add_queue(int device, const std::string& layer, std::shared_ptr<const QueueGauge> gauge);
  void set_progress(const ProgressNumbers& numbers);

  // By displays.
  std::vector<Device> devices() const;
  ProgressNumbers progress() const;

 private:
  struct Watched {
    const Activity* activity = nullptr;
    std::vector<std::pair<std::string, std::shared_ptr<const QueueGauge>>> queues;
  };
  mutable std::mutex mutex_;
  std::vector<Watched> devices_;
  ProgressNumbers progress_;
};

/// A run's entry on a board, for as long as its devices exist.
class OnBoard {
 public:
  /// `board` may be nullptr.
  OnBoard(RunBoard* board, std::vector<const Activity*> devices) : board_(board) {
    if (board_ != nullptr) board_->attach(std::move(devices));
  }
  ~OnBoard() {
    if (board_ != nullptr) board_->detach();
  }
  OnBoard(const OnBoard&) = delete;
  OnBoard& operator=(const OnBoard&) = delete;

 private:
  RunBoard* board_;
};

}  // namespace banyan
