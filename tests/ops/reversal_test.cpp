// The factor of reversed gradients, against its formula.
#include "banyan/ops/reversal.hpp"

#include <cmath>

#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

class Reversal : public DeviceTest {};

TEST_P(Reversal, GrowsWithTheIterations) {
  Tensor factor = empty({1});
  const ops::ReversalSchedule schedule{0.25, 2, 3, 40, 3};
  for (const std::uint64_t draw : {0, 2, 3, 60, 119, 120, 121, 3000}) {
    const double progress = std::min(1.0, std::floor(static_cast<double>(draw) / 3) / 40);
    ops::reversal_factor(context(), schedule, on_device({1, 2, draw}).iteration, factor);
    expect_near(values(factor), {-(0.25 + 1.75 * (2 / (1 + std::exp(-3 * progress)) - 1))}, 4 * epsilon());
  }
}

BANYAN_ON_ALL_DEVICES(Reversal);

}  // namespace
}  // namespace banyan
