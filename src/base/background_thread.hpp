// Threads that only look at training: they must not push aside those that train.
#pragma once

#include <pthread.h>
#include <sys/resource.h>

namespace banyan {

/// For the calling thread, and those it starts later: its name (at most 15 characters), and less of a busy
/// core than the threads that train, which wait for each other: what holds one of them up holds up all.
inline void enter_background(const char* name) {
  constexpr int kNice = 10;
  ::pthread_setname_np(::pthread_self(), name);
  // 0 is the calling thread on Linux. A refusal would leave it as quick as before.
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, kNice));
}

}  // namespace banyan
