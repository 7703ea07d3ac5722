// Layers that move, resize or cut pixels: shapes and values against loops written from the definitions.
#include "layers/bench.hpp"

namespace banyan::testing {
namespace {

Values counting(std::int64_t count) {
  Values values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return values;
}

TEST(Crop, CutsBoxesOut) {
  Bench bench("type: 'Crop' crop_param { axis: 1 offset: 1 offset: 0 offset: 2 }",
              {Shape{2, 3, 2, 4}, Shape{9, 2, 1, 2}}, 1);
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{2, 2, 1, 2}));
  bench.set_input(0, counting(48));
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{10, 11, 18, 19, 34, 35, 42, 43}));
  bench.backward(Values{1, 2, 3, 4, 5, 6, 7, 8});
  Values expected(48, 0);
  double next = 0;
  for (const std::size_t at : {10u, 11u, 18u, 19u, 34u, 35u, 42u, 43u}) expected[at] = ++next;
  EXPECT_EQ(bench.input_gradient(0), expected);
  const std::string start = "type: 'Crop' crop_param { ";
  const Shape image{2, 3, 4, 4}, small{2, 3, 3, 3};
  EXPECT_NE(refusal(start + "offset: 2 }", {image, small}).find("length 3 from offset 2"), std::string::npos);
  EXPECT_NE(refusal(start + "offset: [1, 1, 1] }", {image, small}).find("3 times"), std::string::npos);
  EXPECT_NE(refusal(start + "}", {image, Shape{3, 3}}).find("axes"), std::string::npos);
}

TEST(Crop, CutsTheMiddleOut) {
  Bench bench("type: 'Crop' crop_param { center_align: true }", {Shape{1, 1, 3, 4}, Shape{1, 1, 2, 2}}, 1);
  bench.set_input(0, counting(12));
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{1, 2, 5, 6}));
  EXPECT_NE(refusal("type: 'Crop' crop_param { center_align: true offset: 1 }",
                    {Shape{1, 1, 3, 4}, Shape{1, 1, 2, 2}})
                .find("exclude each other"),
            std::string::npos);
  EXPECT_NE(refusal("type: 'Crop' crop_param { center_align: true }", {Shape{1, 1, 3, 4}, Shape{1, 1, 5, 2}})
                .find("length 5 from offset 0 does not fit"),
            std::string::npos);
}

TEST(CrossCorrelation, IsAConvolutionByItsInput) {
  Bench bench("type: 'CrossCorrelation' convolution_param { num_output: 1 kernel_size: 2 }",
              {Shape{2, 1, 2, 3}, Shape{1, 1, 2, 2}}, 1);
  bench.set_input(0, counting(12));
  bench.set_input(1, {1, 0, -1, 2});
  bench.forward();
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{2, 1, 1, 2}));
  EXPECT_EQ(bench.output(), (Values{0 - 3 + 8, 1 - 4 + 10, 6 - 9 + 20, 7 - 10 + 22}));
  const std::string start = "type: 'CrossCorrelation' convolution_param { num_output: 2 ";
  const Shape image{2, 4, 5, 5};
  EXPECT_NE(refusal(start + "kernel_size: 3 }", {image, Shape{2, 4, 3, 2}}).find("must have as many values"),
            std::string::npos);
  EXPECT_NE(refusal(start + "kernel_size: 3 group: 3 }", {image, Shape{2, 4, 3, 3}}).find("must divide both"),
            std::string::npos);
  EXPECT_NE(refusal(start + "kernel_size: 9 }", {image, Shape{2, 4, 9, 9}}).find("smaller than the kernel"),
            std::string::npos);
}

TEST(Padding, AddsZerosOrCutsOff) {
  const Shape image{1, 1, 2, 3};
  const auto padded = [&](const std::string& settings) {
    Bench bench("type: 'Padding' padding_param { " + settings + " }", {image}, 1);
    bench.set_input(0, {1, 2, 3, 4, 5, 6});
    bench.forward();
    bench.backward(counting(bench.outputs[0]->shape.count()));
    return std::pair(bench.output(), bench.input_gradient(0));
  };
  EXPECT_EQ(padded("pad_beg: 1"),
            std::pair(Values{0, 0, 0, 0, 0, 1, 2, 3, 0, 4, 5, 6}, Values{5, 6, 7, 9, 10, 11}));
  EXPECT_EQ(padded("pad_end: -1"), std::pair(Values{1, 2}, Values{0, 1, 0, 0, 0, 0}));
  // As many as before, but not the same ones.
  EXPECT_EQ(padded("pad_beg: -1 pad_end: 1"), std::pair(Values{5, 6, 0, 0, 0, 0}, Values{0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(padded("").first, (Values{1, 2, 3, 4, 5, 6}));
  EXPECT_NE(
      refusal("type: 'Padding' padding_param { pad_beg: -1 pad_end: -1 }", {image}).find("leave nothing"),
      std::string::npos);
  EXPECT_NE(
      refusal("type: 'Padding' padding_param { pad_beg: -2 pad_end: 3 }", {image}).find("leave nothing"),
      std::string::npos);
  EXPECT_NE(refusal("type: 'Padding' padding_param { pad_end: 2000000 }", {image}).find("at most 1048576"),
            std::string::npos);
}

TEST(Interp, ChoosesItsSizeAsPspNet) {
  const auto size = [](const std::string& settings) {
    const Bench bench("type: 'Interp' interp_param { " + settings + " }", {Shape{1, 2, 9, 12}}, 1);
    return bench.outputs[0]->shape;
  };
  EXPECT_EQ(size("height: 3 width: 5"), (Shape{1, 2, 3, 5}));
  EXPECT_EQ(size("zoom_factor: 8"), (Shape{1, 2, 65, 89}));
  EXPECT_EQ(size("shrink_factor: 2"), (Shape{1, 2, 5, 6}));
  EXPECT_EQ(size("shrink_factor: 2 zoom_factor: 3"), (Shape{1, 2, 13, 16}));
  EXPECT_EQ(size("shrink_factor: 2 height: 3 width: 3"), (Shape{1, 2, 5, 6}));  // one factor goes first
  EXPECT_EQ(size("zoom_factor: 2 height: 3 width: 3"), (Shape{1, 2, 17, 23}));
  EXPECT_EQ(size("shrink_factor: 2 zoom_factor: 2 height: 3 width: 4"), (Shape{1, 2, 3, 4}));
  EXPECT_EQ(size("zoom_factor: 2 pad_beg: -1 pad_end: -2"), (Shape{1, 2, 11, 17}));
  const std::string start = "type: 'Interp' interp_param { ";
  const Shape image{1, 2, 9, 12};
  EXPECT_NE(refusal(start + "height: 3 }", {image}).find("height and width"), std::string::npos);
  EXPECT_NE(refusal(start + "height: 3 width: 0 }", {image}).find("positive"), std::string::npos);
  EXPECT_NE(refusal(start + "zoom_factor: 0 }", {image}).find("zoom_factor"), std::string::npos);
  EXPECT_NE(refusal(start + "zoom_factor: 2 pad_beg: 1 }", {image}).find("pad_beg"), std::string::npos);
  EXPECT_NE(refusal(start + "zoom_factor: 2 pad_beg: -5 pad_end: -4 }", {image}).find("nothing"),
            std::string::npos);
  EXPECT_NE(refusal(start + "zoom_factor: 2 }", {Shape{2, 3}}).find("4 (N, C, H, W)"), std::string::npos);
}

TEST(Interp, KeepsTheCornersAndStraightLines) {
  Bench bench("type: 'Interp' interp_param { height: 5 width: 7 pad_beg: -1 }", {Shape{1, 1, 4, 4}}, 1);
  Values ramp;
  for (int row = 0; row < 4; ++row)
    for (int column = 0; column < 4; ++column) ramp.push_back(10 * row + column);
  bench.set_input(0, ramp);
  bench.forward();
  Values expected;
  for (int row = 0; row < 5; ++row)
    for (int column = 0; column < 7; ++column) expected.push_back(10 * (1 + row / 2.0) + 1 + column / 3.0);
  expect_near(bench.output(), expected, 1e-14);
}

TEST(Permute, PutsAxesIntoTheOrderAskedFor) {
  for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
    BenchOptions options;
    options.input_layout = layout;
    Bench bench("type: 'Permute' permute_param { order: [0, 2, 3, 1] }", {Shape{1, 2, 2, 3}}, 1, options);
    EXPECT_EQ(bench.outputs[0]->shape, (Shape{1, 2, 3, 2}));
    EXPECT_EQ(bench.outputs[0]->layout, Layout::contiguous);
    bench.set_input(0, counting(12));
    bench.forward();
    EXPECT_EQ(bench.output(), (Values{0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11}));
    bench.backward(bench.output());
    EXPECT_EQ(bench.input_gradient(0), counting(12));
  }
  const Bench rest("type: 'Permute' permute_param { order: 3 order: 1 }", {Shape{2, 3, 4, 5}}, 1);
  EXPECT_EQ(rest.outputs[0]->shape, (Shape{5, 3, 2, 4}));
  const std::string start = "type: 'Permute' permute_param { ";
  EXPECT_NE(refusal(start + "order: 1 order: 1 }", {Shape{2, 3}}).find("axis 1 twice"), std::string::npos);
  EXPECT_NE(refusal(start + "order: 2 }", {Shape{2, 3}}).find("axis 2"), std::string::npos);
}

TEST(Transpose, IsAPermuteThatNamesEveryAxis) {
  const std::string start = "type: 'Transpose' transpose_param { ";
  Bench bench(start + "dim: 2 dim: 0 dim: 1 }", {Shape{1, 2, 3}}, 1);
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{3, 1, 2}));
  bench.set_input(0, counting(6));
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_NE(refusal(start + "dim: 1 dim: 0 }", {Shape{2, 3, 4}}).find("has 3 axes, found 2"),
            std::string::npos);
  EXPECT_NE(refusal(start + "dim: 1 dim: 1 }", {Shape{2, 3}}).find("dim names axis 1 twice"),
            std::string::npos);
  EXPECT_NE(refusal(start + "dim: 0 dim: -1 }", {Shape{2, 3}}).find("dim names axis -1"), std::string::npos);
}

/// Darknet's loop, with the sizes of the input.
Values reorganized(const Shape& in, std::int64_t stride, bool reverse, const Values& x) {
  const std::int64_t w = in[3], h = in[2], c = in[1], each = c / (stride * stride);
  Values y(x.size());
  for (std::int64_t n = 0; n < in[0]; ++n)
    for (std::int64_t k = 0; k < c; ++k)
      for (std::int64_t j = 0; j < h; ++j)
        for (std::int64_t i = 0; i < w; ++i) {
          const std::int64_t narrow = i + w * (j + h * (k + c * n)), offset = k / each;
          const std::int64_t column = i * stride + offset % stride, row = j * stride + offset / stride;
          const std::int64_t wide = column + w * stride * (row + h * stride * (k % each + each * n));
          if (reverse)
            y[static_cast<std::size_t>(wide)] = x[static_cast<std::size_t>(narrow)];
          else
            y[static_cast<std::size_t>(narrow)] = x[static_cast<std::size_t>(wide)];
        }
  return y;
}

TEST(Reorg, MovesElementsAsDarknet) {
  for (const bool reverse : {false, true}) {
    const Shape input{2, 8, 4, 6};
    Bench bench(cat("type: 'Reorg' reorg_param { stride: 2 reverse: ", reverse ? "true }" : "false }"),
                {input}, 1);
    EXPECT_EQ(bench.outputs[0]->shape, reverse ? (Shape{2, 2, 8, 12}) : (Shape{2, 32, 2, 3}));
    bench.set_input(0, counting(input.count()));
    bench.forward();
    EXPECT_EQ(bench.output(), reorganized(input, 2, reverse, counting(input.count())));
  }
  const std::string start = "type: 'Reorg' reorg_param { ";
  EXPECT_EQ(Bench("type: 'Reorg'", {Shape{1, 4, 2, 2}}, 1).outputs[0]->shape,
            (Shape{1, 16, 1, 1}));  // stride 2
  EXPECT_NE(refusal(start + "stride: 0 }", {Shape{1, 4, 2, 2}}).find("stride"), std::string::npos);
  EXPECT_NE(refusal(start + "stride: 2 }", {Shape{1, 3, 2, 2}}).find("multiple of 4"), std::string::npos);
  EXPECT_NE(refusal(start + "stride: 2 }", {Shape{1, 4, 3, 2}}).find("3 x 2 pixels"), std::string::npos);
}

TEST(ShuffleChannel, InterleavesTheGroups) {
  for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
    BenchOptions options;
    options.input_layout = layout;
    Bench bench("type: 'ShuffleChannel' shuffle_channel_param { group: 2 }", {Shape{1, 6, 1, 2}}, 1, options);
    bench.set_input(0, counting(12));
    bench.forward();
    EXPECT_EQ(bench.output(), (Values{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}));
  }
  EXPECT_NE(refusal("type: 'ShuffleChannel' shuffle_channel_param { group: 4 }", {Shape{1, 6, 2, 2}})
                .find("group 4 does not divide the 6 channels"),
            std::string::npos);
}

/// A convolution is its weights times the columns.
TEST(Im2col, MakesTheColumnsOfAConvolution) {
  const Shape image{2, 3, 5, 6};
  const std::string settings = "kernel_size: 3 stride: 2 pad: 1 dilation: 1";
  Bench columns("type: 'Im2col' convolution_param { " + settings + " }", {image}, 1);
  Bench convolution(
      "type: 'Convolution' convolution_param { num_output: 2 bias_term: false " + settings + " }", {image},
      1);
  EXPECT_EQ(columns.outputs[0]->shape, (Shape{2, 27, 3, 3}));
  const Values x = spread_values(image.count(), 1), weight = spread_values(54, 2);
  columns.set_input(0, x);
  columns.forward();
  convolution.set_input(0, x);
  convolution.set_parameter(0, weight);
  convolution.forward();
  const Values seen = columns.output();
  Values product;
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t o = 0; o < 2; ++o)
      for (std::size_t p = 0; p < 9; ++p) {
        double sum = 0;
        for (std::size_t k = 0; k < 27; ++k) sum += weight[o * 27 + k] * seen[(n * 27 + k) * 9 + p];
        product.push_back(sum);
      }
  expect_near(convolution.output(), product, 1e-13);
  EXPECT_NE(refusal("type: 'Im2col' convolution_param { kernel_size: 9 }", {image}).find("smaller than"),
            std::string::npos);
}

TEST(Upsample, UndoesMaximumPooling) {
  const Shape image{2, 3, 4, 6};
  Bench pooling("type: 'Pooling' pooling_param { kernel_size: 2 stride: 2 }", {image}, 2);
  pooling.set_input(0, spread_values(image.count(), 1, 3));
  pooling.forward();
  Bench bench("type: 'Upsample' upsample_param { scale: 2 }", {Shape{2, 3, 2, 3}, Shape{2, 3, 2, 3}}, 1);
  EXPECT_EQ(bench.outputs[0]->shape, image);
  bench.set_input(0, pooling.output(0));
  bench.set_input(1, pooling.output(1));
  bench.forward();
  // What pooling's backward pass does with the same values.
  pooling.backward({pooling.output(0), Values(36, 0)});
  EXPECT_EQ(bench.output(), pooling.input_gradient(0));
  bench.layer().check_results(bench.context());
}

TEST(Upsample, ChoosesItsSizeAsSegNet) {
  const auto size = [](const std::string& settings) {
    const Bench bench("type: 'Upsample' upsample_param { " + settings + " }",
                      {Shape{1, 2, 3, 4}, Shape{1, 2, 3, 4}}, 1);
    return bench.outputs[0]->shape;
  };
  EXPECT_EQ(size(""), (Shape{1, 2, 6, 8}));
  EXPECT_EQ(size("scale: 3 pad_out_h: true"), (Shape{1, 2, 8, 12}));
  EXPECT_EQ(size("scale_h: 1 scale_w: 2 pad_out_w: true"), (Shape{1, 2, 3, 7}));
  EXPECT_EQ(size("upsample_h: 5 upsample_w: 9 scale: 2"), (Shape{1, 2, 5, 9}));
  const std::string start = "type: 'Upsample' upsample_param { ";
  const Shape image{1, 2, 3, 4};
  EXPECT_NE(refusal(start + "upsample_h: 5 }", {image, image}).find("upsample_w"), std::string::npos);
  EXPECT_NE(refusal(start + "scale_h: 5 }", {image, image}).find("scale_w"), std::string::npos);
  EXPECT_NE(refusal(start + "scale: 0 }", {image, image}).find("scale must be"), std::string::npos);
  EXPECT_NE(refusal(start + "}", {image, Shape{1, 2, 3, 3}}).find("mask"), std::string::npos);
}

TEST(Upsample, SaysWhichPositionIsOutside) {
  Bench bench("type: 'Upsample'", {Shape{1, 1, 1, 2}, Shape{1, 1, 1, 2}}, 1);
  bench.set_input(0, {1, 2});
  bench.set_input(1, {0, 8});
  bench.forward();
  try {
    bench.layer().check_results(bench.context());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("holds 8, which is no pixel of the 2 x 4"), std::string::npos)
        << error.message();
  }
  bench.layer().check_results(bench.context());  // said once
}

}  // namespace
}  // namespace banyan::testing
