// Matrix products against three loops in f64.
#include "banyan/base/error.hpp"
#include "banyan/ops/basic.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using ops::GemmShape;
using Values = std::vector<double>;

Values reference(const GemmShape& s, double alpha, const Values& a, const Values& b, double beta,
                 const Values& c) {
  Values result(c.size());
  for (std::int64_t i = 0; i < s.m; ++i)
    for (std::int64_t j = 0; j < s.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < s.k; ++l)
        sum += a[s.transpose_a ? l * s.m + i : i * s.k + l] * b[s.transpose_b ? j * s.k + l : l * s.n + j];
      const auto at = static_cast<std::size_t>(i * s.n + j);
      result[at] = alpha * sum + (beta == 0 ? 0 : beta * c[at]);
    }
  return result;
}

class Gemm : public DeviceTest {
 protected:
  void check(const GemmShape& s, double alpha, double beta) {
    const Values a = rounded(random_values(s.m * s.k, 1)), b = rounded(random_values(s.k * s.n, 2));
    const Values c = rounded(random_values(s.m * s.n, 3));
    const Tensor left = make({s.m, s.k}, a), right = make({s.k, s.n}, b);
    Tensor result = make({s.m, s.n}, c);
    ops::gemm(context(), s, alpha, left, right, beta, result);
    SCOPED_TRACE(testing::Message() << s.m << " x " << s.n << " x " << s.k << (s.transpose_a ? " A'" : "")
                                    << (s.transpose_b ? " B'" : "") << " beta " << beta);
    // k products below 1, added in any order: the error is at most k (k + 2) / 2 eps, on average about
    // sqrt(k) eps; the largest of thousands is several times that.
    const double share = s.m * s.n < 10000 ? 4 : 8;
    const double tolerance = (4 + share * std::sqrt(static_cast<double>(s.k))) * epsilon();
    expect_near(values(result), reference(s, alpha, a, b, beta, c), tolerance);
  }
};

TEST_P(Gemm, AllTranspositionsAndSizes) {
  const std::int64_t sizes[][3] = {{1, 1, 1}, {2, 3, 4},    {1, 17, 5},   {17, 1, 33},
                                   {8, 8, 8}, {65, 33, 17}, {70, 90, 110}};
  for (const auto& [m, n, k] : sizes)
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const double beta : {0.0, 1.0, -0.5}) check({transpose_a, transpose_b, m, n, k}, 1.5, beta);
}

/// Rows a multiple of 512 bytes apart, which are copied with AVX2: more than a block of them, and of their
/// columns.
TEST_P(Gemm, RowsThatShareSetsOfTheCache) {
  for (const bool transpose_a : {false, true}) {
    check({transpose_a, false, 20, 1024, 300}, 1.5, 0);
    check({transpose_a, false, 128, 128, 270}, 1.5, -0.5);
    check({transpose_a, false, 128, 640, 300}, 1, 0);  // uneven blocks
    check({transpose_a, false, 16, 1024, 128}, -1, 1);
  }
}

TEST_P(Gemm, EmptyProducts) {
  check({false, false, 0, 4, 3}, 1, 0);
  check({false, false, 4, 0, 3}, 1, 0);
  check({false, false, 4, 3, 0}, 1, 0);
  check({false, true, 4, 3, 0}, 1, 2);
}

TEST_P(Gemm, ZeroBetaIgnoresTheTarget) {
  for (const std::int64_t n : {3, 70}) {
    const auto count = static_cast<std::size_t>(n * n);
    const Tensor a = make({n, n}, Values(count, 1)), b = make({n, n}, Values(count, 1));
    Tensor c = make({n, n}, Values(count, NAN));
    ops::gemm(context(), {false, false, n, n, n}, 1, a, b, 0, c);
    expect_near(values(c), Values(count, static_cast<double>(n)), 0);
    const Tensor none = empty({0});
    Tensor d = make({n, n}, Values(count, NAN));
    ops::gemm(context(), {false, false, n, n, 0}, 1, none, none, 0, d);
    expect_near(values(d), Values(count, 0), 0);
  }
}

TEST_P(Gemm, ZeroBetaIgnoresTheTargetOfCopiedBlocks) {
  constexpr std::int64_t kM = 64, kN = 640, kK = 300;
  const Tensor a = make({kM, kK}, Values(kM * kK, 1)), b = make({kK, kN}, Values(kK * kN, 1));
  Tensor c = make({kM, kN}, Values(kM * kN, NAN));
  ops::gemm(context(), {false, false, kM, kN, kK}, 1, a, b, 0, c);
  expect_near(values(c), Values(kM * kN, static_cast<double>(kK)), 0);
}

TEST_P(Gemm, TheSameBitsEveryTime) {
  const std::int64_t n = 150;
  const Tensor a = make({n, n}, random_values(n * n, 1)), b = make({n, n}, random_values(n * n, 2));
  Values first;
  for (int i = 0; i < 10; ++i) {
    Tensor c = empty({n, n});
    ops::gemm(context(), {false, true, n, n, n}, 1, a, b, 0, c);
    if (i == 0)
      first = values(c);
    else
      EXPECT_EQ(values(c), first);
  }
}

TEST_P(Gemm, WrongSizesAreAnError) {
  const Tensor a = empty({2, 3}), b = empty({3, 2});
  Tensor c = empty({2, 2});
  EXPECT_THROW(ops::gemm(context(), {false, false, 2, 2, 4}, 1, a, b, 0, c), Error);
  EXPECT_THROW(ops::gemm(context(), {false, false, 3, 2, 3}, 1, a, b, 0, c), Error);
}

BANYAN_ON_ALL_DEVICES(Gemm);

}  // namespace
}  // namespace banyan
