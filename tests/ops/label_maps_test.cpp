// Operators on maps of labels and on samples of classes, against plain loops.
#include "banyan/ops/label_maps.hpp"

#include <limits>
#include <set>

#include "banyan/ops/distance_loss.hpp"
#include "banyan/ops/margin.hpp"
#include "banyan/ops/rows.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using Values = std::vector<double>;
using ops::Channels;

class LabelMaps : public DeviceTest {
 protected:
  Tensor f64(const Values& values) {
    return make_as(DType::f64, {static_cast<std::int64_t>(values.size())}, values);
  }
  /// Integers from `least` to below `limit`.
  static Values integers(std::int64_t count, unsigned seed, int least, int limit) {
    Values values = random_values(count, seed, least, limit);
    for (double& value : values) value = std::floor(value);
    return values;
  }
};

TEST_P(LabelMaps, CountsAgreementPerClass) {
  for (const Channels& over : {Channels{3, 5, 400}, Channels{7, 2, 1}, Channels{0, 3, 9}}) {
    const std::int64_t pixels = over.outer * over.inner;
    const int classes = static_cast<int>(over.channels);
    const Values guesses = integers(pixels, 1, 0, classes), labels = integers(pixels, 2, -1, classes);
    ops::LabelList ignored;
    ignored.label[ignored.count++] = -1;
    Values counts(static_cast<std::size_t>(3 * over.channels), 0);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] < 0) continue;
      const auto is = static_cast<std::size_t>(labels[i]), said = static_cast<std::size_t>(guesses[i]);
      counts[3 * is] += is == said ? 1 : 0;
      ++counts[3 * is + 1];
      ++counts[3 * said + 2];
    }
    const Tensor predicted = make({pixels}, guesses), given = make({pixels}, labels);
    Tensor found = f64(counts), noted = f64({0, 0, 0});
    ops::count_agreement(context(), predicted, given, over, ignored, found, noted);
    expect_near(values(found), counts, 0);
    expect_near(values(noted), {0, 0, 0}, 0);
    ops::count_agreement(context(), predicted, given, over, {}, found, noted);  // -1 is no class now
    EXPECT_EQ(values(noted)[2], std::count(labels.begin(), labels.end(), -1.0) > 0 ? -1 : 0);
  }
  const Tensor counts = f64({4, 8, 5, 3, 4, 7, 0, 0, 0});
  Tensor y = empty({3});
  ops::agreement(context(), counts, y);
  expect_near(values(y), {7.0 / 12, (0.5 + 0.75) / 2, (4.0 / 9 + 3.0 / 8 + 1) / 3}, 4 * epsilon());
}

TEST_P(LabelMaps, AddsEarlierCounts) {
  constexpr double kMany = 5.0 * (1 << 20) + 3;
  for (const bool keeps : {false, true}) {
    Tensor counts = f64({1, kMany}), earlier = make({2, 4}, {7, (1 << 20) - 1, 0, 2, 5, 0, 1, 0});
    ops::add_earlier_counts(context(), counts, keeps, earlier);
    const double sums[] = {13.0 + (1 << 20), kMany + 3.0 * (1 << 20) - 1};
    expect_near(values(counts), {sums[0], sums[1]}, 0);
    expect_near(values(earlier),
                keeps ? Values{13, 2, 1, 8, 0, 0, 0, 0} : Values{7, (1 << 20) - 1, 0, 2, 5, 0, 1, 0}, 0);
  }
}

TEST_P(LabelMaps, ListsDifferentValues) {
  constexpr std::int64_t kRows = 3, kPlaces = 6;
  for (const std::int64_t length : {1, 5000}) {
    const Values x = integers(kRows * length, 3, 0, 5);
    ops::LabelList ignored, forced;
    ignored.label[ignored.count++] = 2;
    forced.label[forced.count++] = 7;
    Values expected;
    for (std::int64_t row = 0; row < kRows; ++row) {
      std::set<double> different{7};
      for (std::int64_t i = 0; i < length; ++i)
        different.insert(x[static_cast<std::size_t>(row * length + i)]);
      different.erase(2);
      different.insert(7);
      expected.insert(expected.end(), different.begin(), different.end());
      expected.resize(static_cast<std::size_t>((row + 1) * kPlaces), -1);
    }
    const Tensor map = make({kRows, length}, x);
    Tensor last = f64(Values(kRows, -std::numeric_limits<double>::infinity())), y = empty({kRows, kPlaces}),
           noted = f64({0, 0});
    for (std::int64_t place = 0; place < kPlaces; ++place)
      ops::next_value(context(), map, ignored, forced, place, last, y);
    ops::note_finite(context(), last, noted);
    expect_near(values(y), expected, 0);
    expect_near(values(noted), {0, 0}, 0);
  }
  const Tensor last = f64({std::numeric_limits<double>::infinity(), 4, 5});
  Tensor noted = f64({0, 0});
  ops::note_finite(context(), last, noted);
  expect_near(values(noted), {2, 4}, 0);
}

TEST_P(LabelMaps, BiasesChannels) {
  const Channels over{2, 3, 70};
  const std::int64_t count = over.outer * over.channels * over.inner;
  const Values x = rounded(random_values(count, 1));
  for (const bool lists : {true, false})
    for (const bool without : {true, false}) {
      ops::ChannelBias bias{4, 0.5, 1, without, lists, lists ? 2 : 1, {}};
      bias.ignored.label[bias.ignored.count++] = -1;
      const std::int64_t each = lists ? bias.each : over.inner;
      const Values labels = integers(over.outer * each, 2, -1, 3);
      Values expected = x;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t sample = i / over.inner / over.channels;
        const auto channel = static_cast<double>(i / over.inner % over.channels);
        double& value = expected[static_cast<std::size_t>(i)];
        if (lists) {
          for (std::int64_t j = 0; j < each; ++j)
            if (labels[static_cast<std::size_t>(sample * each + j)] == channel)
              value += channel == 1 ? 0.5 : 4;
          continue;
        }
        const double label = labels[static_cast<std::size_t>(sample * each + i % over.inner)];
        if (label < 0) continue;
        if (channel == 1 && !without)
          value += 0.5;
        else if (label == channel)
          value += 4;
      }
      const Tensor scores = make({count}, x), given = make({over.outer * each}, labels);
      Tensor y = empty({count}), noted = f64({0, 0, 0});
      ops::bias_channels(context(), scores, given, over, bias, y, noted);
      expect_near(values(y), expected, epsilon());
      expect_near(values(noted), {0, 0, 0}, 0);
    }
}

TEST_P(LabelMaps, AddsAtLabels) {
  const Channels over{2, 3, 70};
  const std::int64_t positions = over.outer * over.inner;
  const Values x = rounded(random_values(positions * over.channels, 1));
  Values labels = integers(positions, 2, 0, 3), expected = x;
  labels[1] = 3;  // no class
  int added = 0;
  for (std::int64_t i = 0; i < positions; ++i) {
    const double label = labels[static_cast<std::size_t>(i)];
    if (label == 3) continue;
    const std::int64_t at =
        (i / over.inner * over.channels + static_cast<std::int64_t>(label)) * over.inner + i % over.inner;
    double& value = expected[static_cast<std::size_t>(at)];
    if (value <= 0.25) continue;
    value -= 0.25;
    ++added;
  }
  EXPECT_GT(added, 20);
  EXPECT_LT(added, 120);
  const Tensor given = make({positions}, labels), bias = make({1}, {-0.25});
  Tensor y = make({positions * over.channels}, x), noted = f64({0, 0, 0});
  ops::add_at_labels(context(), given, over, bias, y, noted);
  expect_near(values(y), expected, epsilon());
  EXPECT_EQ(values(noted)[2], 3);
}

TEST_P(LabelMaps, RescalesByLabels) {
  const Channels over{2, 3, 70};
  const std::int64_t positions = over.outer * over.inner;
  const Values x = rounded(random_values(positions * over.channels, 1));
  Values labels = integers(positions, 3, 0, 3), expected = x;
  labels[1] = 3;  // no class
  for (std::int64_t i = 0; i < std::ssize(x); ++i) {
    const std::int64_t row = i / over.inner, at = row / over.channels * over.inner + i % over.inner;
    const bool own = labels[static_cast<std::size_t>(at)] == static_cast<double>(row % over.channels);
    expected[static_cast<std::size_t>(i)] *= own ? 0.5 : -2;
  }
  const Tensor given = make({positions}, labels), own = make({1}, {0.5});
  Tensor y = make({positions * over.channels}, x), noted = f64({0, 0, 0});
  ops::rescale_by_labels(context(), y, given, over, own, -2, y, noted);  // in place
  expect_near(values(y), expected, epsilon());
  EXPECT_EQ(values(noted)[2], 3);
}

TEST_P(LabelMaps, AddsDividedRows) {
  const Values x = rounded(random_values(12, 1)), y = rounded(random_values(12, 2));
  Values expected = y;
  for (std::size_t i = 0; i < 12; ++i) expected[i] -= x[i] / (1 + static_cast<double>(i / 4));
  const Tensor added = make({3, 4}, x), counts = f64({0, 1, 2});
  Tensor sum = make({3, 4}, y);
  ops::add_divided_rows(context(), added, counts, -1, sum);
  expect_near(values(sum), expected, 2 * epsilon());
}

TEST_P(LabelMaps, Cosines) {
  const Tensor a = make({3, 2}, {3, 4, 1, 2, 0, 0}), b = make({3, 2}, {4, 3, 2, 4, 1, 0}),
               dy = make({3}, {1, 2, 3});
  const Tensor products = f64({24, 10, 0}), a_squares = f64({25, 5, 0}), b_squares = f64({25, 20, 1});
  Tensor y = empty({3}), da = empty({3, 2});
  ops::cosines(context(), products, a_squares, b_squares, y);
  ops::cosines_backward(context(), a, b, products, a_squares, b_squares, dy, da);
  expect_near(values(y), {0.96, 1, 0}, 2 * epsilon());
  // b / (|a| |b|) - cos a / |a|^2
  expect_near(values(da), {0.16 - 0.96 * 0.12, 0.12 - 0.96 * 0.16, 0, 0, 0, 0}, 4 * epsilon());
}

TEST_P(LabelMaps, MarginLowersTheLabelsScore) {
  constexpr std::int64_t kSamples = 200, kClasses = 7;
  const ops::PassKey key = on_device({1, 2, 30});
  Tensor lambda = f64({0});
  ops::margin_lambda(context(), {12, 0.5, 1, 0.25, 9}, key.iteration, lambda);
  expect_near(values(lambda), {12 / 21.0}, 1e-15);
  ops::margin_lambda(context(), {12, 0.5, 3, 0.25, 9}, key.iteration, lambda);
  expect_near(values(lambda), {0.25}, 0);
  const Values cosines = random_values(kSamples * kClasses, 1, -0.99, 0.99),
               squares = random_values(kSamples, 2, 0.5, 4), labels = integers(kSamples, 3, 0, kClasses);
  const double pi = std::acos(-1.0);
  for (int m = 1; m <= 4; ++m) {
    Values products, expected, slopes, lengths, without;
    for (std::size_t i = 0; i < cosines.size(); ++i)
      products.push_back(cosines[i] * std::sqrt(squares[i / kClasses]));
    products = rounded(products);
    expected = products;
    for (std::size_t i = 0; i < kSamples; ++i) {
      double& score = expected[i * kClasses + static_cast<std::size_t>(labels[i])];
      without.push_back(score);
      const double length = std::sqrt(squares[i]), c = score / length, t = std::acos(c);
      const double k = std::floor(m * t / pi), sign = std::fmod(k, 2) == 0 ? 1 : -1;
      const double value = 0.8 * (sign * std::cos(m * t) - 2 * k) + 0.2 * c;
      slopes.push_back(0.8 * sign * m * std::sin(m * t) / std::sin(t) + 0.2);
      lengths.push_back((value - c * slopes.back()) / length);
      score = length * value;
    }
    Tensor y = make({kSamples, kClasses}, products), slope = f64(slopes), length = f64(lengths),
           plain = f64(Values(kSamples)), noted = f64({0, 0, 0});
    const Tensor given = make({kSamples}, labels), lengths_squared = f64(squares);
    ops::add_margin(context(), lengths_squared, given, m, lambda, {}, y, slope, length, plain, noted);
    expect_near(values(y), expected, 8 * epsilon() + 1e-13);
    expect_near(values(slope), slopes, 1e-12);
    expect_near(values(length), lengths, 1e-12);
    expect_near(values(plain), without, 0);
    expect_near(values(noted), {0, 0, 0}, 0);
  }
}

TEST_P(LabelMaps, MarginGradientsStayAtTheLabels) {
  const Tensor dy = make({2, 3}, {1, 2, 3, 4, 5, 6}), labels = make({2}, {2, 0}),
               x = make({2, 2}, {1, 2, 3, 4}), slopes = f64({0.5, 3}), lengths = f64({2, -1});
  Tensor dz = empty({2, 3}), dx = make({2, 2}, {10, 20, 30, 40});
  ops::scale_at_labels(context(), dy, labels, slopes, dz);
  expect_near(values(dz), {1, 2, 1.5, 12, 5, 6}, 0);
  ops::add_along_samples(context(), dy, labels, lengths, x, dx);
  expect_near(values(dx), {16, 32, 18, 24}, 0);
}

TEST_P(LabelMaps, MarginGradientsOfRows) {
  const Tensor squares = f64({4, 0.0625, 0x1p-40});
  Tensor inverse = empty({3}), steps = empty({3});
  ops::invert_lengths(context(), squares, 0.125, inverse, steps);
  expect_near(values(inverse), {0.5, 4, 0x1p20}, 0);
  expect_near(values(steps), {0.5, 4, 8}, 0);
  // Both samples are of class 2, whose scores without the margin were 7 and 8; class 9 does not exist.
  const Tensor dz = make({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}), y = make({3, 3}, {1, 0, 5, 0, 1, 5, 1, 1, 1}),
               labels = make({3}, {2, 2, 9}), plain = f64({7, 8, 0});
  Tensor along = empty({3});
  ops::sum_along_classes(context(), dz, y, labels, plain, along);
  expect_near(values(along), {1 + 7, 5 + 8, 3 * 7 + 6 * 8 + 9}, 0);
  const Tensor w = make({3, 2}, {1, 2, 3, 4, 0, 0x1p-20});
  Tensor dw = make({3, 2}, {10, 20, 30, 1000, 50, 60});
  ops::subtract_along_rows(context(), w, along, inverse, steps, dw);
  expect_near(values(dw),
              {10 - 8 * 0.25, 20 - 2 * 8 * 0.25, 30 - 3 * 13 * 16, 1000 - 4 * 13 * 16, 50, 60 - 8 * 78}, 0);
}

TEST_P(LabelMaps, NoMarginWithoutLengthOrClass) {
  const Tensor squares = f64({0, 1}), labels = make({2}, {1, 3}), lambda = f64({1});
  Tensor y = make({2, 3}, Values(6, 1)), slopes = f64({0, 0}), lengths = f64({0, 0}), plain = f64({0, 0}),
         noted = f64({0, 0, 0});
  ops::add_margin(context(), squares, labels, 2, lambda, {}, y, slopes, lengths, plain, noted);
  expect_near(values(y), Values(6, 1), 0);
  expect_near(values(slopes), {1, 1}, 0);
  expect_near(values(plain), {1, 0}, 0);
  expect_near(values(noted), {2, 0, 3}, 0);
}

BANYAN_ON_ALL_DEVICES(LabelMaps);

}  // namespace
}  // namespace banyan
