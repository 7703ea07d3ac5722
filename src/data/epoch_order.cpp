#include "banyan/data/epoch_order.hpp"

#include <numeric>
#include <utility>

#include "banyan/base/error.hpp"

namespace banyan::data {

std::uint64_t EpochOrder::record(std::uint64_t epoch, std::uint64_t position) const {
  if (!shuffle_) return position;
  return (*permutation(epoch))[position / together_] * together_ + position % together_;
}

std::shared_ptr<const EpochOrder::Permutation> EpochOrder::permutation(std::uint64_t epoch) const {
  const std::lock_guard lock(mutex_);
  const int slot = static_cast<int>(epoch % 2);
  if (kept_[slot] && kept_epoch_[slot] == epoch) return kept_[slot];
  if (groups_ > UINT32_MAX) runtime_failure("cannot shuffle ", groups_, " records (2^32 - 1 at most)");
  // The draws of a part have counters from its first record on; those of the parts' own order follow far
  // above.
  constexpr std::uint64_t kPartsCounter = std::uint64_t{1} << 40;
  const auto shuffle = [&](std::uint32_t* values, std::uint64_t count, std::uint64_t counter) {
    for (std::uint64_t i = count; i > 1; --i) {
      const ops::Philox4 draw = ops::philox(key_.key(), epoch, counter + i);
      // 64 bits against at most 2^32 values: the bias of the remainder is below 2^-32.
      const std::uint64_t j = (static_cast<std::uint64_t>(draw.v[1]) << 32 | draw.v[0]) % i;
      std::swap(values[i - 1], values[j]);
    }
  };
  const std::vector<std::uint64_t> sizes = parts_.empty() ? std::vector{groups_} : parts_;
  std::vector<std::uint64_t> begins(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), begins.begin(), std::uint64_t{0});
  Permutation parts(sizes.size());
  std::iota(parts.begin(), parts.end(), 0u);
  shuffle(parts.data(), parts.size(), kPartsCounter);
  auto order = std::make_shared<Permutation>(groups_);
  std::uint32_t* next = order->data();
  for (const std::uint32_t part : parts) {
    std::iota(next, next + sizes[part], static_cast<std::uint32_t>(begins[part]));
    shuffle(next, sizes[part], begins[part]);
    next += sizes[part];
  }
  kept_[slot] = order;
  kept_epoch_[slot] = epoch;
  return order;
}

}  // namespace banyan::data
