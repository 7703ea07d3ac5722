// Convolution and Pooling: shapes and values against loops written from the definitions.
#include <cfloat>

#include "layers/bench.hpp"

namespace banyan::testing {
namespace {

struct Image {  // (N, C, H, W)
  Shape shape;
  Values values;
  double at(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return values[((n * shape[1] + c) * shape[2] + h) * shape[3] + w];
  }
  bool holds(std::int64_t h, std::int64_t w) const {
    return h >= 0 && w >= 0 && h < shape[2] && w < shape[3];
  }
};

struct Windows {
  std::int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
};

Values pooled(const Image& in, const Windows& p, const Shape& out, bool maximum, Values* mask = nullptr) {
  Values all;
  for (std::int64_t n = 0; n < out[0]; ++n)
    for (std::int64_t c = 0; c < out[1]; ++c)
      for (std::int64_t oh = 0; oh < out[2]; ++oh)
        for (std::int64_t ow = 0; ow < out[3]; ++ow) {
          const std::int64_t h0 = oh * p.stride_h - p.pad_h, w0 = ow * p.stride_w - p.pad_w;
          const std::int64_t h1 = std::min(h0 + p.kernel_h, in.shape[2] + p.pad_h);
          const std::int64_t w1 = std::min(w0 + p.kernel_w, in.shape[3] + p.pad_w);
          double best = -static_cast<double>(FLT_MAX), sum = 0, place = -1;
          for (std::int64_t h = h0; h < h1; ++h)
            for (std::int64_t w = w0; w < w1; ++w) {
              if (!in.holds(h, w)) continue;
              sum += in.at(n, c, h, w);
              if (in.at(n, c, h, w) > best) {
                best = in.at(n, c, h, w);
                place = static_cast<double>(h * in.shape[3] + w);
              }
            }
          all.push_back(maximum ? best : sum / static_cast<double>((h1 - h0) * (w1 - w0)));
          if (mask != nullptr) mask->push_back(place);
        }
  return all;
}

struct PoolingCase {
  std::string settings;
  Shape input, output;
  Windows windows;
};

TEST(Pooling, FollowsCaffesWindows) {
  const std::vector<PoolingCase> cases = {
      {"kernel_size: 2 stride: 2", {1, 2, 5, 6}, {1, 2, 3, 3}, {2, 2, 2, 2, 0, 0}},  // rounded up
      {"kernel_size: 2 stride: 2 round_mode: FLOOR", {1, 2, 5, 6}, {1, 2, 2, 3}, {2, 2, 2, 2, 0, 0}},
      {"kernel_size: 3 stride: 2 pad: 1", {2, 1, 6, 7}, {2, 1, 4, 4}, {3, 3, 2, 2, 1, 1}},
      {"kernel_size: 2 stride: 2 pad: 1",
       {1, 1, 5, 4},
       {1, 1, 3, 3},
       {2, 2, 2, 2, 1, 1}},  // last row dropped
      {"kernel_size: 3 stride: 5", {1, 1, 7, 4}, {1, 1, 2, 2}, {3, 3, 5, 5, 0, 0}},
      {"kernel_size: 4 stride: 2", {1, 1, 3, 3}, {1, 1, 1, 1}, {4, 4, 2, 2, 0, 0}},  // wider than the image
      {"kernel_h: 1 kernel_w: 3 stride_h: 2 stride_w: 1 pad_h: 0 pad_w: 2",
       {1, 2, 5, 4},
       {1, 2, 3, 6},
       {1, 3, 2, 1, 0, 2}},
      // Intel's rule: no window of one pixel outside of the input.
      {"kernel_size: 1 stride: 2", {1, 1, 6, 7}, {1, 1, 3, 4}, {1, 1, 2, 2, 0, 0}},
      {"kernel_h: 2 kernel_w: 1 stride: 3", {1, 1, 4, 5}, {1, 1, 2, 2}, {2, 1, 3, 3, 0, 0}},
      {"kernel_h: 2 kernel_w: 1 stride: 4", {1, 1, 7, 6}, {1, 1, 2, 2}, {2, 1, 4, 4, 0, 0}},
      {"global_pooling: true", {2, 3, 5, 4}, {2, 3, 1, 1}, {5, 4, 1, 1, 0, 0}},
  };
  for (const PoolingCase& tested : cases) {
    for (const bool maximum : {true, false}) {
      for (const DType dtype : {DType::f64, DType::f32}) {
        const std::string text = cat("type: 'Pooling' pooling_param { pool: ", maximum ? "MAX" : "AVE", " ",
                                     tested.settings, " }");
        BenchOptions options;
        options.dtype = dtype;
        Bench bench(text, {tested.input}, maximum ? 2 : 1, options);
        EXPECT_EQ(bench.outputs[0]->shape, tested.output) << text;
        bench.set_input(0, spread_values(tested.input.count(), 1));
        const Image in{tested.input, get_values(bench.context(), bench.inputs[0]->data)};
        bench.forward();
        Values mask;
        // f32: a sum of at most 20 values.
        expect_near(bench.output(), pooled(in, tested.windows, tested.output, maximum, &mask),
                    dtype == DType::f64 ? 1e-14 : 1e-6, text);
        if (maximum) {
          EXPECT_EQ(bench.output(1), mask) << text;
        }
      }
    }
  }
}

TEST(Pooling, AveragesOverThePixelsInsideIfAsked) {
  // 3 axes of 2 with windows of 2 that begin at -1 and 1: each holds one pixel.
  const std::string text =
      "type: 'Pooling' pooling_param { pool: AVE kernel_size: 2 stride: 2 pad: 1 avg_include_pad: ";
  for (const bool counted : {true, false}) {
    Bench bench(text + (counted ? "true }" : "false }"), {Shape{1, 1, 2, 2, 2}}, 1);
    bench.set_input(0, {1, 2, 3, 4, 5, 6, 7, 8});
    bench.forward();
    Values expected = {1, 2, 3, 4, 5, 6, 7, 8};
    for (double& value : expected) value /= counted ? 8 : 1;
    EXPECT_EQ(bench.output(), expected);
  }
  EXPECT_NE(
      refusal("type: 'Pooling' pooling_param { kernel_size: 2 avg_include_pad: false }", {Shape{1, 1, 2, 2}})
          .find("avg_include_pad: false is for pool: AVE only"),
      std::string::npos);
}

TEST(Pooling, HasWindowsWithoutGaps) {
  const std::string start = "type: 'Pooling' pooling_param { kernel_size: 2 dilation: ";
  EXPECT_EQ(refusal(start + "1 }", {Shape{1, 1, 3, 3}}), "accepted");
  EXPECT_NE(refusal(start + "2 }", {Shape{1, 1, 3, 3}}).find("dilation other than 1 is not supported"),
            std::string::npos);
}

TEST(Pooling, TakesTheFirstOfEqualMaxima) {
  Bench bench("type: 'Pooling' pooling_param { kernel_size: 2 }", {Shape{1, 1, 2, 2}}, 2);
  bench.set_input(0, {1, 3, 3, 3});
  bench.forward();
  EXPECT_EQ(bench.output(1), Values{1});
}

TEST(Pooling, StochasticIsAWeightedMeanInTests) {
  BenchOptions options;
  options.phase = Phase::test;
  Bench bench("type: 'Pooling' pooling_param { pool: STOCHASTIC kernel_size: 2 stride: 2 }",
              {Shape{1, 1, 2, 4}}, 1, options);
  bench.set_input(0, {1, 2, 0, 0, 3, 4, 0, 0});
  bench.forward();
  expect_near(bench.output(), {30.0 / 10, 0}, 1e-15);
}

TEST(Pooling, StochasticDrawsOneValueOfEachWindowAndSendsTheGradientThere) {
  Bench bench("type: 'Pooling' pooling_param { pool: STOCHASTIC kernel_size: 2 stride: 2 }",
              {Shape{50, 1, 2, 2}}, 1);
  Values x;
  for (int i = 0; i < 50; ++i) x.insert(x.end(), {1, 2, 0, 1});
  bench.set_input(0, x);
  bench.forward();
  const Values y = bench.output();
  int twos = 0;
  for (const double value : y) {
    EXPECT_TRUE(value == 1 || value == 2);
    twos += value == 2;
  }
  EXPECT_GT(twos,
            10);  // expected 25 of 50; a fair draw misses this bound once in 10^5 keys, and the key is fixed
  EXPECT_LT(twos, 40);
  bench.backward(Values(50, 1));
  const Values dx = bench.input_gradient();
  for (std::size_t i = 0; i < 50; ++i) {
    double sum = 0, weighted = 0;
    for (std::size_t e = 0; e < 4; ++e) sum += dx[4 * i + e], weighted += dx[4 * i + e] * x[4 * i + e];
    EXPECT_EQ(sum, 1);
    EXPECT_EQ(weighted, y[i]);
  }
}

/// Direct sums over groups, dilation, stride and zero padding.
Values convolved(const Image& in, const Values& weight, const Values& bias, const Windows& p,
                 std::int64_t dilation, std::int64_t group, const Shape& out) {
  Values all;
  const std::int64_t in_group = in.shape[1] / group, out_group = out[1] / group;
  for (std::int64_t n = 0; n < out[0]; ++n)
    for (std::int64_t o = 0; o < out[1]; ++o)
      for (std::int64_t oh = 0; oh < out[2]; ++oh)
        for (std::int64_t ow = 0; ow < out[3]; ++ow) {
          double sum = bias.empty() ? 0 : bias[o];
          for (std::int64_t c = 0; c < in_group; ++c)
            for (std::int64_t kh = 0; kh < p.kernel_h; ++kh)
              for (std::int64_t kw = 0; kw < p.kernel_w; ++kw) {
                const std::int64_t h = oh * p.stride_h - p.pad_h + kh * dilation;
                const std::int64_t w = ow * p.stride_w - p.pad_w + kw * dilation;
                const std::int64_t at = ((o * in_group + c) * p.kernel_h + kh) * p.kernel_w + kw;
                if (in.holds(h, w)) sum += in.at(n, o / out_group * in_group + c, h, w) * weight[at];
              }
          all.push_back(sum);
        }
  return all;
}

struct ConvolutionCase {
  std::string settings;
  Shape output;
  Windows windows;
  std::int64_t dilation = 1, group = 1;
  bool bias = true;
};

TEST(Convolution, EqualsDirectSums) {
  const Shape input{2, 4, 7, 6};
  const std::vector<ConvolutionCase> cases = {
      {"kernel_size: 3", {2, 6, 5, 4}, {3, 3, 1, 1, 0, 0}},
      {"kernel_size: 3 pad: 1 stride: 2", {2, 6, 4, 3}, {3, 3, 2, 2, 1, 1}},
      {"kernel_size: [3, 2] pad: [1, 0] stride: [2, 1]", {2, 6, 4, 5}, {3, 2, 2, 1, 1, 0}},
      {"kernel_h: 1 kernel_w: 5 pad_w: 2 stride_h: 3", {2, 6, 3, 6}, {1, 5, 3, 1, 0, 2}},
      {"kernel_size: 3 dilation: 2", {2, 6, 3, 2}, {3, 3, 1, 1, 0, 0}, 2},
      {"kernel_size: 3 group: 2 bias_term: false", {2, 6, 5, 4}, {3, 3, 1, 1, 0, 0}, 1, 2, false},
      {"kernel_size: 1 engine: CUDNN force_nd_im2col: true", {2, 6, 7, 6}, {1, 1, 1, 1, 0, 0}},
  };
  for (const ConvolutionCase& tested : cases) {
    for (const int mode : {0, 1, 2}) {  // f64, f32 contiguous, f32 channels-last
      BenchOptions options;
      options.dtype = mode == 0 ? DType::f64 : DType::f32;
      options.channels_last = mode == 2;
      Bench bench("type: 'Convolution' convolution_param { num_output: 6 " + tested.settings + " }", {input},
                  1, options);
      EXPECT_EQ(bench.outputs[0]->shape, tested.output) << tested.settings;
      EXPECT_EQ(bench.outputs[0]->layout, mode == 2 ? Layout::channels_last : Layout::contiguous);
      bench.set_input(0, spread_values(input.count(), 1));
      Values bias;
      bench.set_parameter(0, spread_values(bench.layer().parameters()[0].shape.count(), 2));
      ASSERT_EQ(bench.layer().parameters().size(), tested.bias ? 2u : 1u);
      if (tested.bias) bench.set_parameter(1, bias = spread_values(6, 3));
      bench.forward();
      const Image in{input, get_values(bench.context(), bench.inputs[0]->data)};
      // Sums of at most 37 products of size 1.
      expect_near(bench.output(),
                  convolved(in, bench.parameter(0), bias, tested.windows, tested.dilation, tested.group,
                            tested.output),
                  mode == 0 ? 1e-13 : 1e-5, cat(tested.settings, " mode ", mode));
    }
  }
}

TEST(Convolution, FrozenWeightsStillGiveABiasGradient) {
  for (const bool channels_last : {false, true}) {
    BenchOptions options;
    options.dtype = DType::f32;
    options.channels_last = channels_last;
    Bench bench("type: 'Convolution' convolution_param { num_output: 2 kernel_size: 2 } param { lr_mult: 0 }",
                {Shape{2, 1, 3, 3}}, 1, options);
    bench.set_input(0, spread_values(18, 1));
    bench.forward();
    Values dy(16, 0);
    dy[0] = 1;    // sample 0, channel 0
    dy[15] = 10;  // sample 1, channel 1
    bench.backward(dy);
    EXPECT_FALSE(bench.layer().parameters()[0].grad.defined());
    EXPECT_EQ(bench.parameter_gradient(1), (Values{1, 10}));
  }
}

TEST(Convolution, CountsMultiplications) {
  Bench bench("type: 'Convolution' convolution_param { num_output: 6 kernel_size: 3 group: 2 }",
              {Shape{2, 4, 7, 6}}, 1);
  EXPECT_EQ(bench.layer().forward_flops(bench.inputs, bench.outputs), 2 * 6 * 5 * 4 * (4 / 2) * 9);
}

}  // namespace
}  // namespace banyan::testing
