// Layers of SSL: Sparsify and SymmetricRectify.
#include "layers/gradient_case.hpp"

namespace banyan::testing {
namespace {

TEST(Sparsify, AddsTheSignToTheGradient) {
  Bench bench("type: 'Sparsify' sparsify_param { coef: 0.25 display: true }", {Shape{3}}, 1);
  bench.set_input(0, {-2, 0, 3});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{-2, 0, 3}));
  bench.backward(Values{1, 2, 3});
  EXPECT_EQ(bench.input_gradient(), (Values{0.75, 2, 3.25}));
}

TEST(Sparsify, ByThreDrawsValuesToZero) {
  for (const bool in_place : {false, true}) {
    BenchOptions options;
    options.in_place = in_place;
    Bench bench("type: 'Sparsify' sparsify_param { coef: 0.25 thre: 0.5 }", {Shape{4}}, 1, options);
    bench.set_input(0, {-2, -0.5, 0.25, 3});
    bench.forward();
    EXPECT_EQ(bench.output(), (Values{-1.5, 0, 0, 2.5}));
    bench.backward(Values{1, 2, 3, 4});
    EXPECT_EQ(bench.input_gradient(), (Values{0.75, 0, 0, 4.25}));
  }
}

TEST(SymmetricRectify, HasTheGradientsOfItsFormula) {
  for (const bool shared : {false, true})
    for (const bool in_place : {false, true})
      for (const Shape& shape : {Shape{2, 3, 2, 2}, Shape{4, 5}}) {
        BenchOptions options;
        options.in_place = in_place;
        const std::string settings =
            "type: 'SymmetricRectify' symmetric_rectify_param { filler { value: 0.17 } channel_shared: ";
        Bench bench(settings + (shared ? "true }" : "false }"), {shape}, 1, options);
        bench.set_input(0, spread_values(shape.count(), 1));
        GradientChecker(bench).run();
      }
}

TEST(SymmetricRectify, TakesThresholdsBelowZeroAsZero) {
  Bench bench("type: 'SymmetricRectify'", {Shape{1, 3}}, 1);
  EXPECT_EQ(bench.parameter(0), Values(3, 0));
  EXPECT_TRUE(bench.layer().parameters()[0].adjusted);
  bench.set_parameter(0, {-1, 0.5, 0.25});
  bench.set_input(0, {2, -2, 0.125});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{2, -1.5, 0}));
  EXPECT_EQ(get_values(bench.context(), bench.layer().parameters()[0].used), (Values{0, 0.5, 0.25}));
  EXPECT_EQ(bench.parameter(0), (Values{-1, 0.5, 0.25})) << "it is the update that writes";
}

TEST(SymmetricRectify, DrawsThresholdsUpOnOneDevice) {
  for (const std::int64_t rank : {0, 1}) {
    Bench bench("type: 'SymmetricRectify' symmetric_rectify_param { thre_decay: 0.125 }", {Shape{1, 2}}, 1);
    bench.pass.samples = {rank, 2};
    bench.set_parameter(0, {0.5, 0});
    bench.set_input(0, {2, -2});
    bench.forward();
    bench.backward(Values{1, 1});
    EXPECT_EQ(bench.parameter_gradient(0), rank == 0 ? (Values{-1.125, 0.875}) : (Values{-1, 1}));
  }
}

TEST(LayersOfSsl, RefuseWhatHasNoMeaning) {
  const auto refusal = [](const std::string& text, const Shape& shape) -> std::string {
    try {
      Bench(text, {shape}, 1);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"type: 'Sparsify' sparsify_param { coef: -1 }", "coef must be a number >= 0; found -1"},
           {"type: 'Sparsify' sparsify_param { thre: -1 }", "thre must be a number >= 0; found -1"},
           {"type: 'SymmetricRectify' symmetric_rectify_param { thre_decay: nan }",
            "thre_decay must be finite"},
           {"type: 'SymmetricRectify'", "axis of channels"}})
    EXPECT_NE(refusal(text, Shape{3}).find(part), std::string::npos) << refusal(text, Shape{3});
}

}  // namespace
}  // namespace banyan::testing
