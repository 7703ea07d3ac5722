// Dealing: which items of a data set belong to which batch of which device. Pure arithmetic, no I/O.
//
// Items are numbered endlessly: item s is record s mod R of epoch s div R, where R is the number of records.
// Training deals item by item: a global batch holds `batch` consecutive items, of which device r of N takes
// items r, r + N, ..., so that together the devices' shares are one device's batch. Tests deal batch by
// batch: the whole of batch t of a pass goes to device t mod N, so that the result does not depend on N.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace banyan::data {

enum class EpochEnd : std::uint8_t {
  wrap,     ///< batches continue past the end of the records
  partial,  ///< the last batch of an epoch ends with it
};

struct DealingRule {
  std::uint64_t records = 1;
  std::uint64_t batch = 1;  ///< items of a batch of all devices (training) or of a whole batch (test)
  int rank = 0, devices = 1;
  EpochEnd epoch_end = EpochEnd::wrap;
};

/// One device's part of one step: items first, first + stride, ... (count of them; may be 0).
struct Share {
  std::uint64_t first = 0, stride = 1, count = 0;
  std::uint64_t batch = 0;     ///< first item of the whole batch, on every device
  std::uint64_t consumed = 0;  ///< BatchSource::consumed() once this share has been taken
  bool ends_epoch = false;     ///< the step (of all devices) reaches the end of the records
  std::uint64_t item(std::uint64_t i) const { return first + i * stride; }
};

class Dealing {
 public:
  /// Throws bad_input for no records, an empty batch or a rank outside [0, devices).
  explicit Dealing(const DealingRule& rule);

  const DealingRule& rule() const { return rule_; }
  std::uint64_t record(std::uint64_t item) const { return item % rule_.records; }
  std::uint64_t epoch(std::uint64_t item) const { return item / rule_.records; }
  /// First item after the batch that starts at item `first`.
  std::uint64_t batch_end(std::uint64_t first) const;
  /// First item of batch `t` of a sequence of batches that starts at item `first`.
  std::uint64_t batch_start(std::uint64_t first, std::uint64_t t) const;
  /// This device's items of the global batch that starts at item `first`.
  Share deal(std::uint64_t first) const;

 private:
  DealingRule rule_;
};

/// The shares of one device in the order in which it takes them.
class ShareSequence {
 public:
  /// Global batches one after the other, dealt item by item.
  static ShareSequence training(const Dealing& dealing, std::uint64_t first);
  /// Passes of `test_iter` batches one after the other, dealt whole.
  static ShareSequence test(const Dealing& dealing, std::uint64_t first, std::uint64_t test_iter);
  /// Global batches in the order in which they are announced, dealt item by item.
  static ShareSequence announced(const Dealing& dealing);

  /// The global batch that starts at item `first` comes after those announced before.
  void announce(std::uint64_t first);
  /// Is the next share known?
  bool ready() const { return !announced_ || !announced_->empty(); }
  /// Does this device ever get a share?
  bool has_shares() const;
  Share next();

 private:
  ShareSequence(const Dealing& dealing, std::uint64_t first, std::uint64_t test_iter);
  void begin_pass(std::uint64_t first);
  Share next_whole();

  Dealing dealing_;
  std::uint64_t test_iter_;                             // 0: training
  std::uint64_t first_;                                 // of the next batch of this device
  std::uint64_t pass_ = 0;                              // first item of the test pass
  std::uint64_t turn_ = 0;                              // number of the next batch within the pass
  std::optional<std::deque<std::uint64_t>> announced_;  // first items
};

/// Batches of a pass that device `rank` of `devices` serves.
std::uint64_t batches_served(std::uint64_t test_iter, int rank, int devices);

}  // namespace banyan::data
