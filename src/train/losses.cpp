#include "losses.hpp"

#include <cmath>

namespace banyan {
namespace {

/// Losses are read late, so that a GPU's host need not wait for it in every iteration.
constexpr std::int64_t kSlack = 64;
static_assert(kSlack > Losses::kGatherEvery, "a loss is read before its place in the ring is used again");

}  // namespace

void LossInterval::add(std::int64_t iteration, double loss) {
  if (!std::isfinite(loss)) {
    if (!first_not_finite) first_not_finite = iteration;
    return;
  }
  ++count;
  sum += loss;
  squares += loss * loss;
}

void LossInterval::add(const LossInterval& next) {
  count += next.count;
  sum += next.sum;
  squares += next.squares;
  if (!first_not_finite) first_not_finite = next.first_not_finite;
}

Losses::Losses(Peers& peers, int average_loss)
    : peers_(peers), ring_(peers.context().device(), average_loss + kSlack), smoothed_(average_loss) {
  peers_.board().losses = &ring_;
}

void Losses::push(const Tensor& loss, std::int64_t iteration) {
  ring_.push(peers_.context(), loss, iteration);
}

void Losses::gather(std::int64_t through) {
  for (; gathered_ <= through; ++gathered_) {
    double loss = 0;
    if (peers_.joined())
      loss = ring_.get(gathered_);
    else
      for (const DeviceBoard& board : peers_.boards()) loss += board.losses->get(gathered_);
    smoothed_.add(loss);
    interval_.add(gathered_, loss);
  }
}

}  // namespace banyan
