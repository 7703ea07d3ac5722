#include "banyan/ops/device_value.hpp"

#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

class DeviceValue : public DeviceTest {
 protected:
  struct Pair {
    double first, second;
  };
};

/// Each copy on the stream gets the value last written before it was enqueued, although the host has long
/// moved on.
TEST_P(DeviceValue, IsWrittenInTheOrderOfTheStream) {
  ops::DeviceValue<Pair> value(device());
  constexpr std::int64_t kWrites = 200;
  Tensor seen(device(), {2 * kWrites}, DType::f64);
  std::vector<double> expected;
  for (std::int64_t i = 0; i < kWrites; ++i) {
    const Pair pair{static_cast<double>(i), -0.1 * static_cast<double>(i)};
    value.write(context(), pair);
    context().stream().copy(seen.slice(2 * i, Shape{2}).raw(), value.get(), sizeof(Pair));
    expected.insert(expected.end(), {pair.first, pair.second});
  }
  EXPECT_EQ(values(seen), expected);
}

BANYAN_ON_ALL_DEVICES(DeviceValue);

}  // namespace
}  // namespace banyan
