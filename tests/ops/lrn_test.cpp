// Local response normalization against plain formulas in double.
#include "banyan/base/error.hpp"
#include "banyan/ops/normalization.hpp"
#include "ops/device_fixture.hpp"
#include "ops/gradient_check.hpp"

namespace banyan {
namespace {

using Values = std::vector<double>;
using ops::LrnParameters;

/// The scale of every element of x, n x c x h x w.
Values naive_scale(const LrnParameters& p, const Values& x, const Shape& s) {
  Values scale(x.size());
  const std::int64_t half = p.size / 2;
  const auto at = [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    const bool inside = c >= 0 && c < s[1] && h >= 0 && h < s[2] && w >= 0 && w < s[3];
    return inside ? x[((n * s[1] + c) * s[2] + h) * s[3] + w] : 0.0;
  };
  std::size_t i = 0;
  for (std::int64_t n = 0; n < s[0]; ++n)
    for (std::int64_t c = 0; c < s[1]; ++c)
      for (std::int64_t h = 0; h < s[2]; ++h)
        for (std::int64_t w = 0; w < s[3]; ++w) {
          double sum = 0;
          for (std::int64_t a = -half; a <= half; ++a) {
            if (!p.within_channel) {
              sum += std::pow(at(n, c + a, h, w), 2);
              continue;
            }
            for (std::int64_t b = -half; b <= half; ++b) sum += std::pow(at(n, c, h + a, w + b), 2);
          }
          const auto size = static_cast<double>(p.size);
          scale[i++] = p.within_channel ? 1 + p.alpha / (size * size) * sum : p.k + p.alpha / size * sum;
        }
  return scale;
}

const LrnParameters kLrnCases[] = {{5, 1e-1, 0.75, 1, false}, {3, 2, 0.6, 2, false},   {1, 1, 0.75, 1, false},
                                   {9, 0.5, 1, 1.5, false},   {3, 1.5, 0.75, 1, true}, {5, 2, 0.5, 7, true}};

/// Enough for several threads, and rows for more than one of the parts that they take.
const Shape kLarge{2, 35, 41, 13};

class LrnTest : public DeviceTest {
 protected:
  Tensor scale_, y_;
  void forward(const LrnParameters& p, const Tensor& x) {
    scale_ = empty(x.shape(), x.layout());
    y_ = empty(x.shape(), x.layout());
    ops::lrn_forward(context(), p, x, scale_, y_);
  }
};

TEST_P(LrnTest, ForwardMatchesFormula) {
  for (const Shape& shape :
       {Shape{2, 7, 5, 4}, Shape{1, 32, 3, 3}, Shape{2, 2, 6, 7}, Shape{1, 19, 40, 2}, kLarge}) {
    const Values x = rounded(random_values(shape.count(), 1, -3, 3));
    for (const LrnParameters& p : kLrnCases) {
      const Values scale = naive_scale(p, x, shape);
      Values y(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * std::pow(scale[i], -p.beta);
      for (const Layout layout : kLayouts) {
        SCOPED_TRACE(cat("size ", p.size, p.within_channel ? " within " : " across ", name_of(layout)));
        const Tensor input = make(shape, x, layout);
        forward(p, input);
        // At most 25 positive terms, a power and a product.
        expect_near(values(scale_), scale, 16 * epsilon());
        expect_near(values(y_), y, 16 * epsilon());
      }
    }
  }
}

TEST_P(LrnTest, GradientsMatchDifferences) {
  if (dtype() != DType::f64) GTEST_SKIP() << "differences need f64";
  const Shape shape{2, 6, 4, 3};
  const Values x = random_values(shape.count(), 2, -2, 2), dy = random_values(shape.count(), 3);
  for (const LrnParameters& p : kLrnCases) {
    for (const Layout layout : kLayouts) {
      SCOPED_TRACE(cat("size ", p.size, p.within_channel ? " within " : " across ", name_of(layout)));
      const Tensor input = make(shape, x, layout), grad_output = make(shape, dy, layout);
      forward(p, input);
      Tensor dx = empty(shape, layout);
      ops::lrn_backward(context(), p, input, y_, scale_, grad_output, dx);
      const Values found = values(dx);
      expect_gradient(
          [&](const Values& moved) {
            const Tensor at = make(shape, moved, layout);
            forward(p, at);
            return dot(values(y_), dy);
          },
          x, found);
    }
  }
}

TEST_P(LrnTest, BackwardIsTheSameInBothLayouts) {
  for (const Shape& shape : {Shape{2, 19, 35, 5}, kLarge}) {
    const Values x = random_values(shape.count(), 4), dy = random_values(shape.count(), 5);
    for (const LrnParameters& p : kLrnCases) {
      std::vector<Values> found;
      for (const Layout layout : kLayouts) {
        const Tensor input = make(shape, x, layout), grad_output = make(shape, dy, layout);
        forward(p, input);
        Tensor dx = empty(shape, layout);
        ops::lrn_backward(context(), p, input, y_, scale_, grad_output, dx);
        found.push_back(values(dx));
      }
      // The same operations in the same order; a vector power may round differently.
      expect_near(found[0], found[1], 8 * epsilon());
    }
  }
}

TEST_P(LrnTest, EmptyBatchAndBadSizes) {
  const Tensor none = empty({0, 3, 2, 2});
  forward(kLrnCases[0], none);
  const Tensor x = empty({1, 3, 2, 2});
  EXPECT_THROW(forward({4, 1, 0.75, 1, false}, x), Error);
  const Tensor volume = empty({1, 3, 2, 2, 2});
  EXPECT_THROW(forward({3, 1, 0.75, 1, true}, volume), Error);
}

BANYAN_ON_ALL_DEVICES(LrnTest);

}  // namespace
}  // namespace banyan
