// Every layer with every parameter variant against central differences, in f64.
#include "layers/layer_cases.hpp"

namespace banyan::testing {
namespace {

using namespace layer_cases;

class Gradient : public ::testing::TestWithParam<GradientCase> {};

TEST_P(Gradient, EqualsCentralDifferences) { check_gradients(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Layers, Gradient, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(BatchNormInTests, HasTheGradientOfConstantStatistics) {
  BenchOptions options;
  options.phase = Phase::test;
  for (const char* text :
       {"type: 'BN' bn_param { eps: 0.5 }",
        "type: 'BatchNorm' batch_norm_param { scale_bias: true eps: 0.5 }",
        "type: 'BatchNorm' batch_norm_param { engine: MKLDNN bias_term: false eps: 0.5 }"}) {
    Bench bench(text, {kSmall}, 1, options);
    bench.set_input(0, spread_values(kSmall.count(), 1));
    for (std::size_t p = 0; p < bench.layer().parameters().size(); ++p)
      if (bench.layer().parameters()[p].grad.defined()) bench.set_parameter(p, {1.5, -2, 0.5});
    GradientChecker(bench).run();
  }
}

TEST(ParameterLayer, IsItsParameterAndPassesTheGradientOn) {
  Bench bench("type: 'Parameter' parameter_param { shape { dim: 2 dim: 3 } }", {}, 1);
  bench.set_parameter(0, {1, 2, 3, 4, 5, 6});
  GradientChecker(bench).run();
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{1, 2, 3, 4, 5, 6}));
}

TEST(Silence, GivesZeroGradients) {
  Bench bench("type: 'Silence'", {kSmall, kSmall}, 0);
  set_values(bench.context(), bench.inputs[1]->grad, spread_values(kSmall.count(), 1));
  bench.forward();
  bench.backward(std::vector<Values>{});
  EXPECT_EQ(bench.input_gradient(1), Values(static_cast<std::size_t>(kSmall.count()), 0));
}

TEST(ParameterGradients, AreAddedTo) {
  for (const std::string& text :
       {conv("kernel_size: 3"), std::string("type: 'InnerProduct' inner_product_param { num_output: 2 }"),
        std::string("type: 'Scale' scale_param { bias_term: true }"), std::string("type: 'Bias'"),
        std::string("type: 'BN' bn_param { slope_filler { value: 1 } }")}) {
    Bench bench(text, {kImage}, 1);
    bench.set_input(0, spread_values(kImage.count(), 5));
    const Values weights = spread_values(bench.outputs[0]->shape.count(), 6);
    bench.forward();
    bench.backward(weights);
    const Values once = bench.parameter_gradient(0);
    bench.backward(weights);
    Values twice = once;
    for (double& value : twice) value *= 2;
    expect_near(bench.parameter_gradient(0), twice, 1e-12, text);  // rounding of f64
  }
}

}  // namespace
}  // namespace banyan::testing
