// Layers and dialects of branches: values against closed forms and plain loops, gradients, refusals.
#include <limits>
#include <numeric>

#include "layers/branch_cases.hpp"

namespace banyan::testing {
namespace {

using namespace branch_cases;

class BranchGradient : public ::testing::TestWithParam<GradientCase> {};

TEST_P(BranchGradient, EqualsCentralDifferences) { check_gradients(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Layers, BranchGradient, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

Values run(const std::string& text, const std::vector<Shape>& shapes, const std::vector<Values>& inputs,
           const BenchOptions& options = {}) {
  Bench bench(text, shapes, 1, options);
  for (std::size_t i = 0; i < inputs.size(); ++i) bench.set_input(i, inputs[i]);
  bench.forward();
  bench.layer().check_results(bench.context());
  return bench.output();
}

template <class Body>
std::string refusal_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.message();
  }
  return "accepted";
}

TEST(BnOfSegNet, NormalizesWithTheBatchInTestsToo) {
  const Values x{1, 2, 3, 4};  // mean 2.5, variance 1.25
  for (const Phase phase : {Phase::train, Phase::test}) {
    BenchOptions options;
    options.phase = phase;
    const double inv_std = 1 / std::sqrt(1.25 + 1e-9);
    expect_near(run("type: 'BN' bn_param { scale_filler { value: 2 } shift_filler { value: 0.5 } }",
                    {Shape{4, 1}}, {x}, options),
                {0.5 - 3 * inv_std, 0.5 - inv_std, 0.5 + inv_std, 0.5 + 3 * inv_std}, 1e-14);
    EXPECT_EQ(run("type: 'BN' bn_param { bn_mode: INFERENCE scale_filler { value: 2 } shift_filler { value: "
                  "0.5 } }",
                  {Shape{4, 1}}, {x}, options),
              (Values{2.5, 4.5, 6.5, 8.5}));
  }
}

TEST(BnOfSegNet, HasScaleAndShiftOnly) {
  Bench bench("type: 'BN' bn_param { scale_filler { value: 1 } }", {kImages}, 1);
  ASSERT_EQ(bench.layer().parameters().size(), 2u);
  EXPECT_EQ(bench.layer().parameters()[0].shape, (Shape{1, 3, 1, 1}));
  io::LayerWeights file;
  file.blobs.resize(2);
  EXPECT_EQ(bench.layer().match_blobs(file),
            (std::vector<const io::BlobData*>{&file.blobs[0], &file.blobs[1]}));
  file.blobs.resize(4);
  EXPECT_THROW(bench.layer().match_blobs(file), Error);
}

TEST(BnOfCaffeWindows, KeepsStatisticsWithItsOwnNames) {
  Bench bench("type: 'BN' bn_param { scale_filler { value: 1 } decay: 0.75 var_eps: 0.5 }", {Shape{2, 1}}, 1);
  bench.set_input(0, {1, 3});  // mean 2, variance 1, or 2 unbiased
  bench.forward();
  expect_near(bench.output(), {-1 / std::sqrt(1.5), 1 / std::sqrt(1.5)}, 1e-15);
  // Its decay is the weight of the new batch.
  expect_near(bench.parameter(2), {0.75 * 2}, 1e-15);
  expect_near(bench.parameter(3), {0.75 * 2}, 1e-15);
}

TEST(BnDialects, DoNotMix) {
  const std::vector<Shape> image{kImages};
  const auto bn = [&](const std::string& settings) {
    return refusal("type: 'BN' bn_param { " + settings + " }", {kImages});
  };
  EXPECT_NE(bn("slope_filler { } scale_filler { }").find("give one"), std::string::npos);
  EXPECT_NE(bn("decay: 0.5 momentum: 0.5").find("take the place of eps and 1 - momentum"), std::string::npos);
  EXPECT_NE(bn("decay: 1.5").find("decay must be from 0 to 1; found 1.5"), std::string::npos);
  EXPECT_NE(bn("scale_filler { } momentum: 0.9").find("momentum needs stored statistics"), std::string::npos);
  EXPECT_NE(bn("decay: 0.5 bn_mode: LEARN").find("bn_mode"), std::string::npos);
  EXPECT_NE(bn("frozen: true scale_filler { }").find("frozen needs stored statistics"), std::string::npos);
}

TEST(Flip, ReversesRowsAndColumns) {
  const Values x{0, 1, 2, 3, 4, 5};
  const Shape image{1, 1, 2, 3};
  EXPECT_EQ(run("type: 'Flip'", {image}, {x}), (Values{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(run("type: 'Flip' flip_param { flip_width: false flip_height: true }", {image}, {x}),
            (Values{3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(run("type: 'Flip' flip_param { flip_width: false }", {image}, {x}), x);
}

TEST(Reverse, ReversesTheOrderAlongAxes) {
  const Values x{0, 1, 2, 3, 4, 5};
  const Shape rows{3, 2};
  const auto reversed = [&](const std::string& settings) {
    return run("type: 'Reverse' " + settings, {rows}, {x});
  };
  EXPECT_EQ(reversed(""), (Values{4, 5, 2, 3, 0, 1}));
  EXPECT_EQ(reversed("reverse_param { axis: 1 }"), (Values{1, 0, 3, 2, 5, 4}));
  EXPECT_EQ(reversed("reverse_param { axis: -1 }"), (Values{1, 0, 3, 2, 5, 4}));
  EXPECT_EQ(reversed("reverse_param { axis: 0 axis: 1 }"), (Values{5, 4, 3, 2, 1, 0}));
  const std::string start = "type: 'Reverse' reverse_param { axis: ";
  EXPECT_NE(refusal(start + "2 }", {rows}).find("axis 2 does not exist; input"), std::string::npos);
  EXPECT_NE(refusal(start + "-3 }", {rows}).find("has 2 axes"), std::string::npos);
  EXPECT_NE(refusal(start + "1 axis: -1 }", {rows}).find("axis 1 is named twice"), std::string::npos);
}

TEST(GradientScaler, ReversesTheGradientMoreAndMore) {
  const Values x = spread_values(6, 1), dy = spread_values(6, 2);
  const auto expect_factor = [&](Bench& bench, double factor) {
    bench.set_input(0, x);
    bench.forward();
    EXPECT_EQ(bench.output(), x);
    EXPECT_TRUE(bench.outputs[0]->data.same_memory(bench.inputs[0]->data));
    bench.backward(dy);
    Values expected = dy;
    for (double& value : expected) value *= factor;
    expect_near(bench.input_gradient(), expected, 1e-14);
  };
  const std::string type = "type: 'GradientScaler' ";
  Bench bench(type + "gradient_scaler_param { lower_bound: 0.25 upper_bound: 2 alpha: 3 max_iter: 40 }",
              {Shape{2, 3}}, 1);
  bench.pass.passes = 2;
  for (const int iteration : {0, 1, 10, 39, 40, 1000})
    for (const int sub : {0, 1}) {
      bench.pass.draw = 2 * iteration + sub;
      const double progress = std::min(1.0, iteration / 40.0);
      expect_factor(bench, -(0.25 + 1.75 * (2 / (1 + std::exp(-3 * progress)) - 1)));
    }
  Bench plain(type, {Shape{2, 3}}, 1);
  expect_factor(plain, 0);
  plain.pass.draw = 1;
  expect_factor(plain, -(2 / (1 + std::exp(-10)) - 1));
  Bench reversal("type: 'GradientReversal'", {Shape{2, 3}}, 1);
  for (reversal.pass.draw = 0; reversal.pass.draw < 3; ++reversal.pass.draw) expect_factor(reversal, -1);
}

TEST(GradientScaler, RefusesWhatHasNoMeaning) {
  const auto refused = [](const std::string& settings) {
    return refusal("type: 'GradientScaler' gradient_scaler_param { " + settings + " }", {Shape{2, 3}});
  };
  EXPECT_NE(refused("lower_bound: 2").find("lower_bound not above upper_bound; found 2 and 1"),
            std::string::npos);
  EXPECT_NE(refused("upper_bound: inf").find("must be finite"), std::string::npos);
  EXPECT_NE(refused("alpha: inf").find("alpha must be finite"), std::string::npos);
  EXPECT_NE(refused("max_iter: 0").find("max_iter must be at least 1; found 0"), std::string::npos);
}

TEST(Unpooling, PutsPixelsIntoTheMiddleOfTheirWindows) {
  Bench bench(fixed("kernel_size: 3 stride: 2 pad: 1"), {Shape{1, 1, 2, 2}}, 1);
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{1, 1, 3, 3}));  // 2 * 1 + 3 - 2
  EXPECT_EQ(run(fixed("kernel_size: 3 stride: 2 pad: 1"), {Shape{1, 1, 2, 2}}, {{1, 2, 3, 4}}),
            (Values{1, 0, 2, 0, 0, 0, 3, 0, 4}));
  EXPECT_EQ(run(fixed("kernel_size: 2 stride: 1 unpool_h: 1 unpool_w: 4"), {Shape{1, 1, 1, 2}}, {{1, 2}}),
            (Values{1, 2, 0, 0}));
}

TEST(Unpooling, PutsPixelsWhereTheMaskSays) {
  const std::string text = "type: 'Unpooling' unpooling_param { kernel_size: 2 stride: 2 ";
  const std::vector<Shape> shapes{Shape{1, 1, 1, 2}, Shape{1, 1, 1, 2}};
  EXPECT_EQ(run(text + "}", shapes, {{5, 6}, {1, 6}}), (Values{0, 5, 0, 0, 0, 0, 6, 0}));
  EXPECT_EQ(run(text + "unpool_h: 1 unpool_w: 3 }", shapes, {{5, 6}, {0, 2}}), (Values{5, 0, 6}));
  EXPECT_THROW(run(text + "}", shapes, {{5, 6}, {1, 8}}), Error);
  EXPECT_NE(refusal(text + "}", {shapes[0]}).find("needs a second input"), std::string::npos);
  EXPECT_NE(refusal(text + "unpool: STOCHASTIC }", shapes).find("known methods: MAX, AVE, TILE, FIXED"),
            std::string::npos);
  EXPECT_NE(refusal(fixed("kernel_size: 4 pad: 3"), {shapes[0]}).find("would have"), std::string::npos);
  EXPECT_NE(refusal(fixed("kernel_h: 2 kernel_w: 0"), {shapes[0]}).find("kernel_size must be given"),
            std::string::npos);
  EXPECT_NE(refusal(text + "unpool_size: 0 }", shapes).find("unpool_size must be positive"),
            std::string::npos);
  EXPECT_NE(
      refusal(fixed("kernel_size: 3 pad: 2 unpool_size: 9"), {shapes[0]}).find("middles of the windows"),
      std::string::npos);
}

TEST(Unpooling, DividesPixelsAmongTheirWindowsOrRepeatsThem) {
  const std::string text = "type: 'Unpooling' unpooling_param { kernel_size: 2 stride: 2 unpool: ";
  const std::vector<Shape> shapes{Shape{1, 1, 1, 2}};
  EXPECT_EQ(run(text + "AVE }", shapes, {{4, 8}}), (Values{1, 1, 2, 2, 1, 1, 2, 2}));
  EXPECT_EQ(run(text + "TILE }", shapes, {{4, 8}}), (Values{4, 4, 8, 8, 4, 4, 8, 8}));
  // The second window has one column in the output; beyond both windows are zeros.
  EXPECT_EQ(run(text + "AVE unpool_h: 2 unpool_w: 3 }", shapes, {{4, 8}}), (Values{1, 1, 4, 1, 1, 4}));
  EXPECT_EQ(run(text + "TILE unpool_h: 3 unpool_w: 5 }", shapes, {{4, 8}}),
            (Values{4, 4, 8, 8, 0, 4, 4, 8, 8, 0, 0, 0, 0, 0, 0}));
  const std::string overlapping = "type: 'Unpooling' unpooling_param { kernel_h: 1 kernel_w: 3 unpool: ";
  EXPECT_EQ(run(overlapping + "AVE }", shapes, {{3, 6}}), (Values{1, 3, 3, 2}));
  EXPECT_EQ(run(overlapping + "TILE }", shapes, {{3, 6}}), (Values{3, 9, 9, 6}));
  EXPECT_NE(refusal(text + "AVE unpool_size: 2 }", shapes).find("last window would begin at 2"),
            std::string::npos);
  EXPECT_NE(refusal(text + "AVE pad: 1 }", shapes).find("takes no pad"), std::string::npos);
  EXPECT_NE(refusal(text + "TILE }", {shapes[0], shapes[0]}).find("TILE takes one input; found 2"),
            std::string::npos);
}

TEST(Upsample, RepeatsPixelsWithoutAMask) {
  EXPECT_EQ(run("type: 'Upsample' upsample_param { scale: 2 }", {Shape{1, 1, 1, 2}}, {{3, 4}}),
            (Values{3, 3, 4, 4, 3, 3, 4, 4}));
  EXPECT_NE(refusal("type: 'Upsample' upsample_param { upsample_h: 4 upsample_w: 4 }", {Shape{1, 1, 2, 2}})
                .find("need a second input"),
            std::string::npos);
}

TEST(Dropout, DropsInTestsIfAsked) {
  BenchOptions options;
  options.phase = Phase::test;
  const Values y = run("type: 'Dropout' dropout_param { sample_weights_test: true }", {Shape{1000}},
                       {Values(1000, 1)}, options);
  EXPECT_NEAR(static_cast<double>(std::count(y.begin(), y.end(), 0.0)), 500, 80);  // 5 standard deviations
}

TEST(CosineSimilarity, IsThatOfTheAngleAndZeroForNoVector) {
  const std::vector<Shape> shapes{Shape{3, 2}, Shape{3, 2}};
  const std::vector<Values> inputs{{3, 4, 1, 0, 0, 0}, {4, 3, -2, 0, 1, 1}};
  expect_near(run("type: 'CosineSimilarity'", shapes, inputs), {0.96, -1, 0}, 1e-15);
  Bench bench("type: 'CosineSimilarity'", shapes, 1);
  for (std::size_t i = 0; i < 2; ++i) bench.set_input(i, inputs[i]);
  bench.forward();
  bench.backward({1, 1, 1});
  const Values gradient = bench.input_gradient();
  EXPECT_EQ(gradient[4], 0);
  EXPECT_EQ(gradient[5], 0);
}

TEST(CenterLoss, FollowsTheCentersRule) {
  const Values x{1, 2, 3, 4, 5, 7}, labels{0, 2, 0}, centers{0, 1, 5, 5, 1, 1};
  Bench bench("type: 'CenterLoss' center_loss_param { num_output: 3 }", {Shape{3, 2}, Shape{3}}, 1);
  bench.set_input(0, x);
  bench.set_input(1, labels);
  bench.set_parameter(0, centers);
  bench.forward();
  // Differences (1, 1), (2, 3), (5, 6).
  expect_near(bench.output(), {(2 + 13 + 61) / 6.0}, 1e-15);
  bench.backward(Values{0.5});
  expect_near(bench.input_gradient(), {0.5 / 3, 0.5 / 3, 1.0 / 3, 0.5, 2.5 / 3, 1}, 1e-15);
  // -(sum of differences) / (1 + count), whatever the loss weight.
  expect_near(bench.parameter_gradient(0), {-2, -7.0 / 3, 0, 0, -1, -1.5}, 1e-15);
  bench.set_input(1, {0, 3, 0});
  bench.forward();
  EXPECT_THROW(bench.layer().check_results(bench.context()), Error);
  EXPECT_NE(refusal("type: 'CenterLoss'", {Shape{3, 2}, Shape{3}}).find("num_output"), std::string::npos);
}

/// With respect to the features; the centers' is a rule of its own.
TEST(CenterLoss, HasTheGradientOfTheFeatures) {
  Bench bench("type: 'CenterLoss' center_loss_param { num_output: 4 } param { lr_mult: 0 }",
              {Shape{5, 2, 3}, kLabels}, 1);
  bench.set_parameter(0, spread_values(24, 2));
  bench.set_input(0, spread_values(30, 1));
  bench.set_input(1, integers(5, 4, 3));
  GradientChecker(bench).run();
}

TEST(CenterCosLoss, FollowsTheCentersRule) {
  Bench bench("type: 'CenterCosLoss' center_cos_loss_param { num_output: 4 }", {Shape{4, 2}, Shape{4}}, 1);
  bench.set_input(0, {3, 4, 0, 2, 0, 1, 0, 0});
  bench.set_input(1, {0, 2, 0, 3});
  bench.set_parameter(0, {2, 0, 5, 5, 3, 3, 1, 0});
  bench.forward();
  // Cosines 3/5, 1/sqrt(2) and 0; a sample of length 0 has none.
  const double root = std::sqrt(0.5);
  expect_near(bench.output(), {-(0.6 + root) / 4}, 1e-15);
  bench.backward(Values{0.5});
  // With respect to x: c / |x||c| - x cos / |x|^2, times -1/8.
  expect_near(bench.input_gradient(),
              {-(0.2 - 3 * 0.024) / 8, 4 * 0.024 / 8, -root / 16, 0, -1 / 8.0, 0, 0, 0}, 1e-15);
  // Those of the centers: 0, x / |x||c| - c cos / |c|^2 of two samples, (0, 0.4) and (0, 0.5); 2, (-1/6, 1/6)
  // root.
  expect_near(bench.parameter_gradient(0), {0, -0.3, 0, 0, root / 12, -root / 12, 0, 0}, 1e-15);
  bench.set_input(1, {0, 4, 0, 1});
  bench.forward();
  EXPECT_THROW(bench.layer().check_results(bench.context()), Error);
  EXPECT_NE(refusal("type: 'CenterCosLoss'", {Shape{3, 2}, Shape{3}}).find("num_output"), std::string::npos);
  EXPECT_NE(refusal("type: 'CenterCosLoss' center_cos_loss_param { num_output: 2 axis: 2 }",
                    {Shape{3, 2, 2}, Shape{3}})
                .find("axis must be 1"),
            std::string::npos);
}

TEST(CenterCosLoss, HasTheGradientOfTheFeatures) {
  Bench bench("type: 'CenterCosLoss' center_cos_loss_param { num_output: 4 } param { lr_mult: 0 }",
              {Shape{5, 2, 3}, kLabels}, 1);
  bench.set_parameter(0, spread_values(24, 2));
  bench.set_input(0, spread_values(30, 1));
  bench.set_input(1, integers(5, 4, 3));
  GradientChecker(bench).run();
}

/// By its definition: (-1)^k cos(m t) - 2 k.
double psi(double c, int m) {
  const double angle = std::acos(c), k = std::floor(m * angle / std::acos(-1.0));
  return (std::fmod(k, 2) == 0 ? 1 : -1) * std::cos(m * angle) - 2 * k;
}

/// Of 6 samples x for 3 classes w of 4 values each, which count with their lengths or as unit vectors.
Values margin_scores(const Values& w, const Values& x, const Values& labels, int m, double lambda,
                     bool with_lengths) {
  Values scores;
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t n = 0; n < 3; ++n) {
      double product = 0, ww = 0, xx = 0;
      for (std::size_t k = 0; k < 4; ++k) {
        product += x[4 * i + k] * w[4 * n + k];
        ww += w[4 * n + k] * w[4 * n + k];
        xx += x[4 * i + k] * x[4 * i + k];
      }
      const double c = product / std::sqrt(ww * xx), length = std::sqrt(with_lengths ? ww * xx : xx);
      scores.push_back(length *
                       (labels[i] == static_cast<double>(n) ? (psi(c, m) + lambda * c) / (1 + lambda) : c));
    }
  return scores;
}

std::string margin(const std::string& settings) {
  return "type: 'MarginInnerProduct' margin_inner_product_param { num_output: 3 " + settings + " }";
}

TEST(MarginInnerProduct, LowersTheScoreOfTheLabel) {
  const char* types[] = {"SINGLE", "DOUBLE", "TRIPLE", "QUADRUPLE"};
  const Values w = spread_values(12, 5), x = spread_values(24, 6), labels{0, 2, 1, 1, 0, 2};
  for (int m = 1; m <= 4; ++m) {
    SCOPED_TRACE(m);
    Bench bench(margin(cat("type: ", types[m - 1], " base: 8 gamma: 0.5 power: 2 iteration: 3")),
                {Shape{6, 4}, Shape{6}}, 2);
    bench.set_parameter(0, w);
    bench.set_input(0, x);
    bench.set_input(1, labels);
    bench.pass.draw = 10;
    bench.forward();
    const double lambda = 8 / std::pow(1 + 0.5 * (3 + 10 + 1), 2);
    expect_near(bench.output(1), {lambda}, 1e-15);
    expect_near(bench.output(), margin_scores(w, x, labels, m, lambda, false), 1e-13);
  }
}

TEST(MarginInnerProduct, HasAnExactGradient) {
  for (const char* type : {"SINGLE", "DOUBLE", "TRIPLE", "QUADRUPLE"}) {
    SCOPED_TRACE(type);
    Bench bench(margin(cat("type: ", type, " base: 0.5")), {Shape{6, 2, 2}, Shape{6}}, 1);
    bench.set_parameter(0, spread_values(12, 5));
    bench.set_input(0, spread_values(24, 6));
    bench.set_input(1, integers(6, 3, 7));
    GradientChecker(bench).run();
  }
}

TEST(MarginInnerProduct, StartsFromWeightsOfZero) {
  Bench bench(margin(""), {Shape{1, 2}, Shape{1}}, 1);
  bench.set_input(0, {3, 4});
  bench.set_input(1, Values{1});
  bench.forward();
  EXPECT_EQ(bench.output(), Values(3, 0));
  bench.backward(Values{1, 0, -1});
  expect_near(bench.parameter_gradient(0), (Values{300, 400, 0, 0, -300, -400}),
              1e-12);  // as of a row of length 0.01
}

TEST(MarginInnerProduct, KeepsItsWeightsInTestsAndStopsAtLambdaMin) {
  BenchOptions options;
  options.phase = Phase::test;
  Bench bench(margin("base: 1000 gamma: 1 lambda_min: 5"), {Shape{1, 2}, Shape{1}}, 2, options);
  const Values w{3, 4, 1, 0, 0, 2};
  bench.set_parameter(0, w);
  bench.set_input(0, {1, 1});
  bench.set_input(1, Values{0});
  bench.pass.draw = 1'000'000;
  bench.forward();
  EXPECT_EQ(bench.parameter(0), w);
  EXPECT_EQ(bench.output(1), Values{5});
  expect_near(bench.output(0), {1.4, 1, 1}, 1e-15);
  bench.set_input(1, Values{3});
  bench.forward();
  EXPECT_THROW(bench.layer().check_results(bench.context()), Error);
  EXPECT_NE(refusal(margin("gamma: -1"), {Shape{1, 2}, Shape{1}}).find("must not be negative"),
            std::string::npos);
}

std::string large_margin(const std::string& settings) {
  return "type: 'LargeMarginInnerProduct' largemargin_inner_product_param { num_output: 3 " + settings + " }";
}

TEST(LargeMarginInnerProduct, LowersTheScoreOfTheLabelWhereRowsHaveAnyLength) {
  const char* types[] = {"SINGLE", "DOUBLE", "TRIPLE", "QUADRUPLE"};
  const Values w = spread_values(12, 5, 3), x = spread_values(24, 6), labels{0, 2, 1, 1, 0, 2};
  for (int m = 1; m <= 4; ++m) {
    SCOPED_TRACE(m);
    Bench bench(large_margin(cat("type: ", types[m - 1], " base: 8 gamma: 0.5 power: 2 iteration: 3")),
                {Shape{6, 4}, Shape{6}}, 2);
    bench.set_parameter(0, w);
    bench.set_input(0, x);
    bench.set_input(1, labels);
    bench.pass.draw = 10;
    bench.forward();
    const double lambda = 8 / std::pow(1 + 0.5 * (3 + 10 + 1), 2);
    expect_near(bench.output(1), {lambda}, 1e-15);
    expect_near(bench.output(0), margin_scores(w, x, labels, m, lambda, true), 1e-14);
  }
}

TEST(LargeMarginInnerProduct, HasAnExactGradient) {
  for (const char* type : {"SINGLE", "DOUBLE", "TRIPLE", "QUADRUPLE"}) {
    SCOPED_TRACE(type);
    Bench bench(large_margin(cat("type: ", type, " base: 0.5")), {Shape{6, 2, 2}, Shape{6}}, 1);
    bench.set_parameter(0, spread_values(12, 5, 3));
    bench.set_input(0, spread_values(24, 6));
    bench.set_input(1, integers(6, 3, 7));
    GradientChecker(bench).run();
  }
}

TEST(LargeMarginInnerProduct, HasAnExactGradientOfShortRows) {
  // Steps of 1e-5 are much for rows of 0.005: the second derivative grows with 1 / length.
  Bench bench(large_margin("type: DOUBLE"), {Shape{6, 4}, Shape{6}}, 1);
  bench.set_parameter(0, spread_values(12, 5, 0.004));
  bench.set_input(0, spread_values(24, 6));
  bench.set_input(1, integers(6, 3, 7));
  GradientChecker(bench, {.step = 1e-8}).run();
}

TEST(LargeMarginInnerProduct, StartsFromWeightsOfZero) {
  Bench bench(large_margin("type: DOUBLE"), {Shape{1, 2}, Shape{1}}, 1);
  bench.set_input(0, {3, 4});
  bench.set_input(1, Values{1});
  bench.forward();
  expect_near(bench.output(), Values(3, 0), 1e-28);
  bench.backward(Values{1, 0, -1});
  expect_near(bench.parameter_gradient(0), (Values{3, 4, 0, 0, -3, -4}), 1e-14);
}

TEST(SegAccuracy, CountsPixelsAndClasses) {
  // Two classes and four pixels; predicted 1 (a tie: the last), 0, 1, 0.
  const Values scores{2, 5, 0, 1, 2, 1, 3, 0};
  const std::vector<Shape> shapes{Shape{1, 2, 2, 2}, Shape{1, 1, 2, 2}};
  // Labels 1, 0, 0, ignored: 2 of 3; recalls 1/2 and 1; overlaps 1/2 and 1/2.
  expect_near(run("type: 'SegAccuracy' seg_accuracy_param { ignore_label: 7 ignore_label: 255 }", shapes,
                  {scores, {1, 0, 0, 255}}),
              {2.0 / 3, 0.75, 0.5}, 1e-15);
  // Only class 1 occurs, never predicted so where it counts: class 0 is predicted, so its overlap is 0.
  expect_near(
      run("type: 'SegAccuracy' seg_accuracy_param { ignore_label: 9 }", shapes, {scores, {9, 1, 9, 1}}),
      {0, 0, 0}, 1e-15);
  // Nothing counts.
  EXPECT_EQ(run("type: 'SegAccuracy' seg_accuracy_param { ignore_label: 9 }", shapes, {scores, Values(4, 9)}),
            (Values{0, 0, 0}));
  EXPECT_THROW(run("type: 'SegAccuracy'", shapes, {scores, {1, 0, 0, 2}}), Error);
  std::string many = "type: 'SegAccuracy' seg_accuracy_param { ";
  for (int i = 0; i < 33; ++i) many += cat("ignore_label: ", i, " ");
  EXPECT_NE(refusal(many + "}", shapes).find("at most 32"), std::string::npos);
}

TEST(SegAccuracy, AddsUpTheBatchesOfARunOrATest) {
  const std::string text = "type: 'SegAccuracy' seg_accuracy_param { reset: false }";
  const std::vector<Shape> shapes{Shape{1, 2, 1, 2}, Shape{1, 1, 1, 2}};
  for (const Phase phase : {Phase::train, Phase::test}) {
    BenchOptions options;
    options.phase = phase;
    options.dtype = DType::f32;
    Bench bench(text, shapes, 1, options);
    bench.set_input(0, {1, 1, 0, 0});  // both are class 0
    const auto seen = [&](Bench& by, const Values& labels) {
      by.set_input(1, labels);
      by.forward();
      return by.output();
    };
    expect_near(seen(bench, {0, 1}), {0.5, 0.5, 0.25}, 1e-6);
    expect_near(seen(bench, {0, 0}), {0.75, 0.5, 0.375}, 1e-6);
    bench.pass.update_statistics = false;  // leaves no trace in training
    expect_near(seen(bench, {0, 0}), {5.0 / 6, 0.5, 5.0 / 12}, 1e-6);
    const bool left = phase == Phase::test;
    expect_near(seen(bench, {0, 0}), {left ? 0.875 : 5.0 / 6, 0.5, left ? 0.4375 : 5.0 / 12}, 1e-6);
    // Two devices' counts, restored on one.
    ASSERT_EQ(bench.layer().carried().size(), 1u);
    const Values mine = get_values(bench.context(), *bench.layer().carried()[0]);
    ASSERT_EQ(mine.size(), 12u);
    Bench other(text, shapes, 1, options);
    Values rows = mine;
    rows.insert(rows.end(), mine.begin(), mine.end());
    Tensor& restored = *other.layer().carried()[0];
    restored = Tensor(other.context().device(), Shape{2, 12}, DType::f32);
    set_values(other.context(), restored, rows);
    other.set_input(0, {1, 1, 0, 0});
    const double before = left ? 8 : 4, wrong = 2;
    EXPECT_NEAR(seen(other, {0, 0})[0], (2 * before - wrong + 2) / (2 * before + 2), 1e-6);
    restored = Tensor(other.context().device(), Shape{1, 6}, DType::f32);
    EXPECT_THROW(other.forward(), Error);
  }
  BenchOptions several;
  several.phase = Phase::test;
  several.devices = 2;
  EXPECT_THROW(Bench(text, shapes, 1, several), Error);
}

TEST(UniqueLabel, ListsEachLabelOnce) {
  const std::string text = "type: 'UniqueLabel' unique_label_param { max_labels: 3 ";
  const std::vector<Shape> shapes{Shape{2, 1, 2, 2}};
  EXPECT_EQ(run(text + "ignore_label: 255 }", shapes, {{5, 2, 255, 5, 0, 0, 0, 0}}),
            (Values{2, 5, -1, 0, -1, -1}));
  EXPECT_EQ(run(text + "force_label: 1 force_label: 0 }", shapes, {{5, 5, 5, 5, 0, 0, 0, 0}}),
            (Values{0, 1, 5, 0, 1, -1}));
  EXPECT_THROW(run(text + "}", shapes, {{1, 2, 3, 4, 0, 0, 0, 0}}), Error);
  EXPECT_NE(refusal("type: 'UniqueLabel'", shapes).find("max_labels"), std::string::npos);
  EXPECT_NE(refusal(text + "}", {kImages}).find("one channel"), std::string::npos);
}

TEST(LabelSpecificAdd, AddsTheMarginInTrainingToScoresThatAreLargeEnough) {
  const std::vector<Shape> shapes{Shape{3, 2}, Shape{3}};
  const std::string margin = "type: 'LabelSpecificAdd' label_specific_add_param { bias: -0.25 ";
  const Values x{0.5, 1, 0.25, 0.75, 0.125, 3};
  // 0.25 is not above 0.25, 0.125 is below it.
  EXPECT_EQ(run(margin + "}", shapes, {x, {1, 0, 0}}), (Values{0.5, 0.75, 0.25, 0.75, 0.125, 3}));
  BenchOptions tests;
  tests.phase = Phase::test;
  EXPECT_EQ(run(margin + "transform_test: true }", shapes, {x, {1, 0, 0}}, tests), x);
  EXPECT_THROW(run(margin + "}", shapes, {x, {1, 2, 0}}), Error);
  EXPECT_NE(refusal(margin + "}", {Shape{3, 2}, Shape{2}}).find("one label for each sample"),
            std::string::npos);
}

TEST(BiasChannel, AddsForTheLabelsOfAnImageOrOfAPixel) {
  const std::vector<Shape> lists{Shape{1, 3, 1, 2}, Shape{1, 4, 1, 1}},
      maps{Shape{1, 3, 1, 2}, Shape{1, 1, 1, 2}};
  const Values x(6, 10);
  EXPECT_EQ(run("type: 'BiasChannel'", lists, {x, {0, 2, -1, 2}}), (Values{11, 11, 10, 10, 14, 14}));
  const std::string pixel = "type: 'BiasChannel' bias_channel_param { label_type: PIXEL fg_bias: 3 ";
  EXPECT_EQ(run(pixel + "}", maps, {x, {2, 0}}), (Values{10, 13, 10, 10, 13, 10}));
  EXPECT_EQ(run(pixel + "bg_bias: 1 }", maps, {x, {2, 0}}), (Values{11, 11, 10, 10, 13, 10}));
  EXPECT_EQ(run(pixel + "background_label: 1 ignore_label: 2 }", maps, {x, {2, 0}}),
            (Values{10, 13, 10, 11, 10, 10}));
  EXPECT_THROW(run(pixel + "}", maps, {x, {2, 3}}), Error);
  EXPECT_NE(refusal(pixel + "background_label: 3 }", maps).find("background_label 3"), std::string::npos);
}

TEST(Rescale, MapsWhatTheFieldHolds) {
  Bench bench("type: 'Rescale' rescale_param { rf: 8 }", {Shape{2, 1, 2, 2}}, 2);
  bench.set_input(0, {0, 0.00005, 1, 4, 7, 8, 9, -2});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{0, 0, -0.75, 0, 0.75, 0, 0, -1.5}));
  EXPECT_EQ(bench.output(1), (Values{0, 0, 1, 1, 1, 0, 0, 1}));
  EXPECT_FALSE(bench.layer().traits().differentiable(0));
  EXPECT_EQ(run("type: 'Rescale' rescale_param { rf: 2 }", {Shape{3}}, {{1, 2, 0.5}}), (Values{0, 0, -0.5}));
  EXPECT_NE(refusal("type: 'Rescale' rescale_param { rf: 0 }", {Shape{3}}).find("rf must be positive"),
            std::string::npos);
}

TEST(Quantize, NumbersGroupsOfScales) {
  EXPECT_EQ(
      run("type: 'Quantize'", {Shape{1, 1, 3, 4}}, {{-3, 0, 0.9, 1, 11.9, 12, 35, 36, 79.5, 80, 199, 200}}),
      (Values{0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 0}));
  EXPECT_FALSE(make_layer(layer_from_text("type: 'Quantize'"), {})->traits().differentiable(0));
}

TEST(RandBi, ReadsMapsAtPoints) {
  const std::vector<Shape> shapes{Shape{2, 1, 2, 3}, Shape{2, 2, 1, 2}, Shape{3, 3}};
  const Values fine{0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112}, coarse{1, 2, 3, 4, 5, 6, 7, 8};
  const auto text = [](const std::string& rates) {
    return "type: 'RandBI' rand_comp_param { " + rates + " }";
  };
  const std::string pads = text("compression_rate: 1 compression_rate: 2 pad: true");
  for (const Layout layout : kBothLayouts) {
    Bench bench(pads, shapes, 1, in_layout(layout));
    bench.set_input(0, fine);
    bench.set_input(1, coarse);
    bench.set_input(2, {0, 0.5, 1.25, 1, 0, 2, 1, 0, 0});
    bench.forward();
    bench.layer().check_results(bench.context());
    EXPECT_EQ(bench.outputs[0]->shape, (Shape{3, 3}));
    expect_near(bench.output(), {6.25, 1.375, 3.375, 102, 5.75, 7.75, 100, 5, 7}, 1e-13);
    bench.backward({1, 2, 3, 4, 5, 6, 7, 8, 9});
    expect_near(bench.input_gradient(0), {0, 0.375, 0.125, 0, 0.375, 0.125, 7, 0, 4, 0, 0, 0}, 1e-13);
    expect_near(bench.input_gradient(1), {1.25, 0.75, 1.875, 1.125, 9.25, 3.75, 10.5, 4.5}, 1e-13);
  }
  const std::vector<Values> at_corner{fine, coarse, {0, 1, 2, 1, 0, 0, 1, 0, 1}};
  const std::string plain = text("compression_rate: 1 compression_rate: 3");
  EXPECT_NE(refusal_of([&] {
              run(plain, shapes, at_corner);
            }).find("point 0, of image 0, is in no pixel of \"input1\", which is 2 2 1 2 (8)"),
            std::string::npos);
  for (const Values& lost : {Values{0, 0, 0, 2, 0, 0, 0, 0, 0}, Values{0, 0, 0, -1, 0, 0, 0, 0, 0},
                             Values{0, 0, 0, 0, 1.5, 0, 0, 0, 0}})
    EXPECT_NE(refusal_of([&] {
                run(plain, shapes, {fine, coarse, lost});
              }).find("point 1, of image"),
              std::string::npos);
  EXPECT_NE(refusal(text("compression_rate: 1"), shapes)
                .find("expected a compression_rate for each of the 2 maps; found 1"),
            std::string::npos);
  EXPECT_NE(refusal(text("compression_rate: [1, 0]"), shapes).find("compression_rate must be positive"),
            std::string::npos);
  EXPECT_NE(refusal(plain, {shapes[0], shapes[1], Shape{3, 2}}).find("expected P x 3: image, row, column"),
            std::string::npos);
}

TEST(ChannelSelect, TakesTheChannelOfEachDetection) {
  const std::vector<Shape> shapes{Shape{4, 3, 1, 2}, Shape{1, 2, 1, 6}};
  Values masks(24);
  std::iota(masks.begin(), masks.end(), 0.0);
  const auto list = [](double first, double second) {
    return Values{first, 7, 7, 8, 8, 0.5, second, 7, 7, 8, 8, 0.5};
  };
  Bench bench("type: 'ChannelSelect'", shapes, 1);
  bench.set_input(0, masks);
  bench.set_input(1, list(2, 0));
  bench.forward();
  bench.layer().check_results(bench.context());
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{4, 1, 1, 2}));
  EXPECT_EQ(bench.output(), (Values{0, 1, 10, 11, 12, 13, 0, 0})) << "the last mask has no detection";
  bench.backward({1, 2, 3, 4, 5, 6, 7, 8});
  Values gradient(24, 0);
  gradient[0] = 1, gradient[1] = 2, gradient[10] = 3, gradient[11] = 4, gradient[12] = 5, gradient[13] = 6;
  EXPECT_EQ(bench.input_gradient(), gradient);
  bench.reshape({Shape{2, 3, 1, 2}, Shape{1, 1, 1, 6}});
  bench.set_input(0, Values(masks.begin(), masks.begin() + 12));
  bench.set_input(1, {1, 0, 0, 0, 0, 0});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{0, 1, 8, 9})) << "fewer of both";
  EXPECT_NE(refusal_of([&] {
              run("type: 'ChannelSelect'", shapes, {masks, list(1, 3)});
            }).find("detection 1 has the label 3; the masks have the channels 0 to 2"),
            std::string::npos);
  EXPECT_NE(refusal("type: 'ChannelSelect'", {shapes[0], Shape{1, 4, 1, 6}}).find("expected 1 x 3 x 1 x 6"),
            std::string::npos);
  EXPECT_NE(refusal("type: 'ChannelSelect'", {shapes[0], Shape{1, 2, 1, 5}}).find("expected 1 x 3 x 1 x 6"),
            std::string::npos);
}

TEST(Mil, GivesTheLargestOfEachGroupOfRows) {
  Bench bench("type: 'MIL' mil_param { context_per_roi: 2 }", {Shape{4, 2, 1, 1}}, 1);
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{2, 2, 1, 1}));
  bench.set_input(0, {1, 5, 3, 5, -1, -2, -3, -2});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{3, 5, -1, -2}));
  bench.backward(Values{1, 2, 3, 4});
  EXPECT_EQ(bench.input_gradient(), (Values{0, 0, 1, 2, 3, 0, 0, 4})) << "of equal rows, the last";
  EXPECT_NE(refusal("type: 'MIL'", {Shape{4, 2}}).find("context_per_roi must be given"), std::string::npos);
  EXPECT_NE(refusal("type: 'MIL' mil_param { context_per_roi: 3 }", {Shape{4, 2}})
                .find("context_per_roi: 3 does not divide the rows of \"input0\", which is 4 2 (8)"),
            std::string::npos);
}

TEST(GridPooling, TakesTheMaximumOfBinsThatOverlap) {
  const std::string text = "type: 'GRIDPooling' grid_pooling_param { pooled_h: 2 pooled_w: 2 }";
  Values x(40);  // two images of 4 x 5: bins of 2 x 3, which share the middle column
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = i < 20 ? static_cast<double>(i) : -static_cast<double>(i);
  x[2] = 100;
  for (const Layout layout : kBothLayouts) {
    Bench bench(text, {Shape{2, 1, 4, 5}}, 1, in_layout(layout));
    bench.set_input(0, x);
    bench.forward();
    EXPECT_EQ(bench.outputs[0]->shape, (Shape{2, 1, 2, 2}));
    EXPECT_EQ(bench.output(), (Values{100, 100, 17, 19, -20, -22, -30, -32}));
    bench.backward(Values{1, 2, 3, 4, 5, 6, 7, 8});
    Values expected(40);
    expected[2] = 3, expected[17] = 3, expected[19] = 4;
    expected[20] = 5, expected[22] = 6, expected[30] = 7, expected[32] = 8;
    EXPECT_EQ(bench.input_gradient(), expected);
    bench.reshape({Shape{1, 2, 1, 1}});  // fewer pixels than bins
    bench.set_input(0, {-3, 4});
    bench.forward();
    EXPECT_EQ(bench.output(), (Values{-3, -3, -3, -3, 4, 4, 4, 4}));
  }
  EXPECT_NE(refusal("type: 'GRIDPooling' grid_pooling_param { pooled_h: 2 }", {kImages}).find("pooled_w"),
            std::string::npos);
  EXPECT_NE(refusal(text, {kScores}).find("expected 4 (N, C, H, W)"), std::string::npos);
}

TEST(MergeCrop, PutsTheMiddleOfTheSecondBesideTheFirst) {
  const std::vector<Shape> shapes{Shape{1, 1, 1, 2}, Shape{1, 1, 2, 5}};
  const std::vector<Values> inputs{{1, 2}, {10, 11, 12, 13, 14, 15, 16, 17, 18, 19}};
  const auto of = [&](const std::string& settings) { return run(merged(settings), shapes, inputs); };
  EXPECT_EQ(of(""), (Values{1, 2, 11, 12}));
  EXPECT_EQ(of("operation: ADD"), (Values{12, 14}));
  EXPECT_EQ(of("forward: false"), (Values{0, 0, 11, 12}));
  EXPECT_EQ(of("forward: [true, false]"), (Values{1, 2, 0, 0}));
  EXPECT_EQ(of("operation: ADD forward: false"), (Values{11, 12}));
  EXPECT_EQ(of("operation: ADD forward: [true, false]"), (Values{1, 2}));
  EXPECT_EQ(of("operation: ADD forward: [false, false]"), (Values{0, 0}));
  const auto gradients = [&](const std::string& settings, const Values& dy) {
    Bench bench(merged(settings), shapes, 1);
    for (std::size_t i = 0; i < 2; ++i) {
      bench.set_input(i, inputs[i]);
      ops::fill(bench.context(), bench.inputs[i]->grad, 7);  // to be overwritten
    }
    bench.forward();
    bench.backward(dy);
    return std::vector<Values>{bench.input_gradient(0), bench.input_gradient(1)};
  };
  const Values of_middle{0, 3, 4, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(gradients("backward: [true, true]", {1, 2, 3, 4}), (std::vector<Values>{{1, 2}, of_middle}));
  EXPECT_EQ(gradients("operation: ADD backward: [true, true]", {3, 4}),
            (std::vector<Values>{{3, 4}, of_middle}));
  EXPECT_EQ(gradients("backward: [true, true] forward: [false, false]", {1, 2, 3, 4}),
            (std::vector<Values>{{1, 2}, of_middle}));
  const auto wanted = [&](const std::string& settings) {
    Bench bench(merged(settings), shapes, 1);
    return std::pair{bench.layer().traits().differentiable(0), bench.layer().traits().differentiable(1)};
  };
  EXPECT_EQ(wanted(""), (std::pair{true, false}));
  EXPECT_EQ(wanted("backward: true"), (std::pair{true, false}));
  EXPECT_EQ(wanted("backward: [false, true]"), (std::pair{false, true}));
  EXPECT_EQ(wanted("backward: false"), (std::pair{false, false}));
}

TEST(MergeCrop, TakesAnyLayoutAndNumberOfAxes) {
  Values volume(36);
  for (std::size_t i = 0; i < volume.size(); ++i) volume[i] = static_cast<double>(i);
  EXPECT_EQ(run(merged(""), {Shape{1, 1, 1, 1, 1}, Shape{1, 2, 3, 3, 2}}, {{-1}, volume}),
            (Values{-1, 8, 26}));
  for (const Layout layout : kBothLayouts)
    EXPECT_EQ(
        run(merged(""), {Shape{1, 1, 2, 1}, Shape{1, 2, 3, 3}},
            {{-1, -2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}}, in_layout(layout)),
        (Values{-1, -2, 1, 4, 10, 13}));
}

TEST(MergeCrop, RefusesWhatDoesNotFit) {
  const auto refused = [](const std::string& settings, const Shape& second) {
    return refusal(merged(settings), {kImages, second});
  };
  EXPECT_NE(refused("", Shape{2, 3, 4, 4}).find("\"input0\" is 2 3 4 5 (120), \"input1\" is 2 3 4 4 (96)"),
            std::string::npos);
  EXPECT_NE(refused("", Shape{1, 3, 4, 5}).find("the first one's batch,"), std::string::npos);
  EXPECT_NE(refused("", Shape{2, 3, 4}).find("the first one's batch,"), std::string::npos);
  EXPECT_NE(refused("operation: ADD", Shape{2, 4, 4, 5}).find("batch and channels"), std::string::npos);
  EXPECT_NE(refused("forward: [true, true, true]", kImages).find("at most twice"), std::string::npos);
}

}  // namespace
}  // namespace banyan::testing
