// Clipping: scales the summed gradients of an iteration down to a maximum norm, before 1 / iter_size and
// weight decay, as Caffe does.
#pragma once

#include <cstdint>

#include "banyan/parallel/gradient_sync.hpp"
#include "banyan/train/updater.hpp"
#include "peers.hpp"

namespace banyan {

/// The factor for gradients of this norm: 1 unless it is greater than `largest`.
double clip_factor(double norm, double largest);

class Clipping {
 public:
  /// `lane`: the context of the gradients' sums and updates.
  Clipping(double largest_norm, Peers& peers, parallel::GradientSync& sync, Updater& updater, Context& lane);
  /// Before the sync starts: keeps updates back.
  void begin() { sync_.hold(); }
  /// After backward: waits until all sums are complete, passes the factor to the updater and releases the
  /// updates. The host waits for the device here.
  void finish(std::int64_t iteration);

 private:
  double norm_of_all(std::int64_t iteration);
  double largest_norm_;
  Peers& peers_;
  parallel::GradientSync& sync_;
  Updater& updater_;
  Context& lane_;
};

}  // namespace banyan
