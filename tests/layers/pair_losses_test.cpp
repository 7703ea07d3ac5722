// Losses that compare the samples of a batch (DSH, HashNet, Xlearn), and ScaleTanH and EntropyLoss: values
// against closed forms, gradients, refusals.
#include <gmock/gmock.h>

#include <functional>

#include "banyan/ops/random.hpp"
#include "layers/gradient_case.hpp"

namespace banyan::testing {
namespace {

using ::testing::HasSubstr;

std::string hashing(const std::string& settings) {
  return "type: 'HashingLoss' hashing_loss_param { " + settings + " }";
}
std::string pairwise(const std::string& settings) {
  return "type: 'PairwiseLoss' pairwise_param { " + settings + " }";
}
std::string scale_tanh(const std::string& settings) {
  return "type: 'ScaleTanH' scale_tanh_param { " + settings + " }";
}
std::string entropy_loss(const std::string& settings) {
  return "type: 'EntropyLoss' entropy_param { " + settings + " }";
}

struct LossAndGradient {
  double loss;
  Values gradient;
};
LossAndGradient run_with(const std::string& text, const std::vector<Shape>& shapes,
                         const std::vector<Values>& inputs, double weight = 1) {
  Bench bench(text, shapes, 1);
  for (std::size_t i = 0; i < inputs.size(); ++i) bench.set_input(i, inputs[i]);
  bench.forward();
  const double loss = bench.output()[0];
  bench.backward(Values{weight});
  return {loss, bench.input_gradient()};
}

TEST(HashingLoss, IsHalfTheSquaredDistanceOfSamplesThatAreAlike) {
  const auto [loss, gradient] =
      run_with(hashing("tradeoff: 0"), {Shape{2, 1}, Shape{2}}, {{0.5, -0.25}, {3, 3}}, 2);
  EXPECT_DOUBLE_EQ(loss, 0.75 * 0.75 / 2 / 2);
  EXPECT_EQ(gradient, (Values{2 * 0.75 / 2, -2 * 0.75 / 2}));
}

TEST(HashingLoss, KeepsOthersApartAndValuesNearOne) {
  // Squared distances 2 (alike), 5 (within the margin of 6) and 9 (beyond it).
  const Values x{0.5, 2, -0.5, 1, 0.5, -1};
  const auto [loss, gradient] =
      run_with(hashing("bi_margin: 6 tradeoff: 0.25"), {Shape{3, 2}, Shape{3, 1}}, {x, {0, 0, 1}});
  EXPECT_DOUBLE_EQ(loss, (2 + (6 - 5)) / 2.0 / 6 + 0.25 * (0.5 + 1 + 0.5 + 0 + 0.5 + 0) / 3);
  const double share = 0.25 / 3;
  expect_near(gradient,
              {1.0 / 6 - share, 1.0 / 6 + share, (-1 + 1) / 6.0 + share, (-1 - 2) / 6.0 + share,
               -1.0 / 6 - share, 2.0 / 6 + share},
              1e-15);
}

TEST(HashingLoss, TakesSeveralLabelsForEachSample) {
  const Values x{0, 1, 4};
  // Only the first two have one in common.
  const auto [loss, gradient] = run_with(hashing("bi_margin: 10 tradeoff: 0"), {Shape{3, 1}, Shape{3, 3}},
                                         {x, {1, 1, 0, 0, 1, 0, 0, 0, 1}});
  EXPECT_DOUBLE_EQ(loss, (1 + 0 + (10 - 9)) / 2.0 / 6);
  expect_near(gradient, {-1.0 / 6, (1 + 3) / 6.0, -3.0 / 6}, 1e-15);
}

TEST(HashingLoss, HasTheGradientOfWhatItShows) {
  check_gradients({"", hashing("bi_margin: 2 tradeoff: 0.5"), {Shape{5, 4}, Shape{5}}, 1, 3, false, -1, 1.7});
  check_gradients({"", hashing("bi_margin: 3"), {Shape{4, 3}, Shape{4, 3}}, 1, 2});
}

/// One pair: what counts for the pairs' number cancels class_num.
TEST(PairwiseLoss, FollowsTheBranchInItsGradient) {
  const std::vector<Shape> shapes{Shape{1, 1}, Shape{1, 3}, Shape{1, 1}, Shape{1, 3}};
  const double p = 0.5 * 2 * 3, sigmoid = 1 / (1 + std::exp(-p));
  const std::string text = pairwise("sigmoid_param: 0.5 l_lambda: 0.25 class_num: 7");
  const auto unlike = run_with(text, shapes, {{2}, {1, 0, 0}, {3}, {0, 1, 1}});
  EXPECT_DOUBLE_EQ(unlike.loss, 2 * 0.25 / 0.5 * std::log(1 + std::exp(p)));
  expect_near(unlike.gradient, {2 * 0.25 * sigmoid * 3}, 1e-15);
  const auto alike = run_with(text, shapes, {{2}, {1, 0, 1}, {3}, {0, 1, 1}});
  EXPECT_NEAR(alike.loss, 2 * 0.25 / 0.5 * (std::log(1 + std::exp(p)) - p), 1e-15);
  expect_near(alike.gradient, {2 * 0.25 * (sigmoid - 1) * 3}, 1e-15);
  const auto all_alike = run_with(text, shapes, {{2}, {1, 1, 1}, {3}, {1, 1, 1}});
  EXPECT_EQ(all_alike.loss, 0) << "such a pair does not count";
  EXPECT_EQ(all_alike.gradient, Values{0});
}

TEST(PairwiseLoss, DividesByTheWeightsOfThePairs) {
  const std::vector<Shape> shapes{Shape{2, 1}, Shape{2, 4}, Shape{2, 1}, Shape{2, 4}};
  const std::vector<Values> inputs{{0.5, -1}, {1, 1, 0, 0, 0, 0, 1, 0}, {2, 0.25}, {1, 0, 0, 0, 0, 1, 1, -1}};
  // Products 1 (alike: labels' cosine^2 1/2), 0.125 (alike: 1/2 / 3 * ...), -2 (unlike), -0.25 (alike).
  const auto softplus = [](double p) { return std::log1p(std::exp(p)); };
  for (const bool continuous : {false, true}) {
    const auto weight = [&](double product, double a, double b) {
      return continuous ? 4 * product * product / (a * b) : 1;
    };
    const double sum = 3 * weight(1, 2, 1) * (softplus(1) - 1) +
                       3 * weight(1, 2, 3) * (softplus(0.125) - 0.125) + softplus(-2) +
                       3 * weight(1, 1, 3) * (softplus(-0.25) + 0.25);
    const auto found = run_with(
        pairwise(cat("class_num: 3 continous_similarity: ", continuous ? "true" : "false")), shapes, inputs);
    EXPECT_NEAR(found.loss, 2 * sum / 10, 1e-14);
  }
}

TEST(PairwiseLoss, HasTheGradientOfWhatItShowsAndSurvivesLargeProducts) {
  const std::vector<Shape> shapes{Shape{4, 3}, Shape{4, 5}, Shape{4, 3}, Shape{4, 5}};
  for (const char* settings :
       {"", "class_num: 5 sigmoid_param: 0.3 l_lambda: 2 continous_similarity: true"}) {
    Bench bench(pairwise(settings), shapes, 1);
    for (const std::size_t i : {0, 2}) bench.set_input(i, spread_values(12, static_cast<unsigned>(i), 2));
    for (const std::size_t i : {1, 3}) bench.set_input(i, integers(20, 2, static_cast<unsigned>(i)));
    GradientChecker(bench).run();
  }
  const std::vector<Shape> one{Shape{1, 1}, Shape{1, 3}, Shape{1, 1}, Shape{1, 3}};
  EXPECT_EQ(run_with(pairwise(""), one, {{1000}, {1, 0, 0}, {2}, {0, 1, 0}}).loss, 2 * 2000);
  EXPECT_EQ(run_with(pairwise(""), one, {{1000}, {1, 0, 0}, {2}, {1, 1, 0}}).loss, 0);
}

/// DHN: two samples, all pairs of both, each with itself too.
TEST(PairwiseLoss, ComparesOneSetWithItself) {
  const std::vector<Shape> shapes{Shape{2, 1}, Shape{2, 2}};
  const auto softplus = [](double p) { return std::log1p(std::exp(p)); };
  const auto sigmoid = [](double p) { return 1 / (1 + std::exp(-p)); };
  // Alike with themselves although they have all labels or not, unlike each other.
  const auto found = run_with(pairwise("threshold: 15"), shapes, {{2, -0.5}, {1, 0, 0, 1}});
  EXPECT_NEAR(found.loss, (softplus(4) - 4 + softplus(0.25) - 0.25 + 2 * softplus(-1)) / 4, 1e-15);
  expect_near(found.gradient,
              {2 * ((sigmoid(4) - 1) * 2 + sigmoid(-1) * -0.5) / 4,
               2 * ((sigmoid(0.25) - 1) * -0.5 + sigmoid(-1) * 2) / 4},
              1e-15);
  const auto all = run_with(pairwise("threshold: 15"), {Shape{1, 1}, Shape{1, 2}}, {{2}, {1, 1}});
  EXPECT_NEAR(all.loss, softplus(4) - 4, 1e-15) << "such a pair counts here";
  for (const char* settings : {"threshold: 15", "threshold: 1 class_num: 5 sigmoid_param: 0.3 l_lambda: 2"}) {
    Bench bench(pairwise(settings), {Shape{4, 3}, Shape{4, 5}}, 1);
    bench.set_input(0, spread_values(12, 1, 2));
    bench.set_input(1, integers(20, 2, 3));
    GradientChecker(bench).run();
  }
}

TEST(PairLosses, RefuseWhatTheyCannotTake) {
  const Shape codes{4, 3}, labels{4, 5};
  for (const auto& [text, shapes, message] :
       std::vector<std::tuple<std::string, std::vector<Shape>, std::string>>{
           {hashing(""), {codes, Shape{3}}, "expected one or more labels for each sample"},
           {pairwise("sigmoid_param: 0"), {codes, labels, codes, labels}, "sigmoid_param must be positive"},
           {pairwise("class_num: -1"), {codes, labels, codes, labels}, "class_num must not be negative"},
           {pairwise("l_lambda: -1"), {codes, labels, codes, labels}, "l_lambda must not be negative"},
           {pairwise(""), {codes, labels, codes, Shape{4, 4}}, "and then of the other half; found 4 3 (12)"},
           {pairwise(""), {codes, Shape{4}, codes, Shape{4}}, "must be a vector"},
           {pairwise(""), {codes, labels}, "two bottoms are those of DHN"},
           {pairwise("threshold: 15"), {codes, labels, codes, labels}, "threshold is for two bottoms"},
           {pairwise(""), {codes, labels, codes}, "found 3 bottoms"},
           {pairwise("threshold: 15"), {codes, Shape{3, 5}}, "a row of labels for each"},
           {scale_tanh("step_size: 0"), {codes}, "step_size must be positive"},
           {scale_tanh("gamma: -1"), {codes}, "gamma must not be negative"},
           {entropy_loss("threshold: -1"), {codes}, "threshold must not be negative"},
           {"type: 'MMDLoss' mmd_param { fix_gamma: true }", {codes, codes}, "fix_gamma: true is not"},
           {"type: 'MMDLoss' mmd_param { kernel_num: 0 }", {codes, codes}, "kernel_num must be 1 to 100"},
           {"type: 'MMDLoss' mmd_param { kernel_mul: 0 }", {codes, codes}, "kernel_mul must be positive"},
           {"type: 'MMDLoss'", {codes, Shape{4, 2}}, "must have the same count"},
           {"type: 'JMMDLoss'", {codes, codes, codes, codes}, "label_kernel_mode must be PROB_RBF"},
           {"type: 'JMMDLoss' jmmd_param { label_kernel_mode: PROB_RBF }",
            {codes, codes, codes, codes},
            "sigma must be positive, or auto_sigma true; found 0"},
           {"type: 'JMMDLoss' jmmd_param { label_kernel_mode: PROB_RBF sigma: 1 }",
            {codes, codes, Shape{3, 3}, codes},
            "must have the same count"}})
    EXPECT_THAT(refusal(text, shapes), HasSubstr(message)) << text;
}

TEST(ScaleTanH, GrowsSteeperAtEveryStepOfTheRun) {
  Bench bench(scale_tanh("init_scale: 2 step_size: 3 gamma: 0.5 power: 2"), {Shape{2}}, 1);
  bench.set_input(0, {0.1, -0.3});
  bench.pass.passes = 2;
  for (const auto& [draw, last_step] :
       std::vector<std::pair<int, int>>{{0, 0}, {5, 0}, {6, 3}, {11, 3}, {26, 12}}) {
    bench.pass.draw = draw;
    bench.forward();
    const double s = 2 * std::pow(1 + 0.5 * last_step, 2);
    const Values y{std::tanh(0.1 * s), std::tanh(-0.3 * s)};
    expect_near(bench.output(), y, 1e-14, cat("pass ", draw));
    bench.backward(Values{1, 3});
    expect_near(bench.input_gradient(), {s * (1 - y[0] * y[0]), 3 * s * (1 - y[1] * y[1])}, 1e-13);
  }
  BenchOptions options;
  options.phase = Phase::test;
  Bench test(scale_tanh("init_scale: 2 step_size: 1 gamma: 0.5 power: 2"), {Shape{1}}, 1, options);
  test.set_input(0, {0.25});
  test.pass.draw = 30;
  test.forward();
  expect_near(test.output(), {std::tanh(0.5)}, 1e-15);
}

TEST(ScaleTanH, HasItsGradientInPlaceToo) {
  for (const bool in_place : {false, true}) {
    BenchOptions options;
    options.in_place = in_place;
    Bench bench(scale_tanh("init_scale: 1.5"), {Shape{3, 4}}, 1, options);
    bench.set_input(0, spread_values(12, 1));
    GradientChecker(bench).run();
  }
}

TEST(EntropyLoss, IsTheMeanOverTheSamples) {
  const Values p{0.5, 0.25, 0.25, 0.9, 0.0995, 0.0005};
  const auto [loss, gradient] = run_with(entropy_loss(""), {Shape{2, 3}}, {p}, -0.1);
  double expected = 0;
  for (std::size_t i = 0; i < 5; ++i) expected -= p[i] * std::log(p[i]) / 2;  // the last is below 0.001
  EXPECT_NEAR(loss, expected, 1e-15);
  Values slopes;
  for (const double value : p) slopes.push_back(value < 0.001 ? 0 : 0.1 * (1 + std::log(value)) / 2);
  expect_near(gradient, slopes, 1e-15);
  EXPECT_EQ(run_with(entropy_loss("threshold: 0"), {Shape{1, 2}}, {{1, 0}}).loss, 0);
  check_gradients({"", entropy_loss("threshold: 0.1"), {Shape{3, 4}}, 1, 0, false, -1, 0.5, 0.7});
}

TEST(EntropyLoss, BeginsWithAnIterationOfTheRun) {
  Bench bench(entropy_loss("iterations_num: 4"), {Shape{1, 2}}, 1);
  bench.set_input(0, {0.5, 0.5});
  bench.pass.passes = 3;
  for (const int draw : {11, 12}) {
    bench.pass.draw = draw;
    bench.forward();
    EXPECT_NEAR(bench.output()[0], draw < 12 ? 0 : std::log(2), 1e-15);
    bench.backward(Values{1});
    EXPECT_NEAR(bench.input_gradient()[0], draw < 12 ? 0 : std::log(2) - 1, 1e-15);
  }
  BenchOptions options;
  options.phase = Phase::test;
  Bench test(entropy_loss("iterations_num: 4"), {Shape{1, 2}}, 1, options);
  test.set_input(0, {0.5, 0.5});
  test.forward();
  EXPECT_NEAR(test.output()[0], std::log(2), 1e-15) << "tests do not know the iteration";
}

/// Samples of two values; of 2 samples, and a loss weight of 0.5.
TEST(QuantizationLoss, DrawsValuesToOneAndMinusOne) {
  const Values x{0.5, -0.25, 0, -3};
  const auto [loss, gradient] = run_with("type: 'QuantizationLoss'", {Shape{2, 2}}, {x}, 0.5);
  double expected = 0;
  Values slopes;
  for (const double value : x) {
    expected += std::log(std::cosh(std::fabs(value) - 1)) / 2;
    slopes.push_back(0.5 * (value < 0 ? -1 : 1) * std::tanh(std::fabs(value) - 1) / 2);
  }
  EXPECT_NEAR(loss, expected, 1e-15);
  expect_near(gradient, slopes, 1e-15);
  const auto at_ends = run_with("type: 'QuantizationLoss'", {Shape{1, 3}}, {{1, -1, 1001}});
  EXPECT_NEAR(at_ends.loss, 1000 - std::log(2), 1e-12);
  EXPECT_EQ(at_ends.gradient, (Values{0, 0, 1}));
  const std::string unused = "type: 'QuantizationLoss' quantization_param { threshold: 0.5 }";
  EXPECT_EQ(run_with(unused, {Shape{2, 2}}, {x}).loss, loss);
}

using SampleRows = std::vector<Values>;

SampleRows rows_of_samples(const Values& values, std::size_t rows) {
  SampleRows found(rows);
  for (std::size_t i = 0; i < values.size(); ++i) found[i / (values.size() / rows)].push_back(values[i]);
  return found;
}
double squared_distance(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
  return sum;
}

/// The loss written out: the pairs of draw d are what Philox gives for (the layer, the pass, sample d).
class Discrepancy {
 public:
  std::size_t sources = 5, targets = 3;
  double width = 1;  ///< mean squared distance of two samples, kept while gradients are taken
  int count = 5;
  double ratio = 2;
  double sigma = 0;  ///< > 0: there are probabilities
  bool auto_sigma = false;
  int label_count = 1;
  double label_ratio = 2;

  static double mean_squared_distance(const SampleRows& all) {
    double sum = 0;
    for (const Values& a : all)
      for (const Values& b : all) sum += squared_distance(a, b);
    const auto n = static_cast<double>(all.size());
    return sum / (n * n - n);
  }

  /// `rows` of source and target, and perhaps of their probabilities.
  double operator()(const std::vector<SampleRows>& rows) const {
    const std::size_t draws = std::max(sources, targets);
    double sum = 0;
    for (std::size_t d = 0; d < draws; ++d) {
      const ops::RandomKey key{7, ops::stream_of("tested"), 3};
      const ops::Philox4 bits = ops::random_quad(key, static_cast<std::int64_t>(d), 0);
      const auto [s1, s2] = two(bits.v[0], bits.v[1], sources);
      const auto [t1, t2] = two(bits.v[2], bits.v[3], targets);
      sum += kernel(rows, 0, s1, 0, s2) + kernel(rows, 1, t1, 1, t2) - kernel(rows, 0, s1, 1, t2) -
             kernel(rows, 0, s2, 1, t1);
    }
    return sum / static_cast<double>(draws);
  }

 private:
  static std::pair<std::size_t, std::size_t> two(std::uint32_t a, std::uint32_t b, std::size_t rows) {
    const std::size_t first = a % rows, second = b % (rows - 1);
    return {first, second < first ? second : second + 1};
  }
  double kernel(const std::vector<SampleRows>& rows, std::size_t a, std::size_t i, std::size_t b,
                std::size_t j) const {
    double samples = 0, labels = 0;
    for (int k = 0; k < count; ++k)
      samples += std::exp(-squared_distance(rows[a][i], rows[b][j]) / width *
                          std::pow(ratio, static_cast<double>(k - count / 2)));
    if (sigma == 0) return samples;
    for (int k = 0; k < label_count; ++k)
      labels += std::exp(-squared_distance(rows[2 + a][i], rows[2 + b][j]) / sigma /
                         std::pow(label_ratio, static_cast<double>(k - label_count / 2)));
    return samples * labels;
  }
};

void expect_discrepancy(const std::string& text, Discrepancy expected, const std::vector<double>& weights) {
  const std::size_t sides = expected.sigma > 0 ? 4 : 2;
  std::vector<Shape> shapes;
  std::vector<SampleRows> rows;
  for (std::size_t i = 0; i < sides; ++i) {
    const std::size_t samples = i % 2 == 0 ? expected.sources : expected.targets;
    shapes.push_back(Shape{static_cast<std::int64_t>(samples), i < 2 ? 4 : 3});
    rows.push_back(
        rows_of_samples(spread_values(shapes[i].count(), static_cast<unsigned>(i), i < 2 ? 2 : 1), samples));
  }
  SampleRows all = rows[0];
  all.insert(all.end(), rows[1].begin(), rows[1].end());
  expected.width = Discrepancy::mean_squared_distance(all);
  if (expected.auto_sigma) {
    all = rows[2];
    all.insert(all.end(), rows[3].begin(), rows[3].end());
    expected.sigma = Discrepancy::mean_squared_distance(all);
  }
  Bench bench(text, shapes, static_cast<int>(weights.size()));
  bench.pass.draw = 3;
  for (std::size_t i = 0; i < sides; ++i) {
    Values values;
    for (const Values& row : rows[i]) values.insert(values.end(), row.begin(), row.end());
    bench.set_input(i, values);
  }
  bench.forward();
  std::vector<Values> gradients;
  for (std::size_t o = 0; o < weights.size(); ++o) {
    EXPECT_NEAR(bench.output(o)[0], expected(rows), 1e-7) << text;  // settings are floats
    gradients.push_back({weights[o]});
  }
  bench.backward(gradients);
  for (std::size_t i = 0; i < sides; ++i) {
    const Values found = bench.input_gradient(i);
    const std::size_t length = rows[i][0].size();
    for (std::size_t at = 0; at < found.size(); ++at) {
      double& value = rows[i][at / length][at % length];
      const double before = value, step = 1e-5;
      value = before + step;
      const double above = expected(rows);
      value = before - step;
      const double below = expected(rows);
      value = before;
      EXPECT_NEAR(found[at], weights[i < 2 ? 0 : weights.size() - 1] * (above - below) / (2 * step), 1e-7)
          << text << " input " << i << " at " << at;
    }
  }
}

TEST(MMDLoss, IsTheMeanOfDrawnSamplesWithTheWidthAsAConstant) {
  expect_discrepancy("type: 'MMDLoss'", {}, {0.7});
  Discrepancy expected;
  expected.count = 2;
  expected.ratio = 3;
  expected.sources = 2;
  expected.targets = 6;
  expect_discrepancy("type: 'MMDLoss' mmd_param { kernel_num: 2 kernel_mul: 3 }", expected, {-1});
}

TEST(JMMDLoss, MultipliesTheKernelsOfSamplesAndProbabilities) {
  Discrepancy expected;
  expected.sigma = 1.5;
  const std::string settings = "label_kernel_mode: PROB_RBF label_back_propagate: true sigma: 1.5 ";
  for (const std::vector<double>& weights : {std::vector<double>{0.3}, std::vector<double>{0.3, 0.6}})
    expect_discrepancy("type: 'JMMDLoss' jmmd_param { label_kernel_num: 1 " + settings + "}", expected,
                       weights);
  expected.label_count = 4;
  expected.label_ratio = 3;
  expected.count = 3;
  expect_discrepancy(
      "type: 'JMMDLoss' jmmd_param { label_kernel_num: 4 label_kernel_mul: 3 kernel_num: 3 " + settings + "}",
      expected, {1});
  expected.auto_sigma = true;
  expect_discrepancy(
      "type: 'JMMDLoss' jmmd_param { label_kernel_num: 4 label_kernel_mul: 3 kernel_num: 3 auto_sigma: true "
      "label_kernel_mode: PROB_RBF label_back_propagate: true }",
      expected, {1});
}

TEST(JMMDLoss, LeavesProbabilitiesAloneUnlessAsked) {
  const Shape samples{3, 4}, labels{3, 2};
  Bench bench("type: 'JMMDLoss' jmmd_param { label_kernel_mode: PROB_RBF sigma: 1 }",
              {samples, samples, labels, labels, Shape{3}}, 1);
  EXPECT_TRUE(bench.layer().traits().differentiable(1));
  EXPECT_FALSE(bench.layer().traits().differentiable(2));
}

TEST(MMDLoss, RepeatsItsDrawsAndNeedsTwoSamplesOfEach) {
  const std::string text = "type: 'MMDLoss'";
  Bench bench(text, {Shape{6, 3}, Shape{6, 3}}, 1);
  for (const std::size_t i : {0, 1}) bench.set_input(i, spread_values(18, static_cast<unsigned>(i)));
  bench.forward();
  const Values first = bench.output();
  bench.pass.draw = 1;
  bench.forward();
  EXPECT_NE(bench.output(), first);
  bench.pass.draw = 0;
  bench.forward();
  EXPECT_EQ(bench.output(), first);
  for (const std::int64_t samples : {0, 1}) {
    Bench few(text, {Shape{3, 2}, Shape{samples, 2}}, 1);
    few.set_input(0, {1, 2, 3, 4, 5, 6});
    few.set_input(1, Values(static_cast<std::size_t>(2 * samples), 1));
    few.forward();
    few.backward(Values{1});
    EXPECT_EQ(few.output(), Values{0});
    EXPECT_EQ(few.input_gradient(), Values(6, 0));
  }
  Bench same(text, {Shape{2, 2}, Shape{2, 2}}, 1);
  same.set_input(0, Values(4, 3));
  same.set_input(1, Values(4, 3));
  same.forward();
  same.backward(Values{1});
  EXPECT_EQ(same.output(), Values{0}) << "samples that are all the same have no width";
  EXPECT_EQ(same.input_gradient(), Values(4, 0));
}

}  // namespace
}  // namespace banyan::testing
