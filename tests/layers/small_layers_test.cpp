// Layers that reduce, repeat, select or normalize: values against plain formulas, gradients, refusals.
#include "layers/small_layer_cases.hpp"

namespace banyan::testing {
namespace {

using namespace small_layer_cases;

class SmallLayerGradient : public ::testing::TestWithParam<GradientCase> {};

TEST_P(SmallLayerGradient, EqualsCentralDifferences) { check_gradients(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Layers, SmallLayerGradient, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

/// The first output for these inputs, and its shape.
struct Result {
  Values values;
  Shape shape;
};
Result run(const std::string& text, const std::vector<Shape>& shapes, const std::vector<Values>& inputs) {
  Bench bench(text, shapes, 1);
  for (std::size_t i = 0; i < inputs.size(); ++i) bench.set_input(i, inputs[i]);
  bench.forward();
  bench.layer().check_results(bench.context());
  return {bench.output(), bench.outputs[0]->shape};
}

TEST(Reduction, ReducesTheAxesFromItsAxisOn) {
  const Shape shape{2, 1, 3};
  const Values x{1, -2, 3, -4, 5, -6};
  EXPECT_EQ(run("type: 'Reduction'", {shape}, {x}).values, Values{-3});
  EXPECT_EQ(run("type: 'Reduction'", {shape}, {x}).shape, Shape());
  EXPECT_EQ(run(reduction("operation: ASUM axis: 1"), {shape}, {x}).values, (Values{6, 15}));
  EXPECT_EQ(run(reduction("operation: SUMSQ axis: -1 coeff: 2"), {shape}, {x}).values, (Values{28, 154}));
  EXPECT_EQ(run(reduction("operation: SUMSQ axis: -1"), {shape}, {x}).shape, (Shape{2, 1}));
  EXPECT_EQ(run(reduction("operation: MEAN axis: 1 coeff: 3"), {shape}, {x}).values, (Values{2, -5}));
}

TEST(Tile, RepeatsAlongItsAxis) {
  const Shape shape{2, 2};
  const Values x{1, 2, 3, 4};
  EXPECT_EQ(run(tile("axis: 0 tiles: 2"), {shape}, {x}).values, (Values{1, 2, 3, 4, 1, 2, 3, 4}));
  EXPECT_EQ(run(tile("tiles: 2"), {shape}, {x}).values, (Values{1, 2, 1, 2, 3, 4, 3, 4}));
  EXPECT_EQ(run(tile("tiles: 2"), {shape}, {x}).shape, (Shape{2, 4}));
}

TEST(ArgMax, FindsTheLargestAndAmongEqualOnesTheLast) {
  const auto with = [](const std::string& settings, const Shape& shape, const Values& x) {
    return run("type: 'ArgMax' argmax_param { " + settings + " }", {shape}, {x});
  };
  const Shape shape{2, 3, 2};
  const Values x{1, 9, 7, 2, 7, 5, -1, -4, -2, -4, -3, -9};
  EXPECT_EQ(with("", shape, x).values, (Values{1, 0}));
  EXPECT_EQ(with("", shape, x).shape, (Shape{2, 1, 1}));
  EXPECT_EQ(with("", Shape{2, 3, 2, 1}, x).shape, (Shape{2, 1, 1, 1}));
  EXPECT_EQ(with("", Shape{2, 6}, x).shape, (Shape{2, 1, 1}));
  EXPECT_EQ(with("top_k: 3", shape, x).values, (Values{1, 4, 2, 0, 2, 4}));
  EXPECT_EQ(with("top_k: 2 out_max_val: true", shape, x).values, (Values{1, 4, 9, 7, 0, 2, -1, -2}));
  EXPECT_EQ(with("top_k: 2 out_max_val: true", shape, x).shape, (Shape{2, 2, 2}));
  EXPECT_EQ(with("axis: 1", shape, x).values, (Values{2, 0, 0, 1}));
  EXPECT_EQ(with("axis: 1", shape, x).shape, (Shape{2, 1, 2}));
  EXPECT_EQ(with("axis: 1 top_k: 2", shape, x).values, (Values{2, 0, 1, 2, 0, 1, 1, 0}));
  EXPECT_EQ(with("axis: -2 top_k: 2 out_max_val: true", shape, x).values,
            (Values{7, 9, 7, 5, -1, -4, -2, -4}));
}

TEST(GroupNorm, NormalizesGroupsOfChannels) {
  const auto norm = [](int groups, double eps) {
    return cat("type: 'GroupNorm' group_norm_param { group_num: ", groups, " eps: ", eps, " }");
  };
  const Values x{1, 3, 5, 7, 10, 20, 30, 80};
  // Means 4 and 35, variances 5 and 725.
  Values expected;
  for (std::size_t i = 0; i < 8; ++i)
    expected.push_back(i < 4 ? (x[i] - 4) / std::sqrt(5.25) : (x[i] - 35) / std::sqrt(725.25));
  expect_near(run(norm(2, 0.25), {Shape{1, 4, 2}}, {x}).values, expected, 1e-14);  // a few roundings
  expect_near(run(norm(1, 0.25), {Shape{2, 2, 2}}, {x}).values, expected, 1e-14);
  expect_near(run(norm(4, 0.25), {Shape{1, 4, 2}}, {x}).values,
              {-1 / std::sqrt(1.25), 1 / std::sqrt(1.25), -1 / std::sqrt(1.25), 1 / std::sqrt(1.25),
               -5 / std::sqrt(25.25), 5 / std::sqrt(25.25), -25 / std::sqrt(625.25), 25 / std::sqrt(625.25)},
              1e-14);
}

TEST(Mvn, NormalizesEachChannelOrSample) {
  const Shape shape{1, 2, 2};
  const Values x{1, 3, 10, 50};
  expect_near(run("type: 'MVN'", {shape}, {x}).values, {-1, 1, -1, 1}, 1e-8);
  expect_near(run(mvn("eps: 3"), {shape}, {x}).values, {-0.25, 0.25, -20 / 23.0, 20 / 23.0}, 1e-15);
  EXPECT_EQ(run(mvn("normalize_variance: false across_channels: true"), {shape}, {x}).values,
            (Values{-15, -13, -6, 34}));
  EXPECT_EQ(run("type: 'MVN'", {Shape{1, 1, 3}}, {{4, 4, 4}}).values, Values(3, 0));  // deviation 0
}

TEST(Mvn, HasAGradientWhereAllValuesAreEqual) {
  Bench bench(mvn("eps: 0.5"), {Shape{1, 1, 2}}, 1);
  bench.set_input(0, {4, 4});
  bench.forward();
  bench.backward({1, 3});
  expect_near(bench.input_gradient(), {-2, 2}, 1e-15);
}

TEST(Embed, LooksUpRows) {
  Bench bench("type: 'Embed' embed_param { num_output: 2 input_dim: 3 }", {Shape{2, 2}}, 1);
  bench.set_parameter(0, {1, 2, 3, 4, 5, 6});
  bench.set_parameter(1, {10, 20});
  bench.set_input(0, {2, 0, 2, 1});
  bench.forward();
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{2, 2, 2}));
  EXPECT_EQ(bench.output(), (Values{15, 26, 11, 22, 15, 26, 13, 24}));
  bench.zero_parameter_gradients();
  bench.backward({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(bench.parameter_gradient(0), (Values{3, 4, 7, 8, 6, 8}));
  EXPECT_EQ(bench.parameter_gradient(1), (Values{16, 20}));
}

TEST(BatchReindex, PicksSamples) {
  Bench bench("type: 'BatchReindex'", {Shape{3, 2}, Shape{4}}, 1);
  bench.set_input(0, {1, 2, 3, 4, 5, 6});
  bench.set_input(1, {2, 0, 2, 2});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{5, 6, 1, 2, 5, 6, 5, 6}));
  bench.backward({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(bench.input_gradient(), (Values{3, 4, 0, 0, 13, 16}));
}

TEST(Indices, OutOfRangeAreNamed) {
  for (const std::string text : {"type: 'Embed' embed_param { num_output: 2 input_dim: 3 bias_term: false }",
                                 "type: 'BatchReindex'"}) {
    for (const double index : {3.0, -1.0, 0.5}) {
      const bool embed = text.find("Embed") != std::string::npos;
      std::vector<Shape> shapes{Shape{2}};
      if (!embed) shapes.insert(shapes.begin(), Shape{3, 2});
      Bench bench(text, shapes, 1);
      if (!embed) bench.set_input(0, Values(6, 1));
      bench.set_input(embed ? 0 : 1, {1, index});
      bench.forward();
      bench.backward(Values(4, 1));
      EXPECT_EQ(bench.output()[2], 0);
      try {
        bench.layer().check_results(bench.context());
        ADD_FAILURE() << text;
      } catch (const Error& error) {
        EXPECT_NE(error.message().find(cat("index ", index, " at place 1")), std::string::npos)
            << error.message();
      }
    }
  }
}

TEST(Spp, JoinsLevelsOfPooling) {
  const Values x = spread_values(kImage.count(), 3);
  for (const std::string pool : {"MAX", "AVE"}) {
    const Result found = run(spp("pyramid_height: 3 pool: " + pool), {kImage}, {x});
    EXPECT_EQ(found.shape, (Shape{2, 2 * 21}));
    // 7 x 8 in 2 x 2 windows of 4 x 4 and in 4 x 4 of 2 x 2: each time one row too many.
    std::vector<Values> levels;
    for (const std::string window : {"global_pooling: true", "kernel_size: 4 stride: 4 pad_h: 1 pad_w: 0",
                                     "kernel_size: 2 stride: 2 pad_h: 1 pad_w: 0"})
      levels.push_back(
          run("type: 'Pooling' pooling_param { pool: " + pool + " " + window + " }", {kImage}, {x}).values);
    Values expected;
    for (std::ptrdiff_t n = 0; n < 2; ++n)
      for (const Values& level : levels) {
        const std::ptrdiff_t count = std::ssize(level) / 2;
        expected.insert(expected.end(), level.begin() + n * count, level.begin() + (n + 1) * count);
      }
    EXPECT_EQ(found.values, expected) << pool;
    EXPECT_EQ(run(spp("pyramid_height: 1 pool: " + pool), {kImage}, {x}).shape, (Shape{2, kImage[1], 1, 1}));
  }
}

TEST(Spp, OfPyramidTypesOverlaps) {
  const Values x = spread_values(kImage.count(), 3);
  struct Case {
    std::string settings;
    std::vector<std::string> windows;
  };
  const std::string once = "global_pooling: true", twice = "kernel_size: 4 stride_h: 3 stride_w: 4",
                    thrice = "kernel_size: 3 stride: 2";
  for (const std::string pool : {"MAX", "AVE"})
    for (const Case& c : {Case{"SPP_NET4", {once, twice, thrice, "kernel_size: 2 stride_h: 1 stride_w: 2"}},
                          Case{"SPP_NET6", {once, twice, thrice, "kernel_size: 2 stride: 1"}},
                          Case{"CUSTOM pyramid_height: 2", {once, twice}}}) {
      const Result found = run(spp("pyramid_type: " + c.settings + " pool: " + pool), {kImage}, {x});
      std::vector<Values> levels;
      for (const std::string& window : c.windows)
        levels.push_back(
            run("type: 'Pooling' pooling_param { pool: " + pool + " " + window + " }", {kImage}, {x}).values);
      Values expected;
      for (std::ptrdiff_t n = 0; n < 2; ++n)
        for (const Values& level : levels) {
          const std::ptrdiff_t count = std::ssize(level) / 2;
          expected.insert(expected.end(), level.begin() + n * count, level.begin() + (n + 1) * count);
        }
      EXPECT_EQ(found.values, expected) << pool << " " << c.settings;
    }
  // 13 x 13, as in AlexNet: levels of 1, 2, 3 and 6 windows a side.
  EXPECT_EQ(run(spp("pyramid_type: SPP_NET6"), {Shape{1, 1, 13, 13}}, {Values(169, 1)}).shape,
            (Shape{1, 50}));
}

TEST(Normalize, MakesUnitVectors) {
  const Shape shape{1, 2, 2};
  const Values x{3, 0, 4, 2};
  const double length = std::sqrt(29);
  expect_near(run("type: 'Normalize'", {shape}, {x}).values, {3 / length, 0, 4 / length, 2 / length}, 1e-10);
  expect_near(run(norm("across_spatial: false scale_filler { value: 20 }"), {shape}, {x}).values,
              {12, 0, 16, 20}, 1e-10);
  Bench bench(norm("across_spatial: false channel_shared: false eps: 2"), {shape}, 1);
  EXPECT_EQ(bench.parameter(0), (Values{1, 1}));
  bench.set_parameter(0, {10, 100});
  bench.set_input(0, x);
  bench.forward();
  expect_near(bench.output(), {30 / std::sqrt(27), 0, 400 / std::sqrt(27), 200 / std::sqrt(6)}, 1e-14);
  EXPECT_TRUE(Bench("type: 'Normalize'", {shape}, 1).layer().parameters().empty());
  const std::string channels = "type: 'Normalize' normalize_param { normalize_type: 'L2' }";
  expect_near(run(channels, {shape}, {{0.003, 0, 0.004, 2}}).values,
              {0.003 / std::sqrt(26e-6), 0, 0.004 / std::sqrt(26e-6), 2 / std::sqrt(4 + 1e-6)}, 1e-12);
  EXPECT_TRUE(Bench(channels, {shape}, 1).layer().parameters().empty());
  EXPECT_EQ(Bench(norm(""), {shape}, 1).layer().parameters()[0].shape, Shape());
}

TEST(Normalize, ShowsTheLengths) {
  const Shape shape{1, 2, 2};
  for (const bool bp : {false, true}) {
    Bench bench(cat("type: 'Normalize' normalize_param { bp_norm: ", bp, " }"), {shape}, 2);
    EXPECT_EQ(bench.outputs[1]->shape, (Shape{1, 1, 2}));
    bench.set_input(0, {3, 0, 4, 2});
    bench.forward();
    expect_near(bench.output(1), {std::sqrt(25 + 1e-6), std::sqrt(4 + 1e-6)}, 1e-14);
    bench.backward({Values(4, 0), {10, 100}});
    const Values of_lengths{30 / std::sqrt(25 + 1e-6), 0, 40 / std::sqrt(25 + 1e-6),
                            200 / std::sqrt(4 + 1e-6)};
    expect_near(bench.input_gradient(), bp ? of_lengths : Values(4, 0), 1e-12);
    if (!bp) continue;
    bench.outputs[0]->grad = Tensor();
    bench.layer().backward(bench.pass, bench.outputs, {true}, bench.inputs);
    expect_near(bench.input_gradient(), of_lengths, 1e-12);
  }
}

/// They take channels-last images as they come, with the same results.
TEST(SmallLayers, KeepChannelsLastImages) {
  const Shape shape{2, 3, 4, 3};
  for (const std::string& text :
       {std::string("type: 'Normalize'"), std::string("type: 'Normalize' normalize_param { }"),
        norm("eps: 0.1"), norm("channel_shared: false"), norm("across_spatial: false"),
        norm("across_spatial: false channel_shared: false"), reduction("operation: SUMSQ"),
        reduction("operation: ASUM axis: 1"), reduction("operation: MEAN axis: 0 coeff: 2"),
        reduction("operation: SUMSQ axis: -3 coeff: 2"), std::string("type: 'MVN'"), mvn("eps: 0.1"),
        mvn("across_channels: true"), mvn("normalize_variance: false")}) {
    SCOPED_TRACE(text);
    std::vector<Values> found[2];
    for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
      BenchOptions options;
      options.input_layout = layout;
      Bench bench(text, {shape}, 1, options);
      EXPECT_EQ(bench.layer().traits().layout, LayoutRule::follows);
      if (bench.outputs[0]->shape.axes() == 4) {
        EXPECT_EQ(bench.outputs[0]->layout, layout);
      }
      bench.set_input(0, spread_values(shape.count(), 1));
      for (std::size_t p = 0; p < bench.layer().parameters().size(); ++p)
        bench.set_parameter(p, spread_values(bench.layer().parameters()[p].shape.count(), 2));
      bench.forward();
      bench.backward(spread_values(bench.outputs[0]->shape.count(), 3));
      std::vector<Values>& results = found[layout == Layout::channels_last ? 1 : 0];
      results = {bench.output(), bench.input_gradient(0)};
      for (std::size_t p = 0; p < bench.layer().parameters().size(); ++p)
        results.push_back(bench.parameter_gradient(p));
    }
    // Sums of at most 72 terms of f64 in another order.
    for (std::size_t i = 0; i < found[0].size(); ++i) expect_near(found[1][i], found[0][i], 1e-13, text);
  }
  EXPECT_EQ(Bench(reduction("axis: 2"), {shape}, 1).layer().traits().layout, LayoutRule::contiguous);
}

TEST(Axpy, ScalesChannelsOfSamplesAndAdds) {
  const Result found = run("type: 'Axpy'", {Shape{2, 1}, Shape{2, 1, 2}, Shape{2, 1, 2}},
                           {{2, 3}, {1, 2, 3, 4}, {10, 20, 30, 40}});
  EXPECT_EQ(found.values, (Values{12, 24, 39, 52}));
}

/// Enough images and channels for blocks of both.
TEST(Axpy, KeepsChannelsLastImages) {
  const Shape factors{3, 70, 1, 1}, image{3, 70, 12, 16};
  const Values gradient = spread_values(image.count(), 4);
  std::vector<Values> found[2];
  for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
    BenchOptions options;
    options.input_layout = layout;
    Bench bench("type: 'Axpy'", {factors, image, image}, 1, options);
    EXPECT_EQ(bench.outputs[0]->layout, layout);
    for (std::size_t i = 0; i < 3; ++i)
      bench.set_input(i, spread_values(bench.inputs[i]->shape.count(), static_cast<unsigned>(i + 1)));
    bench.forward();
    bench.backward(gradient);
    found[layout == Layout::channels_last ? 1 : 0] = {bench.output(), bench.input_gradient(1),
                                                      bench.input_gradient(2), bench.input_gradient(0)};
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(found[1][i], found[0][i]) << i;
  expect_near(found[1][3], found[0][3], 1e-13, "sums of 192 terms of f64 below 1 in another order");
}

TEST(BatchReduction, ReducesTheAxisInParts) {
  const Shape shape{1, 5, 2};
  const Values x{1, 10, 2, 40, 5, 20, 4, 30, 3, 50};
  EXPECT_EQ(run(batch_reduction("reduction_param { axis: 1 }"), {shape}, {x}).values, (Values{15, 150}));
  EXPECT_EQ(run(batch_reduction("reduction_param { axis: 1 }"), {shape}, {x}).shape, (Shape{1, 2}));
  const Result levels =
      run(batch_reduction("level: 1 level: 2 reduction_param { axis: 1 operation: MEAN }"), {shape}, {x});
  EXPECT_EQ(levels.values, (Values{1, 10, 3.5, 35}));
  EXPECT_EQ(levels.shape, (Shape{1, 2, 2}));
  EXPECT_EQ(run(batch_reduction("reduction_param { axis: 1 operation: TOPK k: 2 }"), {shape}, {x}).values,
            (Values{4.5, 45}));
  EXPECT_EQ(run(batch_reduction("reduction_param { axis: 1 operation: TOPK k: 9 }"), {shape}, {x}).values,
            (Values{3, 30}));
}

TEST(BatchReduction, ReducesTheDiagonalOfTwoAxes) {
  Values x(2 * 3 * 3 * 2);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
  const Shape shape{2, 3, 3, 2};
  // Entries (i, i) of the nine pairs: pairs 0, 4 and 8.
  const Result sums = run(batch_reduction("pos: true reduction_param { axis: 1 }"), {shape}, {x});
  EXPECT_EQ(sums.values, (Values{24, 27, 78, 81}));
  EXPECT_EQ(sums.shape, (Shape{2, 2}));
  const Result mean =
      run(batch_reduction("pos: true reduction_param { axis: 1 operation: MEAN coeff: 5 }"), {shape}, {x});
  EXPECT_EQ(mean.values, (Values{8, 9, 26, 27}));
  const Shape square{1, 4, 4};
  const Result level = run(batch_reduction("pos: true level: 2 reduction_param { axis: 1 }"), {square},
                           {{1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 0, 0, 0, 4}});
  EXPECT_EQ(level.values, (Values{10}));
  EXPECT_EQ(level.shape, (Shape{1, 1}));
}

TEST(SmallLayers, RefuseWhatDoesNotFit) {
  const Shape image{2, 4, 6, 6};
  struct Refused {
    std::string text;
    std::vector<Shape> inputs;
    std::string part;
  };
  for (const Refused& tested : std::vector<Refused>{
           {reduction("operation: TOPK"), {image}, "BatchReduction"},
           {reduction("axis: 4"), {image}, "axis"},
           {tile(""), {image}, "tiles"},
           {"type: 'ArgMax' argmax_param { axis: 1 top_k: 5 }", {image}, "top_k 5"},
           {"type: 'ArgMax' argmax_param { top_k: 0 }", {image}, "top_k"},
           {"type: 'MVN'", {Shape{3}}, "axis 1"},
           {"type: 'GroupNorm'", {Shape{3}}, "axis 1"},
           {"type: 'GroupNorm'",
            {Shape{1, 48, 2}},
            "group_num 32 does not divide the 48 channels of \"input0\""},
           {"type: 'GroupNorm' group_norm_param { group_num: 0 }", {image}, "group_num must be at least 1"},
           {"type: 'GroupNorm' group_norm_param { group_num: 1 eps: 0 }", {image}, "eps must be positive"},
           {"type: 'Embed' embed_param { input_dim: 3 }", {Shape{3}}, "num_output"},
           {"type: 'Embed' embed_param { num_output: 3 }", {Shape{3}}, "input_dim"},
           {"type: 'BatchReindex'", {image, Shape{2, 2}}, "indices"},
           {spp(""), {image}, "pyramid_height"},
           {spp("pyramid_height: 2"), {Shape{2, 4}}, "4 (N, C, H, W)"},
           {spp("pyramid_height: 3"), {Shape{1, 1, 5, 5}}, "does not fit"},
           {spp("pyramid_height: 3 pool: STOCHASTIC"), {image}, "STOCHASTIC"},
           {spp("pyramid_type: SPP_NET6"), {Shape{1, 1, 5, 8}}, "6 x 6 windows, does not fit"},
           {spp("pyramid_type: SPP_NET4 pyramid_height: 4"), {image}, "pyramid_type: CUSTOM"},
           {"type: 'Normalize'", {Shape{3}}, "axis 1"},
           {"type: 'Normalize' normalize_param { normalize_type: 'L1' }", {image}, "normalize_type \"L1\""},
           {"type: 'Normalize' normalize_param { fix_gradient: true }", {image}, "fix_gradient"},
           {"type: 'Axpy'", {Shape{2, 3}, image, image}, "one factor"},
           {"type: 'Axpy'", {Shape{2, 4}, image, Shape{2, 4, 6, 5}}, "one shape"},
           {batch_reduction("level: 2 reduction_param { axis: 1 } level: 1"), {image}, "cover 5"},
           {batch_reduction("level: 0 reduction_param { axis: 1 }"), {image}, "positive"},
           {batch_reduction("pos: true reduction_param { axis: 1 }"), {image}, "as long as axis 1"},
           {batch_reduction("pos: true reduction_param { axis: 3 }"), {image}, "as long as axis 3"},
           {batch_reduction("pos: true level: 1 level: 2 reduction_param { axis: 2 }"), {image}, "one level"},
           {batch_reduction("pos: true reduction_param { axis: 2 operation: TOPK }"), {image}, "TOPK"},
           {batch_reduction("reduction_param { axis: 1 operation: ASUM }"), {image}, "SUM, MEAN"},
           {batch_reduction("reduction_param { axis: 1 operation: TOPK k: 0 }"), {image}, "k must"}}) {
    try {
      Bench bench(tested.text, tested.inputs, 1);
      ADD_FAILURE() << "accepted: " << tested.text;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(tested.part), std::string::npos) << error.message();
    }
  }
}

TEST(SmallLayers, RefuseSeveralDevicesWhereTheyMixSamples) {
  BenchOptions options;
  options.devices = 2;
  for (const std::string& text : {std::string("type: 'Gather'"), std::string("type: 'Scatter'"),
                                  batch_reduction("reduction_param { axis: 0 }")})
    EXPECT_THROW(Bench(text, {Shape{2, 3}}, 1, options), Error) << text;
  options.phase = Phase::test;  // test batches are not divided
  Bench bench("type: 'Gather'", {Shape{2, 3}}, 1, options);
}

}  // namespace
}  // namespace banyan::testing
