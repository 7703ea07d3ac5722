// 16-bit parts of sums over processes, against their definition in f64.
#include "banyan/ops/narrow.hpp"

#include <array>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using Values = std::vector<double>;
using ops::kAllOwners;
using ops::NarrowMessage;

/// The next multiple of 2^exponent, ties to even.
double to_multiple(double value, int exponent) {
  return std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
}

/// 2^last is the last digit's unit of a value with so many digits.
int last_digit(double value, int digits) {
  int exponent = 0;
  std::frexp(value, &exponent);
  return exponent - digits;
}

/// Values of one piece after their way. The largest f16 of a piece is below 2^15, the smallest 2^-24.
Values through(const Values& piece, DType type) {
  double largest = 0;
  for (const double value : piece) largest = std::max(largest, std::abs(value));
  const int smallest = last_digit(largest, 15) - 24;
  Values result;
  for (const double value : piece)
    result.push_back(to_multiple(
        value, type == DType::bf16 ? last_digit(value, 8) : std::max(last_digit(value, 11), smallest)));
  return result;
}

Values through(const Values& values, const NarrowMessage& message) {
  Values result;
  for (std::int64_t begin = 0; begin < message.count; begin += message.size) {
    const std::int64_t end = std::min(begin + message.size, message.count);
    const Values piece = through(Values(values.begin() + begin, values.begin() + end), message.type);
    result.insert(result.end(), piece.begin(), piece.end());
  }
  return result;
}

Values as_floats(Values values) {
  for (double& value : values) value = static_cast<float>(value);
  return values;
}

/// Of very different sizes.
Values uneven_values(std::int64_t count, unsigned seed) {
  Values values = random_values(count, seed), exponents = random_values(count, seed + 100, -30, 0);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= std::exp2(exponents[i]);
  return as_floats(values);
}

/// One piece; pieces for all owners, for some of them, several for each, a last one that is short.
std::vector<NarrowMessage> messages() {
  std::vector<NarrowMessage> all;
  for (const DType type : {DType::bf16, DType::f16})
    for (const auto& [count, size, owners, turn] : {std::array<int, 4>{7, 16, 1, 0},
                                                    {48, 16, 3, 1},
                                                    {33, 16, 5, 4},
                                                    {1000, 64, 3, 2},
                                                    {70001, 4096, 2, 1}})
      all.push_back({type, count, size, owners, turn});
  return all;
}

std::string to_string(const NarrowMessage& m) {
  return cat(name_of(m.type), ": ", m.count, " values by ", m.size, ", ", m.owners, " owners, turn ", m.turn);
}

class Narrow : public DeviceTest {
 protected:
  Tensor f32(const Values& values) {
    return make_as(DType::f32, {static_cast<std::int64_t>(values.size())}, values);
  }
  /// Of zeros.
  Tensor blocks(const NarrowMessage& m) {
    const std::int64_t bytes = m.owners * m.block_bytes();
    return make_as(DType::u8, {bytes}, Values(static_cast<std::size_t>(bytes), 0));
  }
};

TEST_P(Narrow, RoundsToTheNearestInItsPlace) {
  for (const NarrowMessage& message : messages()) {
    SCOPED_TRACE(to_string(message));
    const Values sent = uneven_values(message.count, 1);
    const Tensor x = f32(sent);
    Tensor packed = blocks(message), y = f32(Values(sent.size(), 5));
    ops::pack_narrow(context(), x, message, kAllOwners, packed);
    ops::unpack_narrow(context(), packed, message, y);
    EXPECT_EQ(values(y), through(sent, message));
    EXPECT_EQ(values(x), sent);
    // Owner by owner it is the same; each writes its own bytes only, and as many as it says.
    const Values whole = values(packed);
    std::int64_t bytes = 0;
    Tensor one_by_one = blocks(message);
    for (int owner = 0; owner < message.owners; ++owner) {
      bytes += message.bytes_of(owner);
      EXPECT_LE(message.bytes_of(owner), message.block_bytes());
      ops::pack_narrow(context(), x, message, owner, one_by_one);
      for (std::int64_t i = message.bytes_of(owner); i < message.block_bytes(); ++i)
        ASSERT_EQ(whole[static_cast<std::size_t>(owner * message.block_bytes() + i)], 0);
    }
    EXPECT_EQ(values(one_by_one), whole);
    EXPECT_EQ(bytes, 2 * message.count + message.pieces() * message.scale_bytes());
  }
}

TEST_P(Narrow, AddsInOrderToTheOwnersOwnValues) {
  for (const NarrowMessage& message : messages()) {
    std::vector<Values> sent, rounded, packed;
    for (int process = 0; process < message.owners; ++process) {
      sent.push_back(uneven_values(message.count, static_cast<unsigned>(process + 1)));
      rounded.push_back(through(sent.back(), message));
      const Tensor x = f32(sent.back());
      Tensor to = blocks(message);
      ops::pack_narrow(context(), x, message, kAllOwners, to);
      packed.push_back(values(to));
    }
    for (int owner = 0; owner < message.owners; ++owner) {
      SCOPED_TRACE(cat(to_string(message), ", owner ", owner));
      const auto mine = static_cast<std::size_t>(owner);
      // What the others have packed for the owner; its own block is not read.
      Values received(packed[0].size(), 255);
      const std::int64_t block = message.block_bytes();
      for (int process = 0; process < message.owners; ++process)
        if (process != owner)
          std::copy_n(packed[static_cast<std::size_t>(process)].begin() + owner * block, block,
                      received.begin() + process * block);
      Values expected = sent[mine];
      for (std::int64_t i = 0; i < message.count; ++i) {
        if ((i / message.size + message.turn) % message.owners != owner) continue;
        float sum = 0;
        for (std::size_t p = 0; p < sent.size(); ++p) {
          const auto part = static_cast<float>((p == mine ? sent : rounded)[p][static_cast<std::size_t>(i)]);
          sum = p == 0 ? part : sum + part;
        }
        expected[static_cast<std::size_t>(i)] = sum;
      }
      Tensor sums = f32(sent[mine]);
      const Tensor parts = make_as(DType::u8, {message.owners * block}, received);
      ops::add_narrow(context(), parts, message, owner, sums);
      EXPECT_EQ(values(sums), expected);
    }
  }
}

TEST_P(Narrow, WhatIsNotFiniteIsSeen) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const DType type : {DType::bf16, DType::f16}) {
    const NarrowMessage message{type, 6, 4, 2, 0};
    const Tensor x = f32({kInfinity, -kInfinity, std::nan(""), 1.5, 0, -0.0});
    Tensor packed = blocks(message), y = f32(Values(6, 0));
    ops::pack_narrow(context(), x, message, kAllOwners, packed);
    ops::unpack_narrow(context(), packed, message, y);
    const Values back = values(y);
    EXPECT_EQ(back[0], kInfinity);
    EXPECT_EQ(back[1], -kInfinity);
    EXPECT_TRUE(std::isnan(back[2]));
    EXPECT_EQ(back[3], 1.5);
    EXPECT_EQ(back[4], 0);
    EXPECT_TRUE(std::signbit(back[5]));
  }
}

TEST_P(Narrow, RefusesWhatDoesNotFit) {
  const NarrowMessage message{DType::bf16, 40, 16, 2, 0};
  Tensor values = f32(Values(40, 1)), packed = blocks(message), few = f32(Values(39, 1));
  Tensor small(device(), {message.block_bytes()}, DType::u8);
  EXPECT_THROW(ops::pack_narrow(context(), few, message, kAllOwners, packed), Error);
  EXPECT_THROW(ops::pack_narrow(context(), values, message, 2, packed), Error);
  EXPECT_THROW(ops::pack_narrow(context(), values, message, kAllOwners, small), Error);
  EXPECT_THROW(ops::add_narrow(context(), packed, message, kAllOwners, values), Error);
  EXPECT_THROW(ops::unpack_narrow(context(), small, message, values), Error);
  NarrowMessage other = message;
  other.type = DType::f64;
  EXPECT_THROW(ops::pack_narrow(context(), values, other, kAllOwners, packed), Error);
  other = message;
  other.size = 3;
  EXPECT_THROW(ops::pack_narrow(context(), values, other, kAllOwners, packed), Error);
}

BANYAN_ON_ALL_DEVICES(Narrow);

}  // namespace
}  // namespace banyan
