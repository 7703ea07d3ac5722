// Memory and level-1 operators against plain loops over host values.
#include "banyan/ops/basic.hpp"

#include "banyan/base/error.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

class Basic : public DeviceTest {
 protected:
  Tensor result() { return {device(), {1}, DType::f64}; }
  /// The value that `op` computes from x.
  template <class Op>
  double reduced(const Op& op, const Tensor& x) {
    Tensor y = result();
    op(context(), x, y);
    return values(y)[0];
  }
};

TEST_P(Basic, FillsEveryType) {
  for (const DType type : {DType::f32, DType::f64, DType::i32, DType::u8}) {
    Tensor y(device(), {3, 7}, type);
    ops::fill(context(), y, 5);
    expect_near(values(y), std::vector<double>(21, 5), 0);
  }
  Tensor none = empty({0, 4});
  ops::fill(context(), none, 1);
  Tensor large = empty({100003});  // beyond the serial limit, odd
  ops::fill(context(), large, 0.25);
  expect_near(values(large), std::vector<double>(100003, 0.25), 0);
}

TEST_P(Basic, CopiesBetweenLayouts) {
  for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{1, 1, 3, 3}, Shape{2, 5, 1, 1}, Shape{0, 3, 2, 2},
                             Shape{3, 33, 17}, Shape{2, 64, 48, 32}, Shape{2, 70, 9, 23},
                             Shape{1, 3, 4, 5, 6}, Shape{2, 3, 40, 40}, Shape{2, 300, 2, 3}}) {
    const auto sent = rounded(random_values(shape.count(), 1));
    for (const Layout from : kLayouts)
      for (const Layout to : kLayouts) {
        const Tensor x = make(shape, sent, from);
        Tensor y = empty(shape, to);
        ops::copy(context(), x, y);
        expect_near(values(y), sent, 0);
      }
  }
}

TEST_P(Basic, CopiesConvertTypes) {
  const Shape shape{2, 20, 9, 5};
  std::vector<double> sent(shape.count());
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<double>(i % 251);
  for (const DType from : {DType::f32, DType::f64, DType::i32, DType::u8})
    for (const Layout layout : kLayouts) {
      const Tensor x = make_as(from, shape, sent);
      Tensor y = empty(shape, layout);
      ops::copy(context(), x, y);
      expect_near(values(y), sent, 0);
    }
  Tensor bytes(device(), shape, DType::u8);
  const Tensor x = make(shape, sent);
  EXPECT_THROW(ops::copy(context(), x, bytes), Error) << "floats to bytes would lose silently";
}

TEST_P(Basic, CopyWantsTheSameShape) {
  const Tensor x = make({2, 3}, random_values(6, 1));
  Tensor y = empty({7});
  EXPECT_THROW(ops::copy(context(), x, y), Error);
}

TEST_P(Basic, Axpby) {
  for (const std::int64_t n : {0, 1, 7, 1000, 70001}) {
    const auto x = rounded(random_values(n, 1)), y = rounded(random_values(n, 2));
    const Tensor a = make({n}, x);
    Tensor b = make({n}, y);
    ops::axpby(context(), 0.5, a, -2, b);
    std::vector<double> expected;
    for (std::size_t i = 0; i < x.size(); ++i) expected.push_back(0.5 * x[i] - 2 * y[i]);
    expect_near(values(b), expected, 2 * epsilon());  // two roundings
  }
}

TEST_P(Basic, AxpbyWithZeroBetaIgnoresTheTarget) {
  const Tensor x = make({3}, {1, 2, 3});
  Tensor y = make({3}, {NAN, INFINITY, 0});
  ops::axpby(context(), 2, x, 0, y);
  expect_near(values(y), {2, 4, 6}, 0);
}

TEST_P(Basic, AxpbyRefusesDifferentLayouts) {
  const Tensor x = make({1, 2, 2, 2}, random_values(8, 1));
  Tensor y = make({1, 2, 2, 2}, random_values(8, 2), Layout::channels_last);
  EXPECT_THROW(ops::axpby(context(), 1, x, 1, y), Error);
}

/// Bit-identical to adding one part after the other, whatever their number.
TEST_P(Basic, AddsPartsInTheirOrder) {
  for (const std::int64_t n : {0, 1, 7, 1000, 70001}) {
    for (std::size_t count = 0; count <= ops::kMostParts; ++count) {
      Tensor one_by_one = make({n}, random_values(n, 1)), together = make({n}, random_values(n, 1));
      std::vector<Tensor> parts;
      for (std::size_t k = 0; k < count; ++k) {
        parts.push_back(make({n}, random_values(n, static_cast<unsigned>(k + 2))));
        ops::axpby(context(), 1, parts.back(), 1, one_by_one);
      }
      const auto before = parts.empty() ? std::vector<double>{} : values(parts.back());
      ops::add_parts(context(), parts, together);
      EXPECT_EQ(values(together), values(one_by_one)) << count << " parts of " << n;
      if (!parts.empty()) {
        EXPECT_EQ(values(parts.back()), before);
      }
    }
  }
}

TEST_P(Basic, RefusesPartsThatDoNotFit) {
  Tensor four = empty({4});
  std::vector<Tensor> three{empty({3})}, many(ops::kMostParts + 1, empty({4}));
  EXPECT_THROW(ops::add_parts(context(), three, four), Error);
  EXPECT_THROW(ops::add_parts(context(), many, four), Error);
}

TEST_P(Basic, Sums) {
  for (const std::int64_t n : {0, 1, 15, 16, 17, 4099, 300007}) {
    const auto x = rounded(random_values(n, 3));
    long double sum = 0, magnitude = 0, squares = 0;
    for (const long double v : x) {
      sum += v;
      magnitude += std::abs(v);
      squares += v * v;
    }
    const Tensor tensor = make({n}, x);
    // 16 SIMD lanes in up to 16 chunks: the f64 sums of each stay below 1e3, and 1e3 additions of error 2^-53
    // * 1e3 are below 1.2e-10 in all.
    const double tolerance = 1e-9;
    EXPECT_NEAR(reduced(ops::sum, tensor), static_cast<double>(sum), tolerance);
    EXPECT_NEAR(reduced(ops::absolute_sum, tensor), static_cast<double>(magnitude), tolerance);
    EXPECT_NEAR(reduced(ops::sum_of_squares, tensor), static_cast<double>(squares), tolerance);
    EXPECT_EQ(reduced(ops::count_not_finite, tensor), 0);
    const auto y = rounded(random_values(n, 4));
    long double products = 0;
    for (std::size_t i = 0; i < x.size(); ++i) products += static_cast<long double>(x[i]) * y[i];
    Tensor result(device(), Shape{1}, DType::f64);
    const Tensor other = make({n}, y);
    ops::sum_of_products(context(), tensor, other, result);
    EXPECT_NEAR(values(result)[0], static_cast<double>(products), tolerance);
  }
}

TEST_P(Basic, SumsDoNotLoseSmallTerms) {  // an f32 accumulator stops at 2^24
  Tensor x = empty({20000000});
  ops::fill(context(), x, 1);
  EXPECT_EQ(reduced(ops::sum, x), 2e7);
}

TEST_P(Basic, CountsWhatIsNotFinite) {
  auto x = random_values(5000, 1);
  x[0] = NAN;
  x[17] = INFINITY;
  x[4999] = -INFINITY;
  EXPECT_EQ(reduced(ops::count_not_finite, make({5000}, x)), 3);
}

TEST_P(Basic, SumsAreTheSameBitsEveryTime) {
  const Tensor x = make({777777}, random_values(777777, 5));
  const double first = reduced(ops::sum, x);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(reduced(ops::sum, x), first);
}

TEST_P(Basic, CopiesBlocks) {
  const auto source = rounded(random_values(60, 1));
  const Tensor from = make({60}, source);
  auto expected = rounded(random_values(50, 2));
  Tensor to = make({50}, expected);
  // 4 blocks of 3: from 5, 17, 29, 41 to 2, 12, 22, 32
  ops::copy_blocks(context(), from, to, {4, 3, 5, 12, 2, 10});
  for (std::size_t b = 0; b < 4; ++b)
    for (std::size_t i = 0; i < 3; ++i) expected[2 + b * 10 + i] = source[5 + b * 12 + i];
  expect_near(values(to), expected, 0);
  ops::copy_blocks(context(), from, to, {0, 3, 5, 12, 2, 10});
  expect_near(values(to), expected, 0);
  EXPECT_THROW(ops::copy_blocks(context(), from, to, {4, 3, 5, 12, 18, 10}), Error) << "beyond the target";
  EXPECT_THROW(ops::copy_blocks(context(), from, to, {4, 3, 25, 12, 2, 10}), Error) << "beyond the source";
}

TEST_P(Basic, CopiesLargeBlocksOfBytes) {
  std::vector<double> source(200000);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<double>(i % 253);
  const Tensor from = make_as(DType::u8, {200000}, source);
  Tensor to = make_as(DType::u8, {100000}, std::vector<double>(100000, 255));
  ops::copy_blocks(context(), from, to, {100, 1000, 500, 2000 - 10, 0, 1000});
  std::vector<double> expected(100000);
  for (std::size_t b = 0; b < 100; ++b)
    for (std::size_t i = 0; i < 1000; ++i) expected[b * 1000 + i] = source[500 + b * 1990 + i];
  expect_near(values(to), expected, 0);
}

BANYAN_ON_ALL_DEVICES(Basic);

}  // namespace
}  // namespace banyan
