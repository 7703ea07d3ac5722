#include "banyan/layers/filler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numbers>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/io/prototxt.hpp"
#include "layers/random_group.hpp"

namespace banyan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

caffe::FillerParameter filler_of(const std::string& text) {
  caffe::FillerParameter filler;
  io::parse_text(text, "filler", filler);
  return filler;
}

template <class T = double>
std::vector<T> filled(const std::string& text, const Shape& shape,
                      const FillerIdentity& identity = {1, "conv1", 0}, int threads = 1) {
  std::vector<T> values(static_cast<std::size_t>(shape.count()));
  fill_values(filler_of(text), shape, identity, threads, values.data());
  return values;
}

struct Moments {
  double mean = 0, variance = 0, lowest = 1e9, highest = -1e9;
};
Moments moments_of(const std::vector<double>& values) {
  Moments m;
  for (const double v : values) {
    m.mean += v / static_cast<double>(values.size());
    m.lowest = std::min(m.lowest, v);
    m.highest = std::max(m.highest, v);
  }
  for (const double v : values)
    m.variance += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size());
  return m;
}

// 40,000 samples: the mean of n values of deviation s is off by more than 5 s / sqrt(n) once in two million
// draws, and the values are fixed by the seed. So 0.025 s for means, and the same for the relative error of
// variances.
const Shape kLarge{100, 40, 10};
constexpr double kClose = 0.025;

TEST(Filler, ConstantIsTheDefaultWithZero) {
  EXPECT_THAT(filled("", Shape{3}), testing::Each(0));
  EXPECT_THAT(filled("value: 0.5", Shape{3}), testing::Each(0.5));
}

TEST(Filler, UniformStaysInItsRange) {
  const Moments m = moments_of(filled("type: 'uniform' min: -1 max: 3", kLarge));
  EXPECT_GT(m.lowest, -1);
  EXPECT_LT(m.highest, 3);
  EXPECT_NEAR(m.mean, 1, kClose * 2);
  EXPECT_NEAR(m.variance, 16.0 / 12, kClose * 16 / 12);
}

TEST(Filler, GaussianHasItsMoments) {
  const std::vector<double> values = filled("type: 'gaussian' mean: 2 std: 0.5", kLarge);
  const Moments m = moments_of(values);
  EXPECT_NEAR(m.mean, 2, kClose * 0.5);
  EXPECT_NEAR(m.variance, 0.25, kClose * 0.25);
  int within = 0;
  for (const double v : values) within += std::abs(v - 2) < 0.5;
  EXPECT_NEAR(within / 40000.0, 0.6827, kClose);
}

TEST(Filler, SparseKeepsAShareOfTheOutputCount) {
  const std::vector<double> values = filled("type: 'gaussian' sparse: 25", kLarge);
  const auto zeros = std::count(values.begin(), values.end(), 0.0);
  EXPECT_NEAR(static_cast<double>(zeros) / 40000, 0.75, kClose);
  EXPECT_THAT(message_of([] { filled("type: 'uniform' sparse: 3", Shape{4}); }),
              HasSubstr("cannot be sparse"));
}

TEST(Filler, PositiveUnitballRowsSumToOne) {
  const std::vector<double> values = filled("type: 'positive_unitball'", Shape{4, 10});
  for (int row = 0; row < 4; ++row) {
    double sum = 0;
    for (int i = 0; i < 10; ++i) {
      EXPECT_GT(values[row * 10 + i], 0);
      sum += values[row * 10 + i];
    }
    EXPECT_NEAR(sum, 1, 1e-12);  // rounding of ten additions
  }
}

TEST(Filler, GaussianUnitballRowsHaveLengthOne) {
  const std::vector<double> values = filled("type: 'gaussian_unitball'", Shape{3, 2, 5});
  const std::vector<double> normal = filled("type: 'gaussian'", Shape{3, 2, 5});
  for (std::size_t row = 0; row < 3; ++row) {
    double squares = 1e-12;
    for (std::size_t i = 0; i < 10; ++i) squares += normal[row * 10 + i] * normal[row * 10 + i];
    for (std::size_t i = 0; i < 10; ++i)
      EXPECT_NEAR(values[row * 10 + i], normal[row * 10 + i] / std::sqrt(squares), 1e-15);
  }
}

TEST(Filler, DiagonalHoldsItsNumbers) {
  EXPECT_EQ(filled("type: 'diagonal' diag_val: [1, -2]", Shape{1, 2, 2}), (std::vector<double>{1, 0, 0, -2}));
  for (const Shape& shape : {Shape{2, 3}, Shape{3, 3}, Shape{}})
    EXPECT_THAT(message_of([&] { filled("type: 'diagonal' diag_val: [1, -2]", shape); }),
                HasSubstr("needs a square matrix and a diag_val for each row"));
  EXPECT_THAT(message_of([] { filled("type: 'uniform' diag_val: 3", Shape{4}); }),
              HasSubstr("belongs to diagonal"));
}

TEST(Filler, BorderMaskIsZeroInAFrame) {
  const std::string text = "type: 'borderMask' border_ratio: ";
  // 0.2 of 5 rows: 1.
  const std::vector<double> plane{0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1,
                                  1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0};
  const std::vector<double> two = filled(text + "0.2", Shape{1, 2, 5, 6});
  EXPECT_EQ(std::vector<double>(two.begin(), two.begin() + 30), plane);
  EXPECT_EQ(std::vector<double>(two.begin() + 30, two.end()), plane);
  EXPECT_THAT(filled(text + "0", Shape{1, 1, 2, 2}), testing::Each(1));
  EXPECT_THAT(filled(text + "0.5", Shape{1, 1, 4, 4}), testing::Each(0));
  EXPECT_THAT(filled(text + "1e30", Shape{1, 1, 4, 4}), testing::Each(0));
  // Rounded as there: half a pixel is one.
  EXPECT_EQ(filled(text + "0.1", Shape{1, 1, 5, 5})[6], 1);
  EXPECT_EQ(filled(text + "0.1", Shape{1, 1, 5, 5})[0], 0);
  EXPECT_EQ(filled(text + "0.1", Shape{1, 1, 4, 4})[0], 1);
  EXPECT_THAT(message_of([&] { filled(text + "0.1", Shape{2, 3, 4}); }), HasSubstr("needs 4 axes"));
  EXPECT_THAT(message_of([&] { filled(text + "-1", Shape{1, 1, 4, 4}); }), HasSubstr("not negative"));
  EXPECT_THAT(message_of([] {
                filled("type: 'borderMask'", Shape{1, 1, 4, 4});
              }),
              HasSubstr("needs a border_ratio"));
  EXPECT_THAT(message_of([] {
                filled("type: 'constant' border_ratio: 0.2", Shape{1, 1, 4, 4});
              }),
              HasSubstr("has no border_ratio; it belongs to borderMask"));
}

TEST(Filler, FlowBorderMaskIsZeroWhereTheNextPixelIsMissing) {
  EXPECT_EQ(filled("type: 'flowBorderMask'", Shape{1, 2, 2, 3}),
            (std::vector<double>{1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0}));
  EXPECT_THAT(message_of([] {
                filled("type: 'flowBorderMask'", Shape{1, 3, 2, 2});
              }),
              HasSubstr("needs 2 channels"));
}

TEST(Filler, FileHoldsItsNumbers) {
  const std::string file = testing::TempDir() + "banyan_filler_" + std::to_string(getpid());
  const auto from_file = [&](const std::string& text, const Shape& shape) {
    io::write_file(file, text);
    return filled("type: 'file' file: '" + file + "'", shape);
  };
  EXPECT_EQ(from_file("0 -1.5\n2e-1\t4\n\n 5", Shape{2, 2}), (std::vector<double>{0, -1.5, 0.2, 4}));
  EXPECT_THAT(message_of([&] {
                from_file("1 2 3", Shape{2, 2});
              }),
              AllOf(HasSubstr("holds 3 numbers; expected 4 for the shape 2 2 (4)"), HasSubstr(file)));
  EXPECT_THAT(message_of([&] { from_file("1 two", Shape{2}); }),
              HasSubstr("holds 1 numbers and then something else"));
  std::remove(file.c_str());
  EXPECT_THAT(message_of([&] { filled("type: 'file' file: '" + file + "'", Shape{2}); }),
              HasSubstr("cannot open"));
  EXPECT_THAT(message_of([] { filled("type: 'file'", Shape{2}); }), HasSubstr("needs the name of a file"));
  EXPECT_THAT(message_of([] { filled("file: 'f'", Shape{2}); }), HasSubstr("it belongs to file"));
}

TEST(Filler, XavierAndMsraScaleByTheFan) {
  // fan_in 400, fan_out 1000
  const double fan[3] = {400, 1000, 700};
  const char* names[3] = {"FAN_IN", "FAN_OUT", "AVERAGE"};
  for (int i = 0; i < 3; ++i) {
    const std::string norm = std::string(" variance_norm: ") + names[i];
    const Moments xavier = moments_of(filled("type: 'xavier'" + norm, kLarge));
    EXPECT_LE(xavier.highest, std::sqrt(3 / fan[i]));
    EXPECT_NEAR(xavier.variance, 1 / fan[i], kClose / fan[i]);
    const Moments msra = moments_of(filled("type: 'msra'" + norm, kLarge));
    EXPECT_NEAR(msra.variance, 2 / fan[i], kClose * 2 / fan[i]);
    const Moments leaky = moments_of(filled("type: 'msra' alpha: 0.5" + norm, kLarge));
    EXPECT_NEAR(leaky.variance, 1.6 / fan[i], kClose * 1.6 / fan[i]);
  }
}

TEST(Filler, BilinearIsTheUpsamplingKernel) {
  // Caffe's formula worked out: k 4, f 2, c 0.75: weights 0.25 0.75 0.75 0.25; k 3, f 2, c 0.5: 0.5 1 0.5
  const std::vector<double> four = filled("type: 'bilinear'", Shape{2, 1, 4, 4});
  const double w4[4] = {0.25, 0.75, 0.75, 0.25};
  for (std::size_t i = 0; i < 32; ++i) EXPECT_DOUBLE_EQ(four[i], w4[i % 4] * w4[i / 4 % 4]);
  const std::vector<double> three = filled("type: 'bilinear'", Shape{1, 1, 3, 3});
  const double w3[3] = {0.5, 1, 0.5};
  for (std::size_t i = 0; i < 9; ++i) EXPECT_DOUBLE_EQ(three[i], w3[i % 3] * w3[i / 3]);
  EXPECT_THAT(message_of([] { filled("type: 'bilinear'", Shape{1, 1, 3, 4}); }), HasSubstr("square kernel"));
  EXPECT_EQ(filled("type: 'bilinear_upsampling'", Shape{2, 1, 4, 4}), four);
  EXPECT_THAT(message_of([] {
                filled("type: 'bilinear_upsampling'", Shape{1, 1, 3, 4});
              }),
              HasSubstr("filler type \"bilinear_upsampling\" needs 4 axes with a square kernel"));
  EXPECT_THAT(message_of([] {
                filled("type: 'gabor'", Shape{1, 1, 3, 3});
              }),
              HasSubstr("\"gabor\" is a branch's and not supported; give such weights by --weights"));
}

TEST(Filler, DependsOnIdentityNotOnThreadsOrType) {
  const std::string text = "type: 'gaussian'";
  const auto base = filled(text, kLarge);
  EXPECT_EQ(base, filled(text, kLarge, {1, "conv1", 0}, 3));
  EXPECT_NE(base, filled(text, kLarge, {2, "conv1", 0}));
  EXPECT_NE(base, filled(text, kLarge, {1, "conv2", 0}));
  EXPECT_NE(base, filled(text, kLarge, {1, "conv1", 1}));
  const auto single = filled<float>(text, kLarge);
  for (std::size_t i = 0; i < base.size(); ++i) ASSERT_EQ(single[i], static_cast<float>(base[i]));
}

TEST(Filler, ElementsDoNotDependOnTheCount) {
  const auto base = filled("type: 'gaussian'", Shape{700});  // two groups and most of a third
  for (const int count : {1, 255, 256, 257, 513}) {
    const auto fewer = filled("type: 'gaussian'", Shape{count});
    EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), base.begin())) << count;
  }
}

TEST(Filler, GroupsDrawTheWordsOfTheirCounters) {
  detail::RandomWords words;
  detail::draw_words(7, 11, 3, words);
  for (int b = 0; b < detail::kGroupBlocks; ++b) {
    const ops::Philox4 expected =
        ops::philox(7, 11, static_cast<std::uint64_t>(3 * detail::kGroupBlocks + b));
    for (int w = 0; w < 4; ++w) ASSERT_EQ(words.word[w][b], expected.v[w]);
  }
}

// A unit in the last place is at most 2^-52 of the value.
constexpr double kUnit = 0x1p-52;

TEST(Filler, LogarithmIsThatOfTheLibrary) {
  for (double x = 1e-10; x < 1; x *= 1.0007)
    ASSERT_NEAR(detail::logarithm(x), std::log(x), 4 * kUnit * -std::log(x)) << x;
  for (double x = 0.5; x < 1; x += 1.1e-4)
    ASSERT_NEAR(detail::logarithm(x), std::log(x), 4 * kUnit * -std::log(x)) << x;
  EXPECT_EQ(detail::logarithm(1), 0);
}

TEST(Filler, SineAndCosineAreThoseOfTheLibrary) {
  for (int i = 0; i <= 4000; ++i) {
    const double turn = i / 4000.0 + (i < 4000 ? 1e-5 : 0);
    double sine, cosine;
    detail::sine_cosine(turn, sine, cosine);
    // The library is given 2 pi turn, rounded: up to 4 units of 2^-52.
    ASSERT_NEAR(sine, std::sin(2 * std::numbers::pi * turn), 6 * kUnit) << turn;
    ASSERT_NEAR(cosine, std::cos(2 * std::numbers::pi * turn), 6 * kUnit) << turn;
  }
}

TEST(Filler, NamesUnknownTypes) {
  EXPECT_THAT(message_of([] { filled("type: 'xavir'", Shape{2}); }),
              HasSubstr("unknown filler type \"xavir\" (did you mean \"xavier\"?)"));
}

}  // namespace
}  // namespace banyan
