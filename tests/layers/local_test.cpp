// Local: against its definition and against Convolution, gradients, refusals.
#include "layers/gradient_case.hpp"

namespace banyan::testing {
namespace {

struct LocalCase {
  std::string name, settings;
  Shape image;
  int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
  bool shared = false;
  std::string text() const { return "type: 'Local' local_param { num_output: 3 " + settings + " }"; }
};
const LocalCase kLocalCases[] = {
    {"plain", "kernel_size: 3", {2, 2, 5, 6}, 3, 3, 1, 1, 0, 0},
    {"pad_stride", "kernel_size: 3 stride: 2 pad: 1", {2, 2, 5, 6}, 3, 3, 2, 2, 1, 1},
    {"sides",
     "kernel_h: 1 kernel_w: 3 stride_h: 2 stride_w: 1 pad_h: 0 pad_w: 2",
     {3, 1, 4, 3},
     1,
     3,
     2,
     1,
     0,
     2},
    {"shared_bias", "kernel_size: 2 shared_bias: true", {2, 3, 3, 4}, 2, 2, 1, 1, 0, 0, true},
    {"one_position", "kernel_size: 4", {2, 2, 4, 4}, 4, 4, 1, 1, 0, 0},
    {"many_positions", "kernel_size: 1", {1, 1, 7, 11}, 1, 1, 1, 1, 0, 0},  // more than a run, and not whole
                                                                            // runs
};

Values by_definition(const LocalCase& k, const Values& x, const Values& w, const Values& b) {
  const std::int64_t channels = k.image[1], height = k.image[2], width = k.image[3];
  const std::int64_t rows = (height + 2 * k.pad_h - k.kernel_h) / k.stride_h + 1;
  const std::int64_t columns = (width + 2 * k.pad_w - k.kernel_w) / k.stride_w + 1;
  const std::int64_t places = rows * columns, seen = channels * k.kernel_h * k.kernel_w;
  Values y;
  for (std::int64_t n = 0; n < k.image[0]; ++n)
    for (std::int64_t m = 0; m < 3; ++m)
      for (std::int64_t place = 0; place < places; ++place) {
        double sum = b[static_cast<std::size_t>(k.shared ? m : m * places + place)];
        for (std::int64_t c = 0; c < channels; ++c)
          for (int u = 0; u < k.kernel_h; ++u)
            for (int v = 0; v < k.kernel_w; ++v) {
              const std::int64_t row = place / columns * k.stride_h - k.pad_h + u;
              const std::int64_t column = place % columns * k.stride_w - k.pad_w + v;
              if (row < 0 || row >= height || column < 0 || column >= width) continue;
              const std::int64_t weight = (c * k.kernel_h + u) * k.kernel_w + v;
              sum += w[static_cast<std::size_t>((m * seen + weight) * places + place)] *
                     x[static_cast<std::size_t>(((n * channels + c) * height + row) * width + column)];
            }
        y.push_back(sum);
      }
  return y;
}

class Local : public ::testing::TestWithParam<LocalCase> {};

TEST_P(Local, FollowsItsDefinition) {
  const LocalCase& k = GetParam();
  for (const DType dtype : {DType::f64, DType::f32}) {
    BenchOptions options;
    options.dtype = dtype;
    Bench bench(k.text(), {k.image}, 1, options);
    const Values x = spread_values(k.image.count(), 1);
    const Values w = spread_values(bench.layer().parameters()[0].shape.count(), 2);
    const Values b = spread_values(bench.layer().parameters()[1].shape.count(), 3);
    bench.set_input(0, x);
    bench.set_parameter(0, w);
    bench.set_parameter(1, b);
    bench.forward();
    const Values y = bench.output(), expected = by_definition(k, x, w, b);
    ASSERT_EQ(y.size(), expected.size());
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_NEAR(y[i], expected[i], dtype == DType::f64 ? 1e-13 : 1e-5) << i;
  }
}

TEST_P(Local, GradientsEqualCentralDifferences) {
  check_gradients({GetParam().name, GetParam().text(), {GetParam().image}});
}

INSTANTIATE_TEST_SUITE_P(Layers, Local, ::testing::ValuesIn(kLocalCases),
                         [](const auto& info) { return info.param.name; });

/// With the same weights everywhere it is a Convolution, and their gradients add up to that one's.
TEST(LocalLayer, IsAConvolutionWithEqualWeights) {
  const Shape image{2, 2, 5, 5};
  Bench local("type: 'Local' local_param { num_output: 3 kernel_size: 3 pad: 1 bias_term: false }", {image},
              1),
      convolution(
          "type: 'Convolution' convolution_param { num_output: 3 kernel_size: 3 pad: 1 bias_term: false }",
          {image}, 1);
  const Values x = spread_values(image.count(), 1), w = spread_values(3 * 18, 2), dy = spread_values(150, 3);
  Values everywhere;
  for (const double weight : w) everywhere.insert(everywhere.end(), 25, weight);
  local.set_parameter(0, everywhere);
  convolution.set_parameter(0, w);
  for (Bench* bench : {&local, &convolution}) {
    bench->set_input(0, x);
    bench->forward();
    bench->backward(dy);
  }
  const auto expect_close = [](const Values& a, const Values& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12) << i;
  };
  expect_close(local.output(), convolution.output());
  expect_close(local.input_gradient(), convolution.input_gradient());
  const Values dw = local.parameter_gradient(0);
  Values sums;
  for (std::size_t i = 0; i < w.size(); ++i) {
    sums.push_back(0);
    for (std::size_t place = 0; place < 25; ++place) sums.back() += dw[i * 25 + place];
  }
  expect_close(sums, convolution.parameter_gradient(0));
}

TEST(LocalLayer, ParametersHaveTheBranchesShapes) {
  Bench each("type: 'Local' local_param { num_output: 4 kernel_size: 3 }", {Shape{1, 2, 5, 6}}, 1);
  EXPECT_EQ(each.layer().parameters()[0].shape, (Shape{4, 1, 18, 12}));
  EXPECT_EQ(each.layer().parameters()[1].shape, (Shape{1, 1, 4, 12}));
  Bench shared("type: 'Local' local_param { num_output: 4 kernel_size: 3 shared_bias: true }",
               {Shape{1, 2, 5, 6}}, 1);
  EXPECT_EQ(shared.layer().parameters()[1].shape, (Shape{1, 1, 1, 4}));
}

/// More samples than are computed at once: the windows of one have more than half of the largest number.
TEST(LocalLayer, PartsOfABatchAddUp) {
  const std::string text =
      "type: 'Local' local_param { num_output: 1 kernel_size: 10 weight_filler { value: 0.5 } }";
  const Shape one{1, 1, 309, 309}, three{3, 1, 309, 309};
  BenchOptions options;
  options.dtype = DType::f32;
  Bench whole(text, {three}, 1, options), part(text, {one}, 1, options);
  const Values x = integers(three.count(), 5, 1);
  whole.set_input(0, x);
  whole.forward();
  const auto places = static_cast<std::size_t>(300 * 300), pixels = static_cast<std::size_t>(309 * 309);
  const Values y = whole.output();
  Values sum(static_cast<std::size_t>(whole.layer().parameters()[0].shape.count()), 0);
  whole.backward(Values(3 * places, 1));
  const Values dx = whole.input_gradient(), dw = whole.parameter_gradient(0);
  for (std::size_t n = 0; n < 3; ++n) {
    part.set_input(0, Values(x.begin() + static_cast<std::ptrdiff_t>(n * pixels),
                             x.begin() + static_cast<std::ptrdiff_t>((n + 1) * pixels)));
    part.forward();
    part.zero_parameter_gradients();
    part.backward(Values(places, 1));
    const Values y_part = part.output(), dx_part = part.input_gradient(),
                 dw_part = part.parameter_gradient(0);
    EXPECT_TRUE(
        std::equal(y_part.begin(), y_part.end(), y.begin() + static_cast<std::ptrdiff_t>(n * places)));
    EXPECT_TRUE(
        std::equal(dx_part.begin(), dx_part.end(), dx.begin() + static_cast<std::ptrdiff_t>(n * pixels)));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += dw_part[i];
  }
  EXPECT_EQ(dw, sum);  // sums of small integers
}

TEST(LocalLayer, Refusals) {
  const auto error_of = [](const std::string& settings, const Shape& image = {1, 2, 5, 5}) -> std::string {
    try {
      Bench bench("type: 'Local' local_param { " + settings + " }", {image}, 1);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find("layer \"tested\" (Local): " + part), std::string::npos) << message;
  };
  expect(error_of("kernel_size: 3"), "num_output is missing");
  expect(error_of("num_output: 2"), "no kernel_size is given");
  expect(error_of("num_output: 2 kernel_size: 0"), "kernel_size must be positive");
  expect(error_of("num_output: 2 kernel_size: 1 stride: 0"), "stride must be positive");
  expect(error_of("num_output: 2 kernel_size: 1 pad: 40000"), "pad must be at most 32768");
  expect(error_of("num_output: 2 kernel_h: 1"), "kernel_size needs both its _h and _w forms");
  expect(error_of("num_output: 2 kernel_size: 1 pad: 1 pad_h: 1 pad_w: 1"),
         "give either pad or its _h and _w forms, not both");
  expect(error_of("num_output: 2 kernel_size: 6"),
         "input \"input0\" of shape 1 2 5 5 (50) is smaller than the kernel: spatial axis 0 would have the "
         "output "
         "length 0");
  expect(error_of("num_output: 2 kernel_size: 2", {2, 3}), "input \"input0\" has 2 axes");
  Bench bench("type: 'Local' local_param { num_output: 1 kernel_size: 2 }", {Shape{1, 2, 5, 6}}, 1);
  try {
    bench.reshape({Shape{1, 2, 6, 5}});
    FAIL() << "other images are not refused";
  } catch (const Error& error) {
    expect(error.what(), "input \"input0\" is 1 2 6 5 (60); the weights are for images of 2 x 5 x 6");
  }
}

// ---------------------------------------------------------------- Eltwise of shapes that end with ones

struct EndingCase {
  std::string name, settings;
  std::vector<Shape> shapes;
};
const EndingCase kEndings[] = {
    {"sum", "", {{2, 3}, {2, 3, 1, 1}}},
    {"weighted", "coeff: 2 coeff: -0.5 coeff: 1", {{2, 3, 1, 1}, {2, 3}, {2, 3, 1}}},
    {"product", "operation: PROD", {{2, 3}, {2, 3, 1, 1}, {2, 3}}},
    {"maximum", "operation: MAX", {{2, 3, 1, 1}, {2, 3}}},
};

class EltwiseEndings : public ::testing::TestWithParam<EndingCase> {};

TEST_P(EltwiseEndings, GradientsEqualCentralDifferences) {
  const EndingCase& k = GetParam();
  const GradientCase tested{k.name, "type: 'Eltwise' eltwise_param { " + k.settings + " }", k.shapes};
  check_gradients(tested);
  Bench bench = bench_of(tested);
  EXPECT_EQ(bench.outputs[0]->shape, k.shapes[0]);
  // As with equal shapes.
  GradientCase equal = tested;
  equal.inputs.assign(k.shapes.size(), k.shapes[0]);
  Bench other = bench_of(equal);
  for (Bench* each : {&bench, &other}) {
    set_values_of(*each, tested);
    each->forward();
  }
  EXPECT_EQ(bench.output(), other.output());
}

INSTANTIATE_TEST_SUITE_P(Layers, EltwiseEndings, ::testing::ValuesIn(kEndings),
                         [](const auto& info) { return info.param.name; });

TEST(EltwiseEnding, OnlyOnesMayDiffer) {
  for (const Shape& other : {Shape{2, 3, 2}, Shape{2, 1, 3}, Shape{2}, Shape{6}})
    EXPECT_THROW(Bench("type: 'Eltwise'", {Shape{2, 3}, other}, 1), Error) << other.to_string();
}

// ---------------------------------------------------------------- PriorBox of FaceBoxes

TEST(DenseFaces, BoxesOfThreeSizes) {
  Bench bench(
      "type: 'PriorBox' prior_box_param { min_size: 32 min_size: 64 min_size: 128 clip: false variance: 0.1 "
      "step: "
      "32 dense_faces: true }",
      {Shape{1, 1, 2, 3}, Shape{1, 3, 64, 96}}, 1);
  ASSERT_EQ(bench.outputs[0]->shape, (Shape{1, 2, 2 * 3 * 21 * 4}));
  bench.forward();
  Values expected;
  for (int row = 0; row < 2; ++row)
    for (int column = 0; column < 3; ++column) {
      const auto add = [&](double side, double right, double down) {
        const double x = (column + 0.5) * 32 + right, y = (row + 0.5) * 32 + down, reach = (side - 1) / 2;
        expected.insert(expected.end(),
                        {(x - reach) / 96, (y - reach) / 64, (x + reach) / 96, (y + reach) / 64});
      };
      for (int i = -2; i < 2; ++i)
        for (int j = -2; j < 2; ++j) add(32, 8 * j, 8 * i);
      for (int i = -1; i < 1; ++i)
        for (int j = -1; j < 1; ++j) add(64, 16 * j, 16 * i);
      add(128, 0, 0);
    }
  Values y = bench.output();
  y.resize(expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-14) << i;
  EXPECT_THROW(Bench("type: 'PriorBox' prior_box_param { min_size: 32 max_size: 40 dense_faces: true }",
                     {Shape{1, 1, 2, 3}, Shape{1, 3, 64, 96}}, 1),
               Error);
}

}  // namespace
}  // namespace banyan::testing
