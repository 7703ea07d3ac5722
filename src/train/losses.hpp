// Losses: each device copies its own to the host, where those of all devices are read and smoothed.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "banyan/train/smoothed_loss.hpp"
#include "loss_ring.hpp"
#include "peers.hpp"

namespace banyan {

/// The losses of the iterations of an interval.
struct LossInterval {
  std::int64_t count = 0;
  double sum = 0, squares = 0;                   ///< of the finite ones
  std::optional<std::int64_t> first_not_finite;  ///< iteration
  void add(std::int64_t iteration, double loss);
  /// Those that follow.
  void add(const LossInterval& next);
};

class Losses {
 public:
  /// The first device reads losses at least once in this many iterations.
  static constexpr std::int64_t kGatherEvery = 32;

  /// The ring is on the device's board from here on.
  Losses(Peers& peers, int average_loss);
  /// The first iteration that will be pushed.
  void begin(std::int64_t iteration) { gathered_ = iteration; }
  /// Enqueues a copy of this device's loss, f64 (1); with other processes, of the loss of all devices.
  void push(const Tensor& loss, std::int64_t iteration);

  /// This device's, of an iteration that was pushed; waits for it.
  double own(std::int64_t iteration) { return ring_.get(iteration); }

  /// Must the first device gather now, after iteration `iteration`?
  bool overdue(std::int64_t iteration) const { return iteration - gathered_ >= kGatherEvery; }
  /// Reads the global losses up to and including `through`, which every device has pushed (this device has
  /// completed that iteration's exchange).
  void gather(std::int64_t through);
  /// The mean of the last gathered ones.
  double smoothed() const { return smoothed_.value(); }
  /// Those that were gathered since the last call.
  LossInterval take_interval() { return std::exchange(interval_, {}); }
  void save(caffe::BanyanState& state) const { smoothed_.save(state); }
  void restore(const caffe::BanyanState& state) { smoothed_.restore(state); }

 private:
  Peers& peers_;
  LossRing ring_;
  SmoothedLoss smoothed_;
  LossInterval interval_;
  std::int64_t gathered_ = 0;
};

}  // namespace banyan
