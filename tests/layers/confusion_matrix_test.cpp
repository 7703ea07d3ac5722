// ConfusionMatrix: shares, numbers and wrong samples against tables worked out by hand, ignored labels,
// several devices, refusals.
#include <gmock/gmock.h>

#include "layers/fake_exchange.hpp"

namespace banyan::testing {
namespace {

using ::testing::HasSubstr;

std::string confusion(const std::string& settings = "") {
  return "type: 'ConfusionMatrix' confusion_matrix_param { " + settings + " }";
}

const std::vector<Shape> kConfusedShapes{Shape{6, 3}, Shape{6}};
// Classes 0, 2, 1, 0 (the first of two), 2, 1; of the last all scores are below -1.
const Values kConfusedScores{5, 1, 2, 0, 1, 3, 0, 9, 1, 4, 4, 2, -3, -2, 8, -7, -5, -6};
const Values kConfusedLabels{0, 0, 1, 1, 0, 1};

struct Confusion : Bench {
  Confusion(const std::string& text, int outputs, const BenchOptions& options = {})
      : Bench(text, kConfusedShapes, outputs, options) {
    set_input(0, kConfusedScores);
    set_input(1, kConfusedLabels);
    forward();
  }
};

TEST(ConfusionMatrix, HasTheSharesOfEachClass) {
  for (const Phase phase : {Phase::train, Phase::test}) {
    BenchOptions options;
    options.phase = phase;
    Confusion bench(confusion(), 1, options);
    EXPECT_EQ(bench.outputs[0]->shape, (Shape{3, 3}));
    EXPECT_EQ(bench.layer().traits().shares, 0);
    expect_near(bench.output(), {1 / 3., 0, 2 / 3., 1 / 3., 2 / 3., 0, 0, 0, 0}, 1e-15);
  }
}

TEST(ConfusionMatrix, WithTwoOutputsHasNumbersAndTheWrongSamples) {
  Confusion bench(confusion(), 2);
  EXPECT_EQ(bench.output(0), (Values{1, 0, 2, 1, 2, 0, 0, 0, 0}));
  EXPECT_EQ(bench.outputs[1]->shape, (Shape{1, 6, 2, 2}));
  EXPECT_EQ(bench.output(1),
            (Values{-1, -1, -1, -1, 0, 0, 2, 3, -1, -1, -1, -1, 1, 4, 0, 4, 0, -3, 2, 8, -1, -1, -1, -1}));
}

TEST(ConfusionMatrix, LeavesOutAnIgnoredLabel) {
  expect_near(Confusion(confusion("ignore_label: 0 test_iter: 9"), 1).output(),
              {0, 0, 0, 1 / 3., 2 / 3., 0, 0, 0, 0}, 1e-15);
  Confusion both(confusion("ignore_label: 1"), 2);
  EXPECT_EQ(both.output(0), (Values{1, 0, 2, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(both.output(1)[12], -1);
  // One that is no class.
  Bench other(confusion("ignore_label: 255"), kConfusedShapes, 1);
  other.set_input(0, kConfusedScores);
  other.set_input(1, {0, 255, 1, 255, 255, 255});
  other.forward();
  other.layer().check_results(other.context());
  EXPECT_EQ(other.output(), (Values{1, 0, 0, 0, 1, 0, 0, 0, 0}));
}

TEST(ConfusionMatrix, FindsTheClassesAlongAnAxis) {
  for (const bool last : {false, true}) {
    Bench bench(confusion(last ? "axis: -1" : ""), {last ? Shape{1, 2, 2} : Shape{1, 2, 1, 2}, Shape{2}}, 2);
    bench.set_input(0, last ? Values{1, 2, 5, 3} : Values{1, 5, 2, 3});  // (1, 2) and (5, 3)
    bench.set_input(1, {1, 1});
    bench.forward();
    EXPECT_EQ(bench.output(0), (Values{0, 0, 1, 1}));
    EXPECT_EQ(bench.output(1), (Values{-1, -1, -1, -1, 1, 3, 0, 5}));
  }
}

TEST(ConfusionMatrix, TakesNoNumbersForTheHighestOnlyAmongThemselves) {
  Bench bench(confusion(), {Shape{3, 2}, Shape{3}}, 2);
  const double none = std::nan("");
  bench.set_input(0, {none, -5, -5, none, none, none});
  bench.set_input(1, {0, 1, 0});
  bench.forward();
  EXPECT_EQ(bench.output(0), (Values{1, 1, 1, 0}));
}

TEST(ConfusionMatrix, IsAShareOfAllDevices) {
  for (const int outputs : {1, 2}) {
    const Values whole = Confusion(confusion(), outputs).output();
    MeetingPoint point(2);
    std::vector<Values> parts(2);
    run_replicas(point, [&](int rank) {
      BenchOptions options;
      options.rank = rank;
      options.devices = 2;
      const std::int64_t first = rank * 2, batch = rank == 0 ? 2 : 4;
      Bench bench(confusion(), {Shape{batch, 3}, Shape{batch}}, outputs, options);
      EXPECT_EQ(bench.layer().traits().shares, 1);
      FakeExchange exchange(point, rank);
      bench.pass.exchange = &exchange;
      bench.set_input(
          0, Values(kConfusedScores.begin() + 3 * first, kConfusedScores.begin() + 3 * (first + batch)));
      bench.set_input(1, Values(kConfusedLabels.begin() + first, kConfusedLabels.begin() + first + batch));
      bench.forward();
      parts[static_cast<std::size_t>(rank)] = bench.output();
    });
    EXPECT_EQ(point.meetings(), outputs == 1 ? 1 : 0);
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[0][i] + parts[1][i], whole[i], 1e-15);
  }
}

TEST(ConfusionMatrix, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal(confusion(), {Shape{6, 3}, Shape{5}}),
              HasSubstr("expected one label for each of 6 x 1"));
  EXPECT_THAT(
      [] { Bench("type: 'ConfusionMatrix' name: 'tested' bottom: 'x' bottom: 'y'", kConfusedShapes, 0); },
      ::testing::ThrowsMessage<Error>(HasSubstr("(ConfusionMatrix): it has no output")));
  Bench bench(confusion(), kConfusedShapes, 1);
  bench.set_input(0, kConfusedScores);
  bench.set_input(1, {0, 1, 2, 3, 0, 0});
  bench.forward();
  EXPECT_THAT([&] { bench.layer().check_results(bench.context()); },
              ::testing::ThrowsMessage<Error>(
                  HasSubstr("label 3 of sample 3 is out of range: there are 3 classes, 0 to 2; "
                            "confusion_matrix_param { ignore_label: 3 } leaves such labels out")));
}

}  // namespace
}  // namespace banyan::testing
