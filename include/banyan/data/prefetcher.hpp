// Prefetcher: fills batches ahead of time on threads of its own.
//
// depth + 1 batches exist: up to `depth` are filled ahead while one is in use. Batches come out in the order
// of the schedule whatever the threads' timing. What fails on a thread comes out of take() at the batch that
// failed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "banyan/data/augmenter.hpp"
#include "banyan/data/dealing.hpp"
#include "banyan/device/device.hpp"
#include "banyan/observe/timeline.hpp"

namespace banyan::data {

/// A batch in host memory that the device copies from at full speed. Buffers keep their memory from use to
/// use.
struct HostBatch {
  Share share;
  ItemShape item;  ///< of every item
  std::shared_ptr<void> data, labels;
  std::size_t data_bytes = 0, label_bytes = 0;  ///< capacities
  std::shared_ptr<Event>
      copied;  ///< recorded behind the copies to the device; the buffers are refilled after it
};

/// Grows a buffer of `device` to at least `bytes`.
void reserve_host(Device& device, std::size_t bytes, std::shared_ptr<void>& buffer, std::size_t& capacity);

class Prefetcher {
 public:
  /// Fills the batch of `batch.share`.
  using Fill = std::function<void(HostBatch& batch)>;
  struct Options {
    int depth = 4;                                         ///< batches filled ahead
    int threads = 1;                                       ///< each fills whole batches
    std::string name;                                      ///< for messages
    std::shared_ptr<const std::atomic<bool>> interrupted;  ///< true: take() throws ErrorKind::aborted
    /// What the fills count up as they get on. While take() waits and this grows, it calls `beat`.
    std::shared_ptr<const std::atomic<std::uint64_t>> items = nullptr;
    std::function<void()> beat = nullptr;
    Tracing tracing = {};  ///< where each thread opens a track
  };

  /// `make_fill` is called once on each thread. It and what it returns must own what they use: a thread that
  /// is stuck in a read when the prefetcher is destroyed is left behind.
  Prefetcher(Device& device, const Schedule& schedule, std::function<Fill()> make_fill,
             const Options& options);
  /// Waits for the threads, for about a second after stop(); a thread that does not end by then is named in
  /// the log and left behind.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Asks the threads to end; take() must not be called any more. Does not wait.
  void stop();

  /// The next batch; it stays untouched until the next call. Rethrows what failed while filling it, again and
  /// again.
  HostBatch& take();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace banyan::data
