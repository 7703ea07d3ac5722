// SharedBatches: data sets that only the first of several processes sees. Its layers offer what makes their
// batches; those of the other processes get their shares, complete and augmented, from there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "banyan/data/batch_source.hpp"

namespace banyan::data {

/// What the other processes must know of a data set.
struct OfferedSource {
  std::string name;
  std::uint64_t records = 0;
  std::vector<std::uint64_t> parts;
  std::vector<Shape> item;  ///< shapes of the first item
  std::int64_t row_length = 0;
};

/// Which share is wanted, for whom, and as what.
struct WantedShare {
  std::string what;          ///< SharingScope::next_name()
  std::uint64_t reader = 0;  ///< of the process that wants it: each takes its shares in order
  Share share;
  DType dtype = DType::f32;
  Layout layout = Layout::contiguous;
};

/// On any thread.
class SharedBatches {
 public:
  using Cancelled = std::function<bool()>;
  virtual ~SharedBatches() = default;
  virtual bool has_data() const = 0;
  /// The run has failed: whoever waits for something stops waiting.
  virtual void end() = 0;
  /// Where it has: the first offer counts.
  virtual void offer(const std::string& what, const InputPipeline& pipeline) = 0;
  /// Elsewhere. Waits until it is offered; throws ErrorKind::aborted if the run ends before.
  virtual OfferedSource describe(const std::string& what) = 0;
  /// Elsewhere: fills the arrays of the batch. Throws what reading it threw, ErrorKind::aborted if the run
  /// ends or once cancelled() is true.
  virtual void fetch(const WantedShare& wanted, HostBatch& batch, HostMemory& memory,
                     const Cancelled& cancelled) = 0;
};

/// While it lives, the layers that this thread makes share batches, as those of this net of this run. A
/// scope, not an option of layers: only the few that read data sets look at it.
class SharingScope {
 public:
  /// `run`: the same for all devices of this process, and different for every other run in it.
  SharingScope(std::shared_ptr<SharedBatches> shared, std::string net, const void* run);
  ~SharingScope();
  SharingScope(const SharingScope&) = delete;
  SharingScope& operator=(const SharingScope&) = delete;

  /// The thread's; nullptr: there is none.
  static const SharingScope* current();
  const std::shared_ptr<SharedBatches>& shared() const { return shared_; }
  const std::string& net() const { return net_; }
  const void* run() const { return run_; }
  /// What SharedBatches calls the data set of the next layer of this name: a net may have several, and the
  /// nets of all processes have them in the same order.
  std::string next_name(const std::string& layer) const {
    const int number = ++layers_[layer];
    return net_ + (number > 1 ? "#" + std::to_string(number) : "") + "/" + layer;
  }

 private:
  std::shared_ptr<SharedBatches> shared_;
  std::string net_;
  const void* run_;
  mutable std::map<std::string, int> layers_;  ///< made so far
  const SharingScope* outer_;
};

/// The source and the writer of such a data set, for what asks them what it is; nothing can be read by them.
std::shared_ptr<RecordSource> source_elsewhere(const OfferedSource& offered);
std::shared_ptr<const ItemWriter> writer_elsewhere(const OfferedSource& offered);

}  // namespace banyan::data
