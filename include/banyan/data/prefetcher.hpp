// Prefetcher: fills batches ahead of time on its own threads.
//
// depth + 1 batches exist: up to `depth` are filled ahead while one is in use. Batches come out in the order
// of the shares, whatever the threads' timing. A failure on a thread is thrown by take() at the batch that
// failed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "banyan/data/dealing.hpp"
#include "banyan/device/device.hpp"
#include "banyan/observe/run_board.hpp"
#include "banyan/observe/timeline.hpp"
#include "banyan/tensor/shape.hpp"

namespace banyan::data {

/// A batch in host memory that the device copies from at full speed. Buffers keep their memory from one use
/// to the next.
struct HostBatch {
  /// What one output gets.
  struct Array {
    Shape shape;
    std::shared_ptr<void> memory;
    std::size_t capacity = 0;  ///< bytes
  };
  Share share;
  std::vector<Array> arrays;
  std::shared_ptr<Event>
      copied;  ///< recorded after the copies to the device; the buffers are refilled after it
};

/// What a reading thread may do with a device, until this is closed. Such a thread can outlive the device.
class HostMemory {
 public:
  explicit HostMemory(Device& device) : device_(&device) {}
  /// Grows a buffer to at least `bytes`. ErrorKind::aborted once this is closed.
  void reserve(std::size_t bytes, std::shared_ptr<void>& buffer, std::size_t& capacity);
  /// Device::make_current_for_helper() for the calling thread. ErrorKind::aborted once this is closed.
  void make_current();
  /// Once it has returned, the device is no longer touched.
  void close();
  /// Nobody waits for a batch any more: whoever waits for something may stop waiting.
  void end() { ending_ = true; }
  bool ending() const { return ending_; }

 private:
  Device& open_device();
  std::mutex mutex_;
  Device* device_;
  std::atomic<bool> ending_{false};
};

class Prefetcher {
 public:
  /// Fills the batch of `batch.share`.
  using Fill = std::function<void(HostBatch& batch)>;
  struct Options {
    int depth = 4;                                         ///< batches filled ahead
    int threads = 1;                                       ///< each fills whole batches
    std::string name;                                      ///< for messages
    std::shared_ptr<const std::atomic<bool>> interrupted;  ///< true: take() throws ErrorKind::aborted
    /// A counter that the fills increase as they progress. While take() waits and it grows, take() calls
    /// `beat`.
    std::shared_ptr<const std::atomic<std::uint64_t>> items = nullptr;
    std::function<void()> beat = nullptr;
    Tracing tracing = {};                         ///< where each thread opens a track
    std::shared_ptr<QueueGauge> gauge = nullptr;  ///< is kept up to date
  };

  /// Called once on each thread. It and what it returns must own what they use, and touch the device only
  /// through the memory: a read that nothing interrupts may outlive the prefetcher.
  using MakeFill = std::function<Fill(const std::shared_ptr<HostMemory>& memory)>;

  Prefetcher(Device& device, const ShareSequence& shares, MakeFill make_fill, const Options& options);
  /// Joins the threads. Waiting reads are interrupted: the system call fails with EINTR. A thread that does
  /// not end within about a second of stop(), in a wait that the kernel does not interrupt, is named in the
  /// log and left running; it no longer touches the device. Buffers that the device may still copy from (a
  /// copy not done within a second, or a failed device) are kept until the end of the process.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Of a ShareSequence of announced batches: the next one.
  void announce(std::uint64_t first);

  /// Tells the threads to end; take() must not be called afterwards. Does not wait.
  void stop();

  /// The next batch; it stays untouched until the next call. Rethrows a failure to fill it, on every call.
  HostBatch& take();

 private:
  struct State;
  explicit Prefetcher(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace banyan::data
