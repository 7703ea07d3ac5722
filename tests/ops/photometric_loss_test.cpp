// Operators of CharbonnierLoss and SSIMLoss: values against the formulas, gradients against differences.
#include "banyan/ops/photometric_loss.hpp"

#include <cmath>

#include "ops/device_fixture.hpp"
#include "ops/gradient_check.hpp"

namespace banyan {
namespace {

class PhotometricLoss : public DeviceTest {
 protected:
  Tensor f64(const Shape& shape) { return {device(), shape, DType::f64}; }
};

TEST_P(PhotometricLoss, CharbonnierFollowsItsFormula) {
  const Shape shape{2, 3, 4, 5}, mask{2, 4, 4, 5};
  const std::vector<double> x = rounded(random_values(120, 1)), of_mask = rounded(random_values(160, 2));
  const ops::Charbonnier how{0.4, 2.5, 0.125};
  for (const bool masked : {false, true}) {
    const auto expected = [&](const std::vector<double>& values) {
      double sum = 0;
      for (std::size_t i = 0; i < 120; ++i) {
        const double weight = masked ? of_mask[i / 60 * 80 + i % 60] : 1;
        sum += weight * std::pow(6.25 * values[i] * values[i] + 0.015625, 0.4);
      }
      return sum;
    };
    const ops::WeightedDifference what{make(shape, x), masked ? make(mask, of_mask) : Tensor()};
    Tensor sum = f64({1}), dx = empty(shape);
    ops::charbonnier_forward(context(), what, how, sum);
    expect_near(values(sum), {expected(x)}, 200 * epsilon());
    const Tensor one = make({1}, {1});
    ops::charbonnier_backward(context(), what, how, one, dx);
    expect_gradient(expected, x, values(dx), dtype() == DType::f64 ? 1e-7 : 1e-5);
  }
}

/// Weights that do not add up to 1, so that windows that are cut off are nothing special.
std::vector<double> similarities(const Shape& images, const ops::SimilarityWindows& how,
                                 const std::vector<double>& weights, const std::vector<double>& x,
                                 const std::vector<double>& y) {
  const std::int64_t height = images[2], width = images[3];
  std::vector<double> losses;
  for (std::int64_t plane = 0; plane < images[0] * images[1]; ++plane)
    for (std::int64_t p = 0; p < how.along(height); ++p)
      for (std::int64_t q = 0; q < how.along(width); ++q) {
        double ux = 0, uy = 0, xx = 0, yy = 0, xy = 0;
        for (std::int64_t r = 0; r < how.size && p * how.stride + r < height; ++r)
          for (std::int64_t c = 0; c < how.size && q * how.stride + c < width; ++c) {
            const double w = weights[static_cast<std::size_t>(r)] * weights[static_cast<std::size_t>(c)];
            const auto i =
                static_cast<std::size_t>((plane * height + p * how.stride + r) * width + q * how.stride + c);
            ux += w * x[i];
            uy += w * y[i];
            xx += w * x[i] * x[i];
            yy += w * y[i] * y[i];
            xy += w * x[i] * y[i];
          }
        losses.push_back(1 - (2 * ux * uy + how.c1) / (ux * ux + uy * uy + how.c1) *
                                 (2 * (xy - ux * uy) + how.c2) / (xx - ux * ux + yy - uy * uy + how.c2));
      }
  return losses;
}

TEST_P(PhotometricLoss, SimilarityFollowsItsFormula) {
  const std::pair<Shape, ops::SimilarityWindows> cases[] = {
      {{2, 3, 7, 9}, {4, 3, 0.25, 0.5}},
      {{1, 2, 5, 6}, {8, 8, 0.25, 0.5}},
      {{2, 1, 6, 5}, {3, 1, 0.25, 0.5}},
      {{1, 1, 9, 8}, {2, 5, 0.25, 0.5}},
  };
  for (const auto& [shape, how] : cases) {
    const std::vector<double> x = rounded(random_values(shape.count(), 1)),
                              y = rounded(random_values(shape.count(), 2)),
                              weights = random_values(how.size, 3, 0.1, 0.4);
    const std::vector<double> losses = similarities(shape, how, weights, x, y);
    const auto count = static_cast<std::int64_t>(losses.size());
    EXPECT_EQ(count, shape[0] * shape[1] * how.along(shape[2]) * how.along(shape[3]));
    const ops::ComparedImages what{make(shape, x), make(shape, y)};
    const Tensor of_weights = make_as(DType::f64, {how.size}, weights);
    Tensor found = f64({4, count}), dx = empty(shape);
    ops::similarity_forward(context(), what, how, of_weights, found);
    const std::vector<double> all = values(found);
    expect_near({all.begin() + 3 * count, all.end()}, losses, 1e-13);
    const Tensor half = make({1}, {0.5});
    ops::similarity_backward(context(), what, how, of_weights, found, half, dx);
    const auto loss = [&](const std::vector<double>& moved) {
      double sum = 0;
      for (const double one : similarities(shape, how, weights, moved, y)) sum += one / 2;
      return sum;
    };
    expect_gradient(loss, x, values(dx), dtype() == DType::f64 ? 1e-7 : 1e-5);
  }
}

BANYAN_ON_ALL_DEVICES(PhotometricLoss);

}  // namespace
}  // namespace banyan
