// Operators that end with an activation or begin with its gradient, and those that combine one with dropout,
// are bit-identical to running the operators one after the other. (Except for the sign of zeros: for
// EXPECT_EQ -0 equals 0, as for everything computed from it.)
#include "banyan/base/error.hpp"
#include "banyan/ops/convolution.hpp"
#include "banyan/ops/functions.hpp"
#include "banyan/ops/normalization.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using Values = std::vector<double>;

const ops::Activation kActivations[] = {ops::relu_activation(), ops::relu_activation(0.3),
                                        ops::elu_activation({1, 1}), ops::elu_activation({0.5, 2}),
                                        ops::clip_activation(-0.5, 0.75)};
std::string shown(const ops::Activation& a) {
  return cat(static_cast<int>(a.kind), " ", a.slope, " ", a.elu.alpha, " ", a.elu.lambda, " ", a.low);
}

class FusedActivation : public DeviceTest {
 protected:
  Tensor activated(const Tensor& x, const ops::Activation& activation) {
    Tensor y = empty(x.shape(), x.layout());
    if (activation.kind == ops::Activation::Kind::relu)
      ops::relu_forward(context(), x, activation.slope, y);
    else if (activation.kind == ops::Activation::Kind::clip)
      ops::apply_function(context(), x, clip(activation), y);
    else
      ops::elu_forward(context(), x, activation.elu, y);
    return y;
  }
  /// Of the activation's input x, given its output y; a clip's is given by x.
  Tensor gradient(const Tensor& x, const Tensor& y, const Tensor& dy, const ops::Activation& activation) {
    Tensor dx = empty(dy.shape(), dy.layout());
    if (activation.kind == ops::Activation::Kind::clip)
      ops::apply_slope(context(), x, dy, clip(activation), dx);
    else if (activation.kind == ops::Activation::Kind::relu)
      ops::relu_backward(context(), y, dy, activation.slope, dx);
    else
      ops::elu_backward(context(), y, dy, activation.elu, dx);
    return dx;
  }

 private:
  static ops::Function clip(const ops::Activation& activation) {
    return {ops::Function::Kind::clip, activation.low, activation.high};
  }
};

TEST_P(FusedActivation, SumsOfOneToNineTerms) {
  for (const std::int64_t n : {0, 1, 37, 40001})
    for (std::size_t count = 1; count <= 9; ++count) {
      std::vector<Tensor> tensors;
      std::vector<const Tensor*> terms;
      Values factors, expected(n, 0.0);
      for (std::size_t k = 0; k < count; ++k) {
        const Values x = rounded(random_values(n, static_cast<unsigned>(k)));
        factors.push_back(k % 2 == 0 ? 1 : -0.5);
        for (std::size_t i = 0; i < x.size(); ++i) expected[i] += factors[k] * x[i];
        tensors.push_back(make({n}, x));
      }
      for (const Tensor& tensor : tensors) terms.push_back(&tensor);
      Tensor sum = empty({n});
      ops::weighted_sum(context(), terms, factors, {}, sum);
      expect_near(values(sum), expected, 10 * epsilon());
      for (const ops::Activation& activation : kActivations) {
        Tensor fused = empty({n});
        ops::weighted_sum(context(), terms, factors, activation, fused);
        EXPECT_EQ(values(fused), values(activated(sum, activation)));
      }
    }
}

TEST_P(FusedActivation, SumsMayStandWhereATermWas) {
  for (std::size_t own = 0; own < 4; ++own) {
    std::vector<Tensor> tensors;
    std::vector<const Tensor*> terms;
    for (unsigned k = 0; k < 6; ++k) tensors.push_back(make({101}, random_values(101, k)));
    for (const Tensor& tensor : tensors) terms.push_back(&tensor);
    const Values ones(6, 1);
    Tensor sum = empty({101});
    ops::weighted_sum(context(), terms, ones, {}, sum);
    const Values expected = values(sum);
    ops::weighted_sum(context(), terms, ones, {}, tensors[own]);
    EXPECT_EQ(values(tensors[own]), expected);
  }
  Tensor a = make({3}, {1, 2, 3}), short_one = make({2}, {1, 2});
  const std::vector<const Tensor*> late{&short_one, &a, &a, &a, &a, &a}, uneven{&a, &short_one};
  EXPECT_THROW(ops::weighted_sum(context(), uneven, {1, 1}, {}, a), Error);
  EXPECT_THROW(ops::weighted_sum(context(), late, Values(6, 1), {}, a), Error);
  EXPECT_THROW(ops::weighted_sum(context(), {}, {}, {}, a), Error);
}

TEST_P(FusedActivation, GradientOfASum) {
  for (const std::int64_t n : {1, 37, 40001})
    for (const ops::Activation& activation : kActivations) {
      if (!activation.shows_gradient()) continue;
      Tensor a = make({n}, random_values(n, 1));
      const Tensor b = make({n}, random_values(n, 2)), y = make({n}, random_values(n, 3));
      Tensor sum = empty({n});
      ops::weighted_sum(context(), {&a, &b}, {1, 1}, {}, sum);
      const Values expected = values(gradient(y, y, sum, activation));
      ops::activation_backward_of_sum(context(), {&a, &b}, y, activation, a);
      EXPECT_EQ(values(a), expected);
    }
  Tensor y = make({2}, {1, 2});
  for (const ops::Activation& activation :
       {ops::Activation(), ops::relu_activation(-0.5), ops::clip_activation(0, 6)})
    EXPECT_THROW(ops::activation_backward_of_sum(context(), {&y}, y, activation, y), Error);
}

TEST_P(FusedActivation, ScaleAndBias) {
  for (const ops::Broadcast& over : {ops::Broadcast{7, 5, 1}, ops::Broadcast{3, 5, 1201}}) {
    const std::int64_t n = over.outer * over.dim * over.inner;
    const Tensor x = make({n}, random_values(n, 1)), none;
    const Tensor scale = make({over.dim}, random_values(over.dim, 2));
    const Tensor bias = make({over.dim}, random_values(over.dim, 3));
    for (int kind = 1; kind < 4; ++kind)
      for (const ops::Activation& activation : kActivations) {
        const Tensor &s = (kind & 1) != 0 ? scale : none, &b = (kind & 2) != 0 ? bias : none;
        Tensor plain = empty({n}), fused = empty({n});
        ops::scale_bias(context(), x, s, b, over, {}, plain);
        ops::scale_bias(context(), x, s, b, over, activation, fused);
        EXPECT_EQ(values(fused), values(activated(plain, activation)));
      }
  }
}

// The activation's slope is found by recomputing its input with the same roundings as in the forward pass;
// otherwise it differs where the input is near 0. Some inputs are chosen to be there.
TEST_P(FusedActivation, Normalization) {
  for (const Shape& shape : {Shape{3, 5, 7, 3}, Shape{4, 20, 23, 29}, Shape{37, 70}})
    for (const Layout layout : kLayouts)
      for (const ops::Activation& activation : kActivations) {
        SCOPED_TRACE(cat(shape.to_string(), " ", name_of(layout), " ", shown(activation)));
        const std::int64_t c = shape[1];
        Values start = random_values(shape.count(), 1, 2, 3);
        for (std::size_t i = 0; i < start.size(); i += 3) start[i] = 2.5;
        const Tensor x = make(shape, start, layout),
                     dy = make(shape, random_values(shape.count(), 2), layout);
        const ops::Affine plain{make({c}, random_values(c, 3)), make({c}, random_values(c, 4, -1e-6, 1e-6))};
        ops::Affine fused{plain.slope, plain.bias, activation};
        Tensor moments(device(), {1 + 2 * c}, DType::f64), statistics(device(), {2 * c}, DType::f64);
        ops::batch_moments(context(), x, moments);
        ops::finish_moments(context(), moments, 1e-5, false, statistics);
        Tensor y = empty(shape, layout), fused_y = empty(shape, layout);
        ops::normalize_forward(context(), x, statistics, plain, y);
        ops::normalize_forward(context(), x, statistics, fused, fused_y);
        EXPECT_EQ(values(fused_y), values(activated(y, activation)));
        const Tensor addend = make(shape, random_values(shape.count(), 5), layout);
        Tensor sum = empty(shape, layout), whole = empty(shape, layout), unrectified = empty(shape, layout);
        ops::weighted_sum(context(), {&y, &addend}, {1, 1}, {}, sum);
        ops::normalize_and_add(context(), x, statistics, plain, addend, unrectified);
        ops::normalize_and_add(context(), x, statistics, fused, addend, whole);
        EXPECT_EQ(values(unrectified), values(sum));
        EXPECT_EQ(values(whole), values(activated(sum, activation)));

        const Tensor before = gradient(y, fused_y, dy, activation);
        if (activation.kind == ops::Activation::Kind::elu) fused.output = fused_y;
        Tensor sums(device(), {2 * c}, DType::f64), fused_sums(device(), {2 * c}, DType::f64), none;
        ops::normalize_backward_sums(context(), x, before, statistics, plain, sums);
        ops::normalize_backward_sums(context(), x, dy, statistics, fused, fused_sums);
        EXPECT_EQ(values(fused_sums), values(sums));
        for (const Tensor& given : {sums, none}) {
          Tensor dx = empty(shape, layout), fused_dx = empty(shape, layout);
          ops::normalize_backward(context(), x, before, statistics, plain, given, moments, dx);
          ops::normalize_backward(context(), x, dy, statistics, fused, given, moments, fused_dx);
          EXPECT_EQ(values(fused_dx), values(dx));
        }
      }
}

TEST_P(FusedActivation, Convolution) {
  const std::vector<ops::ConvolutionGeometry> geometries{
      {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 16, 32}, {{5, 5}, {1, 1}, {0, 0}, {1, 1}, 1, 1, 20},
      {{3, 3}, {1, 1}, {0, 0}, {1, 1}, 1, 12, 50}, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 24, 50},
      {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 3, 6, 9},   {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 8, 8, 8},
      {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 21, 21, 21}};
  for (const ops::ConvolutionGeometry& g : geometries)
    for (const Layout layout : kLayouts)
      for (const ops::Activation& activation : kActivations) {
        SCOPED_TRACE(
            cat(g.in_channels, " to ", g.out_channels, " ", name_of(layout), " ", shown(activation)));
        const Shape in{5, g.in_channels, 9, 11};
        const Shape out{5, g.out_channels, g.output_length(0, 9), g.output_length(1, 11)};
        const Shape weights{g.out_channels, g.in_channels / g.group, g.kernel[0], g.kernel[1]};
        const Tensor x = make(in, random_values(in.count(), 1), layout);
        const Tensor weight = make(weights, random_values(weights.count(), 2));
        const Tensor bias = make({g.out_channels}, random_values(g.out_channels, 3));
        const auto convolution = ops::make_convolution(context(), g, dtype());
        for (const Tensor& b : {bias, Tensor()}) {
          Tensor y = empty(out, layout), fused = empty(out, layout), again = empty(out, layout);
          convolution->forward(context(), x, weight, b, y);
          const bool fuses = convolution->fuse_activation(activation);
          convolution->forward(context(), x, weight, b, fused);
          EXPECT_EQ(values(fused), values(fuses ? activated(y, activation) : y));
          EXPECT_TRUE(convolution->fuse_activation({}));
          convolution->forward(context(), x, weight, b, again);
          EXPECT_EQ(values(again), values(y));
        }
      }
}

// Rows longer and shorter than a quad of random numbers, and several rows in a sample.
TEST_P(FusedActivation, Dropout) {
  const ops::RandomKey key{11, ops::stream_of("drop6"), 5};
  const ops::SampleIndex samples{2, 4};
  for (const Shape& shape :
       {Shape{7, 37}, Shape{3, 5, 3}, Shape{2, 9, 1}, Shape{5, 4, 3, 7}, Shape{40, 1030}})
    for (const Layout layout : kLayouts)
      for (const double slope : {0.0, 0.25})
        for (const double ratio : {0.5, 0.3}) {
          SCOPED_TRACE(cat(shape.to_string(), " ", name_of(layout), " ", slope, " ", ratio));
          if (layout == Layout::channels_last && shape.axes() < 4) continue;
          const std::int64_t n = shape[shape.axes() - 1];
          const auto activation = ops::relu_activation(slope);
          const ops::PassKey on = on_device(key);
          Values start = random_values(shape.count(), 1);
          for (std::size_t i = 0; i < start.size(); i += 5) start[i] = 0;
          const Tensor x = make(shape, start, layout), bias = make({n}, random_values(n, 2)), none;
          for (const Tensor& b : {none, bias}) {
            if (b.defined() && layout == Layout::channels_last) continue;
            Tensor shifted = x, y = empty(shape, layout), fused = empty(shape, layout);
            if (b.defined()) {
              shifted = empty(shape, layout);
              ops::scale_bias(context(), x, none, b, {shape.count() / n, n, 1}, {}, shifted);
            }
            const Tensor plain = activated(shifted, activation);
            ops::dropout(context(), plain, ratio, on, samples, y);
            ops::activate_and_drop(context(), x, b, activation, ratio, on, samples, fused);
            EXPECT_EQ(values(fused), values(y));
            ops::dropout(context(), shifted, ratio, on, samples, y);
            ops::activate_and_drop(context(), x, b, {}, ratio, on, samples, fused);
            EXPECT_EQ(values(fused), values(y));
          }
          const Tensor y = activated(x, activation),
                       dy = make(shape, random_values(shape.count(), 3), layout);
          Tensor dropped = empty(shape, layout), before = empty(shape, layout), dx = empty(shape, layout);
          ops::dropout(context(), y, ratio, on, samples, dropped);
          ops::dropout(context(), dy, ratio, on, samples, before);
          ops::activate_and_drop_backward(context(), dropped, dy, slope, ratio, on, samples, dx);
          EXPECT_EQ(values(dx), values(gradient(y, y, before, activation)));
        }
  Tensor y = make({1, 2}, {1, 2});
  const ops::PassKey on = on_device(key);
  EXPECT_THROW(ops::activate_and_drop_backward(context(), y, y, -0.5, 0.5, on, samples, y), Error);
}

BANYAN_ON_ALL_DEVICES(FusedActivation);

}  // namespace
}  // namespace banyan
