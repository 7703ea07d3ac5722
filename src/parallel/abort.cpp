#include "banyan/parallel/abort.hpp"

#include <algorithm>
#include <thread>

#include "banyan/base/error.hpp"

namespace banyan::parallel {

void AbortState::raise() {
  raised_.store(true);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Doorbell* bell : bells_) bell->ring();
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
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  // A pause takes 10-50 ns on today's processors, so this spins for some tens of microseconds: longer than an
  // exchange between two running threads, shorter than the cost of sleeping and waking in a loop of
  // exchanges.
  if (devices * threads_per_device <= cores) return {2000, 0};
  return {20, 20};
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

Rendezvous::Rendezvous(int devices, AbortState& abort, SpinPolicy policy) : devices_(devices) {
  for (int i = 0; i < devices; ++i) bells_.push_back(std::make_unique<Doorbell>(abort, policy));
}

void Rendezvous::meet(int rank, Activity& activity) {
  const auto devices = static_cast<std::uint64_t>(devices_);
  const std::uint64_t ticket = arrived_.fetch_add(1);
  const std::uint64_t complete = (ticket / devices + 1) * devices;
  if (ticket + 1 == complete)
    for (auto& bell : bells_) bell->ring();
  bells_[static_cast<std::size_t>(rank)]->wait(activity, [&] { return arrived_.load() >= complete; });
}

}  // namespace banyan::parallel
