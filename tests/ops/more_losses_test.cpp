// Losses against targets, over classes and of distances: sums and gradients against plain loops.
#include <array>
#include <numeric>

#include "banyan/base/text.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/class_loss.hpp"
#include "banyan/ops/distance_loss.hpp"
#include "banyan/ops/target_loss.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using Values = std::vector<double>;
using ops::TargetLoss;

class MoreLosses : public DeviceTest {
 protected:
  Tensor f64(const Values& values) {
    return make_as(DType::f64, {static_cast<std::int64_t>(values.size())}, values);
  }
  /// 0.7 / 4.
  Tensor grad_loss() { return make({1}, {0.7}); }
  Tensor divisor() { return f64({4}); }
  double scale() const { return (dtype() == DType::f32 ? static_cast<double>(0.7f) : 0.7) / 4; }
  Values labels(std::int64_t count, std::int64_t classes) {
    Values all = random_values(count, 7, 0, static_cast<double>(classes));
    for (double& label : all) label = std::floor(label);
    return all;
  }
};

TEST_P(MoreLosses, AgainstTargets) {
  const auto value = [](TargetLoss::Kind kind, double x, double t, double d) {
    if (kind == TargetLoss::Kind::sigmoid_cross_entropy) return std::log1p(std::exp(x)) - x * t;
    if (kind == TargetLoss::Kind::absolute) return std::abs(d);
    if (kind == TargetLoss::Kind::squared) return d * d / 2;
    return std::abs(d) < 0.25 ? 2 * d * d : std::abs(d) - 0.125;  // sigma 2
  };
  const auto slope = [](TargetLoss::Kind kind, double x, double t, double d) {
    if (kind == TargetLoss::Kind::sigmoid_cross_entropy) return 1 / (1 + std::exp(-x)) - t;
    if (kind == TargetLoss::Kind::absolute) return d > 0 ? 1.0 : -1.0;
    if (kind == TargetLoss::Kind::squared) return d;
    return std::abs(d) < 0.25 ? 4 * d : d > 0 ? 1.0 : -1.0;
  };
  for (const auto kind : {TargetLoss::Kind::sigmoid_cross_entropy, TargetLoss::Kind::absolute,
                          TargetLoss::Kind::squared, TargetLoss::Kind::smooth_absolute})
    for (const bool weighted : {false, true})
      for (const std::int64_t n : {0, 1, 999, 40001}) {
        const bool inside = weighted && kind != TargetLoss::Kind::sigmoid_cross_entropy;
        const Values x = rounded(random_values(n, 1, -3, 3)), in = rounded(random_values(n, 3, 0.1, 2)),
                     out = rounded(random_values(n, 4));
        Values t = rounded(random_values(n, 2));
        for (std::size_t i = 0; i < t.size(); i += 5) t[i] = 1;  // is ignored
        double sum = 0, counted = 0;
        Values dx;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double w_in = inside ? in[i] : 1, w_out = weighted ? out[i] : 1, d = w_in * (x[i] - t[i]);
          const bool counts = t[i] != 1;
          sum += counts ? w_out * value(kind, x[i], t[i], d) : 0;
          counted += counts ? 1 : 0;
          dx.push_back(counts ? -w_out * w_in * slope(kind, x[i], t[i], d) * scale() : 0);
        }
        const ops::Targets what{make({n}, x), make({n}, t), inside ? make({n}, in) : Tensor(),
                                weighted ? make({n}, out) : Tensor()};
        const TargetLoss loss{kind, 2, {true, 1}};
        Tensor partial = f64({-1, -1}), gradient = empty({n});
        const Tensor weight = grad_loss(), by = divisor();
        ops::target_loss_forward(context(), what, loss, partial);
        ops::target_loss_backward(context(), what, loss, -1, weight, by, gradient);
        const Values found = values(partial);
        EXPECT_EQ(found[1], counted);
        // Terms of size 5 at most, each with a few roundings; the sums differ in order.
        EXPECT_NEAR(found[0], sum, 16 * epsilon() * static_cast<double>(n + 1) + 1e-13 * std::abs(sum));
        expect_near(values(gradient), dx, 16 * epsilon());
      }
}

TEST_P(MoreLosses, OfPositionsThatMayBeIgnored) {
  for (const ops::Channels& over :
       {ops::Channels{0, 4, 1}, ops::Channels{5, 4, 1}, ops::Channels{3, 7, 130}}) {
    const std::int64_t n = over.outer * over.channels * over.inner, positions = over.outer * over.inner;
    const Values x = rounded(random_values(n, 1, 0.1, 1)), t = rounded(random_values(n, 2, -3, 3)),
                 in = rounded(random_values(n, 3));
    Values label = labels(positions, over.channels);
    for (std::size_t i = 0; i < label.size(); i += 3) label[i] = i % 2 == 0 ? -1 : 50;  // no classes
    Values smooth(label.size()), softmax(label.size());
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto position =
          static_cast<std::size_t>(i / over.inner / over.channels * over.inner + i % over.inner);
      const double d = std::abs(in[at] * (x[at] - t[at]));
      smooth[position] += d < 1 ? d * d / 2 : d - 0.5;
      const auto c = static_cast<double>(i / over.inner % over.channels);
      if (c == label[position] && c != 2)  // is ignored
        softmax[position] = -std::log(x[at]);
    }
    const Tensor tags = make({positions}, label);
    const ops::Targets what{make({n}, x), make({n}, t), make({n}, in), Tensor()};
    Tensor found = empty({positions});
    ops::target_losses(context(), what, {TargetLoss::Kind::smooth_absolute}, over, found);
    expect_near(values(found), smooth, 32 * epsilon());
    ops::position_losses(context(), what.x, tags, over, {true, 2}, false, found);
    expect_near(values(found), softmax, 16 * epsilon());
  }
}

TEST_P(MoreLosses, OverClasses) {
  for (const ops::Channels& over :
       {ops::Channels{5, 4, 1}, ops::Channels{3, 7, 4}, ops::Channels{40, 9, 130}}) {
    SCOPED_TRACE(over.channels);
    const std::int64_t n = over.outer * over.channels * over.inner, positions = over.outer * over.inner;
    const Values p = rounded(random_values(n, 1, 0.1, 1)),
                 gains = rounded(random_values(over.channels * over.channels, 2));
    Values label = labels(positions, over.channels);
    label[1] = -3;                                  // out of range
    label[2] = static_cast<double>(over.channels);  // likewise
    const Values by_class = rounded(random_values(over.channels, 3, 0.1, 2));
    Values given = rounded(random_values(positions, 4, 0.1, 2));
    given[0] = 0;  // a position, and a sample, that counts for nothing
    double hinge[2] = {0, 0}, logistic = 0, infogain = 0, focal = 0;
    Values dx_hinge[2] = {Values(p.size()), Values(p.size())}, dx_logistic(p.size()), dx_infogain(p.size()),
           dx_focal(p.size());
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t position = i / over.inner / over.channels * over.inner + i % over.inner;
      const auto c = static_cast<double>(i / over.inner % over.channels);
      const double y = label[static_cast<std::size_t>(position)], x = p[static_cast<std::size_t>(i)];
      if (y < 0 || y >= static_cast<double>(over.channels)) continue;
      const double t = c == y ? 1 : -1, missing = std::max(0.0, 1 - t * x);
      hinge[0] += missing;
      hinge[1] += missing * missing;
      dx_hinge[0][static_cast<std::size_t>(i)] = missing > 0 ? -t * scale() : 0;
      dx_hinge[1][static_cast<std::size_t>(i)] = -2 * t * missing * scale();
      if (c == y) logistic -= std::log(x);
      dx_logistic[static_cast<std::size_t>(i)] = c == y ? -scale() / x : 0;
      const std::int64_t own = i + static_cast<std::int64_t>(y - c) * over.inner;
      const double q = p[static_cast<std::size_t>(own)];  // of the label
      if (c == y) focal -= 0.6 * std::pow(1 - q, 1.5) * std::log(q);
      dx_focal[static_cast<std::size_t>(i)] =
          0.6 * (std::pow(1 - q, 1.5) - 1.5 * std::sqrt(1 - q) * q * std::log(q)) * (x - (c == y ? 1 : 0)) *
          scale();
      const auto row = gains.begin() + static_cast<std::ptrdiff_t>(y) * over.channels;
      infogain -= row[static_cast<std::ptrdiff_t>(c)] * std::log(x);
      const double sum = std::accumulate(row, row + over.channels, 0.0);
      dx_infogain[static_cast<std::size_t>(i)] = (x * sum - row[static_cast<std::ptrdiff_t>(c)]) * scale();
    }
    const Shape shape{over.outer, over.channels, over.inner};
    const Tensor scores = make(shape, p), y = make({positions}, label), weight = grad_loss(), by = divisor(),
                 matrix = make({over.channels, over.channels}, gains);
    Tensor partial = f64({0, 0}), noted = f64({0, 0, 0}), dx = empty(shape);
    const auto expect_loss = [&](double expected, const Values& gradient) {
      // Every term is rounded a few times; the sums differ in order.
      EXPECT_NEAR(values(partial)[0], expected,
                  16 * epsilon() * static_cast<double>(n) + 1e-13 * std::abs(expected));
      expect_near(values(dx), gradient, 32 * epsilon());
      const Values found = values(noted);
      EXPECT_EQ(found[0] - 1, static_cast<double>(1 / over.inner));
      EXPECT_EQ(found[2], -3);
      noted = f64({0, 0, 0});
    };
    for (const bool squared : {false, true}) {
      ops::hinge_loss_forward(context(), scores, y, over, squared, partial, noted);
      ops::hinge_loss_backward(context(), scores, y, over, squared, weight, by, dx);
      expect_loss(hinge[squared], dx_hinge[squared]);
    }
    ops::logistic_loss_forward(context(), scores, y, over, partial, noted);
    ops::logistic_loss_backward(context(), scores, y, over, weight, by, dx);
    expect_loss(logistic, dx_logistic);
    // Plain and smoothed, by weights of nothing, positions and samples, with and without ones
    // of classes.
    const Tensor none, of_classes = make({over.channels}, by_class), of_positions = make({positions}, given),
                       of_samples = make({over.outer}, Values(given.begin(), given.begin() + over.outer));
    for (const int smooth : {0, 1})
      for (const Tensor* g : {&none, &of_positions, &of_samples})
        for (const Tensor* c : {&none, &of_classes}) {
          const ops::LossWeights weights{*g, *c};
          ops::smoothed_loss_forward(context(), scores, y, weights, over, {}, 0.3 * smooth, partial, noted);
          ops::smoothed_loss_backward(context(), scores, y, weights, over, {}, 0.3 * smooth, weight, by, dx);
          double loss = 0;
          Values gradient(p.size());
          for (std::int64_t i = 0; i < n; ++i) {
            const auto at = static_cast<std::size_t>(i);
            const std::int64_t outer = i / over.inner / over.channels,
                               position = outer * over.inner + i % over.inner;
            const double tag = label[static_cast<std::size_t>(position)];
            if (tag < 0 || tag >= static_cast<double>(over.channels)) continue;
            const bool own = tag == static_cast<double>(i / over.inner % over.channels);
            const double wanted =
                smooth == 1 ? (own ? 0.7 : 0) + 0.3 / static_cast<double>(over.channels) : own;
            double w = c->defined() ? by_class[static_cast<std::size_t>(tag)] : 1;
            if (g->defined()) w *= given[static_cast<std::size_t>(g == &of_samples ? outer : position)];
            loss -= w * wanted * std::log(p[at]);
            gradient[at] = w * (p[at] - wanted) * scale();
          }
          SCOPED_TRACE(std::to_string(smooth) +
                       (g == &none         ? ""
                        : g == &of_samples ? " samples"
                                           : " positions") +
                       (c == &none ? "" : " classes"));
          expect_loss(loss, gradient);
        }
    ops::focal_loss_forward(context(), scores, y, over, {}, {0.6, 1.5}, partial, noted);
    ops::focal_loss_backward(context(), scores, y, over, {}, {0.6, 1.5}, weight, by, dx);
    expect_loss(focal, dx_focal);
    ops::infogain_loss_forward(context(), scores, y, matrix, over, {}, partial, noted);
    ops::infogain_loss_backward(context(), scores, y, matrix, over, {}, weight, by, dx);
    expect_loss(infogain, dx_infogain);
    EXPECT_EQ(values(partial)[1], static_cast<double>(positions - 2));
  }
}

TEST_P(MoreLosses, OfEachPosition) {
  const ops::Channels over{7, 5, 30};
  const std::int64_t n = over.outer * over.channels * over.inner, positions = over.outer * over.inner;
  const Values p = rounded(random_values(n, 1, 0.1, 1)), x = rounded(random_values(n, 2, -3, 3));
  Values label = labels(positions, over.channels), softmax, sigmoid;
  label[1] = -1;  // no class
  for (std::int64_t i = 0; i < positions; ++i) {
    const std::int64_t first = i / over.inner * over.channels * over.inner + i % over.inner;
    double sum = 0, own = 0;
    for (std::int64_t c = 0; c < over.channels; ++c) {
      const double score = x[first + c * over.inner];
      const bool hit = label[i] == static_cast<double>(c);
      sum += std::log1p(std::exp(hit ? -score : score));
      if (hit) own = -std::log(p[first + c * over.inner]);
    }
    softmax.push_back(own);
    sigmoid.push_back(sum);
  }
  const Shape shape{over.outer, over.channels, over.inner};
  const Tensor y = make({positions}, label), probabilities = make(shape, p), scores = make(shape, x);
  Tensor found = empty({positions});
  ops::position_losses(context(), probabilities, y, over, {}, false, found);
  expect_near(values(found), softmax, 8 * epsilon());
  ops::position_losses(context(), scores, y, over, {}, true, found);
  expect_near(values(found), sigmoid, 16 * epsilon());  // five terms
}

TEST_P(MoreLosses, FindsEqualLabels) {
  const Tensor a = make({6}, {0, 1.75, -1, -0.5, 3, 7}), b = make({6}, {0, 1.25, 1, 0.5, 4, 7});
  Tensor similar = empty({6});
  ops::equal_labels(context(), a, b, similar);
  EXPECT_EQ(values(similar), (Values{1, 1, 0, 1, 0, 1}));
}

TEST_P(MoreLosses, OfDistances) {
  for (const auto& [samples, length] :
       {std::pair<std::int64_t, std::int64_t>{1, 3}, {70, 5}, {300, 1}, {3, 9000}}) {
    SCOPED_TRACE(length);
    const std::int64_t n = samples * length;
    const Values a = rounded(random_values(n, 1)), b = rounded(random_values(n, 2)),
                 c = rounded(random_values(n, 3));
    Values similar = labels(samples, 2), near, far;
    for (std::int64_t s = 0; s < samples; ++s) {
      double to_b = 0, to_c = 0;
      for (std::int64_t i = s * length; i < (s + 1) * length; ++i) {
        const auto at = static_cast<std::size_t>(i);
        to_b += (a[at] - b[at]) * (a[at] - b[at]);
        to_c += (a[at] - c[at]) * (a[at] - c[at]);
      }
      near.push_back(to_b);
      far.push_back(to_c);
    }
    const Shape shape{samples, length};
    const Tensor x = make(shape, a), y = make(shape, b), z = make(shape, c), flags = make({samples}, similar),
                 weight = grad_loss(), by = divisor();
    Tensor squares = f64(Values(near.size())), others = f64(Values(near.size())),
           factors = f64(Values(near.size())), partial = f64({0, 0}), dx = empty(shape);
    ops::squared_distances(context(), x, y, squares);
    ops::squared_distances(context(), x, z, others);
    expect_near(values(squares), near, 8 * epsilon() + 1e-13);  // added in f64, in another order
    near = values(squares);
    far = values(others);
    const double margin = 0.6 * static_cast<double>(length);
    const auto expect_loss = [&](double loss, const Values& expected) {
      EXPECT_NEAR(values(partial)[0], loss, 1e-12 * std::max(1.0, loss));  // f64
      expect_near(values(factors), expected, 1e-12);
      ops::pair_backward(context(), x, y, factors, weight, by, dx);
      Values gradient;
      for (std::size_t i = 0; i < a.size(); ++i)
        gradient.push_back(expected[i / static_cast<std::size_t>(length)] * (a[i] - b[i]) * scale());
      expect_near(values(dx), gradient, 8 * epsilon());
    };
    for (const bool legacy : {false, true}) {
      double loss = 0;
      Values expected;
      for (std::size_t s = 0; s < near.size(); ++s) {
        const double d = std::sqrt(near[s]), missing = std::max(0.0, margin - (legacy ? near[s] : d));
        loss += similar[s] == 1 ? near[s] / 2 : legacy ? missing / 2 : missing * missing / 2;
        expected.push_back(similar[s] == 1 ? 1
                           : legacy        ? (missing > 0 ? -1 : 0)
                                           : -missing / (d + 1e-4));  // as Caffe
      }
      ops::contrastive_loss(context(), squares, flags, {margin, legacy}, factors, partial);
      expect_loss(loss, expected);
    }
    // So near to each other that e to their power is a number.
    Tensor small_near = f64(Values(near.size())), small_far = f64(Values(near.size()));
    const double scale_down = 1.0 / static_cast<double>(length);
    ops::axpby(context(), scale_down, squares, 0, small_near);
    ops::axpby(context(), scale_down, others, 0, small_far);
    const Values p = values(small_near), f = values(small_far);
    using Kind = ops::TripletMargin::Kind;
    for (const auto& [kind, margin_of_kind] :
         {std::pair{Kind::difference, 0.01}, {Kind::ratio, 0.5}, {Kind::exponential_ratio, 0.5}}) {
      SCOPED_TRACE(static_cast<int>(kind));
      const double m = margin_of_kind;
      double loss = 0;
      Values rises, falls, gradient;
      for (std::size_t s = 0; s < p.size(); ++s) {
        double own = m + p[s] - f[s], rise = 1, fall = 1;
        if (kind == Kind::ratio) {
          own = 1 - f[s] / (p[s] + m);
          rise = f[s] / ((p[s] + m) * (p[s] + m));
          fall = 1 / (p[s] + m);
        } else if (kind == Kind::exponential_ratio) {
          const double above = std::exp(p[s]) + m;
          own = 1 - std::exp(f[s]) / above;
          rise = std::exp(f[s]) * std::exp(p[s]) / (above * above);
          fall = std::exp(f[s]) / above;
        }
        loss += std::max(0.0, own) / 2;
        rises.push_back(own > 0 ? rise : 0);
        falls.push_back(own > 0 ? fall : 0);
      }
      Tensor to_far = f64(Values(near.size()));
      ops::triplet_loss(context(), small_near, small_far, {kind, m}, factors, to_far, partial);
      expect_near(values(to_far), falls, 1e-12);
      expect_loss(loss, rises);
      for (std::size_t i = 0; i < a.size(); ++i) {
        const std::size_t s = i / static_cast<std::size_t>(length);
        gradient.push_back((rises[s] * (a[i] - b[i]) - falls[s] * (a[i] - c[i])) * scale());
      }
      ops::triplet_backward(context(), x, y, z, factors, to_far, weight, by, dx);
      expect_near(values(dx), gradient, 16 * epsilon());
    }
  }
}

TEST_P(MoreLosses, OfSetsOfTriplets) {
  using Kind = ops::TripletMargin::Kind;
  for (const auto& [sets, size, length] :
       {std::array<std::int64_t, 3>{0, 4, 3}, {1, 3, 1}, {50, 5, 4}, {7, 9, 300}, {2, 3, 0}})
    for (const auto& [kind, margin] : {std::pair{Kind::difference, 0.3}, {Kind::ratio, 0.5}}) {
      SCOPED_TRACE(cat(sets, " sets of ", size, ", kind ", static_cast<int>(kind)));
      const std::int64_t rows = sets * size;
      const double narrow = length > 0 ? 1 / std::sqrt(static_cast<double>(length)) : 1;
      const Values x = rounded(random_values(rows * length, 1, 0, 3 * narrow));
      const auto at = [&](std::int64_t row, std::int64_t k) {
        return x[static_cast<std::size_t>(row * length + k)];
      };
      double sum = 0;
      Values expected(static_cast<std::size_t>(rows)), dx(x.size());
      for (std::int64_t a = 0; a < rows; a += size) {
        const auto square = [&](std::int64_t row) {
          double total = 0;
          for (std::int64_t k = 0; k < length; ++k)
            total += (at(a, k) - at(row, k)) * (at(a, k) - at(row, k));
          return total;
        };
        const double p = square(a + 1), q = p + margin;
        sum += p / 2;
        double& of_positive = expected[static_cast<std::size_t>(a + 1)] = 1;
        for (std::int64_t n = a + 2; n < a + size; ++n) {
          const double f = square(n), loss = kind == Kind::ratio ? 1 - f / q : margin + p - f;
          if (!(loss > 0)) continue;
          sum += loss / 2;
          of_positive += kind == Kind::ratio ? f / (q * q) : 1;
          expected[static_cast<std::size_t>(n)] = kind == Kind::ratio ? -1 / q : -1;
        }
        for (std::int64_t row = a + 1; row < a + size; ++row)
          for (std::int64_t k = 0; k < length; ++k) {
            const double slope = expected[static_cast<std::size_t>(row)] * (at(row, k) - at(a, k)) * scale();
            dx[static_cast<std::size_t>(row * length + k)] = slope;
            dx[static_cast<std::size_t>(a * length + k)] -= slope;
          }
      }
      const Tensor values_of_x = make({rows, length}, x), weight = grad_loss(), by = divisor();
      Tensor factors = f64(Values(expected.size(), NAN)), partial = f64({NAN, NAN}),
             gradient = empty({rows, length});
      const ops::TripletSets what{size, {kind, margin}};
      ops::triplet_sets_loss(context(), values_of_x, what, factors, partial);
      expect_near(values(factors), expected, 1e-6);  // differences are rounded to the type of x
      EXPECT_NEAR(values(partial)[0], sum, 1e-6 * std::max(1.0, sum));
      ops::triplet_sets_backward(context(), values_of_x, what, factors, weight, by, gradient);
      expect_near(values(gradient), dx, 64 * epsilon());
    }
}

BANYAN_ON_ALL_DEVICES(MoreLosses);

}  // namespace
}  // namespace banyan
