// ColorConv, SoftmaxCrossEntropyLoss, OuterProduct, SignedSqrt and CompactBilinear: values, gradients,
// refusals.
#include <gmock/gmock.h>

#include <cstdlib>

#include "layers/gradient_case.hpp"

namespace banyan::testing {
namespace {

using ::testing::HasSubstr;

std::string colors(const std::string& from, const std::string& to) {
  return "type: 'ColorConv' color_conv_param { input: " + from + " output: " + to + " }";
}
std::string sketch(const std::string& settings) {
  return "type: 'CompactBilinear' compact_bilinear_param { " + settings + " }";
}
/// Output 0 of these inputs.
Values first_output(const std::string& text, const std::vector<Shape>& shapes,
                    const std::vector<Values>& inputs) {
  Bench bench(text, shapes, 1);
  for (std::size_t i = 0; i < inputs.size(); ++i) bench.set_input(i, inputs[i]);
  bench.forward();
  return bench.output();
}

/// Black, white, red, green and blue, one after the other in each channel.
const Shape kColors{1, 3, 1, 5};
const Values kRed{0, 255, 255, 0, 0}, kGreen{0, 255, 0, 255, 0}, kBlue{0, 255, 0, 0, 255};
Values three_channels(const Values& a, const Values& b, const Values& c) {
  Values all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

TEST(ColorConv, GivesTheColoursOfCie) {
  const Values bgr = three_channels(kBlue, kGreen, kRed), rgb = three_channels(kRed, kGreen, kBlue);
  // As tables of sRGB have them, to some units in the last place given: the white point differs.
  const Values lab = three_channels({0, 100, 53.24, 87.73, 32.30}, {0, 0, 80.09, -86.18, 79.19},
                                    {0, 0, 67.20, 83.18, -107.86});
  for (const auto& [from, x] : std::vector<std::pair<std::string, Values>>{{"BGR", bgr}, {"RGB", rgb}}) {
    const Values found = first_output(colors(from, "Lab"), {kColors}, {x});
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], lab[i], 0.06) << from << " at " << i;
  }
  expect_near(first_output(colors("RGB", "XYZ"), {kColors}, {rgb}),
              three_channels({0, 0.9505, 0.4124, 0.3576, 0.1805}, {0, 1, 0.2126, 0.7152, 0.0722},
                             {0, 1.089, 0.0193, 0.1192, 0.9505}),
              1e-3);
  expect_near(first_output(colors("BGR", "Gray"), {kColors}, {bgr}),
              {0, 255, 0.2126729 * 255, 0.7151522 * 255, 0.072175 * 255}, 1e-5);
  EXPECT_EQ(first_output(colors("BGR", "RGB"), {kColors}, {bgr}), rgb);
  EXPECT_EQ(first_output(colors("Lab", "Lab"), {kColors}, {lab}), lab);
  EXPECT_EQ(first_output(colors("Gray", "BGR"), {Shape{2, 1, 1, 2}}, {{1, 2, 3, 4}}),
            (Values{1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4}));
}

TEST(ColorConv, ComesBack) {
  const Shape shape{2, 3, 2, 2};
  Values x = spread_values(shape.count(), 1, 127);
  for (double& value : x) value += 127.5;
  for (const char* space : {"RGB", "XYZ", "Lab"}) {
    const Values there = first_output(colors("BGR", space), {shape}, {x});
    const Values back = first_output(colors(space, "BGR"), {shape}, {there});
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(back[i], x[i], 0.002) << space << " at " << i;  // the matrices have seven digits
  }
  const Values lab = first_output(colors("BGR", "Lab"), {shape}, {x});
  expect_near(first_output(colors("Lab", "XYZ"), {shape}, {lab}),
              first_output(colors("BGR", "XYZ"), {shape}, {x}), 1e-5);
  expect_near(first_output(colors("XYZ", "Lab"), {shape}, {first_output(colors("BGR", "XYZ"), {shape}, {x})}),
              lab, 1e-12);
}

TEST(ColorConv, RefusesOtherNumbersOfChannels) {
  EXPECT_THAT(refusal(colors("BGR", "Lab"), {Shape{1, 1, 2, 2}}),
              HasSubstr("of the kind BGR have 3 channels"));
  EXPECT_THAT(refusal(colors("Gray", "BGR"), {Shape{1, 3, 2, 2}}),
              HasSubstr("of the kind Gray have 1 channel"));
  EXPECT_THAT(refusal(colors("Gray", "BGR"), {Shape{1, 3}}), HasSubstr("expected 4 (N, C, H, W)"));
}

TEST(SoftmaxCrossEntropyLoss, ComparesDistributions) {
  const Values x{std::log(0.5), std::log(0.2), std::log(0.3), std::log(0.1), std::log(0.6), std::log(0.3)};
  const Values t{0.25, 0, 0.75, 0.1, 0.6, 0.3};
  const double sum = 0.25 * std::log(0.25 / 0.5) + 0.75 * std::log(0.75 / 0.3);
  const std::string type = "type: 'SoftmaxCrossEntropyLoss' ";
  expect_near(first_output(type, {Shape{2, 3}, Shape{2, 3}}, {x, t}), {sum / 2}, 1e-15);
  // The same as one sample with two places: batch size 1, two positions.
  const auto maps = [](const Values& v) { return Values{v[0], v[3], v[1], v[4], v[2], v[5]}; };
  const std::vector<Shape> shapes{Shape{1, 3, 1, 2}, Shape{1, 3, 1, 2}};
  for (const auto& [settings, divisor] : std::vector<std::pair<std::string, double>>{
           {"", 1}, {"loss_param { normalization: FULL }", 2}, {"loss_param { normalization: VALID }", 2}})
    expect_near(first_output(type + settings, shapes, {maps(x), maps(t)}), {sum / divisor}, 1e-15, settings);
  check_gradients({"", type, {Shape{2, 3, 4, 3}, Shape{2, 3, 4, 3}}});
  check_gradients({"", type + "softmax_param { axis: 2 }", {Shape{2, 3, 4}, Shape{2, 3, 4}}});
  EXPECT_THAT(refusal(type, {Shape{2, 3}, Shape{2}}), HasSubstr("must have the same shape"));
  EXPECT_THAT(refusal(type + "loss_param { ignore_label: 1 }", {Shape{2, 3}, Shape{2, 3}}),
              HasSubstr("targets are distributions"));
}

TEST(OuterProduct, MultipliesAllElementsOfASample) {
  Bench bench("type: 'OuterProduct'", {Shape{2, 2}, Shape{2, 3, 1, 1}}, 1);
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{2, 1, 2, 3}));
  bench.set_input(0, {1, 2, 3, 4});
  bench.set_input(1, {5, 6, 7, 1, 0, -1});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{5, 6, 7, 10, 12, 14, 3, 0, -3, 4, 0, -4}));
  check_gradients({"", "type: 'OuterProduct'", {Shape{3, 4}, Shape{3, 2, 2}}});
  EXPECT_THAT(refusal("type: 'OuterProduct'", {Shape{2, 2}, Shape{3, 2}}), HasSubstr("the same batch"));
}

TEST(SignedSqrt, IsTheRootWithTheSign) {
  Bench bench("type: 'SignedSqrt'", {Shape{5}}, 1);
  bench.set_input(0, {4, -2.25, 0, 1e-10, -1e-6});
  bench.forward();
  expect_near(bench.output(), {2, -1.5, 0, 1e-5, -1e-3}, 1e-15);
  bench.backward(Values{1, 1, 1, 1, 2});
  expect_near(bench.input_gradient(), {0.25, 1 / 3.0, 5000, 5000, 1000}, 1e-12);
  check_gradients({"", "type: 'SignedSqrt'", {Shape{3, 4}}});
}

/// What the branch draws, by the C library that it was used with.
struct Hashes {
  std::vector<std::size_t> place[2];
  Values sign[2];
  Hashes(std::size_t a, std::size_t b, std::size_t length) {
    std::srand(1);
    for (const int side : {0, 1}) {
      place[side].resize(side == 0 ? a : b);
      sign[side].resize(side == 0 ? a : b);
      for (std::size_t& at : place[side]) at = static_cast<std::size_t>(std::rand()) % length;
      for (double& value : sign[side]) value = 2 * (std::rand() % 2) - 1;
    }
  }
};

#ifdef __GLIBC__
TEST(CompactBilinear, ConvolvesTheSketchesOfBothInputs) {
  const std::size_t batch = 2, length = 16, pixels = 6, a_channels = 40, b_channels = 7;
  const std::vector<Shape> shapes{Shape{2, 40, 2, 3}, Shape{2, 7, 2, 3}};
  const Values a = spread_values(480, 1), b = spread_values(84, 2);
  const Hashes hashes(a_channels, b_channels, length);
  Values pooled(batch * length, 0), maps(batch * length * pixels, 0);
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
      Values of_a(length, 0), of_b(length, 0);
      for (std::size_t c = 0; c < a_channels; ++c)
        of_a[hashes.place[0][c]] += hashes.sign[0][c] * a[(n * a_channels + c) * pixels + pixel];
      for (std::size_t c = 0; c < b_channels; ++c)
        of_b[hashes.place[1][c]] += hashes.sign[1][c] * b[(n * b_channels + c) * pixels + pixel];
      for (std::size_t i = 0; i < length; ++i)
        for (std::size_t j = 0; j < length; ++j) {  // the branch's inverse transform does not divide
          const double product = of_a[i] * of_b[j] * static_cast<double>(length);
          pooled[n * length + (i + j) % length] += product;
          maps[(n * length + (i + j) % length) * pixels + pixel] += product;
        }
    }
  expect_near(first_output(sketch("num_output: 16"), shapes, {a, b}), pooled, 1e-12);
  expect_near(first_output(sketch("num_output: 16 sum_pool: false"), shapes, {a, b}), maps, 1e-12);
}
#endif

TEST(CompactBilinear, HasItsGradients) {
  for (const char* settings : {"num_output: 9", "num_output: 9 sum_pool: false"})
    check_gradients({"", sketch(settings), {Shape{2, 4, 2, 3}, Shape{2, 5, 2, 3}}});
}

TEST(CompactBilinear, RefusesWhatDoesNotFit) {
  const Shape maps{2, 4, 2, 3};
  EXPECT_THAT(refusal(sketch(""), {maps, maps}), HasSubstr("num_output must be 1 to"));
  EXPECT_THAT(refusal(sketch("num_output: 3"), {maps, Shape{2, 4, 3, 2}}),
              HasSubstr("differ in their channels"));
  EXPECT_THAT(refusal(sketch("num_output: 3"), {maps, Shape{2, 4}}), HasSubstr("expected 4 (N, C, H, W)"));
  Bench bench(sketch("num_output: 3 sum_pool: false"), {maps, maps}, 1);
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{2, 3, 2, 3}));
}

}  // namespace
}  // namespace banyan::testing
