#include "banyan/train/smoothed_loss.hpp"

#include <algorithm>
#include <numeric>

namespace banyan {

SmoothedLoss::SmoothedLoss(int average_loss) : size_(average_loss) {}

void SmoothedLoss::add(double loss) {
  if (count_ < size_)
    window_.push_back(loss);
  else
    window_[count_ % size_] = loss;
  ++count_;
}

double SmoothedLoss::value() const {
  if (window_.empty()) return 0;
  return std::accumulate(window_.begin(), window_.end(), 0.0) / static_cast<double>(window_.size());
}

void SmoothedLoss::save(caffe::BanyanState& state) const {
  state.mutable_smoothed_losses()->Assign(window_.begin(), window_.end());
  state.set_loss_count(count_);
}

void SmoothedLoss::restore(const caffe::BanyanState& state) {
  window_.clear();
  count_ = 0;
  const auto expected = std::min<std::int64_t>(size_, state.loss_count());
  if (state.loss_count() < 0 || state.smoothed_losses_size() != expected) return;
  window_.assign(state.smoothed_losses().begin(), state.smoothed_losses().end());
  count_ = state.loss_count();
}

}  // namespace banyan
