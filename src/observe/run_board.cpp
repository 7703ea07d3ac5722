#include "banyan/observe/run_board.hpp"

#include <utility>

namespace banyan {

void RunBoard::attach(std::vector<const Activity*> devices) {
  const std::lock_guard lock(mutex_);
  devices_.clear();
  for (const Activity* activity : devices) devices_.push_back({activity, {}});
}

void RunBoard::detach() {
  const std::lock_guard lock(mutex_);
  devices_.clear();
}

void RunBoard::add_queue(int device, const std::string& layer, std::shared_ptr<const QueueGauge> gauge) {
  const std::lock_guard lock(mutex_);
  devices_.at(static_cast<std::size_t>(device)).queues.emplace_back(layer, std::move(gauge));
}

void RunBoard::set_progress(const ProgressNumbers& numbers) {
  const std::lock_guard lock(mutex_);
  progress_ = numbers;
}

std::vector<RunBoard::Device> RunBoard::devices() const {
  const std::lock_guard lock(mutex_);
  std::vector<Device> devices;
  for (const Watched& watched : devices_) {
    const ActivityState now = watched.activity->state();
    Device& device = devices.emplace_back();
    device.name = watched.activity->device();
    device.stage = now.stage;
    // While nets are made, and once they are idle, a layer that was named last says nothing.
    if (now.stage != Stage::set_up && now.stage != Stage::idle) device.layer = now.layer;
    device.waiting = now.waiting;
    for (const auto& [name, gauge] : watched.queues)
      device.queues.push_back(
          {name, gauge->filled.load(std::memory_order_relaxed), gauge->most.load(std::memory_order_relaxed)});
  }
  return devices;
}

ProgressNumbers RunBoard::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

}  // namespace banyan
