// LabeledMatching and UnlabeledMatching: scores, labels and memories of batches worked out by hand,
// gradients, when memories stay, several devices.
#include <gmock/gmock.h>

#include "layers/fake_exchange.hpp"
#include "layers/gradient_case.hpp"

namespace banyan::testing {
namespace {

using ::testing::HasSubstr;

const std::string kLabeled =
    "type: 'LabeledMatching' labeled_matching_param { num_classes: 3 momentum: 0.25 } ";
const std::string kUnlabeled = "type: 'UnlabeledMatching' unlabeled_matching_param { queue_size: 3 } ";
const Values kTable{1, 0, 0, 1, 2, 2}, kAges{5, 5, 5};

struct LabeledBench : Bench {
  explicit LabeledBench(const std::string& text, const BenchOptions& options = {})
      : Bench(text, {Shape{4, 2}, Shape{4}}, 2, options) {
    set_parameter(0, kTable);
    set_parameter(1, kAges);
    set_input(0, {1, 2, 3, 4, 5, 6, 7, 8});
    set_input(1, {1, 3, 1, -1});
  }
};

TEST(LabeledMatching, ComparesWithTheTableAndThenMovesItsRows) {
  LabeledBench bench(kLabeled);
  bench.forward();
  EXPECT_EQ(bench.output(0), (Values{1, 2, 6, 3, 4, 14, 5, 6, 22, 7, 8, 30}));
  EXPECT_EQ(bench.output(1), (Values{1, -1, 1, -1}));
  // (0, 1) / 4 + 3 (1, 2) / 4, and the same with (5, 6).
  EXPECT_EQ(bench.parameter(0), (Values{1, 0, 3.9375, 4.9375, 2, 2}));
  EXPECT_EQ(bench.parameter(1), (Values{6, 0, 6}));
  // With the table that the forward pass found.
  bench.backward({Values{1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}, Values(4, 9)});
  EXPECT_EQ(bench.input_gradient(), (Values{1, 0, 0, 1, 2, 2, 3, 3}));
}

TEST(LabeledMatching, LeavesItsTableInTestsAndWithoutARate) {
  BenchOptions test;
  test.phase = Phase::test;
  LabeledBench tested(kLabeled, test);
  LabeledBench frozen(kLabeled + "param { lr_mult: 0 } param { lr_mult: 0 }");
  LabeledBench untraced(kLabeled);
  untraced.pass.update_statistics = false;
  for (LabeledBench* bench : {&tested, &frozen, &untraced}) {
    bench->forward();
    EXPECT_EQ(bench->output(0), (Values{1, 2, 6, 3, 4, 14, 5, 6, 22, 7, 8, 30}));
    EXPECT_EQ(bench->parameter(0), kTable);
    EXPECT_EQ(bench->parameter(1), kAges);
  }
  // A table of other layers' rates is one that moves.
  LabeledBench moved(kLabeled + "param { lr_mult: 1 decay_mult: 0 } param { lr_mult: 1 }");
  moved.forward();
  EXPECT_EQ(moved.parameter(1), (Values{6, 0, 6}));
}

TEST(LabeledMatching, HasTheGradientOfItsScores) {
  Bench bench(kLabeled, {Shape{3, 2, 2}, Shape{3, 1}}, 2);
  bench.pass.update_statistics = false;
  bench.set_parameter(0, spread_values(12, 2));
  bench.set_input(0, spread_values(12, 1));
  bench.set_input(1, {0, 2, 2});
  GradientChecker(bench).run();
}

TEST(UnlabeledMatching, ComparesWithTheQueueAndThenAppendsSamplesOfNoClass) {
  Bench bench(kUnlabeled, {Shape{7, 1}, Shape{7}}, 1);
  bench.set_parameter(0, {10, 20, 30});
  bench.set_parameter(1, {2});
  bench.set_input(0, {1, 2, 3, 4, 5, 6, 7});
  bench.set_input(1, {-1, 0, -1, 5, -1, -1, -1});
  bench.forward();
  Values scores;
  for (int i = 1; i < 8; ++i) scores.insert(scores.end(), {10.0 * i, 20.0 * i, 30.0 * i});
  EXPECT_EQ(bench.output(), scores);
  // 1, 3, 5, 6, 7 from row 2 on: 7 and 6 take the places of 3 and 1.
  EXPECT_EQ(bench.parameter(0), (Values{7, 5, 6}));
  EXPECT_EQ(bench.parameter(1), Values{1});
  bench.backward(Values(21, 1));
  EXPECT_EQ(bench.input_gradient(), Values(7, 60));
  bench.set_input(1, Values(7, 3));
  bench.forward();
  EXPECT_EQ(bench.parameter(0), (Values{7, 5, 6}));
  EXPECT_EQ(bench.parameter(1), Values{1});
}

TEST(UnlabeledMatching, KeepsTheSameQueueOnAnyNumberOfDevices) {
  const std::int64_t total = 8, length = 2;
  const Values x = spread_values(total * length, 1), labels{-1, 0, -1, -1, 4, -1, -1, 1};
  struct Part {
    Values scores, queue, tail, gradient;
  };
  const auto run = [&](Bench& bench) {
    const auto [first, stride] = bench.pass.samples;
    Values own, own_labels, slopes;
    for (std::int64_t i = first; i < total; i += stride) {
      own.insert(own.end(), x.begin() + i * length, x.begin() + (i + 1) * length);
      own_labels.push_back(labels[i]);
      slopes.insert(slopes.end(), {1.0 + static_cast<double>(i), -1, 2});
    }
    for (int pass = 0; pass < 3; ++pass) {
      bench.set_input(0, own);
      bench.set_input(1, own_labels);
      bench.forward();
      bench.backward(slopes);
    }
    return Part{bench.output(), bench.parameter(0), bench.parameter(1), bench.input_gradient()};
  };
  const auto shapes = [&](std::int64_t batch) {
    return std::vector<Shape>{Shape{batch, length}, Shape{batch}};
  };
  Bench alone(kUnlabeled, shapes(total), 1);
  const Part whole = run(alone);
  EXPECT_EQ(whole.tail, Values{0});
  for (const int devices : {2, 3}) {
    const std::vector<Part> parts = run_dealt(kUnlabeled, 1, devices, total, shapes, run);
    for (const Part& part : parts) {
      EXPECT_EQ(part.queue, whole.queue);
      EXPECT_EQ(part.tail, whole.tail);
    }
    for (std::int64_t i = 0; i < total; ++i) {
      for (std::int64_t k = 0; k < 3; ++k)
        EXPECT_NEAR(parts[i % devices].scores.at(i / devices * 3 + k), whole.scores[i * 3 + k], 1e-15);
      for (std::int64_t k = 0; k < length; ++k)
        EXPECT_NEAR(parts[i % devices].gradient.at(i / devices * length + k), whole.gradient[i * length + k],
                    1e-15);
    }
  }
}

/// The branch's file, whose layer has one blob.
TEST(UnlabeledMatching, ReadsAQueueThatWasStoredAlone) {
  Bench bench(kUnlabeled, {Shape{4, 1}, Shape{4}}, 1);
  io::LayerWeights stored;
  stored.blobs.resize(1);
  const std::vector<const io::BlobData*> matched = bench.layer().match_blobs(stored);
  ASSERT_EQ(matched.size(), 2u);
  EXPECT_EQ(matched[0], &stored.blobs[0]);
  EXPECT_EQ(matched[1], nullptr);
  stored.blobs.resize(3);
  EXPECT_THAT([&] { bench.layer().match_blobs(stored); },
              ::testing::ThrowsMessage<Error>(HasSubstr("the net needs 2 blobs, the file has 3")));
}

TEST(UnlabeledMatching, LeavesItsQueueWithoutARate) {
  Bench bench(kUnlabeled + "param { lr_mult: 0 }", {Shape{2, 1}, Shape{2}}, 1);
  bench.set_parameter(0, {10, 20, 30});
  bench.set_input(0, {1, 2});
  bench.set_input(1, {-1, -1});
  bench.forward();
  EXPECT_EQ(bench.parameter(0), (Values{10, 20, 30}));
}

TEST(OnlineMatching, RefusesWhatHasNoMeaning) {
  const std::vector<Shape> shapes{Shape{4, 2}, Shape{4}};
  EXPECT_THAT(refusal("type: 'LabeledMatching'", shapes),
              HasSubstr("num_classes must be given and positive"));
  EXPECT_THAT(refusal("type: 'UnlabeledMatching'", shapes),
              HasSubstr("queue_size must be given and positive"));
  EXPECT_THAT(refusal(kUnlabeled, {Shape{4, 2}, Shape{3}}), HasSubstr("expected one label for each sample"));
  EXPECT_THAT(refusal(kUnlabeled, {Shape{4, 2}, Shape{1, 4}}),
              HasSubstr("expected one label for each sample"));
  EXPECT_THAT(refusal(kLabeled + "param { lr_mult: 0 }", shapes),
              HasSubstr("its two blobs change together or not at all"));
  Bench bench(kUnlabeled, shapes, 1);
  EXPECT_THAT(
      [&] {
        bench.reshape({Shape{4, 3}, Shape{4}});
      },
      ::testing::ThrowsMessage<Error>(HasSubstr("does not fit rows of 2 values")));
}

}  // namespace
}  // namespace banyan::testing
