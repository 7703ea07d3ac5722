#include "ops/common/divisor.hpp"

#include <gtest/gtest.h>

#include <random>

namespace banyan::ops {
namespace {

constexpr std::uint32_t kMost = (std::uint32_t{1} << 31) - 1;

TEST(Divisor, DividesAsTheProcessorDoes) {
  std::mt19937 engine(1);
  std::vector<std::uint32_t> by{1,        2,         3,    5, 7, 9, 641, 65535, 65536, 65537, (1u << 30) - 1,
                                1u << 30, kMost - 1, kMost};
  for (int bits = 1; bits < 31; ++bits)
    for (int k = 0; k < 20; ++k) by.push_back(1 + engine() % (std::uint32_t{2} << bits) % kMost);
  for (const std::uint32_t divisor : by) {
    const Divisor<std::uint32_t> fast(divisor);
    const Divisor<std::int64_t> wide(divisor);
    std::vector<std::uint32_t> of{0, 1, divisor - 1, divisor, kMost - 1, kMost};
    // Around multiples a wrong rounding would show.
    for (int k = 0; k < 300; ++k) {
      const std::uint32_t multiple = engine() % (kMost / divisor + 1) * divisor;
      of.insert(of.end(), {multiple, multiple == 0 ? 0 : multiple - 1});
    }
    for (const std::uint32_t value : of) {
      ASSERT_EQ(fast.quotient(value), value / divisor) << value << " / " << divisor;
      ASSERT_EQ(Split<std::uint32_t>(value, fast).rest, value % divisor) << value << " % " << divisor;
      ASSERT_EQ(wide.quotient(value), value / divisor);
      // Too large for the product.
      const std::int64_t large = (std::int64_t{value} << 20) + kMost;
      ASSERT_EQ(wide.quotient(large), large / divisor);
      ASSERT_EQ(Split<std::int64_t>(large, wide).rest, large % divisor);
    }
  }
  EXPECT_EQ(Divisor<std::int64_t>(0).value(), 0);  // of an empty tensor
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_EQ(Divisor<std::int64_t>(huge).quotient(3 * huge + 5), 3);
  EXPECT_EQ(Divisor<std::int64_t>(huge).quotient(5), 0);
}

}  // namespace
}  // namespace banyan::ops
