#include "banyan/metrics/writer.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "base/background_thread.hpp"

namespace banyan::metrics {
namespace {

using Clock = std::chrono::steady_clock;

/// A disk that is almost full takes some records and refuses others: that is said this often.
constexpr auto kSayEvery = std::chrono::minutes(10);

/// A power cut loses this much at most.
constexpr auto kSyncEvery = std::chrono::seconds(30);

/// A sink, and whether it works.
class Outlet {
 public:
  explicit Outlet(std::shared_ptr<Sink> sink) : sink_(std::move(sink)) {}
  void write(const Record& record) {
    if (!attempt([&] { sink_->write(record); })) ++lost_;
  }
  void sync() {
    attempt([&] { sink_->sync(); });
  }
  /// After the last record.
  void end() const {
    if (lost_ > 0) log_warning(cat("Metrics: ", lost_, " records were lost; the last time: ", reason_));
  }

 private:
  template <class Work>
  bool attempt(Work work) {
    try {
      work();
      return true;
    } catch (const std::exception& error) {
      reason_ = error.what();
      const Clock::time_point now = Clock::now();
      // First: the report may come back as a record.
      if (said_ && now - *said_ < kSayEvery) return false;
      said_ = now;
      log_warning(cat("Metrics: ", reason_,
                      "; training goes on, and they will be written again when that is "
                      "possible"));
      return false;
    }
  }
  std::shared_ptr<Sink> sink_;
  std::size_t lost_ = 0;
  std::string reason_;
  std::optional<Clock::time_point> said_;
};

}  // namespace

/// Shared with the thread, which may be left behind.
struct Writer::State {
  std::mutex mutex;
  std::condition_variable changed;
  // Under the mutex:
  std::deque<Maker> waiting;
  std::size_t dropped = 0;
  std::uint64_t given = 0, written = 0;  ///< of those that were not dropped
  bool closing = false;                  ///< nothing is added any more
  bool ended = false;                    ///< the thread has written and synced all
  // The thread's:
  std::vector<Outlet> outlets;

  void run() {
    enter_background("metrics");
    Clock::time_point synced = Clock::now();
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait(lock, [&] { return closing || !waiting.empty(); });
      if (waiting.empty()) break;
      Maker maker = std::move(waiting.front());
      waiting.pop_front();
      const std::size_t lost = std::exchange(dropped, 0);
      lock.unlock();
      if (lost > 0) log_warning(cat("Metrics: the disk does not keep up; ", lost, " records were dropped"));
      work(std::move(maker));
      count_written();
      if (Clock::now() - synced < kSyncEvery) continue;
      sync();
      synced = Clock::now();
    }
    sync();
    for (const Outlet& outlet : outlets) outlet.end();
    const std::lock_guard<std::mutex> lock(mutex);
    ended = true;
    changed.notify_all();
  }

  void work(Maker maker) {
    std::vector<Record> records;
    try {
      records = maker();
    } catch (const std::exception& error) {
      log_warning(cat("Metrics: ", error.what()));
    }
    maker = nullptr;  // what it holds must not live as long as a disk takes to answer
    for (const Record& record : records)
      for (Outlet& outlet : outlets) outlet.write(record);
  }

  void count_written() {
    const std::lock_guard<std::mutex> lock(mutex);
    ++written;
    changed.notify_all();
  }

  void sync() {
    for (Outlet& outlet : outlets) outlet.sync();
  }
};

Writer::Writer(std::vector<std::shared_ptr<Sink>> sinks) : state_(std::make_shared<State>()) {
  for (auto& sink : sinks) state_->outlets.emplace_back(std::move(sink));
  try {
    thread_ = std::thread([state = state_] { state->run(); });
  } catch (const std::system_error& error) {
    runtime_failure("cannot start the thread that writes metrics: ", error.code().message());
  }
}

Writer::~Writer() { close(kPatience); }

void Writer::write(Record record) {
  write([record = std::move(record)] { return std::vector<Record>{record}; });
}

void Writer::write(Maker maker) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->closing) return;
  if (state_->waiting.size() >= kMostWaiting) {
    ++state_->dropped;
    return;
  }
  state_->waiting.push_back(std::move(maker));
  ++state_->given;
  state_->changed.notify_all();
}

bool Writer::catch_up(double seconds) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  const std::uint64_t given = state_->given;
  return state_->changed.wait_for(lock, std::chrono::duration<double>(seconds),
                                  [&] { return state_->written >= given; });
}

bool Writer::close(double seconds) {
  if (!thread_.joinable()) return true;
  std::deque<Maker> lost;
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->closing = true;
  state_->changed.notify_all();
  const bool ended =
      state_->changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return state_->ended; });
  lost.swap(state_->waiting);
  lock.unlock();
  if (ended) {
    thread_.join();
    return true;
  }
  thread_.detach();
  log_warning(cat("Metrics: the disk does not answer; the last ", lost.size() + 1, " records may be lost"));
  return false;
}

}  // namespace banyan::metrics
