// Deconvolution, depthwise convolution and pooling with more spatial axes: shapes and values against loops
// written from the definitions.
#include "layers/bench.hpp"

namespace banyan::testing {
namespace {

struct Window {
  std::int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, group;
};

/// Every input adds its weighted kernel to the output.
Values deconvolved(const Shape& in, const Values& x, const Values& weight, const Values& bias,
                   const Window& k, const Shape& out) {
  Values y;
  for (std::int64_t i = 0; i < out.count(); ++i)
    y.push_back(bias[static_cast<std::size_t>(i / (out[2] * out[3]) % out[1])]);
  const std::int64_t in_each = in[1] / k.group, out_each = out[1] / k.group;
  std::size_t at = 0;
  for (std::int64_t n = 0; n < in[0]; ++n)
    for (std::int64_t c = 0; c < in[1]; ++c)
      for (std::int64_t h = 0; h < in[2]; ++h)
        for (std::int64_t w = 0; w < in[3]; ++w, ++at)
          for (std::int64_t o = 0; o < out_each; ++o)
            for (std::int64_t r = 0; r < k.kernel_h; ++r)
              for (std::int64_t s = 0; s < k.kernel_w; ++s) {
                const std::int64_t row = h * k.stride_h - k.pad_h + r * k.dilation_h;
                const std::int64_t column = w * k.stride_w - k.pad_w + s * k.dilation_w;
                if (row < 0 || column < 0 || row >= out[2] || column >= out[3]) continue;
                const std::int64_t channel = c / in_each * out_each + o;
                y[static_cast<std::size_t>(((n * out[1] + channel) * out[2] + row) * out[3] + column)] +=
                    x[at] *
                    weight[static_cast<std::size_t>(((c * out_each + o) * k.kernel_h + r) * k.kernel_w + s)];
              }
  return y;
}

TEST(Deconvolution, AddsTheWeightedKernelOfEveryInput) {
  struct Case {
    std::string settings;
    Shape output;
    Window window;
  };
  const Shape input{2, 4, 3, 5};
  const std::vector<Case> cases = {
      {"kernel_size: 4 stride: 2 pad: 1", {2, 6, 6, 10}, {4, 4, 2, 2, 1, 1, 1, 1, 1}},
      {"kernel_size: 3 group: 2", {2, 6, 5, 7}, {3, 3, 1, 1, 0, 0, 1, 1, 2}},
      {"kernel_h: 1 kernel_w: 3 stride_h: 3 stride_w: 2 pad_w: 1 dilation_h: 1 dilation_w: 2",
       {2, 6, 7, 11},
       {1, 3, 3, 2, 0, 1, 1, 2, 1}},
      {"kernel_size: 2 dilation: 3 group: 2 pad: 2", {2, 6, 2, 4}, {2, 2, 1, 1, 2, 2, 3, 3, 2}},
  };
  for (const Case& tested : cases)
    for (const DType dtype : {DType::f64, DType::f32})
      for (const bool channels_last : {false, true}) {
        SCOPED_TRACE(cat(tested.settings, " ", name_of(dtype)));
        BenchOptions options;
        options.dtype = dtype;
        options.channels_last = channels_last;
        Bench bench("type: 'Deconvolution' convolution_param { num_output: 6 " + tested.settings + " }",
                    {input}, 1, options);
        EXPECT_EQ(bench.outputs[0]->shape, tested.output);
        const Shape& weight = bench.layer().parameters()[0].shape;
        EXPECT_EQ(weight,
                  (Shape{4, 6 / tested.window.group, tested.window.kernel_h, tested.window.kernel_w}));
        EXPECT_EQ(bench.layer().parameters()[1].shape, Shape{6});
        bench.set_input(0, spread_values(input.count(), 1));
        bench.set_parameter(0, spread_values(weight.count(), 2));
        bench.set_parameter(1, spread_values(6, 3));
        bench.forward();
        // f32: sums of at most 100 products below 1.
        expect_near(bench.output(),
                    deconvolved(input, get_values(bench.context(), bench.inputs[0]->data), bench.parameter(0),
                                bench.parameter(1), tested.window, tested.output),
                    dtype == DType::f64 ? 1e-13 : 1e-5);
      }
}

TEST(Deconvolution, EndsWithAReluAsOneAfterIt) {
  for (const char* bias : {"true", "false"}) {
    Bench bench(cat("type: 'Deconvolution' convolution_param { num_output: 3 kernel_size: 2 bias_term: ",
                    bias, " bias_filler { value: 0.1 } }"),
                {Shape{1, 2, 3, 3}}, 1);
    bench.set_input(0, spread_values(18, 1));
    bench.set_parameter(0, spread_values(24, 2));
    bench.forward();
    Values expected = bench.output();
    for (double& value : expected) value = value > 0 ? value : 0.5 * value;
    bench.pass.fused.output = ops::relu_activation(0.5);
    bench.forward();
    EXPECT_EQ(bench.output(), expected);
  }
}

TEST(Deconvolution, RefusesWhatDoesNotFit) {
  const std::string start = "type: 'Deconvolution' convolution_param { ";
  const Shape image{1, 4, 2, 2};
  EXPECT_NE(refusal(start + "kernel_size: 3 }", {image}).find("num_output"), std::string::npos);
  EXPECT_NE(refusal(start + "num_output: 3 kernel_size: 3 group: 2 }", {image}).find("group 2"),
            std::string::npos);
  EXPECT_NE(refusal(start + "num_output: 4 kernel_size: 2 pad: 2 }", {image}).find("too small"),
            std::string::npos);
  EXPECT_NE(refusal(start + "num_output: 4 kernel_size: [3, 3, 3] }", {image}).find("2 spatial axes"),
            std::string::npos);
}

TEST(Depthwise, IsAConvolutionOfAsManyGroups) {
  const Shape image{2, 3, 5, 4};
  Values outputs[3];
  int i = 0;
  for (const char* type : {"type: 'Convolution' convolution_param { group: 3 ",
                           "type: 'DepthwiseConvolution' convolution_param { group: 3 ",
                           "type: 'ConvolutionDepthwise' convolution_param { "}) {
    Bench bench(cat(type, "num_output: 6 kernel_size: 3 pad: 1 }"), {image}, 1);
    EXPECT_EQ(bench.layer().parameters()[0].shape, (Shape{6, 1, 3, 3}));
    bench.set_input(0, spread_values(image.count(), 1));
    bench.set_parameter(0, spread_values(54, 2));
    bench.forward();
    outputs[i++] = bench.output();
  }
  EXPECT_EQ(outputs[1], outputs[0]);
  EXPECT_EQ(outputs[2], outputs[0]);
  EXPECT_NE(
      refusal("type: 'DepthwiseConvolution' convolution_param { num_output: 6 group: 2 kernel_size: 1 }",
              {image})
          .find("group 2 is not the number of channels, 3"),
      std::string::npos);
}

/// Windows of three axes by a loop over all their elements.
TEST(Pooling, TakesThreeSpatialAxes) {
  const Shape input{2, 2, 4, 5, 6}, output{2, 2, 3, 3, 4};
  const std::int64_t kernel[] = {3, 2, 3}, stride[] = {2, 2, 2}, pad[] = {1, 1, 1};
  const Values x = spread_values(input.count(), 1);
  for (const bool maximum : {true, false}) {
    Bench bench(cat("type: 'Pooling' pooling_param { kernel_size: [3, 2, 3] stride: 2 pad: 1 pool: ",
                    maximum ? "MAX }" : "AVE }"),
                {input}, 1);
    EXPECT_EQ(bench.outputs[0]->shape, output);
    bench.set_input(0, x);
    bench.forward();
    Values expected;
    for (std::int64_t i = 0; i < output.count(); ++i) {
      const std::int64_t at[] = {i / 12 % 3, i / 4 % 3, i % 4};
      std::int64_t begin[3], end[3], area = 1;
      for (int a = 0; a < 3; ++a) {
        begin[a] = at[a] * stride[a] - pad[a];
        end[a] = std::min(begin[a] + kernel[a], input[a + 2] + pad[a]);
        area *= end[a] - begin[a];
      }
      double sum = 0, best = -9;
      for (std::int64_t d = std::max<std::int64_t>(begin[0], 0); d < std::min(end[0], input[2]); ++d)
        for (std::int64_t h = std::max<std::int64_t>(begin[1], 0); h < std::min(end[1], input[3]); ++h)
          for (std::int64_t w = std::max<std::int64_t>(begin[2], 0); w < std::min(end[2], input[4]); ++w) {
            const double value = x[static_cast<std::size_t>(((i / 36 * 4 + d) * 5 + h) * 6 + w)];
            sum += value;
            best = std::max(best, value);
          }
      expected.push_back(maximum ? best : sum / static_cast<double>(area));
    }
    expect_near(bench.output(), expected, 1e-14);
  }
}

TEST(Pooling, RefusesWhatItCannotDoWithMoreAxes) {
  const std::string start = "type: 'Pooling' pooling_param { ";
  const Shape image{1, 2, 4, 4}, volume{1, 2, 4, 4, 4};
  EXPECT_NE(refusal(start + "kernel_size: [3, 3, 3] }", {image})
                .find("kernel_size is given 3 times; expected once or once for each of 2 spatial axes"),
            std::string::npos);
  EXPECT_NE(refusal(start + "kernel_h: 3 kernel_w: 3 }", {volume}).find("need 2 spatial axes; there are 3"),
            std::string::npos);
  EXPECT_NE(refusal(start + "kernel_size: 2 stride_h: 2 stride_w: 2 }", {volume}).find("2 spatial axes"),
            std::string::npos);
  EXPECT_NE(refusal(start + "pool: STOCHASTIC kernel_size: 2 }", {volume}).find("STOCHASTIC"),
            std::string::npos);
  EXPECT_THROW(Bench(start + "kernel_size: 2 }", {volume}, 2), Error);
}

}  // namespace
}  // namespace banyan::testing
