#include "banyan/parallel/abort.hpp"

#include <cstring>
#include <thread>
#include <utility>

#include "banyan/base/text.hpp"
#include "banyan/device/cores.hpp"

namespace banyan::parallel {

void AbortState::raise() {
  raised_.store(true);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Doorbell* bell : bells_) bell->ring();
  for (const auto& action : actions_) action();
}

void AbortState::raise(const Error& error) {
  {
    const std::lock_guard<std::mutex> lock(error_mutex_);
    if (!error_ && error.kind() != ErrorKind::aborted) error_ = error;
  }
  raise();
}

std::optional<Error> AbortState::error() const {
  const std::lock_guard<std::mutex> lock(error_mutex_);
  return error_;
}

void AbortState::on_raise(std::function<void()> action) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (raised()) action();
  actions_.push_back(std::move(action));
}

void AbortState::check() const {
  if (raised()) throw Error(ErrorKind::aborted, "another device failed");
}

void AbortState::enroll(Doorbell* bell) {
  const std::lock_guard<std::mutex> lock(mutex_);
  bells_.push_back(bell);
}

void AbortState::leave(Doorbell* bell) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase(bells_, bell);
}

SpinPolicy spin_policy(int devices, int threads_per_device) {
  const int cores = static_cast<int>(allowed_cores().size());
  // A yield lets a partner on the same core (where schedulers tend to put a thread that was just woken)
  // continue immediately; if the partner is on another core, a yield costs about half a microsecond more than
  // a pause. Long pauses before the yields would cost their entire length in every exchange of the first
  // kind. In total, the spin is longer than an exchange between running threads.
  if (devices * threads_per_device <= cores) return {20, 4000};
  return {0, 20};
}

Doorbell::Doorbell(AbortState& abort, SpinPolicy policy) : abort_(&abort), policy_(policy) {
  abort.enroll(this);
}
Doorbell::~Doorbell() { abort_->leave(this); }

void Doorbell::pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

void Doorbell::yield() { std::this_thread::yield(); }

Rendezvous::Rendezvous(int devices, AbortState& abort, SpinPolicy policy) : abort_(&abort), seats_(devices) {
  for (int i = 0; i < devices; ++i) bells_.push_back(std::make_unique<Doorbell>(abort, policy));
}

void Rendezvous::meet(int rank, Activity& activity, const Topic& topic) {
  abort_->check();  // a device that comes after the abort must not complete the meeting for those that wait
  Seat& mine = seats_[rank];
  const std::size_t at = mine.attended % 2;
  mine.topics[at] = topic;
  const std::uint64_t complete = ++mine.attended * seats_.size();
  if (arrived_.fetch_add(1) + 1 == complete)
    for (auto& bell : bells_) bell->ring();
  bells_[rank]->wait(activity, [&] { return arrived_.load() >= complete; });
  const Topic& first = seats_[0].topics[at];
  if (std::strcmp(first.what, topic.what) != 0 || first.number != topic.number)
    runtime_failure("devices meet for different reasons: ", activity.device(), " for ", quoted(topic.what),
                    " (", topic.number, "), the first device for ", quoted(first.what), " (", first.number,
                    ")");
}

}  // namespace banyan::parallel
