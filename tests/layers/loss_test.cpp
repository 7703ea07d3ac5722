// Softmax, losses and accuracy against closed forms; labels out of range.
#include <cfloat>

#include "layers/bench.hpp"

namespace banyan::testing {
namespace {

double log_sum_exp(const Values& x, std::size_t from, std::size_t count, std::size_t step = 1) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += std::exp(x[from + i * step]);
  return std::log(sum);
}

TEST(Softmax, NormalizesAlongItsAxis) {
  Bench bench("type: 'Softmax'", {Shape{2, 3, 2}}, 1);
  const Values x = spread_values(12, 1, 3);
  bench.set_input(0, x);
  bench.forward();
  Values expected(12);
  for (std::size_t i = 0; i < 12; ++i) {
    const std::size_t first = i / 6 * 6 + i % 2;
    expected[i] = std::exp(x[i] - log_sum_exp(x, first, 3, 2));
  }
  expect_near(bench.output(), expected, 1e-14);
  bench.set_input(0, Values(12, 5000));  // no overflow
  bench.forward();
  expect_near(bench.output(), Values(12, 1.0 / 3), 1e-15);
}

struct Normalization {
  std::string settings;
  double divisor;
};

TEST(SoftmaxLoss, DividesAsAsked) {
  // 2 samples x 3 positions; labels, two of them ignored: FULL 6, VALID 4, BATCH_SIZE 2.
  const std::vector<Normalization> cases = {
      {"", 4},
      {"normalization: VALID", 4},
      {"normalization: FULL", 6},
      {"normalization: BATCH_SIZE", 2},
      {"normalization: NONE", 1},
      {"normalize: true", 4},
      {"normalize: false", 2},
      {"normalize: false normalization: FULL", 6},
      {"normalization: PRE_FIXED pre_fixed_normalizer: 8", 8},
      {"normalization: PRE_FIXED", 1},
  };
  const Values x = spread_values(12, 1, 2), labels{0, 255, 1, 1, 1, 255};
  double sum = 0;
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t p = 0; p < 3; ++p)
      if (labels[3 * n + p] != 255)
        sum +=
            log_sum_exp(x, 6 * n + p, 2, 3) - x[6 * n + 3 * static_cast<std::size_t>(labels[3 * n + p]) + p];
  for (const Normalization& tested : cases) {
    Bench bench("type: 'SoftmaxWithLoss' loss_param { ignore_label: 255 " + tested.settings + " }",
                {Shape{2, 2, 3}, Shape{2, 1, 3}}, 2);
    bench.set_input(0, x);
    bench.set_input(1, labels);
    bench.forward();
    EXPECT_EQ(bench.outputs[0]->shape, Shape());
    expect_near(bench.output(), {sum / tested.divisor}, 1e-13, tested.settings);
    bench.backward({{2}, Values(12, 0)});
    const Values p = bench.output(1), dx = bench.input_gradient();
    for (std::size_t i = 0; i < 12; ++i) {
      const std::size_t position = i / 6 * 3 + i % 3;
      const double hit = labels[position] == static_cast<double>(i / 3 % 2) ? 1 : 0;
      EXPECT_NEAR(dx[i], labels[position] == 255 ? 0 : 2 * (p[i] - hit) / tested.divisor, 1e-14)
          << tested.settings;
    }
    bench.layer().check_results(bench.context());
  }
}

TEST(SoftmaxLoss, NeverDividesByLessThanOneAndNeverTakesTheLogOfZero) {
  Bench ignored("type: 'SoftmaxWithLoss' loss_param { ignore_label: 0 }", {Shape{2, 2}, Shape{2}}, 1);
  ignored.set_input(0, {1, 2, 3, 4});
  ignored.set_input(1, {0, 0});
  ignored.forward();
  EXPECT_EQ(ignored.output(), Values{0});
  Bench sure("type: 'SoftmaxWithLoss'", {Shape{1, 2}, Shape{1}}, 1);
  sure.set_input(0, {0, 5000});
  sure.set_input(1, {0});
  sure.forward();
  expect_near(sure.output(), {-std::log(static_cast<double>(FLT_MIN))}, 1e-12);
}

TEST(SoftmaxLoss, HasAWeightByItself) {
  Bench bench("type: 'SoftmaxWithLoss'", {Shape{2, 2}, Shape{2}}, 2);
  const LayerTraits& traits = bench.layer().traits();
  EXPECT_TRUE(traits.loss);
  EXPECT_EQ(traits.shares, 1);
  EXPECT_TRUE(traits.differentiable(0));
  EXPECT_FALSE(traits.differentiable(1));
}

TEST(EuclideanLoss, IsHalfTheMeanSquaredDistance) {
  Bench bench("type: 'EuclideanLoss'", {Shape{2, 3}, Shape{2, 3, 1}}, 1);
  bench.set_input(0, {1, 2, 3, 4, 5, 6});
  bench.set_input(1, {1, 0, 3, 0, 5, 0});
  bench.forward();
  expect_near(bench.output(), {(4 + 16 + 36) / 4.0}, 1e-15);
  bench.backward(Values{3});
  expect_near(bench.input_gradient(0), {0, 3, 0, 6, 0, 9}, 1e-15);
  expect_near(bench.input_gradient(1), {0, -3, 0, -6, 0, -9}, 1e-15);
}

TEST(Accuracy, CountsTiesAgainstThePrediction) {
  const auto run = [](const std::string& settings, const Values& scores, const Values& labels) {
    Bench bench(
        "type: 'Accuracy' accuracy_param { " + settings + " }",
        {Shape{static_cast<std::int64_t>(labels.size()), 3}, Shape{static_cast<std::int64_t>(labels.size())}},
        1);
    bench.set_input(0, scores);
    bench.set_input(1, labels);
    bench.forward();
    return bench.output()[0];
  };
  const Values scores{1, 2, 3, 3, 3, 1, 5, 5, 5};
  EXPECT_EQ(run("", scores, {2, 0, 0}), 1.0 / 3);
  EXPECT_EQ(run("top_k: 2", scores, {1, 1, 0}), 2.0 / 3);
  EXPECT_EQ(run("top_k: 3", scores, {0, 2, 2}), 1);
  EXPECT_EQ(run("ignore_label: 0", scores, {2, 0, 0}), 1);
  EXPECT_EQ(run("ignore_label: 0", scores, {0, 0, 0}), 0);
}

TEST(Accuracy, RunsAlongItsAxisAndPerClass) {
  Bench bench("type: 'Accuracy' accuracy_param { axis: -1 }", {Shape{1, 4, 2}, Shape{4}}, 2);
  bench.set_input(0, {0, 1, 1, 0, 1, 0, 0, 1});
  bench.set_input(1, {1, 0, 1, 1});
  bench.forward();
  EXPECT_EQ(bench.output(0), Values{0.75});
  expect_near(bench.output(1), {1, 2.0 / 3}, 1e-15);
}

TEST(Labels, OutOfRangeAreNamed) {
  for (const std::string type : {"SoftmaxWithLoss", "Accuracy"}) {
    for (const double label : {3.0, -1.0}) {
      Bench bench(cat("name: 'top' type: '", type, "'"), {Shape{4, 3}, Shape{4}}, 1);
      bench.set_input(0, spread_values(12, 1));
      bench.set_input(1, {0, 1, label, 2});
      bench.forward();
      bench.set_input(1, {0, 1, 2, 2});
      bench.forward();  // what has not been read stays
      try {
        bench.layer().check_results(bench.context());
        ADD_FAILURE() << type << " accepted " << label;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::bad_input);
        for (const std::string& part : {std::string("\"top\""), cat("label ", label), std::string("sample 2"),
                                        std::string("3 classes")})
          EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
      }
      bench.forward();
      bench.layer().check_results(bench.context());  // what has been read is cleared
    }
  }
}

}  // namespace
}  // namespace banyan::testing
