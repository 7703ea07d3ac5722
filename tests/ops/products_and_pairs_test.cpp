// Operators of losses over pairs, of products and of colours, against sums written out. The layers' own tests
// have their gradients.
#include <algorithm>
#include <cmath>
#include <set>

#include "banyan/ops/colors.hpp"
#include "banyan/ops/discrepancy.hpp"
#include "banyan/ops/distribution_loss.hpp"
#include "banyan/ops/pair_loss.hpp"
#include "banyan/ops/products.hpp"
#include "banyan/ops/target_loss.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

class Discrepancies : public DeviceTest {};

TEST_P(Discrepancies, DrawTwoDifferentRowsOfEach) {
  const std::int64_t draws = 2000, a_rows = 5, b_rows = 2;
  Tensor picks(device(), Shape{draws, 4}, DType::i32);
  ops::draw_rows(context(), on_device({1, 2, 3}), a_rows, b_rows, picks);
  const std::vector<double> found = values(picks);
  std::vector<int> times(25, 0);
  int first_of_b = 0;
  for (std::int64_t d = 0; d < draws; ++d) {
    const double* const row = found.data() + 4 * d;
    ASSERT_TRUE(row[0] >= 0 && row[0] < 5 && row[1] >= 0 && row[1] < 5 && row[0] != row[1]) << d;
    ASSERT_TRUE(row[2] + row[3] == 1 && row[2] * row[3] == 0) << d;
    ++times[static_cast<std::size_t>(5 * row[0] + row[1])];
    first_of_b += row[2] == 0 ? 1 : 0;
  }
  for (std::size_t pair = 0; pair < 25; ++pair)  // 5 standard deviations of sqrt(2000 * 0.05 * 0.95)
    EXPECT_NEAR(times[pair], pair % 6 == 0 ? 0 : 100, pair % 6 == 0 ? 0 : 49) << pair;
  EXPECT_NEAR(first_of_b, 1000, 112);
  Tensor again(device(), Shape{draws, 4}, DType::i32);
  ops::draw_rows(context(), on_device({1, 2, 3}), a_rows, b_rows, again);
  EXPECT_EQ(values(again), found);
  ops::draw_rows(context(), on_device({1, 2, 4}), a_rows, b_rows, again);
  EXPECT_NE(values(again), found);
}

TEST_P(Discrepancies, AddUpKernelsOfSquares) {
  const Tensor a = make({2, 2}, {0, 0, 1, 2}), b = make({2, 2}, {3, 0, 1, 1});
  const Tensor picks = make_as(DType::i32, {1, 4}, {1, 0, 0, 1});
  Tensor squares(device(), {1, 4}, DType::f64), kernels(device(), {1, 4}, DType::f64),
      slopes(device(), {1, 4}, DType::f64), deviations(device(), {2}, DType::f64),
      partial(device(), {2}, DType::f64);
  ops::picked_distances(context(), a, b, picks, squares);
  // (1 2) (0 0), (3 0) (1 1), (1 2) (1 1), (0 0) (3 0)
  EXPECT_EQ(values(squares), (std::vector<double>{5, 5, 1, 9}));
  ops::column_deviations(context(), a, b, deviations);
  expect_near(values(deviations), {4.75, 2.75}, 4 * epsilon());
  const double width = 2 * 7.5 / 3;
  const Tensor sum = make_as(DType::f64, {1}, {7.5});
  ops::gaussian_kernels(context(), squares, {2, 0.5, 4, 4}, sum, kernels, slopes);
  std::vector<double> expected, of_slopes;
  for (const double square : {5, 5, 1, 9}) {
    const double wide = std::exp(-0.5 * square / width), narrow = std::exp(-2 * square / width);
    expected.push_back(wide + narrow);
    of_slopes.push_back(-(0.5 * wide + 2 * narrow) / width);
  }
  expect_near(values(kernels), expected, 1e-14);
  expect_near(values(slopes), of_slopes, 1e-14);
  ops::mean_discrepancy(context(), kernels, {}, partial);
  expect_near(values(partial), {expected[0] + expected[1] - expected[2] - expected[3], 0}, 1e-14);
  ops::mean_discrepancy(context(), kernels, squares, partial);
  expect_near(values(partial), {5 * expected[0] + 5 * expected[1] - expected[2] - 9 * expected[3], 0}, 1e-13);
  const Tensor nothing = make_as(DType::f64, {1}, {0});
  ops::gaussian_kernels(context(), squares, {2, 1, 1, 4}, nothing, kernels, slopes);
  EXPECT_EQ(values(kernels), std::vector<double>(4, 2)) << "samples that are all the same";
}

BANYAN_ON_ALL_DEVICES(Discrepancies);

class PairLosses : public DeviceTest {};

TEST_P(PairLosses, CompareAllSamples) {
  const Tensor x = make({3, 1}, {0.5, -1.5, 4}), labels = make({3}, {1, 1, 0});
  const Tensor squares = make({3, 3}, {0, 4, 12.25, 4, 0, 30.25, 12.25, 30.25, 0});
  Tensor factors = empty({3, 3}), dx = empty({3, 1}), partial(device(), {2}, DType::f64);
  ops::hashing_loss(context(), x, squares, labels, {20, 0.5, 1}, factors, partial);
  expect_near(values(partial), {(4 + 7.75) / 2 / 6 + 0.5 / 3 * (0.5 + 0.5 + 3), 3}, 1e-14);
  EXPECT_EQ(values(factors), (std::vector<double>{0, 1, -1, 1, 0, 0, -1, 0, 0}));
  const Tensor weight = make({1}, {2});
  ops::hashing_backward(context(), x, factors, 0.5, weight, dx);
  expect_near(values(dx), {2 * (5.5 / 6 - 0.5 / 3), 2 * (-2.0 / 6 - 0.5 / 3), 2 * (-3.5 / 6 + 0.5 / 3)},
              8 * epsilon());

  const Tensor products = make({2, 1}, {0.5, -2}), a = make({2, 2}, {1, 0, 0, 1}), b = make({1, 2}, {0, 1});
  Tensor slopes = empty({2, 1});
  ops::pairwise_loss(context(), products, a, b, {3, false, 10, 2}, slopes, partial);
  expect_near(values(partial), {10 * (std::log1p(std::exp(0.5)) + 3 * (std::log1p(std::exp(-2)) + 2)), 4},
              1e-13);
  expect_near(values(slopes), {1 / (1 + std::exp(-0.5)), 3 * (1 / (1 + std::exp(2)) - 1)}, 8 * epsilon());
}

BANYAN_ON_ALL_DEVICES(PairLosses);

class Quantization : public DeviceTest {};

TEST_P(Quantization, DrawsValuesToOneAndMinusOne) {
  const std::vector<double> x{0, -0.25, 1, -1, 2.5, -3, 900, -900};
  Tensor dx = empty({8}), partial(device(), {2}, DType::f64);
  const Tensor codes = make({8}, x), grad = make({1}, {3}), divisor = make_as(DType::f64, {1}, {2});
  double sum = 2 * (899 - std::log(2));  // cosh(899) is no number
  std::vector<double> slopes;
  for (const double value : x) {
    const double t = std::fabs(value) - 1;
    if (t < 800) sum += std::log(std::cosh(t));
    slopes.push_back(1.5 * (value < 0 ? -1 : 1) * std::tanh(t));
  }
  ops::quantization_loss_forward(context(), codes, partial);
  expect_near(values(partial), {sum, 8}, 1e-12);
  ops::quantization_loss_backward(context(), codes, grad, divisor, dx);
  expect_near(values(dx), slopes, 8 * epsilon());
}

BANYAN_ON_ALL_DEVICES(Quantization);

class Distributions : public DeviceTest {};

TEST_P(Distributions, HaveTheirEntropies) {
  const std::vector<double> p{0.5, 0.25, 0.25, 0.0625};
  Tensor dx = empty({4}), partial(device(), {2}, DType::f64);
  const Tensor x = make({4}, p), grad = make({1}, {3}), divisor = make_as(DType::f64, {1}, {2});
  ops::entropy_forward(context(), x, {0.1}, nullptr, partial);
  expect_near(values(partial), {1.5 * std::log(2), 4}, 1e-14);
  ops::entropy_backward(context(), x, {0.1}, nullptr, grad, divisor, dx);
  const double at_half = -1.5 * (1 - std::log(2)), at_quarter = -1.5 * (1 - std::log(4));
  expect_near(values(dx), {at_half, at_quarter, at_quarter, 0}, 8 * epsilon());
  const std::uint64_t* const draw = on_device({0, 0, 5}).iteration;
  ops::entropy_forward(context(), x, {0.1, 3, 2}, draw, partial);
  EXPECT_EQ(values(partial)[0], 0);
  ops::entropy_backward(context(), x, {0.1, 3, 2}, draw, grad, divisor, dx);
  EXPECT_EQ(values(dx), std::vector<double>(4, 0));
  ops::entropy_forward(context(), x, {0.1, 2, 2}, draw, partial);
  expect_near(values(partial), {1.5 * std::log(2), 4}, 1e-14);

  // 1 x 2 classes x 2 positions; a position without a target
  const Tensor targets = make({4}, {0.5, 0, 0.25, 0}), found = make({4}, {0.75, 0.5, 0.25, 0.5});
  ops::distribution_loss_forward(context(), found, targets, {1, 2, 2}, partial);
  expect_near(values(partial), {0.5 * std::log(0.5 / 0.75), 2}, 1e-14);
  ops::distribution_loss_backward(context(), found, targets, {1, 2, 2}, grad, divisor, dx);
  expect_near(values(dx), {1.5 * 0.0625, 0, -1.5 * 0.0625, 0}, 8 * epsilon());
}

BANYAN_ON_ALL_DEVICES(Distributions);

class Products : public DeviceTest {};

TEST_P(Products, OfTwoVectorsAndTheirSketches) {
  const Tensor a = make({2, 3}, {1, 2, 3, 4, 5, 6}), b = make({2, 2}, {10, 1, -1, 7});
  Tensor y = empty({2, 3, 2}), da = empty({2, 3}), db = empty({2, 2});
  const ops::OuterShape shape{2, 3, 2};
  ops::outer_product(context(), a, b, shape, y);
  EXPECT_EQ(values(y), (std::vector<double>{10, 1, 20, 2, 30, 3, -4, 28, -5, 35, -6, 42}));
  ops::outer_product_backward(context(), y, b, shape, false, da);
  EXPECT_EQ(values(da), (std::vector<double>{101, 202, 303, 200, 250, 300}));
  ops::outer_product_backward(context(), y, a, shape, true, db);
  EXPECT_EQ(values(db), (std::vector<double>{140, 14, -77, 539}));

  // Places 0, 2 and 1 with signs +, -, + for the rows; 2 and 0 with -, + for the columns; three in all.
  const ops::Sketch sketch{3, 2, 3};
  const Tensor hashes = make_as(DType::i32, {5}, {0, 5, 2, 5, 0});
  // Products (0, 0) and (1, 1) count in 2, (1, 0) in 1, (0, 1) and (2, 0) in 0, (2, 1) in 1.
  const Tensor starts = make_as(DType::i32, {4}, {0, 2, 4, 6});
  const Tensor entries = make_as(DType::i32, {6}, {2, 9, 4, 10, 1, 7});
  Tensor pooled = empty({3}), dproducts = empty({6}), pixels = empty({2, 3, 1});
  const Tensor products = y.slice(0, Shape{6});
  ops::sketch_products(context(), products, starts, entries, pooled);
  EXPECT_EQ(values(pooled), (std::vector<double>{1 - 30, 20 + 3, -10 - 2}));
  const Tensor dpooled = make({3}, {1, 2, 4});
  ops::sketch_products_backward(context(), dpooled, hashes, sketch, dproducts);
  EXPECT_EQ(values(dproducts), (std::vector<double>{-4, 1, 2, -4, -1, 2}));
  ops::sketch_pixels(context(), a, b, starts, entries, sketch, 1, pixels);
  EXPECT_EQ(values(pixels), (std::vector<double>{-29, 23, -12, 28 + 6, -5 + 42, 4 - 35}));
  const Tensor dy = make({2, 3, 1}, {1, 2, 4, 0, 0, 1});
  ops::sketch_pixels_backward(context(), dy, b, hashes, sketch, 1, false, da);
  EXPECT_EQ(values(da), (std::vector<double>{-40 + 1, 20 - 4, -10 + 2, 1, -7, 0}));
  ops::sketch_pixels_backward(context(), dy, a, hashes, sketch, 1, true, db);
  EXPECT_EQ(values(db), (std::vector<double>{-4 + 4 - 3, 1 - 8 + 6, -4, -5}));
  const ops::Sketch doubled{3, 2, 3, 2};
  ops::sketch_pixels(context(), a, b, starts, entries, doubled, 1, pixels);
  EXPECT_EQ(values(pixels), (std::vector<double>{-58, 46, -24, 68, 74, -62}));
  ops::sketch_pixels_backward(context(), dy, a, hashes, doubled, 1, true, db);
  EXPECT_EQ(values(db), (std::vector<double>{-6, -2, -8, -10}));
}

BANYAN_ON_ALL_DEVICES(Products);

class ColorSpaces : public DeviceTest {};

TEST_P(ColorSpaces, AreThoseOfCie) {
  // Two pixels, orange and a dark blue, as blue, green and red.
  const Tensor bgr = make({1, 3, 2}, {0, 128, 165, 0, 255, 0});
  Tensor lab = empty({1, 3, 2}), back = empty({1, 3, 2}), gray = empty({1, 1, 2});
  ops::convert_colors(context(), bgr, {ops::Colors::bgr, ops::Colors::lab, 2}, lab);
  expect_near(values(lab), {74.9357, 12.9720, 23.8938, 47.4860, 78.9498, -64.7022}, 1e-5);
  ops::convert_colors(context(), lab, {ops::Colors::lab, ops::Colors::bgr, 2}, back);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(values(back)[i], values(bgr)[i], 0.01) << i;
  ops::convert_colors(context(), bgr, {ops::Colors::bgr, ops::Colors::gray, 2}, gray);
  expect_near(values(gray), {0.2126729 * 255 + 0.7151522 * 165, 0.072175 * 128}, 1e-6);
}

BANYAN_ON_ALL_DEVICES(ColorSpaces);

}  // namespace
}  // namespace banyan
