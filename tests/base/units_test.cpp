#include "banyan/base/units.hpp"

#include <gtest/gtest.h>

namespace banyan {
namespace {

TEST(Units, Durations) {
  EXPECT_EQ(duration_text(0.2), "0 s");
  EXPECT_EQ(duration_text(59.6), "1 min 0 s");
  EXPECT_EQ(duration_text(3 * 3600 + 5 * 60), "3 h 5 min");
  EXPECT_EQ(duration_text(2 * 86400 + 4 * 3600), "2 d 4 h");
}

}  // namespace
}  // namespace banyan
