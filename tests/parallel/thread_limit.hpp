// Makes one pthread_create of this program fail, as when a process limit is reached. For one file of a
// program. Not with sanitizers, which replace pthread_create themselves.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BANYAN_NEEDS_THREAD_LIMIT GTEST_SKIP() << "a sanitizer needs pthread_create for itself"
#else
#define BANYAN_NEEDS_THREAD_LIMIT static_cast<void>(0)
#endif

namespace banyan {

/// While it exists, this program can start `started` more threads; the next one fails, later ones succeed.
/// One object at a time.
class ThreadLimit {
 public:
  explicit ThreadLimit(int started) { left() = started; }
  ~ThreadLimit() { left() = -1; }
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
  /// Was a thread refused?
  bool reached() const { return left() < 0; }

  static bool refuses() { return left() >= 0 && left().fetch_sub(1) == 0; }

 private:
  static std::atomic<int>& left() {
    static std::atomic<int> count{-1};
    return count;
  }
};

}  // namespace banyan

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// Replaces the C library's function in this program and the libraries it loads.
extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*start)(void*),
                                                                     void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  return banyan::ThreadLimit::refuses() ? EAGAIN : create(thread, attributes, start, argument);
}
#endif
