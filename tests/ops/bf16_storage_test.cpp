// Operators on bf16 tensors: results are those of the f32 operators on the same values, rounded once (but for
// the bias of a convolution on GPUs).
#include <gmock/gmock.h>

#include <functional>

#include "banyan/base/error.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/convolution.hpp"
#include "banyan/ops/device_value.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/loss.hpp"
#include "banyan/ops/normalization.hpp"
#include "banyan/ops/pooling.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using Values = std::vector<double>;
using Tensors = std::vector<Tensor>;

double as_bf16(double value) { return BFloat16(static_cast<float>(value)); }

/// Half the distance between the two bf16 values around `value`.
double half_ulp(double value) {
  return value == 0 ? 0 : std::ldexp(1.0, std::ilogb(value) - 8);  // 8 digits, including the leading one
}

class Bf16Storage : public testing::TestWithParam<Layout> {
 protected:
  /// A device that multiplies like this.
  void use(Math math) {
    context_.reset();
    if (tests_of_gpus()) {
      device_ = make_cuda_device(0, 0, math);
    } else {
      CpuDeviceOptions options;
      options.math = math;
      options.threads = 2;
      device_ = make_cpu_device(0, options);
    }
    device_->make_current();
    context_ = std::make_unique<Context>(*device_);
  }
  void SetUp() override {
    std::string why;
    if (tests_of_gpus() && cuda_device_count(&why) == 0) GTEST_SKIP() << "no CUDA device: " << why;
    use(Math::full);
  }
  static std::vector<Math> ways_to_multiply() {
    if (tests_of_gpus()) return {Math::full, Math::tf32, Math::bf16};
    if (!__builtin_cpu_supports("avx512bw")) return {Math::full, Math::bf16_in_f32};
    return {Math::full, Math::bf16_in_f32, Math::bf16};
  }
  Context& context() { return *context_; }
  Tensor empty(const Shape& shape, DType type, Layout layout = GetParam()) {
    Tensor tensor(*device_, shape, type, shape.axes() > 2 ? layout : Layout::contiguous);
    ops::fill(context(), tensor, 9);
    return tensor;
  }
  /// f32, but with values that bf16 can represent; some are 0.
  Tensor made(const Shape& shape, unsigned seed, double low = -2, double high = 2) {
    std::vector<float> values;
    for (const double value : random_values(shape.count(), seed, low, high))
      values.push_back(values.size() % 11 == 5 && low < 0 ? 0.0f : static_cast<float>(as_bf16(value)));
    Tensor tensor = empty(shape, DType::f32);
    copy_from_host(context(), values.data(), tensor);
    return tensor;
  }
  Tensor as(const Tensor& tensor, DType type) {
    Tensor result(*device_, tensor.shape(), type, tensor.layout());
    ops::copy(context(), tensor, result);
    return result;
  }
  Values values(const Tensor& tensor) {
    Values result(static_cast<std::size_t>(tensor.count()));
    if (tensor.dtype() == DType::i32) {
      std::vector<std::int32_t> numbers(result.size());
      copy_to_host(context(), tensor, numbers.data());
      return {numbers.begin(), numbers.end()};
    }
    dispatch_storage(tensor.dtype(), "test", [&]<class T>() {
      std::vector<T> stored(result.size());
      copy_to_host(context(), tensor, stored.data());
      std::copy(stored.begin(), stored.end(), result.begin());
    });
    return result;
  }

  using Run = std::function<void(Tensors& tensors)>;
  /// Runs an operator on f32 copies of `tensors`, and on copies of which the first `narrow` are bf16. bf16
  /// results differ from the f32 ones by at most half an ulp plus `rounding` of the f32 arithmetic in another
  /// order (relative, and absolute for results below 1); others by `rounding` alone.
  void compare(const Tensors& tensors, std::size_t narrow, const Run& run, double rounding = 0) {
    Tensors wide, stored;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      wide.push_back(as(tensors[i], tensors[i].dtype()));
      stored.push_back(as(tensors[i], i < narrow ? DType::bf16 : tensors[i].dtype()));
    }
    run(wide);
    run(stored);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Values expected = values(wide[i]), found = values(stored[i]);
      for (std::size_t k = 0; k < expected.size(); ++k) {
        const double slack = rounding * std::max(1.0, std::abs(expected[k]));
        if (rounding == 0)
          ASSERT_EQ(found[k], i < narrow ? as_bf16(expected[k]) : expected[k])
              << "tensor " << i << " at " << k;
        else
          ASSERT_NEAR(found[k], expected[k], (i < narrow ? half_ulp(expected[k]) : 0) + slack)
              << "tensor " << i << " at " << k;
      }
    }
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Context> context_;
};

INSTANTIATE_TEST_SUITE_P(Layouts, Bf16Storage, testing::ValuesIn(kLayouts),
                         [](const auto& info) { return std::string(name_of(info.param)); });

/// More than one task and thread, and channels that do not fill a vector.
const Shape kImage{6, 21, 17, 18};
const Shape kSmall{3, 5, 7, 4};

TEST_P(Bf16Storage, Copies) {
  const auto other = GetParam() == Layout::contiguous ? Layout::channels_last : Layout::contiguous;
  for (const Shape& shape : {kSmall, kImage, Shape{7}}) {
    const Tensor wide = made(shape, 1);
    for (const Layout layout : {GetParam(), other}) {
      Tensor narrow = empty(shape, DType::bf16, layout), back = empty(shape, DType::f32);
      ops::copy(context(), wide, narrow);
      EXPECT_EQ(values(narrow), values(wide));
      ops::copy(context(), narrow, back);
      EXPECT_EQ(values(back), values(wide));
      Tensor moved = empty(shape, DType::bf16);
      ops::copy(context(), narrow, moved);
      EXPECT_EQ(values(moved), values(wide));
    }
  }
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> cases{0.0f, -0.0f, 1 + 0x1p-9f, 1 + 0x1p-8f, 1 + 3 * 0x1p-8f, inf, -inf, 3.4e38f};
  Tensor wide(*device_, Shape{8}, DType::f32), narrow(*device_, Shape{8}, DType::bf16);
  copy_from_host(context(), cases.data(), wide);
  ops::copy(context(), wide, narrow);
  EXPECT_THAT(values(narrow), testing::ElementsAre(0, 0, 1, 1, 1 + 0x1p-6, inf, -inf, inf));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(as_bf16(nan)));
}

TEST_P(Bf16Storage, Level1) {
  Tensor y = empty(kSmall, DType::bf16);
  ops::fill(context(), y, 0.1);
  EXPECT_THAT(values(y), testing::Each(as_bf16(0.1)));
  for (const double beta : {0.0, 1.0, 0.5})  // two products: the compiler may contract either with the sum
    compare(
        {made(kImage, 1), made(kImage, 2)}, 2,
        [&](Tensors& t) { ops::axpby(context(), 0.25, t[0], beta, t[1]); }, 1e-7);
  const Tensor result(*device_, Shape{1}, DType::f64);
  for (const auto* op : {&ops::sum, &ops::absolute_sum, &ops::sum_of_squares, &ops::count_not_finite})
    compare({made(kImage, 1), result}, 1, [&](Tensors& t) { (*op)(context(), t[0], t[1]); });
}

TEST_P(Bf16Storage, ReluAndEltwise) {
  const Tensor a = made(kImage, 1), b = made(kImage, 2), out = empty(kImage, DType::f32);
  for (const double slope : {0.0, 0.25, -0.5}) {
    compare({a, out}, 2, [&](Tensors& t) { ops::relu_forward(context(), t[0], slope, t[1]); });
    compare({a, b, out}, 3, [&](Tensors& t) { ops::relu_backward(context(), t[0], t[1], slope, t[2]); });
  }
  compare({a, b, out}, 3, [&](Tensors& t) { ops::multiply(context(), t[0], t[1], t[2]); });
  compare({made(kImage, 3, 1, 2), a, b, out}, 4,
          [&](Tensors& t) { ops::product_backward_by_quotient(context(), t[0], t[1], t[2], t[3]); });
  const Tensor mask = empty(kImage, DType::i32);
  for (const bool first : {true, false}) {
    compare({a, b, out, out, mask}, 4, [&](Tensors& t) {
      ops::fill(context(), t[4], 0);
      ops::maximum(context(), t[0], t[1], 1, first, t[2], t[4]);
      ops::maximum_backward(context(), t[0], t[4], 1, t[3]);
    });
  }
}

TEST_P(Bf16Storage, Sums) {
  Tensors all;
  for (unsigned k = 0; k < 4; ++k) all.push_back(made(kImage, k + 1));
  all.push_back(empty(kImage, DType::f32));
  const std::vector<double> factors{1, -0.5, 0.75, 2};
  for (std::size_t terms = 1; terms <= 4; ++terms)  // more take several sweeps, each of which rounds
    compare(
        all, 5,
        [&](Tensors& t) {
          std::vector<const Tensor*> chosen;
          for (std::size_t k = 0; k < terms; ++k) chosen.push_back(&t[k]);
          ops::weighted_sum(context(), chosen, {factors.begin(), factors.begin() + terms}, {}, t[4]);
        },
        1e-6);
}

/// An operator that does the work of two is bit-identical to running both.
TEST_P(Bf16Storage, FusedOperatorsRoundAsSeparateOnesDo) {
  const Tensor a = as(made(kImage, 1), DType::bf16), b = as(made(kImage, 2), DType::bf16),
               y = as(made(kImage, 3), DType::bf16);
  Tensor sum = empty(kImage, DType::bf16), alone = sum, fused = empty(kImage, DType::bf16);
  for (const ops::Activation& activation :
       {ops::relu_activation(), ops::relu_activation(0.3), ops::elu_activation({0.5, 2})}) {
    const bool relu = activation.kind == ops::Activation::Kind::relu;
    const auto forward = [&](const Tensor& from, Tensor& to) {
      if (relu)
        ops::relu_forward(context(), from, activation.slope, to);
      else
        ops::elu_forward(context(), from, activation.elu, to);
    };
    const auto backward = [&](const Tensor& output, const Tensor& from, Tensor& to) {
      if (relu)
        ops::relu_backward(context(), output, from, activation.slope, to);
      else
        ops::elu_backward(context(), output, from, activation.elu, to);
    };
    ops::weighted_sum(context(), {&a, &b}, {1, 1}, {}, sum);
    forward(sum, alone);
    ops::weighted_sum(context(), {&a, &b}, {1, 1}, activation, fused);
    EXPECT_EQ(values(fused), values(alone));
    ops::weighted_sum(context(), {&a, &b}, {1, 1}, {}, sum);
    backward(y, sum, alone);
    ops::activation_backward_of_sum(context(), {&a, &b}, y, activation, fused);
    EXPECT_EQ(values(fused), values(alone));

    const Tensor statistics(*device_, Shape{42}, DType::f64), moments(*device_, Shape{43}, DType::f64);
    Tensor mean = statistics, counted = moments;
    ops::batch_moments(context(), a, counted);
    ops::finish_moments(context(), counted, 1e-5, false, mean);
    const ops::Affine plain{made({21}, 4), made({21}, 5), {}};
    ops::Affine ended = plain;
    ended.activation = activation;
    Tensor normalized = empty(kImage, DType::bf16), output = empty(kImage, DType::bf16);
    ops::normalize_forward(context(), a, mean, plain, normalized);
    forward(normalized, output);
    ops::normalize_forward(context(), a, mean, ended, fused);
    EXPECT_EQ(values(fused), values(output));
    ops::weighted_sum(context(), {&normalized, &b}, {1, 1}, activation, alone);
    ops::normalize_and_add(context(), a, mean, ended, b, fused);
    EXPECT_EQ(values(fused), values(alone));

    Tensor gradient = empty(kImage, DType::bf16), sums(*device_, Shape{42}, DType::f64);
    backward(output, b, gradient);
    ops::normalize_backward_sums(context(), a, gradient, mean, plain, sums);
    const Values expected = values(sums);
    ops::normalize_backward(context(), a, gradient, mean, plain, sums, counted, alone);
    ended.output = output;
    ops::normalize_backward_sums(context(), a, b, mean, ended, sums);
    EXPECT_EQ(values(sums), expected);
    ops::normalize_backward(context(), a, b, mean, ended, sums, counted, fused);
    EXPECT_EQ(values(fused), values(alone));
  }
}

TEST_P(Bf16Storage, Dropout) {
  ops::DeviceValue<std::uint64_t> draw(*device_);
  draw.write(context(), 3);
  const ops::PassKey key{11, 7, draw.get()};
  const ops::SampleIndex samples{0, 1};
  const Tensor x = made(kImage, 1), dy = made(kImage, 2), out = empty(kImage, DType::f32);
  compare({x, out}, 2, [&](Tensors& t) { ops::dropout(context(), t[0], 0.3, key, samples, t[1]); });
  compare({x, out}, 2, [&](Tensors& t) {
    ops::divide_negatives(context(), t[0], t[0], {1.5, 4}, key, samples, t[1]);
  });
  const Tensor a = as(x, DType::bf16), g = as(dy, DType::bf16);
  Tensor shifted = empty(kImage, DType::bf16), y = shifted, alone = empty(kImage, DType::bf16),
         fused = empty(kImage, DType::bf16);
  Tensor gradient = empty(kImage, DType::bf16), activated = empty(kImage, DType::bf16);
  for (const double slope : {0.0, 0.3}) {
    const ops::Activation relu = ops::relu_activation(slope);
    ops::relu_forward(context(), a, slope, activated);
    ops::dropout(context(), activated, 0.3, key, samples, alone);
    ops::activate_and_drop(context(), a, {}, relu, 0.3, key, samples, fused);
    EXPECT_EQ(values(fused), values(alone));
    ops::dropout(context(), g, 0.3, key, samples, gradient);
    ops::relu_backward(context(), activated, gradient, slope, alone);
    ops::activate_and_drop_backward(context(), fused, g, slope, 0.3, key, samples, gradient);
    EXPECT_EQ(values(gradient), values(alone));
    if (GetParam() != Layout::contiguous) continue;
    const Tensor bias = made({18}, 3);
    ops::scale_bias(context(), a, {}, bias, {6 * 21 * 17, 18, 1}, relu, shifted);
    ops::dropout(context(), shifted, 0.3, key, samples, alone);
    ops::activate_and_drop(context(), a, bias, relu, 0.3, key, samples, fused);
    EXPECT_EQ(values(fused), values(alone));
  }
}

TEST_P(Bf16Storage, LocalResponseNormalization) {
  for (const auto& [within, shape] :
       {std::pair{false, kImage}, {true, kImage}, {true, Shape{2, 21, 41, 23}}}) {
    ops::LrnParameters lrn;
    lrn.within_channel = within;
    lrn.alpha = 0.5;
    const Tensor x = made(shape, 1), dy = made(shape, 2), out = empty(shape, DType::f32);
    // The same arithmetic, but the backward pass takes y as it was rounded: half an ulp of a sum of 5 (25)
    // terms, of which 2 alpha beta / 5 (/ 25) counts: 0.75 * 2^-9 of x * dy * y / scale, which is below 8.
    compare(
        {x, out, dy, out, out}, 4,
        [&](Tensors& t) {
          ops::lrn_forward(context(), lrn, t[0], t[4], t[1]);
          ops::lrn_backward(context(), lrn, t[0], t[1], t[4], t[2], t[3]);
        },
        0.75 * 8 * 0x1p-9);
  }
}

TEST_P(Bf16Storage, ScaleAndBias) {
  const bool last = GetParam() == Layout::channels_last;
  const ops::Broadcast over = last ? ops::Broadcast{6 * 17 * 18, 21, 1} : ops::Broadcast{6, 21, 17 * 18};
  const Tensor x = made(kImage, 1), dy = made(kImage, 2), out = empty(kImage, DType::f32);
  compare(
      {x, out, made({21}, 3), made({21}, 4)}, 2,
      [&](Tensors& t) {
        ops::scale_bias(context(), t[0], t[2], t[3], over, ops::relu_activation(0.25), t[1]);
      },
      1e-6);
  for (const bool with_input : {true, false})
    for (const std::size_t narrow : {2, 3})  // an operand that is a blob is bf16 too
      compare({x, dy, made({21}, 3)}, narrow, [&](Tensors& t) {
        ops::scale_backward(context(), with_input ? t[0] : Tensor(), t[1], over, t[2]);
      });
  const Tensor parameter = made({21}, 4);
  for (const bool scales : {true, false})
    compare(
        {x, out, made({21}, 3)}, 3,
        [&](Tensors& t) {
          ops::scale_bias(context(), t[0], scales ? t[2] : parameter, scales ? parameter : t[2], over, {},
                          t[1]);
        },
        1e-6);
  // With an activation, the bits of the two operators, in place too.
  const Tensor narrow = as(x, DType::bf16), factors = as(parameter, DType::bf16);
  for (const auto& [scale, bias] :
       {std::pair{factors, Tensor()}, {Tensor(), factors}, {factors, parameter}, {parameter, factors}})
    for (const double slope : {0.0, 0.3}) {
      Tensor expected = empty(kImage, DType::bf16), found = as(narrow, DType::bf16);
      ops::scale_bias(context(), narrow, scale, bias, over, {}, expected);
      ops::relu_forward(context(), expected, slope, expected);
      ops::scale_bias(context(), found, scale, bias, over, ops::relu_activation(slope), found);
      EXPECT_EQ(values(found), values(expected));
    }
}

TEST_P(Bf16Storage, FactorsOfPlanes) {
  const std::int64_t planes = kImage.count(0, 2);
  const Tensor x = made(kImage, 1), dy = made(kImage, 2), out = empty(kImage, DType::f32);
  for (const std::size_t narrow : {4, 6})  // factors that are a blob are bf16 too
    compare({x, dy, out, out, made({planes}, 3), made({planes}, 4)}, narrow, [&](Tensors& t) {
      ops::scale_planes(context(), t[0], t[4], t[1], t[2]);
      ops::scale_planes_backward(context(), t[0], t[1], t[4], t[3], t[5]);
    });
}

/// Sums are those of f32 in vectors of another length: up to 1836 terms below 10, whose partial sums of about
/// 100 have rounding errors of 4e-6.
TEST_P(Bf16Storage, BatchNormalization) {
  for (const Shape& shape : {kSmall, kImage, Shape{50, 70}, Shape{40, 5, 30, 1}})
    for (const bool relu : {false, true}) {
      const std::int64_t c = shape[1];
      const Tensor x = made(shape, 1, 1, 5), dy = made(shape, 3), out = empty(shape, DType::f32);
      const Tensor moments(*device_, Shape{1 + 2 * c}, DType::f64), two(*device_, Shape{2 * c}, DType::f64);
      compare(
          {x, dy, out, out, moments, two, two, made({c}, 4, 0.5, 2), made({c}, 5)}, 4,
          [&](Tensors& t) {
            const ops::Affine affine{t[7], t[8], relu ? ops::relu_activation() : ops::Activation()};
            ops::batch_moments(context(), t[0], t[4]);
            ops::finish_moments(context(), t[4], 1e-5, false, t[5]);
            ops::normalize_forward(context(), t[0], t[5], affine, t[2]);
            ops::normalize_backward_sums(context(), t[0], t[1], t[5], affine, t[6]);
            ops::normalize_backward(context(), t[0], t[1], t[5], affine, t[6], t[4], t[3]);
          },
          2e-5);
    }
}

TEST_P(Bf16Storage, Pooling) {
  using Method = ops::PoolingMethod;
  for (const std::int64_t channels : {5, 21})
    for (const std::int64_t stride : {2, 3})  // 3: windows that tile the image
      for (const Method method : {Method::maximum, Method::average, Method::stochastic})
        for (const bool training : {true, false}) {
          if (method != Method::stochastic && !training) continue;
          const Shape in{2, channels, 9, 12}, out{2, channels, stride == 2 ? 4 : 3, stride == 2 ? 6 : 4};
          const ops::PoolingGeometry geometry{method, 3, 3, stride, stride, 0, 0};
          ops::DeviceValue<std::uint64_t> draw(context().device());
          draw.write(context(), 3);
          compare(
              {made(in, 1, 0.125, 2), empty(out, DType::f32), made(out, 2), empty(in, DType::f32),
               empty(out, DType::i32)},
              4,
              [&](Tensors& t) {
                ops::pooling_forward(context(), geometry, t[0], training, {1, 2, draw.get()}, {}, t[1], t[4]);
                if (training) ops::pooling_backward(context(), geometry, t[2], t[4], t[3]);
              },
              1e-6);
        }
  // An empty window gives the lowest finite value, not an infinity.
  Tensor in = as(made({1, 20, 2, 2}, 1), DType::bf16), out = empty({1, 20, 3, 3}, DType::bf16),
         mask = empty({1, 20, 3, 3}, DType::i32);
  ops::pooling_forward(context(), {Method::maximum, 1, 1, 1, 1, 0, 0}, in, true, {}, {}, out, mask);
  EXPECT_EQ(values(out)[8], -0x1.fep127);
}

TEST_P(Bf16Storage, Products) {
  for (const Math math : ways_to_multiply()) {
    use(math);
    for (int types = 0; types < 8; ++types)
      for (const double beta : {0.0, 0.5})
        for (const bool transposed : {false, true})
          for (const std::int64_t k : {64, 0}) {
            const Tensor a = made({17 * k}, 1), b = made({k * 33}, 2), c = made({17 * 33}, 3);
            Tensor wide = as(c, DType::f32);
            const ops::GemmShape shape{transposed, !transposed, 17, 33, k};
            ops::gemm(context(), shape, 1.5, a, b, beta, wide);
            const auto type = [&](int bit) { return (types >> bit & 1) != 0 ? DType::bf16 : DType::f32; };
            Tensor found = as(c, type(2));
            ops::gemm(context(), shape, 1.5, as(a, type(0)), as(b, type(1)), beta, found);
            const Values expected = values(wide), results = values(found);
            // 64 products, exact in f32, added in another order.
            for (std::size_t i = 0; i < expected.size(); ++i)
              ASSERT_NEAR(results[i], expected[i],
                          (type(2) == DType::bf16 ? half_ulp(expected[i]) : 0) + 65 * 0x1p-23 * 64);
          }
  }
}

TEST_P(Bf16Storage, ConvolutionsAddTheirBias) {
  for (const Math math : ways_to_multiply()) {
    use(math);
    const Tensor x = as(made({3, 5, 9, 7}, 1), DType::bf16), weights = made({7 * 5 * 3 * 3}, 2),
                 bias = made({7}, 3);
    Tensor w(*device_, {7, 5, 3, 3}, DType::f32), plain = empty({3, 7, 9, 7}, DType::bf16),
                                                  added = empty({3, 7, 9, 7}, DType::bf16);
    ops::copy(context(), weights.reshaped(w.shape()), w);
    const auto convolution =
        ops::make_convolution(context(), {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 5, 7}, DType::f32);
    convolution->forward(context(), x, w, Tensor(), plain);
    convolution->forward(context(), x, w, bias, added);
    const Values before = values(plain), after = values(added), by = values(bias);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const double expected = before[i] + by[i / (9 * 7) % 7];
      // What was stored is off by half an ulp, and so is the sum.
      ASSERT_NEAR(after[i], expected, half_ulp(before[i]) + half_ulp(expected) + 1e-6) << i;
      if (tests_of_gpus()) {
        ASSERT_EQ(after[i], as_bf16(expected)) << i;
      }
    }
  }
}

struct ConvolutionCase {
  Shape input;
  ops::ConvolutionGeometry geometry;
};

TEST_P(Bf16Storage, Convolutions) {
  const ConvolutionCase cases[] = {
      {{4, 32, 8, 8}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 32, 32}},
      {{3, 5, 9, 7}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, 5, 7}},
      {{3, 6, 9, 7}, {{3, 3}, {1, 1}, {0, 0}, {1, 1}, 3, 6, 9}},
      {{2, 20, 9, 11}, {{5, 5}, {1, 1}, {0, 0}, {1, 1}, 1, 20, 50}},  // f32 has special kernels for it
      {{4, 4, 8, 8}, {{1, 1}, {2, 2}, {0, 0}, {1, 1}, 1, 4, 6}},  // oneDNN has no good kernel for all passes
      {{3, 6, 11}, {{3}, {2}, {1}, {1}, 1, 6, 5}},
      {{2, 4, 3, 5, 4}, {{2, 3, 2}, {1, 2, 1}, {0, 1, 1}, {1, 1, 2}, 2, 4, 6}},
      {{2, 1, 3, 5, 4}, {{2, 3, 2}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1, 1, 1}},
      {{2, 16, 6, 6}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 16, 16, 16}},
      {{2, 4, 3, 4, 3, 4}, {{2, 2, 2, 3}, {1, 2, 1, 1}, {0, 1, 1, 1}, {1, 1, 2, 1}, 2, 4, 6}},
  };
  for (const Math math : ways_to_multiply()) {
    use(math);
    for (const auto& [input, geometry] : cases)
      for (const bool relu : {false, true}) {
        if (input.axes() > 5 && (tests_of_gpus() || GetParam() == Layout::channels_last)) continue;
        std::vector<std::int64_t> out{input[0], geometry.out_channels};
        for (int axis = 0; axis < geometry.spatial_axes(); ++axis)
          out.push_back(geometry.output_length(axis, input[axis + 2]));
        std::vector<std::int64_t> weight{geometry.out_channels, geometry.in_channels / geometry.group};
        weight.insert(weight.end(), geometry.kernel.begin(), geometry.kernel.end());
        const Tensor x = made(input, 1), y = empty(Shape(out), DType::f32), dy = made(Shape(out), 2);
        Tensor weights(*device_, Shape(weight), DType::f32);
        ops::copy(context(), made({weights.count()}, 3).reshaped(weights.shape()), weights);
        const Tensor bias = made({geometry.out_channels}, 4);
        Tensor gradient(*device_, weights.shape(), DType::f32);
        ops::fill(context(), gradient, 1);
        SCOPED_TRACE(testing::Message() << input.to_string() << " math " << static_cast<int>(math));
        const bool bias_in_one_rounding = !tests_of_gpus();  // GPUs add it to what they have stored
        // Up to 512 products and, for gradients of weights, sums of up to 256 pixels, of values below 4, in
        // another order.
        compare(
            {x, y, dy, empty(input, DType::f32), weights, bias, gradient, made({geometry.out_channels}, 5)},
            4,
            [&](Tensors& t) {
              const auto convolution = ops::make_convolution(context(), geometry, DType::f32);
              const bool fused =
                  convolution->fuse_activation(relu ? ops::relu_activation() : ops::Activation());
              convolution->forward(context(), t[0], t[4], bias_in_one_rounding ? t[5] : Tensor(), t[1]);
              if (!fused) ops::relu_forward(context(), t[1], 0, t[1]);
              convolution->backward_data(context(), t[2], t[4], t[3]);
              convolution->backward_weight(context(), t[0], t[2], t[6], t[7]);
              context().synchronize();
            },
            512 * 4 * 0x1p-23);
      }
  }
}

/// Sums over samples and pixels of exact products: f32 as in a run in f32, whatever the factors' type. (With
/// more groups than here a GPU may round them.)
TEST_P(Bf16Storage, GradientsOfWeightsAreNotRounded) {
  const ConvolutionCase cases[] = {
      {{4, 16, 8, 8}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 16, 24}},
      {{4, 12, 8, 8}, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 3, 12, 9}},
      {{3, 6, 11}, {{3}, {2}, {1}, {1}, 1, 6, 5}},
      {{2, 4, 3, 5, 4}, {{2, 3, 2}, {1, 2, 1}, {0, 1, 1}, {1, 1, 2}, 2, 4, 6}},
  };
  for (const auto& [input, geometry] : cases) {
    std::vector<std::int64_t> out{input[0], geometry.out_channels};
    for (int axis = 0; axis < geometry.spatial_axes(); ++axis)
      out.push_back(geometry.output_length(axis, input[axis + 2]));
    std::vector<std::int64_t> weight{geometry.out_channels, geometry.in_channels / geometry.group};
    weight.insert(weight.end(), geometry.kernel.begin(), geometry.kernel.end());
    const auto found = [&](Math math, DType type) {
      use(math);
      Tensor dw(*device_, Shape(weight), DType::f32), none;
      ops::fill(context(), dw, 0);
      const auto convolution = ops::make_convolution(context(), geometry, DType::f32);
      convolution->backward_weight(context(), as(made(input, 1), type), as(made(Shape(out), 2), type), dw,
                                   none);
      return values(dw);
    };
    const Values expected = found(Math::full, DType::f32);
    for (const Math math : ways_to_multiply()) {
      if (math == Math::tf32) continue;
      const Values gradients = found(math, DType::bf16);
      // 256 products of values below 2, in another order. Half an ulp of bf16 would be 0.03.
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(gradients[i], expected[i], 256 * 4 * 0x1p-23)
            << input.to_string() << " math " << static_cast<int>(math) << " at " << i;
    }
  }
}

/// GPUs move several neighbours at once where their memory allows it; the same bits come out where it does
/// not.
TEST_P(Bf16Storage, TensorsMayBeginAnywhere) {
  const auto moved = [&](const Tensor& tensor) {
    Tensor copy =
        Tensor(*device_, Shape{tensor.count() + 1}, tensor.dtype()).slice(1, tensor.shape(), tensor.layout());
    context().stream().copy(copy.raw(), tensor.raw(), tensor.bytes());
    context().synchronize();
    return copy;
  };
  const ops::PoolingGeometry window{ops::PoolingMethod::maximum, 3, 3, 2, 2, 0, 0};
  const ops::PoolingGeometry average{ops::PoolingMethod::average, 3, 3, 2, 2, 0, 0};
  for (const DType type : {DType::f32, DType::bf16})
    for (const Shape& shape : {Shape{3, 24, 7, 5}, kSmall, Shape{5, 8, 3, 3}, Shape{1, 2, 3, 3}}) {
      const std::int64_t c = shape[1];
      const auto all = [&](bool at_an_odd_place) {
        const auto place = [&](const Tensor& tensor) {
          const Tensor typed = as(tensor, type);
          return at_an_odd_place ? moved(typed) : typed;
        };
        const Tensor x = place(made(shape, 1)), dy = place(made(shape, 2)), b = place(made(shape, 3));
        const Tensor slope = made({c}, 4, 0.5, 2), bias = made({c}, 5);
        Tensor moments(*device_, Shape{1 + 2 * c}, DType::f64), mean(*device_, Shape{2 * c}, DType::f64),
            sums(*device_, Shape{2 * c}, DType::f64);
        Tensor y = place(empty(shape, DType::f32)), dx = place(empty(shape, DType::f32));
        Values results;
        const auto note = [&](const Tensor& tensor) {
          const Values found = values(tensor);
          results.insert(results.end(), found.begin(), found.end());
        };
        const ops::Affine affine{slope, bias, ops::relu_activation()};
        ops::batch_moments(context(), x, moments);
        ops::finish_moments(context(), moments, 1e-5, false, mean);
        ops::normalize_forward(context(), x, mean, affine, y);
        note(moments);
        note(y);
        ops::normalize_and_add(context(), x, mean, affine, b, y);
        note(y);
        ops::normalize_backward_sums(context(), x, dy, mean, affine, sums);
        ops::normalize_backward(context(), x, dy, mean, affine, sums, moments, dx);
        note(sums);
        note(dx);
        ops::relu_forward(context(), x, 0.25, y);
        ops::relu_backward(context(), x, dy, 0.25, dx);
        note(y);
        note(dx);
        ops::weighted_sum(context(), {&x, &b}, {1, 0.5}, ops::relu_activation(), y);
        ops::activation_backward_of_sum(context(), {&dy, &b}, y, ops::relu_activation(), dx);
        note(y);
        note(dx);
        const Shape small{shape[0], c, (shape[2] - 3) / 2 + 1, (shape[3] - 3) / 2 + 1};
        Tensor out = place(empty(small, DType::f32)), mask = empty(small, DType::u8);
        if (at_an_odd_place) mask = moved(mask);
        const Tensor gradient = place(made(small, 6));
        ops::pooling_forward(context(), window, x, true, {}, {}, out, mask);
        ops::pooling_backward(context(), window, gradient, mask, dx);
        note(out);
        note(dx);
        ops::pooling_backward(context(), average, gradient, {}, dx);
        note(dx);
        return results;
      };
      EXPECT_EQ(all(true), all(false)) << shape.to_string() << " " << name_of(type);
    }
}

/// In f32 runs images may be stored in bf16 too: products are those of f32 there, with weights as they are.
TEST_P(Bf16Storage, WeightsOfConvolutionsAreRoundedIfFactorsAre) {
  const Shape shape{2, 32, 8, 8};
  const ops::ConvolutionGeometry geometry{{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 32, 32};
  // Of each pair of channels: what one adds the other subtracts, but for what is lost in bf16.
  std::vector<float> pairs;
  for (int i = 0; i < 32 * 32 * 9; ++i)
    pairs.push_back((i / (32 * 9) + i / 9) % 2 == 0 ? 1.0f + 0x1p-10f : -1.0f);
  for (const Math math : {Math::full, tests_of_gpus() ? Math::bf16 : Math::bf16_in_f32}) {
    use(math);
    Tensor weight(*device_, {32, 32, 3, 3}, DType::f32);
    copy_from_host(context(), pairs.data(), weight);
    Tensor x = empty(shape, DType::bf16), y = empty(shape, DType::bf16), dx = empty(shape, DType::bf16);
    ops::fill(context(), x, 1);
    const auto convolution = ops::make_convolution(context(), geometry, DType::f32);
    convolution->forward(context(), x, weight, Tensor(), y);
    convolution->backward_data(context(), x, weight, dx);
    for (const Tensor& found : {y, dx})
      for (const double value : values(found)) {
        if (math == Math::full)
          EXPECT_GE(value, 0.06);  // 16 pairs, at least 4 taps
        else
          EXPECT_NEAR(value, 0, 1e-4);
      }
  }
}

/// Some operators have no use for 16 bits and say so.
TEST_P(Bf16Storage, OthersRefuse) {
  Tensor x = empty(kSmall, DType::bf16), y = x;
  try {
    ops::softmax_forward(context(), x, {3, 5, 28}, y);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("softmax_forward does not support bf16 tensors"));
  }
}

}  // namespace
}  // namespace banyan
