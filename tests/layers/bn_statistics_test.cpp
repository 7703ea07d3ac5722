// BN with three outputs (DeconvNet): the mean and the variance that it normalizes with.
#include "banyan/base/error.hpp"
#include "layers/gradient_checker.hpp"

namespace banyan::testing {
namespace {

constexpr const char* kShown =
    "type: 'BN' bn_param { scale_filler { value: 2 } shift_filler { value: 0.5 } }";

TEST(BnStatistics, AreShownBesideTheNormalizedValues) {
  for (const Phase phase : {Phase::train, Phase::test}) {
    BenchOptions options;
    options.phase = phase;
    Bench bench(kShown, {Shape{2, 2, 1, 2}}, 3, options);
    bench.set_input(0, {1, 2, 10, 10, 3, 6, 10, 14});
    bench.forward();
    EXPECT_EQ(bench.outputs[1]->shape, (Shape{1, 2, 1, 1}));
    EXPECT_EQ(bench.outputs[2]->shape, (Shape{1, 2, 1, 1}));
    EXPECT_EQ(bench.output(1), (Values{3, 11}));
    EXPECT_EQ(bench.output(2), (Values{3.5, 3}));
    const Values y = bench.output(0);
    const Values squares{3.5, 3};
    const double x[] = {1, 2, 10, 10, 3, 6, 10, 14};
    for (std::size_t i = 0; i < 8; ++i) {
      const std::size_t c = i / 2 % 2;
      EXPECT_NEAR(y[i], 2 * (x[i] - (c == 0 ? 3 : 11)) / std::sqrt(squares[c] + 1e-9) + 0.5, 1e-12);
    }
  }
}

TEST(BnStatistics, AreShownAgainWhenThePassIsRepeated) {
  Bench bench(kShown, {Shape{2, 2, 1, 2}}, 3);
  bench.set_input(0, {1, 2, 10, 10, 3, 6, 10, 14});
  bench.forward();
  for (std::size_t i = 1; i < 3; ++i) ops::fill(bench.context(), bench.outputs[i]->data, -1);
  bench.layer().recompute(bench.pass, bench.inputs, bench.outputs);
  EXPECT_EQ(bench.output(1), (Values{3, 11}));
  EXPECT_EQ(bench.output(2), (Values{3.5, 3}));
}

/// No gradient flows through the two: those of the other output are as without them.
TEST(BnStatistics, LeaveGradientsAsTheyAre) {
  const Shape shape{3, 2, 2, 2};
  Bench one(kShown, {shape}, 1), three(kShown, {shape}, 3);
  const Values x = spread_values(shape.count(), 1), dy = spread_values(shape.count(), 2);
  EXPECT_TRUE(three.layer().traits().differentiable_output(0));
  EXPECT_FALSE(three.layer().traits().differentiable_output(1));
  for (Bench* bench : {&one, &three}) {
    bench->set_input(0, x);
    bench->forward();
    bench->zero_parameter_gradients();
  }
  one.backward(dy);
  three.backward({dy, Values(2, 7), Values(2, 9)});
  EXPECT_EQ(three.input_gradient(), one.input_gradient());
  for (std::size_t p = 0; p < 2; ++p) EXPECT_EQ(three.parameter_gradient(p), one.parameter_gradient(p));
}

TEST(BnStatistics, AreThoseOfABatchOnly) {
  const auto most = [](const std::string& settings) {
    return make_layer(layer_from_text("type: 'BN' bn_param { " + settings + " }"), {})
        ->traits()
        .arity.max_outputs;
  };
  EXPECT_EQ(most("scale_filler { value: 1 }"), 3);
  EXPECT_EQ(most("bn_mode: INFERENCE scale_filler { value: 1 }"), 1);
  EXPECT_EQ(most("slope_filler { value: 1 }"), 1);
  EXPECT_EQ(most("scale_filler { value: 1 } decay: 0.9"), 1);
  try {
    Bench(std::string("top: 'a' top: 'b' ") + kShown, {Shape{2, 2}}, 2);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("has 2 outputs; expected 1, or 3"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace banyan::testing
