// Windows with moved points: values against a loop written from the definition, gradients against
// differences.
#include "banyan/ops/deform.hpp"

#include <cmath>

#include "ops/device_fixture.hpp"
#include "ops/gradient_check.hpp"

namespace banyan {
namespace {

struct MovedCase {
  ops::Deformation how;
  Shape image;
  Shape columns() const {
    const auto& g = how.geometry;
    return {image[0], image[1] * g.kernel[0] * g.kernel[1], g.output_length(0, image[2]),
            g.output_length(1, image[3])};
  }
  Shape offsets() const {
    const Shape out = columns();
    return {image[0], 2 * how.groups * how.geometry.kernel[0] * how.geometry.kernel[1], out[2], out[3]};
  }
};

const MovedCase kMovedCases[] = {
    {{{{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 0, 0}, 1}, {2, 4, 6, 7}},
    {{{{3, 2}, {2, 1}, {0, 2}, {1, 2}, 1, 0, 0}, 3}, {1, 6, 9, 5}},
    {{{{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 0, 0}, 2}, {3, 2, 4, 1}},
    {{{{2, 3}, {1, 3}, {2, 2}, {2, 1}, 1, 0, 0}, 5}, {1, 5, 1, 8}},
};

/// The bilinear value of a plane, whose last row and column go on for one pixel.
double moved_value(const double* plane, std::int64_t height, std::int64_t width, double y, double x) {
  if (!(y >= 0) || !(x >= 0) || !(y < static_cast<double>(height)) || !(x < static_cast<double>(width)))
    return 0;
  y = std::min(y, static_cast<double>(height - 1));
  x = std::min(x, static_cast<double>(width - 1));
  double sum = 0;
  for (std::int64_t i = 0; i < height; ++i)
    for (std::int64_t j = 0; j < width; ++j)
      sum += std::max(0.0, 1 - std::abs(y - static_cast<double>(i))) *
             std::max(0.0, 1 - std::abs(x - static_cast<double>(j))) * plane[i * width + j];
  return sum;
}

std::vector<double> moved_columns(const MovedCase& tested, const std::vector<double>& x,
                                  const std::vector<double>& offsets) {
  const auto& g = tested.how.geometry;
  const Shape &image = tested.image, out = tested.columns(), moves = tested.offsets();
  std::vector<double> columns;
  for (std::int64_t n = 0; n < image[0]; ++n)
    for (std::int64_t c = 0; c < image[1]; ++c)
      for (std::int64_t k = 0; k < g.kernel[0] * g.kernel[1]; ++k)
        for (std::int64_t i = 0; i < out[2]; ++i)
          for (std::int64_t j = 0; j < out[3]; ++j) {
            const std::int64_t group = c / (image[1] / tested.how.groups);
            const auto moved = [&](std::int64_t axis) {
              const std::int64_t channel = 2 * (group * g.kernel[0] * g.kernel[1] + k) + axis;
              return offsets[static_cast<std::size_t>(((n * moves[1] + channel) * out[2] + i) * out[3] + j)];
            };
            columns.push_back(moved_value(
                x.data() + (n * image[1] + c) * image[2] * image[3], image[2], image[3],
                static_cast<double>(i * g.stride[0] - g.pad[0] + k / g.kernel[1] * g.dilation[0]) + moved(0),
                static_cast<double>(j * g.stride[1] - g.pad[1] + k % g.kernel[1] * g.dilation[1]) +
                    moved(1)));
          }
  return columns;
}

class DeformOperators : public DeviceTest {
 protected:
  std::vector<double> columns(const MovedCase& tested, const std::vector<double>& x,
                              const std::vector<double>& offsets) {
    Tensor y = empty(tested.columns());
    const Tensor of_x = make(tested.image, x), moves = make(tested.offsets(), offsets);
    ops::deform_forward(context(), tested.how, of_x, moves, y);
    return values(y);
  }
  Tensor scratch(const MovedCase& tested) {
    const Shape moves = tested.offsets();
    return {device(), {moves[0], moves[1] / 2, moves[2], 2}, DType::i32};
  }
};

TEST_P(DeformOperators, FollowTheDefinition) {
  for (const MovedCase& tested : kMovedCases) {
    const std::vector<double> x = rounded(random_values(tested.image.count(), 1)),
                              offsets = rounded(random_values(tested.offsets().count(), 2, -3, 3)),
                              none(static_cast<std::size_t>(tested.offsets().count()), 0.0);
    expect_near(columns(tested, x, offsets), moved_columns(tested, x, offsets), 20 * epsilon());
    EXPECT_EQ(columns(tested, x, none), moved_columns(tested, x, none));
  }
}

TEST_P(DeformOperators, AreZeroAboveAndBeyondThePixelsAndLevelWithinTheLast) {
  const MovedCase tested{{{{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 0, 0}, 1}, {1, 1, 2, 4}};
  const double none = std::nan("");
  // Down, then to the right, of each of 2 x 4 windows.
  const std::vector<double> offsets{-0.25, 0.5, 0, 0, 0, 0.75, 1, none, 0, 0, -1.5, 0.5, 0, 1.5, 0, 0};
  EXPECT_EQ(columns(tested, {1, 2, 3, 4, 5, 6, 7, 8}, offsets),
            (std::vector<double>{0, 4, 1.5, 4, 5, 7.5, 0, 0}));
}

TEST_P(DeformOperators, HaveTheirGradients) {
  for (const MovedCase& tested : kMovedCases) {
    const std::vector<double> x = rounded(random_values(tested.image.count(), 1)),
                              offsets = rounded(random_values(tested.offsets().count(), 2, -2, 2)),
                              dy = rounded(random_values(tested.columns().count(), 3));
    const Tensor of_x = make(tested.image, x), moves = make(tested.offsets(), offsets),
                 gradient = make(tested.columns(), dy);
    Tensor dx = empty(tested.image), doffsets = empty(tested.offsets()), rows = scratch(tested);
    ops::deform_backward(context(), tested.how, gradient, moves, rows, dx);
    ops::deform_offsets_backward(context(), tested.how, of_x, moves, gradient, doffsets);
    // The columns are linear in x.
    EXPECT_NEAR(dot(values(dx), x), dot(dy, columns(tested, x, offsets)), 300 * epsilon());
    std::vector<double> single(x.size(), 0.0);
    for (std::size_t i = 0; i < x.size(); i += 11) {
      single[i] = 1;
      EXPECT_NEAR(values(dx)[i], dot(dy, moved_columns(tested, single, offsets)), 100 * epsilon());
      single[i] = 0;
    }
    if (dtype() == DType::f64)
      expect_gradient([&](const std::vector<double>& moved) { return dot(dy, columns(tested, x, moved)); },
                      offsets, values(doffsets));
    // The same bits again.
    Tensor again = empty(tested.image);
    ops::deform_backward(context(), tested.how, gradient, moves, rows, again);
    EXPECT_EQ(values(again), values(dx));
  }
}

/// Where offsets begin: they learn from the difference to the next pixel.
TEST_P(DeformOperators, HaveTheSlopeToTheNextPixelAtAPixel) {
  const MovedCase tested{{{{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 0, 0}, 1}, {1, 1, 2, 3}};
  const Tensor x = make(tested.image, {1, 2, 4, 8, 16, 32}),
               offsets = make(tested.offsets(), std::vector<double>(12, 0.0)),
               dy = make(tested.columns(), std::vector<double>(6, 1.0));
  Tensor doffsets = empty(tested.offsets());
  ops::deform_offsets_backward(context(), tested.how, x, offsets, dy, doffsets);
  EXPECT_EQ(values(doffsets), (std::vector<double>{7, 14, 28, 0, 0, 0, 1, 2, 0, 8, 16, 0}));
}

BANYAN_ON_ALL_DEVICES(DeformOperators);

}  // namespace
}  // namespace banyan
