#include "banyan/parallel/crew.hpp"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "banyan/base/error.hpp"

namespace banyan::parallel {

/// Shared with the abort's action, which may be called after the crew has ended.
struct Crew::State {
  std::size_t devices = 0;
  std::mutex mutex;
  std::condition_variable changed;
  // Under the mutex:
  Order order;
  std::uint64_t issued = 0;  ///< orders
  std::size_t busy = 0;      ///< devices that have not carried out the last one
  bool dismissed = false;    ///< no order will follow
  bool ended = false;        ///< the threads have ended
  std::optional<Error> error;

  /// The order after `carried_out` others; nullptr: there will be none. Valid until finished().
  const Order* wait_for_order(std::uint64_t carried_out, const AbortState& abort) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return issued > carried_out || dismissed || abort.raised(); });
    abort.check();
    return issued > carried_out ? &order : nullptr;
  }
  void finished() {
    const std::lock_guard<std::mutex> lock(mutex);
    if (--busy == 0) changed.notify_all();
  }
};

Crew::Crew(std::vector<Activity*> activities, AbortState& abort, WatchdogOptions watchdog, Order wind_down)
    : state_(std::make_shared<State>()) {
  state_->devices = activities.size();
  abort.on_raise([state = state_] {
    const std::lock_guard<std::mutex> lock(state->mutex);
    state->changed.notify_all();
  });
  const auto lead = [state = state_, &abort, activities, watchdog, wind_down = std::move(wind_down)] {
    const auto work = [&](int rank) {
      for (std::uint64_t done = 0;; ++done) {
        // The watchdog ignores a device that has nothing to do.
        activities[rank]->set_idle();
        const Order* order = state->wait_for_order(done, abort);
        if (order == nullptr) return;
        activities[rank]->enter(Stage::set_up);
        (*order)(rank);
        state->finished();
      }
    };
    std::optional<Error> error;
    try {
      WorkerGroup(activities, abort, watchdog).run(work, wind_down);
    } catch (const Error& thrown) {
      error = thrown;
    }
    const std::lock_guard<std::mutex> lock(state->mutex);
    state->error = error;
    state->ended = true;
    state->changed.notify_all();
  };
  try {
    leader_ = std::thread(lead);
  } catch (const std::system_error& error) {
    runtime_failure("cannot start the thread of ", activities[0]->device(), ": ", error.code().message());
  }
}

Crew::~Crew() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->dismissed = true;
    state_->changed.notify_all();
  }
  leader_.join();
}

void Crew::carry_out(Order order) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  if (!state_->ended) {
    state_->order = std::move(order);
    state_->busy = state_->devices;
    ++state_->issued;
    state_->changed.notify_all();
    state_->changed.wait(lock, [&] { return state_->busy == 0 || state_->ended; });
    if (state_->busy == 0) return;
  }
  if (state_->error) throw Error(*state_->error);
  runtime_failure("the devices were told to stop");
}

}  // namespace banyan::parallel
