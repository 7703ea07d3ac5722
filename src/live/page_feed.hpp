// PageFeed: a run's page and its later versions, for requests that wait for one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

#include "banyan/metrics/sink.hpp"
#include "banyan/report/report.hpp"

namespace banyan::live {

/// All members may be called by several threads at once; records come from one.
class PageFeed : public metrics::Sink {
 public:
  using Clock = std::chrono::steady_clock;
  /// A request is answered after this long even if there is nothing new.
  static constexpr std::chrono::seconds kPatience{20};
  /// From one version to the next; and a version is made in at most this part of the time.
  static constexpr std::chrono::milliseconds kLeastPause{1000};
  static constexpr int kPausePerWork = 200;
  /// So many requests wait; of more, the first ones are answered, so that pages can still be loaded.
  static constexpr std::int64_t kMostWaiting = 5;

  PageFeed(const std::string& name, const std::string& folder, bool resumes);
  void write(const metrics::Record& record) override;

  /// The whole page, or one that loads itself again while the run is being set up.
  std::string page();
  /// What is newer than version `after`, for the page; "" if nothing is within kPatience.
  std::string later_than(std::int64_t after);
  /// No more records come; nobody waits any more.
  void end();
  /// Waits, but not longer than this, until those who looked at the page lately have its last version.
  void wait_for_readers(std::chrono::milliseconds patience);

 private:
  /// With the mutex held.
  const std::string& newest();
  std::mutex mutex_;
  std::condition_variable changed_;
  report::LiveRun run_;
  std::int64_t version_ = 0;  ///< records so far
  bool ended_ = false;
  std::string json_;  ///< of the run
  std::int64_t json_version_ = -1;
  Clock::time_point next_ = Clock::now();  ///< when the next one may be made
  int waiting_ = 0;                        ///< requests
  std::int64_t came_ = 0;                  ///< requests that began to wait, so far
  std::int64_t given_ = -1;                ///< the last version that went out
  Clock::time_point asked_{};              ///< when somebody asked last
};

}  // namespace banyan::live
