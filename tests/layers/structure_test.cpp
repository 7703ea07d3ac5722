// Layers that move or combine values: shapes and values, changing and empty batches, channels-last inputs.
#include "layers/every_layer.hpp"
#include "layers/gradient_checker.hpp"

namespace banyan::testing {
namespace {

Values counted(std::int64_t count, double first = 0) {
  Values values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<double>(i);
  return values;
}

TEST(Concat, JoinsAlongAnyAxis) {
  Bench rows("type: 'Concat' concat_param { axis: 0 }", {Shape{1, 3}, Shape{2, 3}}, 1);
  rows.set_input(0, counted(3));
  rows.set_input(1, counted(6, 10));
  rows.forward();
  EXPECT_EQ(rows.output(), (Values{0, 1, 2, 10, 11, 12, 13, 14, 15}));
  Bench columns("type: 'Concat' concat_param { concat_dim: 1 }", {Shape{2, 1}, Shape{2, 3}}, 1);
  columns.set_input(0, counted(2));
  columns.set_input(1, counted(6, 10));
  columns.forward();
  EXPECT_EQ(columns.outputs[0]->shape, (Shape{2, 4}));
  EXPECT_EQ(columns.output(), (Values{0, 10, 11, 12, 1, 13, 14, 15}));
}

TEST(Slice, CutsAndMissingGradientsAreZero) {
  Bench bench("type: 'Slice' slice_param { slice_point: 1 }", {Shape{2, 3}}, 2);
  bench.set_input(0, counted(6));
  bench.forward();
  EXPECT_EQ(bench.output(0), (Values{0, 3}));
  EXPECT_EQ(bench.output(1), (Values{1, 2, 4, 5}));
  set_values(bench.context(), bench.outputs[0]->grad, {7, 8});
  bench.outputs[1]->grad = Tensor();
  bench.layer().backward(bench.pass, bench.outputs, {true}, bench.inputs);
  EXPECT_EQ(bench.input_gradient(), (Values{7, 0, 0, 8, 0, 0}));
}

TEST(Split, SharesDataAndSumsTheGradientsThatExist) {
  Bench bench("type: 'Split'", {Shape{2}}, 3);
  bench.set_input(0, {1, 2});
  bench.forward();
  EXPECT_TRUE(bench.outputs[2]->data.same_memory(bench.inputs[0]->data));
  bench.outputs[0]->grad = Tensor();
  set_values(bench.context(), bench.outputs[1]->grad, {1, 2});
  set_values(bench.context(), bench.outputs[2]->grad, {10, 20});
  bench.layer().backward(bench.pass, bench.outputs, {true}, bench.inputs);
  EXPECT_EQ(bench.input_gradient(), (Values{11, 22}));
}

TEST(Reshape, UnderstandsCaffesShapes) {
  const auto shape_of = [](const std::string& settings, const Shape& input) {
    Bench bench("type: 'Reshape' reshape_param { " + settings + " }", {input}, 1);
    return bench.outputs[0]->shape;
  };
  const Shape input{2, 8, 3};
  EXPECT_EQ(shape_of("shape { dim: 0 dim: -1 }", input), (Shape{2, 24}));
  EXPECT_EQ(shape_of("shape { dim: 6 dim: 8 }", input), (Shape{6, 8}));
  EXPECT_EQ(shape_of("axis: 1 num_axes: 1 shape { dim: 2 dim: -1 }", input), (Shape{2, 2, 4, 3}));
  EXPECT_EQ(shape_of("axis: -2 num_axes: 1 shape { dim: 3 }", input), input);  // -2: before the last axis
  EXPECT_EQ(shape_of("axis: 2 num_axes: 0 shape { dim: 1 }", input), (Shape{2, 8, 1, 3}));
  EXPECT_EQ(shape_of("axis: -1 num_axes: 0 shape { dim: 1 }", input), (Shape{2, 8, 3, 1}));
  EXPECT_EQ(shape_of("shape { dim: 0 dim: -1 dim: 2 }", Shape{0, 8, 3}), (Shape{0, 12, 2}));
  EXPECT_EQ(shape_of("shape { dim: -1 dim: 3 }", Shape{0, 8, 3}), (Shape{0, 3}));
}

TEST(Flatten, JoinsAxes) {
  Bench bench("type: 'Flatten' flatten_param { axis: 1 end_axis: 2 }", {Shape{2, 3, 4, 5}}, 1);
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{2, 12, 5}));
  EXPECT_TRUE(bench.outputs[0]->data.same_memory(bench.inputs[0]->data));
}

TEST(Eltwise, MaximumBreaksTiesAsCaffe) {
  Bench bench("type: 'Eltwise' eltwise_param { operation: MAX }", {Shape{2}, Shape{2}, Shape{2}}, 1);
  for (std::size_t i = 0; i < 3; ++i) bench.set_input(i, {1, i == 2 ? 5.0 : 1.0});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{1, 5}));
  bench.backward({3, 4});
  EXPECT_EQ(bench.input_gradient(0), (Values{0, 0}));
  EXPECT_EQ(bench.input_gradient(1), (Values{3, 0}));  // the later one of the first pair
  EXPECT_EQ(bench.input_gradient(2), (Values{0, 4}));  // the third one only where it is larger
}

TEST(Eltwise, StochasticSumKeepsEachInputWithItsProbability) {
  const std::string text =
      "type: 'Eltwise' eltwise_param { operation: STOCHASTIC_SUM coeff: [1, 0.7, 0.2, 0] }";
  const std::vector<Shape> shapes(4, Shape{2, 3});
  Bench bench(text, shapes, 1);
  bench.set_input(0, Values(6, 1));
  bench.set_input(1, Values(6, 10));
  bench.set_input(2, Values(6, 100));
  bench.set_input(3, Values(6, NAN));  // left out, not multiplied by 0
  const int passes = 400;
  double kept[2] = {};
  for (bench.pass.draw = 0; bench.pass.draw < passes; ++bench.pass.draw) {
    bench.pass.samples = {bench.pass.draw % 7, 3};  // the same for all samples and devices
    bench.forward();
    const Values y = bench.output();
    const double first = y[0], second = std::fmod(first - 1, 100) / 10, third = std::floor(first / 100);
    ASSERT_TRUE((second == 0 || second == 1) && (third == 0 || third == 1)) << first;
    EXPECT_EQ(y, Values(6, first));
    bench.backward(Values{1, 2, 3, 4, 5, 6});
    for (std::size_t i = 0; i < 4; ++i) {
      const double factor = i == 0 ? 1 : i == 1 ? second : i == 2 ? third : 0;
      EXPECT_EQ(bench.input_gradient(i),
                (Values{factor, 2 * factor, 3 * factor, 4 * factor, 5 * factor, 6 * factor}));
    }
    kept[0] += second;
    kept[1] += third;
  }
  // 5 standard errors of sqrt(p (1 - p) / 400)
  EXPECT_NEAR(kept[0] / passes, 0.7, 0.115);
  EXPECT_NEAR(kept[1] / passes, 0.2, 0.1);

  BenchOptions tests;
  tests.phase = Phase::test;
  Bench expected(text, shapes, 1, tests);
  for (std::size_t i = 0; i < 4; ++i) expected.set_input(i, Values(6, i + 1.0));
  expected.forward();
  for (const double value : expected.output())
    EXPECT_NEAR(value, 1 + 0.7 * 2 + 0.2 * 3, 1e-6);  // coeff is f32
}

TEST(Eltwise, StableProductGradientSurvivesZeros) {
  Bench bench("type: 'Eltwise' eltwise_param { operation: PROD }", {Shape{1}, Shape{1}, Shape{1}}, 1);
  bench.set_input(0, {0});
  bench.set_input(1, {2});
  bench.set_input(2, {3});
  bench.forward();
  bench.backward(Values{1});
  EXPECT_EQ(bench.input_gradient(0), Values{6});
  EXPECT_EQ(bench.input_gradient(1), Values{0});
}

TEST(Scale, CoversTheAxesAskedFor) {
  Bench one("type: 'Scale' scale_param { bias_term: true bias_filler { value: 10 } }", {Shape{1, 2, 2}}, 1);
  EXPECT_EQ(one.parameter(0), (Values{1, 1}));  // the filler defaults to 1
  one.set_parameter(0, {2, 3});
  one.set_input(0, {1, 2, 3, 4});
  one.forward();
  EXPECT_EQ(one.output(), (Values{12, 14, 19, 22}));
  Bench last("type: 'Scale' scale_param { axis: -1 }", {Shape{2, 2}, Shape{2}}, 1);
  last.set_input(0, {1, 2, 3, 4});
  last.set_input(1, {10, 100});
  last.forward();
  EXPECT_EQ(last.output(), (Values{10, 200, 30, 400}));
  Bench bias("type: 'Bias' bias_param { axis: 0 num_axes: -1 }", {Shape{2, 2}}, 1);
  EXPECT_EQ(bias.layer().parameters()[0].shape, (Shape{2, 2}));
}

TEST(Dropout, DropsTheAskedPartAndScalesTheRest) {
  Bench bench("type: 'Dropout' dropout_param { dropout_ratio: 0.25 }", {Shape{40, 250}}, 1);
  bench.set_input(0, Values(10000, 3));
  bench.forward();
  const Values y = bench.output();
  std::ptrdiff_t dropped = std::count(y.begin(), y.end(), 0.0);
  EXPECT_NEAR(static_cast<double>(dropped), 2500, 200);  // 4.6 standard deviations
  EXPECT_EQ(std::count(y.begin(), y.end(), 4.0) + dropped, 10000);
  bench.pass.draw = 1;
  bench.forward();
  EXPECT_NE(bench.output(), y);
  BenchOptions options;
  options.phase = Phase::test;
  Bench test("type: 'Dropout' dropout_param { dropout_ratio: 0.25 }", {Shape{40, 250}}, 1, options);
  test.set_input(0, Values(10000, 3));
  test.forward();
  EXPECT_EQ(test.output(), Values(10000, 3));
}

TEST(Dropout, ScalesTestsIfNotTraining) {
  const std::string text = "type: 'Dropout' dropout_param { dropout_ratio: 0.25 scale_train: false }";
  Bench train(text, {Shape{40, 25}}, 1);
  train.set_input(0, Values(1000, 4));
  train.forward();
  const Values y = train.output();
  EXPECT_EQ(std::count(y.begin(), y.end(), 0) + std::count(y.begin(), y.end(), 4), 1000);
  train.backward(Values(1000, 1));
  Values dx = train.input_gradient();
  for (double& value : dx) value *= 4;
  EXPECT_EQ(dx, y);
  BenchOptions options;
  options.phase = Phase::test;
  Bench test(text, {Shape{40, 25}}, 1, options);
  test.set_input(0, Values(1000, 4));
  test.forward();
  EXPECT_EQ(test.output(), Values(1000, 3));
}

TEST(Dropout, MaskBelongsToTheGlobalSample) {
  Bench bench("type: 'Dropout'", {Shape{4, 30}}, 1);
  bench.set_input(0, Values(120, 1));
  bench.forward();
  const Values whole = bench.output();
  Bench share("type: 'Dropout'", {Shape{2, 30}}, 1);
  share.pass.samples = {1, 2};  // the second of two devices
  share.set_input(0, Values(60, 1));
  share.forward();
  Values expected(whole.begin() + 30, whole.begin() + 60);
  expected.insert(expected.end(), whole.begin() + 90, whole.end());
  EXPECT_EQ(share.output(), expected);
}

TEST(SpatialDropout, DropsWholeChannelsAndScalesTheRest) {
  for (const char* settings :
       {"dropout_param { dropout_ratio: 0.25 }", "spatial_dropout_param { dropout_ratio: 0.25 }"}) {
    const std::string text = cat("type: 'SpatialDropout' ", settings);
    Bench bench(text, {Shape{40, 25, 2, 3}}, 1);
    bench.set_input(0, Values(6000, 3));
    bench.forward();
    const Values y = bench.output();
    int dropped = 0;
    for (std::size_t plane = 0; plane < 1000; ++plane) {
      EXPECT_TRUE(y[6 * plane] == 0 || y[6 * plane] == 4) << y[6 * plane];
      EXPECT_EQ(std::count(&y[6 * plane], &y[6 * plane] + 6, y[6 * plane]), 6) << plane;
      dropped += y[6 * plane] == 0 ? 1 : 0;
    }
    EXPECT_NEAR(dropped, 250, 63);  // 4.6 standard deviations
    bench.backward(Values(6000, 3));
    EXPECT_EQ(bench.input_gradient(), y);
    bench.pass.draw = 1;
    bench.forward();
    EXPECT_NE(bench.output(), y);
    BenchOptions options;
    options.phase = Phase::test;
    Bench test(text, {Shape{40, 25}}, 1, options);
    test.set_input(0, Values(1000, 3));
    test.forward();
    EXPECT_EQ(test.output(), Values(1000, 3));
  }
}

TEST(SpatialDropout, DropsTheChannelsWhoseElementsDropoutDrops) {
  const Values ones(4 * 30 * 2, 1);
  Bench spatial("type: 'SpatialDropout'", {Shape{4, 30, 2}}, 1), plain("type: 'Dropout'", {Shape{4, 30}}, 1);
  spatial.set_input(0, ones);
  spatial.forward();
  plain.set_input(0, Values(120, 1));
  plain.forward();
  const Values of_channels = plain.output(), y = spatial.output();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], of_channels[i / 2]) << i;
  BenchOptions options;
  options.input_layout = Layout::channels_last;
  options.channels_last = true;
  Bench last("type: 'SpatialDropout'", {Shape{4, 30, 1, 2}}, 1, options);
  last.set_input(0, ones);
  last.forward();
  EXPECT_EQ(last.output(), y) << "in the other layout";
  Bench share("type: 'SpatialDropout'", {Shape{2, 30}}, 1);
  share.pass.samples = {1, 2};  // the second of two devices
  share.set_input(0, Values(60, 1));
  share.forward();
  Values expected(of_channels.begin() + 30, of_channels.begin() + 60);
  expected.insert(expected.end(), of_channels.begin() + 90, of_channels.end());
  EXPECT_EQ(share.output(), expected);
}

TEST(Insanity, DividesNegativeValuesByWhatItDraws) {
  const std::string text = "type: 'Insanity' insanity_param { lb: 2 ub: 8 }";
  Bench bench(text, {Shape{40, 250}}, 1);
  Values x(10000, -1);
  x[0] = 3;
  x[1] = 0;
  bench.set_input(0, x);
  bench.forward();
  const Values y = bench.output();
  EXPECT_EQ(y[0], 3);
  EXPECT_EQ(y[1], 0);
  double sum = 0;
  for (std::size_t i = 2; i < y.size(); ++i) {
    EXPECT_GE(y[i], -1.0 / 2);
    EXPECT_LE(y[i], -1.0 / 8);
    sum -= 1 / y[i];
  }
  EXPECT_NEAR(sum / 9998, 5, 0.08);  // 4.6 of sqrt(36 / 12 / 9998)
  bench.backward(Values(10000, 2));
  const Values dx = bench.input_gradient();
  EXPECT_EQ(dx[0], 2);
  EXPECT_TRUE(dx[1] >= 2.0 / 8 && dx[1] <= 2.0 / 2) << dx[1];
  for (std::size_t i = 2; i < dx.size(); ++i) EXPECT_EQ(dx[i], -2 * y[i]) << i;
  bench.forward();
  EXPECT_EQ(bench.output(), y) << "the same pass";
  bench.pass.draw = 1;
  bench.forward();
  EXPECT_NE(bench.output(), y);
}

TEST(Insanity, HasTheMeanSlopeInTests) {
  const double slope = std::log(8.0 / 2) / (8 - 2);
  for (const bool in_place : {false, true}) {
    BenchOptions options;
    options.phase = Phase::test;
    options.in_place = in_place;
    Bench bench("type: 'Insanity' insanity_param { lb: 2 ub: 8 }", {Shape{1, 3}}, 1, options);
    bench.set_input(0, {3, 0, -2});
    bench.forward();
    expect_near(bench.output(), {3, 0, -2 * slope}, 1e-15);
    bench.backward(Values{5, 5, 5});
    expect_near(bench.input_gradient(), {5, 5 * slope, 5 * slope}, 1e-15);
  }
}

TEST(Insanity, DrawsForTheGlobalSampleInBothLayouts) {
  const Shape whole{4, 6, 5, 3}, half{2, 6, 5, 3};
  Bench bench("type: 'Insanity'", {whole}, 1);
  bench.set_input(0, Values(360, -1));
  bench.forward();
  const Values all = bench.output();
  for (const std::int64_t device : {0, 1}) {
    BenchOptions options;
    options.channels_last = device == 1;
    if (device == 1) options.input_layout = Layout::channels_last;
    Bench share("type: 'Insanity'", {half}, 1, options);
    share.pass.samples = {device, 2};
    share.set_input(0, Values(180, -1));
    share.forward();
    const Values found = share.output();
    for (std::size_t i = 0; i < 180; ++i)
      EXPECT_EQ(found[i], all[(i / 90 * 2 + static_cast<std::size_t>(device)) * 90 + i % 90]) << i;
  }
}

TEST(GuidedDropout, KeepsTheChannelsAboveTheThreshold) {
  for (const Phase phase : {Phase::train, Phase::test})
    for (const bool in_place : {false, true}) {
      BenchOptions options;
      options.phase = phase;
      options.in_place = in_place;
      Bench bench("type: 'GuidedDropout' guided_dropout_param { guidance_threshold: 0.5 }",
                  {Shape{2, 4, 1, 2}, Shape{2, 4, 1, 1}}, 1, options);
      bench.set_input(0, {1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 1, 1, 1, 1, 1, 1});
      bench.set_input(1, {1, 0.5, 0.75, -2, 0, 0.5, -1, 0});
      bench.forward();
      EXPECT_EQ(bench.output(), (Values{2, 4, 0, 0, 10, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
      bench.backward(Values(16, 3));
      EXPECT_EQ(bench.input_gradient(), (Values{6, 6, 0, 0, 6, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
    }
}

TEST(GuidedDropout, DrawsByTheGuidanceInTraining) {
  const std::string text =
      "type: 'GuidedDropout' guided_dropout_param { type: 'stochastic' sigmoid_scaler: 2 }";
  const std::vector<Shape> shapes{{40, 250}, {40, 250}};
  Values guidance;
  for (int i = 0; i < 10000; ++i) guidance.push_back(i % 2 == 0 ? std::log(3) / 2 : 0);  // 3/4 and 1/2
  Bench bench(text, shapes, 1);
  bench.set_input(0, Values(10000, 1));
  bench.set_input(1, guidance);
  bench.forward();
  const Values y = bench.output();
  double likely = 0, others = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (y[i] == 0) continue;
    EXPECT_NEAR(y[i], 250 / (125 * 0.75 + 125 * 0.5), 1e-12);
    (i % 2 == 0 ? likely : others) += 1;
  }
  EXPECT_NEAR(likely / 5000, 0.75, 0.03);  // 5 of sqrt(0.1875 / 5000)
  EXPECT_NEAR(others / 5000, 0.5, 0.035);
  bench.backward(Values(10000, 2));
  const Values dx = bench.input_gradient();
  for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_EQ(dx[i], 2 * y[i]) << i;
  bench.forward();
  EXPECT_EQ(bench.output(), y) << "the same pass";
  bench.pass.draw = 1;
  bench.forward();
  EXPECT_NE(bench.output(), y);
  for (const bool in_place : {false, true}) {
    BenchOptions options;
    options.phase = Phase::test;
    options.in_place = in_place;
    Bench tests(text, shapes, 1, options);
    tests.set_input(0, guidance);
    tests.set_input(1, guidance);
    tests.forward();
    EXPECT_EQ(tests.output(), guidance);
    tests.backward(y);
    EXPECT_EQ(tests.input_gradient(), y);
  }
}

TEST(GuidedDropout, DrawsForTheGlobalSampleInBothLayouts) {
  const std::string text = "type: 'GuidedDropout' guided_dropout_param { type: 'stochastic' }";
  Bench bench(text, {Shape{4, 6, 5, 3}, Shape{4, 6}}, 1);
  bench.set_input(0, Values(360, 1));
  bench.set_input(1, Values(24, 0.1));
  bench.forward();
  const Values all = bench.output();
  for (std::size_t i = 0; i < 360; ++i) EXPECT_EQ(all[i], all[i / 15 * 15]) << "a channel is kept whole";
  for (const std::int64_t device : {0, 1}) {
    BenchOptions options;
    options.channels_last = device == 1;
    if (device == 1) options.input_layout = Layout::channels_last;
    Bench share(text, {Shape{2, 6, 5, 3}, Shape{2, 6, 1, 1}}, 1, options);
    share.pass.samples = {device, 2};
    share.set_input(0, Values(180, 1));
    share.set_input(1, Values(12, 0.1));
    share.forward();
    const Values found = share.output();
    for (std::size_t i = 0; i < 180; ++i)
      EXPECT_EQ(found[i], all[(i / 90 * 2 + static_cast<std::size_t>(device)) * 90 + i % 90]) << i;
  }
}

TEST(InnerProduct, MultipliesByWeightsOfEitherOrder) {
  Bench plain("type: 'InnerProduct' inner_product_param { num_output: 2 }", {Shape{2, 3}}, 1);
  plain.set_parameter(0, {1, 2, 3, 4, 5, 6});
  plain.set_parameter(1, {100, 200});
  Bench transposed("type: 'InnerProduct' inner_product_param { num_output: 2 transpose: true }",
                   {Shape{2, 3}}, 1);
  EXPECT_EQ(transposed.layer().parameters()[0].shape, (Shape{3, 2}));
  transposed.set_parameter(0, {1, 4, 2, 5, 3, 6});
  transposed.set_parameter(1, {100, 200});
  for (Bench* bench : {&plain, &transposed}) {
    bench->set_input(0, {1, 0, 0, 1, 1, 1});
    bench->forward();
    EXPECT_EQ(bench->output(), (Values{101, 204, 106, 215}));
  }
}

TEST(Lrn, FollowsItsFormulas) {
  const Shape shape{1, 3, 2, 2};
  const Values x = spread_values(12, 1, 2);
  Bench across("type: 'LRN' lrn_param { local_size: 3 alpha: 0.6 beta: 0.75 k: 2 }", {shape}, 1);
  across.set_input(0, x);
  across.forward();
  Values expected;
  for (int c = 0; c < 3; ++c)
    for (int i = 0; i < 4; ++i) {
      double sum = 0;
      for (int n = std::max(0, c - 1); n <= std::min(2, c + 1); ++n) sum += std::pow(x[4 * n + i], 2);
      expected.push_back(x[4 * c + i] * std::pow(2 + static_cast<double>(0.6f) / 3 * sum, -0.75));
    }
  expect_near(across.output(), expected, 1e-13);
  Bench within("type: 'LRN' lrn_param { local_size: 3 alpha: 0.6 k: 9 norm_region: WITHIN_CHANNEL }", {shape},
               1);
  within.set_input(0, x);
  within.forward();
  expected.clear();
  for (std::size_t c = 0; c < 3; ++c) {
    double sum = 0;  // each 3 x 3 window covers the whole 2 x 2 image and 5 zeros of padding
    for (std::size_t i = 0; i < 4; ++i) sum += x[4 * c + i] * x[4 * c + i];
    for (std::size_t i = 0; i < 4; ++i)
      expected.push_back(x[4 * c + i] * std::pow(1 + static_cast<double>(0.6f) * sum / 9, -0.75));
  }
  expect_near(within.output(), expected, 1e-13);
}

TEST(Activations, FollowTheirFormulas) {
  const Values x{-800, -1, 0, 0.5, 800};
  const auto run = [&](const std::string& text) {
    Bench bench(text, {Shape{5}}, 1);
    bench.set_input(0, x);
    bench.forward();
    return bench.output();
  };
  EXPECT_EQ(run("type: 'ReLU'"), (Values{0, 0, 0, 0.5, 800}));
  EXPECT_EQ(run("type: 'ReLU' relu_param { negative_slope: 0.5 }"), (Values{-400, -0.5, 0, 0.5, 800}));
  expect_near(run("type: 'Sigmoid'"), {0, 1 / (1 + std::exp(1)), 0.5, 1 / (1 + std::exp(-0.5)), 1}, 1e-15);
  expect_near(run("type: 'TanH'"), {-1, std::tanh(-1), 0, std::tanh(0.5), 1}, 1e-15);
  expect_near(run("type: 'ELU'"), {-1, std::exp(-1) - 1, 0, 0.5, 800}, 1e-15);
  expect_near(run("type: 'Mish'"),
              {0, -std::tanh(std::log1p(std::exp(-1))), 0, 0.5 * std::tanh(std::log1p(std::exp(0.5))), 800},
              1e-15);
  // Numbers in files are floats.
  expect_near(run("type: 'ELU' elu_param { alpha: 0.5 lambda: 2 }"), {-1, std::exp(-1) - 1, 0, 1, 1600},
              1e-15);
}

/// A layer that compares scores with labels (those that have no inputs of their own in these tests) says so.
TEST(EveryLayer, SaysWhichInputHoldsLabels) {
  for (const AnyBatch& tested : every_layer()) {
    SCOPED_TRACE(tested.text);
    const std::unique_ptr<Layer> layer = make_layer(layer_from_text(tested.text), {});
    const LayerTraits& traits = layer->traits();
    EXPECT_TRUE(traits.label_input < 0 || !traits.differentiable(traits.label_input));
    const bool with_labels = traits.differentiable_inputs >= 0 && traits.arity.min_inputs == 2 &&
                             layer_info(layer->type()).inputs.empty();
    EXPECT_TRUE(!with_labels || traits.label_input == 1);
  }
}

TEST(EveryLayer, TakesAnyBatchSizeIncludingNone) {
  for (const AnyBatch& tested : every_layer()) {
    for (const DType dtype : {DType::f64, DType::f32}) {
      SCOPED_TRACE(cat(tested.text, " ", name_of(dtype)));
      BenchOptions options;
      options.dtype = dtype;
      Bench changing(tested.text, tested.shapes(2), tested.outputs, options);
      for (const std::int64_t batch : {0, 3, 0, 1}) {
        changing.reshape(tested.shapes(batch));
        const std::vector<Values> found = run_batch(changing, tested, batch);
        if (tested.text.find("'PriorBox'") != std::string::npos) continue;  // the same for any batch
        if (batch == 0) {
          if (tested.text.find("MarginInnerProduct'") != std::string::npos ||
              tested.text.find("'LabelSpecificAdd'") != std::string::npos ||
              tested.text.find("'LabelSpecificRescale'") != std::string::npos ||
              tested.text.find("'GlobalLSEMargin'") != std::string::npos)
            continue;  // lambda, the margin and the factor are not of samples
          for (const Values& values : found)
            for (const double value : values)
              EXPECT_EQ(value, 0) << "parameter gradients and losses of nothing";
          continue;
        }
        Bench fresh(tested.text, tested.shapes(batch), tested.outputs, options);
        EXPECT_EQ(found, run_batch(fresh, tested, batch)) << "batch " << batch;
      }
    }
  }
}

/// What a new layer has without a test of its own; the layers' own tests have more settings.
TEST(EveryLayer, HasTheGradientsOfItsOutputs) {
  for (const AnyBatch& tested : every_layer()) {
    SCOPED_TRACE(tested.text);
    const auto is = [&](const char* type) {
      return tested.text.find(cat("'", type, "'")) != std::string::npos;
    };
    if (is("CenterLoss") || is("CenterCosLoss")) continue;  // their centers have a rule of their own
    if (is("DoubleMarginContrastiveLoss")) continue;        // divides by a little more than the distance
    if (is("ExpMax")) continue;                             // takes the largest value for a constant
    if (is("GradientScaler") || is("GradientReversal")) continue;  // theirs are not those of the outputs
    if (is("Yolov3") || is("RegionLoss")) continue;                // nor are these: yolo_test.cpp
    if (is("GeneralTripletLoss")) continue;                        // nor is this: face_layers_test.cpp
    if (is("SymmetricRectify")) continue;                          // thresholds below 0 count as 0
    if (is("GlobalLSEMargin")) continue;                           // takes its margin for a constant
    if (is("MMDLoss") || is("JMMDLoss")) continue;                 // the width of their kernels has none
    // Their masks name pixels twice here; with those of a pooling layer they are in
    // spatial_gradient_test.cpp.
    if (is("Upsample") || is("Unpooling")) continue;
    // What losses and BN show besides has no gradient.
    const bool shows = tested.text.find("Loss") != std::string::npos || is("BN");
    Bench bench(tested.text, tested.shapes(2), shows ? 1 : tested.outputs);
    set_inputs(bench, tested, 2, is("MultinomialLogisticLoss") ? &as_shares : &as_they_are);
    bench.pass.update_statistics = false;  // nothing of the pass before
    for (std::size_t p = 0; p < bench.layer().parameters().size(); ++p)
      if (const Parameter& parameter = bench.layer().parameters()[p]; parameter.grad.defined())
        bench.set_parameter(p, spread_values(parameter.shape.count(), static_cast<unsigned>(p + 20)));
    GradientChecker(bench).run();
  }
}

/// Only the update writes what is learned: while a device is in its next pass, others may still read its
/// copy.
TEST(EveryLayer, LeavesItsParametersToTheUpdate) {
  for (const AnyBatch& tested : every_layer()) {
    SCOPED_TRACE(tested.text);
    Bench bench(tested.text, tested.shapes(2), tested.outputs, {});
    const std::vector<Parameter>& parameters = bench.layer().parameters();
    std::vector<Values> before;
    for (std::size_t p = 0; p < parameters.size(); ++p) before.push_back(bench.parameter(p));
    run_batch(bench, tested, 2);
    bench.pass.update_statistics = true;
    bench.forward();
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (parameters[p].kind == ParameterKind::learnable) {
        EXPECT_EQ(bench.parameter(p), before[p]);
      }
    }
  }
}

TEST(EveryLayer, GivesTheSameBitsOnAnAsynchronousStream) {
  for (const AnyBatch& tested : every_layer()) {
    SCOPED_TRACE(tested.text);
    BenchOptions options;
    Bench inline_bench(tested.text, tested.shapes(2), tested.outputs, options);
    options.asynchronous = true;
    Bench bench(tested.text, tested.shapes(2), tested.outputs, options);
    for (const std::int64_t batch : {2, 4}) {
      inline_bench.reshape(tested.shapes(batch));
      bench.reshape(tested.shapes(batch));
      EXPECT_EQ(run_batch(bench, tested, batch), run_batch(inline_bench, tested, batch));
    }
  }
}

/// As the executor runs some samples at a time: the layer is not told.
TEST(EveryLayerBySample, GivesPartsOfTheBatchTheirValues) {
  int layers = 0;
  for (const AnyBatch& tested : every_layer()) {
    SCOPED_TRACE(tested.text);
    BenchOptions options;
    options.phase = Phase::test;
    Bench bench(tested.text, tested.shapes(4), tested.outputs, options);
    if (!bench.layer().traits().by_sample || bench.layer().traits().view != View::none) continue;
    ++layers;
    run_batch(bench, tested, 4);
    bench.forward();
    std::vector<Values> expected;
    for (std::size_t k = 0; k < bench.outputs.size(); ++k) expected.push_back(bench.output(k));
    std::vector<Blob*> blobs(bench.inputs.begin(), bench.inputs.end());
    blobs.insert(blobs.end(), bench.outputs.begin(), bench.outputs.end());
    std::vector<Tensor> whole;
    for (const Blob* blob : blobs) whole.push_back(blob->data);
    for (const Blob* output : bench.outputs) {
      Tensor data = output->data;
      ops::fill(bench.context(), data, -77);
    }
    for (const auto& [first, count] : {std::pair{0, 3}, std::pair{3, 1}}) {
      for (std::size_t k = 0; k < blobs.size(); ++k) {
        Shape part = whole[k].shape();
        const std::int64_t each = part.count() / 4;
        part.set_dim(0, count * part[0] / 4);
        blobs[k]->data = whole[k].slice(first * each, part, whole[k].layout());
        blobs[k]->shape = part;
      }
      bench.layer().forward(bench.pass, bench.inputs, bench.outputs);
    }
    for (std::size_t k = 0; k < blobs.size(); ++k) {
      blobs[k]->data = whole[k];
      blobs[k]->shape = whole[k].shape();
    }
    for (std::size_t k = 0; k < bench.outputs.size(); ++k)
      expect_near(bench.output(k), expected[k], 1e-12);  // products may be summed up in another order
  }
  EXPECT_GT(layers, 20);
}

TEST(EveryFollower, GivesTheSameValuesInEitherLayout) {
  for (const AnyBatch& tested : every_layer()) {
    SCOPED_TRACE(tested.text);
    BenchOptions options;
    const std::vector<Shape> shapes = tested.shapes(3);
    if (shapes[0].axes() != 4) continue;
    Bench contiguous(tested.text, shapes, tested.outputs, options);
    if (contiguous.layer().traits().layout != LayoutRule::follows) continue;
    options.input_layout = Layout::channels_last;
    Bench channels_last(tested.text, shapes, tested.outputs, options);
    for (const Blob* output : channels_last.outputs) {
      if (output->shape.axes() == 4) {
        EXPECT_EQ(output->layout, Layout::channels_last);
      }
    }
    const std::vector<Values> expected = run_batch(contiguous, tested, 3),
                              found = run_batch(channels_last, tested, 3);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      expect_near(found[i], expected[i], 1e-12);  // different orders of summation
  }
}

/// All layers whose traits say so. A few successive roundings of 2^-9, of values below 4.
TEST(EveryLayerOf16Bits, GivesTheValuesOfF32) {
  int layers = 0;
  for (const AnyBatch& tested : every_layer()) {
    SCOPED_TRACE(tested.text);
    BenchOptions wide, narrow;
    wide.dtype = narrow.dtype = DType::f32;
    narrow.storage = DType::bf16;
    Bench full(tested.text, tested.shapes(1), tested.outputs, wide);
    if (full.layer().traits().storage == StorageRule::full) continue;
    ++layers;
    Bench stored(tested.text, tested.shapes(1), tested.outputs, narrow);
    for (const std::int64_t batch : {0, 3}) {
      full.reshape(tested.shapes(batch));
      stored.reshape(tested.shapes(batch));
      const auto expected = run_batch(full, tested, batch, &rounded_to_bf16),
                 found = run_batch(stored, tested, batch, &rounded_to_bf16);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) expect_near(found[i], expected[i], 4 * 4 * 0x1p-9);
    }
  }
  EXPECT_GE(layers, 15);
}

}  // namespace
}  // namespace banyan::testing
