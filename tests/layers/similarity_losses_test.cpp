// CORALLoss, DiceCoefLoss, CosineLoss, LiftedStructSimilaritySoftmaxLoss, DoubleMarginContrastiveLoss: values
// and gradients against closed forms, refusals. (loss_cases.hpp has the gradients of the first four, Replicas
// has them on several devices.)
#include <gmock/gmock.h>

#include "layers/gradient_case.hpp"

namespace banyan::testing {
namespace {

using ::testing::HasSubstr;

TEST(CORALLoss, ComparesTheCovariances) {
  Bench bench("type: 'CORALLoss'", {Shape{2, 2}, Shape{3, 2}}, 1);
  bench.set_input(0, {0, 0, 2, 4});  // less their mean: -(1, 2) and (1, 2)
  bench.set_input(1, {1, 0, 1, 0, 1, 0});
  bench.forward();
  EXPECT_DOUBLE_EQ(bench.output()[0], (4 + 16 + 16 + 64) / 16.0);
  bench.backward(Values{3});
  expect_near(bench.input_gradient(0), {-7.5, -15, 7.5, 15}, 1e-15);
  EXPECT_EQ(bench.input_gradient(1), Values(6, 0));
}

TEST(CORALLoss, OfOneSampleIsZero) {
  Bench bench("type: 'CORALLoss'", {Shape{1, 2}, Shape{3, 2}}, 1);
  bench.set_input(0, {3, 4});
  bench.set_input(1, {1, 2, 3, 4, 5, 7});
  bench.forward();
  EXPECT_EQ(bench.output(), Values{0});
  bench.backward(Values{3});
  EXPECT_EQ(bench.input_gradient(0), Values(2, 0));
  EXPECT_EQ(bench.input_gradient(1), Values(6, 0));
}

TEST(CORALLoss, RefusesOtherSamples) {
  EXPECT_THAT(refusal("type: 'CORALLoss'", {Shape{4, 2}, Shape{4, 3}}),
              HasSubstr("samples of source and target must have the same count"));
}

TEST(DiceCoefLoss, IsTheSumWhoseGradientTheBranchHas) {
  for (const bool mean : {false, true}) {
    Bench bench(cat("type: 'DiceCoefLoss'", mean ? " loss_param { normalization: BATCH_SIZE }" : ""),
                {Shape{2, 2}, Shape{2, 1, 2}}, 1);
    bench.set_input(0, {1, 0, 1, 1});
    bench.set_input(1, {1, 1, 0, 0});
    bench.forward();
    const double by = mean ? 2 : 1;
    // 3/4 and 1/3.
    expect_near(bench.output(), {11.0 / 12 / by}, 1e-15);
    bench.backward(Values{3});
    expect_near(bench.input_gradient(0), {-0.375 / by, -1.5 / by, 2 / 3.0 / by, 2 / 3.0 / by}, 1e-15);
    expect_near(bench.input_gradient(1), {-0.375 / by, 1.125 / by, -2 / by, -2 / by}, 1e-15);
  }
}

TEST(CosineLoss, IsTheMeanOverTheVectors) {
  Bench bench("type: 'CosineLoss'", {Shape{2, 2}, Shape{2, 2}}, 1);
  bench.set_input(0, {3, 4, 1, 0});
  bench.set_input(1, {4, 3, 0, 0});
  bench.forward();
  expect_near(bench.output(), {(0.04 + 1) / 2}, 1e-15);
  bench.backward(Values{2});
  // -(b / (|a| |b|) - a cos / |a|^2); nothing of a vector without a length.
  expect_near(bench.input_gradient(0), {-(0.16 - 3 * 0.96 / 25), -(0.12 - 4 * 0.96 / 25), 0, 0}, 1e-15);
  expect_near(bench.input_gradient(1), {-(0.12 - 4 * 0.96 / 25), -(0.16 - 3 * 0.96 / 25), 0, 0}, 1e-15);
}

TEST(CosineLoss, AlongAnAxisAndBySamples) {
  const auto loss = [&](const std::string& settings) {
    Bench bench("type: 'CosineLoss' " + settings, {Shape{1, 2, 2}, Shape{1, 2, 2}}, 1);
    bench.set_input(0, {3, 1, 4, 0});
    bench.set_input(1, {4, 0, 3, 1});
    bench.forward();
    return bench.output().at(0);
  };
  EXPECT_NEAR(loss(""), (0.04 + 1) / 2, 1e-15);  // (3, 4) with (4, 3), (1, 0) with (0, 1)
  EXPECT_NEAR(loss("loss_param { normalization: BATCH_SIZE }"), 1.04, 1e-15);
  EXPECT_NEAR(loss("cosine_loss_param { axis: -1 }"), (2 - 3 / std::sqrt(10) - 3 / std::sqrt(10)) / 2, 1e-15);
  EXPECT_THAT(refusal("type: 'CosineLoss' cosine_loss_param { axis: 0 }", {Shape{2, 2}, Shape{2, 2}}),
              HasSubstr("axis must not be 0"));
  EXPECT_THAT(refusal("type: 'CosineLoss'", {Shape{4, 3, 2}, Shape{4, 2, 3}}),
              HasSubstr("expected two blobs whose vectors are as many and as long"));
  EXPECT_THAT(refusal("type: 'CosineLoss'", {Shape{2, 2}, Shape{2, 3}}),
              HasSubstr("expected two blobs whose vectors are as many and as long"));
}

TEST(LiftedStructSimilaritySoftmaxLoss, IsHalfTheMeanOfTheSquaresOverPairs) {
  Bench bench("type: 'LiftedStructSimilaritySoftmaxLoss'", {Shape{3, 1}, Shape{3}}, 1);
  bench.set_input(0, {0, 1, 3});
  bench.set_input(1, {0, 0, 1});
  bench.forward();
  const double sum = std::exp(-2) + std::exp(-1), first = std::exp(-2) / sum, second = std::exp(-1) / sum;
  const double value = 1 + std::log(sum);
  expect_near(bench.output(), {value * value / 2}, 1e-15);
  bench.backward(Values{2});
  expect_near(bench.input_gradient(), {2 * value * (first - 1), 2 * value * (1 + second), -2 * value}, 1e-14);
}

TEST(LiftedStructSimilaritySoftmaxLoss, WithoutPairsOthersOrDistancesIsFinite) {
  Bench bench("type: 'LiftedStructSimilaritySoftmaxLoss'", {Shape{3, 1}, Shape{3}}, 1);
  const auto loss = [&](const Values& x, const Values& labels) {
    bench.set_input(0, x);
    bench.set_input(1, labels);
    bench.forward();
    bench.backward(Values{1});
    return bench.output().at(0);
  };
  EXPECT_EQ(loss({0, 1, 3}, {0, 1, 2}), 0);
  EXPECT_EQ(bench.input_gradient(), Values(3, 0));
  EXPECT_EQ(loss({0, 1, 3}, {4, 4, 4}), 0);
  EXPECT_EQ(bench.input_gradient(), Values(3, 0));
  // All at one place: J is margin + log(2).
  EXPECT_NEAR(loss({1, 1, 1}, {0, 0, 1}), std::pow(1 + std::log(2), 2) / 2, 1e-15);
  EXPECT_EQ(bench.input_gradient(), Values(3, 0));
  EXPECT_TRUE(std::isnan(loss({0, std::nan(""), 3}, {0, 0, 1})));
  EXPECT_THAT(refusal("type: 'LiftedStructSimilaritySoftmaxLoss'", {Shape{3, 1}, Shape{1, 3}}),
              HasSubstr("one label for each sample"));
  EXPECT_THAT(refusal("type: 'LiftedStructSimilaritySoftmaxLoss'", {Shape{3, 1}, Shape{2}}),
              HasSubstr("expected one label for each sample"));
}

TEST(DoubleMarginContrastiveLoss, HasAMarginForEitherKindOfPair) {
  Bench bench(
      "type: 'DoubleMarginContrastiveLoss' double_margin_contrastive_loss_param { margin_gen: 2 margin_imp: "
      "4 "
      "}",
      {Shape{3, 2}, Shape{3, 2}, Shape{3}}, 1);
  bench.set_input(0, {3, 4, 1, 0, 0, 1});
  bench.set_input(1, {0, 0, 0, 0, 0, 0});
  bench.set_input(2, {1, 0, 1});
  bench.forward();
  expect_near(bench.output(), {(9 + 9) / 6.0}, 1e-15);
  bench.backward(Values{3});
  const double near = 3 / (5 + 1e-4), far = -3 / (1 + 1e-4);
  expect_near(bench.input_gradient(0), {3 * near, 4 * near, far, 0, 0, 0}, 1e-15);
  expect_near(bench.input_gradient(1), {-3 * near, -4 * near, -far, 0, 0, 0}, 1e-15);
}

TEST(DoubleMarginContrastiveLoss, RefusesWhatIsNotGiven) {
  const std::vector<Shape> shapes{Shape{3, 2}, Shape{3, 2}, Shape{3}};
  const auto refused = [&](const std::string& settings) {
    return refusal(
        "type: 'DoubleMarginContrastiveLoss' double_margin_contrastive_loss_param { " + settings + "}",
        shapes);
  };
  EXPECT_THAT(refused("margin_gen: 2 "), HasSubstr("needs margin_gen and margin_imp"));
  EXPECT_THAT(refused("margin_gen: -2 margin_imp: 1 "), HasSubstr("margin_gen must not be negative"));
}

}  // namespace
}  // namespace banyan::testing
