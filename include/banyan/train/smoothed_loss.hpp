// The loss shown in the log: the mean of the last `average_loss` losses, or of all while there are fewer.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/banyan.pb.h"

namespace banyan {

class SmoothedLoss {
 public:
  explicit SmoothedLoss(int average_loss);
  void add(double loss);
  /// 0 before the first loss. Summed over the whole window each time, in the order of its slots, so that a
  /// resumed run is bit-identical and no rounding errors accumulate.
  double value() const;

  void save(caffe::BanyanState& state) const;
  /// Continues with the window of a state; one of a different size is dropped, as Caffe drops it at every
  /// resume.
  void restore(const caffe::BanyanState& state);

 private:
  int size_;
  std::vector<double> window_;  ///< slot k holds the newest loss number n with n mod size == k
  std::int64_t count_ = 0;      ///< losses seen
};

}  // namespace banyan
