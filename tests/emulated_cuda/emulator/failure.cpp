#include "failure.hpp"

#include <cstring>
#include <map>

#include "machine.hpp"

namespace emulated {

namespace {

/// Never destroyed: used while the process ends.
struct Failures {
  std::mutex mutex;
  std::map<std::string, std::uint64_t> calls;
  std::uint64_t all_calls = 0, struck = 0;
  FirstFailure first;
  std::set<int> broken;
  std::map<int, std::uint64_t> lives;  // number of times each GPU was repaired
  std::map<int, int> at_work;          // by GPU: streams that run a kernel or copy
  std::condition_variable idle;        // of some GPU
};
Failures& failures() {
  static auto* const kFailures = new Failures;
  return *kFailures;
}

/// Kernels fail while running, not at launch; a program cannot react to a failure to clean up.
bool is_any(const std::string& function) { return function != "kernel"; }

/// Has the GPU failed for good? If so, the host waits until it is idle.
bool is_lost(Failures& f, std::unique_lock<std::mutex>& lock, int gpu) {
  if (!f.broken.contains(gpu)) return false;
  if (running == nullptr) f.idle.wait(lock, [&] { return f.at_work[gpu] == 0; });
  return true;
}

}  // namespace

void forget_failures() {
  const Quiet quiet;
  Failures& f = failures();
  const std::lock_guard<std::mutex> lock(f.mutex);
  f.calls.clear();
  f.all_calls = f.struck = 0;
  f.first = {};
  for (const int gpu : f.broken) ++f.lives[gpu];
  f.broken.clear();
}

bool fails(const char* function, int gpu, int* code) {
  const Quiet quiet;
  count(std::string("call ") + function);
  Failures& f = failures();
  std::unique_lock<std::mutex> lock(f.mutex);
  *code = 0;
  const std::uint64_t number = ++f.calls[function], of_all = is_any(function) ? ++f.all_calls : 0;
  for (const InjectedFailure& injected : settings().failures) {
    const bool by_name = injected.function == function && injected.number == number;
    const bool by_count = injected.function == "any" && is_any(function) && injected.number == of_all;
    if (!by_name && !by_count) continue;
    if (f.struck++ == 0) f.first = {function, std::chrono::steady_clock::now()};
    *code = injected.code;
    if (injected.sticky || !is_any(function))
      f.broken.insert(gpu);  // a failing kernel takes its GPU down with it
    is_lost(f, lock, gpu);
    return true;
  }
  return is_lost(f, lock, gpu);
}

bool is_broken(int gpu) {
  const Quiet quiet;
  Failures& f = failures();
  const std::lock_guard<std::mutex> lock(f.mutex);
  return f.broken.contains(gpu);
}

bool is_lost(int gpu) {
  const Quiet quiet;
  Failures& f = failures();
  std::unique_lock<std::mutex> lock(f.mutex);
  return is_lost(f, lock, gpu);
}

bool begin_work(int gpu, std::uint64_t life) {
  const Quiet quiet;
  Failures& f = failures();
  const std::lock_guard<std::mutex> lock(f.mutex);
  if (f.broken.contains(gpu) || f.lives[gpu] != life) return false;
  ++f.at_work[gpu];
  return true;
}

void end_work(int gpu) {
  const Quiet quiet;
  Failures& f = failures();
  {
    const std::lock_guard<std::mutex> lock(f.mutex);
    --f.at_work[gpu];
  }
  f.idle.notify_all();
}

std::uint64_t life_of(int gpu) {
  const Quiet quiet;
  Failures& f = failures();
  const std::lock_guard<std::mutex> lock(f.mutex);
  return f.lives[gpu];
}

std::uint64_t failures_struck() {
  const Quiet quiet;
  Failures& f = failures();
  const std::lock_guard<std::mutex> lock(f.mutex);
  return f.struck;
}

FirstFailure first_failure() {
  const Quiet quiet;
  Failures& f = failures();
  const std::lock_guard<std::mutex> lock(f.mutex);
  return f.first;
}

std::uint64_t calls_made() {
  const Quiet quiet;
  Failures& f = failures();
  const std::lock_guard<std::mutex> lock(f.mutex);
  return f.all_calls;
}

}  // namespace emulated
