#include "banyan/train/signals.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace banyan {
namespace {

SignalFlags flags;  // must outlive the handlers

// Handlers belong to the whole process: each case runs in a separate child, whose exit code reports what it
// saw.
TEST(Signals, SetTheRequestsThatTheyAreGiven) {
  EXPECT_EXIT(
      {
        install_signals(SignalEffect::snapshot, SignalEffect::none, flags);
        std::raise(SIGHUP);
        const bool quiet = !flags.stop && !flags.snapshot;
        std::raise(SIGINT);
        const bool asked = !flags.stop && flags.snapshot.exchange(false);
        std::raise(SIGINT);  // a second one is still the same request
        const bool again = !flags.stop && flags.snapshot;
        std::raise(SIGTERM);
        std::raise(SIGPIPE);
        ::_exit(quiet && asked && again && flags.stop ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Signals, TheSecondOneEndsAtOnce) {
  for (int number : {SIGINT, SIGTERM})
    EXPECT_EXIT(
        {
          install_signals(SignalEffect::stop, SignalEffect::snapshot, flags);
          std::raise(SIGINT);
          std::raise(SIGHUP);
          if (!flags.stop || !flags.snapshot) ::_exit(1);
          std::raise(number);
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
        std::raise(SIGUSR1);
        std::raise(SIGHUP);
        std::raise(SIGTERM);
        if (!flags.stop || !told_to_end()) ::_exit(1);
        std::raise(SIGTERM);
        ::_exit(2);
      },
      testing::ExitedWithCode(128 + SIGTERM), "");
}

}  // namespace
}  // namespace banyan
