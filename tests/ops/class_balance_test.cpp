// Weights of few positive and many negative targets against plain loops.
#include "banyan/ops/class_balance.hpp"

#include "banyan/base/text.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

class ClassBalance : public DeviceTest {};

TEST_P(ClassBalance, WeighsEachClassByTheShareOfTheOther) {
  for (const std::int64_t samples : {1, 3})
    for (const std::int64_t length : {1, 7, 3000}) {
      SCOPED_TRACE(cat(samples, " x ", length));
      std::vector<double> targets, expected;
      for (std::int64_t sample = 0; sample < samples; ++sample) {
        double positive = 0, negative = 0;
        // The last sample has targets of one kind only; a third kind does not count.
        for (std::int64_t i = 0; i < length; ++i) {
          const double target = sample == 2 || i % 5 == 1 ? 1 : i % 5 == 3 ? 0.5 : 0;
          positive += target == 1;
          negative += target == 0;
          targets.push_back(target);
        }
        for (std::int64_t i = 0; i < length; ++i) {
          const double target = targets[targets.size() - static_cast<std::size_t>(length - i)];
          expected.push_back(target == 1   ? negative / (positive + negative)
                             : target == 0 ? 1.1 * positive / (positive + negative)
                                           : 0);
        }
      }
      const Tensor t = make({samples, length}, targets);
      Tensor counts = make_as(DType::f64, {2 * samples},
                              std::vector<double>(static_cast<std::size_t>(2 * samples), -1)),
             weights = empty({samples, length});
      ops::class_balance_weights(context(), t, samples, 1.1, counts, weights);
      expect_near(values(weights), expected, epsilon());
    }
}

BANYAN_ON_ALL_DEVICES(ClassBalance);

}  // namespace
}  // namespace banyan
