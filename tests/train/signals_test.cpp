#include "banyan/train/signals.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include "base/signal_thread.hpp"

namespace banyan {
namespace {

SignalFlags flags;  // must outlive the handlers

// Handlers belong to the whole process, in which one thread takes the signals: each case runs in a separate
// child, whose exit code reports what it saw.
void send(int number) { ::kill(::getpid(), number); }
bool comes(const std::function<bool()>& condition) {
  for (int i = 0; i < 10'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST(Signals, SetTheRequestsThatTheyAreGiven) {
  EXPECT_EXIT(
      {
        install_signals(SignalEffect::snapshot, SignalEffect::none, flags);
        send(SIGHUP);
        const bool taken = comes([] {
          sigset_t waiting;
          return ::sigpending(&waiting) == 0 && ::sigismember(&waiting, SIGHUP) == 0;
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // its handler comes to its end
        const bool quiet = taken && !flags.stop && !flags.snapshot;
        send(SIGINT);
        const bool asked = quiet && comes([] { return flags.snapshot.exchange(false); }) && !flags.stop;
        send(SIGINT);  // a second one is still the same request
        const bool again = comes([] { return flags.snapshot.load(); }) && !flags.stop;
        send(SIGPIPE);
        send(SIGTERM);
        ::_exit(asked && again && comes([] { return flags.stop.load(); }) ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Signals, TheSecondOneEndsAtOnce) {
  for (int number : {SIGINT, SIGTERM})
    EXPECT_EXIT(
        {
          install_signals(SignalEffect::stop, SignalEffect::snapshot, flags);
          send(SIGINT);
          send(SIGHUP);
          if (!comes([] { return flags.stop && flags.snapshot; })) ::_exit(1);
          send(number);
          comes([] { return false; });
          ::_exit(2);
        },
        testing::ExitedWithCode(128 + number), "");
}

/// What asks to stop without being told twice: mpirun's SIGTERM after it says that another process has
/// failed.
TEST(Signals, TheFirstSigtermAfterAnotherRequestIsNoSecondOne) {
  EXPECT_EXIT(
      {
        install_signals(SignalEffect::stop, SignalEffect::stop, flags);
        send(SIGUSR1);
        send(SIGHUP);
        send(SIGTERM);
        if (!comes([] { return flags.stop && told_to_end(); })) ::_exit(1);
        send(SIGTERM);
        comes([] { return false; });
        ::_exit(2);
      },
      testing::ExitedWithCode(128 + SIGTERM), "");
}

/// Kernels of oneDNN use the stack pointer for other things (base/signal_thread.hpp).
TEST(Signals, DoNotComeWhereNumbersAreComputed) {
  EXPECT_EXIT(
      {
        install_signals(SignalEffect::stop, SignalEffect::none, flags);
        const auto blocked = [] {
          sigset_t set;
          ::pthread_sigmask(SIG_SETMASK, nullptr, &set);
          return ::sigismember(&set, SIGTERM) == 1;
        };
        const bool here = blocked();
        bool later = false;
        bool allowed = false;
        std::thread([&] { later = blocked(); }).join();
        {
          const SignalsAllowed now;
          allowed = !blocked();
        }
        ::_exit(here && later && allowed && blocked() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace banyan
