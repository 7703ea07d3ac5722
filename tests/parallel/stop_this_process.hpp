// Stops this process for a while, as a debugger or a shell does.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace banyan::parallel {

/// In a child only, not in the whole test program, whose parent might react to it.
inline void stop_this_process(unsigned milliseconds) {
  const pid_t self = ::getpid(), helper = ::fork();
  ASSERT_GE(helper, 0);
  if (helper == 0) {
    ::kill(self, SIGSTOP);
    ::usleep(1000 * milliseconds);
    ::kill(self, SIGCONT);
    ::_exit(0);
  }
  ::waitpid(helper, nullptr, 0);
}

}  // namespace banyan::parallel
