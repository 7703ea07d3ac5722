// CTC's operators on every device, against the sum over all paths.
#include "banyan/ops/ctc.hpp"

#include "ops/ctc_paths.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using ctc_paths::Labels;
using Values = std::vector<double>;

class Ctc : public DeviceTest {};

/// Sequences with their labels in rows, of which some need more time steps than there are.
TEST_P(Ctc, SumsOverAllPaths) {
  const int steps = 5, classes = 3, most = 4;
  const std::vector<Labels> sequences = {{0, 1}, {}, {1, 1}, {0, 0, 0, 0}, {1, 0, 1, 0}, {0}, {1, 1, 0}};
  const auto count = static_cast<std::int64_t>(sequences.size());
  const ops::CtcSizes sizes{steps, count, classes, most};
  const ops::CtcRule rule{2, true, false};
  const Values x = rounded(random_values(steps * count * classes, 1, -3, 3));
  Values rows(sequences.size() * most, 2), expected(x.size(), 0);
  double loss = 0;
  for (std::size_t n = 0; n < sequences.size(); ++n) {
    for (std::size_t l = 0; l < sequences[n].size(); ++l) rows[n * most + l] = sequences[n][l];
    Values own;
    const auto at = [&](std::size_t t, std::size_t c) { return (t * sequences.size() + n) * classes + c; };
    for (std::size_t t = 0; t < steps; ++t)
      for (std::size_t c = 0; c < classes; ++c) own.push_back(x[at(t, c)]);
    const ctc_paths::Sum sum = ctc_paths::sum_over_paths(own, steps, classes, sequences[n], 2);
    if (sum.likelihood == 0) continue;
    loss -= std::log(sum.likelihood);
    for (std::size_t t = 0; t < steps; ++t)
      for (std::size_t c = 0; c < classes; ++c) expected[at(t, c)] = sum.gradient[t * classes + c] / 8;
  }
  ops::CtcState state;
  const std::int64_t states = 2 * most + 1;
  state.targets = Tensor(device(), Shape{count, most}, DType::i32);
  state.lengths = Tensor(device(), Shape{count, 2}, DType::i32);
  state.norms = Tensor(device(), Shape{steps, count}, DType::f64);
  state.alpha = Tensor(device(), Shape{count, steps, states}, DType::f64);
  state.beta = Tensor(device(), Shape{count, steps, states}, DType::f64);
  state.likelihoods = Tensor(device(), Shape{count}, DType::f64);
  ops::CtcInput input;
  input.from = {make({count, most}, rows), 1, most, most, false, true};
  const Tensor scores = make({steps, count, classes}, x), grad_loss = make({1}, {0.5}),
               divisor = make_as(DType::f64, {1}, {4});
  Tensor noted = make_as(DType::f64, {2}, {0, 0}), partial = make_as(DType::f64, {2}, {-1, -1}),
         gradient = empty({steps, count, classes});
  ops::ctc_targets(context(), input, sizes, rule, state, noted);
  ops::ctc_loss_forward(context(), scores, sizes, rule, state, partial);
  ops::ctc_loss_backward(context(), scores, sizes, rule, state, grad_loss, divisor, gradient);
  EXPECT_EQ(values(noted), (Values{0, 0}));
  expect_near(values(partial), {loss, static_cast<double>(count)}, 1e-13);  // the scores are exact
  expect_near(values(gradient), expected, 8 * epsilon());
  rows[9] = 1.5;
  input.from.labels = make({count, most}, rows);
  ops::ctc_targets(context(), input, sizes, rule, state, noted);
  EXPECT_EQ(values(noted), (Values{1 + 2 * (most + 1) + 1, 1.5}));
}

TEST_P(Ctc, FindsBestPathsAndTheirDistances) {
  const std::int64_t steps = 6, count = 50, classes = 4, most = 5;
  const Values x = rounded(random_values(steps * count * classes, 1));
  Values marks(static_cast<std::size_t>(steps * count), 1), expected, penalties, wanted;
  double right = 0;
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t length = 1 + n % steps;
    for (std::int64_t t = length; t < steps; ++t) marks[static_cast<std::size_t>(t * count + n)] = 0;
    Labels path;
    double sum = 0;
    for (std::int64_t t = 0; t < length; ++t) {
      const auto first = x.begin() + (t * count + n) * classes;
      const auto best = std::max_element(first, first + classes);
      path.push_back(static_cast<int>(best - first));
      sum -= *best;
    }
    penalties.push_back(sum);
    Values labels;
    for (const int label : ctc_paths::labels_of(path, 1)) labels.push_back(label);
    // Every third sequence is wanted as it is.
    Values other = n % 3 == 0 ? labels : Values{3, 3, 3, 3, 3};
    const bool fits = other.size() <= static_cast<std::size_t>(most);
    other.resize(static_cast<std::size_t>(most), -1);
    wanted.insert(wanted.end(), other.begin(), other.end());
    right += n % 3 == 0 && fits ? 1 : 0;
    labels.resize(static_cast<std::size_t>(steps), -1);
    expected.insert(expected.end(), labels.begin(), labels.end());
  }
  const Tensor scores = make({steps, count, classes}, x), which = make({steps, count}, marks);
  Tensor decoded = empty({count, steps}), costs = empty({count}), none,
         scratch = make_as(DType::f64, {count, 2 * most + 1},
                           Values(static_cast<std::size_t>(count * (2 * most + 1)))),
         sums = make_as(DType::f64, {3}, {0, 0, 0});
  ops::ctc_best_paths(context(), scores, {steps, count, classes, count * classes, classes}, which, {1},
                      decoded, costs);
  EXPECT_EQ(values(decoded), expected);
  expect_near(values(costs), penalties, 4 * epsilon());
  const ops::CtcLabels rows{make({count, most}, wanted), 1, most, most, true, false};
  ops::ctc_distances(context(), decoded, rows, 1, true, scratch, sums);
  const Values found = values(sums);
  EXPECT_EQ(found[1], right);
  EXPECT_EQ(found[2], count);
  EXPECT_GE(found[0], right);
  EXPECT_LT(found[0], count);
}

BANYAN_ON_ALL_DEVICES(Ctc);

}  // namespace
}  // namespace banyan
