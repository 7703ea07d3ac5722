#include "base/signal_thread.hpp"

#include <omp.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>

#include "banyan/base/error.hpp"

namespace banyan {
namespace {

/// Those with handlers, here and in the panel.
sigset_t handled() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGTSTP, SIGCONT}) ::sigaddset(&set, number);
  return set;
}

[[noreturn]] void take_signals() {
  ::pthread_setname_np(::pthread_self(), "signals");
  const sigset_t set = handled();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  while (true) ::pause();
}

/// The threads that compute with the calling one are started now; they keep the signals that it blocks.
void start_team() {
  static thread_local int asked = 0;
  if (asked >= omp_get_max_threads()) return;
  asked = omp_get_max_threads();
  std::atomic<int> here{0};
#pragma omp parallel
  ++here;
}

std::atomic<bool> left_to_one_thread{false};

}  // namespace

void leave_signals_to_one_thread() {
  const sigset_t set = handled();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  left_to_one_thread = true;
  static std::once_flag started;
  try {
    std::call_once(started, [] { std::thread(take_signals).detach(); });
  } catch (const std::system_error& error) {
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    runtime_failure("cannot start the thread for signals: ", error.code().message());
  }
}

SignalsAllowed::SignalsAllowed() {
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before_);
  if (!left_to_one_thread) return;  // what is blocked, the program has blocked
  start_team();
  const sigset_t set = handled();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

SignalsAllowed::~SignalsAllowed() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace banyan
