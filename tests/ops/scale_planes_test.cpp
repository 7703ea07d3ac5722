// Factors for each channel of each sample, and their gradients, in both layouts.
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using Values = std::vector<double>;

class ScalePlanes : public DeviceTest {
 protected:
  /// Many planes and few, long and short ones, of which some are enough for several threads.
  const std::vector<Shape> kShapes = {Shape{2, 3, 4, 5},      Shape{0, 3, 4, 5},     Shape{3, 4, 0, 5},
                                      Shape{3, 70, 16, 17},   Shape{1, 300, 12, 11}, Shape{2, 1, 150, 130},
                                      Shape{90, 400, 1, 1},   Shape{200, 180},       Shape{40, 5, 200},
                                      Shape{2, 20, 7, 13, 11}};

  /// The plane of element i in logical order.
  static std::size_t plane_of(std::size_t i, const Shape& shape) {
    return i / static_cast<std::size_t>(shape.count(2));
  }
};

TEST_P(ScalePlanes, MultipliesAndAdds) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(shape.to_string());
    const std::int64_t planes = shape.count(0, 2);
    const Values x = rounded(random_values(shape.count(), 1)), b = rounded(random_values(shape.count(), 2)),
                 factors = rounded(random_values(planes, 3));
    Values products, sums;
    for (std::size_t i = 0; i < x.size(); ++i) {
      products.push_back(factors[plane_of(i, shape)] * x[i]);
      sums.push_back(products.back() + b[i]);
    }
    for (const Layout layout : kLayouts) {
      const Tensor in = make(shape, x, layout), factor = make({planes}, factors);
      Tensor addend = make(shape, b, layout), out = empty(shape, layout);
      ops::scale_planes(context(), in, factor, {}, out);
      expect_near(values(out), products, epsilon());
      ops::scale_planes(context(), in, factor, addend, addend);
      // Two roundings of values below 2.
      expect_near(values(addend), sums, 2 * epsilon());
    }
  }
}

TEST_P(ScalePlanes, GradientsOfBothOrOfOne) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(shape.to_string());
    const std::int64_t planes = shape.count(0, 2);
    const Values x = rounded(random_values(shape.count(), 1)), dy = rounded(random_values(shape.count(), 2)),
                 factors = rounded(random_values(planes, 3));
    Values dx, dfactors(static_cast<std::size_t>(planes));
    for (std::size_t i = 0; i < x.size(); ++i) {
      dx.push_back(factors[plane_of(i, shape)] * dy[i]);
      dfactors[plane_of(i, shape)] += x[i] * dy[i];
    }
    for (const Layout layout : kLayouts) {
      const Tensor in = make(shape, x, layout), gradient = make(shape, dy, layout),
                   factor = make({planes}, factors);
      Tensor both = make(shape, dy, layout), alone = empty(shape, layout), sums = make({planes}, factors),
             sums_alone = empty({planes}), none;
      ops::scale_planes_backward(context(), in, both, factor, both, sums);  // over dy
      ops::scale_planes_backward(context(), in, gradient, factor, alone, none);
      ops::scale_planes_backward(context(), in, gradient, factor, none, sums_alone);
      expect_near(values(both), dx, epsilon());
      EXPECT_EQ(values(alone), values(both));
      // Sums in f64 of up to 2e4 terms below 1 (error < 1e-11), then rounded.
      expect_near(values(sums), dfactors, 1e-11 + epsilon());
      EXPECT_EQ(values(sums_alone), values(sums));
    }
  }
}

TEST_P(ScalePlanes, RefusesWhatDoesNotFit) {
  const Shape shape{2, 3, 4, 5};
  const Tensor x = empty(shape, Layout::channels_last), factors = empty({6});
  Tensor y = empty(shape), same = empty(shape, Layout::channels_last), few = empty({3});
  EXPECT_THROW(ops::scale_planes(context(), x, factors, {}, y), Error) << "another layout";
  EXPECT_THROW(ops::scale_planes(context(), x, factors, y, same), Error) << "another layout";
  EXPECT_THROW(ops::scale_planes(context(), x, few, {}, same), Error) << "3 factors for 6 planes";
  EXPECT_THROW(ops::scale_planes_backward(context(), x, same, factors, same, few), Error);
}

BANYAN_ON_ALL_DEVICES(ScalePlanes);

}  // namespace
}  // namespace banyan
