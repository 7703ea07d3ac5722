// Layers of FlowNet, PWC-Net and MNC: values against closed forms and plain loops, refusals. Their gradients
// are checked with spatial_cases.hpp and loss_cases.hpp.
#include <limits>

#include "layers/gradient_checker.hpp"

namespace banyan::testing {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

Values flow_run(const std::string& text, const std::vector<Shape>& shapes, const std::vector<Values>& inputs,
                const BenchOptions& options = {}) {
  Bench bench(text, shapes, 1, options);
  for (std::size_t i = 0; i < inputs.size(); ++i) bench.set_input(i, inputs[i]);
  bench.forward();
  return bench.output();
}

struct CorrelationCase {
  Shape maps;
  int pad, kernel, displacement, stride_1, stride_2;
  std::string text(bool subtract) const {
    return cat("type: 'Correlation' correlation_param { pad: ", pad, " kernel_size: ", kernel,
               " max_displacement: ", displacement, " stride_1: ", stride_1, " stride_2: ", stride_2,
               subtract ? " correlation_type: SUBTRACT }" : " }");
  }
};
const CorrelationCase kCorrelations[] = {
    {{2, 3, 4, 21}, 4, 1, 4, 1, 1},  // PWC-Net's
    {{1, 17, 5, 9}, 6, 1, 6, 1, 2},  // FlowNet's, smaller
    {{1, 8, 7, 40}, 1, 1, 2, 1, 1}, {{1, 2, 3, 3}, 5, 1, 1, 1, 1}, {{1, 9, 6, 6}, 2, 1, 3, 1, 2},
    {{2, 2, 9, 8}, 2, 3, 2, 2, 1},  {{1, 3, 6, 7}, 3, 1, 2, 3, 2}, {{1, 1, 9, 9}, 0, 5, 1, 1, 1},
};

/// By its definition.
Values correlated(const CorrelationCase& k, bool subtract, const Values& a, const Values& b, Shape& shape) {
  const std::int64_t c = k.maps[1], h = k.maps[2], w = k.maps[3];
  const std::int64_t radius = (k.kernel - 1) / 2, border = k.displacement + radius;
  const std::int64_t reach = k.displacement / k.stride_2, side = 2 * reach + 1;
  const auto length = [&](std::int64_t n) {
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(n + 2 * k.pad - 2 * border) / k.stride_1));
  };
  shape = Shape{k.maps[0], side * side, length(h), length(w)};
  const auto at = [&](const Values& map, std::int64_t n, std::int64_t channel, std::int64_t y,
                      std::int64_t x) {
    y -= k.pad, x -= k.pad;
    return y < 0 || y >= h || x < 0 || x >= w
               ? 0.0
               : map[static_cast<std::size_t>(((n * c + channel) * h + y) * w + x)];
  };
  Values all;
  for (std::int64_t n = 0; n < shape[0]; ++n)
    for (std::int64_t d = 0; d < shape[1]; ++d)
      for (std::int64_t i = 0; i < shape[2]; ++i)
        for (std::int64_t j = 0; j < shape[3]; ++j) {
          double sum = 0;
          for (std::int64_t u = -radius; u <= radius; ++u)
            for (std::int64_t v = -radius; v <= radius; ++v)
              for (std::int64_t channel = 0; channel < c; ++channel) {
                const std::int64_t y = i * k.stride_1 + border + u, x = j * k.stride_1 + border + v;
                const double first = at(a, n, channel, y, x);
                const double second = at(b, n, channel, y + (d / side - reach) * k.stride_2,
                                         x + (d % side - reach) * k.stride_2);
                sum += subtract ? std::abs(first - second) : first * second;
              }
          all.push_back(sum / static_cast<double>(k.kernel * k.kernel * c));
        }
  return all;
}

TEST(Correlation, FollowsItsDefinition) {
  for (const CorrelationCase& k : kCorrelations)
    for (const bool subtract : {false, true})
      for (const Layout layout : kBothLayouts)
        for (const DType dtype : {DType::f32, DType::f64}) {
          Bench bench(k.text(subtract), {k.maps, k.maps}, 1, in_layout(layout, dtype));
          Values a = spread_values(k.maps.count(), 1), b = spread_values(k.maps.count(), 2);
          bench.set_input(0, a);
          bench.set_input(1, b);
          Shape shape;
          const Values expected = correlated(k, subtract, a, b, shape);
          EXPECT_EQ(bench.outputs[0]->shape, shape);
          bench.forward();
          expect_near(bench.output(), expected, dtype == DType::f64 ? 1e-14 : 1e-6, k.text(subtract));
        }
}

/// The sum of dy times the correlation is linear in each input, so it is the sum of the input times its
/// gradient.
TEST(Correlation, HasTheGradientsOfAProduct) {
  for (const CorrelationCase& k : kCorrelations)
    for (const Layout layout : kBothLayouts) {
      Bench bench(k.text(false), {k.maps, k.maps}, 1, in_layout(layout));
      const Values a = spread_values(k.maps.count(), 1), b = spread_values(k.maps.count(), 2);
      bench.set_input(0, a);
      bench.set_input(1, b);
      bench.forward();
      const Values y = bench.output(), dy = spread_values(bench.outputs[0]->shape.count(), 3);
      bench.backward(dy);
      double sum = 0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
      for (const std::size_t input : {0, 1}) {
        const Values gradient = bench.input_gradient(input), &x = input == 0 ? a : b;
        double product = 0;
        for (std::size_t i = 0; i < x.size(); ++i) product += gradient[i] * x[i];
        EXPECT_NEAR(product, sum, 1e-12) << k.text(false) << ", input " << input;
      }
    }
}

TEST(Correlation, HasItsGradientsInBothLayouts) {
  for (const CorrelationCase& k : kCorrelations)
    for (const bool subtract : {false, true}) {
      const auto gradients = [&](Layout layout) {
        Bench bench(k.text(subtract), {k.maps, k.maps}, 1, in_layout(layout));
        bench.set_input(0, spread_values(k.maps.count(), 1));
        bench.set_input(1, spread_values(k.maps.count(), 2));
        bench.forward();
        bench.backward(spread_values(bench.outputs[0]->shape.count(), 3));
        return std::pair{bench.input_gradient(0), bench.input_gradient(1)};
      };
      const auto rows = gradients(Layout::contiguous), pixels = gradients(Layout::channels_last);
      expect_near(pixels.first, rows.first, 1e-14, k.text(subtract));
      expect_near(pixels.second, rows.second, 1e-14, k.text(subtract));
    }
}

TEST(Correlation, RefusesWhatItCannotDo) {
  const auto refused = [](const std::string& settings, const Shape& second = {1, 2, 5, 6}) {
    return refusal("type: 'Correlation' correlation_param { " + settings + " }", {Shape{1, 2, 5, 6}, second});
  };
  const auto has = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(refused("kernel_size: 1"), "kernel_size and max_displacement must be given");
  has(refused("kernel_size: 2 max_displacement: 1"), "kernel_size must be odd; found 2");
  has(refused("kernel_size: 1 max_displacement: 1 stride_2: 0"), "must be positive; found 1 and 0");
  has(refused("kernel_size: 1 max_displacement: 1 pad: 20000"), "above 10000; found 20000");
  has(refused("kernel_size: 1 max_displacement: 1 single_direction: -1"), "single_direction -1");
  has(refused("kernel_size: 1 max_displacement: 1 do_abs: true"), "AbsVal");
  has(refused("kernel_size: 1 max_displacement: 3"), "too small");
  has(refused("kernel_size: 1 max_displacement: 1", {1, 2, 5, 7}), "same shape");
}

TEST(Warp, TakesValuesAlongTheFlow) {
  // Columns 0 10 20, rows 0 1.
  const Values x{0, 10, 20, 1, 11, 21};
  const Values flow{1, 0.25, 0, 0.5, -1.5, -0.5, /* down: */ 0, 0.5, 0, -1, 0, -0.25};
  for (const std::string type : {"Warp", "FlowWarp"})
    for (const Layout layout : kBothLayouts)
      expect_near(flow_run("type: '" + type + "'", {Shape{1, 1, 2, 3}, Shape{1, 2, 2, 3}}, {x, flow},
                           in_layout(layout)),
                  {10, 13, 20, 5, 0, 15.75}, 1e-14);
  Values none = flow;
  none[0] = kNoNumber;
  none[9] = 0.01;  // below the last row
  const Values found = flow_run("type: 'Warp'", {Shape{1, 1, 2, 3}, Shape{1, 2, 2, 3}}, {x, none});
  EXPECT_EQ(found[0], 0);
  EXPECT_EQ(found[3], 0);
}

/// Slopes to both sides where a coordinate is whole; 0 outside.
TEST(Warp, HasTheSlopesOfTheFlow) {
  Bench bench("type: 'Warp'", {Shape{1, 1, 1, 4}, Shape{1, 2, 1, 4}}, 1);
  bench.set_input(0, {1, 2, 4, 9});
  bench.set_input(1, {0, 0, 0.5, 0.5, 0, 0, 0, 0});
  bench.forward();
  expect_near(bench.output(), {1, 2, 6.5, 0}, 1e-14);
  bench.backward(Values{1, 2, 3, 4});
  expect_near(bench.input_gradient(0), {1, 2, 1.5, 1.5}, 1e-14);
  // At 0: half of the slope to the right; at 1: the mean of 1 and 2; at 2.5: 5.
  expect_near(bench.input_gradient(1), {0.5, 2 * 1.5, 3 * 5, 0, 0, 0, 0, 0}, 1e-14);
}

/// Beyond the border's pixels there are zeros; a whole coordinate has the mean of both slopes here, too.
TEST(FlowTransformer, FadesBeyondTheBorder) {
  for (const Layout layout : kBothLayouts) {
    Bench bench("type: 'FlowTransformer' propagate_down: true propagate_down: true",
                {Shape{1, 1, 1, 5}, Shape{1, 2, 1, 5}}, 1, in_layout(layout));
    bench.set_input(0, {1, 2, 4, 9, 6});
    bench.set_input(1, {-0.25, -2, 1.5, 0, 0.75, /* down: */ 0, 0, -0.5, 0.25, 0});
    bench.forward();
    // Of places -0.25, -1, 3.5 (half a row up), 3 (a quarter of a row down), 4.75.
    expect_near(bench.output(), {0.75, 0, 3.75, 6.75, 1.5}, 1e-14);
    bench.backward(Values{1, 2, 3, 4, 5});
    expect_near(bench.input_gradient(0), {0.75, 0, 0, 3 * 0.25 + 4 * 0.75, 3 * 0.25 + 5 * 0.25}, 1e-14);
    const double up = 3 * 7.5, down = 4 * -9;
    expect_near(bench.input_gradient(1),
                {1, 0, 3 * 0.5 * -3, 4 * 0.75 * (6 - 4) / 2, 5 * -6, /* down: */ 0, 0, up, down, 0}, 1e-14);
  }
}

TEST(FlowTransformer, GivesTheImageAGradientOnlyWhereAsked) {
  const auto differentiable = [](const std::string& more) {
    return make_layer(layer_from_text("type: 'FlowTransformer' " + more), {})->traits().differentiable(0);
  };
  EXPECT_FALSE(differentiable(""));
  EXPECT_FALSE(differentiable("propagate_down: [false, true]"));
  EXPECT_TRUE(differentiable("propagate_down: [true, true]"));
}

TEST(Warp, IsTheSameInBothLayouts) {
  const Shape maps{2, 19, 5, 6}, flow{2, 2, 5, 6};
  const auto results = [&](Layout layout) {
    Bench bench("type: 'Warp'", {maps, flow}, 1, in_layout(layout));
    bench.set_input(0, spread_values(maps.count(), 1));
    bench.set_input(1, spread_values(flow.count(), 2, 2.3));
    bench.forward();
    bench.backward(spread_values(maps.count(), 3));
    return std::vector<Values>{bench.output(), bench.input_gradient(0), bench.input_gradient(1)};
  };
  const auto rows = results(Layout::contiguous), pixels = results(Layout::channels_last);
  for (std::size_t i = 0; i < rows.size(); ++i) expect_near(pixels[i], rows[i], 1e-14);
}

/// Columns 0 10 20, rows 0 1, at places (column, row).
TEST(Warp, TakesValuesAtPlaces) {
  const Values x{0, 10, 20, 1, 11, 21};
  const Values places{2, 0.25, -0.5, 0, 1, 2.5, /* rows: */ 1, 0.5, 0, -1, 1.5, 0};
  for (const Layout layout : kBothLayouts)
    expect_near(flow_run("type: 'Warp' flow_warp_param { coordinates: true }",
                         {Shape{1, 1, 2, 3}, Shape{1, 2, 2, 3}}, {x, places}, in_layout(layout)),
                {21, 3, 0, 0, 5.5, 10}, 1e-14);
}

/// Of any number, whatever the size of the map.
TEST(Remap, TakesValuesAtPlaces) {
  const Values x{0, 10, 20, 1, 11, 21, 100, 110, 120, 101, 111, 121};
  const Values places{1.25, -0.5, 2, /* rows: */ 0.5, 1, 2, 0, 3, 0.5, 0, 0, 0.75};
  for (const Layout layout : kBothLayouts) {
    Bench bench("type: 'Remap'", {Shape{2, 1, 2, 3}, Shape{2, 2, 3, 1}}, 1, in_layout(layout));
    EXPECT_EQ(bench.outputs[0]->shape, (Shape{2, 1, 3, 1}));
    bench.set_input(0, x);
    bench.set_input(1, places);
    bench.forward();
    expect_near(bench.output(), {13, 0.5, 0, 100, 0, 105.75}, 1e-13);
    bench.backward({1, 2, 3, 4, 5, 8});
    expect_near(bench.input_gradient(0), {0, 0.375, 0.125, 1, 0.375, 0.125, 5, 1, 0, 3, 3, 0}, 1e-13);
  }
}

/// As in appearance flow but where a coordinate is whole: there it is the slope to the right or downwards.
TEST(Remap, TakesTheMeanOfBothSlopesAtPixels) {
  Bench bench("type: 'Remap'", {Shape{1, 1, 1, 3}, Shape{1, 2, 1, 2}}, 1);
  bench.set_input(0, {0, 10, 40});
  bench.set_input(1, {1, 1.5, 0, 0});
  bench.forward();
  bench.backward({1, 1});
  expect_near(bench.input_gradient(1), {20, 30, 0, 0}, 1e-13);
}

TEST(Remap, RefusesWhatItCannotDo) {
  const Shape maps{2, 3, 4, 5};
  for (const Shape& places : {Shape{1, 2, 4, 5}, Shape{2, 3, 4, 5}})
    EXPECT_NE(
        refusal("type: 'Remap'", {maps, places}).find("expected 2 samples of 2 channels, column and row"),
        std::string::npos);
  EXPECT_NE(refusal("type: 'Remap'", {Shape{1, 3, 0, 5}, Shape{1, 2, 1, 1}}).find("has no pixels"),
            std::string::npos);
}

TEST(Grid, HasTheColumnsAndRows) {
  for (const Layout layout : kBothLayouts)
    expect_near(flow_run("type: 'Grid'", {Shape{2, 3, 2, 3}}, {Values(36, 7)}, in_layout(layout)),
                {0, 1, 2, 0, 1, 2, 0, 0, 0, 1, 1, 1, 0, 1, 2, 0, 1, 2, 0, 0, 0, 1, 1, 1}, 0);
}

TEST(ExpMax, IsAtMostOneAtTheLargest) {
  for (const Layout layout : kBothLayouts) {
    Bench bench("type: 'ExpMax' expmax_param { base: 2 scale: 3 shift: -1 }", {Shape{2, 3, 1, 2}}, 1,
                in_layout(layout));
    bench.set_input(0, {1, -1, 2, 5, 0, 4, 900, -900, 901, -901, 899, -902});
    bench.forward();
    const Values y{1 / 16., std::exp2(-19), 0.5,      0.5,     1 / 128., 1 / 16., 1 / 16., 0.5,
                   0.5,     1 / 16.,        1 / 128., 1 / 128.};
    expect_near(bench.output(), y, 1e-15);
    bench.backward(Values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    Values gradient;
    for (std::size_t i = 0; i < y.size(); ++i)
      gradient.push_back(3 * std::log(2) * y[i] * static_cast<double>(i + 1));
    expect_near(bench.input_gradient(0), gradient, 1e-14);
  }
  EXPECT_NE(refusal("type: 'ExpMax'", {Shape{4}}).find("axis of channels"), std::string::npos);
  EXPECT_NE(refusal("type: 'ExpMax' expmax_param { base: 0 }", {Shape{4, 2}}).find("base must be positive"),
            std::string::npos);
}

TEST(Warp, RefusesWhatItCannotDo) {
  const std::vector<Shape> fitting{Shape{1, 3, 4, 5}, Shape{1, 2, 4, 5}};
  EXPECT_NE(refusal("type: 'Warp'", {fitting[0], fitting[0]}).find(cat("expected ", fitting[1].to_string())),
            std::string::npos);
  EXPECT_NE(refusal("type: 'FlowWarp' flow_warp_param { fill_value: NOT_A_NUMBER }", fitting)
                .find("NOT_A_NUMBER is not supported"),
            std::string::npos);
}

TEST(MaskPooling, MultipliesEveryChannel) {
  for (const Layout layout : kBothLayouts) {
    Bench bench("type: 'MaskPooling'", {Shape{2, 2, 1, 2}, Shape{2, 1, 1, 2}}, 1, in_layout(layout));
    bench.set_input(0, {1, 2, 3, 4, 5, 6, 7, 8});
    bench.set_input(1, {0.5, 0, 1, -2});
    bench.forward();
    EXPECT_EQ(bench.output(), (Values{0.5, 0, 1.5, 0, 5, -12, 7, -16}));
    bench.backward(Values{1, 1, 2, 1, 0, 1, 3, 1});
    EXPECT_EQ(bench.input_gradient(0), (Values{0.5, 0, 1, 0, 0, -2, 3, -2}));
    EXPECT_EQ(bench.input_gradient(1), (Values{7, 6, 21, 14}));
  }
  EXPECT_NE(refusal("type: 'SpatialProduct'", {Shape{2, 2, 1, 2}, Shape{2, 2, 1, 2}})
                .find(cat("expected ", Shape{2, 1, 1, 2}.to_string())),
            std::string::npos);
}

TEST(MaskResize, ShowsPointsFromTheFirstPixelOn) {
  const auto resized = [](const Values& row, int width) {
    return flow_run(
        cat("type: 'MaskResize' mask_resize_param { output_height: 1 output_width: ", width, " }"),
        {Shape{1, 1, 1, std::ssize(row)}}, {row});
  };
  expect_near(resized({1, 3, 7}, 6), {1, 2, 3, 5, 7, 7}, 1e-14);
  // 8 / 3 is more than half a pixel beyond 2.
  expect_near(resized({1, 3, 7}, 9), {1, 5.0 / 3, 7.0 / 3, 3, 13.0 / 3, 17.0 / 3, 7, 7, 0}, 1e-14);
  expect_near(resized({1, 3, 7, 9}, 2), {1, 7}, 1e-14);
  EXPECT_EQ(resized({4, 5}, 2), (Values{4, 5}));
  const std::string text = "type: 'MaskResize' mask_resize_param { output_height: 3 ";
  EXPECT_NE(refusal(text + "}", {Shape{1, 1, 2, 2}}).find("must be from 1 to 10000; found 3 and 0"),
            std::string::npos);
}

TEST(Downsample, WeighsTheNeighboursWithoutNumbersThatAreNone) {
  const std::string text = "type: 'Downsample' downsample_param { top_height: 2 top_width: 2 }";
  // 3 x 3 to 2 x 2: corners on corners; neighbours count 1 / 2 along each axis.
  const Values x{0, 6, 12, 0, 6, 12, 9, 9, 9};
  const double left = (0 * 1 + 6 * 0.5 + 0 * 0.5 + 6 * 0.25) / 2.25;
  const double right = (12 * 1 + 6 * 0.5 + 12 * 0.5 + 6 * 0.25) / 2.25;
  const Values below{(9 * 1.5 + 0 * 0.5 + 6 * 0.25) / 2.25, (9 * 1.5 + 12 * 0.5 + 6 * 0.25) / 2.25};
  for (const Layout layout : kBothLayouts)
    expect_near(flow_run(text, {Shape{1, 1, 3, 3}}, {x}, in_layout(layout)),
                {left, right, below[0], below[1]}, 1e-14);
  Values holes = x;
  holes[1] = kNoNumber;  // weighs 1/2 of 2.25: half of the others are 0.875
  const Values found = flow_run(text, {Shape{1, 1, 3, 3}}, {holes});
  expect_near({found[0], found[1]}, {(0 + 0 + 6 * 0.25) / 1.75, (12 + 6 + 6 * 0.25) / 1.75}, 1e-14);
  holes[0] = kNoNumber;  // 1.5 of 0.75
  EXPECT_TRUE(std::isnan(flow_run(text, {Shape{1, 1, 3, 3}}, {holes})[0]));
  EXPECT_EQ(flow_run("type: 'Downsample'", {Shape{1, 1, 3, 3}, Shape{5, 2, 3, 3}}, {x, Values(90, 0)}), x);
  const auto refused = [](const std::string& settings) {
    return refusal("type: 'Downsample' downsample_param { " + settings + " }", {Shape{1, 1, 3, 3}});
  };
  EXPECT_NE(refused("").find("without a second input, top_height and top_width must be from 1"),
            std::string::npos);
  EXPECT_NE(refused("top_height: 2 top_width: 4").find("no larger than the input"), std::string::npos);
  EXPECT_NE(refused("top_height: 1 top_width: 3").find("at least 2 x 2"), std::string::npos);
}

TEST(Resample, UsesKernels) {
  const auto resized = [](const std::string& settings, const Shape& image, const Values& x) {
    return flow_run("type: 'Resample' resample_param { " + settings + " }", {image}, {x});
  };
  // Twice as large: points at -1/4, 1/4, 3/4...
  const Shape square{1, 1, 2, 2};
  expect_near(resized("height: 4 width: 4", square, {0, 4, 0, 4}),
              {0, 1, 3, 4, 0, 1, 3, 4, 0, 1, 3, 4, 0, 1, 3, 4}, 1e-14);
  expect_near(resized("height: 4 width: 4 type: NEAREST", square, {0, 4, 8, 9}),
              {0, 0, 4, 4, 0, 0, 4, 4, 8, 8, 9, 9, 8, 8, 9, 9}, 1e-14);
  // Half as large: the point 1/2 between pixels; with antialias the weights are 3/4, 3/4, 1/4.
  const Shape large{1, 1, 4, 4};
  const Values ramp{0, 1, 2, 5, 0, 1, 2, 5, 0, 1, 2, 5, 0, 1, 2, 5};
  expect_near(resized("height: 2 width: 2 antialias: false", large, ramp), {0.5, 3.5, 0.5, 3.5}, 1e-14);
  const double low = (0 * 0.75 + 1 * 0.75 + 2 * 0.25) / 1.75, high = (1 * 0.25 + 2 * 0.75 + 5 * 0.75) / 1.75;
  expect_near(resized("height: 2 width: 2", large, ramp), {low, high, low, high}, 1e-14);
  // Cubic weights at 1/2: -1/16, 9/16, 9/16, -1/16, two of them outside at the border.
  const double first = (0 * 9 + 1 * 9 - 2) / 17.0, second = (-1 + 2 * 9 + 5 * 9) / 17.0;
  expect_near(resized("height: 2 width: 2 type: CUBIC antialias: false", large, ramp),
              {first, second, first, second}, 1e-14);
  // The offset of each axis is that of the other.
  expect_near(resized("height: 1 width: 2", Shape{1, 1, 1, 4}, {0, 1, 2, 5}), {1.0 / 3, 2.5}, 1e-14);
  EXPECT_EQ(flow_run("type: 'Resample'", {square, Shape{1, 3, 2, 2}}, {{1, 2, 3, 4}, Values(12, 0)}),
            (Values{1, 2, 3, 4}));
  EXPECT_NE(
      refusal("type: 'Resample' resample_param { type: AREA height: 2 width: 2 }", {square}).find("AREA"),
      std::string::npos);
  EXPECT_NE(refusal("type: 'Resample' resample_param { width: 2 }", {square}).find("found 0 and 2"),
            std::string::npos);
}

double flow_loss(const std::string& text, const std::vector<Shape>& shapes,
                 const std::vector<Values>& inputs) {
  return flow_run(text, shapes, inputs)[0];
}

TEST(L1LossOfFlowNet, LeavesOutWhatIsNoNumber) {
  const std::vector<Shape> two(2, Shape{2, 2, 1, 1});
  const Values a{1, 2, -3, 0.5}, b{1, 4, kNoNumber, 0.25};
  const std::string text = "type: 'L1Loss' l1_loss_param { ";
  EXPECT_NEAR(flow_loss(text + "}", two, {a, b}), (2 + 0.25) / 2, 1e-15);
  EXPECT_NEAR(flow_loss(text + "normalize_by_num_entries: true }", two, {a, b}), (2 + 0.25) / 1.5, 1e-15);
  EXPECT_NEAR(flow_loss(text + "plateau: 0.5 }", two, {a, b}), 2.0 / 2, 1e-15);
  EXPECT_TRUE(std::isnan(flow_loss("type: 'L1Loss'", two, {a, b})));
  EXPECT_NEAR(flow_loss("type: 'L1Loss'", {Shape{2, 2, 1, 1}}, {b}), (1 + 4 + 0.25) / 2, 1e-15);
  const std::string lengths = text + "l2_per_location: true epsilon: 0.25 ";
  EXPECT_NEAR(flow_loss(lengths + "}", two, {a, b}), (std::sqrt(4.25) + std::sqrt(0.0625 + 0.25)) / 2, 1e-15);
  EXPECT_NEAR(flow_loss(lengths + "l2_prescale_by_channels: true }", two, {a, b}),
              (std::sqrt(2.25) + std::sqrt(0.03125 + 0.25)) / 2, 1e-15);
  EXPECT_NEAR(flow_loss(lengths + "plateau: 1 }", two, {a, b}), (std::sqrt(4.25) + 0.5) / 2, 1e-15);
  Bench bench(lengths + "plateau: 1 }", two, 1);
  bench.set_input(0, a);
  bench.set_input(1, b);
  bench.forward();
  bench.backward(Values{3});
  expect_near(bench.input_gradient(0), {0, -3.0 / 2 * 2 / std::sqrt(4.25), 0, 0}, 1e-15);
  expect_near(bench.input_gradient(1), {0, 3.0 / 2 * 2 / std::sqrt(4.25), 0, 0}, 1e-15);
  // Nothing that counts: no loss, and no division by 0.
  const Values none(4, kNoNumber);
  EXPECT_EQ(flow_loss(text + "normalize_by_num_entries: true }", two, {a, none}), 0);
  EXPECT_NE(refusal(text + "plateau: -1 }", two).find("must not be negative; found 0.01 and -1"),
            std::string::npos);
}

TEST(LpqLoss, FollowsItsPowers) {
  const std::vector<Shape> two(2, Shape{1, 2, 1, 2});
  const Values a{1, 2, -3, kNoNumber}, b{0, 4, 0, 1};  // |d|: locations (1, 3) and (2, none)
  const std::string text = "type: 'LpqLoss' lpq_loss_param { ";
  EXPECT_NEAR(flow_loss(text + "p: 1 q: 0.5 q_epsilon: 0 }", two, {a, b}), 2 + std::sqrt(2), 1e-15);
  EXPECT_NEAR(flow_loss(text + "p: 3 q: 2 p_epsilon: 1 q_epsilon: 0.5 }", two, {a, b}),
              std::pow(8 + 64 + 0.5, 2) + std::pow(27 + 1 + 0.5, 2), 1e-11);
  EXPECT_NEAR(flow_loss(text + "p: 1 q: 1 q_epsilon: 0 l2_prescale_by_channels: true "
                               "normalize_by_num_entries: true }",
                        two, {a, b}),
              (2 + 1) / 1.5, 1e-15);
}

TEST(LpqLoss, ChangesItsPowersWithTheIterations) {
  const std::string text =
      "type: 'LpqLoss' lpq_loss_param { pq_episode_starts_at_iter: [0, 10, 20] p: [1, 2, 1] q: [1, 1, 2] "
      "q_epsilon: 0 }";
  const auto at = [&](int iteration, int passes, Phase phase) {
    BenchOptions options;
    options.phase = phase;
    Bench bench(text, {Shape{1, 1}}, 1, options);  // a new one, as after resuming
    bench.pass.passes = passes;
    bench.pass.draw = iteration * passes + passes - 1;
    bench.set_input(0, {-3});
    bench.forward();
    if (phase == Phase::train) bench.backward(Values{1});
    return std::pair{bench.output()[0], phase == Phase::train ? bench.input_gradient()[0] : 0};
  };
  for (const int passes : {1, 4})
    for (const int iteration : {0, 9, 10, 19, 20, 5000}) {
      const bool first = iteration < 10;
      const auto [loss, gradient] = at(iteration, passes, Phase::train);
      EXPECT_EQ(loss, first ? 3 : 9) << iteration;
      EXPECT_EQ(gradient, first ? -1 : -6) << iteration;
      EXPECT_EQ(at(iteration, passes, Phase::test).first, 3) << iteration;
    }
  const auto refused = [](const std::string& settings) {
    return refusal("type: 'LpqLoss' lpq_loss_param { " + settings + " }", {Shape{1, 1}});
  };
  const auto has = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(refused(""), "as many p as q, at least one; found 0 and 0");
  has(refused("p: [1, 2] q: [1, 2]"), "several p need pq_episode_starts_at_iter");
  has(refused("p: [1, 2] q: [1, 2] pq_episode_starts_at_iter: 0"), "has 1 numbers for 2 p");
  has(refused("p: 1 q: 1 pq_episode_starts_at_iter: 3"), "must begin with 0 and rise; number 1 is 3");
  has(refused("p: [1, 2] q: [1, 2] pq_episode_starts_at_iter: [0, 0]"), "number 2 is 0");
  has(refused("p: 0 q: 1"), "above 0 and at most 100; found 0 and 1");
  has(refused("p: 1 q: 1 q_epsilon: -1"), "must not be negative");
}

TEST(SigmoidCrossEntropyLossOfMnc, DividesByTheSumOfItsWeights) {
  const std::vector<Shape> three(3, Shape{1, 3});
  const Values x{0, 2, -1}, targets{1, 0, 1}, weights{0.25, 0.125, 0};
  const auto entropy = [](double score, double target) {
    return std::log(1 + std::exp(score)) - score * target;
  };
  Bench bench("type: 'SigmoidCrossEntropyLoss'", three, 1);
  bench.set_input(0, x);
  bench.set_input(1, targets);
  bench.set_input(2, weights);
  bench.forward();
  EXPECT_NEAR(bench.output()[0], (0.25 * entropy(0, 1) + 0.125 * entropy(2, 0)) / 0.375, 1e-14);
  bench.backward(Values{2});
  const double sigma = 1 / (1 + std::exp(-2));
  expect_near(bench.input_gradient(), {2 * 0.25 * -0.5 / 0.375, 2 * 0.125 * sigma / 0.375, 0}, 1e-15);
  bench.set_input(2, {0, 0, 0});
  bench.forward();
  EXPECT_EQ(bench.output()[0], 0);
  bench.backward(Values{2});
  EXPECT_EQ(bench.input_gradient(), (Values{0, 0, 0}));
  EXPECT_NE(
      refusal("type: 'SigmoidCrossEntropyLoss' loss_param { ignore_label: 1 }", three).find("third input"),
      std::string::npos);
}

}  // namespace
}  // namespace banyan::testing
