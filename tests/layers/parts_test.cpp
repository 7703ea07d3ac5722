// Affinities of neighbouring pixels, and parts of images by them (BVLC's opencl branch): values against
// closed forms and definitions, refusals. Gradients: branch_cases.hpp, and here.
#include <limits>
#include <map>

#include "layers/fake_exchange.hpp"
#include "layers/gradient_checker.hpp"

namespace banyan::testing {
namespace {

Values parts_run(const std::string& text, const std::vector<Shape>& shapes,
                 const std::vector<Values>& inputs) {
  Bench bench(text, shapes, 1);
  for (std::size_t i = 0; i < inputs.size(); ++i) bench.set_input(i, inputs[i]);
  bench.forward();
  bench.layer().check_results(bench.context());
  return bench.output();
}

TEST(Affinity, IsTheSmallerOfTwoNeighbours) {
  Bench bench("type: 'Affinity' affinity_param { offset: 1 offset: 0 }",
              {Shape{1, 2, 3, 3}, Shape{2, 1, 2, 2}}, 2);
  bench.set_input(0, {9, 9, 9, 9, 9, 9, 9, 9, 9, 1, 2, 3, 4, 0, 6, 7, 8, 5});
  bench.set_input(1, {1, 2, 3, 4, 5, 5, 5, 8});
  bench.forward();
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{1, 2, 3, 3}));
  EXPECT_EQ(bench.output(0), (Values{1, 0, 0, 4, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(bench.output(1), (Values{1, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0}));
  const Values first{1, 2, 99, 4, 8, 99, 99, 99, 99, 16, 32, 99, 64, 128, 99, 99, 99, 99};
  bench.backward({first, Values{1, 9, 9, 9, 2, 9, 9, 9, 4, 9, 9, 9, 8, 9, 9, 9}});
  EXPECT_EQ(bench.input_gradient(0), (Values{0, 0, 0, 0, 0, 0, 0, 0, 0, 17, 32, 0, 4, 202, 0, 0, 0, 0}));
  EXPECT_EQ(bench.input_gradient(1), (Values{3, 0, 0, 0, 0, 8, 4, 0})) << "of equal ones the second";
}

TEST(Affinity, RefusesChannelsThatAreNotThere) {
  EXPECT_NE(refusal("type: 'Affinity' affinity_param { offset: 2 }", {Shape{1, 2, 3, 3}})
                .find("offset 2 is no channel"),
            std::string::npos);
  EXPECT_NE(refusal("type: 'Affinity' affinity_param { offset: [0, 0] }", {Shape{1, 2, 3, 3}})
                .find("offset names 2 channels for 1 inputs"),
            std::string::npos);
}

TEST(ConnectedComponent, NumbersPartsInTheOrderOfTheirFirstPixels) {
  const Values labels{2, 2, 0, 1, 2,  //
                      0, 2, 0, 1, 1,  //
                      2, 0, 1, 0, 1,  //
                      0, 0, 0, 0, 0, 0, 0, 0, 0, 5.7, 0, 0, 0, 5, 0};
  EXPECT_EQ(parts_run("type: 'ConnectedComponent'", {Shape{1, 2, 3, 5}}, {labels}),
            (Values{3, 3, 0, 4, 5,  //
                    0, 3, 0, 4, 4,  //
                    6, 0, 7, 0, 4,  //
                    0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 7, 0}));
  EXPECT_EQ(parts_run("type: 'ConnectedComponent'", {Shape{1, 1, 1, 3}}, {{-1, 0, -1}}), (Values{1, 0, 2}));
  EXPECT_EQ(parts_run("type: 'ConnectedComponent'", {Shape{1, 1, 1, 2}},
                      {{std::numeric_limits<double>::quiet_NaN(), 1}})
                .back(),
            2);  // another part
  EXPECT_FALSE(make_layer(layer_from_text("type: 'ConnectedComponent'"), {})->traits().differentiable(0));
}

TEST(MalisLoss, ComparesPairsAtTheirLeastEdge) {
  Bench bench("type: 'MalisLoss'", {Shape{1, 1, 3}, Shape{1, 1, 3}, Shape{1, 1, 3}}, 1);
  bench.set_input(0, {0.8, 0.4, 0.9});
  bench.set_input(1, {1, 0, 1});
  bench.set_input(2, {1, 1, 2});
  bench.forward();
  // One pair of a part, at 0.8; two of two parts, both at 0.4.
  expect_near(bench.output(), {0.5 * 0.2 * 0.2 + 0.5 * 0.4 * 0.4}, 1e-15);
  bench.backward(Values{10});
  expect_near(bench.input_gradient(), {-2, 4, 0}, 1e-14);
}

struct PixelGraph {
  Shape shape;
  std::vector<std::array<std::int64_t, 3>> edges;
};

/// The largest least weight of all paths, by trying every pixel as one between.
double malis_by_definition(const PixelGraph& graph, const Values& weights, const Values& parts,
                           bool positive) {
  const Shape& shape = graph.shape;
  const auto length = [&](int axis) { return axis + shape.axes() >= 5 ? shape[axis + shape.axes() - 3] : 1; };
  const std::int64_t d = length(0), h = length(1), w = length(2), pixels = d * h * w;
  std::vector<Values> near(static_cast<std::size_t>(pixels), Values(static_cast<std::size_t>(pixels), -1e9));
  for (std::size_t edge = 0; edge < graph.edges.size(); ++edge)
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      const std::int64_t z = pixel / (h * w) + graph.edges[edge][0], y = pixel / w % h + graph.edges[edge][1],
                         x = pixel % w + graph.edges[edge][2];
      if (z < 0 || z >= d || y < 0 || y >= h || x < 0 || x >= w) continue;
      const std::int64_t other = (z * h + y) * w + x;
      const double weight =
          weights[edge * static_cast<std::size_t>(pixels) + static_cast<std::size_t>(pixel)];
      near[pixel][other] = near[other][pixel] = std::max(near[pixel][other], weight);
    }
  for (std::int64_t k = 0; k < pixels; ++k)
    for (std::int64_t i = 0; i < pixels; ++i)
      for (std::int64_t j = 0; j < pixels; ++j)
        near[i][j] = std::max(near[i][j], std::min(near[i][k], near[k][j]));
  double sum = 0;
  std::int64_t pairs = 0;
  for (std::int64_t i = 0; i < pixels; ++i)
    for (std::int64_t j = 0; j < i; ++j) {
      if (parts[i] == 0 || parts[j] == 0 || (parts[i] == parts[j]) != positive) continue;
      ++pairs;
      if (near[i][j] < -1e8) continue;  // no path
      sum += positive ? (1 - near[i][j]) * (1 - near[i][j]) : near[i][j] * near[i][j];
    }
  return pairs == 0 ? 0 : sum / static_cast<double>(pairs) / 2;
}

TEST(MalisLoss, IsThatOfItsDefinition) {
  const std::vector<PixelGraph> graphs = {{{2, 1, 7}, {{0, 0, 1}}},
                                          {{2, 2, 3, 4}, {{0, 1, 0}, {0, 0, 1}}},
                                          {{1, 1, 3, 4}, {{0, 0, 1}}},
                                          {{1, 3, 2, 3, 2}, {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
                                          {{2, 3, 4, 3}, {{0, 1, -1}, {0, -2, 0}, {0, 1, 1}}},
                                          {{1, 4, 2, 2, 3}, {{1, 1, 0}, {0, 0, 2}, {-1, 0, 1}, {0, 1, 0}}}};
  for (std::size_t g = 0; g < graphs.size(); ++g)
    for (const std::int64_t numbers : {1, 2}) {
      SCOPED_TRACE(cat("graph ", g, ", ", numbers));
      const PixelGraph& graph = graphs[g];
      const std::int64_t batch = graph.shape[0], each = graph.shape.count(1), pixels = graph.shape.count(2);
      std::vector<std::int64_t> dims = graph.shape.dims();
      dims[1] = numbers;
      std::vector<Shape> shapes{graph.shape, graph.shape, Shape(dims)};
      const auto seed = static_cast<unsigned>(g);
      std::vector<Values> inputs{spread_values(graph.shape.count(), seed, 1),
                                 spread_values(graph.shape.count(), seed + 9, 1.1),
                                 integers(shapes[2].count(), 3, seed)};
      if (g >= 4) {
        shapes.push_back(Shape{static_cast<std::int64_t>(graph.edges.size()), 3});
        inputs.emplace_back();
        for (const auto& edge : graph.edges)
          inputs.back().insert(inputs.back().end(), edge.begin(), edge.end());
      }
      double expected = 0;
      for (std::int64_t n = 0; n < batch; ++n)
        for (const bool positive : {false, true}) {
          Values weights;
          for (std::int64_t i = n * each; i < (n + 1) * each; ++i)
            weights.push_back(positive ? std::min(inputs[0][i], inputs[1][i])
                                       : std::max(inputs[0][i], inputs[1][i]));
          const auto own = inputs[2].begin() + (n * numbers + (positive ? numbers - 1 : 0)) * pixels;
          expected += malis_by_definition(graph, weights, Values(own, own + pixels), positive);
        }
      expect_near(parts_run("type: 'MalisLoss'", shapes, inputs), {expected / static_cast<double>(batch)},
                  1e-13);
    }
}

TEST(MalisLoss, WithoutPairsIsZeroAndShowsWhatIsNotANumber) {
  const std::vector<Shape> shapes(3, Shape{1, 1, 2});
  for (const Values& parts : {Values{0, 0}, Values{0, 3}})
    EXPECT_EQ(parts_run("type: 'MalisLoss'", shapes, {{0.5, 0.5}, {1, 1}, parts}), Values{0})
        << "there are no pairs";
  const double none = std::numeric_limits<double>::quiet_NaN();
  Bench bench("type: 'MalisLoss'", shapes, 1);
  bench.set_input(0, {none, 0.5});
  bench.set_input(1, {1, 1});
  bench.set_input(2, {1, 1});
  bench.forward();
  bench.backward(Values{1});
  EXPECT_TRUE(std::isnan(bench.output()[0]));
  EXPECT_TRUE(std::isnan(bench.input_gradient()[0]));
}

/// The mean over the samples of all devices.
TEST(MalisLoss, OfNDevicesIsThatOfOne) {
  const std::int64_t total = 5;
  const auto shapes = [](std::int64_t batch) {
    return std::vector<Shape>{Shape{batch, 2, 3, 3}, Shape{batch, 2, 3, 3}, Shape{batch, 1, 3, 3}};
  };
  const std::vector<Values> all{spread_values(total * 18, 1), spread_values(total * 18, 2, 1.1),
                                integers(total * 9, 3, 3)};
  struct Part {
    Values loss, gradient;
  };
  const auto compute = [&](Bench& bench, std::int64_t first, std::int64_t batch) {
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t each = shapes(1)[i].count();
      bench.set_input(i, Values(all[i].begin() + first * each, all[i].begin() + (first + batch) * each));
    }
    bench.forward();
    bench.backward(Values{0.7});
    return Part{bench.output(), bench.input_gradient()};
  };
  Bench alone("type: 'MalisLoss'", shapes(total), 1);
  const Part whole = compute(alone, 0, total);
  const std::vector<Part> parts = run_shares("type: 'MalisLoss'", 1, shapes, compute);
  EXPECT_NEAR(parts[0].loss[0] + parts[1].loss[0] + parts[2].loss[0], whole.loss[0], 1e-14);
  Values gradient;
  for (const Part& part : parts) gradient.insert(gradient.end(), part.gradient.begin(), part.gradient.end());
  expect_near(gradient, whole.gradient, 1e-14, "gradient");
}

TEST(MalisLoss, RefusesWhatDoesNotFit) {
  const Shape maps{2, 2, 3, 4}, parts{2, 1, 3, 4};
  const auto refused = [&](const std::vector<Shape>& shapes) { return refusal("type: 'MalisLoss'", shapes); };
  EXPECT_NE(refused({maps, parts, parts}).find("the true affinities"), std::string::npos);
  EXPECT_NE(refused({maps, maps, Shape{2, 3, 3, 4}}).find("expected one channel, or two"), std::string::npos);
  EXPECT_NE(refused({maps, maps, Shape{2, 1, 3, 3}}).find("expected one channel, or two"), std::string::npos);
  EXPECT_NE(refused({maps, maps, parts, Shape{3, 3}}).find("expected 2 x 3: steps along Z, Y and X"),
            std::string::npos);
  const Shape many{1, 4, 3, 3};
  EXPECT_NE(refused({many, many, Shape{1, 1, 3, 3}}).find("without a list of edges there are 1 to 3"),
            std::string::npos);
  EXPECT_NE(refused({Shape{2, 3}, Shape{2, 3}, Shape{2, 3}}).find("expected 3 to 5 axes"), std::string::npos);
  const std::vector<Shape> listed{Shape{1, 1, 2}, Shape{1, 1, 2}, Shape{1, 1, 2}, Shape{1, 3}};
  EXPECT_THROW(parts_run("type: 'MalisLoss'", listed,
                         {{1, 1}, {1, 1}, {1, 1}, {0, 0, std::numeric_limits<double>::quiet_NaN()}}),
               Error);
}

}  // namespace
}  // namespace banyan::testing
