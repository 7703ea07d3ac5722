// Factors of guided dropout against their definition.
#include "banyan/ops/guided_dropout.hpp"

#include "banyan/base/error.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using Values = std::vector<double>;

class GuidedDropout : public DeviceTest {
 protected:
  const ops::RandomKey key_{11, ops::stream_of("guided"), 5};
  Values factors_of(const Tensor& guidance, const ops::Guidance& how, const ops::SampleIndex& samples = {}) {
    const std::int64_t batch = guidance.shape()[0];
    Tensor sums(device(), Shape{batch}, DType::f64), factors = empty({batch, guidance.shape()[1]});
    ops::guided_factors(context(), guidance, how, on_device(key_), samples, sums, factors);
    return values(factors);
  }
};

TEST_P(GuidedDropout, KeepsWhatIsAboveTheThreshold) {
  const Tensor guidance = make({3, 4}, {0.5, 0.25, 1, -3, 2, 2, 2, 2, -1, 0, 0.25, -5});
  expect_near(factors_of(guidance, {false, 0.25, 1}), {2, 0, 2, 0, 1, 1, 1, 1, 0, 0, 0, 0}, 0);
  for (const bool drawn : {false, true})
    EXPECT_TRUE(factors_of(empty({0, 3}), {drawn, 0, 1}).empty()) << drawn;
}

TEST_P(GuidedDropout, KeepsWithTheProbabilityOfTheGuidance) {
  // Channels that are a multiple of four or not; the last ones are worth several threads.
  for (const Shape& shape : {Shape{3, 7}, Shape{3, 8}, Shape{5, 1}, Shape{70, 901}}) {
    SCOPED_TRACE(shape.to_string());
    const std::int64_t channels = shape[1];
    const Values guidance = rounded(random_values(shape.count(), 1, -3, 3));
    const double scale = 1.5;
    Values expected;
    for (std::int64_t n = 0; n < shape[0]; ++n) {
      Values chances;
      double sum = 0;
      for (std::int64_t c = 0; c < channels; ++c) {
        chances.push_back(1 / (1 + std::exp(-scale * guidance[static_cast<std::size_t>(n * channels + c)])));
        sum += chances.back();
      }
      for (std::int64_t c = 0; c < channels; ++c) {
        const auto bits = ops::random_quad(key_, 2 + n * 4, c / 4).v[c % 4];
        const bool kept = static_cast<double>(ops::uniform01(bits)) < chances[static_cast<std::size_t>(c)];
        expected.push_back(kept ? static_cast<double>(channels) / sum : 0);
      }
    }
    for (const Layout layout : kLayouts)
      expect_near(factors_of(make({shape[0], channels, 1, 1}, guidance, layout), {true, 0, scale}, {2, 4}),
                  expected, 4 * epsilon() + 1e-13);  // added up in another order
  }
}

TEST_P(GuidedDropout, KeepsAllOrNothingFarFromZero) {
  const Tensor high = make({2, 8}, Values(16, 1000)), low = make({2, 8}, Values(16, -1000));
  EXPECT_EQ(factors_of(high, {true, 0, 1}), Values(16, 1));
  EXPECT_EQ(factors_of(low, {true, 0, 1}), Values(16, 0));
}

TEST_P(GuidedDropout, RefusesWhatDoesNotFit) {
  const Tensor guidance = make({2, 2}, {1, 2, 3, 4});
  Tensor sums(device(), Shape{2}, DType::f64), narrow(device(), Shape{2}, DType::f32),
      factors = empty({2, 3}), flat = empty({4}), fits = empty({2, 2});
  const auto run = [&](Tensor& to_sums, Tensor& to) {
    ops::guided_factors(context(), guidance, {}, on_device(key_), {}, to_sums, to);
  };
  EXPECT_THROW(run(sums, factors), Error);
  EXPECT_THROW(run(sums, flat), Error);
  EXPECT_THROW(run(narrow, fits), Error);
}

BANYAN_ON_ALL_DEVICES(GuidedDropout);

}  // namespace
}  // namespace banyan
