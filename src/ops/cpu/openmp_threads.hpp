// Libraries that ask OpenMP how many threads to use must be given the device's number on the thread that
// calls them.
#pragma once

#include <omp.h>

namespace banyan::ops {

/// During its lifetime, parallel regions started by this thread use `threads` threads.
class OpenMpThreads {
 public:
  explicit OpenMpThreads(int threads) : before_(omp_get_max_threads()) {
    if (before_ != threads) omp_set_num_threads(threads);
  }
  ~OpenMpThreads() {
    if (before_ != omp_get_max_threads()) omp_set_num_threads(before_);
  }
  OpenMpThreads(const OpenMpThreads&) = delete;
  OpenMpThreads& operator=(const OpenMpThreads&) = delete;

 private:
  int before_;
};

}  // namespace banyan::ops
