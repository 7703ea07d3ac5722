// Crew: the devices' threads, kept between orders.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "banyan/parallel/worker_group.hpp"

namespace banyan::parallel {

/// A WorkerGroup whose threads carry out one order after another. What an order leaves on a device's thread
/// (its current GPU, its team of threads) is there for the next one.
class Crew {
 public:
  using Order = std::function<void(int rank)>;

  /// `wind_down`: see WorkerGroup::run. All must outlive the crew. Throws a runtime failure if no thread can
  /// be started; if only a device's thread cannot be, the first order fails.
  Crew(std::vector<Activity*> activities, AbortState& abort, WatchdogOptions watchdog, Order wind_down);
  /// Waits for the threads to end.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Runs order(rank) on every device's thread and returns when all are done. Fails as WorkerGroup::run does;
  /// that ends the crew, and every later order throws the same error. Call it from one thread at a time.
  void carry_out(Order order);

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread leader_;
};

}  // namespace banyan::parallel
