// Filtering by a lattice: a small one worked out by hand, and a large one against loops on the host.
#include "banyan/ops/lattice.hpp"

#include "banyan/base/error.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

class LatticeFilter : public DeviceTest {};

TEST_P(LatticeFilter, GivesMixesAndTakesBack) {
  // Three points, each between two of three vertices.
  const Tensor weights = make({6}, {0.75, 0.25, 0.5, 0.5, 0.25, 0.75});
  const Tensor vertices = make_as(DType::i32, {6}, {0, 1, 1, 2, 1, 0});
  const Tensor starts = make_as(DType::i32, {4}, {0, 2, 5, 6});
  const Tensor entries = make_as(DType::i32, {6}, {0, 5, 1, 2, 4, 3});
  const Tensor neighbours = make_as(DType::i32, {6}, {1, -1, 2, 0, -1, 1});
  const Tensor x = make({3, 2}, {1, 2, 4, -8, 16, 0});
  Tensor shared = empty({3, 2}), mixed = empty({3, 2}), y = empty({3, 2});
  ops::lattice_splat(context(), x, weights, starts, entries, shared);
  EXPECT_EQ(values(shared), (std::vector<double>{12.75, 1.5, 6.25, -3.5, 2, -4}));
  ops::lattice_blur(context(), shared, neighbours, mixed);
  EXPECT_EQ(values(mixed), (std::vector<double>{15.875, -0.25, 13.625, -4.75, 5.125, -5.75}));
  ops::lattice_slice(context(), mixed, weights, vertices, false, y);
  const std::vector<double> once{15.3125, -1.375, 9.375, -5.25, 15.3125, -1.375};
  EXPECT_EQ(values(y), once);
  ops::lattice_slice(context(), mixed, weights, vertices, true, y);
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_EQ(values(y)[i], 2 * once[i]) << i;
}

TEST_P(LatticeFilter, TakesVectorsOfManyPoints) {
  const std::size_t points = 5000, corners = 3, length = 9, vertices = 4000;
  const std::vector<double> x = rounded(random_values(points * length, 1));
  const std::vector<double> weights = rounded(random_values(points * corners, 2, 0, 1));
  std::mt19937 random(3);
  std::vector<double> vertex_of(points * corners), beside(2 * vertices), starts(vertices + 1), entries;
  for (double& vertex : vertex_of) vertex = static_cast<double>(random() % vertices);
  for (double& vertex : beside) vertex = static_cast<double>(random() % (vertices + 1)) - 1;
  std::vector<double> shared(vertices * length), mixed(shared), y(points * length);
  for (std::size_t v = 0; v < vertices; ++v) {
    for (std::size_t e = 0; e < vertex_of.size(); ++e) {
      if (vertex_of[e] != static_cast<double>(v)) continue;
      entries.push_back(static_cast<double>(e));
      for (std::size_t c = 0; c < length; ++c)
        shared[v * length + c] += weights[e] * x[e / corners * length + c];
    }
    starts[v + 1] = static_cast<double>(entries.size());
  }
  for (std::size_t v = 0; v < vertices; ++v)
    for (std::size_t c = 0; c < length; ++c) {
      mixed[v * length + c] = shared[v * length + c];
      for (const double other : {beside[2 * v], beside[2 * v + 1]})
        if (other >= 0) mixed[v * length + c] += shared[static_cast<std::size_t>(other) * length + c] / 2;
    }
  for (std::size_t e = 0; e < vertex_of.size(); ++e)
    for (std::size_t c = 0; c < length; ++c)
      y[e / corners * length + c] += weights[e] * mixed[static_cast<std::size_t>(vertex_of[e]) * length + c];

  const auto numbers = [&](const std::vector<double>& from) {
    return make_as(DType::i32, Shape{static_cast<std::int64_t>(from.size())}, from);
  };
  const Tensor of_points = make(Shape{5000, 9}, x), of_entries = make(Shape{15000}, weights);
  const Tensor first = numbers(starts), listed = numbers(entries), near = numbers(beside),
               corner = numbers(vertex_of);
  Tensor one = empty({4000, 9}), other = empty({4000, 9}), back = empty({5000, 9});
  ops::lattice_splat(context(), of_points, of_entries, first, listed, one);
  ops::lattice_blur(context(), one, near, other);
  ops::lattice_slice(context(), other, of_entries, corner, false, back);
  expect_near(values(one), shared, 8 * epsilon());
  expect_near(values(other), mixed, 16 * epsilon());
  expect_near(values(back), y, 64 * epsilon());
}

TEST_P(LatticeFilter, RefusesTensorsThatDoNotFit) {
  const Tensor x = make({3, 2}, {1, 2, 3, 4, 5, 6}), weights = make({6}, {1, 0, 1, 0, 1, 0});
  const Tensor starts = make_as(DType::i32, {3}, {0, 3, 6}), five = make_as(DType::i32, {5}, {0, 1, 2, 3, 4});
  Tensor values = empty({2, 2}), odd = empty({5});
  EXPECT_THROW(ops::lattice_splat(context(), x, weights, starts, five, values), Error);
  EXPECT_THROW(ops::lattice_splat(context(), x, weights, starts, starts, odd), Error);
  EXPECT_THROW(ops::lattice_blur(context(), x, five, values), Error);
  Tensor y = empty({3, 2});
  EXPECT_THROW(ops::lattice_slice(context(), values, weights, five, false, y), Error);
}

BANYAN_ON_ALL_DEVICES(LatticeFilter);

}  // namespace
}  // namespace banyan
