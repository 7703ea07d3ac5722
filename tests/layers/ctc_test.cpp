// CTC: losses and gradients against the sum over all paths, the labels of the best path, what is refused.
#include <gmock/gmock.h>

#include <map>

#include "layers/ctc_cases.hpp"
#include "ops/ctc_paths.hpp"

namespace banyan::testing {
namespace {

using ctc_paths::Labels;
using ctc_paths::labels_of;
using ctc_paths::sum_over_paths;
using ::testing::HasSubstr;

class CtcGradient : public ::testing::TestWithParam<GradientCase> {};
TEST_P(CtcGradient, EqualsCentralDifferences) { check_gradients(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Layers, CtcGradient, ::testing::ValuesIn(ctc_cases::kCases),
                         [](const auto& info) { return info.param.name; });

struct Sequence {
  Labels labels;
  int steps;
};

/// Scores T x N x C of the bench's first input, of one sequence.
Values of_sequence(const Values& all, const Shape& shape, int n, int steps) {
  Values own;
  for (int t = 0; t < steps; ++t)
    for (int c = 0; c < shape[2]; ++c)
      own.push_back(all[static_cast<std::size_t>((t * shape[1] + n) * shape[2] + c)]);
  return own;
}

/// Loss and gradient of a bench, whose inputs are set, are those of these sequences; infinite where there is
/// no path if `infinite`, else 0.
void expect_paths(Bench& bench, const std::vector<Sequence>& sequences, int blank, bool infinite,
                  bool merge = true) {
  const Shape shape = bench.inputs[0]->shape;
  const Values scores = get_values(bench.context(), bench.inputs[0]->data);
  bench.forward();
  bench.backward(Values{0.5});
  const Values found = bench.input_gradient();
  double loss = 0;
  Values expected(scores.size(), 0);
  for (int n = 0; n < shape[1]; ++n) {
    const auto& [labels, steps] = sequences[static_cast<std::size_t>(n)];
    if (steps == 0) continue;
    const ctc_paths::Sum sum = sum_over_paths(of_sequence(scores, shape, n, steps), steps,
                                              static_cast<int>(shape[2]), labels, blank, merge);
    if (sum.likelihood == 0 && !infinite) continue;
    loss -= std::log(sum.likelihood);
    for (int t = 0; t < steps; ++t)
      for (int c = 0; c < shape[2]; ++c)
        expected[static_cast<std::size_t>((t * shape[1] + n) * shape[2] + c)] =
            0.5 * sum.gradient[static_cast<std::size_t>(t * shape[2] + c)];  // not divided by N
  }
  loss /= static_cast<double>(shape[1]);
  if (std::isinf(loss))
    EXPECT_EQ(bench.output()[0], loss);
  else
    EXPECT_NEAR(bench.output()[0], loss, 1e-12 * std::max(1.0, loss));
  expect_near(found, expected, 1e-13);
  EXPECT_NO_THROW(bench.layer().check_results(bench.context()));
}

Values in_columns(const std::vector<Sequence>& sequences, int steps) {
  Values columns(sequences.size() * static_cast<std::size_t>(steps), -1);
  for (std::size_t n = 0; n < sequences.size(); ++n)
    for (std::size_t l = 0; l < sequences[n].labels.size(); ++l)
      columns[l * sequences.size() + n] = sequences[n].labels[l];
  return columns;
}
Values marks_of(const std::vector<Sequence>& sequences, int steps) {
  Values marks(sequences.size() * static_cast<std::size_t>(steps), 0);
  for (std::size_t n = 0; n < sequences.size(); ++n)
    for (int t = 1; t < sequences[n].steps; ++t)
      marks[static_cast<std::size_t>(t) * sequences.size() + n] = 1;
  return marks;
}

TEST(CTCLoss, SumsOverAllPaths) {
  const Shape shape{6, 7, 3};
  const std::vector<Sequence> sequences = {{{0, 1}, 6}, {{1, 1}, 6},    {{0}, 1},      {{1, 0, 1}, 4},
                                           {{0, 0}, 3}, {{1, 1, 1}, 6}, {{1, 0, 0}, 4}};
  for (const bool merge : {true, false}) {
    Bench bench(merge ? "type: 'CTCLoss'" : "type: 'CTCLoss' ctc_loss_param { ctc_merge_repeated: false }",
                {shape, Shape{6, 7}, Shape{6, 7, 1, 1}}, 1);
    bench.set_input(0, spread_values(shape.count(), 1, 4));
    bench.set_input(1, marks_of(sequences, 6));
    bench.set_input(2, in_columns(sequences, 6));
    expect_paths(bench, sequences, 2, true, merge);
  }
}

/// Loss and gradients as in the branch: infinite, and the softmax.
TEST(CTCLoss, IsInfiniteWithoutAPath) {
  const std::vector<Sequence> sequences = {{{1, 1}, 2}, {{0}, 3}};
  Bench bench("type: 'CTCLoss' ctc_loss_param { blank_index: -1 loss_calculation_t: 2 }",
              {Shape{3, 2, 3}, Shape{3, 2}, Shape{3, 2}}, 1);
  bench.set_input(0, spread_values(18, 1, 2));
  bench.set_input(1, marks_of(sequences, 3));
  bench.set_input(2, in_columns(sequences, 3));
  expect_paths(bench, sequences, 2, true);
}

TEST(CTCLoss, CollapsesLabelsIfAsked) {
  const std::vector<Sequence> written = {{{2, 2, 1, 1, 2}, 5}, {{1}, 2}}, meant = {{{2, 1, 2}, 5}, {{1}, 2}};
  Bench bench("type: 'CTCLoss' ctc_loss_param { blank_index: 0 preprocess_collapse_repeated: true }",
              {Shape{5, 2, 3}, Shape{5, 2}, Shape{5, 2}}, 1);
  bench.set_input(0, spread_values(30, 1, 2));
  bench.set_input(1, marks_of(written, 5));
  bench.set_input(2, in_columns(written, 5));
  expect_paths(bench, meant, 0, true);
}

/// A sequence of one time step without labels counts in N only.
TEST(CTCLoss, LeavesOutWhatHasNoLabels) {
  const std::vector<Sequence> sequences = {{{}, 1}, {{0}, 2}};
  Bench bench("type: 'CTCLoss'", {Shape{2, 2, 2}, Shape{2, 2}, Shape{2, 2}}, 1);
  bench.set_input(0, spread_values(8, 1));
  bench.set_input(1, marks_of(sequences, 2));
  bench.set_input(2, in_columns(sequences, 2));
  expect_paths(bench, {{{}, 0}, {{0}, 2}}, 1, true);
}

TEST(WarpCTCLoss, ReadsRowsWithoutTheirBlanks) {
  const Shape shape{4, 5, 3};
  Bench bench("type: 'WarpCTCLoss'", {shape, Shape{5, 3}}, 1);
  bench.set_input(0, spread_values(shape.count(), 1, 3));
  bench.set_input(1, {1, 0, 2, 0, 0, 0, 2, 2, 0, 0, 1, 0, 2, 2, 2});
  // The last one needs 5 time steps.
  expect_paths(bench, {{{1, 2}, 4}, {{}, 4}, {{2, 2}, 4}, {{1}, 4}, {{2, 2, 2}, 4}}, 0, false);
}

TEST(WarpCTCLoss, ReadsLengths) {
  const Shape shape{5, 3, 4};
  Bench bench("type: 'WarpCTCLoss' ctc_loss_param { blank_index: 3 }",
              {shape, Shape{3}, Shape{3, 1}, Shape{2, 3}}, 1);
  bench.set_input(0, spread_values(shape.count(), 1, 3));
  bench.set_input(1, {5, 2, 3});
  bench.set_input(2, {2, 1, 0});
  bench.set_input(3, {0, 2, 1, 1, 7, 7});
  expect_paths(bench, {{{0, 1}, 5}, {{2}, 2}, {{}, 3}}, 3, false);
  bench.set_input(1, {5, 6, 3});
  bench.forward();
  EXPECT_THROW(bench.layer().check_results(bench.context()), Error);
}

TEST(CtcLoss, ReadsRowsWithoutTheirBlanks) {
  Bench bench(ctc_cases::rows(3), {ctc_cases::kScores, Shape{2, 4}}, 1);
  bench.set_input(0, spread_values(ctc_cases::kScores.count(), 1, 3));
  bench.set_input(1, {0, 3, 2, 3, 1, 1, 1, 1});
  expect_paths(bench, {{{0, 2}, 5}, {{1, 1, 1, 1}, 5}}, 3, false);
}

/// No exponential overflows or vanishes.
TEST(CtcLoss, KeepsLargeScores) {
  Bench bench("type: 'CtcLoss' ctc_loss_param { alphabet_size: 2 time_step: 300 }",
              {Shape{300, 1, 2}, Shape{1, 1}}, 1);
  Values scores;
  for (int t = 0; t < 300; ++t) scores.insert(scores.end(), {-2000, 2000});
  bench.set_input(0, scores);
  bench.set_input(1, {0});
  bench.forward();
  bench.backward(Values{1});
  EXPECT_EQ(bench.output()[0], 4000.0 * 300);
  EXPECT_NEAR(bench.input_gradient()[0], -1, 1e-12);
}

std::string error_of(Bench& bench) {
  bench.forward();
  bench.backward(Values{1});
  for (const double value : bench.input_gradient()) EXPECT_TRUE(std::isfinite(value));
  try {
    bench.layer().check_results(bench.context());
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(CtcLosses, NameTheLabelsThatCannotBe) {
  Bench columns("type: 'CTCLoss'", {Shape{3, 2, 3}, Shape{3, 2}, Shape{3, 2}}, 1);
  columns.set_input(0, Values(18, 0));
  columns.set_input(1, {0, 0, 1, 1, 1, 0});
  columns.set_input(2, {0, 1, 2, -1, -1, -1});
  EXPECT_THAT(error_of(columns),
              HasSubstr("label 1 of sequence 0 is 2; expected a class, 0 to 2, but not the "
                        "blank, 2"));
  EXPECT_EQ(error_of(columns).empty(), false);  // each pass notes it again
  columns.set_input(2, {0, 1, 1, 0, 0, 1});
  EXPECT_THAT(error_of(columns), HasSubstr("sequence 1 has 3 labels; there must be as many time steps"));
  columns.set_input(2, {0, -1, 1, 0, 0, 1});
  EXPECT_THAT(error_of(columns), HasSubstr("sequence 1 has 0 labels"));
  Bench warp("type: 'WarpCTCLoss'", {Shape{3, 2, 3}, Shape{2, 2}}, 1);
  warp.set_input(0, Values(18, 0));
  for (const double wrong : {-1.0, 3.0, 1.5, static_cast<double>(NAN)}) {
    warp.set_input(1, {1, 2, 0, wrong});
    EXPECT_THAT(error_of(warp), HasSubstr("label 1 of sequence 1 is")) << wrong;
  }
}

std::string refused(const std::string& text, const std::vector<Shape>& shapes, int outputs = 1,
                    const BenchOptions& options = {}) {
  try {
    Bench(text, shapes, outputs, options);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(CtcLosses, RefuseWhatTheyDoNotCompute) {
  const std::vector<Shape> columns{ctc_cases::kScores, ctc_cases::kSteps, ctc_cases::kSteps},
      in_rows{ctc_cases::kScores, Shape{2, 3}};
  EXPECT_THAT(refused("type: 'CTCLoss' ctc_loss_param { output_delay: 1 }", columns),
              HasSubstr("output_delay"));
  EXPECT_THAT(refused("type: 'CTCLoss' ctc_loss_param { blank_label: 1 }", columns),
              HasSubstr("settings of CtcLoss"));
  EXPECT_THAT(refused("type: 'CTCLoss' ctc_loss_param { blank_index: 4 }", columns),
              HasSubstr("blank_index is 4, but there are 4 classes, 0 to 3"));
  EXPECT_THAT(refused("type: 'CTCLoss'", {ctc_cases::kScores, ctc_cases::kSteps, Shape{2, 5}}),
              HasSubstr("expected 5 time steps x 2 sequences"));
  EXPECT_THAT(refused("type: 'CTCLoss' loss_param { normalization: VALID }", columns),
              HasSubstr("BATCH_SIZE or NONE"));
  EXPECT_THAT(refused("type: 'CTCLoss' loss_param { ignore_label: 0 }", columns), HasSubstr("ignore_label"));
  EXPECT_THAT(refused("type: 'WarpCTCLoss'", columns),
              HasSubstr("branches disagree about which class label 0 is"));
  EXPECT_THAT(refused("type: 'WarpCTCLoss' ctc_loss_param { blank_index: -1 }", in_rows),
              HasSubstr("must be a class"));
  EXPECT_THAT(refused("type: 'WarpCTCLoss' ctc_loss_param { ctc_merge_repeated: false }", in_rows),
              HasSubstr("settings of CTCLoss"));
  EXPECT_THAT(refused("type: 'WarpCTCLoss'", {Shape{5, 8}, Shape{2, 3}}),
              HasSubstr("expected time steps x sequences x classes"));
  EXPECT_THAT(refused("type: 'WarpCTCLoss'", {ctc_cases::kScores, Shape{3, 3}}),
              HasSubstr("the labels of 2 sequences"));
  EXPECT_THAT(refused("type: 'WarpCTCLoss'", {ctc_cases::kScores, Shape{2}, Shape{3}, Shape{4, 2}}),
              HasSubstr("a number for each of 2 sequences"));
  EXPECT_THAT(refused("type: 'CtcLoss'", in_rows), HasSubstr("alphabet_size and time_step must be given"));
  EXPECT_THAT(refused("type: 'CtcLoss' ctc_loss_param { alphabet_size: 4 time_step: 4 }", in_rows),
              HasSubstr("4 classes in 5 time steps"));
  EXPECT_THAT(
      refused("type: 'CtcLoss' ctc_loss_param { alphabet_size: 4 time_step: 5 blank_index: 3 }", in_rows),
      HasSubstr("the blank here is blank_label"));
  for (const std::string& text : {ctc_cases::rows(-1), ctc_cases::rows(4)})
    EXPECT_THAT(refused(text, in_rows), HasSubstr("blank_label"));
}

TEST(CtcLosses, OfNothingAreZero) {
  Bench bench(ctc_cases::rows(0), {Shape{5, 0, 4}, Shape{0, 3}}, 1);
  bench.forward();
  bench.backward(Values{1});
  EXPECT_EQ(bench.output(), Values{0});
}

/// T x N x C with these classes on top.
Values scores_of(const std::vector<Labels>& paths, int classes) {
  const std::size_t steps = paths[0].size();
  Values scores(steps * paths.size() * static_cast<std::size_t>(classes), 0);
  for (std::size_t n = 0; n < paths.size(); ++n)
    for (std::size_t t = 0; t < steps; ++t)
      scores[(t * paths.size() + n) * static_cast<std::size_t>(classes) +
             static_cast<std::size_t>(paths[n][t])] = 1 + static_cast<double>(t);
  return scores;
}
const std::vector<Labels> kPaths = {{0, 0, 3, 0, 1}, {3, 1, 1, 2, 2}, {3, 3, 3, 3, 3}};

TEST(CTCGreedyDecoder, GivesTheLabelsOfTheBestPath) {
  Bench bench(ctc_cases::decoder(""), {Shape{5, 3, 4}, Shape{5, 3}}, 2);
  bench.set_input(0, scores_of(kPaths, 4));
  bench.set_input(1,
                  {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1});  // the second one ends after 3 time steps
  bench.forward();
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{3, 5, 1, 1}));
  EXPECT_EQ(bench.output(0), (Values{0, 0, 1, -1, -1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(bench.output(1), (Values{-15, -6, -15}));
  Bench apart(ctc_cases::decoder("ctc_merge_repeated: false blank_index: 1"), {Shape{5, 3, 4}}, 1);
  apart.set_input(0, scores_of(kPaths, 4));
  apart.forward();
  EXPECT_EQ(apart.output(), (Values{0, 0, 3, 0, -1, 3, 2, 2, -1, -1, 3, 3, 3, 3, 3}));
  apart.set_input(0, Values(60, 0));  // ties: the first class
  apart.forward();
  EXPECT_EQ(apart.output(), Values(15, 0));
}

TEST(CTCGreedyDecoder, MeasuresByEditDistance) {
  Bench bench(ctc_cases::decoder(""), {Shape{5, 3, 4}, Shape{5, 3}, Shape{5, 3}}, 2);
  bench.set_input(0, scores_of(kPaths, 4));
  bench.set_input(1, Values(15, 1));
  // Found: 0 0 1, 1 2, nothing. A label inserted and one replaced; right; right.
  bench.set_input(2, {0, 1, -1, 2, 2, 0, 1, -1, -1, 1, -1, -1, -1, -1, -1});
  bench.forward();
  expect_near(bench.output(1), {(0.5 + 1 + 1) / 3}, 1e-15);
  // caffe_ocr's, whose blank is 0; found: 3 1, 3 1 2, 3.
  Bench rows_of(ctc_cases::decoder(""), {Shape{5, 3, 4}, Shape{3, 4}}, 1);
  rows_of.set_input(0, scores_of(kPaths, 4));
  rows_of.set_input(1, {3, 0, 1, 0, 1, 2, 3, 0, 2, 0, 0, 0});
  rows_of.forward();
  EXPECT_EQ(rows_of.outputs[0]->shape, (Shape{1, 2, 1, 1}));
  expect_near(rows_of.output(), {(1 + 1.0 / 3 + 0) / 3, 1.0 / 3}, 1e-15);
}

/// The distance of sequences against a search through all edits.
TEST(CTCGreedyDecoder, FindsTheLeastNumberOfEdits) {
  const auto distance = [](const Labels& a, const Labels& b) {
    std::map<std::pair<std::size_t, std::size_t>, int> known;
    const auto least = [&](const auto& self, std::size_t i, std::size_t j) -> int {
      if (i == a.size() || j == b.size()) return static_cast<int>(a.size() - i + b.size() - j);
      if (const auto found = known.find({i, j}); found != known.end()) return found->second;
      const int same = self(self, i + 1, j + 1) + (a[i] == b[j] ? 0 : 1);
      return known[{i, j}] = std::min({same, self(self, i + 1, j) + 1, self(self, i, j + 1) + 1});
    };
    return least(least, 0, 0);
  };
  const int sequences = 40, steps = 9, most = 7;
  std::mt19937 random(3);
  std::vector<Labels> paths;
  Values written;
  double expected = 0;
  for (int n = 0; n < sequences; ++n) {
    Labels path, wanted;
    for (int t = 0; t < steps; ++t) path.push_back(static_cast<int>(random() % 4));
    for (int l = 0; l < most; ++l) written.push_back(static_cast<double>(random() % 4));
    for (int l = most; l > 0; --l)
      if (const double label = written[written.size() - static_cast<std::size_t>(l)]; label != 0)
        wanted.push_back(static_cast<int>(label));
    const Labels found = labels_of(path, 0, true);
    const auto longer = static_cast<double>(std::max(found.size(), wanted.size()));
    expected += longer == 0 ? 1 : 1 - distance(found, wanted) / longer;
    paths.push_back(path);
  }
  Bench bench(ctc_cases::decoder(""), {Shape{steps, sequences, 4}, Shape{sequences, most}}, 1);
  bench.set_input(0, scores_of(paths, 4));
  bench.set_input(1, written);
  bench.forward();
  EXPECT_NEAR(bench.output()[0], expected / sequences, 1e-14);
}

TEST(LabelsequenceAccuracy, CountsSequencesThatAreRight) {
  Bench bench("type: 'LabelsequenceAccuracy' labelsequence_accuracy_param { blank_label: 3 }",
              {Shape{3, 2, 4}, Shape{3, 3}}, 1);
  bench.set_input(0, {1, 0, 0, 0, 1, 0, 0, 0,    // 0
                      0, 1, 0, 0, 0, 0, 1, 0,    // 1 2
                      0, 0, 0, 1, 0, 0, 0, 1});  // nothing
  bench.set_input(1, {0, 3, 3, 1, 1, 3, 3, 3, 3});
  bench.forward();
  expect_near(bench.output(), {2.0 / 3}, 1e-15);
}

TEST(CtcAccuracies, RefuseWhatTheyDoNotCompute) {
  BenchOptions two;
  two.devices = 2;
  const std::vector<Shape> in_rows{ctc_cases::kScores, Shape{2, 3}};
  EXPECT_THAT(refused(ctc_cases::decoder(""), in_rows, 1, two), HasSubstr("in tests only"));
  EXPECT_THAT(refused("type: 'LabelsequenceAccuracy'", {Shape{2, 5, 4}, Shape{2, 3}}, 1, two),
              HasSubstr("in tests only"));
  two.phase = Phase::test;
  EXPECT_EQ(refused(ctc_cases::decoder(""), in_rows, 1, two), "");
  EXPECT_THAT(refused(ctc_cases::decoder(""), in_rows, 2), HasSubstr("expected marks"));
  EXPECT_THAT(refused(ctc_cases::decoder(""), {ctc_cases::kScores, Shape{3, 3}}),
              HasSubstr("expected marks (time steps x sequences) or"));
  EXPECT_THAT(refused(ctc_cases::decoder(""), {Shape{2, 2, 4}, Shape{2, 2}}),
              HasSubstr("use another number of sequences"));
  EXPECT_THAT(refused(ctc_cases::decoder(""), {ctc_cases::kScores}, 2), HasSubstr("at most 1 outputs"));
  EXPECT_THAT(refused(ctc_cases::decoder(""), {ctc_cases::kScores, ctc_cases::kSteps, Shape{2, 5}}, 1),
              HasSubstr("expected labels"));
  EXPECT_THAT(refused("type: 'LabelsequenceAccuracy'", {Shape{2, 5}, Shape{2, 3}}),
              HasSubstr("expected sequences x time steps x classes"));
}

}  // namespace
}  // namespace banyan::testing
