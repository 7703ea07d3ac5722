// Augmentation of FlowNet2: images, flows and the coefficients by which they change, against closed forms.
#include "banyan/ops/augmentation.hpp"

#include <array>
#include <functional>
#include <limits>
#include <set>

#include "layers/fake_exchange.hpp"

namespace banyan::testing {
namespace {

namespace places = ops::augmentation;

constexpr const char* kUnitAxes = "chromatic_eigvec: [1, 0, 0, 0, 1, 0, 0, 0, 1] ";
constexpr const char* kFlowNetAxes =
    "chromatic_eigvec: [0.51, 0.56, 0.65, 0.79, 0.01, -0.62, 0.35, -0.83, 0.44] ";

/// Of one sample; factors and powers as logarithms.
using Row = std::vector<std::pair<int, double>>;

Values coefficient_rows(const std::vector<Row>& rows) {
  Values values(rows.size() * places::kNumbers, 0);
  for (std::size_t n = 0; n < rows.size(); ++n)
    for (const auto& [place, value] : rows[n])
      values[n * places::kNumbers + static_cast<std::size_t>(place)] = value;
  return values;
}

std::string augmentation(const std::string& settings) {
  return "type: 'DataAugmentation' augmentation_param { " + settings + " }";
}

/// Images of this shape changed by given coefficients.
Values changed(const std::string& settings, const Shape& shape, const Values& x,
               const std::vector<Row>& rows) {
  Bench bench(augmentation(settings), {shape, Shape{shape[0], places::kNumbers, 1, 1}}, 1);
  bench.set_input(0, x);
  bench.set_input(1, coefficient_rows(rows));
  bench.forward();
  bench.layer().check_results(bench.context());
  return bench.output();
}

std::string crop(std::int64_t height, std::int64_t width) {
  return cat("crop_height: ", height, " crop_width: ", width, " ");
}

std::size_t index_in(const Shape& shape, std::int64_t n, std::int64_t c, std::int64_t y, std::int64_t x) {
  return static_cast<std::size_t>(((n * shape[1] + c) * shape[2] + y) * shape[3] + x);
}

TEST(DataAugmentation, LeavesImagesAloneWhereNothingChanges) {
  const Shape shape{2, 3, 5, 7};
  const Values x = spread_values(shape.count(), 1, 9);
  EXPECT_EQ(changed(crop(5, 7) + kFlowNetAxes, shape, x, {{}, {}}), x);
  EXPECT_EQ(changed("", shape, x, {{{places::angle, 1}}, {{places::noise, 1}}}), x);  // without a crop
  // In tests nothing is drawn.
  BenchOptions test;
  test.phase = Phase::test;
  Bench bench(augmentation(crop(5, 7) + "mirror { rand_type: 'bernoulli' } gamma { mean: 3 }"), {shape}, 2,
              test);
  bench.set_input(0, x);
  bench.forward();
  EXPECT_EQ(bench.output(0), x);
  EXPECT_EQ(bench.output(1), Values(2 * places::kNumbers, 0));
}

/// A crop in the middle, moved by a quarter of its width and three eighths of its height, drawn without
/// spread.
TEST(DataAugmentation, MovesByPartsOfTheResult) {
  const Shape shape{1, 2, 9, 12}, result{1, 2, 4, 4};
  Bench bench(augmentation(crop(4, 4) +
                           "translate_x { mean: 0.25 } translate_y { mean: 0.375 } translate { mean: 7 }"),
              {shape}, 2);
  const Values x = spread_values(shape.count(), 2);
  bench.set_input(0, x);
  bench.forward();
  const Values y = bench.output();
  for (std::int64_t c = 0; c < 2; ++c)
    for (std::int64_t row = 0; row < 4; ++row)
      for (std::int64_t column = 0; column < 4; ++column)  // (9 - 4) / 2 + 1.5, (12 - 4) / 2 + 1
        EXPECT_EQ(y[index_in(result, 0, c, row, column)], x[index_in(shape, 0, c, row + 4, column + 5)]);
  EXPECT_EQ(bench.output(1)[places::shift_x], 0.25);
  EXPECT_EQ(bench.output(1)[places::shift_y], 0.375);
}

TEST(DataAugmentation, MirrorsColumns) {
  const Shape shape{1, 1, 4, 8};
  const Values x = spread_values(shape.count(), 3);
  const Values y = changed(crop(4, 4), shape, x, {{{places::mirror, 1}, {places::shift_x, -0.25}}});
  for (std::int64_t row = 0; row < 4; ++row)
    for (std::int64_t column = 0; column < 4; ++column)
      EXPECT_EQ(y[index_in({1, 1, 4, 4}, 0, 0, row, column)], x[index_in(shape, 0, 0, row, 5 - column)]);
}

/// What is outside is as the nearest pixel inside.
TEST(DataAugmentation, RepeatsTheBorder) {
  const Shape shape{1, 1, 2, 4};
  const Values y = changed(crop(2, 4), shape, {1, 2, 3, 4, 5, 6, 7, 8}, {{{places::shift_x, 0.625}}});
  EXPECT_EQ(y, (Values{3.5, 4, 4, 4, 7.5, 8, 8, 8}));
}

/// Two images whose values rise evenly, the second moved by a flow, changed by different coefficients: where
/// the new flow leads in the second, there are the values of the first. Bilinear values are exact here.
TEST(FlowAugmentation, LeadsToTheSamePlaceOfTheSecondImage) {
  const Shape image{1, 1, 40, 60}, flow{1, 2, 40, 60}, cut{1, 1, 10, 12};
  const double right = 2.5, down = -1.25;
  const std::vector<std::pair<Row, Row>> cases = {
      {{}, {}},
      {{{places::shift_x, 0.25}}, {{places::shift_x, -0.5}, {places::shift_y, 0.125}}},
      {{{places::angle, 0.4}}, {{places::angle, -0.3}}},
      {{{places::zoom_x, 0.3}, {places::zoom_y, -0.2}}, {{places::zoom_x, -0.1}}},
      {{{places::mirror, 1},
        {places::angle, 0.2},
        {places::shift_y, 0.1},
        {places::zoom_x, 0.2},
        {places::zoom_y, 0.1}},
       {{places::mirror, 1},
        {places::angle, 0.3},
        {places::shift_x, 0.2},
        {places::zoom_x, 0.1},
        {places::zoom_y, 0.3}}},
  };
  Values first, second, moves;
  const auto value = [](double x, double y) { return 0.7 * x - 1.3 * y + 5; };
  for (int y = 0; y < 40; ++y)
    for (int x = 0; x < 60; ++x) {
      first.push_back(value(x, y));
      second.push_back(value(x - right, y - down));
    }
  moves.assign(2400, right);
  moves.resize(4800, down);
  for (const auto& [one, other] : cases) {
    const Values a = changed(crop(10, 12), image, first, {one}),
                 b = changed(crop(10, 12), image, second, {other});
    Bench bench("type: 'FlowAugmentation' augmentation_param { " + crop(10, 12) + "}",
                {flow, Shape{1, places::kNumbers, 1, 1}, Shape{1, places::kNumbers, 1, 1}}, 1);
    bench.set_input(0, moves);
    bench.set_input(1, coefficient_rows({one}));
    bench.set_input(2, coefficient_rows({other}));
    bench.forward();
    EXPECT_EQ(bench.outputs[0]->shape, (Shape{1, 2, 10, 12}));
    const Values led = bench.output();
    const double slope_x = b[1] - b[0], slope_y = b[12] - b[0];
    for (std::size_t i = 0; i < 120; ++i) {
      const double x = static_cast<double>(i % 12) + led[i], y = static_cast<double>(i / 12) + led[120 + i];
      EXPECT_NEAR(b[0] + slope_x * x + slope_y * y, a[i], 1e-9);
    }
  }
}

/// Both moved: the flow changes by the difference. It is that of the nearest pixel, unknown where that is.
TEST(FlowAugmentation, TakesTheNearestFlow) {
  const Shape flow{1, 2, 4, 6};
  Values moves = spread_values(flow.count(), 4);
  moves[index_in(flow, 0, 0, 2, 3)] = std::numeric_limits<double>::quiet_NaN();
  Bench bench("type: 'FlowAugmentation' augmentation_param { crop_height: 2 crop_width: 2 }",
              {flow, Shape{1, places::kNumbers, 1, 1}, Shape{1, places::kNumbers, 1, 1}}, 1);
  bench.set_input(0, moves);
  bench.set_input(1, coefficient_rows({{{places::shift_x, 0.1}}}));
  bench.set_input(2, coefficient_rows({{{places::shift_x, 0.6}, {places::shift_y, -0.25}}}));
  bench.forward();
  const Values y = bench.output();
  for (std::int64_t row = 0; row < 2; ++row)
    for (std::int64_t column = 0; column < 2; ++column) {
      const Shape result{1, 2, 2, 2};
      const double right = y[index_in(result, 0, 0, row, column)],
                   down = y[index_in(result, 0, 1, row, column)];
      if (row == 1 && column == 1) {
        EXPECT_TRUE(std::isnan(right));
        continue;
      }
      EXPECT_NEAR(right, moves[index_in(flow, 0, 0, row + 1, column + 2)] - 1, 1e-12);
      EXPECT_NEAR(down, moves[index_in(flow, 0, 1, row + 1, column + 2)] + 0.5, 1e-12);
    }
}

double clipped_to(double value, double most = 1) { return std::clamp(value, 0.0, most); }

TEST(DataAugmentation, ChangesColoursAndContrast) {
  const Shape shape{2, 3, 2, 3};
  Values x = spread_values(shape.count(), 5);
  for (double& value : x) value = 0.5 + 0.45 * value;
  const Values y = changed(crop(2, 3) + "max_multiplier: 1", shape, x,
                           {{},
                            {{places::gamma, std::log(2)},
                             {places::brightness, 0.1},
                             {places::contrast, std::log(1.5)},
                             {places::color, std::log(2)},
                             {places::color + 2, std::log(0.5)}}});
  for (std::size_t i = 0; i < 18; ++i) EXPECT_EQ(y[i], x[i]);  // nothing of this sample changes
  for (std::size_t i = 0; i < 6; ++i) {
    const double rgb[3] = {x[18 + i], x[24 + i], x[30 + i]};
    const double keeps = (rgb[0] + rgb[1] + rgb[2]) / (2 * rgb[0] + rgb[1] + 0.5 * rgb[2] + 0.01);
    const double factors[3] = {2, 1, 0.5};
    for (std::size_t c = 0; c < 3; ++c) {
      const double coloured = clipped_to(rgb[c] * factors[c] * keeps);
      EXPECT_NEAR(y[18 + 6 * c + i], clipped_to(0.5 + (coloured * coloured + 0.1 - 0.5) * 1.5), 1e-12);
    }
  }
}

struct ColourCase {
  Row row;
  std::function<std::array<double, 3>(const std::array<double, 3>& x, const std::array<double, 3>& mean,
                                      const std::array<double, 3>& largest)>
      expected;
};

double length_of(const std::array<double, 3>& x) {
  return std::sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]);
}

/// With the channels themselves as coordinates.
TEST(DataAugmentation, ChangesCoordinatesOfColours) {
  const Shape shape{2, 3, 3, 4};
  Values x = spread_values(shape.count(), 6);
  for (double& value : x) value = 0.5 + 0.4 * value;
  std::array<double, 3> mean{}, largest{};
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean[i / 12 % 3] += x[i] / 24;
    largest[i / 12 % 3] = std::max(largest[i / 12 % 3], x[i]);
  }
  using Colour = std::array<double, 3>;
  const auto as_light_as = [](Colour y, const Colour& x, double factor) {
    const double by = factor * length_of(x) / length_of(y);
    for (double& value : y) value *= by;
    return y;
  };
  const std::vector<ColourCase> cases = {
      {{{places::light_mult, std::log(0.5)}},
       [&](const Colour& c, const Colour&, const Colour&) { return as_light_as(c, c, 0.5); }},
      {{{places::light_pow, std::log(2)}},
       [&](const Colour& c, const Colour&, const Colour& l) {
         return as_light_as(c, c, length_of(c) / length_of(l));
       }},
      {{{places::light_add, 0.1}},
       [&](const Colour& c, const Colour&, const Colour& l) {
         return as_light_as(c, c, 1 + 0.1 * length_of(l) / length_of(c));
       }},
      {{{places::pow_whole + 1, 0},
        {places::mult_whole + 1, std::log(0.25)},
        {places::mult_whole + 2, std::log(0.25)}},
       [&](const Colour& c, const Colour&, const Colour&) {
         return as_light_as({c[0], c[1] / 4, c[2] / 4}, c, 1);
       }},
      {{{places::add_around, 0.2}},
       [&](const Colour& c, const Colour&, const Colour& l) {
         return Colour{c[0] + 0.2 * l[0], c[1], c[2]};
       }},
      {{{places::mult_around + 1, std::log(3)}},
       [&](const Colour& c, const Colour& m, const Colour&) {
         return Colour{c[0], m[1] + 3 * (c[1] - m[1]), c[2]};
       }},
      {{{places::pow_around + 2, std::log(2)}},
       [&](const Colour& c, const Colour& m, const Colour& l) {
         const double way = (c[2] - m[2]) / l[2];
         return Colour{c[0], c[1], m[2] + std::copysign(way * way, way) * l[2]};
       }},
      {{{places::color_angle, 0.3}},
       [&](const Colour& c, const Colour&, const Colour& l) {
         const double a = c[1] / l[1], b = c[2] / l[2];
         // The saturation stays that before the angle, in coordinates as long as their largest values.
         const Colour turned{c[0], (std::cos(0.3) * a - std::sin(0.3) * b) * l[1],
                             (std::sin(0.3) * a + std::cos(0.3) * b) * l[2]};
         return as_light_as(turned, turned, 1);
       }},
  };
  for (std::size_t k = 0; k < cases.size(); ++k) {
    const Values y = changed(crop(3, 4) + kUnitAxes + "max_multiplier: 0.75", shape, x, {{}, cases[k].row});
    for (std::size_t i = 0; i < 36; ++i) EXPECT_EQ(y[i], x[i]) << k;
    for (std::size_t i = 0; i < 12; ++i) {
      const Colour c{x[36 + i], x[48 + i], x[60 + i]}, expected = cases[k].expected(c, mean, largest);
      for (std::size_t channel = 0; channel < 3; ++channel)
        EXPECT_NEAR(y[36 + 12 * channel + i], clipped_to(std::min(expected[channel], largest[channel]), 0.75),
                    1e-12)
            << "case " << k << ", pixel " << i << ", channel " << channel;
    }
  }
}

/// Coordinates along axes at right angles and of length 1: values turned there, and back.
TEST(DataAugmentation, ColoursHaveCoordinatesAlongTheAxes) {
  const Shape shape{1, 3, 2, 2};
  const Values x = {0.2, 0.4, 0.6, 0.8, 0.9, 0.1, 0.5, 0.3, 0.3, 0.7, 0.2, 0.6};
  const Values y = changed(crop(2, 2) + "chromatic_eigvec: [0.6, 0.8, 0, -0.8, 0.6, 0, 0, 0, 1] ", shape, x,
                           {{{places::light_mult, std::log(0.75)}}});
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], 0.75 * x[i], 1e-6);
}

TEST(DataAugmentation, DarkensOneSideAndAddsNoise) {
  const Shape shape{1, 3, 20, 30};
  const Values x(static_cast<std::size_t>(shape.count()), 0.5);
  const Values dark =
      changed(crop(20, 30), shape, x, {{{places::shadow_strength, 0.3}, {places::shadow_distance, 3.5}}});
  for (std::int64_t i = 0; i < shape.count(); ++i)
    EXPECT_NEAR(dark[static_cast<std::size_t>(i)], i % 30 - 15 > 3.5 ? 0.2 : 0.5, 1e-12);
  const Values noisy = changed(crop(20, 30), shape, x, {{{places::noise, 0.1}}});
  double sum = 0, squares = 0;
  for (const double value : noisy) {
    sum += value - 0.5;
    squares += (value - 0.5) * (value - 0.5);
  }
  EXPECT_NEAR(sum / 1800, 0, 0.01);
  EXPECT_NEAR(squares / 1800, 0.01, 0.002);
  EXPECT_EQ(std::set<double>(noisy.begin(), noisy.end()).size(), noisy.size());
}

TEST(DataAugmentation, LearnsTheMeanOfTheFirstPasses) {
  const Shape shape{2, 3, 2, 2};
  for (const bool per_pixel : {true, false}) {
    const std::string text =
        augmentation(cat(crop(2, 2), "recompute_mean: 2 mean_per_pixel: ", per_pixel ? "true" : "false"));
    Bench bench(text, {shape}, 1);
    Values mean(12, 0);
    for (int k = 0; k < 3; ++k) {
      const Values x = spread_values(24, static_cast<unsigned>(k), 5);
      bench.set_input(0, x);
      bench.forward();
      Values now(12, 0);
      for (std::size_t i = 0; i < 24; ++i)
        if (per_pixel)
          now[i % 12] += x[i] / 2;
        else
          for (std::size_t j = 0; j < 4; ++j) now[i / 4 % 3 * 4 + j] += x[i] / 8;
      for (std::size_t i = 0; i < 12 && k < 2; ++i) mean[i] = (k * mean[i] + now[i]) / (k + 1);
      Values expected = x, of_channels(3, 0);
      for (std::size_t i = 0; i < 24; ++i) expected[i] -= mean[i % 12];
      for (std::size_t i = 0; i < 12; ++i) of_channels[i / 4] += mean[i] / 4;
      expect_near(bench.output(), expected, 1e-12, text);
      expect_near(bench.parameter(1), mean, 1e-12, text);
      expect_near(bench.parameter(2), of_channels, 1e-12, text);
      EXPECT_EQ(bench.parameter(0), Values{k + 1.0});
    }
    // Tests subtract it as it is, and so do passes that leave no trace.
    BenchOptions test;
    test.phase = Phase::test;
    Bench tested(text, {shape}, 1, test);
    for (std::size_t i = 1; i < 3; ++i) tested.set_parameter(i, bench.parameter(i));
    const Values x = spread_values(24, 9);
    tested.set_input(0, x);
    tested.forward();
    Values expected = x;
    for (std::size_t i = 0; i < 24; ++i) expected[i] -= mean[i % 12];
    expect_near(tested.output(), expected, 1e-12, text);
    EXPECT_EQ(tested.parameter(0), Values{0});
    expect_near(tested.parameter(1), mean, 1e-12, text);
  }
  // Given ones.
  const Values y = changed("mean: [1, 2, 3] mean_per_pixel: false", {1, 3, 1, 2}, {1, 2, 3, 4, 5, 6}, {{}});
  EXPECT_EQ(y, (Values{0, 1, 1, 2, 2, 3}));
}

TEST(DataAugmentation, LearnsNothingFromNoSamples) {
  for (const bool per_pixel : {true, false}) {
    const std::string text = augmentation(
        cat(crop(1, 2), kFlowNetAxes,
            "lmult_mult { mean: 1 } recompute_mean: 2 mean_per_pixel: ", per_pixel ? "true" : "false"));
    Bench bench(text, {Shape{0, 3, 1, 2}}, 2);
    bench.forward();
    EXPECT_EQ(bench.outputs[1]->shape, (Shape{0, places::kNumbers, 1, 1}));
    EXPECT_EQ(bench.parameter(0), Values{0}) << text;
    bench.reshape({Shape{1, 3, 1, 2}});
    bench.set_input(0, {1, 3, 2, 4, 5, 9});
    bench.forward();
    EXPECT_EQ(bench.parameter(0), Values{1}) << text;
    expect_near(bench.parameter(2), {2, 3, 7}, 1e-12, text);
  }
}

/// Colours are measured, the mean is learned and numbers are drawn for the batch of all devices.
TEST(DataAugmentation, SeveralDevicesAreOne) {
  const Shape whole{4, 3, 6, 8}, part{2, 3, 6, 8};
  Values x = spread_values(whole.count(), 7);
  for (double& value : x) value = 0.5 + 0.4 * value;
  const std::string text = augmentation(
      crop(4, 5) + kFlowNetAxes +
      "max_multiplier: 1 recompute_mean: 5 mean_per_pixel: false translate { spread: 0.1 } rotate { spread: "
      "0.2 } "
      "lmult_pow { rand_type: 'gaussian' exp: true spread: 0.3 } sat_mult { exp: true spread: 0.4 } "
      "col_rotate { spread: 1 } gamma { exp: true spread: 0.2 } noise { mean: 0.03 spread: 0.02 }");
  Bench one(text, {whole}, 2);
  one.set_input(0, x);
  one.forward();
  const Values y = one.output(0), rows = one.output(1), mean = one.parameter(2);
  MeetingPoint point(2);
  run_replicas(point, [&](int rank) {
    BenchOptions options;
    options.rank = rank;
    options.devices = 2;
    Bench bench(text, {part}, 2, options);
    FakeExchange exchange(point, rank);
    bench.pass.exchange = &exchange;
    bench.pass.samples = {rank, 2};
    Values own;
    for (std::size_t n = static_cast<std::size_t>(rank); n < 4; n += 2)
      own.insert(own.end(), x.begin() + static_cast<std::ptrdiff_t>(n * 144),
                 x.begin() + static_cast<std::ptrdiff_t>((n + 1) * 144));
    bench.set_input(0, own);
    bench.forward();
    const Values changed_here = bench.output(0), rows_here = bench.output(1);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::size_t n = 2 * i + static_cast<std::size_t>(rank);
      for (std::size_t at = 0; at < 60; ++at) EXPECT_NEAR(changed_here[i * 60 + at], y[n * 60 + at], 1e-12);
      for (std::size_t at = 0; at < places::kNumbers; ++at)
        EXPECT_EQ(rows_here[i * places::kNumbers + at], rows[n * places::kNumbers + at]);
    }
    expect_near(bench.parameter(2), mean, 1e-12, "mean");
  });
  EXPECT_EQ(point.meetings(), 2);
}

/// Draws of `count` samples; the images have no channels, only sizes.
Values drawn_rows(const std::string& settings, std::int64_t count, std::int64_t draw = 0,
                  const std::string& more = "", Phase phase = Phase::train) {
  BenchOptions options;
  options.phase = phase;
  Bench bench("type: 'GenerateAugmentationParameters' augmentation_param { mode: 'regenerate' " + settings +
                  " } " + more,
              {Shape{count, places::kNumbers, 1, 1}, Shape{count, 0, 40, 60}, Shape{count, 0, 10, 12}}, 1,
              options);
  bench.pass.draw = draw;
  bench.forward();
  return bench.output();
}

Values at_place(const Values& rows, int place) {
  Values values;
  for (std::size_t i = static_cast<std::size_t>(place); i < rows.size(); i += places::kNumbers)
    values.push_back(rows[i]);
  return values;
}

struct Spread {
  double mean = 0, deviation = 0, least = 0, most = 0;
};
Spread spread_of(const Values& values) {
  Spread found;
  found.least = found.most = values[0];
  for (const double value : values) {
    found.mean += value / static_cast<double>(values.size());
    found.least = std::min(found.least, value);
    found.most = std::max(found.most, value);
  }
  for (const double value : values)
    found.deviation += (value - found.mean) * (value - found.mean) / static_cast<double>(values.size());
  found.deviation = std::sqrt(found.deviation);
  return found;
}

TEST(GenerateAugmentationParameters, DrawsFromItsDistributions) {
  const Values rows = drawn_rows(
      "mirror { rand_type: 'bernoulli' prob: 0.25 } rotate { rand_type: 'gaussian' mean: 0.1 spread: 0.05 } "
      "gamma { exp: true mean: 0.2 spread: 0.5 } brightness { rand_type: 'uniform_bernoulli' mean: 2 spread: "
      "1 prob: 0.3 } "
      "contrast { mean: 3 spread: 0.2 discretize: true multiplier: 2 } "
      "color { rand_type: 'gaussian_bernoulli' exp: true spread: 0.1 prob: 0.5 } sat_add { spread: 0.5 }",
      4000);
  const Spread mirror = spread_of(at_place(rows, places::mirror));
  EXPECT_NEAR(mirror.mean, 0.25, 0.03);
  EXPECT_NEAR(mirror.deviation, std::sqrt(0.25 * 0.75), 0.03);
  const Spread angle = spread_of(at_place(rows, places::angle));
  EXPECT_NEAR(angle.mean, 0.1, 0.004);
  EXPECT_NEAR(angle.deviation, 0.05, 0.003);
  EXPECT_GT(angle.most, 0.2);
  const Spread gamma = spread_of(at_place(rows, places::gamma));  // the logarithm of e to the number
  EXPECT_NEAR(gamma.mean, 0.2, 0.02);
  EXPECT_NEAR(gamma.deviation, 0.5 / std::sqrt(3), 0.01);
  EXPECT_NEAR(gamma.least, -0.3, 0.01);
  EXPECT_NEAR(gamma.most, 0.7, 0.01);
  const Values brightness = at_place(rows, places::brightness);
  const auto nothing = std::count(brightness.begin(), brightness.end(), 0.0);
  EXPECT_NEAR(static_cast<double>(nothing) / 4000, 0.7, 0.03);
  for (const double value : brightness) EXPECT_TRUE(value == 0 || (value >= 1 && value <= 3));
  for (const double value : at_place(rows, places::contrast)) EXPECT_NEAR(value, std::log(6), 1e-12);
  const Values red = at_place(rows, places::color), blue = at_place(rows, places::color + 2);
  EXPECT_NEAR(static_cast<double>(std::count(red.begin(), red.end(), 0.0)) / 4000, 0.5, 0.03);
  EXPECT_NE(red, blue);
  EXPECT_EQ(at_place(rows, places::add_whole + 1), at_place(rows, places::add_whole + 2));
  EXPECT_EQ(at_place(rows, places::noise), Values(4000, 0));
  // Other numbers in each pass; none in tests, unless they are asked for.
  EXPECT_NE(drawn_rows("rotate { spread: 0.1 }", 3, 1), drawn_rows("rotate { spread: 0.1 }", 3, 2));
  EXPECT_EQ(drawn_rows("rotate { mean: 0.1 }", 3, 1, "", Phase::test), Values(3 * places::kNumbers, 0));
  EXPECT_EQ(drawn_rows("rotate { mean: 0.1 } augment_during_test: true", 3, 1, "", Phase::test),
            drawn_rows("rotate { mean: 0.1 }", 3, 1));
}

/// Instead of a number that chance did not bring there is 0, and e to it with `exp`; but what moves images,
/// and shadows, is left as it is.
TEST(GenerateAugmentationParameters, WhatDoesNotHappen) {
  const auto value = [](const std::string& field, int place) {
    return drawn_rows(field + " { rand_type: 'uniform_bernoulli' exp: true mean: 3 prob: 0 multiplier: 2 }",
                      1)[static_cast<std::size_t>(place)];
  };
  EXPECT_EQ(value("brightness", places::brightness), 2);
  EXPECT_NEAR(value("contrast", places::contrast), std::log(2), 1e-12);
  EXPECT_EQ(value("zoom", places::zoom_x), 0);
  EXPECT_EQ(value("rotate", places::angle), 0);
  EXPECT_EQ(value("shadow_angle", places::shadow_angle), 0);
  EXPECT_EQ(value("shadow_strength", places::shadow_strength), 0);
  EXPECT_EQ(value("noise", places::noise), 2);
}

TEST(GenerateAugmentationParameters, MirrorHasNoSpreadByTheSchedule) {
  const auto mirrored = [](const std::string& more) {
    return at_place(drawn_rows("mirror { mean: 0 spread: 1 " + more + "}", 20), places::mirror);
  };
  EXPECT_EQ(mirrored(""), Values(20, 0));
  EXPECT_EQ(mirrored("apply_schedule: false"), Values(20, 1));
}

TEST(GenerateAugmentationParameters, SqueezeIsOfBothSides) {
  const Values rows = drawn_rows("zoom { exp: true mean: 0.3 } squeeze { exp: true mean: 0.2 }", 2);
  EXPECT_NEAR(rows[places::zoom_x], 0.5, 1e-7);
  EXPECT_NEAR(rows[places::zoom_y], 0.1, 1e-7);
}

/// Half of the way at half_life: 2 / (1 + 1/3) - 1.
TEST(GenerateAugmentationParameters, SpreadsFollowTheSchedule) {
  const std::string schedule = "coeff_schedule_param { half_life: 100 initial_coeff: 0.5 final_coeff: 1 }";
  const auto spread_at = [&](const std::string& settings, std::int64_t draw) {
    return spread_of(at_place(drawn_rows("brightness { " + settings + " }", 4000, draw, schedule),
                              places::brightness))
        .most;
  };
  EXPECT_NEAR(spread_at("spread: 1", 0), 0.5 + 0.5 * (2 / (1 + std::exp(-0.010986)) - 1), 0.006);
  EXPECT_NEAR(spread_at("spread: 1", 99), 0.75, 0.006);
  EXPECT_NEAR(spread_at("spread: 1", 5000), 1, 0.006);
  EXPECT_NEAR(spread_at("spread: 1 apply_schedule: false", 0), 1, 0.006);
}

/// The corners of the result, 10 x 12, stay within images of 40 x 60.
TEST(GenerateAugmentationParameters, ResultsAreInsideOfTheirImages) {
  const Values rows =
      drawn_rows("translate { spread: 2 } rotate { spread: 3 } zoom { exp: true spread: 1 }", 500);
  int moved = 0;
  for (std::size_t n = 0; n < 500; ++n) {
    const double* row = rows.data() + n * places::kNumbers;
    moved += row[places::shift_x] != 0;
    for (const double px : {0.0, 11.0})
      for (const double py : {0.0, 9.0}) {
        const double c = std::cos(row[places::angle]), s = std::sin(row[places::angle]), x = px - 6,
                     y = py - 5;
        const double across =
                         (c * x - s * y + 12 * row[places::shift_x]) / std::exp(row[places::zoom_x]) + 30,
                     down = (s * x + c * y + 10 * row[places::shift_y]) / std::exp(row[places::zoom_y]) + 20;
        EXPECT_TRUE(across >= 0 && across < 59 && down >= 0 && down < 39) << n;
      }
  }
  EXPECT_GT(moved, 450);
  // Where none of 50 tries is, nothing moves.
  EXPECT_EQ(drawn_rows("translate { mean: 9 } ", 2), Values(2 * places::kNumbers, 0));
}

TEST(GenerateAugmentationParameters, JoinsThoseThatComeIn) {
  const auto joined = [](const std::string& mode) {
    Bench bench("type: 'GenerateAugmentationParameters' augmentation_param { " + mode +
                    " rotate { mean: 0.1 } gamma { exp: true mean: 0.2 } }",
                {Shape{1, places::kNumbers, 1, 1}, Shape{1, 3, 40, 60}, Shape{1, 3, 10, 12}}, 1);
    bench.set_input(
        0, coefficient_rows(
               {{{places::angle, 0.3}, {places::shift_x, 0.4}, {places::gamma, 0.5}, {places::noise, 0.6}}}));
    bench.forward();
    const Values row = bench.output();
    return Values{row[places::angle], row[places::shift_x], row[places::gamma], row[places::noise]};
  };
  expect_near(joined(""), {0.4, 0.4, 0.7, 0.6}, 1e-7, "add");
  expect_near(joined("mode: 'replace'"), {0.1, 0, 0.2, 0.6}, 1e-7, "replace");
  expect_near(joined("mode: 'regenerate'"), {0.1, 0, 0.2, 0}, 1e-7, "regenerate");
}

TEST(GenerateAugmentationParameters, TakesImagesAlone) {
  Bench bench(
      "type: 'GenerateAugmentationParameters' bottom: 'x' augmentation_param { crop_height: 3 crop_width: 4 "
      "rotate { mean: 0.1 } }",
      {Shape{2, 3, 8, 9}}, 1);
  bench.forward();
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{2, places::kNumbers, 1, 1}));
  EXPECT_NEAR(bench.output()[places::angle], 0.1, 1e-7);
  const std::string alone =
      "type: 'GenerateAugmentationParameters' bottom: 'c' augmentation_param { crop_height: 3 "
      "crop_width: 4 rotate { mean: 0.1 } ";
  EXPECT_NE(refusal(alone + "}", {Shape{2, places::kNumbers, 1, 1}})
                .find("needs bottomwidth and bottomheight, the size of the images"),
            std::string::npos);
  EXPECT_EQ(refusal(alone + "bottomwidth: 9 bottomheight: 8 }", {Shape{2, places::kNumbers, 1, 1}}),
            "accepted");
}

TEST(Augmentation, RefusesWrongSettings) {
  const Shape image{2, 3, 8, 9};
  const auto says = [&](const std::string& text, const std::vector<Shape>& inputs, const std::string& what) {
    EXPECT_NE(refusal(text, inputs).find(what), std::string::npos) << text << ": " << refusal(text, inputs);
  };
  says(augmentation("zoom { rand_type: 'normal' }"), {image},
       "zoom.rand_type must be uniform, gaussian, bernoulli, uniform_bernoulli or gaussian_bernoulli; found "
       "\"normal\"");
  says(augmentation("noise { spread: -1 }"), {image},
       "noise must have finite numbers and a spread that is not negative");
  says(augmentation("gamma { prob: 1.5 }"), {image}, "gamma.prob must be from 0 to 1; found 1.5");
  says(augmentation("crop_width: 4"), {image}, "crop_width and crop_height come together");
  says(augmentation(crop(9, 9)), {image}, "the part, 9 x 9, is larger than the images of \"input0\", 8 x 9");
  says(augmentation("chromatic_eigvec: 1"), {image}, "chromatic_eigvec has 1 numbers; expected 9");
  says("bottom: 'x' " + augmentation("sat_pow { mean: 2 }"), {image},
       "lmult, sat, col and ladd need chromatic_eigvec, 9 numbers");
  says(augmentation("mean: 1"), {image}, "mean has 1 numbers; expected 3, one for each channel");
  says(augmentation("mean: [1, 2, 3] mean_per_pixel: false"), {{2, 4, 8, 9}},
       "mean has 3 numbers; the images have 4 channels");
  says(augmentation("max_multiplier: 0"), {image}, "max_multiplier must be above 0; found 0");
  says(augmentation("") + " coeff_schedule_param { half_life: 0 }", {image},
       "coeff_schedule_param must have a half_life above 0");
  says(augmentation(crop(4, 4)), {image, {2, 41, 1, 1}},
       "expected the coefficients of 2 samples, 2 42 1 1 (84)");
  says("type: 'FlowAugmentation'", {{2, 2, 8, 9}, {2, 42, 1, 1}, {2, 42, 1, 1}},
       "crop_width and crop_height are needed; found 0 and 0");
  says("type: 'FlowAugmentation' augmentation_param { crop_height: 4 crop_width: 4 }",
       {image, {2, 42, 1, 1}, {2, 42, 1, 1}}, "expected N x 2 x H x W");
  says("type: 'GenerateAugmentationParameters' augmentation_param { mode: 'multiply' }", {image},
       "mode must be add, replace or regenerate; found \"multiply\"");
}

/// What comes in is known only when it has been computed.
TEST(DataAugmentation, RefusesCoefficientsThatItCannotFollow) {
  const auto says = [](const Shape& shape, const Row& row, const std::string& what) {
    try {
      changed(crop(2, 2), shape, spread_values(shape.count(), 1), {row});
      EXPECT_EQ(what, "");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
      EXPECT_NE(what, "") << error.what();
    }
  };
  says({1, 2, 3, 3}, {{places::angle, 1}}, "");
  says({1, 2, 3, 3}, {{places::gamma, 1}}, "colours and effects need 3 channels; the images have 2");
  says({1, 3, 3, 3}, {{places::gamma, 1}}, "");
  says({1, 3, 3, 3}, {{places::light_mult, 1}},
       "the coefficients change colours, which needs chromatic_eigvec");
}

/// Files from results of another size.
TEST(DataAugmentation, ReadsTheMeanOfChannelsOfAnyFile) {
  io::LayerWeights file;
  file.blobs.resize(3);
  file.blobs[0].floats = {5};
  file.blobs[1].floats.assign(27, 1);
  file.blobs[2].floats = {1, 2, 3};
  for (const bool per_pixel : {false, true}) {
    Bench bench(
        augmentation(cat(crop(2, 2), "recompute_mean: 5 mean_per_pixel: ", per_pixel ? "true" : "false")),
        {Shape{1, 3, 3, 3}}, 1);
    const auto blobs = bench.layer().match_blobs(file);
    ASSERT_EQ(blobs.size(), 3u);
    EXPECT_EQ(blobs[1], per_pixel ? &file.blobs[1] : nullptr);
    EXPECT_EQ(blobs[2], &file.blobs[2]);
  }
}

TEST(ChannelNorm, IsTheLengthOfTheChannels) {
  for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
    BenchOptions options;
    options.input_layout = layout;
    Bench bench("type: 'ChannelNorm'", {Shape{1, 2, 1, 3}}, 1, options);
    bench.set_input(0, {3, 0, 5, -4, 0, 12});
    bench.forward();
    EXPECT_EQ(bench.outputs[0]->shape, (Shape{1, 1, 1, 3}));
    EXPECT_EQ(bench.output(), (Values{5, 0, 13}));
    bench.backward(Values{10, 7, 26});
    expect_near(bench.input_gradient(), {6, 0, 10, -8, 0, 24}, 1e-8, "gradient");
  }
}

}  // namespace
}  // namespace banyan::testing
