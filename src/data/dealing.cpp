#include "banyan/data/dealing.hpp"

#include <algorithm>

#include "banyan/base/error.hpp"

namespace banyan::data {

Dealing::Dealing(const DealingRule& rule) : rule_(rule) {
  if (rule.records == 0) bad_input("cannot deal batches from a source without records");
  if (rule.batch == 0) bad_input("batch_size must be positive");
  if (rule.devices < 1 || rule.rank < 0 || rule.rank >= rule.devices)
    runtime_failure("device ", rule.rank, " of ", rule.devices, " cannot be dealt items");
}

std::uint64_t Dealing::batch_end(std::uint64_t first) const {
  const std::uint64_t end = first + rule_.batch;
  if (rule_.epoch_end == EpochEnd::wrap) return end;
  return std::min(end, (epoch(first) + 1) * rule_.records);
}

std::uint64_t Dealing::batch_start(std::uint64_t first, std::uint64_t t) const {
  if (rule_.epoch_end == EpochEnd::wrap) return first + t * rule_.batch;
  const auto batches = [this](std::uint64_t items) { return (items + rule_.batch - 1) / rule_.batch; };
  const std::uint64_t end = (epoch(first) + 1) * rule_.records, left = batches(end - first);
  if (t < left) return first + t * rule_.batch;
  const std::uint64_t in_epoch = batches(rule_.records);
  return end + (t - left) / in_epoch * rule_.records + (t - left) % in_epoch * rule_.batch;
}

Share Dealing::deal(std::uint64_t first) const {
  const auto rank = static_cast<std::uint64_t>(rule_.rank),
             devices = static_cast<std::uint64_t>(rule_.devices);
  const std::uint64_t end = batch_end(first), all = end - first;
  Share share;
  share.first = first + rank;
  share.stride = devices;
  share.batch = first;
  share.count = all > rank ? (all - rank - 1) / devices + 1 : 0;
  share.consumed = end;
  share.ends_epoch = epoch(end) > epoch(first);
  return share;
}

ShareSequence::ShareSequence(const Dealing& dealing, std::uint64_t first, std::uint64_t test_iter)
    : dealing_(dealing), test_iter_(test_iter), first_(first) {
  if (test_iter_ > 0) begin_pass(first);
}

ShareSequence ShareSequence::training(const Dealing& dealing, std::uint64_t first) {
  return {dealing, first, 0};
}

ShareSequence ShareSequence::test(const Dealing& dealing, std::uint64_t first, std::uint64_t test_iter) {
  if (test_iter == 0) runtime_failure("a test pass needs at least one batch");
  return {dealing, first, test_iter};
}

ShareSequence ShareSequence::announced(const Dealing& dealing) {
  ShareSequence shares{dealing, 0, 0};
  shares.announced_.emplace();
  return shares;
}

void ShareSequence::announce(std::uint64_t first) {
  if (!announced_) runtime_failure("a batch was announced to a sequence that goes on by itself");
  announced_->push_back(first);
}

bool ShareSequence::has_shares() const {
  return test_iter_ == 0 || static_cast<std::uint64_t>(dealing_.rule().rank) < test_iter_;
}

void ShareSequence::begin_pass(std::uint64_t first) {
  pass_ = first;
  turn_ = static_cast<std::uint64_t>(dealing_.rule().rank);
  first_ = dealing_.batch_start(first, turn_);
}

Share ShareSequence::next() {
  if (!has_shares()) runtime_failure("this device has no batch in a test pass of ", test_iter_, " batches");
  if (test_iter_ > 0) return next_whole();
  if (announced_) {
    first_ = announced_->front();
    announced_->pop_front();
  }
  const Share share = dealing_.deal(first_);
  first_ = share.consumed;
  return share;
}

Share ShareSequence::next_whole() {
  const auto devices = static_cast<std::uint64_t>(dealing_.rule().devices);
  Share share;
  share.first = share.batch = first_;
  share.count = dealing_.batch_end(first_) - first_;
  // One step of all devices: batches turn - rank to turn - rank + devices - 1. Device 0, which logs, has the
  // first.
  const std::uint64_t step = std::min(devices, test_iter_ - turn_);
  const std::uint64_t step_end = dealing_.batch_start(first_, step);
  share.ends_epoch = dealing_.epoch(step_end) > dealing_.epoch(first_);
  if (turn_ + devices < test_iter_) {
    share.consumed = pass_;
    turn_ += devices;
    first_ = step_end;
  } else {
    share.consumed = dealing_.batch_start(first_, test_iter_ - turn_);
    begin_pass(share.consumed);
  }
  return share;
}

std::uint64_t batches_served(std::uint64_t test_iter, int rank, int devices) {
  const auto r = static_cast<std::uint64_t>(rank);
  return r < test_iter ? (test_iter - 1 - r) / static_cast<std::uint64_t>(devices) + 1 : 0;
}

}  // namespace banyan::data
