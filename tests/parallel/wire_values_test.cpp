#include "parallel/wire_values.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "banyan/device/context.hpp"
#include "banyan/ops/narrow.hpp"

namespace banyan::parallel {
namespace {

std::vector<float> through(const std::vector<float>& values, DType type) {
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<char> packed(packed_bytes(count, type));
  pack(values.data(), count, type, packed.data());
  std::vector<float> back(values.size());
  unpack(packed.data(), count, type, back.data());
  return back;
}

/// Every f16, by its definition.
float half_value(int bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                        : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(WireValues, EveryF16StaysWhatItIs) {
  std::vector<float> values;
  for (int bits = 0; bits < 1 << 16; ++bits)
    if ((bits >> 10 & 31) != 31) values.push_back(half_value(bits));
  const std::vector<float> back = through(values, DType::f16);  // the largest one is 65504: the scale is 1/2
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::abs(values[i]) >= 0x1p-13f) {
      ASSERT_EQ(back[i], values[i]);
    } else {
      ASSERT_LE(std::abs(back[i] - values[i]), 0x1p-24f);  // halved, it may lose its last bit
    }
  }
}

TEST(WireValues, RoundsToTheNearest) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> exponent(-9, 0);
  std::vector<float> values;
  for (int i = 0; i < 100000; ++i) {
    const float size = std::exp2(exponent(random));
    values.push_back(i % 2 == 0 ? size : -size);
  }
  // Half a unit in the last of 11 and of 8 digits.
  const std::vector<float> half = through(values, DType::f16), brain = through(values, DType::bf16);
  double worst_half = 0, worst_brain = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    worst_half = std::max<double>(worst_half, std::abs(half[i] / values[i] - 1));
    worst_brain = std::max<double>(worst_brain, std::abs(brain[i] / values[i] - 1));
  }
  EXPECT_LE(worst_half, 0x1p-11);
  EXPECT_GT(worst_half, 0x1p-12);
  EXPECT_LE(worst_brain, 0x1p-8);
  EXPECT_GT(worst_brain, 0x1p-9);
  // Ties go to the even one: 1 + 2^-11 is half way between 1 and 1 + 2^-10.
  const std::vector<float> ties = through({1, 1 + 0x1p-11f, 1 + 3 * 0x1p-11f}, DType::f16);
  EXPECT_EQ(ties[1], 1);
  EXPECT_EQ(ties[2], 1 + 0x1p-9f);
}

/// Gradients are often smaller than the smallest f16.
TEST(WireValues, F16KeepsSmallAndLargeValues) {
  for (const float size : {1e-30f, 1e-9f, 1.0f, 1e9f, 1e30f}) {
    const std::vector<float> back = through({size, -size / 3, size / 100}, DType::f16);
    EXPECT_NEAR(back[0] / size, 1, 0x1p-11) << size;
    EXPECT_NEAR(back[1] / size, -1.0 / 3, 0x1p-12) << size;
    EXPECT_NEAR(back[2] / size, 0.01, 0x1p-17) << size;
  }
  EXPECT_EQ(through({0, -0.0f}, DType::f16), (std::vector<float>{0, 0}));
}

TEST(WireValues, WhatIsNotFiniteIsSeen) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const DType type : {DType::bf16, DType::f16}) {
    const std::vector<float> back = through({kInfinity, -kInfinity, std::nanf(""), 1.5f}, type);
    EXPECT_EQ(back[0], kInfinity);
    EXPECT_EQ(back[1], -kInfinity);
    EXPECT_TRUE(std::isnan(back[2]));
    EXPECT_EQ(back[3], 1.5f);
  }
}

/// What devices pack and add themselves (ops/narrow.hpp) has the same bits.
TEST(WireValues, AreThoseOfDevices) {
  constexpr std::int64_t kCount = 2500, kPiece = 1024;  // two pieces and a short one
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> values(2, std::vector<float>(kCount));
  for (auto& part : values)
    for (float& value : part) value = std::ldexp(normal(random), -static_cast<int>(random() % 40));
  const auto device = make_cpu_device(0);
  Context context(*device);
  for (const DType type : {DType::bf16, DType::f16}) {
    const ops::NarrowMessage message{type, kCount, kPiece, 2, 1};
    Tensor sums(*device, Shape{kCount}, DType::f32), others(*device, Shape{kCount}, DType::f32),
        packed(*device, Shape{2 * message.block_bytes()}, DType::u8);
    copy_from_host(context, values[0].data(), sums);
    copy_from_host(context, values[1].data(), others);
    // The second process's part of the first one's piece, which is piece 1.
    ops::pack_narrow(context, others, message, ops::kAllOwners, packed);
    context.synchronize();
    const auto bytes = packed_bytes(kPiece, type);
    std::vector<char> expected(bytes);
    pack(&values[1][kPiece], kPiece, type, expected.data());
    ASSERT_EQ(message.bytes_of(0), static_cast<std::int64_t>(bytes));
    EXPECT_EQ(std::memcmp(packed.raw(), expected.data(), bytes), 0);
    // Their sum.
    Tensor received(*device, Shape{2 * message.block_bytes()}, DType::u8);
    context.stream().copy(static_cast<char*>(received.raw()) + message.block_bytes(), packed.raw(), bytes);
    ops::add_narrow(context, received, message, 0, sums);
    context.synchronize();
    std::vector<float> sum(kPiece);
    sum_parts({{reinterpret_cast<const char*>(&values[0][kPiece]), false}, {expected.data(), true}}, kPiece,
              DType::f32, type, reinterpret_cast<char*>(sum.data()));
    EXPECT_EQ(std::memcmp(sums.data<float>() + kPiece, sum.data(), kPiece * sizeof(float)), 0);
  }
}

TEST(WireValues, SumsInOrder) {
  constexpr std::int64_t kCount = 2500;  // blocks of 1024 and a rest
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> values(4, std::vector<float>(kCount));
  for (auto& part : values)
    for (float& value : part) value = normal(random);
  std::vector<float> expected = values[0];
  for (int p = 1; p < 4; ++p)
    for (std::int64_t i = 0; i < kCount; ++i) expected[i] += values[p][i];
  std::vector<SumPart> parts;
  for (const auto& part : values) parts.push_back({reinterpret_cast<const char*>(part.data()), false});
  sum_parts(parts, kCount, DType::f32, DType::f32, reinterpret_cast<char*>(values[2].data()));  // in place
  EXPECT_EQ(values[2], expected);
}

}  // namespace
}  // namespace banyan::parallel
