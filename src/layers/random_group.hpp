// Random numbers in groups of fixed size, whose loops compile to vector instructions: several times as fast
// as calling the mathematical library for one number at a time. Number e of a stream uses only the words of
// Philox counter e / 4, and always goes through the same instructions at its place in its group, so it
// depends neither on threads nor on where a stream ends.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "banyan/ops/random.hpp"

namespace banyan::detail {

inline constexpr int kGroupBlocks = 64;  ///< Philox counters of a group
inline constexpr int kGroupNumbers = 4 * kGroupBlocks;

/// Word w of counter b at word[w][b].
struct RandomWords {
  std::uint32_t word[4][kGroupBlocks];
};
/// Number 4 b + w at number[w][b].
struct RandomNumbers {
  double number[4][kGroupBlocks];
};

/// The words of kGroupBlocks counters, starting at kGroupBlocks * group.
inline void draw_words(std::uint64_t key, std::uint64_t high, std::int64_t group, RandomWords& out) {
  auto& word = out.word;
#pragma omp simd
  for (int b = 0; b < kGroupBlocks; ++b) {
    const ops::Philox4 drawn = ops::philox(key, high, static_cast<std::uint64_t>(group * kGroupBlocks + b));
    word[0][b] = drawn.v[0];
    word[1][b] = drawn.v[1];
    word[2][b] = drawn.v[2];
    word[3][b] = drawn.v[3];
  }
}

/// In (0, 1), both ends excluded.
inline double open_uniform(std::uint32_t bits) { return (bits + 0.5) * 0x1p-32; }

/// ln x for a normal x > 0, to about one unit in the last place: with x = 2^e m, m in [sqrt(1/2), sqrt(2)),
/// and s = (m - 1) / (m + 1), it is e ln 2 + 2 artanh s, where s^21 is the last significant term of the
/// series.
inline double logarithm(double x) {
  constexpr std::uint64_t kRootHalf = 0x3FE6A09E667F3BCD;  // sqrt(1/2), whose bits split the exponent from m
  const std::uint64_t above = std::bit_cast<std::uint64_t>(x) - kRootHalf;
  const auto exponent = static_cast<std::int64_t>(above) >> 52;
  const double m = std::bit_cast<double>((above & 0x000FFFFFFFFFFFFF) + kRootHalf);
  const double s = (m - 1) / (m + 1), z = s * s;
  double series = 1.0 / 21;
  for (int n = 19; n >= 3; n -= 2) series = series * z + 1.0 / n;
  return static_cast<double>(exponent) * std::numbers::ln2 + 2 * (s + s * (z * series));
}

/// sin and cos of 2 pi turn, turn in [0, 1): Taylor series within an eighth of a turn of the nearest quarter.
inline void sine_cosine(double turn, double& sine, double& cosine) {
  const auto quarter = static_cast<std::int32_t>(4 * turn + 0.5);
  const double angle = (4 * turn - quarter) * (std::numbers::pi / 2), z = angle * angle;
  double sin_series = 1, cos_series = 1;
  for (int n = 16; n >= 2; n -= 2) {
    sin_series = 1 - sin_series * z * (1.0 / (n * (n + 1)));
    cos_series = 1 - cos_series * z * (1.0 / (n * (n - 1)));
  }
  const double small = angle * sin_series;
  const bool odd = (quarter & 1) != 0;
  sine = (quarter & 2) != 0 ? -(odd ? cos_series : small) : (odd ? cos_series : small);
  cosine = ((quarter + 1) & 2) != 0 ? -(odd ? small : cos_series) : (odd ? small : cos_series);
}

inline void uniform_group(const RandomWords& words, RandomNumbers& out) {
  for (int w = 0; w < 4; ++w) {
#pragma omp simd
    for (int b = 0; b < kGroupBlocks; ++b) out.number[w][b] = open_uniform(words.word[w][b]);
  }
}

/// Box and Muller (1958): two uniform numbers give two independent normal ones.
inline void normal_group(const RandomWords& words, RandomNumbers& out) {
  for (int w = 0; w < 4; w += 2) {
#pragma omp simd
    for (int b = 0; b < kGroupBlocks; ++b) {
      const double radius = std::sqrt(-2 * logarithm(open_uniform(words.word[w][b])));
      double sine, cosine;
      sine_cosine(open_uniform(words.word[w + 1][b]), sine, cosine);
      out.number[w][b] = radius * cosine;
      out.number[w + 1][b] = radius * sine;
    }
  }
}

}  // namespace banyan::detail
