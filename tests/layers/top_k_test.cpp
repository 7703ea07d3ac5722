// TopK and XCovLoss: values against closed forms, gradients, refusals. (Replicas has both on several
// devices.)
#include <gmock/gmock.h>

#include "layers/gradient_case.hpp"

namespace banyan::testing {
namespace {

using ::testing::HasSubstr;

std::string top_k_layer(const std::string& settings) {
  return "type: 'TopK' topk_param { " + settings + " }";
}

TEST(TopK, KeepsTheLargestOfASampleAndItsGradients) {
  Bench bench(top_k_layer("k: 3 a: 0.1"), {Shape{2, 2, 1, 3}}, 1);
  bench.set_input(0, {1, -2, 5, 4, 4, -1, /**/ -1, -2, -3, -4, -5, -6});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{0, 0, 5, 4, 4, 0, -1, -2, -3, 0, 0, 0}));
  bench.backward({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  EXPECT_EQ(bench.input_gradient(), (Values{0, 0, 3, 4, 5, 0, 7, 8, 9, 0, 0, 0}));
}

TEST(TopK, TheLaterOfEqualValuesIsKept) {
  Bench bench(top_k_layer("k: 1"), {Shape{1, 3}}, 1);
  bench.set_input(0, {4, 4, 4});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{0, 0, 4}));
}

TEST(TopK, OfTheChannelsAtEachPosition) {
  Bench bench(top_k_layer("k: 1 across_channels: true"), {Shape{1, 3, 2}}, 1);
  bench.set_input(0, {1, 6, 2, 5, 3, 4});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{0, 6, 0, 0, 3, 0}));
}

TEST(TopK, InTestsATimesAsManyRoundedDown) {
  BenchOptions options;
  options.phase = Phase::test;
  Bench bench(top_k_layer("k: 3 a: 0.9"), {Shape{1, 4}}, 1, options);
  bench.set_input(0, {1, 2, 3, 4});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{0, 0, 3, 4}));
}

TEST(TopK, HasTheGradientOfWhatItShows) {
  check_gradients({"", top_k_layer("k: 2"), {Shape{3, 5}}});
  check_gradients({"", top_k_layer("k: 2 across_channels: true"), {Shape{2, 3, 2, 2}}});
}

TEST(TopK, RefusesWhatKeepsNothingOrMoreThanThereIs) {
  EXPECT_THAT(refusal(top_k_layer(""), {Shape{1, 3}}), HasSubstr("k must be positive"));
  EXPECT_THAT(refusal(top_k_layer("k: 4"), {Shape{1, 3}}), HasSubstr("k 4 exceeds the 3 values of a sample"));
  EXPECT_THAT(refusal(top_k_layer("k: 3 across_channels: true"), {Shape{1, 2, 4}}),
              HasSubstr("k 3 exceeds the 2 channels"));
  BenchOptions options;
  options.phase = Phase::test;
  EXPECT_THAT(
      [&] {
        Bench(top_k_layer("k: 4000000000 a: 1e38"), {Shape{1, 3}}, 1, options);
      },
      ::testing::ThrowsMessage<Error>(HasSubstr("k 4000000000 times a exceeds the 3 values of a sample")));
  EXPECT_THAT(refusal(top_k_layer("k: 1 a: -1"), {Shape{1, 3}}), HasSubstr("a must be positive; found -1"));
}

TEST(XCovLoss, IsHalfTheSumOfTheSquaredCovariances) {
  Bench bench("type: 'XCovLoss'", {Shape{4, 2}, Shape{4, 1}}, 1);
  // Less their means: (-3, -1, 1, 3) and (1, -1, -1, 1); (-1, 1, -1, 1).
  bench.set_input(0, {7, 1, 9, -1, 11, -1, 13, 1});
  bench.set_input(1, {2, 4, 2, 4});
  bench.forward();
  EXPECT_DOUBLE_EQ(bench.output()[0], 0.5 * (1.0 * 1.0 + 0));
  bench.backward(Values{3});
  // Y0 C' / N, the covariances being 1 and 0.
  EXPECT_EQ(bench.input_gradient(), (Values{-0.75, 0, 0.75, 0, -0.75, 0, 0.75, 0}));
}

TEST(XCovLoss, HasTheGradientOfWhatItShows) {
  check_gradients({"", "type: 'XCovLoss'", {Shape{5, 4}, Shape{5, 3}}});
  check_gradients({"", "type: 'XCovLoss'", {Shape{3, 2, 2}, Shape{3, 1, 1, 2}}, 1, 0, false, -1, 1.7});
}

TEST(XCovLoss, RefusesOtherBatches) {
  EXPECT_THAT(refusal("type: 'XCovLoss'", {Shape{4, 2}, Shape{3, 2}}),
              HasSubstr("the inputs must have the same batch"));
}

}  // namespace
}  // namespace banyan::testing
