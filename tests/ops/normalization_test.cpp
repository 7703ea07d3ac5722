// Batch normalization against plain formulas in double.
#include "banyan/ops/normalization.hpp"

#include "ops/device_fixture.hpp"
#include "ops/gradient_check.hpp"

namespace banyan {
namespace {

using Values = std::vector<double>;

struct Statistics {
  double count = 0;
  Values mean, m2;
};

/// For x in logical order: n x c x inner.
Statistics naive_statistics(const Values& x, std::int64_t n, std::int64_t c, std::int64_t inner) {
  Statistics s;
  s.count = static_cast<double>(n * inner);
  for (std::int64_t channel = 0; channel < c; ++channel) {
    long double sum = 0, squares = 0;
    const auto visit = [&](auto f) {
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t p = 0; p < inner; ++p) f(x[(i * c + channel) * inner + p]);
    };
    visit([&](double v) { sum += v; });
    const long double mean = n * inner > 0 ? sum / (n * inner) : 0;
    visit([&](double v) { squares += (v - mean) * (v - mean); });
    s.mean.push_back(static_cast<double>(mean));
    s.m2.push_back(static_cast<double>(squares));
  }
  return s;
}

class NormalizationTest : public DeviceTest {
 protected:
  Tensor moments_of(const Tensor& x) {
    Tensor moments(device(), {1 + 2 * x.shape()[1]}, DType::f64);
    ops::batch_moments(context(), x, moments);
    return moments;
  }
  Tensor finished(const Tensor& moments, double eps, bool unbiased = false) {
    Tensor result(device(), {moments.count() - 1}, DType::f64);
    ops::finish_moments(context(), moments, eps, unbiased, result);
    return result;
  }
  /// The count exactly, the mean to the spread's precision, M2 relatively.
  void expect_moments(const Values& found, const Statistics& expected, double tolerance) {
    const std::size_t c = expected.mean.size();
    ASSERT_EQ(found.size(), 1 + 2 * c);
    EXPECT_EQ(found[0], expected.count);
    for (std::size_t i = 0; i < c; ++i) {
      const double spread = std::sqrt(expected.m2[i] / std::max(1.0, expected.count));
      // Statistics are stored in f64: a few roundings of the mean itself.
      const double rounding = 8 * std::numeric_limits<double>::epsilon() * std::abs(expected.mean[i]);
      EXPECT_NEAR(found[1 + i], expected.mean[i], tolerance * spread + rounding);
      EXPECT_NEAR(found[1 + c + i], expected.m2[i], tolerance * expected.m2[i] + 1e-300);
    }
  }
  /// Sums over short blocks in the dtype: about sqrt(4096) roundings each, with a safety factor of 4.
  double sum_tolerance() const { return 256 * epsilon(); }
  /// On GPUs also one with so many elements that each thread has more than it loads at once (kLoadsAtOnce);
  /// the last one of all has more than kPacksAtOnce.
  std::vector<Shape> shapes() const;
};

const Shape kShapes[] = {{3, 5, 7, 9}, {2, 16, 8, 8},   {4, 70, 5, 3},   {9, 3, 33, 31}, {6, 37},
                         {5, 1, 4, 4}, {2, 4, 3, 5, 2}, {300, 17, 2, 2}, {4, 64, 8, 8}};

std::vector<Shape> NormalizationTest::shapes() const {
  std::vector<Shape> all(std::begin(kShapes), std::end(kShapes));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which take minutes for it
  if (on_cuda() && dtype() == DType::f32) all.push_back({1, 1030, 50, 50});
#endif
  return all;
}

TEST_P(NormalizationTest, MomentsOfEveryShapeAndLayout) {
  for (const Shape& shape : shapes()) {
    const Values x = rounded(random_values(shape.count(), 1, -2, 5));
    const Statistics expected = naive_statistics(x, shape[0], shape[1], shape.count(2));
    for (const Layout layout : kLayouts) {
      SCOPED_TRACE(cat(shape.to_string(), " ", name_of(layout)));
      const Tensor input = make(shape, x, layout);
      expect_moments(values(moments_of(input)), expected, sum_tolerance());
    }
  }
}

TEST_P(NormalizationTest, LargeMeanCostsNoDigits) {
  const Shape shape{8, 6, 20, 20};
  Values x = random_values(shape.count(), 2);
  for (double& value : x) value += 1000;  // mean = 1000 x more than the deviation
  x = rounded(x);
  const Statistics expected = naive_statistics(x, 8, 6, 400);
  for (const Layout layout : kLayouts) {
    const Tensor input = make(shape, x, layout);
    const Tensor moments = moments_of(input), statistics = finished(moments, 1e-5);
    expect_moments(values(moments), expected, sum_tolerance());
    Tensor y = empty(shape, layout);
    ops::normalize_forward(context(), input, statistics, {}, y);
    Values wanted(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = i / 400 % 6;
      wanted[i] = (x[i] - expected.mean[c]) / std::sqrt(expected.m2[c] / expected.count + 1e-5);
    }
    // x - mean is exact to a rounding of the difference and of the f64 mean near 1000; values are below 2.
    expect_near(values(y), wanted, sum_tolerance() + 1e4 * std::numeric_limits<double>::epsilon());
  }
}

TEST_P(NormalizationTest, ConstantChannelAndOneSample) {
  const Shape shape{4, 3, 6, 6};
  const double constant = rounded({0.1})[0];
  const Tensor input = make(shape, Values(shape.count(), constant));
  const Values found = values(moments_of(input));
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(found[1 + c], constant, constant * epsilon());
    // Per sample, at most the square of one rounding of the mean.
    EXPECT_LE(found[4 + c], 144 * std::pow(constant * 8 * epsilon(), 2));
    EXPECT_GE(found[4 + c], 0);
  }
  const Values single = rounded({3.5, -1.25});
  const Tensor one = make({1, 2, 1, 1}, single);
  EXPECT_EQ(values(moments_of(one)), (Values{1, 3.5, -1.25, 0, 0}));
  const Values statistics = values(finished(moments_of(one), 0.25, true));  // unbiased: count - 1 is 0
  EXPECT_EQ(statistics, (Values{3.5, -1.25, 2, 2}));
}

TEST_P(NormalizationTest, NanIsNotHidden) {
  Values x = random_values(2 * 3 * 4 * 4, 3);
  x[20] = NAN;  // channel 1 of sample 0
  const Values found = values(moments_of(make({2, 3, 4, 4}, x)));
  EXPECT_FALSE(std::isnan(found[1]));
  EXPECT_TRUE(std::isnan(found[2]));
  EXPECT_TRUE(std::isnan(found[5]));
}

TEST_P(NormalizationTest, MergedSharesEqualTheWhole) {
  const Shape whole{7, 5, 4, 3};
  const Values x = rounded(random_values(whole.count(), 4, 10, 12));
  const auto share = [&](std::int64_t from, std::int64_t to) {
    const std::int64_t sample = whole.count(1);
    return make({to - from, 5, 4, 3}, Values(x.begin() + from * sample, x.begin() + to * sample));
  };
  const Statistics expected = naive_statistics(x, 7, 5, 12);
  const Tensor first = share(0, 4), empty_share = share(4, 4), middle = share(4, 5), last = share(5, 7);
  Tensor merged = moments_of(first);
  for (const Tensor* other : {&empty_share, &middle, &last}) {
    const Tensor moments = moments_of(*other);
    ops::merge_moments(context(), moments, merged);
    values(merged);
  }
  expect_moments(values(merged), expected, sum_tolerance());
  Tensor from_empty = moments_of(empty_share);
  EXPECT_EQ(values(from_empty), Values(11, 0.0));
  ops::merge_moments(context(), merged, from_empty);
  EXPECT_EQ(values(from_empty), values(merged));
}

TEST_P(NormalizationTest, FinishUpdateAndStoredStatistics) {
  const Tensor moments = make_as(DType::f64, {5}, {10, 2, -3, 90, 0});
  expect_near(values(finished(moments, 1, false)), {2, -3, 1 / std::sqrt(10), 1}, 1e-15);
  expect_near(values(finished(moments, 1, true)), {2, -3, 1 / std::sqrt(11), 1}, 1e-15);
  Tensor mean = make({2}, {1, 1}), variance = make({2}, {4, 8});
  ops::update_running(context(), moments, 0.5, 0.25, true, mean, variance);
  expect_near(values(mean), {1, -0.25}, epsilon());
  expect_near(values(variance), {4.5, 4}, epsilon());
  ops::update_running(context(), moments, 0.5, 0.5, false, mean, variance);
  expect_near(values(variance), {6.75, 2}, epsilon());
  const Tensor none = make_as(DType::f64, {5}, Values(5, 0.0));
  ops::update_running(context(), none, 0.5, 0.5, false, mean, variance);
  expect_near(values(variance), {6.75, 2}, epsilon());
  Tensor statistics(device(), {4}, DType::f64);
  const Tensor factor = make({1}, {2}), zero = make({1}, {0});
  const Tensor stored_mean = make({2}, {1, 4}), stored_variance = make({2}, {6, 0});
  ops::stored_statistics(context(), stored_mean, stored_variance, factor, 1, statistics);
  expect_near(values(statistics), {0.5, 2, 0.5, 1}, 1e-15);
  ops::stored_statistics(context(), stored_mean, stored_variance, Tensor(), 3, statistics);
  expect_near(values(statistics), {1, 4, 1 / 3.0, 1 / std::sqrt(3)}, 1e-15);
  ops::stored_statistics(context(), stored_mean, stored_variance, zero, 4, statistics);
  expect_near(values(statistics), {0, 0, 0.5, 0.5}, 1e-15);
}

TEST_P(NormalizationTest, ForwardAndBackwardMatchFormulas) {
  for (const Shape& shape : shapes()) {
    const std::int64_t c = shape[1], inner = shape.count(2);
    const Values x = rounded(random_values(shape.count(), 5)), dy = rounded(random_values(shape.count(), 6));
    const Values slope = rounded(random_values(c, 7, 0.5, 2)), bias = rounded(random_values(c, 8));
    const Statistics s = naive_statistics(x, shape[0], c, inner);
    Values y(x.size()), dx(x.size()), xhat(x.size()), sums(2 * c, 0.0);
    const auto channel = [&](std::size_t i) {
      return i / static_cast<std::size_t>(inner) % static_cast<std::size_t>(c);
    };
    const auto inv_std = [&](std::size_t k) { return 1 / std::sqrt(s.m2[k] / s.count + 1e-3); };
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t k = channel(i);
      xhat[i] = (x[i] - s.mean[k]) * inv_std(k);
      y[i] = xhat[i] * slope[k] + bias[k];
      sums[k] += dy[i];
      sums[static_cast<std::size_t>(c) + k] += dy[i] * xhat[i];
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t k = channel(i);
      dx[i] = slope[k] * inv_std(k) *
              (dy[i] - (sums[k] + xhat[i] * sums[static_cast<std::size_t>(c) + k]) / s.count);
    }
    for (const Layout layout : kLayouts) {
      SCOPED_TRACE(cat(shape.to_string(), " ", name_of(layout)));
      const Tensor input = make(shape, x, layout), grad_output = make(shape, dy, layout);
      const Tensor scale = make({c}, slope), shift = make({c}, bias);
      const Tensor moments = moments_of(input), statistics = finished(moments, 1e-3);
      Tensor output = empty(shape, layout), found(device(), {2 * c}, DType::f64);
      ops::normalize_forward(context(), input, statistics, {scale, shift}, output);
      expect_near(values(output), y, sum_tolerance());
      ops::normalize_backward_sums(context(), input, grad_output, statistics, {}, found);
      // Absolute errors grow with the number of terms; their sum may be near 0.
      expect_near(values(found), sums, sum_tolerance() * std::sqrt(s.count));
      Tensor grad_input = make(shape, dy, layout);  // in place over dy
      ops::normalize_backward(context(), input, grad_input, statistics, {scale, Tensor()}, found, moments,
                              grad_input);
      expect_near(values(grad_input), dx, sum_tolerance() * 32);  // inv_std is up to 32
      Tensor in_place = make(shape, x, layout);
      ops::normalize_forward(context(), in_place, statistics, {scale, shift}, in_place);
      EXPECT_EQ(values(in_place), values(output));
    }
  }
}

TEST_P(NormalizationTest, BackwardFromTheOutput) {
  for (const Shape& shape : kShapes) {
    const std::int64_t c = shape[1];
    const Tensor slope = make({c}, random_values(c, 7, -2, -0.5)), bias = make({c}, random_values(c, 8));
    const Values x = random_values(shape.count(), 5), dy = random_values(shape.count(), 6);
    for (const Layout layout : kLayouts) {
      SCOPED_TRACE(cat(shape.to_string(), " ", name_of(layout)));
      const Tensor input = make(shape, x, layout), grad_output = make(shape, dy, layout);
      const Tensor moments = moments_of(input), statistics = finished(moments, 1e-3);
      const auto backward = [&](const Tensor& from, const Tensor& mean_inv_std, const Tensor& scale) {
        Tensor sums(device(), {2 * c}, DType::f64), dx = empty(shape, layout);
        ops::normalize_backward_sums(context(), from, grad_output, mean_inv_std, {}, sums);
        ops::normalize_backward(context(), from, grad_output, mean_inv_std, {scale, Tensor()}, sums, moments,
                                dx);
        return std::pair{values(sums), values(dx)};
      };
      Tensor output = empty(shape, layout), of_output(device(), {2 * c}, DType::f64), scale = empty({c});
      Tensor unusable = make_as(DType::f64, {c}, Values(c, 0.0));
      ops::normalize_forward(context(), input, statistics, {slope, bias}, output);
      ops::output_statistics(context(), slope, bias, statistics, of_output, scale, unusable);
      const auto [sums, dx] = backward(input, statistics, slope);
      const auto [sums_found, dx_found] = backward(output, of_output, scale);
      // Roundings of the output, at most (|xhat| + |bias / slope|) epsilon, add to those of the sums.
      expect_near(sums_found, sums, sum_tolerance() * std::sqrt(static_cast<double>(shape.count() / c)));
      expect_near(dx_found, dx, sum_tolerance() * 32);  // inv_std is up to 32
      EXPECT_EQ(values(unusable), Values(c, 0.0));
    }
  }
}

TEST_P(NormalizationTest, NotesSlopesThatCannotBeUndone) {
  const double tiny = 500 * epsilon(), enough = 2000 * epsilon();
  const Tensor slope = make({5}, {0, tiny, enough, -tiny, 1e-6}), bias = make({5}, {0, 1, 1, -1, 0});
  const Tensor statistics = make_as(DType::f64, {10}, Values(10, 2.0));
  Tensor of_output(device(), {10}, DType::f64), scale = empty({5});
  Tensor unusable = make_as(DType::f64, {5}, {0, 0, 0, 0, 0});
  ops::output_statistics(context(), slope, bias, statistics, of_output, scale, unusable);
  EXPECT_EQ(values(unusable), (Values{1, 1, 0, 1, 0}));
  for (const double value : values(of_output)) EXPECT_TRUE(std::isfinite(value));
  ops::output_statistics(context(), Tensor(), Tensor(), statistics, of_output, scale, unusable);
  EXPECT_EQ(values(of_output), (Values{0, 0, 0, 0, 0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(values(scale), Values(5, 2.0));
  EXPECT_EQ(values(unusable), (Values{1, 1, 0, 1, 0}));  // records stay
}

TEST_P(NormalizationTest, ConstantStatisticsAndAffineGradients) {
  const Shape shape{2, 3, 4, 2};
  const Values dy = rounded(random_values(shape.count(), 9));
  const Tensor input = make(shape, random_values(shape.count(), 10)), grad_output = make(shape, dy);
  const Tensor statistics = make_as(DType::f64, {6}, {1, 2, 3, 0.5, 4, 2}), slope = make({3}, {2, 1, -1});
  Tensor dx = empty(shape);
  ops::normalize_backward(context(), input, grad_output, statistics, {slope, Tensor()}, Tensor(), Tensor(),
                          dx);
  Values expected = dy;
  const double factor[] = {1, 4, -2};
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= factor[i / 8 % 3];
  expect_near(values(dx), expected, epsilon());
  const Tensor sums = make_as(DType::f64, {4}, {1, 2, 30, 40});
  Tensor grad_slope = make({2}, {5, 6}), grad_bias = make({2}, {7, 8}), none;
  ops::add_affine_gradients(context(), sums, grad_slope, grad_bias);
  ops::add_affine_gradients(context(), sums, none, grad_bias);
  ops::add_affine_gradients(context(), sums, none, none);
  EXPECT_EQ(values(grad_slope), (Values{35, 46}));
  EXPECT_EQ(values(grad_bias), (Values{9, 12}));
}

TEST_P(NormalizationTest, GradientsMatchDifferences) {
  if (dtype() != DType::f64) GTEST_SKIP() << "differences need f64";
  const Shape shape{3, 4, 3, 2};
  const Values x = random_values(shape.count(), 11), dy = random_values(shape.count(), 12);
  const Values slope = random_values(4, 13, 0.5, 2);
  for (const Layout layout : kLayouts) {
    const auto loss = [&](const Values& at, const Values& scale) {
      const Tensor input = make(shape, at, layout), s = make({4}, scale);
      const Tensor moments = moments_of(input), statistics = finished(moments, 1e-2);
      Tensor y = empty(shape, layout);
      ops::normalize_forward(context(), input, statistics, {s, Tensor()}, y);
      return dot(values(y), dy);
    };
    const Tensor input = make(shape, x, layout), grad_output = make(shape, dy, layout), s = make({4}, slope);
    const Tensor moments = moments_of(input), statistics = finished(moments, 1e-2);
    Tensor sums(device(), {8}, DType::f64), dx = empty(shape, layout), dslope = make({4}, Values(4, 0.0)),
                                            none;
    ops::normalize_backward_sums(context(), input, grad_output, statistics, {}, sums);
    ops::normalize_backward(context(), input, grad_output, statistics, {s, Tensor()}, sums, moments, dx);
    ops::add_affine_gradients(context(), sums, dslope, none);
    expect_gradient([&](const Values& moved) { return loss(moved, slope); }, x, values(dx));
    expect_gradient([&](const Values& moved) { return loss(x, moved); }, slope, values(dslope));
  }
}

TEST_P(NormalizationTest, SameBitsEveryTime) {
  const Shape shape{16, 16, 24, 24};  // enough for several tasks and threads
  const Values x = random_values(shape.count(), 14), dy = random_values(shape.count(), 15);
  for (const Layout layout : kLayouts) {
    const Tensor input = make(shape, x, layout), grad_output = make(shape, dy, layout);
    Values first_moments, first_sums;
    for (int run = 0; run < 4; ++run) {
      const Tensor moments = moments_of(input), statistics = finished(moments, 1e-5);
      Tensor sums(device(), {32}, DType::f64);
      ops::normalize_backward_sums(context(), input, grad_output, statistics, {}, sums);
      if (run == 0) first_moments = values(moments), first_sums = values(sums);
      EXPECT_EQ(values(moments), first_moments);
      EXPECT_EQ(values(sums), first_sums);
    }
  }
}

TEST_P(NormalizationTest, EmptyShareHasZeroSums) {
  const Shape shape{0, 3, 4, 4};
  const Tensor x = empty(shape), dy = empty(shape), statistics = make_as(DType::f64, {6}, Values(6, 1.0));
  Tensor sums(device(), {6}, DType::f64), dx = empty(shape);
  ops::normalize_backward_sums(context(), x, dy, statistics, {}, sums);
  EXPECT_EQ(values(sums), Values(6, 0.0));
  const Tensor moments = make_as(DType::f64, {7}, Values(7, 5.0));
  ops::normalize_backward(context(), x, dy, statistics, {}, sums, moments, dx);
  values(dx);
}

BANYAN_ON_ALL_DEVICES(NormalizationTest);

}  // namespace
}  // namespace banyan
