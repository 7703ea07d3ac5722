// LossRing: the losses of one device's last iterations, copied to the host without making it wait.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan {

class LossRing {
 public:
  LossRing(Device& device, std::int64_t size)
      : size_(size), values_(device.allocate_host(static_cast<std::size_t>(size) * sizeof(double))) {
    for (std::int64_t i = 0; i < size; ++i) events_.push_back(device.create_event());
  }
  std::int64_t size() const { return size_; }
  /// Enqueues the copy of a loss, f64 (1), as the loss of `iteration`.
  void push(Context& context, const Tensor& loss, std::int64_t iteration) {
    context.stream().copy(slot(iteration), loss.raw(), sizeof(double));
    context.stream().record(*events_[index(iteration)]);
  }
  /// The loss of one of the last size() iterations; any thread that knows it was pushed. Waits for the copy.
  double get(std::int64_t iteration) {
    events_[index(iteration)]->synchronize();
    return *slot(iteration);
  }

 private:
  std::size_t index(std::int64_t iteration) const { return static_cast<std::size_t>(iteration % size_); }
  double* slot(std::int64_t iteration) { return static_cast<double*>(values_.get()) + index(iteration); }
  std::int64_t size_;
  std::shared_ptr<void> values_;
  std::vector<std::unique_ptr<Event>> events_;
};

}  // namespace banyan
