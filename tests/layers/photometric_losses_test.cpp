// CharbonnierLoss and SSIMLoss: values against closed forms and plain loops, refusals. Their gradients are
// checked with loss_cases.hpp, and on several devices in replicas_test.cpp.
#include "layers/loss_cases.hpp"

namespace banyan::testing {
namespace {

using namespace loss_cases;

/// The loss and the gradient of the first input for a loss weight of 2.
std::pair<double, Values> loss_and_gradient(const std::string& text, const std::vector<Shape>& shapes,
                                            const std::vector<Values>& inputs) {
  Bench bench(text, shapes, 1);
  for (std::size_t i = 0; i < inputs.size(); ++i) bench.set_input(i, inputs[i]);
  bench.forward();
  EXPECT_TRUE(bench.layer().traits().loss);
  EXPECT_EQ(bench.layer().traits().shares, 1);
  bench.backward(Values{2});
  return {bench.output()[0], bench.input_gradient()};
}

TEST(CharbonnierLoss, DividesByThePlacesWithoutTheChannels) {
  const Values x{1, -2, 0, 0.5, 3, -1, 0.25, 4};
  const auto [loss, gradient] =
      loss_and_gradient(charbonnier("alpha: 0.5 beta: 2 epsilon: 0.25"), {Shape{2, 2, 1, 2}}, {x});
  double sum = 0;
  Values expected;
  for (const double v : x) {
    const double root = std::sqrt(4 * v * v + 0.0625);
    sum += root;
    expected.push_back(2 * 4 * v / root / 4);
  }
  EXPECT_NEAR(loss, sum / 4, 1e-14);
  expect_near(gradient, expected, 1e-14);
  // Absent settings: the square and a little.
  const auto plain = loss_and_gradient("type: 'CharbonnierLoss'", {Shape{1, 2}}, {{3, -0.5}});
  EXPECT_NEAR(plain.first, 9.25 + 2e-6, 1e-9);
  expect_near(plain.second, {12, -2}, 1e-14);
}

TEST(CharbonnierLoss, DividesByTheSamplesTimesTheMask) {
  // The third channel of the mask meets nothing, but counts.
  const Values x{1, 2, 3, 4, 5, 6, 7, 8}, mask{1, 0, 0.5, 1, 1, -1, 0, 1, 1, 0.25, 1, 1};
  const auto [loss, gradient] =
      loss_and_gradient(charbonnier("epsilon: 0"), {Shape{2, 2, 1, 2}, Shape{2, 3, 1, 2}}, {x, mask});
  const Values met{1, 0, 0.5, 1, 0, 1, 1, 0.25};
  const double divisor = 2 * 8.75;
  double sum = 0;
  Values expected;
  for (std::size_t i = 0; i < 8; ++i) {
    sum += met[i] * x[i] * x[i];
    expected.push_back(2 * met[i] * 2 * x[i] / divisor);
  }
  EXPECT_NEAR(loss, sum / divisor, 1e-14);
  expect_near(gradient, expected, 1e-14);
  const auto nothing =
      loss_and_gradient("type: 'CharbonnierLoss'", {Shape{1, 2}, Shape{1, 2}}, {{3, 4}, {0, 0}});
  EXPECT_EQ(nothing.first, 0);
  EXPECT_EQ(nothing.second, (Values{0, 0}));
}

TEST(CharbonnierLoss, HasNoSlopeAtZero) {
  const auto [loss, gradient] =
      loss_and_gradient(charbonnier("alpha: 0.25 epsilon: 0"), {Shape{1, 3}}, {{0, 16, -16}});
  EXPECT_NEAR(loss, 8, 1e-14);
  expect_near(gradient, {0, 2 * 0.5 / 4, -2 * 0.5 / 4}, 1e-15);
}

TEST(CharbonnierLoss, RefusesWhatDoesNotFit) {
  const auto has = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(refusal("type: 'CharbonnierLoss'", {Shape{3}}), "expected samples with channels");
  has(refusal("type: 'CharbonnierLoss'", {kMaps, Shape{2, 2, 4, 3}}), "or more channels");
  has(refusal("type: 'CharbonnierLoss'", {kMaps, Shape{2, 3, 3, 4}}), "expected the shape of \"input0\"");
  has(refusal("type: 'CharbonnierLoss'", {kMaps, Shape{1, 3, 4, 3}}), "the mask \"input1\"");
  has(refusal(charbonnier("alpha: 0"), {kMaps}), "alpha must be above 0 and at most 100; found 0");
  has(refusal(charbonnier("beta: nan"), {kMaps}), "beta must be finite; found nan");
  has(refusal(charbonnier("epsilon: -1"), {kMaps}), "epsilon must not be negative; found -1");
}

struct SsimCase {
  Shape images;
  int size, stride;
};
const SsimCase kSsim[] = {
    {{2, 2, 16, 14}, 8, 8},  // of Hidden Two-Stream: the second column of windows is cut off
    {{1, 1, 7, 7}, 8, 8},   {{1, 3, 6, 9}, 3, 1}, {{1, 1, 9, 8}, 2, 5}, {{2, 1, 5, 20}, 5, 2},
};

/// By its definition.
double ssim_by_definition(const SsimCase& k, const Values& x, const Values& y, double c1, double c2) {
  const std::int64_t height = k.images[2], width = k.images[3];
  const double deviation = k.size / 6.0;
  double weights = 0;
  const auto weight = [&](std::int64_t row, std::int64_t column) {
    const auto r = static_cast<double>(row - k.size / 2), c = static_cast<double>(column - k.size / 2);
    return std::exp(-(r * r + c * c) / (2 * deviation * deviation));
  };
  for (std::int64_t row = 0; row < k.size; ++row)
    for (std::int64_t column = 0; column < k.size; ++column) weights += weight(row, column);
  const auto starts = [&](std::int64_t length) {
    const double rest = static_cast<double>(length - k.size) / k.stride;
    return static_cast<std::int64_t>(std::ceil(std::max(rest, 0.0))) + 1;
  };
  double sum = 0;
  for (std::int64_t plane = 0; plane < k.images[0] * k.images[1]; ++plane)
    for (std::int64_t p = 0; p < starts(height); ++p)
      for (std::int64_t q = 0; q < starts(width); ++q) {
        double ux = 0, uy = 0, xx = 0, yy = 0, xy = 0;
        for (std::int64_t row = p * k.stride; row < std::min(p * k.stride + k.size, height); ++row)
          for (std::int64_t column = q * k.stride; column < std::min(q * k.stride + k.size, width);
               ++column) {
            const double w = weight(row - p * k.stride, column - q * k.stride) / weights;
            const auto i = static_cast<std::size_t>((plane * height + row) * width + column);
            ux += w * x[i];
            uy += w * y[i];
            xx += w * x[i] * x[i];
            yy += w * y[i] * y[i];
            xy += w * x[i] * y[i];
          }
        const double l = (2 * ux * uy + c1) / (ux * ux + uy * uy + c1);
        const double cs = (2 * (xy - ux * uy) + c2) / (xx - ux * ux + yy - uy * uy + c2);
        sum += 1 - l * cs;
      }
  return sum / static_cast<double>(k.images[0]);
}

TEST(SsimLoss, FollowsItsDefinition) {
  for (const SsimCase& k : kSsim) {
    const std::string text = ssim(cat("kernel_size: ", k.size, " stride: ", k.stride, " c1: 0.25 c2: 0.5"));
    const Values x = spread_values(k.images.count(), 1), y = spread_values(k.images.count(), 2);
    EXPECT_NEAR(loss_and_gradient(text, {k.images, k.images}, {x, y}).first,
                ssim_by_definition(k, x, y, 0.25, 0.5), 1e-12)
        << text;
    const auto [loss, gradient] = loss_and_gradient(text, {k.images, k.images}, {x, x});
    EXPECT_NEAR(loss, 0, 1e-12) << text;
    expect_near(gradient, Values(x.size(), 0), 1e-12, text);
  }
}

TEST(SsimLoss, GivesPixelsBetweenWindowsNoGradient) {
  // Windows of columns 0 and 1, 3 and 4.
  const Shape row{1, 1, 1, 5};
  const Values gradient = loss_and_gradient(ssim("kernel_size: 2 stride: 3"), {row, row},
                                            {spread_values(5, 1), spread_values(5, 2)})
                              .second;
  for (const std::size_t column : {0, 1, 3, 4}) EXPECT_NE(gradient[column], 0) << column;
  EXPECT_EQ(gradient[2], 0);
}

TEST(SsimLoss, RefusesWhatDoesNotFit) {
  const auto has = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(refusal("type: 'SSIMLoss'", {kMaps, Shape{2, 3, 3, 4}}), "both inputs must have the same shape");
  has(refusal("type: 'SSIMLoss'", {kScores, kScores}), "expected 4");
  has(refusal(ssim("kernel_size: 0"), {kMaps, kMaps}), "kernel_size must be from 1 to 1000");
  has(refusal(ssim("stride: 0"), {kMaps, kMaps}), "stride positive; found 8 and 0");
  has(refusal(ssim("c2: 0"), {kMaps, kMaps}), "c1 and c2 must be positive; found 1e-05 and 0");
}

}  // namespace
}  // namespace banyan::testing
