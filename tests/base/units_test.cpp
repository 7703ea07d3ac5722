#include "banyan/base/units.hpp"

#include <gtest/gtest.h>

namespace banyan {
namespace {

TEST(Units, Sizes) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text(104857), "102.4 KiB");
  EXPECT_EQ(size_text(104858), "0.10 MiB");
  EXPECT_EQ(size_text(1300000), "1.24 MiB");
  EXPECT_EQ(size_text(std::int64_t{20} << 30), "20480.00 MiB");
}

TEST(Units, Durations) {
  EXPECT_EQ(duration_text(0.2), "0 s");
  EXPECT_EQ(duration_text(59.6), "1 min 0 s");
  EXPECT_EQ(duration_text(3 * 3600 + 5 * 60), "3 h 5 min");
  EXPECT_EQ(duration_text(2 * 86400 + 4 * 3600), "2 d 4 h");
}

}  // namespace
}  // namespace banyan
