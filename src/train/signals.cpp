#include "banyan/train/signals.hpp"

#include <unistd.h>

#include <csignal>

#include "banyan/observe/panel.hpp"
#include "base/signal_thread.hpp"

namespace banyan {

namespace {

// A signal handler cannot be passed data, so what it needs must be global.
SignalFlags* requests = nullptr;
std::atomic<bool> terminated{false};
std::atomic<bool> told_to_stop{false};  // by SIGINT or SIGTERM
SignalEffect effect_of_sigint = SignalEffect::stop;
SignalEffect effect_of_sighup = SignalEffect::snapshot;

void on_signal(int number) {
  const SignalEffect effect = number == SIGINT   ? effect_of_sigint
                              : number == SIGHUP ? effect_of_sighup
                                                 : SignalEffect::stop;
  if (number == SIGTERM) terminated.store(true);
  const bool stops = effect == SignalEffect::stop;
  // After a SIGUSR1 the first SIGTERM is no second one: mpirun sends it where a process has failed, and the
  // others still have to say so. Two threads may be here at the same time, with two signals: one of them is
  // the second.
  if ((number == SIGINT || number == SIGTERM) &&
      (stops ? told_to_stop.exchange(true) : told_to_stop.load())) {
    give_back_panel();
    ::_exit(128 + number);
  }
  if (stops) requests->stop.store(true);
  if (effect == SignalEffect::snapshot) requests->snapshot.store(true);
}

}  // namespace

void install_signals(SignalEffect sigint, SignalEffect sighup, SignalFlags& flags) {
  static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");
  leave_signals_to_one_thread();
  requests = &flags;
  effect_of_sigint = sigint;
  effect_of_sighup = sighup;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigfillset(&action.sa_mask);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) ::sigaction(number, &action, nullptr);
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
}

const std::atomic<bool>& told_to_end() { return terminated; }

}  // namespace banyan
