#include "banyan/data/epoch_order.hpp"

#include <numeric>
#include <utility>

#include "banyan/base/error.hpp"

namespace banyan::data {

std::uint64_t EpochOrder::record(std::uint64_t epoch, std::uint64_t position) const {
  if (!shuffle_) return position;
  return (*permutation(epoch))[position];
}

std::shared_ptr<const EpochOrder::Permutation> EpochOrder::permutation(std::uint64_t epoch) const {
  const std::lock_guard lock(mutex_);
  const int slot = static_cast<int>(epoch % 2);
  if (kept_[slot] && kept_epoch_[slot] == epoch) return kept_[slot];
  if (records_ > UINT32_MAX) runtime_failure("cannot shuffle ", records_, " records (2^32 - 1 at most)");
  auto order = std::make_shared<Permutation>(records_);
  std::iota(order->begin(), order->end(), 0u);
  for (std::uint64_t i = records_; i > 1; --i) {
    const ops::Philox4 draw = ops::philox(key_.key(), epoch, i);
    // 64 bits against at most 2^32 values: the bias of the remainder is below 2^-32.
    const std::uint64_t j = (static_cast<std::uint64_t>(draw.v[1]) << 32 | draw.v[0]) % i;
    std::swap((*order)[i - 1], (*order)[j]);
  }
  kept_[slot] = order;
  kept_epoch_[slot] = epoch;
  return order;
}

}  // namespace banyan::data
