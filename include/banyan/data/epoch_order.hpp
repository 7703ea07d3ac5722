// EpochOrder: the order in which an epoch visits the records.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "banyan/ops/random.hpp"

namespace banyan::data {

/// Shuffled: one permutation per (seed, stream, epoch), the same on every device (Fisher-Yates with Philox
/// draws). Otherwise the records' own order. Thread-safe.
class EpochOrder {
 public:
  EpochOrder(std::uint64_t records, bool shuffle, const ops::RandomKey& key)
      : records_(records), shuffle_(shuffle), key_(key) {}
  /// The record at `position` of `epoch`.
  std::uint64_t record(std::uint64_t epoch, std::uint64_t position) const;

 private:
  using Permutation = std::vector<std::uint32_t>;
  std::shared_ptr<const Permutation> permutation(std::uint64_t epoch) const;

  std::uint64_t records_;
  bool shuffle_;
  ops::RandomKey key_;
  mutable std::mutex mutex_;
  // A batch spans at most two epochs.
  mutable std::shared_ptr<const Permutation> kept_[2];
  mutable std::uint64_t kept_epoch_[2] = {0, 0};
};

}  // namespace banyan::data
