// GlobalLSEMargin: outputs, statistics and margins against closed forms, gradients with the margin as a
// constant, when the margin stays, several devices.
#include <gmock/gmock.h>

#include "layers/fake_exchange.hpp"
#include "layers/gradient_checker.hpp"

namespace banyan::testing {
namespace {

using ::testing::HasSubstr;

std::string lse_margin(const std::string& settings = "") {
  return "type: 'GlobalLSEMargin' scale_param { " + settings + " }";
}

BenchOptions of_a_test() {
  BenchOptions options;
  options.phase = Phase::test;
  return options;
}

TEST(GlobalLSEMargin, SubtractsHowFarLabelsAreAboveTheOthers) {
  Bench bench(lse_margin("filler { value: 2 }"), {Shape{2, 3}, Shape{2}}, 2);
  bench.set_input(0, {0.9, 0.1, 0.3, 0.2, 0.8, -0.5});
  bench.set_input(1, {0, 1});
  bench.forward();
  const double first = std::log(std::exp(0.2) + std::exp(0.6)) / 2;
  const double second = std::log(std::exp(0.4) + std::exp(-1)) / 2;
  // 0.34 and 0.49: both are within 0.1 of their mean.
  const double m = (0.9 - first + 0.8 - second) / 2;
  expect_near(bench.parameter(1), {m}, 1e-15);
  expect_near(bench.output(0), {2 * (0.9 - m), 0.2, 0.6, 0.4, 2 * (0.8 - m), -1}, 1e-15);
  expect_near(bench.output(1), {2, 0.85, (first + second) / 2, 0.25, m}, 1e-15);

  bench.set_input(1, {1, 2});
  bench.forward();
  const double third = std::log(std::exp(1.8) + std::exp(0.6)) / 2;
  const double fourth = std::log(std::exp(0.4) + std::exp(1.6)) / 2;
  // -0.93 and -1.43: none is within 0.1 of the margin, nor of their mean.
  const double moved = 0.9 * m + 0.1 * (0.1 - third - 0.5 - fourth) / 2;
  expect_near(bench.parameter(1), {moved}, 1e-15);
  expect_near(bench.output(0), {1.8, 2 * (0.1 - moved), 0.6, 0.4, 1.6, 2 * (-0.5 - moved)}, 1e-15);
  expect_near(bench.output(1), {2, -0.2, (third + fourth) / 2, 0.85, moved}, 1e-15);
}

/// Of two classes lse is the other one's cosine, here 0.
struct Differences : Bench {
  explicit Differences(const BenchOptions& options = {})
      : Bench(lse_margin(), {Shape{5, 2}, Shape{5}}, 2, options) {
    set_input(1, Values(5, 0));
  }
  void forward_of(const Values& differences) {
    Values x;
    for (const double d : differences) x.insert(x.end(), {d, 0});
    set_input(0, x);
    forward();
  }
  double margin_after(const Values& differences) {
    forward_of(differences);
    return parameter(1)[0];
  }
};

TEST(GlobalLSEMargin, FollowsTheMeanOfTheDifferencesNearby) {
  Differences bench;
  // The mean is 0.5, that of the two near it 0.46, near which are the same two.
  EXPECT_NEAR(bench.margin_after({0.3, 0.33, 0.42, 0.5, 0.95}), 0.46, 1e-15);
  // 0.4 and 0.55 are near.
  EXPECT_NEAR(bench.margin_after({0.4, 0.55, 0.9, -0.2, 0.1}), 0.9 * 0.46 + 0.1 * 0.475, 1e-15);
  // None is: the mean is 0.04, and near it is 0.1.
  const double before = bench.parameter(1)[0];
  EXPECT_NEAR(bench.margin_after({0.1, -0.9, 0.9, -0.8, 0.9}), 0.9 * before + 0.1 * 0.1, 1e-15);
  // Of any others, what is no number counts for nothing.
  bench.set_parameter(1, {0.5});
  EXPECT_NEAR(bench.margin_after({0.52, 0.54, std::nan(""), 3, 3}), 0.9 * 0.5 + 0.1 * 0.53, 1e-15);
  const double now = bench.parameter(1)[0];
  EXPECT_EQ(bench.margin_after(Values(5, std::nan(""))), now);
}

TEST(GlobalLSEMargin, BeginsWithTheMeanStepByStep) {
  Differences bench;
  // Three are near the mean, 0.3, and the same three near theirs.
  const double mean = (0.3 + 0.38 + 0.24) / 3;
  EXPECT_NEAR(bench.margin_after({0.3, 0.38, 0.24, -0.1, 0.68}), mean, 1e-15);
  // Nothing is near the mean of all.
  bench.set_parameter(1, {0});
  EXPECT_NEAR(bench.margin_after({-1, -1, 1, 1, 1}), 0.2, 1e-15);
}

TEST(GlobalLSEMargin, IsNotSubtractedBelowZero) {
  Differences bench;
  EXPECT_NEAR(bench.margin_after(Values(5, -0.2)), -0.2, 1e-15);
  expect_near(bench.output(0), {-6, 0, -6, 0, -6, 0, -6, 0, -6, 0}, 1e-15);  // s is 30
  EXPECT_NEAR(bench.output(1)[4], -0.2, 1e-15);
}

TEST(GlobalLSEMargin, StaysInTestsAndAfterPassesWithoutATrace) {
  Differences tested(of_a_test()), untraced;
  tested.set_parameter(1, {0.25});
  EXPECT_EQ(tested.margin_after(Values(5, 0.5)), 0.25);
  expect_near(tested.output(0), {7.5, 0, 7.5, 0, 7.5, 0, 7.5, 0, 7.5, 0}, 1e-14);
  expect_near(tested.output(1), {30, 0.5, 0, 0, 0.25}, 1e-15);
  tested.set_parameter(1, {0});
  EXPECT_EQ(tested.margin_after(Values(5, 0.5)), 0);
  expect_near(tested.output(0), {15, 0, 15, 0, 15, 0, 15, 0, 15, 0}, 1e-14);
  untraced.pass.update_statistics = false;
  EXPECT_EQ(untraced.margin_after(Values(5, 0.5)), 0);
  expect_near(untraced.output(0), Values(10, 0), 1e-14);  // as if it had one
}

TEST(GlobalLSEMargin, HoldsItsFactorWithinLimits) {
  const auto factor = [](const std::string& settings) {
    Bench bench(lse_margin(settings), {Shape{1, 2}, Shape{1}}, 2, of_a_test());
    bench.set_input(0, {0.5, 1});
    bench.set_input(1, {0});
    const Values before = bench.parameter(0);
    bench.forward();
    const Parameter& s = bench.layer().parameters()[0];
    EXPECT_TRUE(s.adjusted);
    EXPECT_EQ(s.decay_mult, 0);
    EXPECT_EQ(get_values(bench.context(), s.used), Values{bench.output(1)[0]});
    EXPECT_EQ(bench.parameter(0), before);
    EXPECT_EQ(bench.output(0)[1], bench.output(1)[0]);
    return bench.output(1)[0];
  };
  EXPECT_EQ(factor(""), 30);
  EXPECT_EQ(factor("filler { value: 8 }"), 8);
  EXPECT_EQ(factor("filler { value: 8 } max_value: 4"), 4);
  EXPECT_EQ(factor("filler { value: 8 } min_value: 16 max_value: 64"), 16);
  EXPECT_EQ(factor("filler { value: -8 }"), 0);
  Bench decays(lse_margin() + " param { lr_mult: 1 }", {Shape{1, 2}, Shape{1}}, 1);
  EXPECT_EQ(decays.layer().parameters()[0].decay_mult, 1);
}

TEST(GlobalLSEMargin, TakesNormsInPlaceOfItsFactor) {
  Bench bench(lse_margin(), {Shape{2, 2}, Shape{2}, Shape{2, 1}}, 2);
  bench.set_input(0, {0.5, 0.25, 0.75, 1});
  bench.set_input(1, {0, 1});
  bench.set_input(2, {2, 4});
  bench.forward();
  expect_near(bench.output(0), {0.5, 0.5, 3, 3}, 1e-15);  // m is 0.25
  expect_near(bench.output(1), {3, 0.75, 0.5, 0.5, 0.25}, 1e-15);
  bench.backward({Values{1, 10, 100, 1000}, Values(5, 7)});
  expect_near(bench.input_gradient(0), {2, 20, 400, 4000}, 1e-15);
  expect_near(bench.input_gradient(2), {0.25 + 2.5, 75 + 750}, 1e-15);
  EXPECT_FALSE(bench.layer().parameters()[0].grad.defined());
  bench.set_input(2, {0, 0});  // no length, no gradient of the cosines
  bench.forward();
  bench.backward({Values{1, 10, 100, 1000}, Values(5, 7)});
  EXPECT_EQ(bench.output(0), Values(4, 0));
  EXPECT_EQ(bench.input_gradient(0), Values(4, 0));
  expect_near(bench.input_gradient(2), {0.25 + 2.5, 75 + 750}, 1e-15);
}

/// A test's margin is a constant.
TEST(GlobalLSEMargin, HasTheGradientsOfItsOutputForAConstantMargin) {
  for (const bool norms : {false, true}) {
    std::vector<Shape> shapes{Shape{4, 3, 2}, Shape{4}};
    if (norms) shapes.push_back(Shape{4, 1});
    Bench bench(lse_margin(), shapes, 1, of_a_test());
    bench.set_input(0, spread_values(24, 1));
    bench.set_input(1, {0, 5, 2, 2});
    if (norms) bench.set_input(2, {0.5, 3, 1, 7});
    bench.set_parameter(0, {3});
    bench.set_parameter(1, {0.3});
    GradientChecker(bench).run();
  }
}

/// As in the branch: in training the margin depends on the cosines, but its gradient is not theirs.
TEST(GlobalLSEMargin, TakesItsMarginForAConstantInTraining) {
  const std::vector<Shape> shapes{Shape{4, 3}, Shape{4}};
  const Values x{0.9, 0.1, 0.3, 0.2, 0.8, -0.5, 0.1, 0.2, 0.7, 0.6, 0, 0.1}, dy = spread_values(12, 2);
  Bench trained(lse_margin("filler { value: 2 }"), shapes, 1);
  Bench tested(lse_margin("filler { value: 2 }"), shapes, 1, of_a_test());
  trained.set_parameter(1, {0.3});
  for (Bench* bench : {&trained, &tested}) {
    bench->set_input(0, x);
    bench->set_input(1, {0, 1, 2, 0});
    if (bench == &tested) tested.set_parameter(1, trained.parameter(1));
    bench->forward();
    bench->backward(dy);
  }
  EXPECT_GT(trained.parameter(1)[0], 0);
  EXPECT_NE(trained.parameter(1)[0], 0.3);
  EXPECT_EQ(trained.output(), tested.output());
  EXPECT_EQ(trained.input_gradient(), tested.input_gradient());
  EXPECT_EQ(trained.parameter_gradient(0), tested.parameter_gradient(0));
  Values twice;
  for (const double value : dy) twice.push_back(2 * value);
  expect_near(trained.input_gradient(), twice, 1e-15);
}

TEST(GlobalLSEMargin, WorksInPlace) {
  BenchOptions in_place;
  in_place.in_place = true;
  Bench bench(lse_margin("filler { value: 4 }"), {Shape{1, 2}, Shape{1}}, 1, in_place);
  bench.set_input(0, {0.75, 0.25});
  bench.set_input(1, {0});
  bench.forward();
  expect_near(bench.output(), {1, 1}, 1e-15);
}

TEST(GlobalLSEMargin, KeepsItsMarginWithoutSamples) {
  Bench bench(lse_margin(), {Shape{0, 3}, Shape{0}}, 2);
  bench.set_parameter(1, {0.25});
  bench.forward();
  EXPECT_EQ(bench.parameter(1), Values{0.25});
  EXPECT_EQ(bench.output(1), (Values{30, 0, 0, 0, 0.25}));
  bench.backward({Values(), Values(5, 1)});
  EXPECT_EQ(bench.parameter_gradient(0), Values{0});
}

TEST(GlobalLSEMargin, FollowsTheBatchOfAllDevices) {
  const std::int64_t total = 8, classes = 3;
  const Values x = spread_values(total * classes, 1), norms{1, 2, 3, 4, 5, 6, 7, 8},
               labels{0, 2, 1, 1, 0, 2, 2, 0}, dy = spread_values(total * classes, 2);
  struct Part {
    Values y, shown, margin, dx, gradient;
  };
  for (const bool with_norms : {false, true}) {
    const auto shapes = [&](std::int64_t batch) {
      std::vector<Shape> all{Shape{batch, classes}, Shape{batch}};
      if (with_norms) all.push_back(Shape{batch});
      return all;
    };
    const auto run = [&](Bench& bench) {
      const auto [first, stride] = bench.pass.samples;
      Values own, own_labels, own_norms, slopes;
      for (std::int64_t i = first; i < total; i += stride) {
        own.insert(own.end(), x.begin() + i * classes, x.begin() + (i + 1) * classes);
        slopes.insert(slopes.end(), dy.begin() + i * classes, dy.begin() + (i + 1) * classes);
        own_labels.push_back(labels[i]);
        own_norms.push_back(norms[i]);
      }
      for (int pass = 0; pass < 3; ++pass) {
        bench.set_input(0, own);
        bench.set_input(1, own_labels);
        if (with_norms) bench.set_input(2, own_norms);
        bench.zero_parameter_gradients();
        bench.forward();
        bench.backward({slopes, Values(5, 1)});
      }
      return Part{bench.output(), bench.output(1), bench.parameter(1), bench.input_gradient(),
                  with_norms ? bench.input_gradient(2) : bench.parameter_gradient(0)};
    };
    const std::string text = lse_margin("filler { value: 5 }");
    Bench alone(text, shapes(total), 2);
    EXPECT_EQ(alone.layer().traits().shares, 0);
    const Part whole = run(alone);
    EXPECT_NE(whole.margin, Values{0});
    for (const int devices : {2, 3}) {
      const std::vector<Part> parts = run_dealt(text, 2, devices, total, shapes, run);
      double ds = 0;
      for (const Part& part : parts) {
        EXPECT_EQ(part.margin, whole.margin);
        EXPECT_EQ(part.shown, whole.shown);
        ds += part.gradient[0];
      }
      if (!with_norms) {
        EXPECT_NEAR(ds, whole.gradient[0], 1e-14);
      }
      for (std::int64_t i = 0; i < total; ++i) {
        const Part& part = parts[static_cast<std::size_t>(i % devices)];
        for (std::int64_t k = 0; k < classes; ++k) {
          EXPECT_EQ(part.y.at(i / devices * classes + k), whole.y[i * classes + k]);
          EXPECT_EQ(part.dx.at(i / devices * classes + k), whole.dx[i * classes + k]);
        }
        if (with_norms) {
          EXPECT_NEAR(part.gradient.at(i / devices), whole.gradient[i], 1e-15);
        }
      }
    }
  }
}

TEST(GlobalLSEMargin, RefusesWhatHasNoMeaning) {
  const std::vector<Shape> shapes{Shape{2, 3}, Shape{2}};
  EXPECT_THAT(refusal(lse_margin("min_value: 2 max_value: 1"), shapes),
              HasSubstr("min_value 2 exceeds max_value 1"));
  EXPECT_THAT(refusal(lse_margin(), {Shape{2, 3}, Shape{3}}),
              HasSubstr("expected one label for each sample"));
  EXPECT_THAT(refusal(lse_margin(), {shapes[0], shapes[1], Shape{3}}),
              HasSubstr("expected one norm for each of 2 samples"));
  Bench bench(lse_margin(), shapes, 1);
  bench.set_input(0, Values(6, 0.5));
  bench.set_input(1, {0, 3});
  bench.forward();
  EXPECT_THAT([&] { bench.layer().check_results(bench.context()); },
              ::testing::ThrowsMessage<Error>(HasSubstr("label 3 of sample 1 is out of range")));
}

TEST(GlobalLSEMargin, SaysWhatHasNoEffect) {
  ::testing::internal::CaptureStderr();
  const Bench bench(lse_margin("axis: 0 bias_term: true"), {Shape{2, 3}, Shape{2}}, 1);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("axis, num_axes, bias_term and bias_filler of scale_param have no effect"));
}

}  // namespace
}  // namespace banyan::testing
