// Clipping: scales the summed gradients of an iteration down to a maximum norm, before 1 / iter_size and
// weight decay, as Caffe does.
#pragma once

#include <cstdint>
#include <functional>

#include "banyan/parallel/gradient_sync.hpp"
#include "banyan/train/updater.hpp"
#include "peers.hpp"

namespace banyan {

/// The factor for gradients of this norm: 1 unless it is greater than `largest`.
double clip_factor(double norm, double largest);

class Clipping {
 public:
  /// `squares`: the sum of the squared gradients that this device has. `lane`: the context of the gradients'
  /// sums and updates.
  Clipping(double largest_norm, Peers& peers, parallel::GradientSync& sync, Updater& updater,
           std::function<double()> squares, Context& lane);
  /// Before the sync starts: keeps updates back.
  void begin() { sync_.hold(); }
  /// After backward: waits until all sums are complete, passes the factor to the updater and releases the
  /// updates. Returns the factor. The host waits for the device here.
  double finish(std::int64_t iteration);

 private:
  double norm_of_all(std::int64_t iteration);
  double largest_norm_;
  Peers& peers_;
  parallel::GradientSync& sync_;
  Updater& updater_;
  std::function<double()> squares_;
  Context& lane_;
};

}  // namespace banyan
