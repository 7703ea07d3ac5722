// MultiStageMeanfield and DenseCRF: their lattices against sums over all pixels; their results against loops
// over dense matrices; gradients, first weights, refusals, early nets.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "banyan/base/error.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "banyan/layers/filler.hpp"
#include "layers/gradient_checker.hpp"
#include "layers/permutohedral.hpp"

namespace banyan::testing {
namespace {

using ::testing::HasSubstr;

using Matrix = std::vector<Values>;

/// Rows and columns of an image, and its colours (all of one channel, then of the next), as coordinates.
Values features_of(int width, int height, double theta, const Values& colors = {}, double theta_color = 1) {
  Values features;
  const int pixels = width * height;
  for (int p = 0; p < pixels; ++p) {
    features.push_back(p % width / theta);
    features.push_back(p / width / theta);
    for (std::size_t c = static_cast<std::size_t>(p); c < colors.size();
         c += static_cast<std::size_t>(pixels))
      features.push_back(colors[c] / theta_color);
  }
  return features;
}

Values all_sums(const Values& features, std::size_t dimensions, const Values& x) {
  Values sums(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j) {
      double squares = 0;
      for (std::size_t d = 0; d < dimensions; ++d)
        squares += std::pow(features[i * dimensions + d] - features[j * dimensions + d], 2);
      sums[i] += x[j] * std::exp(-squares / 2);
    }
  return sums;
}

/// A smooth image with an edge and a little noise.
Values soft_colors(int width, int height, unsigned seed) {
  Values colors = spread_values(3 * width * height, seed, 2);
  for (std::size_t i = 0; i < colors.size(); ++i) {
    const auto pixel = static_cast<int>(i) % (width * height);
    colors[i] += pixel % width * 1.5 + pixel / width + (pixel % width > width / 2 ? 60 : 0);
  }
  return colors;
}

TEST(Permutohedral, FiltersOnePointAsWorkedOutByHand) {
  // A point at a vertex of a simplex: the vertex keeps 1 and gets 1/8 back by way of the other two.
  EXPECT_NEAR(Permutohedral({0, 0}, 2, 1).filtered({1})[0], 1.125 * std::sqrt(3.0) * std::numbers::pi / 6,
              1e-14);
  // In one dimension the two corners are each other's neighbours: along one axis, then along the other.
  EXPECT_NEAR(Permutohedral({0}, 1, 1).filtered({1})[0], 1.25 * std::sqrt(std::numbers::pi * 2 / 3) / 2,
              1e-14);
}

/// Points as even as pixels: the sum of the Gaussian over all of them is its integral.
TEST(Permutohedral, GivesTheSumsOverEvenPoints) {
  struct Tested {
    int dimensions, side, theta;
  };
  for (const Tested& tested : {Tested{1, 400, 4}, Tested{2, 60, 4}, Tested{3, 26, 3}}) {
    Values features;
    std::vector<bool> inside;
    const auto points = static_cast<int>(std::pow(tested.side, tested.dimensions) + 0.5);
    for (int p = 0; p < points; ++p) {
      int rest = p;
      inside.push_back(true);
      for (int d = 0; d < tested.dimensions; ++d, rest /= tested.side) {
        const int at = rest % tested.side;
        features.push_back(static_cast<double>(at) / tested.theta);
        if (at < 4 * tested.theta - 1 || at > tested.side - 4 * tested.theta) inside.back() = false;
      }
    }
    const Values found =
        Permutohedral(features, tested.dimensions, 1).filtered(Values(static_cast<std::size_t>(points), 1));
    const double expected = std::pow(std::sqrt(2 * std::numbers::pi) * tested.theta, tested.dimensions);
    int seen = 0;
    for (std::size_t p = 0; p < found.size(); ++p) {
      if (!inside[p]) continue;
      ++seen;
      ASSERT_NEAR(found[p] / expected, 1, 0.003) << tested.dimensions << " dimensions, point " << p;
    }
    EXPECT_GT(seen, 20);
  }
}

TEST(Permutohedral, DividesEachPointAmongItsCorners) {
  for (const int dimensions : {1, 2, 3, 5}) {
    const Permutohedral lattice(spread_values(200 * dimensions, 3, 20), dimensions, 1);
    ASSERT_EQ(lattice.points(), 200);
    ASSERT_EQ(lattice.corners(), dimensions + 1);
    for (std::int64_t p = 0; p < 200; ++p) {
      double sum = 0;
      for (int k = 0; k <= dimensions; ++k) {
        const double weight = lattice.weights()[static_cast<std::size_t>(p * (dimensions + 1) + k)];
        EXPECT_GE(weight, -1e-12);
        sum += weight;
      }
      EXPECT_NEAR(sum, 1, 1e-12);
    }
    // Corners are vertices of one simplex: each is the neighbour of the next, along some axis.
    for (std::int64_t p = 0; p < 200; ++p)
      for (int k = 0; k < dimensions; ++k) {
        const auto vertex = [&](int corner) {
          return lattice.vertex_of()[static_cast<std::size_t>(p * (dimensions + 1) + corner)];
        };
        int beside = 0;
        for (int axis = 0; axis <= dimensions; ++axis)
          beside +=
              lattice.neighbours(axis)[2 * static_cast<std::size_t>(vertex(k))] == vertex(k + 1) ? 1 : 0;
        EXPECT_EQ(beside, 1) << "point " << p << ", corner " << k;
      }
    // Who is above one is below the other.
    for (int axis = 0; axis <= dimensions; ++axis)
      for (std::int64_t v = 0; v < lattice.vertices(); ++v)
        if (const int above = lattice.neighbours(axis)[2 * static_cast<std::size_t>(v)]; above >= 0) {
          EXPECT_EQ(lattice.neighbours(axis)[2 * static_cast<std::size_t>(above) + 1], v);
        }
  }
}

TEST(Permutohedral, ComesNearTheSumsOverAllPixels) {
  const int side = 24;
  const Values x = spread_values(side * side, 4), ones(x.size(), 1);
  const Values colors = soft_colors(side, side, 5);
  struct Tested {
    Values features;
    int dimensions;
    double sums, means;  ///< largest relative error of sums, largest error of means
  };
  // At borders, and where colours are sparse, neighbours have no vertices: sums are too small, means hardly.
  for (const Tested& tested : {Tested{features_of(side, side, 3), 2, 0.14, 0.03},
                               Tested{features_of(side, side, 8, colors, 12), 5, 0.45, 0.03}}) {
    const Permutohedral lattice(tested.features, tested.dimensions, 1);
    const auto dimensions = static_cast<std::size_t>(tested.dimensions);
    const Values found = lattice.filtered(x), found_ones = lattice.filtered(ones);
    const Values exact = all_sums(tested.features, dimensions, x);
    const Values exact_ones = all_sums(tested.features, dimensions, ones);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(found_ones[i] / exact_ones[i], 1, tested.sums) << dimensions << " dimensions, pixel " << i;
      EXPECT_NEAR(found[i] / found_ones[i], exact[i] / exact_ones[i], tested.means) << dimensions << " " << i;
    }
  }
}

TEST(Permutohedral, LeavesFarPointsAloneAndTakesEqualOnesTogether) {
  const Permutohedral far({0, 0, 40, 0, 0, 40}, 2, 1);
  const Values apart = far.filtered({1, 2, 4}), alone = far.filtered({1, 1, 1});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(apart[i] / alone[i], std::pow(2, i), 1e-12);
  const double end = Permutohedral::kFarthest;
  const Permutohedral farthest({end, -end, end, -end, end, -end, -end, -end, -end, -end}, 5, 1);
  const Values ends = farthest.filtered({1, 2}), each = farthest.filtered({1, 1});
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(ends[i] / each[i], 1.0 + static_cast<double>(i), 1e-12);
  const Permutohedral equal({0.3, 0.7, -2, 0.3, 0.7, -2}, 3, 1);
  const Values together = equal.filtered({1, 4}), both = equal.filtered({1, 1});
  EXPECT_NEAR(together[0] / both[0], 2.5, 1e-12);
  EXPECT_NEAR(together[1] / both[1], 2.5, 1e-12);
}

/// Pixels lie on borders of simplices. Two devices' colours differ in their last bits from one device's.
TEST(Permutohedral, DoesTheSameOnBordersHoweverColoursAreRounded) {
  const int side = 12;
  const Values x = spread_values(side * side, 4), rounding = spread_values(3 * side * side, 6);
  for (unsigned seed = 0; seed < 20; ++seed) {
    Values colors = spread_values(3 * side * side, 10 + seed, 2);
    for (std::size_t i = 0; i < colors.size(); ++i) colors[i] += 0.1 * rounding[i];
    const Values expected = Permutohedral(features_of(side, side, 3, colors, 0.5), 5, 1).filtered(x);
    for (std::size_t i = 0; i < colors.size(); ++i) colors[i] += 1e-15 * rounding[i];
    const Values found = Permutohedral(features_of(side, side, 3, colors, 0.5), 5, 1).filtered(x);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-8) << seed << " " << i;
  }
}

TEST(Permutohedral, IsLinearAndHasItsTransposedMatrix) {
  const int side = 15;
#if defined(__SANITIZE_THREAD__)  // it does not understand libgomp's barriers: false races
  const int threads = 1;
#else
  const int threads = 2;
#endif
  const Permutohedral lattice(features_of(side, side, 5, soft_colors(side, side, 8), 9), 5, threads);
  const Values x = spread_values(side * side, 1), y = spread_values(side * side, 2);
  Values both(x);
  for (std::size_t i = 0; i < x.size(); ++i) both[i] = 2 * x[i] - 3 * y[i];
  const Values ax = lattice.filtered(x), ay = lattice.filtered(y), ab = lattice.filtered(both);
  const Values ty = lattice.filtered(y, true);
  double forward = 0, backward = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(ab[i], 2 * ax[i] - 3 * ay[i], 1e-12);
    forward += y[i] * ax[i];
    backward += ty[i] * x[i];
    size += std::abs(y[i] * ax[i]);
  }
  EXPECT_NEAR(forward, backward, 1e-12 * size);
  EXPECT_NE(ty, ay) << "the order of the axes matters";
  // As many threads as there may be: the same lattice.
  const Permutohedral alone(features_of(side, side, 5, soft_colors(side, side, 8), 9), 5, 1);
  EXPECT_EQ(alone.filtered(x), ax);
  EXPECT_EQ(alone.entries(), lattice.entries());
}

std::string meanfield(const std::string& settings) {
  return "type: 'MultiStageMeanfield' multi_stage_meanfield_param { theta_alpha: 4 theta_beta: 1.5 "
         "theta_gamma: 2 " +
         settings + " }";
}

/// Row p: what each pixel counts in the filtered value of pixel p.
Matrix dense(const Values& features, int dimensions) {
  const Permutohedral lattice(features, dimensions, 1);
  const auto points = static_cast<std::size_t>(lattice.points());
  Matrix matrix(points, Values(points));
  const Values sums = lattice.filtered(Values(points, 1));
  for (std::size_t j = 0; j < points; ++j) {
    Values unit(points);
    unit[j] = 1;
    const Values column = lattice.filtered(unit);
    for (std::size_t p = 0; p < points; ++p) matrix[p][j] = column[p] / sums[p];
  }
  return matrix;
}

/// scores = u - C (S s + B b) of one image, classes x pixels, so many times.
Values scores_by_loops(const Values& unary, Values scores, const Matrix& near, const Matrix& alike,
                       const std::vector<Values>& weights, std::size_t classes, int iterations) {
  const std::size_t pixels = unary.size() / classes;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    Values q(unary.size()), next(unary);
    for (std::size_t p = 0; p < pixels; ++p) {
      double sum = 0;
      for (std::size_t c = 0; c < classes; ++c) sum += std::exp(scores[c * pixels + p]);
      for (std::size_t c = 0; c < classes; ++c) q[c * pixels + p] = std::exp(scores[c * pixels + p]) / sum;
    }
    for (std::size_t p = 0; p < pixels; ++p) {
      Values message(classes);
      for (std::size_t from = 0; from < classes; ++from) {
        double spatial = 0, bilateral = 0;
        for (std::size_t j = 0; j < pixels; ++j) {
          spatial += near[p][j] * q[from * pixels + j];
          bilateral += alike[p][j] * q[from * pixels + j];
        }
        for (std::size_t to = 0; to < classes; ++to)
          message[to] +=
              weights[0][to * classes + from] * spatial + weights[1][to * classes + from] * bilateral;
      }
      for (std::size_t to = 0; to < classes; ++to)
        for (std::size_t from = 0; from < classes; ++from)
          next[to * pixels + p] -= weights[2][to * classes + from] * message[from];
    }
    scores = next;
  }
  return scores;
}

TEST(MultiStageMeanfield, GivesTheScoresOfLoopsOverAllPixels) {
  const int width = 5, height = 4, iterations = 3;
  const std::size_t classes = 3, pixels = 20;
  const Shape maps{2, 3, height, width};
  const Values unary = spread_values(120, 1, 2), first = spread_values(120, 2, 2);
  const Values image = spread_values(120, 3, 4);
  const std::vector<Values> weights{spread_values(9, 4), spread_values(9, 5), spread_values(9, 6)};
  for (const Phase phase : {Phase::train, Phase::test}) {
    BenchOptions options;
    options.phase = phase;
    Bench bench(meanfield("num_iterations: 3"), {maps, maps, maps}, 1, options);
    for (std::size_t p = 0; p < 3; ++p) bench.set_parameter(p, weights[p]);
    bench.set_input(0, unary);
    bench.set_input(1, first);
    bench.set_input(2, image);
    bench.forward();
    bench.layer().check_results(bench.context());
    const Values found = bench.output();
    for (std::size_t n = 0; n < 2; ++n) {
      const auto of_image = [&](const Values& all) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(n * classes * pixels);
        return Values(begin, begin + static_cast<std::ptrdiff_t>(classes * pixels));
      };
      const Values expected = scores_by_loops(
          of_image(unary), of_image(first), dense(features_of(width, height, 2), 2),
          dense(features_of(width, height, 4, of_image(image), 1.5), 5), weights, classes, iterations);
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(of_image(found)[i], expected[i], 1e-11) << "image " << n << ", element " << i;
    }
  }
}

TEST(MultiStageMeanfield, AddsTheProbabilitiesOfASinglePixel) {
  // Filtered values are the pixel's own: each iteration adds (3 + 5) times its probabilities.
  const Shape pixel{1, 2, 1, 1};
  Bench bench("type: 'MultiStageMeanfield' multi_stage_meanfield_param { num_iterations: 2 }",
              {pixel, pixel, Shape{1, 3, 1, 1}}, 1);
  bench.set_parameter(0, {3, 0, 0, 3});
  bench.set_parameter(1, {5, 0, 0, 5});
  bench.set_parameter(2, {-1, 0, 0, -1});
  bench.set_input(0, {0.5, 0.25});
  bench.set_input(1, {1, 2});
  bench.set_input(2, {10, 20, 30});
  bench.forward();
  const double second = 1 / (1 + std::exp(-1.0));
  const double last = 1 / (1 + std::exp(-(0.25 + 8 * second) + (0.5 + 8 * (1 - second))));
  EXPECT_NEAR(bench.output()[0], 0.5 + 8 * (1 - last), 1e-12);
  EXPECT_NEAR(bench.output()[1], 0.25 + 8 * last, 1e-12);
}

TEST(MultiStageMeanfield, HasItsGradients) {
  const Shape maps{2, 3, 4, 5};
  for (const Phase phase : {Phase::train, Phase::test}) {
    BenchOptions options;
    options.phase = phase;
    Bench bench(meanfield("num_iterations: 3"), {maps, maps, maps}, 1, options);
    for (std::size_t i = 0; i < 3; ++i) {
      bench.set_input(i, spread_values(120, static_cast<unsigned>(i + 1), 2));
      bench.set_parameter(i, spread_values(9, static_cast<unsigned>(i + 4)));
    }
    GradientChecker(bench).run();
  }
}

TEST(MultiStageMeanfield, LearnsOneOfItsWeights) {
  const Shape maps{1, 2, 2, 3};
  Bench bench(
      "param { lr_mult: 0 } param { lr_mult: 1 } param { lr_mult: 0 } " + meanfield("num_iterations: 2"),
      {maps, maps, Shape{1, 3, 2, 3}}, 1);
  bench.set_input(0, spread_values(12, 1));
  bench.set_input(1, spread_values(12, 2));
  bench.set_input(2, spread_values(18, 3));
  for (std::size_t p = 0; p < 3; ++p) bench.set_parameter(p, spread_values(4, static_cast<unsigned>(p + 4)));
  GradientChecker(bench).run();
}

TEST(MultiStageMeanfield, TakesAnyBatchAndSize) {
  Bench bench(meanfield("num_iterations: 2"), {Shape{2, 2, 3, 3}, Shape{2, 2, 3, 3}, Shape{2, 3, 3, 3}}, 1);
  for (std::size_t p = 0; p < 3; ++p) bench.set_parameter(p, spread_values(4, static_cast<unsigned>(p + 4)));
  const auto run = [&](const Shape& maps, const Values& scores, const Values& image) {
    bench.reshape({maps, maps, Shape{maps[0], 3, maps[2], maps[3]}});
    bench.set_input(0, scores);
    bench.set_input(1, scores);
    bench.set_input(2, image);
    bench.forward();
    return bench.output();
  };
  const Values scores = spread_values(36, 1), image = spread_values(54, 2);
  const Values both = run({2, 2, 3, 3}, scores, image);
  run({1, 2, 5, 4}, spread_values(40, 3), spread_values(60, 4));
  run({0, 2, 5, 4}, {}, {});
  Values each = run({1, 2, 3, 3}, Values(scores.begin(), scores.begin() + 18),
                    Values(image.begin(), image.begin() + 27));
  const Values second =
      run({1, 2, 3, 3}, Values(scores.begin() + 18, scores.end()), Values(image.begin() + 27, image.end()));
  each.insert(each.end(), second.begin(), second.end());
  for (std::size_t i = 0; i < both.size(); ++i) EXPECT_NEAR(each[i], both[i], 1e-13) << i;
}

std::vector<Values> first_weights(const std::string& settings) {
  const Shape maps{1, 3, 2, 2};
  Bench bench(meanfield(settings), {maps, maps, maps}, 1);
  std::vector<Values> all;
  for (const Parameter& parameter : bench.layer().parameters()) {
    EXPECT_EQ(parameter.shape, (Shape{1, 1, 3, 3}));
    Values values(9, 7);
    fill_values(parameter.filler, parameter.shape, {1, "crf", 0}, 1, values.data());
    all.push_back(values);
  }
  return all;
}

TEST(MultiStageMeanfield, BeginsWithTheSettingsWeights) {
  const Values compatibilities{-1, 0, 0, 0, -1, 0, 0, 0, -1};
  EXPECT_EQ(first_weights(""),
            (std::vector<Values>{{3, 0, 0, 0, 3, 0, 0, 0, 3}, {5, 0, 0, 0, 5, 0, 0, 0, 5}, compatibilities}));
  EXPECT_EQ(first_weights("spatial_filter_weight: 0.5 bilateral_filter_weights_str: '1 2.25\t-3e-2 '"),
            (std::vector<Values>{
                {0.5, 0, 0, 0, 0.5, 0, 0, 0, 0.5}, {1, 0, 0, 0, 2.25, 0, 0, 0, -0.03f}, compatibilities}));
}

TEST(MultiStageMeanfield, RefusesWhatDoesNotFit) {
  const Shape maps{1, 3, 4, 5};
  const auto expect = [&](const std::string& settings, const std::vector<Shape>& shapes,
                          const std::string& part) {
    EXPECT_THAT(
        refusal("type: 'MultiStageMeanfield' multi_stage_meanfield_param { " + settings + " }", shapes),
        HasSubstr(part));
  };
  expect("num_iterations: 0", {maps, maps, maps}, "num_iterations must be positive");
  expect("theta_beta: 0", {maps, maps, maps}, "theta_beta must be 0.001 or more; found 0");
  expect("theta_gamma: -1", {maps, maps, maps}, "theta_gamma must be");
  expect("spatial_filter_weight: nan", {maps, maps, maps},
         "spatial_filter_weight and bilateral_filter_weight must be finite; found nan and 5");
  expect("bilateral_filter_weight: inf", {maps, maps, maps}, "must be finite; found 3 and inf");
  expect("theta_alpha: nan", {maps, maps, maps}, "theta_alpha must be");
  for (const char* field : {"is_no_class_weights", "detection_potentials_enabled", "ho_potentials_enabled"})
    expect(std::string(field) + ": true", {maps, maps, maps}, "are not supported");
  expect("spatial_filter_weights_str: '3 3'", {maps, maps, maps},
         "spatial_filter_weights_str has 2 numbers; expected 3, one for each class");
  expect("bilateral_filter_weights_str: '3 3,3 3'", {maps, maps, maps},
         "bilateral_filter_weights_str must be 3 numbers, one for each class; found \"3,3\"");
  expect("", {maps, Shape{1, 3, 4, 4}, maps}, "expected the same shape");
  expect("", {maps, maps, Shape{1, 1, 4, 5}},
         "the images \"input2\" are 1 1 4 5 (20); expected 1 3 4 5 (60)");
  expect("", {Shape{1, 3, 4}, Shape{1, 3, 4}, maps}, "expected 4 (N, C, H, W)");
  expect("", {Shape{1, 3, 0, 5}, Shape{1, 3, 0, 5}, Shape{1, 3, 0, 5}}, "have no pixels");
  Bench bench(meanfield("num_iterations: 2"), {maps, maps, maps}, 1);
  EXPECT_THROW(bench.reshape({Shape{1, 2, 4, 5}, Shape{1, 2, 4, 5}, maps}), Error);
}

TEST(MultiStageMeanfield, RefusesColoursThatAreNoNumbers) {
  const Shape maps{1, 3, 2, 2};
  Bench bench(meanfield("num_iterations: 2"), {maps, maps, maps}, 1);
  for (std::size_t i = 0; i < 3; ++i) bench.set_input(i, spread_values(12, static_cast<unsigned>(i)));
  for (const double color : {std::numeric_limits<double>::quiet_NaN(), 2e8}) {
    Values image = spread_values(12, 2);
    image[5] = color;
    bench.set_input(2, image);
    bench.forward();
    try {
      bench.layer().check_results(bench.context());
      ADD_FAILURE() << color;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("image 0 has a colour of"));
    }
    bench.layer().check_results(bench.context());
  }
}

TEST(MultiStageMeanfield, IsReadFromEarlyNets) {
  caffe::NetParameter net = io::parse_net_text(
      "layers { name: 'crf' type: MULTI_STAGE_MEANFIELD bottom: 'u' bottom: 'q' bottom: 'data' top: 'pred' "
      "blobs_lr: 0.001 blobs_lr: 0.001 blobs_lr: 0.01 multi_stage_meanfield_param { num_iterations: 5 "
      "compatibility_mode: POTTS threshold: 2 theta_alpha: 160 theta_beta: 3 theta_gamma: 3 "
      "spatial_filter_weight: 3 bilateral_filter_weight: 5 } }",
      "net");
  io::upgrade_net(net, "net");
  ASSERT_EQ(net.layer_size(), 1);
  EXPECT_EQ(net.layer(0).type(), "MultiStageMeanfield");
  EXPECT_EQ(net.layer(0).multi_stage_meanfield_param().num_iterations(), 5u);
  EXPECT_EQ(net.layer(0).multi_stage_meanfield_param().theta_alpha(), 160);
  ASSERT_EQ(net.layer(0).param_size(), 3);
  EXPECT_FLOAT_EQ(net.layer(0).param(2).lr_mult(), 0.01f);
}

/// q of one image, classes x pixels: its scores and the filtered q, weighted, again and again.
Values crf_by_loops(const Values& scores, const std::vector<std::pair<double, Matrix>>& filters,
                    std::size_t classes, int repetitions) {
  const std::size_t pixels = scores.size() / classes;
  const auto softmax = [&](const Values& x) {
    Values q(x.size());
    for (std::size_t p = 0; p < pixels; ++p) {
      double sum = 0;
      for (std::size_t c = 0; c < classes; ++c) sum += std::exp(x[c * pixels + p]);
      for (std::size_t c = 0; c < classes; ++c) q[c * pixels + p] = std::exp(x[c * pixels + p]) / sum;
    }
    return q;
  };
  Values q = softmax(scores);
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    Values next = scores;
    for (const auto& [weight, matrix] : filters)
      for (std::size_t p = 0; p < pixels; ++p)
        for (std::size_t j = 0; j < pixels; ++j)
          for (std::size_t c = 0; c < classes; ++c)
            next[c * pixels + p] += weight * matrix[p][j] * q[c * pixels + j];
    q = softmax(next);
  }
  return q;
}

/// The upper left corner, height x width, of image n of N x C x 4 x 5.
Values corner(const Values& maps, std::size_t channels, std::size_t n, std::size_t height,
              std::size_t width) {
  Values part;
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t y = 0; y < height; ++y)
      for (std::size_t x = 0; x < width; ++x) part.push_back(maps[((n * channels + c) * 4 + y) * 5 + x]);
  return part;
}

constexpr const char* kDenseCrf =
    "type: 'DenseCRF' dense_crf_param { max_iter: 3 pos_w: 3 pos_w: 0.5 pos_xy_std: 2 pos_xy_std: 1 bi_w: 4 "
    "bi_xy_std: 4 bi_rgb_std: 1.5 ";

TEST(DenseCrf, GivesTheProbabilitiesOfLoopsOverThePixelsThatAreReal) {
  const Shape maps{2, 3, 4, 5};
  const Values scores = spread_values(120, 1, 2), images = spread_values(120, 3, 4);
  for (const bool probabilities : {true, false}) {
    Bench bench(kDenseCrf + std::string(probabilities ? "}" : "output_probability: false }"),
                {maps, Shape{2, 3}, maps}, 1);
    bench.set_input(0, scores);
    bench.set_input(1, {3, 4, 99, 500, 2, 99});  // the second is wider than the maps, and not as high
    bench.set_input(2, images);
    bench.forward();
    bench.layer().check_results(bench.context());
    for (std::size_t n = 0; n < 2; ++n) {
      const std::size_t height = n == 0 ? 3 : 4, width = n == 0 ? 4 : 2;
      const int w = static_cast<int>(width), h = static_cast<int>(height);
      const Matrix alike = dense(features_of(w, h, 4, corner(images, 3, n, height, width), 1.5), 5);
      const Values expected = crf_by_loops(
          corner(scores, 3, n, height, width),
          {{3, dense(features_of(w, h, 2), 2)}, {0.5, dense(features_of(w, h, 1), 2)}, {4, alike}}, 3, 3);
      const Values found = corner(bench.output(), 3, n, height, width);
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(found[i], probabilities ? expected[i] : std::log(expected[i]), 1e-11);
      EXPECT_EQ(bench.output()[n * 60 + 19], 0) << "the lower right corner is not real";
    }
  }
}

TEST(DenseCrf, OfCcnnGivesTheLikeliestClasses) {
  const Shape maps{2, 3, 4, 5};
  const Values scores = spread_values(120, 5, 2), images = spread_values(120, 6, 100);
  Bench bench(
      "type: 'DenseCRF' densecrf_param { x_gauss: 2 y_gauss: 1 wt_gauss: 1.5 x_bilateral: 4 y_bilateral: 3 "
      "r_bilateral: 20 g_bilateral: 30 b_bilateral: 40 wt_bilateral: 2 }",
      {maps, maps}, 1);
  bench.set_input(0, scores);
  bench.set_input(1, images);
  bench.forward();
  ASSERT_EQ(bench.outputs[0]->shape, (Shape{2, 1, 4, 5}));
  for (std::size_t n = 0; n < 2; ++n) {
    const Values image = corner(images, 3, n, 4, 5);
    Values near, alike;
    for (std::size_t p = 0; p < 20; ++p) {
      const auto x = static_cast<double>(p % 5), y = static_cast<double>(p / 5);
      near.insert(near.end(), {x / 2, y / 1});
      alike.insert(alike.end(), {x / 4, y / 3, image[p] / 40, image[20 + p] / 30, image[40 + p] / 20});
    }
    const Values q =
        crf_by_loops(corner(scores, 3, n, 4, 5), {{1.5, dense(near, 2)}, {2, dense(alike, 5)}}, 3, 10);
    for (std::size_t p = 0; p < 20; ++p) {
      const auto label = static_cast<std::size_t>(bench.output()[n * 20 + p]);
      ASSERT_LT(label, 3u);
      for (std::size_t c = 0; c < 3; ++c) EXPECT_GE(q[label * 20 + p], q[c * 20 + p] - 1e-12);
    }
  }
}

TEST(DenseCrf, RefusesWhatDoesNotFit) {
  const Shape maps{1, 2, 3, 4}, image{1, 3, 3, 4}, size{1, 2};
  const auto refused = [](const std::string& settings, const std::vector<Shape>& shapes) {
    return refusal("type: 'DenseCRF' " + settings, shapes);
  };
  EXPECT_THAT(refused("dense_crf_param { pos_w: 1 }", {maps, size, image}),
              HasSubstr("expected a pos_w and a pos_xy_std for each filter; found 1 and 0"));
  EXPECT_THAT(refused("dense_crf_param { bi_w: 1 bi_xy_std: 2 }", {maps, size, image}),
              HasSubstr("a bi_rgb_std for each filter; found 1, 1 and 0"));
  EXPECT_THAT(refused("dense_crf_param { max_iter: -1 }", {maps, size, image}),
              HasSubstr("max_iter must not be negative; found -1"));
  EXPECT_THAT(refused("densecrf_param { x_gauss: 0 }", {maps, image}),
              HasSubstr("deviation must be 0.001 or more"));
  EXPECT_THAT(refused("dense_crf_param { }", {maps, image}),
              HasSubstr("takes three inputs with dense_crf_param"));
  EXPECT_THAT(refused("densecrf_param { }", {maps, size, image}),
              HasSubstr("takes two inputs with densecrf_param"));
  EXPECT_THAT(refused("", {maps, Shape{1, 1}, image}), HasSubstr("a height and a width for each image"));
  EXPECT_THAT(refused("", {maps, size, maps}), HasSubstr("expected 1 3 3 4"));
  EXPECT_THAT(refused("", {Shape{1, 0, 3, 4}, size, image}), HasSubstr("has no classes"));
  Bench bench(std::string(kDenseCrf) + "}", {maps, size, image}, 1);
  const auto found = [&] {
    bench.forward();
    try {
      bench.layer().check_results(bench.context());
    } catch (const Error& error) {
      return error.message();
    }
    return std::string();
  };
  bench.set_input(0, spread_values(24, 1));
  bench.set_input(1, {std::numeric_limits<double>::quiet_NaN(), 2});
  bench.set_input(2, spread_values(36, 2));
  EXPECT_THAT(found(), HasSubstr("image 0 has the size nan x 2"));
  bench.set_input(1, {3, 4});
  EXPECT_EQ(found(), "");
  bench.set_input(2, Values(36, std::numeric_limits<double>::infinity()));
  EXPECT_THAT(found(), HasSubstr("image 0 has a colour of inf"));
}

}  // namespace
}  // namespace banyan::testing
