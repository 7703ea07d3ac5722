// A sink that keeps what a run tells, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "banyan/metrics/sink.hpp"

namespace banyan {

/// Keeps what a run tells.
class Kept : public metrics::Sink {
 public:
  void write(const metrics::Record& record) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    records_.push_back(record);
  }
  /// Those of one kind, with their iterations.
  template <class Kind>
  std::vector<std::pair<std::int64_t, Kind>> of() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::pair<std::int64_t, Kind>> found;
    for (const metrics::Record& record : records_)
      if (const auto* what = std::get_if<Kind>(&record.what)) found.emplace_back(record.iteration, *what);
    return found;
  }
  template <class Kind>
  std::vector<std::int64_t> iterations_of() const {
    std::vector<std::int64_t> iterations;
    for (const auto& [iteration, what] : of<Kind>()) iterations.push_back(iteration);
    return iterations;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<metrics::Record> records_;
};

/// Waits until it has told of What after an iteration: a run does not wait, and leaves out parameters and
/// pictures that come too early.
template <class What>
void wait_for(const Kept& kept, std::int64_t iteration) {
  for (int i = 0; i < 6000; ++i) {
    const auto found = kept.iterations_of<What>();
    if (std::find(found.begin(), found.end(), iteration) != found.end()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ADD_FAILURE() << "nothing told of iteration " << iteration;
}

}  // namespace banyan
