// Softmax, losses and accuracy against plain formulas in double.
#include "banyan/ops/loss.hpp"

#include <cfloat>

#include "ops/device_fixture.hpp"
#include "ops/gradient_check.hpp"

namespace banyan {
namespace {

using Values = std::vector<double>;
using ops::Channels;

const Channels kCases[] = {{5, 10, 1}, {3, 7, 4},   {1, 1, 3},   {2, 1000, 1},
                           {4, 3, 33}, {2, 5, 700}, {70, 65, 1}, {2, 67, 5}};

std::size_t at(const Channels& over, std::int64_t o, std::int64_t c, std::int64_t i) {
  return static_cast<std::size_t>((o * over.channels + c) * over.inner + i);
}

Values naive_softmax(const Values& x, const Channels& over) {
  Values y(x.size());
  for (std::int64_t o = 0; o < over.outer; ++o)
    for (std::int64_t i = 0; i < over.inner; ++i) {
      double most = -INFINITY, sum = 0;
      for (std::int64_t c = 0; c < over.channels; ++c) most = std::max(most, x[at(over, o, c, i)]);
      for (std::int64_t c = 0; c < over.channels; ++c) sum += std::exp(x[at(over, o, c, i)] - most);
      for (std::int64_t c = 0; c < over.channels; ++c)
        y[at(over, o, c, i)] = std::exp(x[at(over, o, c, i)] - most) / sum;
    }
  return y;
}

Shape shape_of(const Channels& over) { return {over.outer, over.channels, over.inner}; }

class LossTest : public DeviceTest {
 protected:
  Tensor softmax(const Values& x, const Channels& over) {
    const Tensor input = make(shape_of(over), x);
    Tensor y = empty(shape_of(over));
    ops::softmax_forward(context(), input, over, y);
    values(y);  // before `input` is destroyed
    return y;
  }
  /// Integers in [0, channels).
  Values random_labels(const Channels& over, unsigned seed) {
    Values labels = random_values(over.outer * over.inner, seed, 0, static_cast<double>(over.channels));
    for (double& label : labels) label = std::floor(label);
    return labels;
  }
  Tensor scalar64(double value) { return make_as(DType::f64, {1}, {value}); }
  Tensor nothing_noted() { return make_as(DType::f64, {3}, {0, 0, 0}); }
};

TEST_P(LossTest, SoftmaxForwardAndBackward) {
  for (const Channels& over : kCases) {
    SCOPED_TRACE(over.channels);
    const Values x = rounded(random_values(shape_of(over).count(), 1, -30, 30));
    const Values dy = rounded(random_values(shape_of(over).count(), 2));
    const Values y = naive_softmax(x, over);
    const Tensor found = softmax(x, over);
    // exp(x - most) is rounded at an argument of up to 60 (exact difference of rounded values: 2 ulp), then
    // divided by a sum in f64.
    expect_near(values(found), y, 8 * epsilon());
    Values dx(x.size());
    for (std::int64_t o = 0; o < over.outer; ++o)
      for (std::int64_t i = 0; i < over.inner; ++i) {
        double product = 0;
        for (std::int64_t c = 0; c < over.channels; ++c)
          product += dy[at(over, o, c, i)] * y[at(over, o, c, i)];
        for (std::int64_t c = 0; c < over.channels; ++c)
          dx[at(over, o, c, i)] = y[at(over, o, c, i)] * (dy[at(over, o, c, i)] - product);
      }
    const Tensor gradient = make(shape_of(over), dy);
    Tensor result = empty(shape_of(over));
    ops::softmax_backward(context(), found, gradient, over, result);
    expect_near(values(result), dx, 16 * epsilon());
  }
}

TEST_P(LossTest, SoftmaxShowsNan) {
  const Values y = values(softmax({1, NAN, 2, 3, 4, 5}, {2, 3, 1}));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(y[i]));
  EXPECT_FALSE(std::isnan(y[3]));
}

TEST_P(LossTest, SoftmaxLossSumsAndGradients) {
  for (const Channels& over : kCases) {
    SCOPED_TRACE(over.channels);
    const Values y = rounded(naive_softmax(random_values(shape_of(over).count(), 3, -3, 3), over));
    Values labels = random_labels(over, 4);
    labels[0] = 255;
    labels.back() = 255;
    double loss = 0, valid = 0;
    Values dx(y.size(), 0.0);
    for (std::int64_t o = 0; o < over.outer; ++o)
      for (std::int64_t i = 0; i < over.inner; ++i) {
        const double label = labels[o * over.inner + i];
        if (label == 255) continue;
        loss -= std::log(y[at(over, o, static_cast<std::int64_t>(label), i)]);
        valid += 1;
        for (std::int64_t c = 0; c < over.channels; ++c)
          dx[at(over, o, c, i)] = (y[at(over, o, c, i)] - (static_cast<double>(c) == label ? 1 : 0)) * 3 / 8;
      }
    const Tensor probabilities = make(shape_of(over), y), tags = make({over.outer, over.inner}, labels);
    const Tensor grad_loss = make({1}, {3}), divisor = scalar64(8);
    Tensor partial(device(), {2}, DType::f64), noted = nothing_noted(), gradient = empty(shape_of(over));
    ops::softmax_loss_forward(context(), probabilities, tags, over, {true, 255}, partial, noted);
    expect_near(values(partial), {loss, valid}, 1e-12);  // summed in f64
    EXPECT_EQ(values(noted), Values(3, 0.0));
    ops::softmax_loss_backward(context(), probabilities, tags, over, {true, 255}, grad_loss, divisor,
                               gradient);
    expect_near(values(gradient), dx, 4 * epsilon());
  }
}

TEST_P(LossTest, LabelsOutOfRangeAreNamedAndNeverRead) {
  const Channels over{3, 4, 2};
  const Tensor probabilities = make(shape_of(over), Values(24, 0.25));
  const Values good{0, 1, 2, 3, 0, 1};
  const double wrong[] = {4, -1, 1.5, 1e30, -1e30, NAN, INFINITY};
  for (const double label : wrong) {
    SCOPED_TRACE(label);
    Values labels = good;
    labels[3] = labels[4] = label;
    const Tensor tags = make({6}, labels), grad_loss = make({1}, {1}), divisor = scalar64(1);
    Tensor partial(device(), {2}, DType::f64), dx = empty(shape_of(over));
    Tensor counts(device(), {10}, DType::f64);
    Tensor of_loss = nothing_noted(), of_accuracy = nothing_noted();
    ops::softmax_loss_forward(context(), probabilities, tags, over, {}, partial, of_loss);
    ops::softmax_loss_backward(context(), probabilities, tags, over, {}, grad_loss, divisor, dx);
    ops::accuracy_counts(context(), probabilities, tags, over, {}, 1, false, counts, of_accuracy);
    expect_near(values(partial), {4 * std::log(4), 4}, 1e-12);
    EXPECT_EQ(values(counts)[1], 4);
    for (const Tensor& noted : {of_loss, of_accuracy}) {
      const Values found = values(noted);
      EXPECT_EQ(found[0], 2);  // sample 1
      EXPECT_EQ(found[1], 1);
      expect_near({found[2]}, {rounded({label})[0]}, 0);
    }
    for (const int place : {3, 4})
      for (int c = 0; c < 4; ++c)
        EXPECT_EQ(values(dx)[at(over, place / 2, c, place % 2)], 0) << "class " << c << " at " << place;
  }
  // An ignored label may be outside the classes.
  const Tensor tags = make({6}, {0, 1, -1, 3, -1, 1});
  Tensor partial(device(), {2}, DType::f64), noted = nothing_noted();
  ops::softmax_loss_forward(context(), probabilities, tags, over, {true, -1}, partial, noted);
  expect_near(values(partial), {4 * std::log(4), 4}, 1e-12);
  EXPECT_EQ(values(noted), Values(3, 0.0));
}

/// A GPU's records are read after many passes.
TEST_P(LossTest, TheFirstNoteStaysUntilItIsCleared) {
  const Channels over{2, 3, 1};
  const Tensor scores = make(shape_of(over), Values(6, 0.25));
  Tensor partial(device(), {2}, DType::f64), counts(device(), {8}, DType::f64);
  Tensor of_loss = nothing_noted(), of_accuracy = nothing_noted();
  const auto pass = [&](const Values& labels) {
    const Tensor tags = make({2}, labels);
    ops::softmax_loss_forward(context(), scores, tags, over, {}, partial, of_loss);
    ops::accuracy_counts(context(), scores, tags, over, {}, 1, false, counts, of_accuracy);
    EXPECT_EQ(values(of_loss), values(of_accuracy));  // before the labels are destroyed
    return values(of_loss);
  };
  EXPECT_EQ(pass({0, 1}), (Values{0, 0, 0}));
  EXPECT_EQ(pass({0, 7}), (Values{2, 0, 7}));
  EXPECT_EQ(pass({0, 1}), (Values{2, 0, 7}));
  EXPECT_EQ(pass({8, 1}), (Values{2, 0, 7}));
  of_loss = nothing_noted();
  of_accuracy = nothing_noted();
  EXPECT_EQ(pass({8, 1}), (Values{1, 0, 8}));
}

TEST_P(LossTest, ProbabilityZeroAndNan) {
  const Channels over{2, 2, 1};
  const Tensor tags = make({2}, {0, 1});
  Tensor partial(device(), {2}, DType::f64), noted = nothing_noted();
  const Tensor zero = make(shape_of(over), {0, 1, 0, 1});
  ops::softmax_loss_forward(context(), zero, tags, over, {}, partial, noted);
  expect_near(values(partial), {-std::log(static_cast<double>(FLT_MIN)), 2}, 1e-14);
  const Tensor nan = make(shape_of(over), {NAN, NAN, 0, 1});
  ops::softmax_loss_forward(context(), nan, tags, over, {}, partial, noted);
  EXPECT_TRUE(std::isnan(values(partial)[0]));
}

TEST_P(LossTest, SoftmaxLossGradientMatchesDifferences) {
  if (dtype() != DType::f64) GTEST_SKIP() << "differences need f64";
  const Channels over{3, 5, 2};
  const Values x = random_values(30, 5), labels = random_labels(over, 6);
  const Tensor tags = make({6}, labels), grad_loss = make({1}, {1}), divisor = scalar64(6);
  const auto loss = [&](const Values& scores) {
    const Tensor y = softmax(scores, over);
    Tensor partial(device(), {2}, DType::f64), noted = nothing_noted();
    ops::softmax_loss_forward(context(), y, tags, over, {}, partial, noted);
    return values(partial)[0] / 6;
  };
  const Tensor y = softmax(x, over);
  Tensor dx = empty(shape_of(over));
  ops::softmax_loss_backward(context(), y, tags, over, {}, grad_loss, divisor, dx);
  expect_gradient(loss, x, values(dx));
}

TEST_P(LossTest, Euclidean) {
  const Values a = rounded(random_values(77, 7)), b = rounded(random_values(77, 8));
  Values d(77), dx(77);
  double squares = 0;
  for (std::size_t i = 0; i < 77; ++i) {
    d[i] = rounded({a[i] - b[i]})[0];
    squares += d[i] * d[i];
    dx[i] = -d[i] * 2 / 7;
  }
  const Tensor x = make({7, 11}, a), y = make({7, 11}, b), grad_loss = make({1}, {2}), divisor = scalar64(7);
  Tensor difference = empty({7, 11}), partial = make_as(DType::f64, {2}, {5, 5}), gradient = empty({7, 11});
  ops::euclidean_forward(context(), x, y, difference, partial);
  EXPECT_EQ(values(difference), d);
  expect_near(values(partial), {squares / 2, 0}, 1e-13);
  ops::euclidean_backward(context(), difference, -1, grad_loss, divisor, gradient);
  expect_near(values(gradient), dx, 4 * epsilon());
  const Tensor small = scalar64(0);  // a divisor below 1 counts as 1
  ops::euclidean_backward(context(), difference, 0.5, grad_loss, small, gradient);
  EXPECT_EQ(values(gradient), d);
}

TEST_P(LossTest, EuclideanGradientMatchesDifferences) {
  if (dtype() != DType::f64) GTEST_SKIP() << "differences need f64";
  const Values a = random_values(12, 9), b = random_values(12, 10);
  const Tensor y = make({3, 4}, b), grad_loss = make({1}, {1}), divisor = scalar64(3);
  Tensor difference = empty({3, 4}), partial(device(), {2}, DType::f64), gradient = empty({3, 4});
  const auto loss = [&](const Values& moved) {
    const Tensor x = make({3, 4}, moved);
    ops::euclidean_forward(context(), x, y, difference, partial);
    return values(partial)[0] / 3;
  };
  loss(a);
  ops::euclidean_backward(context(), difference, 1, grad_loss, divisor, gradient);
  expect_gradient(loss, a, values(gradient));
}

TEST_P(LossTest, Quotient) {
  const Tensor sums = make_as(DType::f64, {3}, {5, 12, 0.5}), by = make_as(DType::f64, {2}, {4, 0});
  Tensor value = empty({1});
  const auto quotient = [&](const ops::Quotient& what) {
    ops::quotient(context(), sums, by, what, value);
    return values(value)[0];
  };
  EXPECT_EQ(quotient({1, 0, 1}), 3);
  EXPECT_EQ(quotient({1, 0, 6}), 2);
  EXPECT_EQ(quotient({2, 1, 1}), 0.5);
  EXPECT_EQ(quotient({0, 1, 0}), 0);  // nothing counted
}

TEST_P(LossTest, AccuracyCountsOtherClassesAtLeastAsGood) {
  const Channels over{4, 3, 2};
  const Values scores = rounded(random_values(24, 11)), labels{0, 1, 2, 0, 9, 2, 1, 1};
  for (const int top_k : {1, 2}) {
    Values expected(8, 0.0);
    for (std::int64_t o = 0; o < 4; ++o)
      for (std::int64_t i = 0; i < 2; ++i) {
        const double label = labels[o * 2 + i];
        if (label == 9) continue;
        const auto c = static_cast<std::int64_t>(label);
        int as_good = 0;
        for (std::int64_t other = 0; other < 3; ++other)
          as_good += other != c && scores[at(over, o, other, i)] >= scores[at(over, o, c, i)] ? 1 : 0;
        const double correct = as_good < top_k ? 1 : 0;
        const auto place = static_cast<std::size_t>(2 + 2 * c);
        expected[0] += correct, expected[1] += 1, expected[place] += correct, expected[place + 1] += 1;
      }
    const Tensor x = make({4, 3, 2}, scores), tags = make({4, 2}, labels);
    Tensor counts(device(), {8}, DType::f64), noted = nothing_noted();
    ops::accuracy_counts(context(), x, tags, over, {true, 9}, top_k, false, counts, noted);
    EXPECT_EQ(values(counts), expected);
  }
  // Ties count against the prediction.
  const Tensor equal = make({1, 3, 1}, {1, 1, 1}), tag = make({1}, {0});
  Tensor counts(device(), {8}, DType::f64), noted = nothing_noted();
  ops::accuracy_counts(context(), equal, tag, {1, 3, 1}, {}, 1, false, counts, noted);
  EXPECT_EQ(values(counts)[0], 0);
  ops::accuracy_counts(context(), equal, tag, {1, 3, 1}, {}, 3, false, counts, noted);
  EXPECT_EQ(values(counts)[0], 1);
  ops::accuracy_counts(context(), equal, tag, {1, 3, 1}, {}, 1, true, counts, noted);
  EXPECT_EQ(values(counts)[0], 0);
  const Tensor rising = make({1, 3, 1}, {1, 2, 3});
  for (const bool least_wins : {false, true}) {
    ops::accuracy_counts(context(), rising, tag, {1, 3, 1}, {}, 1, least_wins, counts, noted);
    EXPECT_EQ(values(counts)[0], least_wins ? 1 : 0);
  }
}

TEST_P(LossTest, EmptyBatch) {
  const Channels over{0, 3, 2};
  const Tensor none = empty({0, 3, 2}), labels = empty({0, 2}), grad_loss = make({1}, {1}),
               divisor = scalar64(1);
  Tensor y = empty({0, 3, 2}), partial = make_as(DType::f64, {2}, Values(2, 7.0));
  Tensor counts = make_as(DType::f64, {8}, Values(8, 7.0)), noted = nothing_noted();
  ops::softmax_forward(context(), none, over, y);
  ops::softmax_backward(context(), none, none, over, y);
  ops::softmax_loss_forward(context(), none, labels, over, {}, partial, noted);
  ops::softmax_loss_backward(context(), none, labels, over, {}, grad_loss, divisor, y);
  ops::accuracy_counts(context(), none, labels, over, {}, 1, false, counts, noted);
  EXPECT_EQ(values(partial), Values(2, 0.0));
  EXPECT_EQ(values(counts), Values(8, 0.0));
  EXPECT_EQ(values(noted), Values(3, 0.0));
}

TEST_P(LossTest, SameBitsEveryTime) {
  const Channels over{4096, 12, 9};  // enough for several tasks and threads
  const Tensor y = make(shape_of(over), naive_softmax(random_values(shape_of(over).count(), 12), over));
  const Tensor tags = make({over.outer, over.inner}, random_labels(over, 13));
  Values first;
  for (int run = 0; run < 4; ++run) {
    Tensor partial(device(), {2}, DType::f64), noted = nothing_noted();
    ops::softmax_loss_forward(context(), y, tags, over, {}, partial, noted);
    if (run == 0) first = values(partial);
    EXPECT_EQ(values(partial), first);
  }
}

BANYAN_ON_ALL_DEVICES(LossTest);

}  // namespace
}  // namespace banyan
