// BatchSource: what a solver may ask of a layer that reads a data set. Such layers implement it in addition
// to Layer; the solver finds it by dynamic_cast.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "banyan/data/assembler.hpp"
#include "banyan/data/dealing.hpp"
#include "banyan/data/prefetcher.hpp"
#include "banyan/observe/run_board.hpp"
#include "banyan/observe/timeline.hpp"

namespace banyan::data {

/// What makes a layer's batches, without the threads and the layer: for measuring each part separately.
struct InputPipeline {
  std::shared_ptr<const RecordSource> source;
  std::shared_ptr<const EpochOrder> order;
  std::shared_ptr<const ItemWriter> writer;
  Dealing dealing;
  AssemblerOptions assembly;
  Prefetcher::Options prefetch;
  /// Where the data set is another process's: fills batches instead of what is above.
  Prefetcher::MakeFill elsewhere = {};

  /// On its own threads, in the order of `shares`.
  std::unique_ptr<Prefetcher> start(Device& device, const ShareSequence& shares) const;
};

/// A source whose test batches are dealt whole to the devices.
class TestPassSource {
 public:
  virtual ~TestPassSource() = default;

  /// Test nets: announces a pass of `test_iter` batches. This device serves batches rank, rank +
  /// devices, ... below test_iter; afterwards consumed() is past all of them. An unfinished pass starts again
  /// from its beginning. A runtime failure in the training phase. Without an announcement, a pass is one
  /// batch per device.
  virtual void begin_test_pass(int test_iter) = 0;
  /// Leaves out what is left of the pass: consumed() is past all its batches, as if it had been complete.
  virtual void end_test_pass() = 0;
};

class BatchSource : public TestPassSource {
 public:
  /// As the layer would start it now. Opens the source.
  virtual InputPipeline pipeline() = 0;

  /// Items of the endless sequence (record = item modulo size) in the batches that all devices have taken so
  /// far, prefetched ones excluded: the same number on every device between iterations and between test
  /// passes, and what a snapshot stores. Within a test pass: where the pass began, until this device has
  /// taken its last batch of it.
  virtual std::uint64_t consumed() const = 0;

  /// Continues from item `consumed`. Prefetched batches are dropped.
  virtual void seek(std::uint64_t consumed) = 0;

  /// Training where somebody else deals the batches: batch `number`, counted from where the source stands
  /// when the first one is announced, comes after those announced before. From then on prepare() takes
  /// announced batches only.
  virtual void announce(std::uint64_t number) = 0;
  /// consumed() after `batches` batches more than `consumed`.
  virtual std::uint64_t position_after(std::uint64_t consumed, std::uint64_t batches) = 0;

  /// May be called from any thread: a prepare() that waits for records, now or later, throws
  /// ErrorKind::aborted.
  virtual void interrupt() = 0;

  /// Called on the thread that waits in prepare(), as long as records keep arriving: slow but alive. Set
  /// before the first prepare().
  virtual void set_beat(std::function<void()> beat) = 0;

  /// Called at the end of a run by the thread that prepares: stops reading, without waiting. The source's
  /// destructor then waits for the remainder of the readers' time limit, so that the limits of several
  /// sources run concurrently.
  virtual void stop() = 0;
  /// Threads started from now on record the batches that they make.
  virtual void trace_to(const Tracing& tracing) = 0;
  /// How many batches are ready, from the first prepare() on; on any thread, even after this is gone.
  virtual std::shared_ptr<const QueueGauge> gauge() const = 0;
};

}  // namespace banyan::data
