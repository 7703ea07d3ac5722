// Operators of FlowNet, PWC-Net and MNC, in both layouts: values against loops written from the definitions,
// gradients against differences.
#include <cmath>

#include "banyan/ops/correlation.hpp"
#include "banyan/ops/location_loss.hpp"
#include "banyan/ops/masks.hpp"
#include "banyan/ops/resample.hpp"
#include "banyan/ops/warp.hpp"
#include "ops/device_fixture.hpp"
#include "ops/gradient_check.hpp"

namespace banyan {
namespace {

class FlowOperators : public DeviceTest {
 protected:
  std::vector<double> correlate(const ops::Correlation& how, const Shape& maps, const std::vector<double>& a,
                                const std::vector<double>& b, Layout layout) {
    Tensor y = empty(correlated_shape(how, maps), layout);
    const Tensor of_a = make(maps, a, layout), of_b = make(maps, b, layout);
    ops::correlation_forward(context(), how, of_a, of_b, y);
    return values(y);
  }
  static Shape correlated_shape(const ops::Correlation& how, const Shape& maps) {
    return {maps[0], how.displacements(), how.output_length(maps[2]), how.output_length(maps[3])};
  }
  std::vector<double> warped(const Shape& maps, const std::vector<double>& x, const std::vector<double>& flow,
                             Layout layout, ops::WarpBorder border = ops::WarpBorder::none) {
    Tensor y = empty(maps, layout);
    const Tensor of_x = make(maps, x, layout), moves = make({maps[0], 2, maps[2], maps[3]}, flow, layout);
    ops::warp_forward(context(), of_x, moves, border, y);
    return values(y);
  }
};

struct CorrelatedMaps {
  ops::Correlation how;
  Shape maps;
};
const CorrelatedMaps kCorrelatedMaps[] = {
    {{4, 1, 4, 1, 1, false}, {2, 5, 6, 19}}, {{20, 1, 20, 1, 2, false}, {1, 16, 3, 5}},
    {{1, 1, 3, 1, 2, true}, {2, 9, 7, 9}},   {{3, 3, 2, 2, 1, false}, {1, 3, 6, 7}},
    {{2, 3, 1, 2, 1, true}, {2, 2, 5, 4}},
};

std::vector<double> by_definition(const ops::Correlation& how, const Shape& maps,
                                  const std::vector<double>& a, const std::vector<double>& b) {
  const std::int64_t channels = maps[1], h = maps[2], w = maps[3], radius = how.kernel / 2;
  const std::int64_t reach = how.displacement / how.stride_2, side = 2 * reach + 1;
  const auto at = [&](const std::vector<double>& of, std::int64_t plane, std::int64_t y, std::int64_t x) {
    return y < 0 || y >= h || x < 0 || x >= w ? 0.0 : of[static_cast<std::size_t>((plane * h + y) * w + x)];
  };
  std::vector<double> all;
  for (std::int64_t n = 0; n < maps[0]; ++n)
    for (std::int64_t d = 0; d < side * side; ++d)
      for (std::int64_t i = 0; i < how.output_length(h); ++i)
        for (std::int64_t j = 0; j < how.output_length(w); ++j) {
          const std::int64_t row = i * how.stride_1 + how.displacement + radius - how.pad;
          const std::int64_t column = j * how.stride_1 + how.displacement + radius - how.pad;
          double sum = 0;
          for (std::int64_t c = n * channels; c < (n + 1) * channels; ++c)
            for (std::int64_t y = row - radius; y <= row + radius; ++y)
              for (std::int64_t x = column - radius; x <= column + radius; ++x) {
                const double one = at(a, c, y, x), other = at(b, c, y + (d / side - reach) * how.stride_2,
                                                              x + (d % side - reach) * how.stride_2);
                sum += how.subtract ? std::abs(one - other) : one * other;
              }
          all.push_back(sum / static_cast<double>(how.kernel * how.kernel * channels));
        }
  return all;
}

TEST_P(FlowOperators, CorrelationFollowsItsDefinition) {
  for (const auto& [how, maps] : kCorrelatedMaps)
    for (const Layout layout : kLayouts) {
      const std::vector<double> a = rounded(random_values(maps.count(), 1)),
                                b = rounded(random_values(maps.count(), 2));
      expect_near(correlate(how, maps, a, b, layout), by_definition(how, maps, a, b), 8 * epsilon());
    }
}

TEST_P(FlowOperators, CorrelationHasItsGradients) {
  for (const auto& [how, maps] : kCorrelatedMaps)
    for (const Layout layout : kLayouts) {
      const std::vector<double> a = rounded(random_values(maps.count(), 1)),
                                b = rounded(random_values(maps.count(), 2));
      const Shape out = correlated_shape(how, maps);
      const std::vector<double> dy = rounded(random_values(out.count(), 3));
      const Tensor of_a = make(maps, a, layout), of_b = make(maps, b, layout),
                   gradient = make(out, dy, layout);
      for (const bool second : {false, true}) {
        Tensor dx = empty(maps, layout);
        ops::correlation_backward(context(), how, second, of_a, of_b, gradient, dx);
        // Of the definition above, in f64 whatever the device computes in.
        const auto loss = [&](const std::vector<double>& moved) {
          return dot(dy, second ? by_definition(how, maps, a, moved) : by_definition(how, maps, moved, b));
        };
        expect_gradient(loss, second ? b : a, values(dx), dtype() == DType::f64 ? 1e-7 : 1e-5);
      }
    }
}

TEST_P(FlowOperators, WarpHasItsGradients) {
  const Shape maps{2, 17, 6, 5}, flow{2, 2, 6, 5};
  for (const ops::WarpBorder border : {ops::WarpBorder::none, ops::WarpBorder::fades})
    for (const Layout layout : kLayouts) {
      const std::vector<double> x = rounded(random_values(maps.count(), 1)),
                                dy = rounded(random_values(maps.count(), 3));
      std::vector<double> moves = rounded(random_values(flow.count(), 2, -2, 2));
      const std::vector<double> y = warped(maps, x, moves, layout, border);
      const Tensor gradient = make(maps, dy, layout), where = make(flow, moves, layout),
                   of_x = make(maps, x, layout);
      Tensor dx = empty(maps, layout), dflow = empty(flow, layout);
      Tensor rows(device(), {2, 6, 2}, DType::i32);
      ops::warp_backward(context(), gradient, where, border, rows, dx);
      ops::warp_flow_backward(context(), of_x, where, border, gradient, dflow);
      // y is linear in x.
      EXPECT_NEAR(dot(values(dx), x), dot(dy, y), 100 * epsilon());
      std::vector<double> single(x.size(), 0.0);
      for (std::size_t i = 0; i < x.size(); i += 37) {
        single[i] = 1;
        EXPECT_NEAR(values(dx)[i], dot(dy, warped(maps, single, moves, layout, border)), 20 * epsilon());
        single[i] = 0;
      }
      if (dtype() == DType::f64)
        expect_gradient(
            [&](const std::vector<double>& moved) { return dot(dy, warped(maps, x, moved, layout, border)); },
            moves, values(dflow));
      // The same bits again.
      Tensor again = empty(maps, layout);
      ops::warp_backward(context(), gradient, where, border, rows, again);
      EXPECT_EQ(values(again), values(dx));
    }
}

TEST_P(FlowOperators, WarpIsZeroOutside) {
  const double none = std::nan("");
  for (const Layout layout : kLayouts)
    EXPECT_EQ(warped({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, {1, 0.5, none, -1, 0, 0, 0, 0}, layout),
              (std::vector<double>{2, 0, 0, 3, 6, 0, 0, 7}));
}

/// A flow and the places that it leads to are the same.
TEST_P(FlowOperators, WarpTakesPlacesToo) {
  const Shape maps{2, 17, 6, 5}, flow{2, 2, 6, 5};
  const ops::WarpRules along(ops::WarpBorder::fades), at(ops::WarpBorder::fades, true);
  for (const Layout layout : kLayouts) {
    const std::vector<double> x = rounded(random_values(maps.count(), 1)),
                              dy = rounded(random_values(maps.count(), 3));
    // Multiples of 1/32: the sums with rows and columns are exact.
    std::vector<double> moves = random_values(flow.count(), 2, -2, 2);
    for (double& move : moves) move = std::round(32 * move) / 32;
    Tensor grid = empty(flow, layout);
    ops::warp_grid(context(), grid);
    std::vector<double> places = values(grid);
    for (std::size_t i = 0; i < places.size(); ++i) {
      EXPECT_EQ(places[i], static_cast<double>(i / 30 % 2 == 0 ? i % 5 : i / 5 % 6));
      places[i] += moves[i];
    }
    const Tensor of_x = make(maps, x, layout), gradient = make(maps, dy, layout);
    const auto results = [&](const ops::WarpRules& rules, const std::vector<double>& where) {
      const Tensor points = make(flow, where, layout);
      Tensor y = empty(maps, layout), dx = empty(maps, layout), dflow = empty(flow, layout);
      Tensor rows(device(), {2, 6, 2}, DType::i32);
      ops::warp_forward(context(), of_x, points, rules, y);
      ops::warp_backward(context(), gradient, points, rules, rows, dx);
      ops::warp_flow_backward(context(), of_x, points, rules, gradient, dflow);
      return std::vector{values(y), values(dx), values(dflow)};
    };
    EXPECT_EQ(results(at, places), results(along, moves));
  }
}

/// Results at some of the places are those among the results at all.
TEST_P(FlowOperators, PlacesMayBeFewerOrMoreThanPixels) {
  const Shape maps{2, 17, 4, 5};
  const ops::WarpRules at(ops::WarpBorder::fades, true);
  struct Results {
    std::vector<double> y, dx, dflow;
  };
  const auto results = [&](Layout layout, const Shape& flow, const std::vector<double>& places,
                           const std::vector<double>& dy) {
    const Shape made{2, 17, flow[2], flow[3]};
    const Tensor x = make(maps, rounded(random_values(maps.count(), 1)), layout),
                 points = make(flow, places, layout), gradient = make(made, dy, layout);
    Tensor y = empty(made, layout), dx = empty(maps, layout), dflow = empty(flow, layout);
    Tensor rows(device(), {2, flow[2], 2}, DType::i32);
    ops::warp_forward(context(), x, points, at, y);
    ops::warp_backward(context(), gradient, points, at, rows, dx);
    ops::warp_flow_backward(context(), x, points, at, gradient, dflow);
    return Results{values(y), values(dx), values(dflow)};
  };
  // A map's size, and a larger one whose further places are far outside.
  const Shape small{2, 2, 4, 5}, large{2, 2, 6, 8};
  const std::vector<double> places = rounded(random_values(small.count(), 2, -1, 5)),
                            dy = rounded(random_values(maps.count(), 3));
  const auto embedded = [&](const std::vector<double>& from, std::int64_t channels, double rest) {
    std::vector<double> all(static_cast<std::size_t>(2 * channels * 48), rest);
    for (std::int64_t plane = 0; plane < 2 * channels; ++plane)
      for (std::int64_t i = 0; i < 20; ++i)
        all[plane * 48 + (i / 5 + 1) * 8 + i % 5 + 2] = from[plane * 20 + i];
    return all;
  };
  for (const Layout layout : kLayouts) {
    const Results few = results(layout, small, places, dy),
                  many = results(layout, large, embedded(places, 2, -99), embedded(dy, 17, 1));
    EXPECT_EQ(many.y, embedded(few.y, 17, 0));
    EXPECT_EQ(many.dx, few.dx);
    EXPECT_EQ(many.dflow, embedded(few.dflow, 2, 0));
  }
}

/// As if there were pixels of 0 around the map.
TEST_P(FlowOperators, WarpFadesBeyondTheBorder) {
  const Shape maps{2, 3, 4, 5}, wide{2, 3, 6, 7}, flow{2, 2, 4, 5}, wide_flow{2, 2, 6, 7};
  const std::vector<double> x = rounded(random_values(maps.count(), 1)),
                            moves = rounded(random_values(flow.count(), 2, -3, 3));
  const auto surrounded = [](const std::vector<double>& inside, std::int64_t planes) {
    std::vector<double> all(static_cast<std::size_t>(planes * 42), 0.0);
    for (std::int64_t i = 0; i < planes * 20; ++i)
      all[static_cast<std::size_t>(i / 20 * 42 + (i / 5 % 4 + 1) * 7 + i % 5 + 1)] =
          inside[static_cast<std::size_t>(i)];
    return all;
  };
  for (const Layout layout : kLayouts) {
    const std::vector<double> y = warped(maps, x, moves, layout, ops::WarpBorder::fades),
                              of_wide = warped(wide, surrounded(x, 6), surrounded(moves, 4), layout);
    std::vector<double> expected;
    for (std::int64_t i = 0; i < maps.count(); ++i)
      expected.push_back(of_wide[static_cast<std::size_t>(i / 20 * 42 + (i / 5 % 4 + 1) * 7 + i % 5 + 1)]);
    expect_near(y, expected, 40 * epsilon());  // places are rounded
  }
}

TEST_P(FlowOperators, MaskResizeHasItsTranspose) {
  const Shape from{2, 3, 4, 5};
  for (const Shape& to : {Shape{2, 3, 3, 7}, Shape{2, 3, 9, 2}, Shape{2, 3, 1, 11}})
    for (const Layout layout : kLayouts) {
      const std::vector<double> x = rounded(random_values(from.count(), 1)),
                                dy = rounded(random_values(to.count(), 2));
      const Tensor of_x = make(from, x, layout), of_dy = make(to, dy, layout);
      Tensor y = empty(to, layout), dx = empty(from, layout);
      ops::mask_resize_forward(context(), of_x, y);
      ops::mask_resize_backward(context(), of_dy, dx);
      EXPECT_NEAR(dot(values(dx), x), dot(values(y), dy), 100 * epsilon());
    }
}

TEST_P(FlowOperators, ResampleIsTheSameInBothLayouts) {
  const Shape from{2, 3, 6, 7};
  const std::vector<double> x = rounded(random_values(from.count(), 1));
  const Tensor by_rows = make(from, x), by_pixels = make(from, x, Layout::channels_last);
  using Kernel = ops::Resampling::Kernel;
  for (const ops::Resampling& how :
       {ops::Resampling{Kernel::linear, true}, ops::Resampling{Kernel::cubic, false},
        ops::Resampling{Kernel::nearest, true}})
    for (const Shape& to : {Shape{2, 3, 3, 11}, Shape{2, 3, 6, 7}}) {
      Tensor rows = empty(to), pixels = empty(to, Layout::channels_last);
      ops::resample(context(), how, by_rows, rows);
      ops::resample(context(), how, by_pixels, pixels);
      EXPECT_EQ(values(rows), values(pixels));
      if (to == from) expect_near(values(rows), x, 8 * epsilon());
    }
  Tensor rows = empty({2, 3, 3, 4}), pixels = empty({2, 3, 3, 4}, Layout::channels_last);
  ops::downsample(context(), by_rows, rows);
  ops::downsample(context(), by_pixels, pixels);
  EXPECT_EQ(values(rows), values(pixels));
}

TEST_P(FlowOperators, LocationLossFollowsItsFormula) {
  const ops::Channels over{2, 3, 20};
  const std::vector<double> a = rounded(random_values(120, 1)), b = rounded(random_values(120, 2));
  const ops::LocationLoss loss{0.1, 0.2, 0.5, 0.3};
  Tensor powers(device(), {2}, DType::f64), partial(device(), {2}, DType::f64);
  const std::uint64_t* const draw = on_device({1, 2, 7}).iteration;
  ops::location_loss_powers(context(), {0, 2, 0.5, 2}, draw, powers);
  ops::location_loss_powers(context(), {3, 1.5, 0.75, 2}, draw, powers);  // of iteration 3
  ops::location_loss_powers(context(), {4, 9, 9, 2}, draw, powers);
  const auto expected = [&](const std::vector<double>& x) {
    double sum = 0;
    for (std::size_t n = 0; n < 2; ++n)
      for (std::size_t p = 0; p < 20; ++p) {
        double s = 0;
        for (std::size_t c = 0; c < 3; ++c) {
          const std::size_t i = (3 * n + c) * 20 + p;
          s += std::pow(std::abs(x[i] - b[i]) + 0.1, 1.5);
        }
        sum += std::pow((0.5 * s < 0.3 ? 0 : 0.5 * s) + 0.2, 0.75);
      }
    return sum;
  };
  const ops::LocationPair what{make({2, 3, 20}, a), make({2, 3, 20}, b), over};
  ops::location_loss_forward(context(), what, loss, powers, partial);
  expect_near(values(partial), {expected(a), 120}, 40 * epsilon());
  const Tensor one = make({1}, {1});
  Tensor dx = empty({2, 3, 20});
  ops::location_loss_backward(context(), what, loss, powers, 1, one, dx);
  expect_gradient(expected, a, values(dx), dtype() == DType::f64 ? 1e-7 : 1e-5);
}

BANYAN_ON_ALL_DEVICES(FlowOperators);

}  // namespace
}  // namespace banyan
