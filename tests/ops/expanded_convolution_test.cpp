// A 1 x 1 convolution and the depthwise one after it as one operator: the values of the two.
#include "banyan/ops/expanded_convolution.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "banyan/base/text.hpp"
#include "banyan/device/context.hpp"
#include "banyan/ops/processor.hpp"

namespace banyan {
namespace {

using Dims = std::vector<std::int64_t>;

/// Small integers: every sum of products is exact, in whatever order.
Tensor integers(Device& device, const Shape& shape, Layout layout, std::mt19937& engine) {
  Tensor tensor(device, shape, DType::f32, layout);
  std::generate_n(tensor.data<float>(), tensor.count(),
                  [&] { return static_cast<float>(static_cast<int>(engine() % 5) - 2); });
  return tensor;
}

/// In logical order, when the stream is done; none of an undefined tensor.
std::vector<double> numbers(Context& context, const Tensor& tensor) {
  context.synchronize();
  std::vector<double> found;
  if (!tensor.defined()) return found;
  const float* const data = tensor.data<float>();
  if (tensor.layout() == Layout::contiguous) return {data, data + tensor.count()};
  const Shape& shape = tensor.shape();
  const std::int64_t pixels = shape.count(2), channels = shape[1];
  for (std::int64_t plane = 0; plane < shape[0] * channels; ++plane)
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
      found.push_back(data[(plane / channels * pixels + pixel) * channels + plane % channels]);
  return found;
}

double ended(const ops::Activation& end, double value) {
  if (end.kind == ops::Activation::Kind::relu) return value > 0 ? value : end.slope * value;
  if (end.kind == ops::Activation::Kind::clip) return std::clamp(value, end.low, end.high);
  return value;
}

/// The two convolutions as loops.
std::vector<double> expected(Context& context, const ops::ConvolutionGeometry& g, const Tensor& input,
                             const ops::Expansion& expansion, const Tensor& weight, const Tensor& bias,
                             const ops::Activation& end, const Shape& out) {
  const auto of = [&](const Tensor& tensor) { return numbers(context, tensor); };
  const auto x = of(input), w1 = of(expansion.weight), b1 = of(expansion.bias), w2 = of(weight),
             b2 = of(bias);
  const Shape& in = input.shape();
  std::vector<double> middle(static_cast<std::size_t>(in[0] * g.in_channels * in[2] * in[3]));
  for (std::int64_t i = 0; i < std::ssize(middle); ++i) {
    const std::int64_t pixel = i % (in[2] * in[3]), channel = i / (in[2] * in[3]) % g.in_channels;
    const std::int64_t image = i / (in[2] * in[3] * g.in_channels);
    double sum = b1.empty() ? 0 : b1[channel];
    for (std::int64_t c = 0; c < in[1]; ++c)
      sum += w1[channel * in[1] + c] * x[(image * in[1] + c) * in[2] * in[3] + pixel];
    middle[i] = ended(expansion.end, sum);
  }
  std::vector<double> y(static_cast<std::size_t>(out.count()));
  for (std::int64_t i = 0; i < std::ssize(y); ++i) {
    const std::int64_t column = i % out[3], row = i / out[3] % out[2], plane = i / (out[2] * out[3]);
    const std::int64_t channel = plane % g.in_channels;
    double sum = b2.empty() ? 0 : b2[channel];
    for (std::int64_t r = 0; r < g.kernel[0]; ++r)
      for (std::int64_t k = 0; k < g.kernel[1]; ++k) {
        const std::int64_t at_row = row * g.stride[0] - g.pad[0] + r * g.dilation[0];
        const std::int64_t at_column = column * g.stride[1] - g.pad[1] + k * g.dilation[1];
        if (at_row >= 0 && at_row < in[2] && at_column >= 0 && at_column < in[3])
          sum += w2[(channel * g.kernel[0] + r) * g.kernel[1] + k] *
                 middle[(plane * in[2] + at_row) * in[3] + at_column];
      }
    y[i] = ended(end, sum);
  }
  return y;
}

class ExpandedConvolution : public testing::Test {
 protected:
  void SetUp() override {
    if (ops::instruction_set() == ops::InstructionSet::baseline)
      GTEST_SKIP() << "needs kernels for AVX2 or AVX-512";
  }
  std::int64_t up_to(std::int64_t most) { return 1 + static_cast<std::int64_t>(engine_() % most); }
  ops::Activation any_end() {
    switch (engine_() % 4) {
      case 0:
        return ops::relu_activation();
      case 1:
        return ops::relu_activation(0.5);
      case 2:
        return ops::clip_activation(-3, 6);
      default:
        return {};
    }
  }
  std::mt19937 engine_{11};
};

TEST_F(ExpandedConvolution, HasTheValuesOfBoth) {
  int tried = 0;
  for (int n = 0; n < 400; ++n) {
    CpuDeviceOptions options;
    options.threads = static_cast<int>(up_to(3));
    options.asynchronous = n % 2 == 0;
    const auto device = make_cpu_device(0, options);
    Context context(*device);
    ops::ConvolutionGeometry g;
    Dims length;
    for (int axis = 0; axis < 2; ++axis) {
      length.push_back(up_to(n % 10 == 0 ? 90 : 20));
      g.kernel.push_back(n % 3 == 0 ? 3 : up_to(5));
      g.stride.push_back(up_to(3));
      g.dilation.push_back(1);
      g.pad.push_back(static_cast<std::int64_t>(engine_() % 3));
    }
    g.in_channels = g.out_channels = g.group = 7 + up_to(n % 2 == 0 ? 10 : 60);
    const Shape in{up_to(4) - 1, up_to(40), length[0], length[1]};
    const Shape out{in[0], g.in_channels, g.output_length(0, in[2]), g.output_length(1, in[3])};
    if (out[2] < 1 || out[3] < 1) continue;
    ASSERT_TRUE(ops::can_expand(g));
    ++tried;
    SCOPED_TRACE(cat("case ", n, ": ", in.to_string(), " to ", out.to_string(), ", window ", g.kernel[0],
                     " x ", g.kernel[1], ", stride ", g.stride[0], " x ", g.stride[1], ", pad ", g.pad[0],
                     " x ", g.pad[1], ", ", options.threads, " threads"));
    const auto contiguous = [&](const Shape& shape) {
      return integers(*device, shape, Layout::contiguous, engine_);
    };
    const Tensor x = integers(*device, in, Layout::channels_last, engine_);
    const ops::Expansion expansion{contiguous({g.in_channels, in[1], 1, 1}),
                                   n % 4 < 2 ? contiguous({g.in_channels}) : Tensor(), any_end()};
    const Tensor weight = contiguous({g.in_channels, 1, g.kernel[0], g.kernel[1]});
    const Tensor bias = n % 3 == 0 ? Tensor() : contiguous({g.in_channels});
    const ops::Activation end = any_end();
    Tensor y(*device, out, DType::f32, Layout::channels_last);
    std::fill_n(y.data<float>(), y.count(), std::numeric_limits<float>::quiet_NaN());
    ops::expand_and_convolve(context, g, x, expansion, weight, bias, end, y);
    ASSERT_EQ(numbers(context, y), expected(context, g, x, expansion, weight, bias, end, out));
  }
  EXPECT_GE(tried, 200);
}

/// What is not a number comes through, and outside the image nothing is multiplied.
TEST_F(ExpandedConvolution, ShowsNumbersThatAreNone) {
  const auto device = make_cpu_device(0, {});
  Context context(*device);
  const ops::ConvolutionGeometry g{{3, 3}, {1, 1}, {1, 1}, {1, 1}, 16, 16, 16};
  Tensor x = integers(*device, {1, 3, 9, 9}, Layout::channels_last, engine_);
  x.data<float>()[(4 * 9 + 4) * 3] = std::numeric_limits<float>::quiet_NaN();
  const ops::Expansion expansion{integers(*device, {16, 3, 1, 1}, Layout::contiguous, engine_), Tensor(),
                                 ops::clip_activation(0, 6)};
  const Tensor weight = integers(*device, {16, 1, 3, 3}, Layout::contiguous, engine_);
  Tensor y(*device, {1, 16, 9, 9}, DType::f32, Layout::channels_last);
  ops::expand_and_convolve(context, g, x, expansion, weight, Tensor(), ops::clip_activation(-1, 1), y);
  const std::vector<double> values = numbers(context, y);
  for (std::int64_t i = 0; i < std::ssize(values); ++i) {
    const std::int64_t row = i / 9 % 9, column = i % 9;
    EXPECT_EQ(std::isnan(values[i]), std::abs(row - 4) <= 1 && std::abs(column - 4) <= 1) << i;
  }
}

TEST_F(ExpandedConvolution, IsForOneWindowPerChannelOfImages) {
  const auto of = [](std::int64_t in, std::int64_t out, std::int64_t group, std::size_t axes) {
    const Dims one(axes, 1), three(axes, 3);
    return ops::ConvolutionGeometry{three, one, one, one, group, in, out};
  };
  EXPECT_TRUE(ops::can_expand(of(16, 16, 16, 2)));
  EXPECT_FALSE(ops::can_expand(of(16, 16, 1, 2)));
  EXPECT_FALSE(ops::can_expand(of(16, 32, 16, 2)));
  EXPECT_FALSE(ops::can_expand(of(16, 16, 16, 3)));
  EXPECT_FALSE(ops::can_expand(of(4, 4, 4, 2)));
  ops::ConvolutionGeometry dilated = of(16, 16, 16, 2);
  dilated.dilation = {1, 2};
  EXPECT_FALSE(ops::can_expand(dilated));
}

}  // namespace
}  // namespace banyan
