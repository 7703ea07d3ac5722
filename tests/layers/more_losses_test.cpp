// Losses beside those over the softmax and EuclideanLoss: values against closed forms, gradients, refusals.
#include <unistd.h>

#include <cstdio>

#include "banyan/io/binary_proto.hpp"
#include "layers/loss_cases.hpp"

namespace banyan::testing {
namespace {

using namespace loss_cases;

class LossGradient : public ::testing::TestWithParam<GradientCase> {};

TEST_P(LossGradient, EqualsCentralDifferences) { check_gradients(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Layers, LossGradient, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

/// The loss of these inputs; one output.
double loss_of(const std::string& text, const std::vector<Shape>& shapes, const std::vector<Values>& inputs) {
  Bench bench(text, shapes, 1);
  for (std::size_t i = 0; i < inputs.size(); ++i) bench.set_input(i, inputs[i]);
  bench.forward();
  EXPECT_TRUE(bench.layer().traits().loss);
  EXPECT_EQ(bench.layer().traits().shares, 1);
  return bench.output()[0];
}

TEST(SigmoidCrossEntropyLoss, DividesAsAsked) {
  const Values x{-2, 0.5, 3, 700, -700, 1}, t{0, 1, 0.25, 1, 0, 7};
  double sum = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const double p = 1 / (1 + std::exp(-x[i]));
    sum -= t[i] * std::log(p) + (1 - t[i]) * std::log(1 - p);  // the next two give 0, the last is ignored
  }
  for (const auto& [settings, divisor] :
       std::vector<std::pair<std::string, double>>{{"", 2},
                                                   {"normalization: VALID", 5},
                                                   {"normalization: FULL", 6},
                                                   {"normalization: NONE", 1},
                                                   {"normalize: true", 5},
                                                   {"normalize: false", 2}})
    EXPECT_NEAR(loss_of("type: 'SigmoidCrossEntropyLoss' loss_param { ignore_label: 7 " + settings + " }",
                        {Shape{2, 3}, Shape{2, 3}}, {x, t}),
                sum / divisor, 1e-14)
        << settings;
}

/// As HED and RCF have it: two samples, one without a positive target.
TEST(SigmoidCrossEntropyLoss, BalancesTheClassesOfEachSample) {
  const Values x{-2, 0.5, 3, 1, 2, -1, 0.25, 4}, t{0, 1, 0, 0.3, 0, 0, 0, 2};
  double sum = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const double p = 1 / (1 + std::exp(-x[i]));
    sum -= t[i] == 1 ? 2.0 / 3 * std::log(p) : 1.1 / 3 * std::log(1 - p);
  }
  Bench bench("type: 'SigmoidCrossEntropyLoss' loss_param { class_balance: 1.1 }", {Shape{2, 4}, Shape{2, 4}},
              1);
  bench.set_input(0, x);
  bench.set_input(1, t);
  bench.forward();
  EXPECT_NEAR(bench.output()[0], sum / 2, 1e-7);  // 1.1 is a float
  EXPECT_THAT(
      refusal("type: 'SigmoidCrossEntropyLoss' loss_param { class_balance: -1 }", {Shape{2, 4}, Shape{2, 4}}),
      ::testing::HasSubstr("class_balance must not be negative"));
}

/// Samples of one class, and of other targets than 0 and 1.
TEST(SigmoidCrossEntropyLoss, IsZeroWhereTwoClassesAreMissing) {
  Bench bench("type: 'SigmoidCrossEntropyLoss' loss_param { class_balance: 1 }", {Shape{3, 3}, Shape{3, 3}},
              1);
  bench.set_input(0, {-2, 0.5, 3, 1, 2, -1, 0.25, 4, 0});
  bench.set_input(1, {1, 1, 0.5, 0, 0, 0, 2, 0.25, -1});
  bench.forward();
  bench.backward(Values{2});
  EXPECT_EQ(bench.output(), (Values{0}));
  EXPECT_EQ(bench.input_gradient(), Values(9, 0));
}

TEST(SigmoidCrossEntropyLoss, GivesOtherTargetsNoGradient) {
  Bench bench("type: 'SigmoidCrossEntropyLoss' loss_param { class_balance: 1 }", {Shape{1, 4}, Shape{1, 4}},
              1);
  bench.set_input(0, {0, 0, 0, 1});
  bench.set_input(1, {1, 0, 0, 0.5});
  bench.forward();
  bench.backward(Values{1});
  expect_near(bench.input_gradient(), {-0.5 * 2 / 3, 0.5 / 3, 0.5 / 3, 0}, 1e-15);
  EXPECT_EQ(bench.input_gradient()[3], 0);
}

TEST(AccuracyRegression, IsHalfTheMeanDistance) {
  Bench bench("type: 'AccuracyRegression'", {Shape{2, 2}, Shape{2, 2}}, 1);
  bench.set_input(0, {1, 2, 3, -4});
  bench.set_input(1, {0, 4, 3, -3.5});
  bench.forward();
  EXPECT_FALSE(bench.layer().traits().loss);
  EXPECT_NEAR(bench.output()[0], (1 + 2 + 0 + 0.5) / 2 / 2, 1e-15);
}

TEST(SoftmaxLoss, SmoothsLabelsInTrainingOnly) {
  const std::vector<Shape> shapes{Shape{1, 3}, Shape{1}};
  const Values x{std::log(0.5), std::log(0.2), std::log(0.3)};
  EXPECT_NEAR(loss_of(smoothed(""), shapes, {x, {1}}),
              -0.75 * std::log(0.2) - 0.25 / 3 * (std::log(0.5) + std::log(0.2) + std::log(0.3)), 1e-15);
  BenchOptions options;
  options.phase = Phase::test;
  Bench bench(smoothed(""), shapes, 1, options);
  bench.set_input(0, x);
  bench.set_input(1, {1});
  bench.forward();
  expect_near(bench.output(), {-std::log(0.2)}, 1e-15);
}

TEST(SoftmaxLoss, WeightsClassesAndDividesByPositions) {
  const std::vector<Shape> shapes{Shape{4, 3}, Shape{4}};
  Values x;
  for (int n = 0; n < 4; ++n)
    for (const double p : {0.5, 0.2, 0.3}) x.push_back(std::log(p));
  const Values labels{1, 0, 2, 1};  // 2 is ignored
  const double sum = -4 * std::log(0.2) * 2 - 0.25 * std::log(0.5);
  for (const auto& [settings, divisor] : std::vector<std::pair<std::string, double>>{
           {"", 3}, {"normalize: false", 4}, {"normalization: FULL", 4}, {"normalization: NONE", 1}})
    EXPECT_NEAR(loss_of(weighted("0.25, 4, 7", "ignore_label: 2 " + settings), shapes, {x, labels}),
                sum / divisor, 1e-14)
        << settings;
  // Tests too: SegNet's does not ask for the phase.
  BenchOptions options;
  options.phase = Phase::test;
  Bench bench(weighted("0.25, 4, 7", ""), {Shape{1, 3}, Shape{1}}, 1, options);
  bench.set_input(0, {x[0], x[1], x[2]});
  bench.set_input(1, {2});
  bench.forward();
  expect_near(bench.output(), {-7 * std::log(0.3)}, 1e-14);
  // Ignored labels need no weight.
  for (const double ignored : {255.0, -1.0})
    EXPECT_NEAR(
        loss_of(weighted("0.25, 4, 7", cat("ignore_label: ", ignored)), shapes, {x, {1, 0, ignored, 1}}),
        sum / 3, 1e-14)
        << ignored;
  EXPECT_NEAR(
      loss_of("type: 'SoftmaxWithLoss' loss_param { class_weighting: [0.25, 4, 7] }", shapes, {x, labels}),
      loss_of("type: 'SoftmaxWithLoss'", shapes, {x, labels}), 0);
}

TEST(SoftmaxLoss, EqualWeightsAreAFactor) {
  const std::vector<Shape> shapes{kMaps, Shape{2, 4, 3}};
  const Values x = spread_values(kMaps.count(), 1, 2), labels = integers(24, 3, 3);
  const double plain = loss_of("type: 'SoftmaxWithLoss'", shapes, {x, labels}),
               smooth_loss = loss_of(smoothed(""), shapes, {x, labels});
  EXPECT_NEAR(loss_of(weighted("3, 3, 3", ""), shapes, {x, labels}), 3 * plain, 1e-14);
  EXPECT_NEAR(loss_of(weighted("3, 3, 3", "label_smoothing: 0.25"), shapes, {x, labels}), 3 * smooth_loss,
              1e-14);
}

/// The gradient is that of the loss in which the easy positions are ignored, the loss that of all.
TEST(SoftmaxLoss, HardestPositionsAloneHaveAGradient) {
  const std::vector<Shape> shapes{Shape{3, 2, 2}, Shape{3, 2}};
  // Of two classes by their scores' difference: label 0 is the less likely the larger the second score.
  const Values second{0.1, 3, 0.2, -1, 2, 5}, labels{0, 0, 1, 0, 0, 7};
  Values scores(12, 0);
  for (std::size_t i = 0; i < 6; ++i) scores[i / 2 * 4 + 2 + i % 2] = second[i];
  // Five positions count; by falling loss: 3, 2, 0.1, 0.2 (of class 1), -1.
  const std::vector<int> order{1, 4, 0, 2, 3};
  for (const auto& [ratio, kept] :
       {std::pair{0.0, 1}, {0.39, 2}, {0.4, 3}, {0.6, 4}, {0.99, 5}, {1.0, 5}, {3.0, 5}})
    for (const std::string settings :
         {"", "label_smoothing: 0.2", "normalization: FULL", "normalization: NONE"}) {
      const auto make = [&](const std::string& more) {
        return cat("type: 'SoftmaxWithLoss' loss_param { ignore_label: 7 ", settings, " ", more, " }");
      };
      Values hard(6, 7);
      for (int i = 0; i < kept; ++i) hard[order[i]] = labels[order[i]];
      Bench tested(make(cat("thresh_ratio: ", ratio)), shapes, 1), all(make(""), shapes, 1),
          few(make(""), shapes, 1);
      for (const auto& [bench, of] : {std::pair{&tested, labels}, {&all, labels}, {&few, hard}}) {
        bench->set_input(0, scores);
        bench->set_input(1, of);
        bench->forward();
        bench->backward(Values{2});
      }
      EXPECT_EQ(tested.output(), all.output()) << ratio << ' ' << settings;
      EXPECT_EQ(tested.input_gradient(), few.input_gradient()) << ratio << ' ' << settings;
    }
}

TEST(SoftmaxLoss, SelectsInTrainingAmongSuchAsThereAre) {
  const std::string text = "type: 'SoftmaxWithLoss' loss_param { thresh_ratio: 0.3 ignore_label: 1 }";
  Bench nothing(text, {Shape{2, 2}, Shape{2}}, 1);
  nothing.set_input(0, Values(4, 1));
  nothing.set_input(1, Values(2, 1));
  nothing.forward();
  nothing.backward(Values{1});
  EXPECT_EQ(nothing.input_gradient(), Values(4, 0));
  Bench alike(text, {Shape{3, 2}, Shape{3}}, 1);  // equal losses go together
  alike.set_input(0, {0, 0, 0, 0, 9, 0});
  alike.set_input(1, Values(3, 0));
  alike.forward();
  alike.backward(Values{1});
  expect_near(alike.input_gradient(), {-0.25, 0.25, -0.25, 0.25, 0, 0}, 1e-15);
  Bench none(text, {Shape{0, 2}, Shape{0}}, 1);
  none.forward();
  none.backward(Values{1});
}

/// Probabilities 0.9 and 0.25 of two labels; the third is background.
TEST(OverlapSoftmaxWithLoss, AddsTheSquareOfWhatOverlapsLittle) {
  const std::string type = "type: 'OverlapSoftmaxWithLoss'";
  const std::vector<Shape> shapes{Shape{4, 2}, Shape{4}, Shape{4}};
  const Values x{
      std::log(0.1), std::log(0.9), std::log(0.75), std::log(0.25), std::log(0.4), std::log(0.6), 0, 0};
  const Values labels{1, 1, 0, 1}, overlaps{1, 0.0625, 0.5, 0};
  const double expected = -std::log(0.9) + (0.81 - 1) / 2 - std::log(0.25) + (0.0625 / 0.5 - 1) / 2 -
                          std::log(0.4) - std::log(0.5);
  EXPECT_NEAR(loss_of(type, shapes, {x, labels, overlaps}), expected / 4, 1e-15);
  EXPECT_NEAR(loss_of(type + " loss_param { ignore_label: 1 }", shapes, {x, labels, overlaps}),
              -std::log(0.4), 1e-15);
  EXPECT_NE(refusal(type, {Shape{4, 2}, Shape{4}, Shape{3}}).find("one overlap for each of 4 labels"),
            std::string::npos);
}

TEST(WeightedSoftmaxWithLoss, WeighsSamplesPositionsAndClasses) {
  const std::string type = "type: 'WeightedSoftmaxWithLoss' ";
  const Shape scores{2, 3, 1, 2}, positions{2, 1, 2};
  const Values x = spread_values(12, 1), labels{0, 2, 1, 2};
  Values plain;  // of each position
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t i = 0; i < 2; ++i) {
      double sum = 0;
      for (std::size_t c = 0; c < 3; ++c) sum += std::exp(x[6 * n + 2 * c + i]);
      plain.push_back(std::log(sum) - x[6 * n + 2 * static_cast<std::size_t>(labels[2 * n + i]) + i]);
    }
  const auto loss = [&](const std::string& settings, const std::vector<Shape>& more, const Values& given) {
    std::vector<Shape> shapes{scores, positions};
    std::vector<Values> values{x, labels};
    if (!more.empty()) {
      shapes.push_back(more[0]);
      values.push_back(given);
    }
    return loss_of(type + settings, shapes, values);
  };
  EXPECT_NEAR(loss("", {}, {}), (plain[0] + plain[1] + plain[2] + plain[3]) / 4, 1e-14);
  EXPECT_NEAR(loss("", {Shape{2}}, {0, 3}), 3 * (plain[2] + plain[3]) / 4, 1e-14);
  EXPECT_NEAR(loss("", {positions}, {1, 2, 3, 4}),
              (plain[0] + 2 * plain[1] + 3 * plain[2] + 4 * plain[3]) / 4, 1e-14);
  EXPECT_NEAR(loss("softmax_param { pos_mult: 5 }", {}, {}),
              (plain[0] + plain[1] + 5 * plain[2] + plain[3]) / 4, 1e-14);
  EXPECT_NEAR(loss("softmax_param { pos_mult: [5, 7] pos_cid: [2, 0] } loss_param { ignore_label: 1 }",
                   {Shape{2}}, {1, 2}),
              (7 * plain[0] + 5 * plain[1] + 2 * 5 * plain[3]) / 3, 1e-14);
  for (const Shape& weights : {Shape{2}, positions}) {
    Bench bench(type, {scores, positions, weights}, 1);
    bench.set_input(0, x);
    bench.set_input(1, labels);
    bench.set_input(2, positive_values(weights.count()));
    GradientChecker(bench).run();
  }
  const std::vector<Shape> shapes{scores, positions};
  EXPECT_NE(
      refusal(type, {scores, positions, Shape{3}}).find("one weight for each of 2 samples or of 4 positions"),
      std::string::npos);
  EXPECT_NE(refusal(type + "softmax_param { pos_mult: [1, 2] }", shapes).find("found 2 and 0"),
            std::string::npos);
  EXPECT_NE(refusal(type + "softmax_param { pos_mult: -1 }", shapes).find("not negative"), std::string::npos);
  EXPECT_NE(refusal(type + "softmax_param { pos_mult: [1, 2] pos_cid: [1, 1] }", shapes)
                .find("names a class twice"),
            std::string::npos);
  EXPECT_NE(refusal(type + "softmax_param { pos_cid: 3 }", shapes).find("a class from 0 to 2; found 3"),
            std::string::npos);
}

/// By the definition (Lin et al. 2017): probabilities 0.9 and 0.25 of two positions' labels.
TEST(FocalLoss, CountsLikelyLabelsLess) {
  const std::vector<Shape> shapes{Shape{2, 2}, Shape{2}};
  const Values x{std::log(9), 0, std::log(3), 0}, labels{0, 1};
  const auto expected = [](double alpha, double gamma) {
    return -alpha * (std::pow(0.1, gamma) * std::log(0.9) + std::pow(0.75, gamma) * std::log(0.25)) / 2;
  };
  EXPECT_NEAR(loss_of("type: 'FocalLoss'", shapes, {x, labels}), expected(0.25, 2), 1e-15);
  EXPECT_NEAR(loss_of("type: 'SoftmaxWithFocalLoss' softmax_focal_loss_param { alpha: 0.5 gamma: 1.5 }",
                      shapes, {x, labels}),
              expected(0.5, 1.5), 1e-15);
  EXPECT_NEAR(
      loss_of("type: 'SoftmaxFocalLoss' softmax_focal_loss_param { alpha: 1 gamma: 0 }", shapes, {x, labels}),
      loss_of("type: 'SoftmaxWithLoss'", shapes, {x, labels}), 1e-15);
  // A sigmoid branch's: a target for each score.
  EXPECT_NE(refusal("type: 'FocalLoss'", {Shape{2, 2}, Shape{2, 2}}).find("one label for each"),
            std::string::npos);
  EXPECT_NE(refusal("type: 'FocalLoss' focal_loss_param { gamma: -1 }", shapes).find("not negative"),
            std::string::npos);
  EXPECT_NE(refusal("type: 'FocalLoss' focal_loss_param { gamma: inf }", shapes).find("must be finite"),
            std::string::npos);
  // Whichever name a branch gives the settings.
  for (const std::string type : {"FocalLoss", "SoftmaxFocalLoss", "SoftmaxWithFocalLoss"})
    for (const std::string settings : {"focal_loss_param", "softmax_focal_loss_param"})
      EXPECT_NEAR(
          loss_of("type: '" + type + "' " + settings + " { alpha: 0.5 gamma: 1.5 }", shapes, {x, labels}),
          expected(0.5, 1.5), 1e-15);
  EXPECT_NE(
      refusal("type: 'FocalLoss' focal_loss_param { } softmax_focal_loss_param { }", shapes).find("not both"),
      std::string::npos);
}

TEST(HingeLoss, AddsUpWhatIsMissingToTheMargin) {
  const Values x{2, -3, 0.5, 0.25, 0, -2}, labels{0, 2};
  // Sample 0: 0 for the label, 0, 1.5; sample 1: 1.25, 1, 3 for the label.
  const std::vector<Shape> shapes{Shape{2, 3}, Shape{2}};
  EXPECT_NEAR(loss_of("type: 'HingeLoss'", shapes, {x, labels}), 6.75 / 2, 1e-15);
  EXPECT_NEAR(loss_of("type: 'HingeLoss' hinge_loss_param { norm: L2 }", shapes, {x, labels}),
              (1.5 * 1.5 + 1.25 * 1.25 + 1 + 9) / 2, 1e-14);
}

TEST(MultinomialLogisticLoss, TakesProbabilitiesAsTheyAre) {
  const double least = 20 * std::log(10.0);
  EXPECT_NEAR(loss_of("type: 'MultinomialLogisticLoss'", {Shape{2, 2}, Shape{2}}, {{0.2, 3, 0.5, 0}, {0, 1}}),
              (-std::log(0.2) + least) / 2, 1e-13);
}

TEST(InfogainLoss, IsTheSoftmaxLossForTheIdentity) {
  const Values x = spread_values(12, 1, 2), labels{0, 2, 255, 1};
  const std::vector<Shape> shapes{Shape{4, 3}, Shape{4}};
  const double expected =
      loss_of("type: 'SoftmaxWithLoss' loss_param { ignore_label: 255 }", shapes, {x, labels});
  EXPECT_NEAR(loss_of("type: 'InfogainLoss' loss_param { ignore_label: 255 }",
                      {shapes[0], shapes[1], Shape{3, 3}}, {x, labels, {1, 0, 0, 0, 1, 0, 0, 0, 1}}),
              expected, 1e-14);
}

TEST(InfogainLoss, ReadsItsMatrixFromAFile) {
  const Values matrix = spread_values(9, 4, 2), x = spread_values(12, 1, 2), labels{0, 2, 2, 1};
  const std::string file = cat(::testing::TempDir(), "infogain-", getpid());
  io::write_binary_proto(file, io::encode_blob({1, 1, 3, 3}, matrix.data()));  // as Caffe does
  const std::vector<Shape> shapes{Shape{4, 3}, Shape{4}};
  Bench bench("type: 'InfogainLoss' infogain_loss_param { source: '" + file + "' }", shapes, 2);
  bench.set_input(0, x);
  bench.set_input(1, labels);
  bench.forward();
  double expected = 0;
  const Values p = bench.output(1);
  for (std::size_t n = 0; n < 4; ++n)
    for (std::size_t c = 0; c < 3; ++c)
      expected -= matrix[3 * static_cast<std::size_t>(labels[n]) + c] * std::log(p[3 * n + c]) / 4;
  EXPECT_NEAR(bench.output()[0], expected, 1e-13);
  EXPECT_NEAR(p[0] + p[1] + p[2], 1, 1e-15);
  EXPECT_THROW(bench.reshape({Shape{4, 2}, Shape{4}}), Error);  // needs a 2 x 2 matrix
  std::remove(file.c_str());
}

TEST(DifferenceLosses, FollowTheirFormulas) {
  const Values a{1, 2, -3, 0.5}, b{1, 4, -1.5, 0.25}, ones(4, 1);
  const std::vector<Shape> two(2, Shape{2, 2}), four(4, Shape{2, 2});
  EXPECT_NEAR(loss_of("type: 'L1Loss'", two, {a, b}), (2 + 1.5 + 0.25) / 2, 1e-15);
  EXPECT_NEAR(loss_of("type: 'SmoothL1Loss'", two, {a, b}), (1.5 + 1 + 0.25 * 0.25 / 2) / 2, 1e-15);
  // sigma 2: quadratic below 1/4, where it is 2 d^2; |d| - 1/8 beyond.
  EXPECT_NEAR(loss_of(smooth("sigma: 2"), two, {a, b}), (2 - 0.125 + 1.5 - 0.125 + 0.25 - 0.125) / 2, 1e-15);
  EXPECT_NEAR(loss_of("type: 'SmoothL1Loss'", four, {a, b, {5, 0.25, 0, 2}, {7, 8, 9, 10}}),
              (8 * 0.125 + 10 * 0.125) / 2, 1e-15);
  Bench bench("type: 'L1Loss'", two, 1);
  bench.set_input(0, a);
  bench.set_input(1, b);
  bench.forward();
  bench.backward(Values{3});
  EXPECT_EQ(bench.input_gradient(0), (Values{0, -1.5, -1.5, 1.5}));
  EXPECT_EQ(bench.input_gradient(1), (Values{0, 1.5, 1.5, -1.5}));
}

TEST(ContrastiveLoss, FollowsItsFormulas) {
  // Distances 5, 1 and 0; pairs: similar, not, not.
  const std::vector<Shape> shapes{Shape{3, 2}, Shape{3, 2}, Shape{3}};
  const std::vector<Values> inputs{{0, 0, 1, 0, 2, 2}, {3, 4, 0, 0, 2, 2}, {1, 0, 0}};
  EXPECT_NEAR(loss_of(contrastive("margin: 1.5"), shapes, inputs), (25 + 0.25 + 2.25) / 6, 1e-14);
  EXPECT_NEAR(loss_of(contrastive("margin: 1.5 legacy_version: true"), shapes, inputs), (25 + 0.5 + 1.5) / 6,
              1e-14);
  Bench bench(contrastive("margin: 1.5"), shapes, 1);
  for (std::size_t i = 0; i < 3; ++i) bench.set_input(i, inputs[i]);
  bench.forward();
  bench.backward(Values{3});
  const double apart = 0.5 / (1 + 1e-4);  // Caffe's addend; 0, not NaN, at distance 0
  expect_near(bench.input_gradient(0), {-3, -4, -apart, 0, 0, 0}, 1e-15);
  expect_near(bench.input_gradient(1), {3, 4, apart, 0, 0, 0}, 1e-15);
}

TEST(ContrastiveLoss, OfTwoLabelsInPlaceOfAMark) {
  const std::vector<Shape> shapes{Shape{3, 2}, Shape{3, 2}, Shape{3}, Shape{3, 1, 1, 1}};
  const std::vector<Values> inputs{
      {0, 0, 1, 0, 2, 2}, {3, 4, 0, 0, 2, 2}, {7.25, 0, -1}, {7.75, 7, 1}};  // as whole numbers
  EXPECT_NEAR(loss_of(contrastive("margin: 1.5"), shapes, inputs), (25 + 0.25 + 2.25) / 6, 1e-14);
  EXPECT_NEAR(loss_of(contrastive("margin: 1.5 legacy_version: true"), shapes, inputs), (25 + 0.5 + 1.5) / 6,
              1e-14);
  Bench bench(contrastive("margin: 0"), shapes, 1);
  for (std::size_t i = 0; i < 4; ++i) bench.set_input(i, inputs[i]);
  bench.forward();
  EXPECT_NEAR(bench.output()[0], 25.0 / 6, 1e-14);
  bench.backward(Values{3});
  expect_near(bench.input_gradient(1), {3, 4, 0, 0, 0, 0}, 1e-15);
  EXPECT_FALSE(bench.layer().traits().differentiable(2) || bench.layer().traits().differentiable(3));
}

TEST(TripletLoss, FollowsItsFormula) {
  const std::vector<Shape> shapes(3, Shape{2, 2});
  // |a - p|^2 = 1, 2; |a - n|^2 = 4, 2.
  const std::vector<Values> inputs{{0, 0, 0, 0}, {1, 0, 1, 1}, {0, 2, -1, 1}};
  EXPECT_NEAR(loss_of("type: 'TripletLoss'", shapes, inputs), 1.0 / 4, 1e-15);
  EXPECT_NEAR(loss_of("type: 'TripletLoss' triplet_loss_param { margin: 5 }", shapes, inputs), 7.0 / 4,
              1e-15);
  EXPECT_NEAR(loss_of("type: 'TripletLoss' triplet_loss_param { margin: 5 losstype: 1 }", shapes, inputs),
              ((1 - 4.0 / 6) + (1 - 2.0 / 7)) / 4, 1e-15);
  EXPECT_NEAR(loss_of("type: 'TripletLoss' triplet_loss_param { margin: 5 losstype: 2 }", shapes, inputs),
              (0 + (1 - std::exp(2) / (std::exp(2) + 5))) / 4, 1e-15);
}

/// Two sets of an anchor, a positive and two negatives: squared distances 1, 4, 0.25, and 1, 1, 16.
TEST(TripletLoss, OfSetsThatFollowEachOther) {
  const std::vector<Shape> shapes{Shape{8, 1}, Shape{8}};
  const std::vector<Values> inputs{{0, 1, 2, 0.5, 1, 2, 0, 5}, Values(8, 7)};
  const auto text = [](const std::string& settings) {
    return "type: 'TripletLoss' triplet_loss_param { num_triplets: 2 " + settings + " }";
  };
  EXPECT_NEAR(loss_of(text("losstype: 0 margin: 1"), shapes, inputs), (1 + 1.75 + 1 + 1) / 4, 1e-15);
  const double ratios = (1 + (1 - 0.25 / 1.5) + 1 + (1 - 1 / 1.5)) / 4;
  for (const char* settings : {"losstype: 1 margin: 0.5", "margin: 0.5"})
    EXPECT_NEAR(loss_of(text(settings), shapes, inputs), ratios, 1e-15) << settings;
  Bench bench(text("margin: 0.5"), shapes, 1);
  for (std::size_t i = 0; i < inputs.size(); ++i) bench.set_input(i, inputs[i]);
  bench.forward();
  bench.backward(Values{2});
  EXPECT_FALSE(bench.layer().traits().differentiable(1));
  expect_near(bench.input_gradient(),
              {-(1 + 1.0 / 9) + 1 / 3.0, 1 + 1.0 / 9, 0, -1 / 3.0,  //
               -(1 + 4.0 / 9) - 2 / 3.0, 1 + 4.0 / 9, 2 / 3.0, 0},
              1e-15);
  EXPECT_EQ(loss_of(text(""), {Shape{0, 3}, Shape{0}}, {{}, {}}), 0);
}

/// An earlier version adds the pairs only if it is asked to.
TEST(TripletLoss, OfSetsWithoutTheirPairs) {
  const std::vector<Shape> shapes{Shape{8, 1}, Shape{8}};
  const std::vector<Values> inputs{{0, 1, 2, 0.5, 1, 2, 0, 5}, Values(8, 7)};
  const std::string start = "type: 'TripletLoss' triplet_loss_param { num_negatives: 2 margin: 0.5 ";
  const double pairs = (1 + 1) / 4.0, ratios = ((1 - 0.25 / 1.5) + (1 - 1 / 1.5)) / 4;
  EXPECT_NEAR(loss_of(start + "}", shapes, inputs), ratios, 1e-15);
  EXPECT_NEAR(loss_of(start + "use_pair: 1 }", shapes, inputs), ratios + pairs, 1e-15);
  Bench bench(start + "}", shapes, 1);
  for (std::size_t i = 0; i < inputs.size(); ++i) bench.set_input(i, inputs[i]);
  bench.forward();
  bench.backward(Values{2});
  expect_near(bench.input_gradient(),
              {-1 / 9.0 + 1 / 3.0, 1 / 9.0, 0, -1 / 3.0, -4 / 9.0 - 2 / 3.0, 4 / 9.0, 2 / 3.0, 0}, 1e-15);
}

TEST(TripletLoss, RefusesPartsOfSets) {
  const Shape ten{10, 2}, labels{10};
  const auto found = [](const std::string& settings, const std::vector<Shape>& shapes) {
    return refusal("type: 'TripletLoss' triplet_loss_param { " + settings + " }", shapes);
  };
  EXPECT_EQ(found("", {ten, labels}), "accepted");  // 3 negatives
  const auto expect_part = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect_part(
      found("num_triplets: 2", {ten, labels}),
      "with num_triplets: 2 a set has 4 samples, an anchor, a positive and negatives; the whole batch "
      "has 10, which is no multiple");
  expect_part(found("", {ten, ten}), "anchors, positives and negatives are three bottoms");
  expect_part(found("num_triplets: 0", {ten, labels}), "must be 1 to 1048576; found 0");
  expect_part(found("losstype: 2", {ten, labels}), "with two bottoms losstype must be 0 or 1; found 2");
  expect_part(found("margin: 0", {ten, labels}), "losstype: 1 divides by");
  EXPECT_EQ(found("margin: 0 losstype: 0", {ten, labels}), "accepted");
  expect_part(found("", {ten, Shape{5}}), "same batch");
  expect_part(found("num_triplets: 3", {ten, ten, ten}), "num_triplets is for two bottoms");
  expect_part(found("use_pair: 1", {ten, ten, ten}), "use_pair is for two bottoms");
  expect_part(found("num_triplets: 3 num_negatives: 3", {ten, labels}), "does not go with num_negatives");
  expect_part(found("num_negatives: 2", {ten, labels}), "with num_negatives: 2 a set has 4 samples");
  expect_part(found("use_pair: 2", {ten, labels}), "use_pair must be 0 or 1");
  BenchOptions options;
  options.devices = 2;  // a share may be a part of a set
  Bench share("type: 'TripletLoss'", {Shape{7, 2}, Shape{7}}, 1, options);
  EXPECT_THROW(share.forward(), Error);
}

/// x - 0.5 is 0.5, -0.25, 0 and 1 in two samples of two values.
TEST(BinaryCodes, AreDrawnAwayFromTheMiddleWhichIsTheirMean) {
  const Shape shape{2, 2};
  const Values x{1, 0.25, 0.5, 1.5};
  for (const int inputs : {1, 2}) {
    const auto run = [&](const std::string& type) {
      Bench bench("type: '" + type + "'", std::vector<Shape>(static_cast<std::size_t>(inputs), shape), 1);
      bench.set_input(0, x);
      if (inputs == 2) bench.set_input(1, {9, 9, 9, 9});
      bench.forward();
      bench.backward(Values{3});
      if (inputs == 2) {
        Values negative = bench.input_gradient(0);
        for (double& value : negative) value = -value;
        expect_near(bench.input_gradient(1), negative, 1e-15, type);
      }
      return std::pair(bench.output()[0], bench.input_gradient(0));
    };
    const auto [away, from_middle] = run("K1_EuclideanLoss");
    EXPECT_NEAR(away, -(0.25 + 0.0625 + 1) / (2 * 4 * 2), 1e-15);
    expect_near(from_middle, {-3 * 0.5 / 8, 3 * 0.25 / 8, 0, -3.0 / 8}, 1e-15);
    const auto [off, to_middle] = run("K2_EuclideanLoss");
    const double mean = 1.25 / 4;
    EXPECT_NEAR(off, mean * mean / (2 * 2), 1e-15);
    expect_near(to_middle, Values(4, 3 * mean / (4 * 2)), 1e-15);
  }
  EXPECT_EQ(loss_of("type: 'K2_EuclideanLoss'", {Shape{0, 2}}, {{}}), 0);
}

/// The branch's gradient; the third input has no effect.
TEST(EuclideanLossHeatmap, IsHalfTheSumOfTheSquaresWhoseGradientTheBranchHas) {
  const std::vector<std::pair<const char*, double>> divisors{{"", 1},
                                                             {"loss_param { normalization: BATCH_SIZE }", 2},
                                                             {"loss_param { normalization: FULL }", 4},
                                                             {"loss_param { normalize: true }", 4}};
  for (const auto& [settings, divisor] : divisors)
    for (const std::size_t inputs : {2u, 3u}) {
      std::vector<Shape> shapes{Shape{2, 1, 2, 1}, Shape{2, 1, 2, 1}};
      if (inputs == 3) shapes.push_back(Shape{2, 3, 8, 8});
      Bench bench(std::string("type: 'EuclideanLossHeatmap' ") + settings, shapes, 1);
      bench.set_input(0, {1, 2, 3, 4});
      bench.set_input(1, {0, 4, 3, 5});
      bench.forward();
      expect_near(bench.output(), {(1 + 4 + 1) / 2.0 / divisor}, 1e-15, settings);
      bench.backward(Values{3});
      expect_near(bench.input_gradient(0), {3 / divisor, -6 / divisor, 0, -3 / divisor}, 1e-15, settings);
      expect_near(bench.input_gradient(1), {-3 / divisor, 6 / divisor, 0, 3 / divisor}, 1e-15, settings);
      EXPECT_FALSE(bench.layer().traits().differentiable(2));
    }
}

TEST(TripletLoss, SurvivesLargeDistances) {
  const std::vector<Shape> shapes(3, Shape{1, 1});
  const std::string text = "type: 'TripletLoss' triplet_loss_param { losstype: 2 }";
  EXPECT_EQ(loss_of(text, shapes, {{0}, {100}, {1}}), 0.5);  // e^1 / e^10000 is nothing
  EXPECT_EQ(loss_of(text, shapes, {{0}, {1}, {100}}), 0);
}

TEST(TripletLoss, RefusesWhatItCannotTake) {
  const std::vector<Shape> shapes(3, Shape{2, 2});
  for (const auto& [settings, message] : std::vector<std::pair<std::string, std::string>>{
           {"losstype: 3", "losstype must be 0, 1 or 2; found 3"},
           {"losstype: 1 margin: 0", "which must be positive; found 0"}})
    EXPECT_NE(refusal("type: 'TripletLoss' triplet_loss_param { " + settings + " }", shapes).find(message),
              std::string::npos)
        << message;
}

TEST(Losses, NameLabelsOutOfRange) {
  for (const std::string type : {"HingeLoss", "MultinomialLogisticLoss", "InfogainLoss"}) {
    std::vector<Shape> shapes{Shape{4, 3}, Shape{4}};
    if (type == "InfogainLoss") shapes.push_back(Shape{3, 3});
    Bench bench(cat("type: '", type, "'"), shapes, 1);
    for (std::size_t i = 0; i < shapes.size(); ++i) bench.set_input(i, spread_values(shapes[i].count(), 1));
    bench.set_input(1, {0, 1, 3, 2});
    bench.forward();
    bench.backward(Values{1});
    const Values gradient = bench.input_gradient();
    EXPECT_EQ(Values(gradient.begin() + 6, gradient.begin() + 9), Values(3, 0)) << type;
    try {
      bench.layer().check_results(bench.context());
      ADD_FAILURE() << type;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("label 3 of sample 2"), std::string::npos) << error.message();
    }
  }
}

TEST(Losses, RefuseWhatDoesNotFit) {
  const Shape two{2, 3}, three{3, 3};
  struct Refused {
    std::string text;
    std::vector<Shape> inputs;
    std::string part;
  };
  for (const Refused& tested : std::vector<Refused>{
           {"type: 'SigmoidCrossEntropyLoss'", {two, three}, "same batch"},
           {"type: 'SigmoidCrossEntropyLoss' loss_param { label_smoothing: 0.1 }",
            {two, two},
            "label_smoothing"},
           {"type: 'SigmoidCrossEntropyLoss' loss_param { thresh_ratio: 0.5 }", {two, two}, "thresh_ratio"},
           {"type: 'SmoothL1Loss'", {two, two, three}, "same batch"},
           {smooth("sigma: 0"), {two, two}, "sigma"},
           {"type: 'HingeLoss'", {two, Shape{3}}, "one label"},
           {"type: 'MultinomialLogisticLoss'", {two, two}, "one label"},
           {"type: 'InfogainLoss'", {two, Shape{2}}, "source"},
           {"type: 'InfogainLoss'", {two, Shape{2}, Shape{3, 2}}, "3 x 3"},
           {"type: 'InfogainLoss' loss_param { normalize: true }", {two, Shape{2}, three}, "normalize"},
           {"type: 'InfogainLoss' loss_param { label_smoothing: 0.1 }",
            {two, Shape{2}, three},
            "label_smoothing"},
           {weighted("1, 2", ""), {two, Shape{2}}, "one class_weighting for each of the 3 classes; found 2"},
           {"type: 'SoftmaxWithLoss' loss_param { weight_by_label_freqs: true }",
            {two, Shape{2}},
            "for each of the 3 classes; found 0"},
           {weighted("1, -2, 1", ""), {two, Shape{2}}, "not negative; found -2"},
           {"type: 'SoftmaxWithLoss' loss_param { thresh_ratio: -0.1 }",
            {two, Shape{2}},
            "thresh_ratio must not"},
           {weighted("1, inf, 1", ""), {two, Shape{2}}, "must be finite"},
           {"type: 'InfogainLoss' loss_param { thresh_ratio: 0.5 }", {two, Shape{2}, three}, "thresh_ratio"},
           {"type: 'InfogainLoss' infogain_loss_param { source: 'missing' }", {two, Shape{2}}, "missing"},
           {"type: 'ContrastiveLoss'", {two, two, Shape{3}}, "one number"},
           {"type: 'ContrastiveLoss'", {two, two, Shape{2}, Shape{3}}, "one number"},
           {"type: 'K1_EuclideanLoss'", {two, three}, "same batch"},
           {"type: 'EuclideanLossHeatmap'", {Shape{2, 3, 1}, Shape{2, 1, 3}}, "must have one shape"},
           {"type: 'TripletLoss'", {two, two, three}, "one shape"}}) {
    try {
      Bench bench(tested.text, tested.inputs, 1);
      ADD_FAILURE() << "accepted: " << tested.text;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(tested.part), std::string::npos) << error.message();
    }
  }
  for (const auto& [type, inputs] : std::vector<std::pair<std::string, std::vector<Shape>>>{
           {"InfogainLoss", {two, Shape{2}, three}},
           {"SoftmaxWithLossOHEM", {two, Shape{2}}},
           {"HingeLoss", {two, Shape{2}}},
           {"MultinomialLogisticLoss", {two, Shape{2}}},
           {"SigmoidCrossEntropyLoss", {two, two}},
           {"EuclideanLoss", {two, two}},
           {"L1Loss", {two, two}},
           {"SmoothL1Loss", {two, two}},
           {"SmoothL1LossOHEM", {Shape{2, 3, 1, 1}, Shape{2, 3, 1, 1}, Shape{2, 3, 1, 1}}},
           {"ContrastiveLoss", {two, two, Shape{2}}},
           {"TripletLoss", {two, two, two}},
           {"CenterLoss", {two, Shape{2}}},
           {"CenterCosLoss", {two, Shape{2}}}})
    EXPECT_NE(refusal("type: '" + type + "' loss_param { weight_by_label_freqs: true }", inputs)
                  .find("weight_by_label_freqs (SegNet) is a setting of SoftmaxWithLoss only"),
              std::string::npos)
        << type;
}

}  // namespace
}  // namespace banyan::testing
