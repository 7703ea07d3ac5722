#include "banyan/data/prefetcher.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"

namespace banyan::data {

using namespace std::chrono_literals;

void HostMemory::reserve(std::size_t bytes, std::shared_ptr<void>& buffer, std::size_t& capacity) {
  if (capacity >= bytes) return;
  buffer.reset();
  capacity = 0;
  const std::lock_guard lock(mutex_);
  buffer = open_device().allocate_host(bytes);
  capacity = bytes;
}

void HostMemory::make_current() {
  const std::lock_guard lock(mutex_);
  open_device().make_current_for_helper();
}

void HostMemory::close() {
  const std::lock_guard lock(mutex_);
  device_ = nullptr;
}

/// With the mutex held.
Device& HostMemory::open_device() {
  if (device_ == nullptr) throw Error(ErrorKind::aborted, "reading has ended");
  return *device_;
}

namespace {

constexpr auto kPatience = 1s;  // for threads and copies at shutdown; every device must stop within 2 s

/// Polls until the copies out of `batch` are done; false if `give_up()` returns true. Copies are nearly
/// always done long before the buffer is used again, so this seldom waits.
template <class GiveUp>
bool wait_for_copies(HostBatch& batch, GiveUp&& give_up) {
  for (auto pause = 20us; batch.copied && !batch.copied->done(); pause = std::min(pause * 2, 1000us)) {
    if (give_up()) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

/// Interrupts the system calls that threads wait in: they fail with EINTR. It is a signal that programs
/// ignore by default, with a handler that does nothing and does not restart calls; a handler set by the
/// program is kept.
constexpr int kInterrupt = SIGURG;

void let_reads_be_interrupted() {
  static const bool once = [] {
    struct sigaction present {};
    ::sigaction(kInterrupt, nullptr, &present);
    if ((present.sa_flags & SA_SIGINFO) == 0 &&
        (present.sa_handler == SIG_DFL || present.sa_handler == SIG_IGN)) {
      struct sigaction action {};
      action.sa_handler = [](int) {};
      ::sigaction(kInterrupt, &action, nullptr);
    }
    return true;
  }();
  static_cast<void>(once);
}

/// Until the end of the process.
void keep_for_ever(std::shared_ptr<void> what) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(what));
}

}  // namespace

struct Prefetcher::State {
  State(Device& device, const ShareSequence& its_shares, MakeFill its_make_fill, const Options& its_options)
      : memory(std::make_shared<HostMemory>(device)),
        shares(its_shares),
        make_fill(std::move(its_make_fill)),
        options(its_options) {}

  struct Slot {
    HostBatch batch;
    std::exception_ptr problem;
  };

  static void start_thread(const std::shared_ptr<State>& state);
  void work();
  Slot* next_job(std::uint64_t& number);
  void finish(Slot* slot, std::uint64_t number);
  void stop_now();
  bool copies_end() noexcept;
  std::uint64_t items() const { return options.items ? options.items->load() : 0; }
  /// With the mutex held. Before the first is taken there is one more than usual.
  void show_ready() const {
    if (options.gauge)
      options.gauge->filled.store(static_cast<int>(std::min(ready.size(), slots.size() - 1)),
                                  std::memory_order_relaxed);
  }
  bool stopped() {
    const std::lock_guard lock(mutex);
    return stop;
  }

  const std::shared_ptr<HostMemory> memory;
  ShareSequence shares;
  const MakeFill make_fill;
  const Options options;
  std::vector<std::unique_ptr<Slot>> slots;
  std::vector<std::thread> threads;
  std::uint64_t next_take = 0;
  Slot* in_use = nullptr;

  std::mutex mutex;  // guards what follows and `shares`
  std::condition_variable filled, freed, ended;
  std::deque<Slot*> free;
  std::map<std::uint64_t, Slot*> ready;
  std::uint64_t next_number = 0;
  int running = 0;
  bool failed = false, stop = false;
  std::chrono::steady_clock::time_point stopped_at;
};

/// With the mutex held.
void Prefetcher::State::stop_now() {
  if (!stop) stopped_at = std::chrono::steady_clock::now();
  stop = true;
  memory->end();
  freed.notify_all();
}

/// Jobs are handed out in order, each with a slot, so that the earliest batch always has one.
Prefetcher::State::Slot* Prefetcher::State::next_job(std::uint64_t& number) {
  std::unique_lock lock(mutex);
  freed.wait(lock, [&] { return stop || failed || (!free.empty() && shares.ready()); });
  if (stop || failed) return nullptr;
  Slot* slot = free.front();
  free.pop_front();
  number = next_number++;
  slot->batch.share = shares.next();
  return slot;
}

void Prefetcher::State::finish(Slot* slot, std::uint64_t number) {
  const std::lock_guard lock(mutex);
  if (slot->problem) failed = true;
  ready[number] = slot;
  show_ready();
  filled.notify_all();
  if (failed) freed.notify_all();
}

/// Waits for the copies out of all buffers; false: not done in time, or unknown because the device has
/// failed. The buffers must then be kept, because the device may still read them.
bool Prefetcher::State::copies_end() noexcept {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  try {
    for (const auto& slot : slots)
      if (!wait_for_copies(slot->batch, [&] { return std::chrono::steady_clock::now() > deadline; }))
        return false;
  } catch (...) {  // the device's next user sees the failure again, or has seen it already
    return false;
  }
  return true;
}

void Prefetcher::State::work() {
  ::pthread_setname_np(::pthread_self(), "prefetch");
  Fill fill;
  const Tracing& tracing = options.tracing;
  Track* const track =
      tracing.timeline ? &tracing.timeline->open_track(tracing.device, "prefetch " + options.name) : nullptr;
  std::uint64_t number = 0;
  while (Slot* slot = next_job(number)) {
    try {
      if (!fill) {
        memory->make_current();
        fill = make_fill(memory);
      }
      if (!wait_for_copies(slot->batch, [this] { return stopped(); })) break;
      TimeSpan* const span = track == nullptr ? nullptr
                                              : track->open(SpanKind::prefetch, "batch", "",
                                                            static_cast<std::int64_t>(number), -1);
      if (span != nullptr) span->begin = steady_nanoseconds();
      fill(slot->batch);
      if (span != nullptr) span->end = steady_nanoseconds();
    } catch (...) {
      slot->problem = std::current_exception();
    }
    finish(slot, number);
  }
}

/// The thread shares ownership of the state: it may outlive the prefetcher.
void Prefetcher::State::start_thread(const std::shared_ptr<State>& state) {
  const auto run = [state] {
    state->work();
    const std::lock_guard lock(state->mutex);
    --state->running;
    state->ended.notify_all();
  };
  state->threads.reserve(state->threads.size() + 1);
  const std::lock_guard lock(state->mutex);  // so that a thread that ends immediately is counted first
  try {
    state->threads.emplace_back(run);
  } catch (const std::system_error& error) {
    runtime_failure("cannot start a prefetch thread of ", state->options.name, ": ", error.code().message());
  }
  ++state->running;
}

Prefetcher::Prefetcher(std::shared_ptr<State> state) : state_(std::move(state)) {}

/// Complete once it has its state: if a thread cannot be started, the destructor ends those that were.
Prefetcher::Prefetcher(Device& device, const ShareSequence& shares, MakeFill make_fill,
                       const Options& options)
    : Prefetcher(std::make_shared<State>(device, shares, std::move(make_fill), options)) {
  let_reads_be_interrupted();
  const int depth = std::max(options.depth, 1), threads = std::clamp(options.threads, 1, depth);
  if (options.gauge) {
    options.gauge->filled = 0;
    options.gauge->most = depth;
  }
  for (int i = 0; i <= depth; ++i) {
    state_->slots.push_back(std::make_unique<State::Slot>());
    state_->free.push_back(state_->slots.back().get());
  }
  for (int i = 0; i < threads; ++i) State::start_thread(state_);
}

void Prefetcher::announce(std::uint64_t first) {
  const std::lock_guard lock(state_->mutex);
  state_->shares.announce(first);
  state_->freed.notify_one();
}

void Prefetcher::stop() {
  const std::lock_guard lock(state_->mutex);
  state_->stop_now();
}

Prefetcher::~Prefetcher() {
  State& state = *state_;
  bool all_ended = false;
  {
    std::unique_lock lock(state.mutex);
    state.stop_now();
    const auto deadline = state.stopped_at + kPatience;
    const auto ended = [&] { return state.running == 0; };
    while (!(all_ended = ended()) && std::chrono::steady_clock::now() < deadline) {
      // Repeatedly: a thread may have checked `stop` earlier and begin to wait only now.
      for (std::thread& thread : state.threads) ::pthread_kill(thread.native_handle(), kInterrupt);
      state.ended.wait_for(lock, 5ms, ended);
    }
  }
  for (std::thread& thread : state.threads) {
    if (all_ended)
      thread.join();
    else
      thread.detach();
  }
  state.memory->close();
  if (!all_ended)
    log_error(cat("A prefetch thread of ", state.options.name, " is stuck in a read and was abandoned"));
  if (!state.copies_end()) keep_for_ever(state_);
}

HostBatch& Prefetcher::take() {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (state.in_use != nullptr) {
    state.free.push_back(std::exchange(state.in_use, nullptr));
    state.freed.notify_one();
  }
  const auto interrupted = [&] { return state.options.interrupted && *state.options.interrupted; };
  const auto arrived = [&] { return state.ready.count(state.next_take) > 0; };
  // Any thread may interrupt at any time; it is noticed within one period.
  for (std::uint64_t seen = state.items(); !state.filled.wait_for(lock, 20ms, arrived);) {
    if (const std::uint64_t now = state.items(); std::exchange(seen, now) != now && state.options.beat)
      state.options.beat();
    if (interrupted())
      throw Error(ErrorKind::aborted, "reading of " + state.options.name + " was interrupted");
  }
  const auto entry = state.ready.find(state.next_take);
  State::Slot* slot = entry->second;
  if (slot->problem) std::rethrow_exception(slot->problem);
  state.ready.erase(entry);
  state.show_ready();
  ++state.next_take;
  state.in_use = slot;
  return slot->batch;
}

}  // namespace banyan::data
