// Maps read at points, and the smaller ones of neighbouring pixels: values by hand and against definitions.
#include "banyan/ops/points.hpp"

#include "banyan/ops/basic.hpp"
#include "banyan/ops/neighbours.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

class Points : public DeviceTest {};

TEST_P(Points, AreReadBetweenPixels) {
  const Shape maps{3, 70, 4, 5}, list{40, 3};
  const ops::PointScale scale{2, 0.5};
  const std::int64_t first = 3, length = 75;
  const std::vector<double> x = rounded(random_values(maps.count(), 1)),
                            dy = rounded(random_values(list[0] * length, 2));
  std::vector<double> points = random_values(list.count(), 3, -2, 6);
  for (std::int64_t p = 0; p < list[0]; ++p)
    points[3 * p] = static_cast<double>(p % 4);  // image 3 is not there
  for (double& number : points) number = std::round(4 * number) / 4;
  std::vector<double> y(dy.size(), 7), dx(x.size(), 1);
  for (std::int64_t p = 0; p < list[0]; ++p) {
    const double row = std::max((points[3 * p + 1] - 0.5) / 2, 0.0),
                 column = std::max((points[3 * p + 2] - 0.5) / 2, 0.0);
    for (std::int64_t c = 0; c < 70; ++c) {
      double& value = y[p * length + first + c];
      value = 0;
      if (points[3 * p] > 2) continue;
      const std::int64_t plane = (static_cast<std::int64_t>(points[3 * p]) * 70 + c) * 20;
      for (std::int64_t i = 0; i < 20; ++i) {
        const double share = std::max(0.0, 1 - std::abs(row - static_cast<double>(i / 5))) *
                             std::max(0.0, 1 - std::abs(column - static_cast<double>(i % 5)));
        value += share * x[plane + i];
        dx[plane + i] += share * dy[p * length + first + c];
      }
    }
  }
  for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
    const Tensor of_x = make(maps, x, layout), at = make(list, points), gradient = make({40, length}, dy);
    Tensor result = make({40, length}, std::vector<double>(dy.size(), 7)),
           sum = make(maps, std::vector<double>(x.size(), 1), layout);
    ops::read_points(context(), of_x, at, scale, first, result);
    ops::add_at_points(context(), gradient, at, scale, first, sum);
    expect_near(values(result), y, 8 * epsilon());
    expect_near(values(sum), dx, 32 * epsilon());
  }
}

TEST_P(Points, AreNotedOutside) {
  const Tensor x = make({2, 1, 3, 4}, std::vector<double>(24));
  const auto noted = [&](const std::vector<double>& points) {
    const Tensor list = make({3, 3}, points);
    Tensor found(device(), {2}, DType::f64);
    ops::fill(context(), found, 0);
    ops::note_points(context(), x, list, {2, 1}, found);
    return values(found);
  };
  EXPECT_EQ(noted({0, 0, 0, 1, 5, 7, 1, -9, -9}), (std::vector<double>{0, 0})) << "below 0 is 0";
  EXPECT_EQ(noted({0, 0, 0, 1, 5.5, 0, 0, 9, 9}), (std::vector<double>{2, 1}));
  EXPECT_EQ(noted({0, 0, 0, 1, 0, 7.5, 0, 0, 0}), (std::vector<double>{2, 1}));
  EXPECT_EQ(noted({0, 0, 0, 0, 0, 0, 2, 0, 0}), (std::vector<double>{3, 2}));
  EXPECT_EQ(noted({0.5, 0, 0, -1, 0, 0, 0, 0, 0}), (std::vector<double>{1, 0.5}));
}

TEST_P(Points, SmallerNeighbours) {
  const Shape maps{2, 3, 5, 4}, edges{2, 2, 5, 4};
  const std::vector<double> x = rounded(random_values(maps.count(), 1)),
                            dy = rounded(random_values(edges.count(), 2));
  std::vector<double> y(dy.size(), 0), dx(x.size(), 0);
  for (std::int64_t n = 0; n < 2; ++n)
    for (std::int64_t axis = 0; axis < 2; ++axis)
      for (std::int64_t i = 0; i < 4; ++i)
        for (std::int64_t j = 0; j < 3; ++j) {
          const std::int64_t at = (n * 3 + 2) * 20 + i * 4 + j, next = at + (axis == 0 ? 4 : 1);
          const std::int64_t to = (n * 2 + axis) * 20 + i * 4 + j;
          y[to] = std::min(x[at], x[next]);
          dx[x[at] < x[next] ? at : next] += dy[to];
        }
  const Tensor of_x = make(maps, x), gradient = make(edges, dy);
  Tensor result = empty(edges), sum = empty(maps);
  ops::smaller_neighbours(context(), of_x, 2, result);
  ops::smaller_neighbours_backward(context(), of_x, 2, gradient, sum);
  EXPECT_EQ(values(result), y);
  expect_near(values(sum), dx, 4 * epsilon());
}

BANYAN_ON_ALL_DEVICES(Points);

}  // namespace
}  // namespace banyan
