#include "banyan/parallel/abort.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <utility>

#include "banyan/base/text.hpp"

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

Doorbell::Doorbell(AbortState& abort, SpinPolicy policy) : abort_(&abort), gauge_(policy) {
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

std::chrono::nanoseconds Doorbell::timed_yield() {
  const auto begun = std::chrono::steady_clock::now();
  std::this_thread::yield();
  return std::chrono::steady_clock::now() - begun;
}

// A futex: std::atomic's own wait may yield the core several times before it sleeps: what a device that
// sleeps early wants to avoid.
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

void Doorbell::sleep(std::uint32_t seen) {
  ::syscall(SYS_futex, &count_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}

void Doorbell::wake() { ::syscall(SYS_futex, &count_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

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
