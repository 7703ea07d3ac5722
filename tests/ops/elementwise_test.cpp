// Elementwise and broadcast operators against plain loops over host values.
#include "banyan/ops/elementwise.hpp"

#include "banyan/base/error.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using Values = std::vector<double>;

class Elementwise : public DeviceTest {
 protected:
  /// Sizes: none, one, odd, and beyond the serial limit.
  static constexpr std::int64_t kCounts[] = {0, 1, 37, 40001};

  /// Checks y = op(x) for all sizes, out of place and in place.
  template <class Run, class Expected>
  void check_unary(const Run& run, const Expected& expected, double tolerance) {
    for (const std::int64_t n : kCounts) {
      const Values x = rounded(random_values(n, 1, -4, 4));
      Values wanted;
      for (const double v : x) wanted.push_back(expected(v));
      Tensor in = make({n}, x), out = empty({n});
      run(in, out);
      expect_near(values(out), wanted, tolerance);
      run(in, in);
      expect_near(values(in), wanted, tolerance);
    }
  }
  /// The same for y = op(a, b), with a positive and negative, in place over b.
  template <class Run, class Expected>
  void check_binary(const Run& run, const Expected& expected, double tolerance) {
    for (const std::int64_t n : kCounts) {
      const Values a = rounded(random_values(n, 1)), b = rounded(random_values(n, 2));
      Values wanted;
      for (std::size_t i = 0; i < a.size(); ++i) wanted.push_back(expected(a[i], b[i]));
      Tensor left = make({n}, a), right = make({n}, b), out = empty({n});
      run(left, right, out);
      expect_near(values(out), wanted, tolerance);
      run(left, right, right);
      expect_near(values(right), wanted, tolerance);
    }
  }
};

TEST_P(Elementwise, Relu) {
  for (const double slope : {0.0, 0.25}) {
    check_unary([&](const Tensor& x, Tensor& y) { ops::relu_forward(context(), x, slope, y); },
                [&](double x) { return x > 0 ? x : slope * x; }, epsilon());
    check_binary([&](const Tensor& x, const Tensor& dy,
                     Tensor& dx) { ops::relu_backward(context(), x, dy, slope, dx); },
                 [&](double x, double dy) { return x > 0 ? dy : slope * dy; }, epsilon());
  }
}

TEST_P(Elementwise, ReluHasNoGradientAtZero) {
  const Tensor x = make({3}, {-1, 0, 1}), dy = make({3}, {5, 5, 5});
  Tensor dx = empty({3});
  ops::relu_backward(context(), x, dy, 0, dx);
  expect_near(values(dx), {0, 0, 5}, 0);
}

TEST_P(Elementwise, SigmoidAndTanh) {
  // tanh is accurate to a few units in the last place.
  check_unary([&](const Tensor& x, Tensor& y) { ops::sigmoid_forward(context(), x, y); },
              [](double x) { return 1 / (1 + std::exp(-x)); }, 4 * epsilon());
  check_unary([&](const Tensor& x, Tensor& y) { ops::tanh_forward(context(), x, y); },
              [](double x) { return std::tanh(x); }, 4 * epsilon());
  check_binary(
      [&](const Tensor& y, const Tensor& dy, Tensor& dx) { ops::sigmoid_backward(context(), y, dy, dx); },
      [](double y, double dy) { return dy * y * (1 - y); }, 4 * epsilon());
  check_binary(
      [&](const Tensor& y, const Tensor& dy, Tensor& dx) { ops::tanh_backward(context(), y, dy, dx); },
      [](double y, double dy) { return dy * (1 - y * y); }, 4 * epsilon());
}

TEST_P(Elementwise, Elu) {
  // exp - 1 is accurate to a few units in the last place of exp where |x| is not small; the reference is f64.
  check_unary(
      [&](const Tensor& x, Tensor& y) {
        ops::elu_forward(context(), x, {0.5, 3}, y);
      },
      [](double x) { return x > 0 ? 3 * x : 1.5 * std::expm1(x); }, 4 * epsilon());
  check_binary(
      [&](const Tensor& y, const Tensor& dy, Tensor& dx) {
        ops::elu_backward(context(), y, dy, {0.5, 3}, dx);
      },
      [](double y, double dy) { return dy * (y > 0 ? 3 : y + 1.5); }, 4 * epsilon());
  for (const double alpha : {0.5, -0.5})
    check_binary(
        [&](const Tensor& x, const Tensor& dy, Tensor& dx) {
          ops::elu_backward_by_input(context(), x, dy, {alpha, 3}, dx);
        },
        [&](double x, double dy) { return dy * (x > 0 ? 3 : 3 * alpha * std::exp(x)); }, 4 * epsilon());
}

TEST_P(Elementwise, EluOfLargeValuesIsFinite) {
  const Tensor x = make({3}, {-1000, 0, 1000}), dy = make({3}, {2, 2, 2});
  Tensor y = empty({3}), dx = empty({3});
  ops::elu_forward(context(), x, {0.5, 1}, y);
  expect_near(values(y), {-0.5, 0, 1000}, 0);
  ops::elu_backward(context(), y, dy, {0.5, 1}, dx);
  expect_near(values(dx), {0, 1, 2}, 0);
}

TEST_P(Elementwise, InvertActivation) {
  const Values x{-8, -1, -1e-3, 0, 1e-3, 1, 8};
  const Tensor input = make({7}, x);
  Tensor y = empty({7});
  const auto undone = [&](const ops::Activation& activation) {
    ops::invert_activation(context(), y, activation, y);
    return values(y);
  };
  ops::relu_forward(context(), input, 0.3, y);
  expect_near(undone(ops::relu_activation(0.3)), x, 2 * epsilon());
  const ops::EluShape shape{0.5, 3};
  ops::elu_forward(context(), input, shape, y);
  // At -8 the output is flat: its rounding is amplified by exp(8) = 3000, relative to 8.
  expect_near(undone(ops::elu_activation(shape)), x, 1000 * epsilon());
  y = make({3}, {-1.5, -1.6, 0});  // the lower bound, and a value that no ELU produces
  const double lowest = std::log(epsilon());
  expect_near(undone(ops::elu_activation(shape)), {lowest, lowest, 0}, 1e-6);
  for (const ops::Activation& none : {ops::Activation(), ops::relu_activation(), ops::elu_activation({0, 1})})
    EXPECT_THROW(undone(none), Error);
}

/// e^x - 1 is computed without the library: within 2 units in the last place, to the ends of the range.
TEST_P(Elementwise, EluIsExactForAllNegativeValues) {
  Values x{-INFINITY, -1e30, -100, -0x1p-149, -0x1p-126, -0.0, NAN};
  for (int i = 0; i <= 40000; ++i) x.push_back(-std::exp(-20 + 25.0 * i / 40000));
  x = rounded(x);
  const Tensor input = make({static_cast<std::int64_t>(x.size())}, x);
  Tensor y = empty(input.shape());
  ops::elu_forward(context(), input, {1, 1}, y);
  const Values found = values(y);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = std::expm1(x[i]);
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(found[i]));
    else
      ASSERT_LE(std::abs(found[i] - expected), 2 * epsilon() * std::abs(expected)) << x[i];
  }
}

/// Without the library, too: within 4 units in the last place, to the ends of the range.
TEST_P(Elementwise, TanhIsExactForAllValues) {
  Values x{-INFINITY, INFINITY, -1e30, 100, -0x1p-149, 0x1p-126, 0x1p-149, -0.0, 0, NAN};
  for (int i = 0; i <= 40000; ++i) {
    x.push_back(std::exp(-20 + 25.0 * i / 40000));
    x.push_back(-x.back());
  }
  x = rounded(x);
  const Tensor input = make({static_cast<std::int64_t>(x.size())}, x);
  Tensor y = empty(input.shape());
  ops::tanh_forward(context(), input, y);
  const Values found = values(y);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = std::tanh(x[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found[i]));
    } else {
      ASSERT_LE(std::abs(found[i] - expected), 4 * epsilon() * std::abs(expected)) << x[i];
      EXPECT_EQ(std::signbit(found[i]), std::signbit(x[i]));
    }
  }
}

TEST_P(Elementwise, SigmoidOfLargeValuesIsFinite) {
  const Tensor x = make({2}, {-1000, 1000});
  Tensor y = empty({2});
  ops::sigmoid_forward(context(), x, y);
  expect_near(values(y), {0, 1}, 2e-38);
}

TEST_P(Elementwise, Multiply) {
  check_binary([&](const Tensor& a, const Tensor& b, Tensor& y) { ops::multiply(context(), a, b, y); },
               [](double a, double b) { return a * b; }, epsilon());
}

TEST_P(Elementwise, ProductByQuotient) {
  const Tensor x = make({3}, {2, -4, 0.5}), y = make({3}, {6, 8, 1}), dy = make({3}, {1, 3, -1});
  Tensor dx = empty({3});
  ops::product_backward_by_quotient(context(), x, y, dy, dx);
  expect_near(values(dx), {3, -6, -2}, epsilon());
}

TEST_P(Elementwise, MaximumNamesTheWinner) {
  // Last element: all equal. The later input wins in the first pair, the earlier one against a third.
  const Tensor a = make({4}, {3, 1, 1, 2}), b = make({4}, {1, 3, 2, 2}), c = make({4}, {2, 2, 3, 2});
  Tensor y = empty({4}), mask(device(), {4}, DType::i32);
  ops::maximum(context(), a, b, 1, true, y, mask);
  expect_near(values(y), {3, 3, 2, 2}, 0);
  expect_near(values(mask), {0, 1, 1, 1}, 0);
  ops::maximum(context(), y, c, 2, false, y, mask);
  expect_near(values(y), {3, 3, 3, 2}, 0);
  expect_near(values(mask), {0, 1, 2, 1}, 0);
  const Tensor dy = make({4}, {10, 20, 30, 40});
  Tensor dx = empty({4});
  ops::maximum_backward(context(), dy, mask, 1, dx);
  expect_near(values(dx), {0, 20, 0, 40}, 0);
}

TEST_P(Elementwise, DifferentLayoutsAreAnError) {
  const Tensor x = make({1, 2, 2, 2}, random_values(8, 1));
  Tensor y = empty({1, 2, 2, 2}, Layout::channels_last);
  EXPECT_THROW(ops::relu_forward(context(), x, 0, y), Error);
}

TEST_P(Elementwise, ATermOfASumIsKeptAsAWhole) {
  const ops::RandomKey key{11, ops::stream_of("sum"), 5};
  const Shape shape{2, 3, 2, 3};
  const Values values_of_x = rounded(random_values(shape.count(), 1)), before = rounded(random_values(36, 2));
  int kept = 0;
  for (const Layout layout : kLayouts)
    for (int draw = 0; draw < 9; ++draw)
      for (const bool adds : {false, true}) {
        const bool keeps = ops::uniform01(ops::random_quad(key, 0, draw / 4).v[draw % 4]) < 0.5F;
        const Tensor x = make(shape, values_of_x, layout);
        Tensor y = make(shape, adds ? before : Values(36, NAN), layout);
        ops::keep_term(context(), x, 0.5, on_device(key), draw, adds, y);
        Values expected(36, 0.0);
        for (std::size_t i = 0; i < 36; ++i)
          expected[i] = (adds ? before[i] : 0) + (keeps ? values_of_x[i] : 0);
        expect_near(values(y), expected, epsilon());
        kept += keeps;
      }
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, 36);
}

// --- dropout ---

class Dropout : public DeviceTest {
 protected:
  const ops::RandomKey key_{11, ops::stream_of("drop6"), 5};
  Values dropped(const Tensor& x, double ratio, const ops::SampleIndex& samples, const ops::RandomKey& key) {
    Tensor y = empty(x.shape(), x.layout());
    ops::dropout(context(), x, ratio, on_device(key), samples, y);
    return values(y);
  }
};

TEST_P(Dropout, FollowsItsDefinition) {
  // Samples of a multiple of four elements or not, and so pixels; the last ones are worth several threads.
  for (const Shape& shape : {Shape{3, 5, 3, 7}, Shape{3, 5, 2, 6}, Shape{3, 4, 3, 3}, Shape{3, 7},
                             Shape{3, 8}, Shape{2, 67, 28, 28}, Shape{1, 96, 27, 27}}) {
    SCOPED_TRACE(shape.to_string());
    const Values x = rounded(random_values(shape.count(), 1, 1, 2));
    const double ratio = 0.3;
    Values expected(x.size());
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      const std::int64_t sample = i / shape.count(1), element = i % shape.count(1);
      const ops::Philox4 bits = ops::random_quad(key_, 2 + sample * 4, element / 4);
      const auto at = static_cast<std::size_t>(i);
      expected[at] =
          static_cast<double>(ops::uniform01(bits.v[element % 4])) >= ratio ? x[at] / (1 - ratio) : 0;
    }
    for (const Layout layout : kLayouts)
      expect_near(dropped(make(shape, x, layout), ratio, {2, 4}, key_), expected, 2 * epsilon());
  }
}

TEST_P(Dropout, KeepsAllOrNothing) {
  const Tensor x = make({2, 8}, Values(16, 1));
  EXPECT_EQ(dropped(x, 0, {}, key_), Values(16, 1));
  EXPECT_EQ(dropped(x, 1, {}, key_), Values(16, 0));
}

TEST_P(Dropout, SharesOfABatchSeeTheMasksOfTheWhole) {
  const Shape whole{6, 4, 5}, half{3, 4, 5};
  const Values ones(120, 1);
  const Values all = dropped(make(whole, ones), 0.5, {0, 1}, key_);
  for (std::int64_t device = 0; device < 2; ++device) {
    const Values share = dropped(make(half, Values(60, 1)), 0.5, {device, 2}, key_);
    for (std::size_t i = 0; i < 60; ++i)
      EXPECT_EQ(share[i], all[(i / 20 * 2 + static_cast<std::size_t>(device)) * 20 + i % 20]);
  }
}

TEST_P(Dropout, KeepsTheRightShareAndChanges) {
  const std::int64_t n = 100000;
  const Tensor x = make({10, n / 10}, Values(n, 1));
  const Values y = dropped(x, 0.4, {}, key_);
  const auto kept = static_cast<double>(std::count_if(y.begin(), y.end(), [](double v) { return v != 0; }));
  EXPECT_NEAR(kept / static_cast<double>(n), 0.6, 0.008);  // 5 standard errors of sqrt(.24 / 1e5)
  ops::RandomKey next = key_;
  next.iteration += 1;
  EXPECT_NE(dropped(x, 0.4, {}, next), y);
  EXPECT_EQ(dropped(x, 0.4, {}, key_), y) << "the gradient's mask is the forward pass's";
}

TEST_P(Dropout, EdgeRatiosAndEmptyBatches) {
  const Tensor x = make({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_near(dropped(x, 0, {}, key_), {1, 2, 3, 4, 5, 6}, 0);
  expect_near(dropped(x, 1, {}, key_), Values(6, 0), 0);
  EXPECT_TRUE(dropped(empty({0, 3}), 0.5, {}, key_).empty());
  EXPECT_THROW(dropped(x, 1.5, {}, key_), Error);
}

TEST_P(Dropout, DividesNegativesByWhatItDraws) {
  for (const Shape& shape :
       {Shape{3, 5, 3, 7}, Shape{3, 5, 2, 6}, Shape{3, 4, 3, 3}, Shape{3, 7}, Shape{2, 67, 28, 28}}) {
    SCOPED_TRACE(shape.to_string());
    Values x = rounded(random_values(shape.count(), 1, -1, 2));
    const Values dy = rounded(random_values(shape.count(), 2, -1, 1));
    x[3] = 0;  // counts as negative
    Values y(x.size()), dx(x.size());
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      const std::int64_t sample = i / shape.count(1), element = i % shape.count(1);
      const ops::Philox4 bits = ops::random_quad(key_, 2 + sample * 4, element / 4);
      const auto at = static_cast<std::size_t>(i);
      const double divisor = 1.5 + 2.5 * static_cast<double>(ops::uniform01(bits.v[element % 4]));
      y[at] = x[at] > 0 ? x[at] : x[at] / divisor;
      dx[at] = x[at] > 0 ? dy[at] : dy[at] / divisor;
    }
    for (const Layout layout : kLayouts) {
      Tensor values_of_x = make(shape, x, layout), to = make(shape, dy, layout);
      ops::divide_negatives(context(), values_of_x, values_of_x, {1.5, 4}, on_device(key_), {2, 4},
                            values_of_x);
      expect_near(values(values_of_x), y, 2 * epsilon());
      ops::divide_negatives(context(), values_of_x, to, {1.5, 4}, on_device(key_), {2, 4}, to);
      expect_near(values(to), dx, 2 * epsilon());
    }
  }
  Tensor x = make({2, 2}, {1, 2, 3, 4}), none = empty({0, 3});
  ops::divide_negatives(context(), none, none, {1, 2}, on_device(key_), {}, none);
  EXPECT_THROW(ops::divide_negatives(context(), x, x, {0, 2}, on_device(key_), {}, x), Error);
  EXPECT_THROW(ops::divide_negatives(context(), x, x, {2, 1}, on_device(key_), {}, x), Error);
}

// --- broadcast ---

struct BroadcastCase {
  std::int64_t outer, dim, inner;
};

class Broadcasting : public DeviceTest {
 protected:
  static constexpr BroadcastCase kCases[] = {
      {2, 3, 5},     {1, 1, 1},     {0, 4, 3},     {7, 5, 1},     {1, 10, 1},    {3, 1, 4},     {4, 70, 200},
      {300, 150, 1}, {1, 50000, 1}, {1, 2, 40000}, {1, 1, 90001}, {50000, 1, 1}, {2000, 3, 17}, {5, 3, 0}};
};

TEST_P(Broadcasting, ScaleBias) {
  for (const auto& [outer, dim, inner] : kCases) {
    const Values x = rounded(random_values(outer * dim * inner, 1));
    const Values s = rounded(random_values(dim, 2)), b = rounded(random_values(dim, 3));
    const Tensor in = make({outer, dim, inner}, x), scale = make({dim}, s), bias = make({dim}, b);
    for (int kind = 1; kind < 4; ++kind) {
      Values expected;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t d = i / static_cast<std::size_t>(inner) % static_cast<std::size_t>(dim);
        expected.push_back(x[i] * ((kind & 1) != 0 ? s[d] : 1) + ((kind & 2) != 0 ? b[d] : 0));
      }
      Tensor out = empty(in.shape());
      const Tensor none;
      ops::scale_bias(context(), in, (kind & 1) != 0 ? scale : none, (kind & 2) != 0 ? bias : none,
                      {outer, dim, inner}, {}, out);
      SCOPED_TRACE(testing::Message() << outer << " x " << dim << " x " << inner << " kind " << kind);
      expect_near(values(out), expected, 2 * epsilon());
    }
  }
  Tensor x = make({2}, {1, 2});
  EXPECT_THROW(ops::scale_bias(context(), x, {}, {}, {1, 2, 1}, {}, x), Error);
}

TEST_P(Broadcasting, ScaleGradientAdds) {
  for (const auto& [outer, dim, inner] : kCases) {
    const Values x = rounded(random_values(outer * dim * inner, 1)),
                 dy = rounded(random_values(outer * dim * inner, 2));
    const Values before = rounded(random_values(dim, 3));
    Values expected = before, ones = before;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t d = i / static_cast<std::size_t>(inner) % static_cast<std::size_t>(dim);
      expected[d] += x[i] * dy[i];
      ones[d] += dy[i];
    }
    const Tensor in = make({outer, dim, inner}, x), gradient = make({outer, dim, inner}, dy);
    SCOPED_TRACE(testing::Message() << outer << " x " << dim << " x " << inner);
    Tensor sums = make({dim}, before), bias = make({dim}, before);
    ops::scale_backward(context(), in, gradient, {outer, dim, inner}, sums);
    ops::scale_backward(context(), Tensor(), gradient, {outer, dim, inner}, bias);
    // Sums in f64 of up to 9e4 terms below 1 (error < 1e-10), then rounded and added in the dtype.
    expect_near(values(sums), expected, 1e-10 + 2 * epsilon());
    expect_near(values(bias), ones, 1e-10 + 2 * epsilon());
  }
}

TEST_P(Broadcasting, ChannelsLastIsInnerOne) {
  const Shape shape{2, 3, 4, 5};
  const Values x = rounded(random_values(120, 1)), s{2, 3, 4};
  const Tensor scale = make({3}, s);
  Values expected = x;
  for (std::size_t i = 0; i < 120; ++i) expected[i] *= s[i / 20 % 3];
  const Tensor in = make(shape, x, Layout::channels_last);
  Tensor out = empty(shape, Layout::channels_last);
  ops::scale_bias(context(), in, scale, Tensor(), {40, 3, 1}, {}, out);
  expect_near(values(out), expected, epsilon());
}

TEST_P(Broadcasting, GradientsAreTheSameBitsEveryTime) {
  for (const auto& [outer, dim, inner] : kCases) {
    const Tensor x = make({outer, dim, inner}, random_values(outer * dim * inner, 1));
    const Tensor dy = make({outer, dim, inner}, random_values(outer * dim * inner, 2));
    Values first;
    for (int i = 0; i < 5; ++i) {
      Tensor sums = make({dim}, Values(dim, 0));
      ops::scale_backward(context(), x, dy, {outer, dim, inner}, sums);
      if (i == 0)
        first = values(sums);
      else
        EXPECT_EQ(values(sums), first);
    }
  }
}

BANYAN_ON_ALL_DEVICES(Elementwise);
BANYAN_ON_ALL_DEVICES(Dropout);
BANYAN_ON_ALL_DEVICES(Broadcasting);

}  // namespace
}  // namespace banyan
