// Virtual CPU devices: each has its own memory (in fact an account), threads for its operators, and streams.
//
//   inline stream        enqueue runs the work; an event is done as soon as it is recorded
//   asynchronous stream  one thread takes the work from a queue, in order; random pauses before each piece
//                        shuffle the order of events among streams
//
// An event counts its records. A wait is for the records made before the wait was enqueued, as in CUDA, and
// records are carried out even after failed work: a failure on one stream must not hang another.
#include <omp.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <random>
#include <thread>

#include "banyan/base/error.hpp"
#include "banyan/device/cores.hpp"
#include "banyan/device/cpu_stream.hpp"
#include "banyan/device/device.hpp"
#include "device/cpu/before_devices.hpp"

namespace banyan {
namespace {

// Set by a static object of another file, so it is constant-initialized.
using Preparation = void (*)();
constinit Preparation prepare_devices = nullptr;

constexpr std::size_t kAlignment = 64;                   // bytes: a cache line, a vector register
constexpr std::size_t kHugePage = std::size_t{1} << 21;  // bytes
/// A block's end of at least so much gets a huge page too: not much of it is wasted.
constexpr std::size_t kNearlyAPage = kHugePage / 4 * 3;

/// nullptr when out of memory. Large blocks ask for huge pages: activations of many MiB are walked linearly,
/// and without huge pages the page faults of their first use would cost more than the computation, and
/// finding a page later up to a twentieth of it (LeNet).
void* allocate_aligned(std::size_t bytes) {
  if (bytes % kHugePage >= kNearlyAPage) {
    bytes += kHugePage - bytes % kHugePage;
    if (bytes == 0) return nullptr;  // more than there are addresses
  }
  const bool large = bytes >= kHugePage;
  void* data = nullptr;
  if (posix_memalign(&data, large ? kHugePage : kAlignment, bytes == 0 ? kAlignment : bytes) != 0)
    return nullptr;
  if (large)
    madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // advice only: failure changes nothing
  return data;
}

/// With all threads if there is a lot to clear: at first use, each thread clears the pages that it touches.
void zero_in_parallel(void* to, std::size_t bytes, int threads) {
  const std::size_t pieces = (bytes + kHugePage - 1) / kHugePage;
  char* const start = static_cast<char*>(to);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && pieces > 2)
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const std::size_t at = piece * kHugePage;
    std::memset(start + at, 0, std::min(kHugePage, bytes - at));
  }
}

class EventState {
 public:
  /// Number of this record.
  std::uint64_t record() {
    const std::lock_guard lock(mutex_);
    return ++recorded_;
  }
  std::uint64_t recorded() const {
    const std::lock_guard lock(mutex_);
    return recorded_;
  }
  void reached(std::uint64_t record) {
    {
      const std::lock_guard lock(mutex_);
      if (record > reached_) reached_ = record;
    }
    changed_.notify_all();
  }
  void wait_for(std::uint64_t record) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached_ >= record; });
  }
  bool done() const {
    const std::lock_guard lock(mutex_);
    return reached_ >= recorded_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::uint64_t recorded_ = 0, reached_ = 0;
};

class CpuEvent : public Event {
 public:
  void synchronize() override { state_->wait_for(state_->recorded()); }
  bool done() override { return state_->done(); }
  /// Outlives the event in the queues of streams.
  const std::shared_ptr<EventState>& state() const { return state_; }

 private:
  std::shared_ptr<EventState> state_ = std::make_shared<EventState>();
};

/// Copies and events in terms of enqueue.
class CpuStreamBase : public CpuStream {
 public:
  using CpuStream::CpuStream;
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0 || to == from) return;
    enqueue([=] { std::memcpy(to, from, bytes); });
  }
  void zero(void* to, std::size_t bytes) override {
    if (bytes == 0) return;
    enqueue([to, bytes, threads = device().threads()] { zero_in_parallel(to, bytes, threads); });
  }

 protected:
  static const std::shared_ptr<EventState>& state_of(const Event& event) {
    return static_cast<const CpuEvent&>(event).state();
  }
};

class InlineStream final : public CpuStreamBase {
 public:
  explicit InlineStream(Device& device) : CpuStreamBase(device, true) {}
  void record(Event& event) override {
    const auto& state = state_of(event);
    state->reached(state->record());
  }
  void wait(const Event& event) override {  // blocks where the event belongs to an asynchronous stream
    const auto& state = state_of(event);
    state->wait_for(state->recorded());
  }
  void synchronize() override {}

 private:
  void push(std::function<void()> work) override { work(); }
};

class AsynchronousStream final : public CpuStreamBase {
 public:
  AsynchronousStream(Device& device, const std::string& name, unsigned max_delay_us)
      : CpuStreamBase(device, false), max_delay_us_(max_delay_us), thread_([this] { work_through(); }) {
    // Linux shows 15 characters of a thread's name.
    pthread_setname_np(thread_.native_handle(), (device.name() + " " + name).substr(0, 15).c_str());
  }
  ~AsynchronousStream() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void record(Event& event) override {
    const auto state = state_of(event);
    append({[state, number = state->record()] { state->reached(number); }, true});
  }
  void wait(const Event& event) override {
    const auto state = state_of(event);
    append({[state, number = state->recorded()] { state->wait_for(number); }, true});
  }
  void synchronize() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  struct Item {
    std::function<void()> work;
    bool always = false;  ///< events: carried out after a failure too
  };

  void push(std::function<void()> work) override { append({std::move(work), false}); }

  void append(Item item) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(item));
    }
    changed_.notify_all();
  }

  void work_through() {
    device().make_current();
    static std::atomic<unsigned> streams{0};
    std::minstd_rand random(streams.fetch_add(1) + 1);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return !queue_.empty() || closing_; });
      if (queue_.empty()) return;
      Item item = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      const bool dropped = failure_ != nullptr && !item.always;
      lock.unlock();
      std::exception_ptr failure;
      if (!dropped) failure = carry_out(item, random);
      item = {};  // releases what the closure held before the stream counts as idle
      lock.lock();
      if (failure && !failure_) failure_ = failure;
      busy_ = false;
      if (queue_.empty()) changed_.notify_all();
    }
  }

  std::exception_ptr carry_out(const Item& item, std::minstd_rand& random) const {
    if (max_delay_us_ > 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random() % (max_delay_us_ + 1)));
    try {
      item.work();
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  const unsigned max_delay_us_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  std::exception_ptr failure_;
  bool busy_ = false, closing_ = false;
  std::thread thread_;  // last: it uses everything above
};

class CpuDevice final : public Device {
 public:
  CpuDevice(int ordinal, const CpuDeviceOptions& options)
      : Device(DeviceKind::cpu, ordinal, cat("cpu:", ordinal), options.threads, options.math),
        options_(options),
        all_cores_(allowed_cores()) {}

  bool runs_inline() const override { return !options_.asynchronous; }
  void make_current() override {
    omp_set_num_threads(threads());
    if (!options_.cores.empty() && !run_on_cores(options_.cores))
      runtime_failure(name(), " cannot be bound to its cores: ", std::strerror(errno));
  }
  void make_current_for_helper() override {
    omp_set_num_threads(1);
    if (options_.cores.empty()) return;
    // A thread inherits the cores of the one that starts it.
    if (!run_on_cores(all_cores_))
      runtime_failure("a helper thread of ", name(),
                      " cannot be allowed on all cores: ", std::strerror(errno));
  }
  std::unique_ptr<Stream> create_stream(const std::string& name) override {
    if (options_.asynchronous)
      return std::make_unique<AsynchronousStream>(*this, name, options_.max_delay_us);
    return std::make_unique<InlineStream>(*this);
  }
  std::unique_ptr<Event> create_event() override { return std::make_unique<CpuEvent>(); }
  std::shared_ptr<void> allocate_host(std::size_t bytes) override {
    void* data = allocate_aligned(bytes);
    if (data == nullptr) runtime_failure("out of host memory for ", name(), ": asked for ", bytes, " bytes");
    return {data, [](void* block) { std::free(block); }};
  }

 private:
  void* raw_allocate(std::size_t bytes) override { return allocate_aligned(bytes); }
  void raw_release(void* data) noexcept override { std::free(data); }

  CpuDeviceOptions options_;
  std::vector<int> all_cores_;  // of the thread that made the device
};

}  // namespace

void before_cpu_devices(void (*prepare)()) { prepare_devices = prepare; }

std::unique_ptr<Device> make_cpu_device(int ordinal, const CpuDeviceOptions& options) {
  if (options.threads < 1) bad_input("cpu:", ordinal, " needs at least 1 thread, not ", options.threads);
  for (const int core : options.cores)
    if (core < 0 || core >= CPU_SETSIZE) bad_input("cpu:", ordinal, " cannot be bound to core ", core);
  static const bool prepared = (prepare_devices != nullptr ? prepare_devices() : void(), true);
  static_cast<void>(prepared);
  return std::make_unique<CpuDevice>(ordinal, options);
}

}  // namespace banyan
