#include "banyan/base/json.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace banyan {
namespace {

TEST(Json, NumbersReadBackAsTheSame) {
  for (const double value :
       {0.0, 1.0, -2.5, 0.1, 1.0 / 3, 1e300, 5e-324, 1763838000.123456, 9007199254740993.0})
    EXPECT_EQ(std::strtod(json_number(value).c_str(), nullptr), value) << json_number(value);
  EXPECT_EQ(json_number(0.1), "0.1");
  EXPECT_EQ(json_number(20), "20");
}

TEST(Json, WhatIsNoNumberIsAString) {
  EXPECT_EQ(json_number(std::nan("")), "\"nan\"");
  EXPECT_EQ(json_number(std::numeric_limits<double>::infinity()), "\"inf\"");
  EXPECT_EQ(json_number(-std::numeric_limits<double>::infinity()), "\"-inf\"");
}

TEST(Json, ObjectsHoldTheirMembersInOrder) {
  JsonObject inner, outer;
  inner.add("x", -1);
  outer.add("text", "a \"b\"\n")
      .add("yes", true)
      .add("large", std::uint64_t{1} << 63)
      .raw("inner", inner.text());
  outer.array("list", std::vector<double>{1, 2.5}, json_number)
      .array("none", std::vector<double>{}, json_number);
  EXPECT_EQ(outer.text(), R"({"text": "a \"b\"\u000a", "yes": true, "large": 9223372036854775808, )"
                          R"("inner": {"x": -1}, "list": [1, 2.5], "none": []})");
  EXPECT_EQ(JsonObject().text(), "{}");
}

}  // namespace
}  // namespace banyan
