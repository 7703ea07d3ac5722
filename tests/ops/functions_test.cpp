// Functions of one element and the parametric ReLU against plain formulas.
#include "banyan/ops/functions.hpp"

#include <functional>

#include "banyan/base/text.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using Values = std::vector<double>;
using ops::Function;
using Kind = Function::Kind;

struct Tested {
  const char* name;
  Function f;
  std::function<double(double)> value;
  std::function<double(double)> slope;  ///< by x
};

const std::vector<Tested> kFunctions = {
    {"constant", {Kind::constant, 3}, [](double) { return 3.0; }, [](double) { return 0.0; }},
    {"affine", {Kind::affine, 2, -1}, [](double x) { return 2 * x - 1; }, [](double) { return 2.0; }},
    {"power",
     {Kind::power, 0.25, 2, 1.5},
     [](double x) { return std::pow(0.25 * x + 2, 1.5); },
     [](double x) { return 0.375 * std::sqrt(0.25 * x + 2); }},
    {"square",
     {Kind::power, -0.5, 2, 2},
     [](double x) { return (2 - 0.5 * x) * (2 - 0.5 * x); },
     [](double x) { return 0.5 * x - 2; }},
    {"root",
     {Kind::power, 0.25, 2, 0.5},
     [](double x) { return std::sqrt(0.25 * x + 2); },
     [](double x) { return 0.125 / std::sqrt(0.25 * x + 2); }},
    {"reciprocal",
     {Kind::power, -0.25, 2, -1},
     [](double x) { return 1 / (2 - 0.25 * x); },
     [](double x) { return 0.25 / ((2 - 0.25 * x) * (2 - 0.25 * x)); }},
    {"exponential",
     {Kind::exponential, 0.5, 0.25},
     [](double x) { return std::exp(0.5 * x + 0.25); },
     [](double x) { return 0.5 * std::exp(0.5 * x + 0.25); }},
    {"logarithm",
     {Kind::logarithm, 0.5, 3, 2},
     [](double x) { return 2 * std::log(0.5 * x + 3); },
     [](double x) { return 1 / (0.5 * x + 3); }},
    {"absolute",
     {Kind::absolute},
     [](double x) { return std::abs(x); },
     [](double x) { return x > 0   ? 1.0
                           : x < 0 ? -1.0
                                   : 0.0; }},
    {"softplus",
     {Kind::softplus},
     [](double x) { return std::log1p(std::exp(x)); },
     [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"clip",
     {Kind::clip, -1, 2},
     [](double x) { return std::min(std::max(x, -1.0), 2.0); },
     [](double x) { return x >= -1 && x <= 2 ? 1.0 : 0.0; }},
    {"swish",
     {Kind::swish, 1.5},
     [](double x) { return x / (1 + std::exp(-1.5 * x)); },
     [](double x) {
       const double s = 1 / (1 + std::exp(-1.5 * x));
       return s + 1.5 * x * s * (1 - s);
     }},
    {"mish",
     {Kind::mish},
     [](double x) { return x * std::tanh(std::log1p(std::exp(x))); },
     [](double x) {
       const double w = std::tanh(std::log1p(std::exp(x)));
       return w + x * (1 - w * w) / (1 + std::exp(-x));
     }},
    {"threshold",
     {Kind::threshold, 0.5},
     [](double x) { return x > 0.5 ? 1.0 : 0.0; },
     [](double) { return 0.0; }},
    {"affine_part",
     {Kind::affine_part, 1.5, 2, -0.5},
     [](double x) { return x >= 1.5 || std::abs(x) <= 1e-4 ? 0.0 : 2 * x - 0.5; },
     [](double) { return 0.0; }},
};

class Functions : public DeviceTest {};

TEST_P(Functions, ValuesAndSlopes) {
  for (const Tested& tested : kFunctions) {
    for (const std::int64_t n : {0, 1, 37, 40001}) {
      SCOPED_TRACE(cat(tested.name, " of ", n));
      const Values x = rounded(random_values(n, 1, -4, 4)), dy = rounded(random_values(n, 2));
      Values y, dx;
      for (std::size_t i = 0; i < x.size(); ++i) {
        y.push_back(tested.value(x[i]));
        dx.push_back(dy[i] * tested.slope(x[i]));
      }
      Tensor in = make({n}, x), out = empty({n}), gradient = make({n}, dy), result = empty({n});
      ops::apply_function(context(), in, tested.f, out);
      expect_near(values(out), y, 8 * epsilon());
      const Tensor& seen = tested.f.slope() == Function::Slope::of_input    ? in
                           : tested.f.slope() == Function::Slope::of_output ? out
                                                                            : gradient;
      ops::apply_slope(context(), seen, gradient, tested.f, result);
      expect_near(values(result), dx, 8 * epsilon());
      ops::apply_slope(context(), seen, gradient, tested.f, gradient);  // in place
      expect_near(values(gradient), dx, 8 * epsilon());
      ops::apply_function(context(), in, tested.f, in);
      expect_near(values(in), y, 8 * epsilon());
    }
  }
}

// Also where a result is subnormal, or has no finite value.
TEST_P(Functions, ExponentialsAndTheirLogarithms) {
  const Values x = {0, -0.3, 0.3, 1, -87, -90, -103, 88.5, 80, 1000, -1000};
  Tensor in = make({11}, x), out = empty({11});
  ops::apply_function(context(), in, {Kind::exponential, 1, 0}, out);
  const Values found = values(out);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact =
        std::exp(dtype() == DType::f64 ? x[i] : static_cast<double>(static_cast<float>(x[i])));
    const double expected = dtype() == DType::f64 ? exact : static_cast<double>(static_cast<float>(exact));
    SCOPED_TRACE(x[i]);
    if (std::isinf(expected)) {
      EXPECT_EQ(found[i], expected);
    } else {
      EXPECT_NEAR(found[i], expected, 4 * epsilon() * expected + 2 * 0x1p-149);  // the least f32
    }
  }
  ops::apply_function(context(), in, {Kind::softplus}, out);
  const Values softplus = values(out);
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(softplus[i], std::max(x[i], 0.0) + std::log1p(std::exp(-std::abs(x[i]))),
                8 * epsilon() * std::max(1.0, std::abs(x[i])))
        << x[i];
}

/// Where e^x or its square is too small or too large.
TEST_P(Functions, MishFarFromZero) {
  const Values x = {-1000, -95, -40, 30, 50, 95, 1000};
  const Values y = {0, -95 * std::exp(-95), -40 * std::exp(-40), 30, 50, 95, 1000},
               slopes = {0, -94 * std::exp(-95), -39 * std::exp(-40), 1, 1, 1, 1};
  const Tensor in = make({7}, x);
  Tensor out = empty({7}), dx = make({7}, Values(7, 1));
  ops::apply_function(context(), in, {Kind::mish}, out);
  ops::apply_slope(context(), in, dx, {Kind::mish}, dx);
  const Values found = values(out), slopes_found = values(dx);
  for (std::size_t i = 0; i < x.size(); ++i) {
    // Below, e^x is small but right; of subnormal numbers little is left.
    EXPECT_NEAR(found[i], y[i], 8 * epsilon() * std::abs(y[i]) + 1e-38) << x[i];
    EXPECT_NEAR(slopes_found[i], slopes[i], 8 * epsilon() * std::abs(slopes[i]) + 1e-38) << x[i];
  }
}

TEST_P(Functions, PRelu) {
  for (const ops::Broadcast& over :
       {ops::Broadcast{3, 5, 7}, ops::Broadcast{40, 6, 1}, ops::Broadcast{1, 1, 9000},
        ops::Broadcast{2, 70, 300}, ops::Broadcast{0, 4, 3}}) {
    const std::int64_t n = over.outer * over.dim * over.inner;
    const Values x = rounded(random_values(n, 1)), dy = rounded(random_values(n, 2)),
                 slope = rounded(random_values(over.dim, 3)), before = rounded(random_values(over.dim, 4));
    Values y(x.size()), dx(x.size()), dslope = before;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t d = i / static_cast<std::size_t>(over.inner) % static_cast<std::size_t>(over.dim);
      y[i] = x[i] > 0 ? x[i] : slope[d] * x[i];
      dx[i] = x[i] > 0 ? dy[i] : slope[d] * dy[i];
      dslope[d] += x[i] > 0 ? 0 : x[i] * dy[i];
    }
    const Tensor input = make({n}, x), slopes = make({over.dim}, slope);
    Tensor out = empty({n}), gradient = make({n}, dy), none;
    ops::prelu_forward(context(), input, slopes, over, out);
    expect_near(values(out), y, epsilon());
    // One of the gradients alone, then both in place.
    for (const bool both : {false, true}) {
      Tensor of_slopes = make({over.dim}, before), of_input = both ? gradient : empty({n});
      if (!both) ops::prelu_backward(context(), input, gradient, slopes, over, of_input, none);
      ops::prelu_backward(context(), input, gradient, slopes, over, both ? of_input : none, of_slopes);
      expect_near(values(of_input), dx, epsilon());
      expect_near(values(of_slopes), dslope, 8 * epsilon() + 1e-12);  // added in f64, in another order
    }
  }
}

BANYAN_ON_ALL_DEVICES(Functions);

}  // namespace
}  // namespace banyan
