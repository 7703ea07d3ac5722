#include "train/outputs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace banyan {
namespace {

using testing::ElementsAre;

TEST(Outputs, SharesAreSummedOfOthersTheFirstDevicesCount) {
  const std::vector<OutputLayout> layout = {{1, true}, {2, false}, {1, true}};
  const std::vector<double> a = {1, 2, 3, 4}, b = {10, 20, 30, 40}, c = {100, 200, 300, 400};
  EXPECT_THAT(combine_outputs(layout, {&a, &b, &c}, true), ElementsAre(111, 2, 3, 444));
  EXPECT_THAT(combine_outputs(layout, {&a, &b, &c}, false), ElementsAre(111, 0, 0, 444));
  EXPECT_THAT(combine_outputs(layout, {&a}, true), ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace banyan
