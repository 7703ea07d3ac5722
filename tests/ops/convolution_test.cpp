// Convolution against a naive loop in double.
#include "banyan/ops/convolution.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <thread>

#include "banyan/base/error.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/functions.hpp"
#include "banyan/ops/processor.hpp"
#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/convolution_choice.hpp"
#include "ops/cpu/convolution_columns.hpp"
#include "ops/cpu/convolution_depthwise.hpp"
#include "ops/cpu/convolution_groups.hpp"
#include "ops/cpu/convolution_products.hpp"
#include "ops/cpu/convolution_rows.hpp"
#include "ops/cpu/convolution_turned.hpp"
#include "ops/cpu/convolution_winograd.hpp"
#include "ops/device_fixture.hpp"
#include "ops/gradient_check.hpp"

namespace banyan {
namespace {

const std::vector<ops::WinogradTile>& winograd_tiles() {
  static const std::vector all{ops::WinogradTile::of_2, ops::WinogradTile::of_4,
                               ops::WinogradTile::wide_of_2};
  return all;
}
std::string name_of(ops::WinogradTile tile) {
  switch (tile) {
    case ops::WinogradTile::of_2:
      return "of_2";
    case ops::WinogradTile::of_4:
      return "of_4";
    case ops::WinogradTile::wide_of_2:
      break;
  }
  return "wide_of_2";
}

using ops::ConvolutionGeometry;
using ops::InstructionSet;
using Dims = std::vector<std::int64_t>;

struct Case {
  const char* name;
  std::int64_t batch;
  Dims input;
  ConvolutionGeometry geometry;

  Shape input_shape() const {
    Dims dims{batch, geometry.in_channels};
    dims.insert(dims.end(), input.begin(), input.end());
    return Shape(dims);
  }
  Shape output_shape() const {
    Dims dims{batch, geometry.out_channels};
    for (int axis = 0; axis < geometry.spatial_axes(); ++axis)
      dims.push_back(geometry.output_length(axis, input[axis]));
    return Shape(dims);
  }
  Shape weight_shape() const {
    Dims dims{geometry.out_channels, geometry.in_channels / geometry.group};
    dims.insert(dims.end(), geometry.kernel.begin(), geometry.kernel.end());
    return Shape(dims);
  }
};

/// Winograd's algorithm multiplies sums of a tile's values with factors up to 16 at the ends of windows of 5
/// x 5, and each is of few products: the gradient of the weights has three to four times the rounding of
/// plain sums (root mean square), whose tolerance leaves room for that.
double winograd_factor(const Case& c) {
  const ConvolutionGeometry& g = c.geometry;
  return g.kernel == Dims{5, 5} && g.stride == Dims{1, 1} && std::min(g.in_channels, g.out_channels) >= 8 ? 3
                                                                                                          : 1;
}

Case few_channels() { return {"few channels", 5, {9, 11}, {{5, 5}, {1, 1}, {0, 0}, {1, 1}, 1, 20, 50}}; }

// Geometry: kernel, stride, pad, dilation, group, in channels, out channels.
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"3x3", 3, {9, 11}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 16, 32}},
      {"odd channels", 2, {7, 9}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 5, 7}},
      {"first layer", 2, {12, 10}, {{5, 5}, {2, 2}, {2, 2}, {1, 1}, 1, 3, 20}},
      {"one channel", 2, {12, 12}, {{5, 5}, {1, 1}, {0, 0}, {1, 1}, 1, 1, 20}},
      {"1x1", 3, {5, 7}, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 13, 17}},
      {"1x1 stride 2", 2, {7, 8}, {{1, 1}, {2, 2}, {0, 0}, {1, 1}, 1, 16, 32}},
      {"uneven sides", 2, {9, 14}, {{3, 5}, {2, 3}, {0, 2}, {1, 1}, 1, 6, 9}},
      {"dilation", 2, {13, 12}, {{3, 3}, {1, 1}, {2, 2}, {2, 2}, 1, 16, 16}},
      {"dilation, phases of several sizes", 2, {17, 11}, {{3, 3}, {1, 1}, {2, 6}, {2, 3}, 1, 24, 17}},
      {"dilation in groups, without padding", 3, {19, 22}, {{3, 3}, {1, 1}, {0, 0}, {3, 4}, 2, 32, 48}},
      {"dilation beyond the image", 2, {5, 9}, {{3, 3}, {1, 1}, {7, 4}, {7, 4}, 1, 16, 16}},
      {"groups of 4, 8 channels", 2, {9, 11}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 2, 8, 8}},
      {"groups of 8, 40 channels", 2, {13, 12}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 5, 40, 40}},
      {"volumes", 2, {4, 9, 13}, {{3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1, 16, 32}},
      {"volumes in groups", 3, {5, 7, 8}, {{2, 3, 3}, {1, 1, 1}, {0, 2, 1}, {1, 1, 1}, 2, 64, 32}},
      {"volumes, one slice deep", 1, {3, 6, 10}, {{1, 3, 3}, {1, 1, 1}, {0, 1, 0}, {1, 1, 1}, 1, 32, 16}},
      {"uneven dilation", 2, {13, 12}, {{3, 2}, {2, 1}, {1, 0}, {2, 3}, 1, 3, 5}},
      {"two groups", 2, {9, 9}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 2, 32, 16}},
      {"odd groups", 3, {8, 7}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 3, 6, 9}},
      {"depthwise", 2, {9, 8}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 16, 16, 16}},
      {"odd depthwise", 2, {9, 8}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 5, 5, 5}},
      {"depthwise multiplier", 2, {6, 6}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 4, 4, 8}},
      {"depthwise, 21", 3, {9, 13}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 21, 21, 21}},
      {"depthwise, strides", 2, {13, 37}, {{3, 5}, {2, 3}, {0, 2}, {1, 1}, 40, 40, 40}},
      {"depthwise, dilation", 2, {13, 12}, {{3, 2}, {2, 1}, {1, 0}, {2, 3}, 9, 9, 9}},
      {"depthwise, upsampling", 1, {32, 24}, {{8, 8}, {4, 4}, {2, 2}, {1, 1}, 24, 24, 24}},
      {"depthwise, gaps", 2, {11, 12}, {{2, 1}, {3, 4}, {0, 0}, {1, 1}, 12, 12, 12}},
      {"depthwise, wide window", 2, {5, 4}, {{5, 7}, {1, 1}, {2, 3}, {1, 1}, 70, 70, 70}},
      {"groups of 4", 3, {9, 17}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 8, 32, 32}},
      {"groups of 4, many", 2, {9, 8}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 16, 64, 64}},
      {"groups of 4, high", 2, {33, 5}, {{3, 2}, {1, 1}, {2, 0}, {1, 1}, 4, 16, 16}},
      {"groups of 4, strides", 2, {13, 19}, {{1, 2}, {3, 2}, {0, 1}, {1, 1}, 4, 16, 16}},
      {"groups of 8", 2, {11, 9}, {{5, 3}, {1, 1}, {4, 0}, {2, 1}, 6, 48, 48}},
      {"groups of 8, strides", 2, {13, 19}, {{3, 5}, {2, 3}, {0, 2}, {2, 1}, 4, 32, 32}},
      {"1x1, groups", 3, {5, 7}, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 3, 24, 48}},
      {"1x1, groups, uneven", 3, {5, 7}, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 3, 60, 36}},
      {"1x1, groups, a channel left", 2, {9, 11}, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 2, 34, 66}},
      {"1x1, groups, volumes", 2, {3, 4, 5}, {{1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 2, 32, 48}},
      {"1 x 1, strides, few channels", 4, {8, 8}, {{1, 1}, {2, 2}, {0, 0}, {1, 1}, 1, 4, 6}},
      {"1 x 1, few channels", 4, {8, 8}, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 4, 6}},
      {"whole input", 2, {4, 5}, {{4, 5}, {1, 1}, {0, 0}, {1, 1}, 1, 8, 10}},
      {"3x3, even", 3, {8, 12}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 32, 16}},
      {"3x3, uneven pads", 2, {7, 33}, {{3, 3}, {1, 1}, {2, 0}, {1, 1}, 1, 48, 80}},
      {"3x3, pads of 0 and 2", 2, {7, 9}, {{3, 3}, {1, 1}, {0, 2}, {1, 1}, 1, 16, 32}},
      {"3x3, pads of 1 and 0", 2, {5, 11}, {{3, 3}, {1, 1}, {1, 0}, {1, 1}, 1, 32, 16}},
      {"3x3, pads of 2", 3, {7, 5}, {{3, 3}, {1, 1}, {2, 2}, {1, 1}, 1, 16, 16}},
      {"3x3, one pixel", 5, {3, 3}, {{3, 3}, {1, 1}, {0, 0}, {1, 1}, 1, 16, 16}},
      {"wide pad", 1, {2, 2}, {{3, 3}, {1, 1}, {2, 2}, {1, 1}, 1, 4, 4}},
      few_channels(),
      {"few channels, padded", 3, {6, 5}, {{3, 5}, {1, 1}, {1, 2}, {1, 1}, 1, 18, 33}},
      {"few channels, strides", 4, {13, 12}, {{3, 4}, {2, 3}, {1, 1}, {2, 1}, 1, 9, 40}},
      {"few channels, dilation", 2, {9, 12}, {{4, 3}, {1, 2}, {2, 2}, {1, 3}, 1, 20, 32}},
      {"rows, one channel left", 3, {5, 14}, {{3, 3}, {1, 1}, {0, 0}, {1, 1}, 1, 12, 17}},
      {"rows, four left", 2, {4, 7}, {{4, 5}, {1, 1}, {0, 0}, {1, 1}, 1, 7, 20}},
      {"rows, strides", 4, {13, 23}, {{3, 4}, {2, 2}, {0, 0}, {2, 1}, 1, 9, 35}},
      {"rows, four vectors", 3, {6, 20}, {{2, 3}, {1, 1}, {0, 0}, {1, 1}, 1, 3, 51}},
      {"1-D", 3, {17}, {{4}, {2}, {1}, {1}, 2, 6, 8}},
      {"3-D", 2, {4, 6, 5}, {{3, 3, 3}, {1, 2, 1}, {1, 1, 1}, {1, 1, 1}, 1, 4, 6}},
      {"3-D, uneven", 2, {4, 6, 5}, {{2, 3, 3}, {1, 1, 1}, {1, 2, 0}, {1, 2, 1}, 1, 16, 32}},
      {"4-D", 2, {3, 4, 3, 4}, {{2, 2, 2, 3}, {1, 2, 1, 1}, {0, 1, 1, 1}, {1, 1, 2, 1}, 2, 4, 6}},
  };
  return all;
}

bool advance(Dims& index, const Dims& dims) {
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    if (++index[axis] < dims[axis]) return true;
    index[axis] = 0;
  }
  return false;
}

/// Calls product(output index, input index, weight index) for every product of the convolution.
template <class Product>
void for_each_product(const Case& c, Product product) {
  const ConvolutionGeometry& g = c.geometry;
  const Dims out_dims = c.output_shape().dims(), window(g.kernel.begin(), g.kernel.end());
  const std::int64_t in_per_group = g.in_channels / g.group, out_per_group = g.out_channels / g.group;
  const std::int64_t plane = c.input_shape().count(2), taps = c.weight_shape().count(2);
  Dims out(out_dims.size(), 0);
  std::int64_t out_index = 0;
  do {
    const std::int64_t first_channel = out[0] * g.in_channels + out[1] / out_per_group * in_per_group;
    Dims k(window.size(), 0);
    std::int64_t tap = 0;
    do {
      std::int64_t place = 0;
      bool inside = true;
      for (std::size_t axis = 0; axis < window.size(); ++axis) {
        const std::int64_t position =
            out[axis + 2] * g.stride[axis] - g.pad[axis] + k[axis] * g.dilation[axis];
        inside = inside && position >= 0 && position < c.input[axis];
        place = place * c.input[axis] + position;
      }
      if (inside)
        for (std::int64_t channel = 0; channel < in_per_group; ++channel)
          product(static_cast<std::size_t>(out_index),
                  static_cast<std::size_t>((first_channel + channel) * plane + place),
                  static_cast<std::size_t>((out[1] * in_per_group + channel) * taps + tap));
      ++tap;
    } while (advance(k, window));
    ++out_index;
  } while (advance(out, out_dims));
}

/// Channel of each element of an output.
std::size_t channel_of(const Case& c, std::size_t index) {
  std::int64_t plane = 1;
  for (int axis = 0; axis < c.geometry.spatial_axes(); ++axis)
    plane *= c.geometry.output_length(axis, c.input[axis]);
  return index / static_cast<std::size_t>(plane) % static_cast<std::size_t>(c.geometry.out_channels);
}

class ConvolutionTest : public DeviceTest {
 protected:
  bool skipped(const Case& c) const { return on_cuda() && c.geometry.spatial_axes() > 3; }
  /// Sums of `terms` products of values in [-1, 1): their rounding errors add up like a random walk with
  /// steps below epsilon * sqrt(terms), so `terms * epsilon` leaves room for every order of summation.
  double tolerance(std::int64_t terms) const { return static_cast<double>(terms + 4) * epsilon(); }

  /// run(bias, slope, y) must end with the ReLU that activate() applies to what it gives for a slope of 1,
  /// infinite values too.
  template <class Run>
  void expect_relu(const Case& c, const std::vector<double>& bias, const Run& run) {
    for (const double slope : {0.3, 0.0, -0.25}) {
      SCOPED_TRACE(cat("slope ", slope));
      expect_end(c, bias, ops::relu_activation(slope),
                 [&](const Tensor& with, const ops::Activation& end, Tensor& to) {
                   run(with, end.on() ? end.slope : 1, to);
                 });
    }
  }
  /// The same for any activation, and run(bias, activation, y).
  template <class Run>
  void expect_end(const Case& c, std::vector<double> bias, const ops::Activation& end, const Run& run) {
    if (end.slope == 0) bias.front() = bias.back() = -std::numeric_limits<double>::infinity();
    const Tensor on_device = make({c.geometry.out_channels}, bias);
    Tensor fused = empty(c.output_shape(), Layout::channels_last),
           swept = empty(c.output_shape(), Layout::channels_last);
    run(on_device, end, fused);
    run(on_device, ops::Activation(), swept);
    ops::activate(context(), end, swept);
    const auto found = values(fused), expected = values(swept);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (std::isnan(expected[i]))
        ASSERT_TRUE(std::isnan(found[i])) << i;
      else
        ASSERT_EQ(found[i], expected[i]) << i;
      ASSERT_EQ(std::signbit(found[i]) && found[i] == 0, std::signbit(expected[i]) && expected[i] == 0) << i;
    }
  }
};

TEST_P(ConvolutionTest, ForwardMatchesNaiveLoops) {
  for (const Case& c : cases()) {
    if (skipped(c)) continue;
    SCOPED_TRACE(c.name);
    const auto x = rounded(random_values(c.input_shape().count(), 1));
    const auto w = rounded(random_values(c.weight_shape().count(), 2));
    const auto b = rounded(random_values(c.geometry.out_channels, 3));
    std::vector<double> plain(c.output_shape().count(), 0.0);
    for_each_product(c, [&](auto o, auto i, auto k) { plain[o] += x[i] * w[k]; });
    std::vector<double> biased = plain;
    for (std::size_t o = 0; o < biased.size(); ++o) biased[o] += b[channel_of(c, o)];
    const Tensor weight = make(c.weight_shape(), w), bias = make({c.geometry.out_channels}, b);
    const auto convolution = ops::make_convolution(context(), c.geometry, dtype());
    for (const Layout in : kLayouts) {
      for (const Layout out : kLayouts) {
        SCOPED_TRACE(cat(name_of(in), " to ", name_of(out)));
        const Tensor input = make(c.input_shape(), x, in);
        Tensor output = empty(c.output_shape(), out), without = empty(c.output_shape(), out);
        convolution->forward(context(), input, weight, bias, output);
        convolution->forward(context(), input, weight, Tensor(), without);
        expect_near(values(output), biased, tolerance(c.weight_shape().count(1)));
        expect_near(values(without), plain, tolerance(c.weight_shape().count(1)));
      }
    }
  }
}

TEST_P(ConvolutionTest, BackwardDataMatchesNaiveLoops) {
  for (const Case& c : cases()) {
    if (skipped(c)) continue;
    SCOPED_TRACE(c.name);
    const auto dy = rounded(random_values(c.output_shape().count(), 4));
    const auto w = rounded(random_values(c.weight_shape().count(), 5));
    std::vector<double> dx(c.input_shape().count(), 0.0);
    for_each_product(c, [&](auto o, auto i, auto k) { dx[i] += dy[o] * w[k]; });
    const Tensor weight = make(c.weight_shape(), w);
    const auto convolution = ops::make_convolution(context(), c.geometry, dtype());
    for (const Layout in : kLayouts) {
      for (const Layout out : kLayouts) {
        SCOPED_TRACE(cat(name_of(in), " to ", name_of(out)));
        const Tensor grad_output = make(c.output_shape(), dy, out);
        // The gradient's previous contents must not matter, not even NaN.
        Tensor grad_input = make(c.input_shape(), std::vector<double>(dx.size(), NAN), in);
        convolution->backward_data(context(), grad_output, weight, grad_input);
        expect_near(values(grad_input), dx, tolerance(c.weight_shape().count() / c.geometry.group));
      }
    }
  }
}

TEST_P(ConvolutionTest, BackwardWeightAddsToTheGradients) {
  for (const Case& c : cases()) {
    if (skipped(c)) continue;
    SCOPED_TRACE(c.name);
    const auto x = rounded(random_values(c.input_shape().count(), 6));
    const auto dy = rounded(random_values(c.output_shape().count(), 7));
    const auto dw_before = rounded(random_values(c.weight_shape().count(), 8));
    const auto db_before = rounded(random_values(c.geometry.out_channels, 9));
    auto dw = dw_before, db = db_before;
    for_each_product(c, [&](auto o, auto i, auto k) { dw[k] += dy[o] * x[i]; });
    for (std::size_t o = 0; o < dy.size(); ++o) db[channel_of(c, o)] += dy[o];
    const auto convolution = ops::make_convolution(context(), c.geometry, dtype());
    const std::int64_t terms = c.batch * c.output_shape().count(2);
    const double near = tolerance(terms) * winograd_factor(c);
    for (const Layout in : kLayouts) {
      for (const Layout out : kLayouts) {
        SCOPED_TRACE(cat(name_of(in), " to ", name_of(out)));
        const Tensor input = make(c.input_shape(), x, in), grad_output = make(c.output_shape(), dy, out);
        Tensor grad_weight = make(c.weight_shape(), dw_before);
        Tensor grad_bias = make({c.geometry.out_channels}, db_before);
        convolution->backward_weight(context(), input, grad_output, grad_weight, grad_bias);
        expect_near(values(grad_weight), dw, near);
        expect_near(values(grad_bias), db, tolerance(terms));
        Tensor alone = make(c.weight_shape(), dw_before), none;
        convolution->backward_weight(context(), input, grad_output, alone, none);
        expect_near(values(alone), dw, near);

        // What is overwritten may be anything; the result is that of an addition to zeros.
        Tensor sum = make(c.weight_shape(), std::vector<double>(dw.size(), 0.0));
        Tensor bias_sum = make({c.geometry.out_channels}, std::vector<double>(db.size(), 0.0));
        convolution->backward_weight(context(), input, grad_output, sum, bias_sum);
        const double nan = std::numeric_limits<double>::quiet_NaN();
        Tensor first = make(c.weight_shape(), std::vector<double>(dw.size(), nan));
        Tensor first_alone = make(c.weight_shape(), std::vector<double>(dw.size(), nan));
        Tensor first_bias = make({c.geometry.out_channels}, std::vector<double>(db.size(), nan));
        convolution->first_backward_weight(context(), input, grad_output, first, first_bias);
        EXPECT_EQ(values(first), values(sum));
        EXPECT_EQ(values(first_bias), values(bias_sum));
        convolution->first_backward_weight(context(), input, grad_output, first_alone, none);
        EXPECT_EQ(values(first_alone), values(sum));
      }
    }
  }
}

/// Our own kernels wherever they can do the work, also where the rules prefer oneDNN's.
TEST_P(ConvolutionTest, OwnKernelsMatchNaiveLoops) {
  if (on_cuda() || dtype() != DType::f32) GTEST_SKIP() << "kernels for f32 on CPU devices";
  int by_rows = 0, by_columns = 0, by_products = 0, by_groups = 0, by_winograd = 0, depthwise = 0,
      depthwise_chosen = 0, one_by_one = 0, turned = 0;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Layout last = Layout::channels_last;
    const auto x = rounded(random_values(c.input_shape().count(), 23));
    const auto w = rounded(random_values(c.weight_shape().count(), 24));
    const auto b = rounded(random_values(c.geometry.out_channels, 25));
    const auto dy = rounded(random_values(c.output_shape().count(), 26));
    const Tensor input = make(c.input_shape(), x, last), grad_output = make(c.output_shape(), dy, last);
    const Tensor weight = make(c.weight_shape(), w), bias = make({c.geometry.out_channels}, b);
    if (ops::rows_apply(c.geometry, input, grad_output)) {
      ++by_rows;
      std::vector<double> y(dy.size());
      auto dw = w, db = b;
      for (std::size_t o = 0; o < y.size(); ++o) y[o] = b[channel_of(c, o)], db[channel_of(c, o)] += dy[o];
      for_each_product(c, [&](auto o, auto i, auto k) { y[o] += x[i] * w[k], dw[k] += dy[o] * x[i]; });
      Tensor output = empty(c.output_shape(), last);
      ops::forward_by_rows(context(), c.geometry, input, weight, bias, 1, output);
      expect_near(values(output), y, tolerance(c.weight_shape().count(1)));
      expect_relu(c, b, [&](const Tensor& with, double slope, Tensor& to) {
        ops::forward_by_rows(context(), c.geometry, input, weight, with, slope, to);
      });
      Tensor grad_weight = make(c.weight_shape(), w), grad_bias = make({c.geometry.out_channels}, b);
      ops::backward_weight_by_rows(context(), c.geometry, input, grad_output, grad_weight, grad_bias);
      expect_near(values(grad_weight), dw, tolerance(c.batch * c.output_shape().count(2)));
      expect_near(values(grad_bias), db, tolerance(c.batch * c.output_shape().count(2)));
    }
    if (ops::products_apply(c.geometry, input, grad_output)) {
      ++by_products;
      auto dw = w;
      std::vector<double> first_dw(w.size(), 0.0);
      for_each_product(c, [&](auto o, auto i, auto k) { first_dw[k] += dy[o] * x[i]; });
      for (std::size_t k = 0; k < dw.size(); ++k) dw[k] += first_dw[k];
      Tensor grad_weight = make(c.weight_shape(), w);
      ops::backward_weight_by_products(context(), c.geometry, input, grad_output, true, grad_weight);
      expect_near(values(grad_weight), dw, tolerance(c.batch * c.output_shape().count(2)));
      ops::backward_weight_by_products(context(), c.geometry, input, grad_output, false, grad_weight);
      expect_near(values(grad_weight), first_dw, tolerance(c.batch * c.output_shape().count(2)));
    }
    const bool can_turn = ops::can_turn(c.geometry) && c.geometry.spatial_axes() <= 3;
    std::vector<double> dx(x.size(), 0.0);
    for_each_product(c, [&](auto o, auto i, auto k) { dx[i] += dy[o] * w[k]; });
    if (ops::groups_apply(c.geometry, input, grad_output)) {
      ++by_groups;
      std::vector<double> plain(dy.size(), 0.0), first_dw(w.size(), 0.0);
      for_each_product(c,
                       [&](auto o, auto i, auto k) { plain[o] += x[i] * w[k], first_dw[k] += dy[o] * x[i]; });
      auto y = plain, dw = first_dw;
      for (std::size_t o = 0; o < y.size(); ++o) y[o] += b[channel_of(c, o)];
      for (std::size_t k = 0; k < dw.size(); ++k) dw[k] += w[k];
      Tensor output = empty(c.output_shape(), last), none, grad_weight = make(c.weight_shape(), w);
      ops::forward_by_groups(context(), c.geometry, input, weight, bias, 1, output);
      expect_near(values(output), y, tolerance(c.weight_shape().count(1)));
      expect_relu(c, b, [&](const Tensor& with, double slope, Tensor& to) {
        ops::forward_by_groups(context(), c.geometry, input, weight, with, slope, to);
      });
      ops::forward_by_groups(context(), c.geometry, input, weight, none, 1, output);
      expect_near(values(output), plain, tolerance(c.weight_shape().count(1)));
      ops::backward_weight_by_groups(context(), c.geometry, input, grad_output, true, grad_weight);
      expect_near(values(grad_weight), dw, tolerance(c.batch * c.output_shape().count(2)));
      ops::backward_weight_by_groups(context(), c.geometry, input, grad_output, false, grad_weight);
      expect_near(values(grad_weight), first_dw, tolerance(c.batch * c.output_shape().count(2)));
      if (ops::groups_can_turn(c.geometry)) {
        Tensor grad_input = empty(c.input_shape(), last);
        ops::backward_data_by_groups(context(), c.geometry, grad_output, weight, grad_input);
        expect_near(values(grad_input), dx, tolerance(c.weight_shape().count(1)));
      }
    }
    if (ops::is_product(c.geometry) && ops::products_apply(c.geometry, input, grad_output)) {
      ++one_by_one;
      std::vector<double> plain(dy.size(), 0.0);
      for_each_product(c, [&](auto o, auto i, auto k) { plain[o] += x[i] * w[k]; });
      auto y = plain;
      for (std::size_t o = 0; o < y.size(); ++o) y[o] += b[channel_of(c, o)];
      const double rounding = tolerance(std::max(c.geometry.in_channels, c.geometry.out_channels));
      const std::vector<double> nan(std::max(x.size(), dy.size()), NAN);
      Tensor output = make(c.output_shape(), {nan.begin(), nan.begin() + std::ssize(dy)}, last), none;
      ops::forward_by_products(context(), c.geometry, input, weight, bias, 1, output);
      expect_near(values(output), y, rounding);
      expect_relu(c, b, [&](const Tensor& with, double slope, Tensor& to) {
        ops::forward_by_products(context(), c.geometry, input, weight, with, slope, to);
      });
      ops::forward_by_products(context(), c.geometry, input, weight, none, 1, output);
      expect_near(values(output), plain, rounding);
      Tensor grad_input = make(c.input_shape(), {nan.begin(), nan.begin() + std::ssize(x)}, last);
      ops::backward_data_by_products(context(), c.geometry, grad_output, weight, grad_input);
      expect_near(values(grad_input), dx, rounding);
    }
    if (ops::depthwise_applies(c.geometry, input, grad_output)) {
      ++depthwise;
      std::vector<double> plain(dy.size(), 0.0), first_dw(w.size(), 0.0), first_db(b.size(), 0.0);
      for_each_product(c,
                       [&](auto o, auto i, auto k) { plain[o] += x[i] * w[k], first_dw[k] += dy[o] * x[i]; });
      for (std::size_t o = 0; o < dy.size(); ++o) first_db[channel_of(c, o)] += dy[o];
      auto y = plain, dw = first_dw, db = first_db;
      for (std::size_t o = 0; o < y.size(); ++o) y[o] += b[channel_of(c, o)];
      for (std::size_t k = 0; k < dw.size(); ++k) dw[k] += w[k];
      for (std::size_t o = 0; o < db.size(); ++o) db[o] += b[o];
      const double rounding = tolerance(c.weight_shape().count(1));
      const double of_sums = tolerance(c.batch * c.output_shape().count(2));
      const std::vector<double> nan(std::max(x.size(), dy.size()), NAN);
      Tensor output = make(c.output_shape(), {nan.begin(), nan.begin() + std::ssize(dy)}, last), none;
      ops::forward_depthwise(context(), c.geometry, input, weight, bias, {}, output);
      expect_near(values(output), y, rounding);
      const auto run = [&](const Tensor& with, const ops::Activation& end, Tensor& to) {
        ops::forward_depthwise(context(), c.geometry, input, weight, with, end, to);
      };
      expect_relu(c, b, [&](const Tensor& with, double slope, Tensor& to) {
        run(with, slope == 1 ? ops::Activation() : ops::relu_activation(slope), to);
      });
      expect_end(c, b, ops::clip_activation(-0.5, 0.75), run);
      ops::forward_depthwise(context(), c.geometry, input, weight, none, {}, output);
      expect_near(values(output), plain, rounding);
      Tensor grad_input = make(c.input_shape(), {nan.begin(), nan.begin() + std::ssize(x)}, last);
      ops::backward_data_depthwise(context(), c.geometry, grad_output, weight, grad_input);
      expect_near(values(grad_input), dx, rounding);
      Tensor grad_weight = make(c.weight_shape(), w), grad_bias = make({c.geometry.out_channels}, b);
      ops::backward_weight_depthwise(context(), c.geometry, input, grad_output, true, grad_weight, grad_bias);
      expect_near(values(grad_weight), dw, of_sums);
      expect_near(values(grad_bias), db, of_sums);
      ops::backward_weight_depthwise(context(), c.geometry, input, grad_output, false, grad_weight,
                                     grad_bias);
      expect_near(values(grad_weight), first_dw, of_sums);
      expect_near(values(grad_bias), first_db, of_sums);
      const auto with_bias = values(grad_weight);
      ops::backward_weight_depthwise(context(), c.geometry, input, grad_output, false, grad_weight, none);
      EXPECT_EQ(values(grad_weight), with_bias);
      // What chooses among all kernels takes these, bit for bit, where the rules say so.
      const auto convolution = ops::make_convolution(context(), c.geometry, dtype());
      const auto pays = [&](ops::DepthwisePass pass) {
        const bool chosen = ops::depthwise_pays(pass, c.geometry, input, grad_output);
        depthwise_chosen += chosen ? 1 : 0;
        return chosen;
      };
      if (pays(ops::DepthwisePass::forward)) {
        Tensor chosen = empty(c.output_shape(), last);
        convolution->forward(context(), input, weight, none, chosen);
        EXPECT_EQ(values(chosen), values(output));
      }
      if (pays(ops::DepthwisePass::backward_data)) {
        Tensor chosen = empty(c.input_shape(), last);
        convolution->backward_data(context(), grad_output, weight, chosen);
        EXPECT_EQ(values(chosen), values(grad_input));
      }
      if (pays(ops::DepthwisePass::backward_weight)) {
        Tensor chosen = make(c.weight_shape(), w);
        convolution->first_backward_weight(context(), input, grad_output, chosen, none);
        EXPECT_EQ(values(chosen), with_bias);
      }
    }
    const std::vector<ops::WinogradTile> tiles = [&] {
      std::vector<ops::WinogradTile> all = winograd_tiles();
      std::erase_if(all, [&](ops::WinogradTile tile) {
        return !ops::winograd_applies(tile, c.geometry, input, grad_output);
      });
      return all;
    }();
    if (!tiles.empty()) {
      ++by_winograd;
      std::vector<double> plain(dy.size(), 0.0), first_dw(w.size(), 0.0);
      for_each_product(c,
                       [&](auto o, auto i, auto k) { plain[o] += x[i] * w[k], first_dw[k] += dy[o] * x[i]; });
      auto y = plain, dw = first_dw;
      for (std::size_t o = 0; o < y.size(); ++o) y[o] += b[channel_of(c, o)];
      for (std::size_t k = 0; k < dw.size(); ++k) dw[k] += w[k];
      for (const ops::WinogradTile tile : tiles) {
        SCOPED_TRACE(name_of(tile));
        // Every output is made of sums of all of a tile's inputs, also where its own window has few inside
        // the image: 16 and 36.
        const auto near = [&](std::int64_t terms) {
          return tolerance(std::max<std::int64_t>(terms, tile == ops::WinogradTile::of_2 ? 16 : 36));
        };
        Tensor output = empty(c.output_shape(), last);
        ops::forward_by_winograd(context(), tile, c.geometry, input, weight, bias, 1, Tensor(), false,
                                 output);
        expect_near(values(output), y, near(c.weight_shape().count(1)));
        expect_relu(c, b, [&](const Tensor& with, double slope, Tensor& to) {
          ops::forward_by_winograd(context(), tile, c.geometry, input, weight, with, slope, Tensor(), false,
                                   to);
        });
        const Tensor kept = empty({ops::winograd_weights(tile, c.geometry)});
        Tensor filling = empty(c.output_shape(), last);
        const Tensor none, others = make(c.weight_shape(), std::vector<double>(w.size(), NAN));
        ops::forward_by_winograd(context(), tile, c.geometry, input, weight, none, 1, kept, false, filling);
        ops::forward_by_winograd(context(), tile, c.geometry, input, others, none, 1, kept, true, output);
        expect_near(values(output), plain, near(c.weight_shape().count(1)));
        EXPECT_EQ(values(output), values(filling));

        Tensor grad_weight = make(c.weight_shape(), w), grad_input = empty(c.input_shape(), last);
        ops::backward_data_by_winograd(context(), tile, c.geometry, grad_output, weight, grad_input);
        expect_near(values(grad_input), dx, near(c.weight_shape().count()));
        const double of_all = near(c.batch * c.output_shape().count(2)) * winograd_factor(c);
        ops::backward_weight_by_winograd(context(), tile, c.geometry, input, grad_output, true, grad_weight);
        expect_near(values(grad_weight), dw, of_all);
        ops::backward_weight_by_winograd(context(), tile, c.geometry, input, grad_output, false, grad_weight);
        expect_near(values(grad_weight), first_dw, of_all);
      }
    }
    if (can_turn) {
      ++turned;
      Tensor grad_input = empty(c.input_shape(), last);
      const auto convolution = ops::make_turned_convolution(c.geometry);  // until its work is done
      convolution->backward_data(context(), grad_output, weight, grad_input);
      expect_near(values(grad_input), dx, tolerance(c.weight_shape().count()));
    }
    if (ops::is_plain_convolution(c.geometry, input, grad_output)) {
      ++by_columns;
      for (const std::int64_t columns :
           {std::int64_t{1}, ops::column_values()}) {  // one image at a time, and several
        Tensor grad_input = empty(c.input_shape(), last);
        ops::backward_data_by_columns(context(), c.geometry, grad_output, weight, columns, grad_input);
        expect_near(values(grad_input), dx, tolerance(c.weight_shape().count()));
      }
    }
  }
  EXPECT_GE(turned, 12);
  EXPECT_GE(by_rows, 6);
  EXPECT_GE(by_columns, 15);
  EXPECT_GE(by_products, 15);
  EXPECT_EQ(by_groups, ops::instruction_set() == ops::InstructionSet::avx512 ? 6
                       : ops::instruction_set() == ops::InstructionSet::avx2 ? 8
                                                                             : 0);
  EXPECT_EQ(depthwise, 7);
  EXPECT_GE(one_by_one, 6);
  switch (ops::instruction_set()) {
    case ops::InstructionSet::avx512:
      EXPECT_GE(depthwise_chosen, 6);
      break;
    case ops::InstructionSet::avx2:
      EXPECT_GE(depthwise_chosen, 1);
      break;
    case ops::InstructionSet::baseline:
      EXPECT_EQ(depthwise_chosen, 0);
      break;
  }
  if (ops::instruction_set() == ops::InstructionSet::baseline)
    EXPECT_EQ(by_winograd, 0);
  else
    EXPECT_GE(by_winograd, 8);
}

TEST_P(ConvolutionTest, GradientsMatchDifferences) {
  if (dtype() != DType::f64) GTEST_SKIP() << "differences need f64";
  for (const Case& c : {cases()[6], cases()[8], cases()[10]}) {
    SCOPED_TRACE(c.name);
    const auto x = random_values(c.input_shape().count(), 10),
               w = random_values(c.weight_shape().count(), 11);
    const auto dy = random_values(c.output_shape().count(), 12);
    const auto convolution = ops::make_convolution(context(), c.geometry, dtype());
    const auto loss = [&](const std::vector<double>& input, const std::vector<double>& weight) {
      Tensor output = empty(c.output_shape());
      const Tensor in = make(c.input_shape(), input), k = make(c.weight_shape(), weight);
      convolution->forward(context(), in, k, Tensor(), output);
      return dot(values(output), dy);
    };
    const Tensor grad_output = make(c.output_shape(), dy), weight = make(c.weight_shape(), w);
    const Tensor input = make(c.input_shape(), x);
    Tensor dx = empty(c.input_shape()), none;
    Tensor dw = make(c.weight_shape(), std::vector<double>(w.size(), 0.0));
    convolution->backward_data(context(), grad_output, weight, dx);
    convolution->backward_weight(context(), input, grad_output, dw, none);
    expect_gradient([&](const auto& moved) { return loss(moved, w); }, x, values(dx));
    expect_gradient([&](const auto& moved) { return loss(x, moved); }, w, values(dw));
  }
}

/// Parameters and their gradients are slices of one buffer, and cuDNN's kernels read 16 bytes at once: what
/// begins anywhere is copied, in its own order too.
TEST_P(ConvolutionTest, TensorsMayBeginAnywhere) {
  const auto moved = [&](const Shape& shape, const std::vector<double>& from, Layout layout) {
    Tensor tensor = empty({shape.count() + 1}).slice(1, shape, layout);
    const Tensor aligned = make(shape, from, layout);
    context().stream().copy(tensor.raw(), aligned.raw(), tensor.bytes());
    context().synchronize();
    return tensor;
  };
  for (const Case& c : {cases()[0], cases()[1], cases()[9], few_channels()}) {
    const auto x = rounded(random_values(c.input_shape().count(), 40));
    const auto w = rounded(random_values(c.weight_shape().count(), 41));
    const auto b = rounded(random_values(c.geometry.out_channels, 42));
    const auto dy = rounded(random_values(c.output_shape().count(), 43));
    std::vector<double> y(dy.size()), dx(x.size()), dw(w.size()), db(b.size());
    for (std::size_t o = 0; o < y.size(); ++o) y[o] = b[channel_of(c, o)], db[channel_of(c, o)] += dy[o];
    for_each_product(c, [&](auto o, auto i, auto k) {
      y[o] += x[i] * w[k], dx[i] += dy[o] * w[k], dw[k] += dy[o] * x[i];
    });
    auto added = w, bias_added = b;
    for (std::size_t k = 0; k < added.size(); ++k) added[k] += dw[k];
    for (std::size_t o = 0; o < bias_added.size(); ++o) bias_added[o] += db[o];
    const auto convolution = ops::make_convolution(context(), c.geometry, dtype());
    const Layout plain = Layout::contiguous;
    const Shape of_bias{c.geometry.out_channels};
    const std::int64_t terms = c.batch * c.output_shape().count(2);
    for (const Layout layout : kLayouts) {
      SCOPED_TRACE(cat(c.name, ", ", name_of(layout)));
      const auto any = [&](const Shape& shape, Layout in) {
        return moved(shape, std::vector<double>(shape.count(), NAN), in);
      };
      const Tensor input = moved(c.input_shape(), x, layout),
                   grad_output = moved(c.output_shape(), dy, layout);
      const Tensor weight = moved(c.weight_shape(), w, plain), bias = moved(of_bias, b, plain);
      Tensor output = any(c.output_shape(), layout), grad_input = any(c.input_shape(), layout);
      Tensor first = any(c.weight_shape(), plain), first_bias = any(of_bias, plain);
      Tensor sum = moved(c.weight_shape(), w, plain), bias_sum = moved(of_bias, b, plain);
      convolution->forward(context(), input, weight, bias, output);
      convolution->backward_data(context(), grad_output, weight, grad_input);
      convolution->first_backward_weight(context(), input, grad_output, first, first_bias);
      convolution->backward_weight(context(), input, grad_output, sum, bias_sum);
      expect_near(values(output), y, tolerance(c.weight_shape().count(1)));
      expect_near(values(grad_input), dx, tolerance(c.weight_shape().count() / c.geometry.group));
      expect_near(values(first), dw, tolerance(terms) * winograd_factor(c));
      expect_near(values(first_bias), db, tolerance(terms));
      expect_near(values(sum), added, tolerance(terms) * winograd_factor(c));
      expect_near(values(bias_sum), bias_added, tolerance(terms));
    }
  }
}

TEST_P(ConvolutionTest, EmptyBatchContributesNothing) {
  const Case c{"empty", 0, {6, 5}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 4, 6}};
  const auto convolution = ops::make_convolution(context(), c.geometry, dtype());
  const auto before = rounded(random_values(c.weight_shape().count(), 13));
  const auto bias_before = rounded(random_values(6, 14));
  Tensor input = empty(c.input_shape()), output = empty(c.output_shape());
  Tensor weight = make(c.weight_shape(), before), bias = make({6}, bias_before);
  convolution->forward(context(), input, weight, bias, output);
  convolution->backward_data(context(), output, weight, input);
  convolution->backward_weight(context(), input, output, weight, bias);
  EXPECT_EQ(values(weight), before);
  EXPECT_EQ(values(bias), bias_before);
  convolution->first_backward_weight(context(), input, output, weight, bias);
  EXPECT_EQ(values(weight), std::vector<double>(before.size(), 0.0));
  EXPECT_EQ(values(bias), std::vector<double>(6, 0.0));
}

TEST_P(ConvolutionTest, SameBitsEveryTime) {
  for (const Case& c : {cases()[0], cases()[2], cases()[10], few_channels()}) {
    SCOPED_TRACE(c.name);
    const Layout last = Layout::channels_last;
    std::vector<std::vector<double>> first;
    for (int run = 0; run < 3; ++run) {
      const auto convolution = ops::make_convolution(context(), c.geometry, dtype());
      const Tensor input = make(c.input_shape(), random_values(c.input_shape().count(), 15), last);
      const Tensor dy = make(c.output_shape(), random_values(c.output_shape().count(), 16), last);
      Tensor weight = make(c.weight_shape(), random_values(c.weight_shape().count(), 17));
      Tensor bias = make({c.geometry.out_channels}, random_values(c.geometry.out_channels, 18));
      Tensor output = empty(c.output_shape(), last), dx = empty(c.input_shape(), last);
      convolution->forward(context(), input, weight, bias, output);
      convolution->backward_data(context(), dy, weight, dx);
      convolution->backward_weight(context(), input, dy, weight, bias);
      const std::vector<std::vector<double>> found{values(output), values(dx), values(weight), values(bias)};
      if (run == 0) first = found;
      EXPECT_EQ(found, first);
    }
  }
}

TEST_P(ConvolutionTest, FollowsABatchThatChanges) {
  const ConvolutionGeometry geometry{{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 16, 16};
  const auto convolution = ops::make_convolution(context(), geometry, dtype());
  const auto w = rounded(random_values(16 * 16 * 9, 19));
  const Tensor weight = make({16, 16, 3, 3}, w);
  for (const std::int64_t batch : {4, 1, 3, 4}) {
    const Case c{"batch", batch, {8, 8}, geometry};
    const auto x = rounded(random_values(c.input_shape().count(), 20));
    std::vector<double> expected(c.output_shape().count(), 0.0);
    for_each_product(c, [&](auto o, auto i, auto k) { expected[o] += x[i] * w[k]; });
    const Tensor input = make(c.input_shape(), x, Layout::channels_last);
    Tensor output = empty(c.output_shape(), Layout::channels_last);
    convolution->forward(context(), input, weight, Tensor(), output);
    expect_near(values(output), expected, tolerance(c.weight_shape().count(1)));
  }
}

TEST_P(ConvolutionTest, WeightsThatStay) {
  for (const std::int64_t stride : {1, 2}) {  // 1: by Winograd's algorithm
    const ConvolutionGeometry geometry{{3, 3}, {stride, stride}, {1, 1}, {1, 1}, 1, 16, 32};
    const auto keeping = ops::make_convolution(context(), geometry, dtype());
    const auto plain = ops::make_convolution(context(), geometry, dtype());
    Tensor weight = empty({32, 16, 3, 3});
    for (int change = 0; change < 3; ++change) {
      const Tensor drawn = make(weight.shape(), random_values(weight.count(), 40 + change));
      ops::copy(context(), drawn, weight);
      keeping->weights_stay();
      // Batches and directions may differ in the order of weights that they prefer.
      for (const std::int64_t batch : {2, 2, 1, 2}) {
        const Case c{"batch", batch, {8, 9}, geometry};
        const Tensor x =
            make(c.input_shape(), random_values(c.input_shape().count(), 50), Layout::channels_last);
        const Tensor dy = make(c.output_shape(), random_values(c.output_shape().count(), 51));
        Tensor y = empty(c.output_shape(), Layout::channels_last), dx = empty(c.input_shape());
        Tensor plain_y = empty(c.output_shape(), Layout::channels_last), plain_dx = empty(c.input_shape());
        for (int again = 0; again < 2; ++again) {
          keeping->forward(context(), x, weight, Tensor(), y);
          plain->forward(context(), x, weight, Tensor(), plain_y);
          EXPECT_EQ(values(y), values(plain_y));
        }
        keeping->backward_data(context(), dy, weight, dx);
        plain->backward_data(context(), dy, weight, plain_dx);
        EXPECT_EQ(values(dx), values(plain_dx));
      }
    }
  }
}

/// More than a convolution keeps plans for, and the first one again; work is still pending when plans are
/// dropped, unless the convolution waits for it.
TEST_P(ConvolutionTest, ManySizes) {
  if (on_cuda() || dtype() != DType::f32) GTEST_SKIP() << "plans of oneDNN";
  const ConvolutionGeometry geometry{{3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, 16, 32};
  const auto convolution = ops::make_convolution(context(), geometry, dtype());
  const auto reference = ops::make_reference_convolution(geometry);
  const Tensor weight = make({32, 16, 3, 3}, random_values(32 * 16 * 9, 1));
  std::vector<Tensor> outputs, inputs;
  for (std::int64_t width = 72; width >= 1; --width) {  // the largest first: its workspace suffices
    const Case c{"", 1, {2, width == 1 ? 72 : width}, geometry};
    inputs.push_back(make(c.input_shape(), random_values(c.input_shape().count(), 2), Layout::channels_last));
    outputs.push_back(empty(c.output_shape(), Layout::channels_last));
  }
  const auto convolve = [&](std::size_t i) {
    convolution->forward(context(), inputs[i], weight, Tensor(), outputs[i]);
  };
  convolve(0);
  context().run([] { std::this_thread::sleep_for(std::chrono::milliseconds(400)); });
  for (std::size_t i = 1; i < outputs.size(); ++i) convolve(i);
  context().synchronize();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Tensor expected = empty(outputs[i].shape(), Layout::channels_last);
    reference->forward(context(), inputs[i], weight, Tensor(), expected);
    expect_near(values(outputs[i]), values(expected), tolerance(16 * 9));
  }
}

TEST_P(ConvolutionTest, ReferenceMatchesLibrary) {
  if (on_cuda()) GTEST_SKIP() << "the reference runs on CPU devices only";
  const Case& c = cases()[0];
  const auto convolution = ops::make_convolution(context(), c.geometry, dtype());
  const auto reference = ops::make_reference_convolution(c.geometry);
  const Tensor input = make(c.input_shape(), random_values(c.input_shape().count(), 21));
  const Tensor weight = make(c.weight_shape(), random_values(c.weight_shape().count(), 22));
  Tensor output = empty(c.output_shape()), expected = empty(c.output_shape());
  convolution->forward(context(), input, weight, Tensor(), output);
  reference->forward(context(), input, weight, Tensor(), expected);
  expect_near(values(output), values(expected), tolerance(c.weight_shape().count(1)));
}

TEST_P(ConvolutionTest, RefusesWhatDoesNotFit) {
  const ConvolutionGeometry geometry{{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 4, 6};
  const auto convolution = ops::make_convolution(context(), geometry, dtype());
  Tensor input = empty({2, 4, 5, 5}), weight = empty({6, 4, 3, 3}), output = empty({2, 6, 5, 4});
  EXPECT_THROW(convolution->forward(context(), input, weight, Tensor(), output), Error);
  ConvolutionGeometry odd = geometry;
  odd.group = 4;  // 6 outputs
  EXPECT_THROW(ops::make_convolution(context(), odd, dtype()), Error);
  const ConvolutionGeometry four{{1, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}, {1, 1, 1, 1}, 1, 2, 2};
  if (context().device().kind() == DeviceKind::cuda) {
    EXPECT_THROW(ops::make_convolution(context(), four, dtype()), Error);
  }
  EXPECT_THROW(ops::make_convolution(context(), geometry, DType::f16), Error);
  // Tensors of another type than the convolution was made for.
  const auto narrow = ops::make_convolution(context(), geometry, DType::f32);
  const Tensor wide(context().device(), {2, 4, 5, 5}, DType::f64),
      kernel(context().device(), {6, 4, 3, 3}, DType::f64);
  Tensor result(context().device(), {2, 6, 5, 5}, DType::f64);
  EXPECT_THROW(narrow->forward(context(), wide, kernel, Tensor(), result), Error);
}

/// A rule about a 12 x 12 image and a square kernel.
struct ShapeRule {
  std::int64_t in, out, kernel, batch = 64, pad = 0;
  Layout layout = Layout::channels_last;

  template <class Rule>
  bool holds(Rule rule) const {
    const auto device = make_cpu_device(0, {});
    const ConvolutionGeometry geometry{{kernel, kernel}, {1, 1}, {pad, pad}, {1, 1}, 1, in, out};
    const std::int64_t length = geometry.output_length(0, 12);
    return rule(geometry, Tensor(*device, {batch, in, 12, 12}, DType::f32, layout),
                Tensor(*device, {batch, out, length, length}, DType::f32, layout));
  }
};

/// What a rule says for one of the instruction sets; this process has one of them.
struct Choice {
  InstructionSet kernels;
  ShapeRule shapes;
  bool pays;
};

template <class Rule>
void expect_choices(const std::vector<Choice>& choices, Rule rule) {
  for (const Choice& choice : choices) {
    if (choice.kernels != ops::instruction_set()) continue;
    const ShapeRule& s = choice.shapes;
    EXPECT_EQ(s.holds(rule), choice.pays) << s.in << " -> " << s.out << ", " << s.kernel << " x " << s.kernel
                                          << ", batch " << s.batch << ", pad " << s.pad;
  }
}

constexpr auto kAvx512 = InstructionSet::avx512, kAvx2 = InstructionSet::avx2,
               kBaseline = InstructionSet::baseline;

TEST(ConvolutionColumns, PayWhereVectorsWouldBeNearlyEmpty) {
  const auto pay = [](const auto&... all) { return ops::columns_pay(all..., 2); };
  expect_choices({{kAvx512, {20, 50, 5}, true},
                  {kAvx512, {20, 50, 5, 2}, true},
                  {kAvx512, {20, 64, 5, 64, 2}, true},
                  {kAvx512, {64, 50, 5}, false},
                  {kAvx512, {12, 50, 5}, false},
                  {kAvx512, {3, 50, 5}, true},
                  {kAvx512, {3, 40, 5}, false},
                  {kAvx512, {20, 50, 5, 1}, false},  // one thread would do everything
                  {kAvx512, {20, 10, 5}, false},
                  {kAvx512, {20, 50, 1}, false},
                  {kAvx512, {20, 50, 5, 64, 0, Layout::contiguous}, false},
                  {kAvx2, {20, 50, 5}, true},
                  {kAvx2, {64, 50, 5}, false},
                  {kAvx2, {24, 50, 5}, false},  // whole vectors
                  {kAvx2, {3, 50, 5}, true},
                  {kBaseline, {3, 50, 5}, false}},
                 pay);
}

TEST(ConvolutionRows, PayForward) {
  expect_choices({{kAvx512, {20, 50, 5}, true},
                  {kAvx512, {20, 50, 5, 1}, true},
                  {kAvx512, {1, 20, 5}, true},
                  {kAvx512, {20, 53, 5}, true},
                  {kAvx512, {20, 64, 5}, false},
                  {kAvx512, {20, 10, 5}, false},
                  {kAvx512, {20, 50, 1}, false},
                  {kAvx512, {3, 50, 3}, false},
                  {kAvx512, {20, 50, 5, 64, 2}, false},
                  {kAvx512, {20, 50, 5, 64, 0, Layout::contiguous}, false},
                  {kAvx2, {20, 50, 5}, true},
                  {kAvx2, {20, 10, 5}, true},
                  {kAvx2, {20, 48, 5}, false},
                  {kAvx2, {1, 20, 5}, false},
                  {kBaseline, {20, 50, 5}, false}},
                 ops::rows_pay_forward);
}

TEST(ConvolutionRows, PayBackwardWeight) {
  expect_choices({{kAvx512, {20, 50, 5}, true},
                  {kAvx512, {1, 20, 5}, true},
                  {kAvx512, {12, 48, 5}, true},
                  {kAvx512, {64, 256, 1}, true},
                  {kAvx512, {65, 256, 1}, false},
                  {kAvx512, {20, 64, 5}, false},
                  {kAvx512, {20, 52, 5}, true},
                  {kAvx512, {64, 52, 5}, false},
                  {kAvx512, {20, 50, 5, 64, 2}, false},
                  {kAvx2, {8, 48, 5}, true},
                  {kAvx2, {64, 256, 1}, false},
                  {kAvx2, {1, 20, 5}, true},
                  {kAvx2, {256, 1024, 5}, false},  // 25 MiB of sums
                  {kBaseline, {20, 50, 5}, false}},
                 ops::rows_pay_backward_weight);
}

TEST(ConvolutionProducts, PayBackwardWeight) {
  const auto pay = [](const auto&... all) { return ops::products_pay_backward_weight(all..., 2); };
  expect_choices({{kAvx512, {64, 256, 1}, true},
                  {kAvx512, {256, 17, 1}, true},
                  {kAvx512, {12, 256, 1}, false},
                  {kAvx512, {64, 256, 1, 1}, false},  // two threads would divide one image
                  {kAvx512, {64, 512, 1, 2}, true},   // or the columns
                  {kAvx512, {64, 64, 3}, false},
                  {kAvx512, {64, 64, 6}, true},  // rows of 7
                  {kAvx512, {64, 48, 6}, false},
                  {kAvx512, {60, 64, 6}, false},
                  {kAvx512, {64, 256, 1, 64, 0, Layout::contiguous}, false},
                  {kAvx2, {64, 256, 1}, true},
                  {kAvx2, {64, 40, 1}, true},
                  {kAvx2, {40, 40, 1}, false},
                  {kAvx2, {64, 64, 6}, true},  // rows of 7
                  {kBaseline, {64, 256, 1}, false}},
                 pay);
}

TEST(ConvolutionProducts, PayBackwardData) {
  expect_choices({{kAvx512, {64, 256, 1}, true},
                  {kAvx512, {64, 64, 1, 1}, true},
                  {kAvx512, {256, 48, 1}, false},
                  {kAvx512, {12, 256, 1}, false},
                  {kAvx512, {64, 256, 3}, false},
                  {kAvx512, {64, 256, 1, 64, 1}, false},
                  {kAvx512, {64, 256, 1, 64, 0, Layout::contiguous}, false},
                  {kAvx2, {64, 256, 1}, true},
                  {kAvx2, {256, 48, 1}, false},
                  {kBaseline, {64, 256, 1}, false}},
                 ops::products_pay_backward_data);
}

TEST(ConvolutionProducts, PayForWeightsOfWindowsWithGaps) {
  const auto device = make_cpu_device(0, {});
  const auto pay = [&](std::int64_t channels, std::int64_t dilation) {
    const ConvolutionGeometry geometry{{3, 3},   {1, 1},  {dilation, dilation}, {dilation, dilation}, 1,
                                       channels, channels};
    const Tensor image(*device, {1, channels, 20, 20}, DType::f32, Layout::channels_last);
    return ops::products_pay_backward_weight(geometry, image, image, 1);
  };
  const bool can = ops::instruction_set() != kBaseline;
  EXPECT_EQ(pay(256, 2), can);
  EXPECT_FALSE(pay(256, 1));
  EXPECT_FALSE(pay(64, 2));
}

TEST(ConvolutionGroups, PayWhereOneDnnLeavesVectorsEmpty) {
  const auto device = make_cpu_device(0, {});
  const auto pays = [&](ops::GroupPass pass, std::int64_t group, std::int64_t channels,
                        std::int64_t stride = 1, Layout layout = Layout::channels_last,
                        std::int64_t dilation = 1) {
    const Case c{
        "", 2, {12, 12}, {{3, 3}, {stride, stride}, {1, 1}, {dilation, dilation}, group, channels, channels}};
    return ops::groups_pay(pass, c.geometry, Tensor(*device, c.input_shape(), DType::f32, layout),
                           Tensor(*device, c.output_shape(), DType::f32, layout));
  };
  using enum ops::GroupPass;
  const bool can = ops::instruction_set() != kBaseline, is_long = ops::instruction_set() == kAvx512;
  for (const ops::GroupPass pass : {forward, backward_data, backward_weight}) {
    EXPECT_EQ(pays(pass, 32, 128), can);
    EXPECT_FALSE(pays(pass, 32, 128, 1, Layout::contiguous));
    EXPECT_FALSE(pays(pass, 32, 128, 1, Layout::channels_last, 2));
    EXPECT_FALSE(pays(pass, 5, 20));  // no whole vectors
    EXPECT_EQ(pays(pass, 6, 24), can && !is_long);
    EXPECT_FALSE(pays(pass, 8, 128));  // of 16
    EXPECT_EQ(pays(pass, 32, 128, 2), can && pass != backward_data);
    // With AVX2 a group of 8 is a whole vector, for Winograd's algorithm.
    EXPECT_EQ(pays(pass, 32, 256), is_long);
    EXPECT_EQ(pays(pass, 32, 256, 2), can && pass != backward_data && (!is_long || pass == backward_weight));
  }
}

TEST(ConvolutionProducts, PayInGroupsWithAvx2) {
  const auto device = make_cpu_device(0, {});
  const auto pays = [&](std::int64_t groups, std::int64_t in, std::int64_t out, std::int64_t kernel = 1,
                        std::int64_t stride = 1, Layout layout = Layout::channels_last) {
    const Case c{"", 2, {12, 12}, {{kernel, kernel}, {stride, stride}, {0, 0}, {1, 1}, groups, in, out}};
    const Tensor x(*device, c.input_shape(), DType::f32, layout),
        y(*device, c.output_shape(), DType::f32, layout);
    const bool forward = ops::products_pay_forward(c.geometry, x, y);
    EXPECT_EQ(ops::products_pay_backward_data(c.geometry, x, y), forward);
    return forward;
  };
  const bool is_avx2 = ops::instruction_set() == ops::InstructionSet::avx2;
  EXPECT_EQ(pays(3, 240, 60), is_avx2);
  EXPECT_EQ(pays(3, 60, 240), is_avx2);
  EXPECT_FALSE(pays(8, 88, 88));  // 11 channels
  EXPECT_FALSE(pays(3, 60, 60, 3));
  EXPECT_FALSE(pays(3, 60, 60, 1, 2));
  EXPECT_FALSE(pays(3, 60, 60, 1, 1, Layout::contiguous));
}

/// A CPU device of so many threads, and random tensors there.
struct Team {
  explicit Team(int threads) : device(make_cpu_device(0, of(threads))), context(*device) {}

  static CpuDeviceOptions of(int threads) {
    CpuDeviceOptions options;
    options.threads = threads;
    return options;
  }

  Tensor random(const Shape& shape, unsigned seed, Layout layout) {
    Tensor tensor(*device, shape, DType::f32, layout);
    const auto drawn = random_values(shape.count(), seed);
    std::copy(drawn.begin(), drawn.end(), tensor.data<float>());
    return tensor;
  }
  Tensor images(const Shape& shape, unsigned seed) { return random(shape, seed, Layout::channels_last); }
  Tensor weights(const Shape& shape, unsigned seed) { return random(shape, seed, Layout::contiguous); }

  std::shared_ptr<Device> device;
  Context context;
};

/// Whose threads divide images, and rows of them; the same bits every time.
TEST(ConvolutionGroups, MatchTheReferenceOnAnyTeam) {
  if (ops::instruction_set() != kAvx512) GTEST_SKIP() << "kernels for AVX-512";
  for (const Case& c : {Case{"4", 2, {31, 9}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 8, 32, 32}},
                        Case{"8, strides", 1, {29, 10}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 4, 32, 32}}})
    for (const int threads : {1, 2, 3, 5}) {
      SCOPED_TRACE(cat(c.name, ", ", threads, " threads"));
      Team team(threads);
      Context& context = team.context;
      const auto compare = [](const Tensor& one, const Tensor& other, double tolerance) {
        for (std::int64_t i = 0; i < one.count(); ++i)
          ASSERT_NEAR(one.data<float>()[i], other.data<float>()[i], tolerance) << i;
      };
      const Tensor x = team.images(c.input_shape(), 1);
      const Tensor dy = team.images(c.output_shape(), 2);
      const Tensor weight = team.weights(c.weight_shape(), 3);
      Tensor none, dw = team.weights(c.weight_shape(), 4), again = team.weights(c.weight_shape(), 4),
                   expected = team.weights(c.weight_shape(), 4);
      Tensor y = team.images(c.output_shape(), 5), expected_y = team.images(c.output_shape(), 6);
      const auto reference = ops::make_reference_convolution(c.geometry);
      reference->backward_weight(context, x, dy, expected, none);
      ops::backward_weight_by_groups(context, c.geometry, x, dy, true, dw);
      ops::backward_weight_by_groups(context, c.geometry, x, dy, true, again);
      // Rounding of sums, as ConvolutionTest::tolerance says.
      compare(dw, expected, static_cast<double>(c.batch * c.output_shape().count(2) + 4) * 0x1p-23);
      compare(dw, again, 0);
      const double rounding = static_cast<double>(c.weight_shape().count(1) + 4) * 0x1p-23;
      reference->forward(context, x, weight, none, expected_y);
      ops::forward_by_groups(context, c.geometry, x, weight, none, 1, y);
      compare(y, expected_y, rounding);
      if (!ops::groups_can_turn(c.geometry)) continue;
      Tensor dx = team.images(c.input_shape(), 7), expected_dx = team.images(c.input_shape(), 8);
      reference->backward_data(context, dy, weight, expected_dx);
      ops::backward_data_by_groups(context, c.geometry, dy, weight, dx);
      compare(dx, expected_dx, rounding);
    }
}

TEST(ChannelBlocks, RoundAsBFloat16) {
  using Block = ops::ChannelBlock<BFloat16, 16>;
  std::minstd_rand engine(1);
  for (int round = 0; round < 20000; ++round) {
    float values[16];
    for (float& value : values) {
      std::uint32_t bits = static_cast<std::uint32_t>(engine()) << 1;  // NaN, infinite and tiny ones too
      if (engine() % 4 == 0) bits = (bits & 0xffff0000U) | 0x8000U;    // ties
      value = std::bit_cast<float>(bits);
    }
    Block::Values vector;
    std::memcpy(&vector, values, sizeof(vector));
    BFloat16 found[16];
    Block::store(vector, found);
    Block::Values back;
    Block::load(found, back);
    for (int lane = 0; lane < 16; ++lane) {
      ASSERT_EQ(std::bit_cast<std::uint16_t>(found[lane]),
                std::bit_cast<std::uint16_t>(BFloat16(values[lane])))
          << values[lane];
      const float loaded = back[lane];
      ASSERT_EQ(std::bit_cast<std::uint32_t>(loaded),
                std::bit_cast<std::uint32_t>(static_cast<float>(found[lane])));
    }
  }
}

class ConvolutionWinograd : public testing::TestWithParam<ops::WinogradTile> {
 protected:
  void SetUp() override {
    if (ops::instruction_set() == kBaseline) GTEST_SKIP() << "kernels for AVX2";
  }
  static std::int64_t window() { return GetParam() == ops::WinogradTile::wide_of_2 ? 5 : 3; }
  static ConvolutionGeometry geometry(const Dims& pad, std::int64_t in, std::int64_t out,
                                      std::int64_t groups = 1) {
    return {{window(), window()}, {1, 1}, pad, {1, 1}, groups, groups * in, groups * out};
  }
  /// Images keep their size.
  static ConvolutionGeometry geometry(std::int64_t in, std::int64_t out) {
    return geometry({window() / 2, window() / 2}, in, out);
  }
  /// At least so many channels.
  static std::int64_t lanes() {
    const auto device = make_cpu_device(0, {});
    const Tensor image(*device, {1, 8, 4, 4}, DType::f32, Layout::channels_last);
    return ops::winograd_applies(GetParam(), geometry(8, 8), image, image) ? 8 : 16;
  }
};
INSTANTIATE_TEST_SUITE_P(Tiles, ConvolutionWinograd, testing::ValuesIn(winograd_tiles()),
                         [](const auto& tile) { return name_of(tile.param); });

TEST(ConvolutionWinogradRule, ChoosesTiles) {
  const auto device = make_cpu_device(0, {});
  const auto tile = [&](ops::WinogradPass pass, std::int64_t length, std::int64_t in, std::int64_t out,
                        std::int64_t stride = 1, std::int64_t dilation = 1,
                        Layout layout = Layout::channels_last, std::int64_t kernel = 3, std::int64_t pad = 1,
                        std::int64_t groups = 1) {
    const Case c{"",
                 2,
                 {length, length},
                 {{kernel, kernel}, {stride, stride}, {pad, pad}, {dilation, dilation}, groups, in, out}};
    return ops::winograd_tile(pass, c.geometry, Tensor(*device, c.input_shape(), DType::f32, layout),
                              Tensor(*device, c.output_shape(), DType::f32, layout));
  };
  using enum ops::WinogradPass;
  using Tile = std::optional<ops::WinogradTile>;
  const bool can = ops::instruction_set() != kBaseline, is_avx2 = ops::instruction_set() == kAvx2;
  const Tile none, small = can ? Tile(ops::WinogradTile::of_2) : none,
                   large = can ? Tile(ops::WinogradTile::of_4) : none;
  for (const ops::WinogradPass pass : {forward, backward_data, backward_weight}) {
    EXPECT_EQ(tile(pass, 32, 16, 16), large);
    EXPECT_EQ(tile(pass, 7, 64, 64), large);
    EXPECT_EQ(tile(pass, 2, 64, 64), small);
    EXPECT_EQ(tile(pass, 5, 64, 64), none);  // 144 products for 225
    EXPECT_EQ(tile(pass, 14, 256, 256), pass == backward_weight || is_avx2 ? large : small);
    // 16 MiB of transformed weights instead of 36.
    EXPECT_EQ(tile(pass, 14, 512, 512), is_avx2 ? large : small);
    EXPECT_EQ(tile(pass, 28, 512, 512), large);
    EXPECT_EQ(tile(pass, 7, 512, 512), pass == forward ? none : is_avx2 ? large : small);
    EXPECT_EQ(tile(pass, 6, 512, 512), none);
    EXPECT_EQ(tile(pass, 14, 1024, 1024), none);
    EXPECT_EQ(tile(pass, 28, 1024, 1024), large);
    EXPECT_EQ(tile(pass, 60, 4096, 512), pass == forward ? small : large);  // 302 MB of weights
    EXPECT_EQ(tile(pass, 60, 4096, 1024), none);
    EXPECT_EQ(tile(pass, 14, 64, 40), large);
    EXPECT_EQ(tile(pass, 14, 40, 64), large);
    EXPECT_EQ(tile(pass, 14, 64, 3), none);
    EXPECT_EQ(tile(pass, 14, 3, 64), none);
    EXPECT_EQ(tile(pass, 14, 64, 64, 2), none);
    EXPECT_EQ(tile(pass, 14, 64, 64, 1, 2), none);  // phases have other paddings
    EXPECT_EQ(tile(pass, 28, 64, 64, 1, 2, Layout::channels_last, 3, 2), large);
    EXPECT_EQ(tile(pass, 14, 64, 64, 1, 7, Layout::channels_last, 3, 7), small);  // phases of 2 x 2
    EXPECT_EQ(tile(pass, 14, 512, 512, 1, 1, Layout::channels_last, 3, 1, 8), large);
    EXPECT_EQ(tile(pass, 14, 512, 512, 1, 1, Layout::channels_last, 3, 1, 32), is_avx2 ? large : none);
    EXPECT_EQ(tile(pass, 7, 1024, 1024, 1, 1, Layout::channels_last, 3, 1, 32),
              is_avx2 && pass != backward_data ? large : none);
    EXPECT_EQ(tile(pass, 14, 64, 64, 1, 1, Layout::contiguous), none);
    EXPECT_EQ(tile(pass, 14, 64, 64, 1, 1, Layout::channels_last, 4), none);
  }
}

TEST(ConvolutionWinogradRule, ChoosesTilesOfVolumes) {
  const auto device = make_cpu_device(0, {});
  const auto tile = [&](ops::WinogradPass pass, std::int64_t length, std::int64_t in, std::int64_t out,
                        std::int64_t stride = 1, std::int64_t dilation = 1) {
    const Case c{"",
                 2,
                 {4, length, length},
                 {{3, 3, 3}, {1, stride, stride}, {1, 1, 1}, {dilation, 1, 1}, 1, in, out}};
    return ops::winograd_tile(pass, c.geometry,
                              Tensor(*device, c.input_shape(), DType::f32, Layout::channels_last),
                              Tensor(*device, c.output_shape(), DType::f32, Layout::channels_last));
  };
  using enum ops::WinogradPass;
  using Tile = std::optional<ops::WinogradTile>;
  const bool can = ops::instruction_set() != kBaseline;
  const Tile none, small = can ? Tile(ops::WinogradTile::of_2) : none,
                   large = can ? Tile(ops::WinogradTile::of_4) : none;
  for (const ops::WinogradPass pass : {forward, backward_data, backward_weight}) {
    EXPECT_EQ(tile(pass, 56, 64, 128), large);
    EXPECT_EQ(tile(pass, 14, 256, 512), small);
    EXPECT_EQ(tile(pass, 14, 512, 512), small);
    EXPECT_EQ(tile(pass, 7, 512, 512), pass == backward_weight ? small : none);
    EXPECT_EQ(tile(pass, 56, 3, 64), none);
    EXPECT_EQ(tile(pass, 56, 64, 72), ops::instruction_set() == kAvx2 ? large : none);
    EXPECT_EQ(tile(pass, 56, 64, 68), none);  // channels would be in two slices' vectors
    EXPECT_EQ(tile(pass, 56, 64, 64, 2), none);
    EXPECT_EQ(tile(pass, 56, 64, 64, 1, 2), none);
  }
}

TEST(ConvolutionWinogradRule, ChoosesWideTiles) {
  const auto device = make_cpu_device(0, {});
  const auto tile = [&](ops::WinogradPass pass, std::int64_t length, std::int64_t pad, std::int64_t in,
                        std::int64_t out, DType dtype = DType::f32) {
    const Case c{"", 2, {length, length}, {{5, 5}, {1, 1}, {pad, pad}, {1, 1}, 1, in, out}};
    return ops::winograd_tile(pass, c.geometry,
                              Tensor(*device, c.input_shape(), dtype, Layout::channels_last),
                              Tensor(*device, c.output_shape(), dtype, Layout::channels_last));
  };
  using enum ops::WinogradPass;
  using Tile = std::optional<ops::WinogradTile>;
  const Tile none, wide = ops::instruction_set() == kBaseline ? none : Tile(ops::WinogradTile::wide_of_2);
  for (const ops::WinogradPass pass : {forward, backward_data, backward_weight}) {
    EXPECT_EQ(tile(pass, 12, 0, 20, 50), wide);  // LeNet's
    EXPECT_EQ(tile(pass, 16, 2, 32, 64), wide);  // CIFAR quick's
    EXPECT_EQ(tile(pass, 5, 2, 64, 64), wide);   // 324 products for 625
    EXPECT_EQ(tile(pass, 5, 0, 64, 64), none);   // 36 for 25
    EXPECT_EQ(tile(pass, 32, 2, 3, 32), none);
    EXPECT_EQ(tile(pass, 16, 2, 32, 64, DType::bf16), none);
  }
  const auto grouped = [&](std::int64_t groups) {
    const Case c{"", 2, {14, 14}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, groups, groups * 32, groups * 32}};
    const Tensor image(*device, c.input_shape(), DType::f32, Layout::channels_last);
    return ops::winograd_tile(forward, c.geometry, image, image).has_value();
  };
  EXPECT_EQ(grouped(2), wide.has_value());
  EXPECT_EQ(grouped(32), ops::instruction_set() == kAvx2);
  EXPECT_FALSE(grouped(64));
}

/// Threads divide tiles, across images: the bits of an image are those that it has alone.
TEST_P(ConvolutionWinograd, ImagesAreTheSameInAnyBatchOnAnyTeam) {
  const Case all{"", 7, {9, 14}, geometry(32, 48)};
  Case one = all;
  one.batch = 1;
  const auto part = [](const Tensor& from, std::int64_t image, Tensor& to) {
    std::copy_n(from.data<float>() + image * to.count(), to.count(), to.data<float>());
  };
  for (const int threads : {1, 2, 3, 5}) {
    SCOPED_TRACE(cat(threads, " threads"));
    Team team(threads);
    Context& context = team.context;
    const Tensor x = team.images(all.input_shape(), 1), dy = team.images(all.output_shape(), 2), none;
    const Tensor weight = team.weights(all.weight_shape(), 3);
    Tensor y = team.images(all.output_shape(), 4), dx = team.images(all.input_shape(), 5);
    ops::forward_by_winograd(context, GetParam(), all.geometry, x, weight, none, 1, none, false, y);
    ops::backward_data_by_winograd(context, GetParam(), all.geometry, dy, weight, dx);
    Team single(1);
    for (std::int64_t image = 0; image < all.batch; ++image) {
      Tensor own_x = single.images(one.input_shape(), 1), own_dy = single.images(one.output_shape(), 2);
      part(x, image, own_x), part(dy, image, own_dy);
      const Tensor own_weight = single.weights(all.weight_shape(), 3);
      Tensor own_y = single.images(one.output_shape(), 4), own_dx = single.images(one.input_shape(), 5);
      ops::forward_by_winograd(single.context, GetParam(), one.geometry, own_x, own_weight, none, 1, none,
                               false, own_y);
      ops::backward_data_by_winograd(single.context, GetParam(), one.geometry, own_dy, own_weight, own_dx);
      for (std::int64_t i = 0; i < own_y.count(); ++i)
        ASSERT_EQ(own_y.data<float>()[i], y.data<float>()[image * own_y.count() + i]) << image << ", " << i;
      for (std::int64_t i = 0; i < own_dx.count(); ++i)
        ASSERT_EQ(own_dx.data<float>()[i], dx.data<float>()[image * own_dx.count() + i])
            << image << ", " << i;
    }
    Tensor dw = team.weights(all.weight_shape(), 6), again = team.weights(all.weight_shape(), 6);
    Tensor expected = team.weights(all.weight_shape(), 6), no_bias;
    ops::backward_weight_by_winograd(context, GetParam(), all.geometry, x, dy, true, dw);
    ops::backward_weight_by_winograd(context, GetParam(), all.geometry, x, dy, true, again);
    ops::make_reference_convolution(all.geometry)->backward_weight(context, x, dy, expected, no_bias);
    for (std::int64_t i = 0; i < dw.count(); ++i) {
      ASSERT_EQ(dw.data<float>()[i], again.data<float>()[i]) << i;
      // Rounding of sums, as ConvolutionTest::tolerance says.
      ASSERT_NEAR(
          dw.data<float>()[i], expected.data<float>()[i],
          static_cast<double>(all.batch * all.output_shape().count(2) + 4) * 0x1p-23 * winograd_factor(all))
          << i;
    }
  }
}

/// All passes by as many threads against the reference, and the same bits every time.
void expect_reference(ops::WinogradTile tile, const Case& c, int threads) {
  Team team(threads);
  Context& context = team.context;
  const Tensor x = team.images(c.input_shape(), 1), dy = team.images(c.output_shape(), 2);
  const Tensor weight = team.weights(c.weight_shape(), 3), kept;
  Tensor y = team.images(c.output_shape(), 4), expected_y = team.images(c.output_shape(), 5), none;
  Tensor dx = team.images(c.input_shape(), 6), expected_dx = team.images(c.input_shape(), 7);
  Tensor dw = team.weights(c.weight_shape(), 8), again = team.weights(c.weight_shape(), 8),
         expected_dw = team.weights(c.weight_shape(), 8);
  ops::forward_by_winograd(context, tile, c.geometry, x, weight, none, 1, kept, false, y);
  ops::backward_data_by_winograd(context, tile, c.geometry, dy, weight, dx);
  ops::backward_weight_by_winograd(context, tile, c.geometry, x, dy, true, dw);
  ops::backward_weight_by_winograd(context, tile, c.geometry, x, dy, true, again);
  const auto reference = ops::make_reference_convolution(c.geometry);
  reference->forward(context, x, weight, none, expected_y);
  reference->backward_data(context, dy, weight, expected_dx);
  reference->backward_weight(context, x, dy, expected_dw, none);
  // Rounding of sums, of all inputs of a tile at least; that of large tiles is twice as large (see below).
  const double rounding = tile == ops::WinogradTile::of_2 ? 0x1p-23 : 0x1p-22;
  const auto compare = [&](const Tensor& found, const Tensor& expected, std::int64_t terms) {
    for (std::int64_t i = 0; i < found.count(); ++i)
      ASSERT_NEAR(found.data<float>()[i], expected.data<float>()[i],
                  static_cast<double>(std::max<std::int64_t>(terms, 36) + 4) * rounding)
          << i;
  };
  compare(y, expected_y, c.weight_shape().count(1));
  compare(dx, expected_dx, c.geometry.out_channels / c.geometry.group * c.weight_shape().count(2));
  compare(dw, expected_dw,
          c.batch * c.output_shape().count(2) * (tile == ops::WinogradTile::wide_of_2 ? 2 : 1));
  for (std::int64_t i = 0; i < dw.count(); ++i) ASSERT_EQ(dw.data<float>()[i], again.data<float>()[i]) << i;
}

/// Fewer tiles than threads, and fewer shares of the weights' gradient.
TEST_P(ConvolutionWinograd, MatchesTheReferenceWithManyThreads) {
  for (const Case& c : {Case{"four tiles", 1, {4, 4}, geometry(32, 64)},
                        Case{"one tile", 1, {window(), window()}, geometry({0, 0}, 16, 16)},
                        Case{"84 tiles", 2, {11, 13}, geometry(32, 80)},
                        Case{"two groups", 2, {11, 13}, geometry({1, 1}, 24, 36, 2)}}) {
    SCOPED_TRACE(c.name);
    expect_reference(GetParam(), c, 16);
  }
}

TEST_P(ConvolutionWinograd, MatchesTheReferenceOnRandomShapes) {
  std::minstd_rand engine(11);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine);
  };
  for (int round = 0; round < 60; ++round) {
    const Dims pad{draw(0, window() - 1), draw(0, window() - 1)};
    // Half of them fill whole vectors.
    const auto channels = [&] {
      return draw(0, 1) == 0 ? draw(lanes(), 80) : lanes() * draw(1, 80 / lanes());
    };
    const std::int64_t in = channels(), out = channels();
    const Case c{
        "", draw(1, 5), {draw(window(), 21), draw(window(), 21)}, geometry(pad, in, out, draw(1, 3))};
    const auto threads = static_cast<int>(draw(1, 5));
    SCOPED_TRACE(cat("round ", round, ": ", c.input_shape().to_string(), " to ", c.output_shape().to_string(),
                     ", ", threads, " threads"));
    expect_reference(GetParam(), c, threads);
    if (HasFatalFailure()) return;
  }
}

/// Root mean squares, of 64 channels behind a ReLU: about 2.5e-7 and 6.5e-7, and 3.3e-7 for the windows'
/// products added up one by one. With points of 1 and 2, large tiles would have 1.4e-6.
TEST_P(ConvolutionWinograd, ErrorsAreThoseOfASumInF32) {
  const Case c{"", 2, {16, 16}, geometry(64, 64)};
  Team team(1);
  std::minstd_rand engine(5);
  std::normal_distribution<float> draw;
  Tensor x = team.images(c.input_shape(), 1), weight = team.weights(c.weight_shape(), 2);
  std::generate_n(x.data<float>(), x.count(), [&] { return std::max(draw(engine), 0.0F); });
  std::generate_n(weight.data<float>(), weight.count(), [&] { return draw(engine); });
  Tensor y = team.images(c.output_shape(), 3);
  const Tensor none;
  ops::forward_by_winograd(team.context, GetParam(), c.geometry, x, weight, none, 1, none, false, y);
  std::vector<double> exact(static_cast<std::size_t>(y.count()));
  const auto index = [](const Shape& shape, std::int64_t in_order) {  // of channels-last memory
    const std::int64_t pixels = shape[2] * shape[3], channels = shape[1];
    const std::int64_t image = in_order / (channels * pixels), rest = in_order % (channels * pixels);
    return (image * pixels + rest % pixels) * channels + rest / pixels;
  };
  for_each_product(c, [&](auto o, auto i, auto k) {
    exact[o] += static_cast<double>(x.data<float>()[index(x.shape(), static_cast<std::int64_t>(i))]) *
                static_cast<double>(weight.data<float>()[k]);
  });
  double error = 0, size = 0;
  for (std::size_t o = 0; o < exact.size(); ++o) {
    const double found = y.data<float>()[index(y.shape(), static_cast<std::int64_t>(o))];
    error += (found - exact[o]) * (found - exact[o]);
    size += exact[o] * exact[o];
  }
  EXPECT_LE(std::sqrt(error / size), GetParam() == ops::WinogradTile::of_2 ? 4e-7 : 9e-7);
}

/// Images in bf16: the same operator in f32 on rounded values, its results rounded.
TEST_P(ConvolutionWinograd, StoresBf16) {
  if (GetParam() == ops::WinogradTile::wide_of_2) GTEST_SKIP() << "of f32 only";
  const Case c{"", 3, {9, 14}, geometry(32, 48)};
  Team team(2);
  const auto round = [](Tensor& tensor) {
    std::transform(tensor.data<float>(), tensor.data<float>() + tensor.count(), tensor.data<float>(),
                   [](float value) { return BFloat16::rounded(value); });
  };
  const auto narrow = [&](const Tensor& wide) {
    Tensor tensor(*team.device, wide.shape(), DType::bf16, Layout::channels_last);
    std::transform(wide.data<float>(), wide.data<float>() + wide.count(), tensor.data<BFloat16>(),
                   [](float value) { return BFloat16(value); });
    return tensor;
  };
  Tensor x = team.images(c.input_shape(), 1), dy = team.images(c.output_shape(), 2);
  Tensor weight = team.weights(c.weight_shape(), 3), rounded_weight = team.weights(c.weight_shape(), 3);
  round(x), round(dy), round(rounded_weight);
  const Tensor bias = team.weights({c.geometry.out_channels}, 4), none;
  Tensor y = team.images(c.output_shape(), 5), dx = team.images(c.input_shape(), 6),
         dw = team.weights(c.weight_shape(), 7);
  Tensor narrow_y = narrow(y), narrow_dx = narrow(dx), narrow_dw = team.weights(c.weight_shape(), 7);
  const Tensor narrow_x = narrow(x), narrow_dy = narrow(dy);
  const auto tile = GetParam();
  ops::forward_by_winograd(team.context, tile, c.geometry, x, rounded_weight, bias, 0, none, false, y);
  ops::forward_by_winograd(team.context, tile, c.geometry, narrow_x, weight, bias, 0, none, false, narrow_y);
  ops::backward_data_by_winograd(team.context, tile, c.geometry, dy, rounded_weight, dx);
  ops::backward_data_by_winograd(team.context, tile, c.geometry, narrow_dy, weight, narrow_dx);
  ops::backward_weight_by_winograd(team.context, tile, c.geometry, x, dy, true, dw);
  ops::backward_weight_by_winograd(team.context, tile, c.geometry, narrow_x, narrow_dy, true, narrow_dw);
  for (const auto& [wide, found] : {std::pair(&y, &narrow_y), {&dx, &narrow_dx}})
    for (std::int64_t i = 0; i < wide->count(); ++i)
      ASSERT_EQ(static_cast<float>(found->data<BFloat16>()[i]), BFloat16::rounded(wide->data<float>()[i]))
          << i;
  for (std::int64_t i = 0; i < dw.count(); ++i)
    ASSERT_EQ(narrow_dw.data<float>()[i], dw.data<float>()[i]) << i;
}

/// However many threads there are: few tiles are one share, with 8 or 18 MiB of sums.
TEST_P(ConvolutionWinograd, SumsOfWeightsNeedLittleMemory) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const std::size_t positions = GetParam() == ops::WinogradTile::of_2 ? 16 : 36;
  for (const auto& [batch, most] :
       {std::pair<std::int64_t, std::size_t>{1, positions * kMiB / 2}, {64, 32 * kMiB}}) {
    const Case c{"", batch, {7, 7}, geometry(256, 512)};
    Team team(16);
    const Tensor x = team.images(c.input_shape(), 1), dy = team.images(c.output_shape(), 2);
    Tensor dw = team.weights(c.weight_shape(), 3);
    const std::size_t before = team.device->memory().in_use;
    ops::backward_weight_by_winograd(team.context, GetParam(), c.geometry, x, dy, false, dw);
    // Beside the sums, tiles: up to 24 for each thread, 256 + 512 channels.
    const std::size_t tiles = positions * (24 * (256 + 512) + 32) * sizeof(float) * 16;
    EXPECT_LE(team.device->memory().in_use - before, most + tiles + kMiB) << batch;
  }
}

TEST_P(ConvolutionWinograd, AnImageThatIsNotFiniteLeavesTheOthersAlone) {
  const Case c{"", 3, {7, 9}, geometry(32, 48)};
  Team team(2);
  const Tensor weight = team.weights(c.weight_shape(), 1), none;
  Tensor x = team.images(c.input_shape(), 2), dy = team.images(c.output_shape(), 3);
  std::vector<float> found[2][2];
  for (const bool spoiled : {false, true}) {
    if (spoiled)
      for (Tensor* tensor : {&x, &dy}) {
        float* const image = tensor->data<float>() + tensor->count() / 3;
        std::fill_n(image, tensor->count() / 6, NAN);
        std::fill(image + tensor->count() / 6, image + tensor->count() / 3, INFINITY);
      }
    Tensor y = team.images(c.output_shape(), 4), dx = team.images(c.input_shape(), 5);
    ops::forward_by_winograd(team.context, GetParam(), c.geometry, x, weight, none, 1, none, false, y);
    ops::backward_data_by_winograd(team.context, GetParam(), c.geometry, dy, weight, dx);
    found[spoiled][0].assign(y.data<float>(), y.data<float>() + y.count());
    found[spoiled][1].assign(dx.data<float>(), dx.data<float>() + dx.count());
  }
  for (int pass = 0; pass < 2; ++pass) {
    const std::vector<float>&clean = found[0][pass], &other = found[1][pass];
    const std::size_t image = clean.size() / 3;
    for (std::size_t i = 0; i < clean.size(); ++i)
      if (i / image == 1)
        ASSERT_FALSE(std::isfinite(other[i])) << pass << ", " << i;
      else
        ASSERT_EQ(other[i], clean[i]) << pass << ", " << i;
  }
}

TEST(ConvolutionDepthwise, PaysWhereOneDnnIsSlow) {
  const auto device = make_cpu_device(0, {});
  struct Shapes {
    std::int64_t channels, outputs, length, kernel = 3, stride = 1, dilation = 1;
    Layout layout = Layout::channels_last;
  };
  const auto pays = [&](ops::DepthwisePass pass, const Shapes& s) {
    const std::int64_t pad = s.kernel / 2 * s.dilation;
    const ConvolutionGeometry geometry{
        {s.kernel, s.kernel}, {s.stride, s.stride}, {pad, pad}, {s.dilation, s.dilation},
        s.channels,           s.channels,           s.outputs};
    const Case c{"", 2, {s.length, s.length}, geometry};
    return ops::depthwise_pays(pass, geometry, Tensor(*device, c.input_shape(), DType::f32, s.layout),
                               Tensor(*device, c.output_shape(), DType::f32, s.layout));
  };
  struct Expected {
    Shapes shapes;
    bool forward, data, weight;       // with AVX-512
    bool narrow_data, narrow_weight;  // with AVX2
  };
  // With AVX2, images of a megabyte and more.
  const auto is_large = [](const Shapes& s) {
    return s.channels * s.length * s.length * static_cast<std::int64_t>(sizeof(float)) >= 1 << 20;
  };
  for (const Expected& e :
       {Expected{{144, 144, 56}, true, true, true, false, true},
        Expected{{144, 144, 56, 3, 2}, false, true, true, false, true},
        Expected{{960, 960, 7}, false, true, false, false, false},
        Expected{{960, 960, 7, 5}, false, true, true, false, true},
        Expected{{96, 96, 112, 3, 2}, false, true, true, false, true},
        Expected{{64, 64, 112}, true, true, true, false, true},
        Expected{{128, 128, 112}, true, true, true, false, true},
        Expected{{144, 144, 112, 5}, true, true, true, false, true},
        Expected{{96, 96, 112, 3, 1, 2}, false, true, true, true, true},
        Expected{{576, 576, 14, 3, 2}, false, true, false, false, false},
        Expected{{21, 21, 64, 16, 8}, false, false, true, false, true},
        Expected{{128, 128, 28, 3, 1, 2}, false, true, true, true, true},
        Expected{{12, 12, 28}, false, false, false, false, false},
        Expected{{60, 60, 28}, true, true, false, false, true},
        Expected{{60, 60, 56}, true, true, true, false, true},
        Expected{{8, 8, 28}, true, true, false, false, false},
        Expected{{384, 384, 14}, true, true, true, false, false},
        Expected{{7, 7, 28}, false, false, false, false, false},
        Expected{{16, 32, 28}, false, false, false, false, false},
        Expected{{16, 16, 28, 3, 1, 1, Layout::contiguous}, false, false, false, false, false}}) {
    const Shapes& s = e.shapes;
    SCOPED_TRACE(cat(s.channels, " channels of ", s.length, ", kernel ", s.kernel, ", stride ", s.stride));
    using enum ops::DepthwisePass;
    const bool wide = ops::instruction_set() == kAvx512, narrow = ops::instruction_set() == kAvx2;
    const bool narrow_forward = s.kernel == 3 && s.dilation == 1 && s.channels >= 96 &&
                                s.channels % 128 != 0 && s.outputs == s.channels && is_large(s);
    EXPECT_EQ(pays(forward, s), (wide && e.forward) || (narrow && narrow_forward));
    EXPECT_EQ(pays(backward_data, s), (wide && e.data) || (narrow && e.narrow_data));
    EXPECT_EQ(pays(backward_weight, s), (wide && e.weight) || (narrow && e.narrow_weight));
  }
}

/// Threads divide images, and rows of them; windows may be wholly in the padding.
TEST(ConvolutionDepthwise, MatchesTheReferenceOnAnyTeam) {
  for (const Case& c : {Case{"3x3", 2, {31, 19}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 40, 40, 40}},
                        Case{"strides", 1, {29, 40}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 24, 24, 24}},
                        Case{"upsampling", 1, {40, 48}, {{16, 16}, {8, 8}, {4, 4}, {1, 1}, 21, 21, 21}},
                        Case{"wide pad", 3, {2, 3}, {{3, 2}, {1, 1}, {4, 3}, {1, 1}, 17, 17, 17}},
                        Case{"wide pad, strides", 2, {3, 4}, {{3, 3}, {2, 3}, {3, 5}, {2, 1}, 16, 16, 16}}})
    for (const int threads : {1, 2, 3, 16}) {
      SCOPED_TRACE(cat(c.name, ", ", threads, " threads"));
      Team team(threads);
      Context& context = team.context;
      const auto compare = [](const Tensor& one, const Tensor& other, std::int64_t terms) {
        // Rounding of sums, as ConvolutionTest::tolerance says.
        const double tolerance = terms == 0 ? 0 : static_cast<double>(terms + 4) * 0x1p-23;
        for (std::int64_t i = 0; i < one.count(); ++i)
          ASSERT_NEAR(one.data<float>()[i], other.data<float>()[i], tolerance) << i;
      };
      const Tensor x = team.images(c.input_shape(), 1), dy = team.images(c.output_shape(), 2);
      const Shape of_bias{c.geometry.out_channels};
      const Tensor weight = team.weights(c.weight_shape(), 3), bias = team.weights(of_bias, 4);
      Tensor y = team.images(c.output_shape(), 5), expected_y = team.images(c.output_shape(), 6);
      Tensor dx = team.images(c.input_shape(), 7), expected_dx = team.images(c.input_shape(), 8);
      const auto reference = ops::make_reference_convolution(c.geometry);
      reference->forward(context, x, weight, bias, expected_y);
      ops::forward_depthwise(context, c.geometry, x, weight, bias, {}, y);
      compare(y, expected_y, c.weight_shape().count(1) + 1);
      reference->backward_data(context, dy, weight, expected_dx);
      ops::backward_data_depthwise(context, c.geometry, dy, weight, dx);
      compare(dx, expected_dx, c.weight_shape().count(1));
      Tensor sums[3] = {team.weights(c.weight_shape(), 9), team.weights(c.weight_shape(), 9),
                        team.weights(c.weight_shape(), 9)};
      Tensor bias_sums[3] = {team.weights(of_bias, 10), team.weights(of_bias, 10), team.weights(of_bias, 10)};
      reference->backward_weight(context, x, dy, sums[0], bias_sums[0]);
      for (const int run : {1, 2})
        ops::backward_weight_depthwise(context, c.geometry, x, dy, true, sums[run], bias_sums[run]);
      const std::int64_t terms = c.batch * c.output_shape().count(2);
      compare(sums[1], sums[0], terms), compare(sums[1], sums[2], 0);
      compare(bias_sums[1], bias_sums[0], terms), compare(bias_sums[1], bias_sums[2], 0);
    }
}

/// Whatever surrounds it, numbers that are not finite too: the bits of an image are those that it has alone.
TEST(ConvolutionDepthwise, ImagesAreTheSameInAnyBatchOnAnyTeam) {
  for (const std::int64_t stride : {1, 2})
    for (const int threads : {1, 2, 5}) {
      SCOPED_TRACE(cat("stride ", stride, ", ", threads, " threads"));
      const Case all{"", 5, {21, 14}, {{3, 3}, {stride, stride}, {1, 1}, {1, 1}, 41, 41, 41}};
      Case one = all;
      one.batch = 1;
      Team team(threads), single(1);
      Tensor x = team.images(all.input_shape(), 1), dy = team.images(all.output_shape(), 2);
      for (Tensor* tensor : {&x, &dy}) {
        float* const second = tensor->data<float>() + tensor->count() / all.batch;
        std::fill_n(second, tensor->count() / all.batch, NAN);
        std::fill_n(second, tensor->count() / all.batch / 2, INFINITY);
      }
      const Tensor weight = team.weights(all.weight_shape(), 3), none;
      Tensor y = team.images(all.output_shape(), 4), dx = team.images(all.input_shape(), 5);
      ops::forward_depthwise(team.context, all.geometry, x, weight, none, {}, y);
      ops::backward_data_depthwise(team.context, all.geometry, dy, weight, dx);
      for (std::int64_t image = 0; image < all.batch; ++image) {
        Tensor own_x = single.images(one.input_shape(), 6), own_dy = single.images(one.output_shape(), 7);
        Tensor own_y = single.images(one.output_shape(), 8), own_dx = single.images(one.input_shape(), 9);
        std::copy_n(x.data<float>() + image * own_x.count(), own_x.count(), own_x.data<float>());
        std::copy_n(dy.data<float>() + image * own_dy.count(), own_dy.count(), own_dy.data<float>());
        const Tensor own_weight = single.weights(one.weight_shape(), 3);
        ops::forward_depthwise(single.context, one.geometry, own_x, own_weight, none, {}, own_y);
        ops::backward_data_depthwise(single.context, one.geometry, own_dy, own_weight, own_dx);
        const auto compare = [&](const Tensor& own, const Tensor& found) {
          for (std::int64_t i = 0; i < own.count(); ++i) {
            const float value = found.data<float>()[image * own.count() + i];
            if (image == 1)
              ASSERT_FALSE(std::isfinite(value)) << i;
            else
              ASSERT_EQ(own.data<float>()[i], value) << image << ", " << i;
          }
        };
        compare(own_y, y), compare(own_dx, dx);
      }
    }
}

TEST(ConvolutionTurned, PaysWhereRowsAreLong) {
  const auto device = make_cpu_device(0, {});
  const auto pays = [&](const Dims& image, std::int64_t channels, std::int64_t kernel,
                        std::int64_t dilation = 1, std::int64_t stride = 1,
                        Layout layout = Layout::channels_last) {
    const auto each = [&](std::int64_t value) { return Dims(image.size(), value); };
    const Case c{"", 2, image, {each(kernel), each(stride), each(dilation), each(dilation), 1, 32, channels}};
    return ops::turning_pays(c.geometry, Tensor(*device, c.input_shape(), DType::f32, layout),
                             Tensor(*device, c.output_shape(), DType::f32, layout));
  };
  const bool can = ops::instruction_set() == kAvx512;
  EXPECT_EQ(pays({2, 12, 12}, 16, 3), can);
  EXPECT_FALSE(pays({2, 7, 7}, 16, 3));
  EXPECT_EQ(pays({12, 12}, 16, 3, 2), can);
  EXPECT_FALSE(pays({12, 12}, 17, 3, 2));
  EXPECT_FALSE(pays({12, 12}, 16, 3, 2, 2));
  EXPECT_FALSE(pays({12, 12}, 16, 3, 2, 1, Layout::contiguous));
  EXPECT_FALSE(pays({28, 28}, 64, 3));  // from 32 channels
  EXPECT_FALSE(pays({28, 28}, 64, 1));
  const ConvolutionGeometry wide{{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 64, 64};
  const auto pays_wide = [&](std::int64_t length) {
    const Tensor image(*device, {2, 64, length, length}, DType::f32, Layout::channels_last);
    return ops::turning_pays(wide, image, image);
  };
  EXPECT_EQ(pays_wide(28), can);
  EXPECT_FALSE(pays_wide(27));
}

/// Teams that divide the columns, the images or both; results that are transposed, and columns that are
/// gathered.
TEST(ConvolutionProducts, MatchTheReferenceOnAnyTeam) {
  const std::vector<Case> shapes{
      {"wide input", 5, {6, 7}, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 520, 24}},
      {"wide output", 5, {6, 7}, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 24, 530}},
      {"narrow", 5, {6, 7}, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 20, 30}},
      {"strided", 5, {9, 10}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, 120, 20}},
      {"uneven", 5, {13, 12}, {{3, 2}, {2, 1}, {1, 0}, {2, 3}, 1, 90, 33}},
      {"strided 1x1", 5, {9, 10}, {{1, 1}, {2, 2}, {0, 0}, {1, 1}, 1, 20, 300}},
      {"volume", 5, {4, 6, 5}, {{3, 2, 3}, {1, 2, 1}, {1, 0, 1}, {1, 1, 2}, 1, 60, 33}},
      {"groups, wide input", 5, {6, 7}, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 2, 1040, 40}},
      {"groups, wide output", 5, {6, 7}, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 3, 60, 90}},
      // Rows a multiple of 512 bytes apart, which are copied with AVX2; more pixels and columns than at a
      // time.
      {"apart, wide input", 9, {6, 7}, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 640, 128}},
      {"apart, wide output", 9, {6, 7}, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 96, 640}},
      {"apart, few outputs", 9, {6, 7}, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 1024, 12}},
      {"apart, strided", 5, {9, 10}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, 128, 128}},
      {"apart, groups", 5, {6, 7}, {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 2, 256, 40}},
      {"many pixels",
       5,
       {31, 29},
       {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 2, 24, 26}},  // more than are taken at a time
  };
  for (const Case& c : shapes)
    for (const int threads : {1, 2, 3, 4, 6}) {
      SCOPED_TRACE(cat(c.name, ", ", threads, " threads"));
      Team team(threads);
      Context& context = team.context;
      const Tensor x = team.images(c.input_shape(), 1);
      const Tensor dy = team.images(c.output_shape(), 2);
      Tensor sum = team.weights(c.weight_shape(), 3), expected = team.weights(c.weight_shape(), 3);
      Tensor none, product(*team.device, c.weight_shape(), DType::f32),
          again(*team.device, c.weight_shape(), DType::f32);
      ops::make_reference_convolution(c.geometry)->backward_weight(context, x, dy, expected, none);
      ops::backward_weight_by_products(context, c.geometry, x, dy, true, sum);
      ops::backward_weight_by_products(context, c.geometry, x, dy, false, product);
      ops::backward_weight_by_products(context, c.geometry, x, dy, false, again);
      const Tensor before = team.weights(c.weight_shape(), 3);
      // Rounding of sums, as ConvolutionTest::tolerance says.
      const double tolerance = static_cast<double>(c.batch * c.output_shape().count(2) + 4) * 0x1p-23;
      if (ops::is_product(c.geometry)) {
        Tensor dx = team.images(c.input_shape(), 4), expected_dx = team.images(c.input_shape(), 5);
        ops::make_reference_convolution(c.geometry)->backward_data(context, dy, before, expected_dx);
        ops::backward_data_by_products(context, c.geometry, dy, before, dx);
        Tensor y = team.images(c.output_shape(), 4), expected_y = team.images(c.output_shape(), 5);
        const Tensor bias = team.weights({c.geometry.out_channels}, 6);
        const auto reference = ops::make_reference_convolution(c.geometry);
        reference->forward(context, x, before, bias, expected_y);
        ops::forward_by_products(context, c.geometry, x, before, bias, -0.25, y);
        const double of_sums = static_cast<double>(c.geometry.in_channels + 4) * 0x1p-23;
        for (std::int64_t o = 0; o < y.count(); ++o) {
          const float plain = expected_y.data<float>()[o];
          ASSERT_NEAR(y.data<float>()[o], plain > 0 ? plain : -0.25F * plain, of_sums) << o;
        }
        const double rounding = static_cast<double>(c.geometry.out_channels + 4) * 0x1p-23;
        for (std::int64_t i = 0; i < dx.count(); ++i)
          ASSERT_NEAR(dx.data<float>()[i], expected_dx.data<float>()[i], rounding) << i;
      }
      for (std::int64_t k = 0; k < sum.count(); ++k) {
        ASSERT_NEAR(sum.data<float>()[k], expected.data<float>()[k], tolerance) << k;
        ASSERT_NEAR(product.data<float>()[k] + before.data<float>()[k], expected.data<float>()[k], tolerance)
            << k;
        ASSERT_EQ(product.data<float>()[k], again.data<float>()[k]) << k;
      }
    }
}

TEST(ConvolutionGeometryTest, OutputLength) {
  const ConvolutionGeometry g{{3, 5}, {2, 3}, {1, 0}, {2, 1}, 1, 1, 1};
  EXPECT_EQ(g.output_length(0, 9), 4);  // (9 + 2 - 5) / 2 + 1
  EXPECT_EQ(g.output_length(1, 11), 3);
  EXPECT_EQ(g.output_length(1, 4), 0);  // shorter than the window
}

BANYAN_ON_ALL_DEVICES(ConvolutionTest);

}  // namespace
}  // namespace banyan
