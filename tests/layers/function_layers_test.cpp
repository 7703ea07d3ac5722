// Layers that are a function of one element, and PReLU: values by their formulas, gradients, refusals.
#include "layers/function_cases.hpp"

namespace banyan::testing {
namespace {

using namespace function_cases;

class FunctionGradient : public ::testing::TestWithParam<GradientCase> {};

TEST_P(FunctionGradient, EqualsCentralDifferences) { check_gradients(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Layers, FunctionGradient, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

Values run(const std::string& text, const Values& x) {
  Bench bench(text, {Shape{static_cast<std::int64_t>(x.size())}}, 1);
  bench.set_input(0, x);
  bench.forward();
  return bench.output();
}

TEST(Power, FollowsItsFormula) {
  const Values x{-3, 0, 2};
  EXPECT_EQ(run("type: 'Power'", x), x);
  expect_near(run("type: 'Power' power_param { power: 3 scale: 2 shift: 1 }", x), {-125, 1, 125}, 1e-15);
  expect_near(run("type: 'Power' power_param { power: -2 scale: 0.5 shift: 2.5 }", x),
              {1, 1 / 6.25, 1 / 12.25}, 1e-15);
}

TEST(Power, IsAConstantWhateverItsInputHolds) {
  const double nan = std::nan("");
  EXPECT_EQ(run("type: 'Power' power_param { power: 0 scale: 2 }", {nan, 0, 7}), (Values{1, 1, 1}));
  EXPECT_EQ(run("type: 'Power' power_param { power: 2 scale: 0 shift: 3 }", {nan, 0, 7}), (Values{9, 9, 9}));
}

TEST(ExpAndLog, FollowTheirFormulas) {
  const Values x{-2, 0, 3};
  expect_near(run("type: 'Exp'", x), {std::exp(-2), 1, std::exp(3)}, 1e-15);
  expect_near(run("type: 'Exp' exp_param { base: 2 scale: 3 shift: 1 }", x), {std::pow(2, -5), 2, 1024},
              1e-14);
  expect_near(run("type: 'Log'", {0.5, 1, 8}), {std::log(0.5), 0, std::log(8)}, 1e-15);
  expect_near(run("type: 'Log' log_param { base: 2 scale: 2 shift: 4 }", {-1, 0, 14}), {1, 2, 5}, 1e-15);
  EXPECT_EQ(run("type: 'Log'", {0}), Values{-INFINITY});
}

TEST(OtherFunctions, FollowTheirFormulas) {
  const Values x{-800, -1, 0, 0.5, 800};
  EXPECT_EQ(run("type: 'AbsVal'", x), (Values{800, 1, 0, 0.5, 800}));
  expect_near(run("type: 'BNLL'", x),
              {0, std::log(1 + std::exp(-1)), std::log(2), std::log(1 + std::exp(0.5)), 800}, 1e-15);
  EXPECT_EQ(run("type: 'Clip' clip_param { min: -0.5 max: 2 }", x), (Values{-0.5, -0.5, 0, 0.5, 2}));
  expect_near(run("type: 'Swish'", x), {0, -1 / (1 + std::exp(1)), 0, 0.5 / (1 + std::exp(-0.5)), 800},
              1e-15);
  expect_near(run("type: 'Swish' swish_param { beta: 2 }", x),
              {0, -1 / (1 + std::exp(2)), 0, 0.5 / (1 + std::exp(-1)), 800}, 1e-15);
  EXPECT_EQ(run("type: 'Threshold'", x), (Values{0, 0, 0, 1, 1}));
  EXPECT_EQ(run("type: 'Threshold' threshold_param { threshold: 0.5 }", x), (Values{0, 0, 0, 0, 1}));
}

TEST(Functions, HaveCaffesGradientsAtTheirKinks) {
  const auto gradient = [](const std::string& text, const Values& x) {
    Bench bench(text, {Shape{static_cast<std::int64_t>(x.size())}}, 1);
    bench.set_input(0, x);
    bench.forward();
    bench.backward(Values(x.size(), 3));
    return bench.input_gradient();
  };
  EXPECT_EQ(gradient("type: 'AbsVal'", {-1, 0, 1}), (Values{-3, 0, 3}));
  EXPECT_EQ(gradient("type: 'Clip' clip_param { min: -1 max: 1 }", {-2, -1, 0, 1, 2}),
            (Values{0, 3, 3, 3, 0}));
  expect_near(gradient("type: 'BNLL'", {-800, 0, 800}), {0, 1.5, 3}, 1e-15);
  expect_near(gradient("type: 'Swish'", {-800, 0, 800}), {0, 1.5, 3}, 1e-15);
}

TEST(Threshold, HasNoGradient) {
  Bench bench("type: 'Threshold'", {Shape{3}}, 1);
  EXPECT_FALSE(bench.layer().traits().differentiable(0));
}

TEST(PRelu, HasASlopePerChannelOrOne) {
  Bench own("type: 'PReLU' prelu_param { filler { value: 0.5 } }", {Shape{1, 2, 2}}, 1);
  EXPECT_EQ(own.parameter(0), (Values{0.5, 0.5}));
  own.set_parameter(0, {0.5, -2});
  own.set_input(0, {-1, 3, -1, 0});
  own.forward();
  EXPECT_EQ(own.output(), (Values{-0.5, 3, 2, 0}));
  own.zero_parameter_gradients();
  own.backward({10, 100, 1000, 10000});
  EXPECT_EQ(own.input_gradient(), (Values{5, 100, -2000, -20000}));
  EXPECT_EQ(own.parameter_gradient(0), (Values{-10, -1000}));
  Bench shared("type: 'PReLU' prelu_param { channel_shared: true }", {Shape{1, 2, 2}}, 1);
  EXPECT_EQ(shared.layer().parameters()[0].shape, Shape());
  EXPECT_EQ(shared.parameter(0), Values{0.25});
  EXPECT_THROW(own.reshape({Shape{1, 3, 2}}), Error);
}

TEST(PRelu, AddsToItsSlopesGradient) {
  Bench bench("type: 'PReLU'", {Shape{2, 3, 2}}, 1);
  bench.set_input(0, spread_values(12, 1));
  bench.forward();
  bench.backward(spread_values(12, 2));
  Values once = bench.parameter_gradient(0);
  bench.backward(spread_values(12, 2));
  for (double& value : once) value *= 2;
  expect_near(bench.parameter_gradient(0), once, 1e-15);
}

TEST(FunctionSettings, AreRefusedWhereTheyMakeNoSense) {
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"type: 'Exp' exp_param { base: 0 }", "base must be positive"},
           {"type: 'Log' log_param { base: -2 }", "base must be positive"},
           {"type: 'Log' log_param { base: 1 }", "base 1"},
           {"type: 'Clip'", "both min and max"},
           {"type: 'Clip' clip_param { min: 2 max: 1 }", "exceeds"},
           {"type: 'PReLU'", "channels"}}) {
    try {
      Bench bench(text, {Shape{4}}, 1);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
  }
}

TEST(Pooling, TakesCeilModeForRoundMode) {
  const auto width = [](const std::string& settings) {
    Bench bench("type: 'Pooling' pooling_param { kernel_size: 2 stride: 2 " + settings + " }",
                {Shape{1, 1, 5, 5}}, 1);
    return bench.outputs[0]->shape[3];
  };
  EXPECT_EQ(width(""), 3);
  EXPECT_EQ(width("ceil_mode: true"), 3);
  EXPECT_EQ(width("ceil_mode: false"), 2);
  EXPECT_EQ(width("ceil_mode: false round_mode: FLOOR"), 2);
  EXPECT_EQ(width("ceil_mode: true round_mode: CEIL"), 3);
  EXPECT_THROW(width("ceil_mode: true round_mode: FLOOR"), Error);
  EXPECT_THROW(width("ceil_mode: false round_mode: CEIL"), Error);
}

}  // namespace
}  // namespace banyan::testing
