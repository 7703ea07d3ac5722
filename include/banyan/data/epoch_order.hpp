// EpochOrder: the order in which an epoch visits the records.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "banyan/ops/random.hpp"

namespace banyan::data {

/// Shuffled: one permutation per (seed, stream, epoch), the same on every device (Fisher-Yates with Philox
/// draws); the records of one part stay together, parts and the records within each are shuffled. Otherwise
/// the records' own order. Thread-safe.
class EpochOrder {
 public:
  /// `parts`: the numbers of records of each, in order; empty: one part. Without parts, so many records stay
  /// `together` in their own order; their number divides that of all.
  EpochOrder(std::uint64_t records, bool shuffle, const ops::RandomKey& key,
             std::vector<std::uint64_t> parts = {}, std::uint64_t together = 1)
      : groups_(records / together),
        together_(together),
        shuffle_(shuffle),
        key_(key),
        parts_(std::move(parts)) {}
  /// The record at `position` of `epoch`.
  std::uint64_t record(std::uint64_t epoch, std::uint64_t position) const;

 private:
  using Permutation = std::vector<std::uint32_t>;
  std::shared_ptr<const Permutation> permutation(std::uint64_t epoch) const;

  std::uint64_t groups_, together_;
  bool shuffle_;
  ops::RandomKey key_;
  std::vector<std::uint64_t> parts_;
  mutable std::mutex mutex_;
  // A batch spans at most two epochs.
  mutable std::shared_ptr<const Permutation> kept_[2];
  mutable std::uint64_t kept_epoch_[2] = {0, 0};
};

}  // namespace banyan::data
