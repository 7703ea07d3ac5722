// Philox4x32-10 against the known answers published with the Random123 library.
#include "banyan/ops/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

namespace banyan::ops {
namespace {

TEST(Philox, KnownAnswers) {
  const Philox4 zero = philox(0, 0, 0);
  EXPECT_EQ(zero.v[0], 0x6627e8d5u);
  EXPECT_EQ(zero.v[1], 0xe169c58du);
  EXPECT_EQ(zero.v[2], 0xbc57ac4cu);
  EXPECT_EQ(zero.v[3], 0x9b00dbd8u);
  const std::uint64_t all = ~std::uint64_t{0};
  const Philox4 ones = philox(all, all, all);
  EXPECT_EQ(ones.v[0], 0x408f276du);
  EXPECT_EQ(ones.v[1], 0x41c83b0eu);
  EXPECT_EQ(ones.v[2], 0xa20bc7c6u);
  EXPECT_EQ(ones.v[3], 0x6d5451fdu);
}

TEST(Philox, UniformIsBelowOne) {
  EXPECT_EQ(uniform01(0), 0.0f);
  EXPECT_LT(uniform01(0xffffffffu), 1.0f);
  EXPECT_EQ(uniform01(0x80000000u), 0.5f);
}

// Every part of the key matters, and each changes all the bits.
TEST(RandomQuad, DependsOnEverything) {
  const RandomKey base{1, stream_of("drop1"), 10};
  RandomKey seed = base, stream = base, iteration = base;
  seed.seed = 2;
  stream.stream = stream_of("drop2");
  iteration.iteration = 11;
  std::set<std::uint32_t> first;
  first.insert(random_quad(base, 0, 0).v[0]);
  first.insert(random_quad(seed, 0, 0).v[0]);
  first.insert(random_quad(stream, 0, 0).v[0]);
  first.insert(random_quad(iteration, 0, 0).v[0]);
  first.insert(random_quad(base, 1, 0).v[0]);
  first.insert(random_quad(base, 0, 1).v[0]);
  EXPECT_EQ(first.size(), 6u);
}

// Mean and variance of 400000 draws; 5 standard errors allowed: 0.2887 / sqrt(4e5) * 5 = 0.0023 and, for the
// variance (standard error 0.0745 / sqrt(4e5)), 0.0006.
TEST(RandomQuad, IsUniform) {
  const RandomKey key{7, stream_of("layer"), 3};
  double sum = 0, squares = 0;
  constexpr int kQuads = 100000;
  for (int quad = 0; quad < kQuads; ++quad)
    for (const std::uint32_t bits : random_quad(key, quad % 100, quad / 100).v) {
      const double u = static_cast<double>(uniform01(bits));
      sum += u;
      squares += u * u;
    }
  const double mean = sum / (4 * kQuads), variance = squares / (4 * kQuads) - mean * mean;
  EXPECT_NEAR(mean, 0.5, 0.0023);
  EXPECT_NEAR(variance, 1.0 / 12, 0.0006);
}

}  // namespace
}  // namespace banyan::ops
