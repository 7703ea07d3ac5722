// The solvers' rules over several steps against their formulas, written element by element in f64.
#include "banyan/ops/update.hpp"

#include "banyan/base/error.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using ops::UpdateRule;
using ops::UpdateStep;
using Values = std::vector<double>;

class Update : public DeviceTest {
 protected:
  struct Element {
    double w, h, h2;
  };

  static void sgd(const UpdateStep& s, double g, Element& e) {
    e.h = s.momentum * e.h + s.rate * g;
    e.w -= e.h;
  }
  static void nesterov(const UpdateStep& s, double g, Element& e) {
    const double old = e.h;
    e.h = s.momentum * old + s.rate * g;
    e.w -= (1 + s.momentum) * e.h - s.momentum * old;
  }
  static void adagrad(const UpdateStep& s, double g, Element& e) {
    e.h += g * g;
    e.w -= s.rate * g / (std::sqrt(e.h) + s.delta);
  }
  static void rmsprop(const UpdateStep& s, double g, Element& e) {
    e.h = s.rms_decay * e.h + (1 - s.rms_decay) * g * g;
    e.w -= s.rate * g / (std::sqrt(e.h) + s.delta);
  }
  static void adadelta(const UpdateStep& s, double g, Element& e) {
    e.h = s.momentum * e.h + (1 - s.momentum) * g * g;
    const double u = g * std::sqrt((e.h2 + s.delta) / (e.h + s.delta));
    e.h2 = s.momentum * e.h2 + (1 - s.momentum) * u * u;
    e.w -= s.rate * u;
  }
  static void adam(const UpdateStep& s, double g, Element& e) {
    e.h = s.momentum * e.h + (1 - s.momentum) * g;
    e.h2 = s.momentum2 * e.h2 + (1 - s.momentum2) * g * g;
    const auto t = static_cast<double>(s.step);
    const double correction = std::sqrt(1 - std::pow(s.momentum2, t)) / (1 - std::pow(s.momentum, t));
    e.w -= s.rate * correction * e.h / (std::sqrt(e.h2) + s.delta);
  }

  /// Five steps of `step` with new gradients each, on `n` elements.
  void check(UpdateStep step, void (*rule)(const UpdateStep&, double, Element&), std::int64_t n) {
    Values w = rounded(random_values(n, 1));
    if (n > 3) w[2] = 0;  // sign(0) is 0
    std::vector<Element> elements;
    for (const double v : w) elements.push_back({v, 0, 0});
    const Values zeros(w.size(), 0);
    Tensor weight = make({n}, w), history = make({n}, zeros), history2 = make({n}, zeros);
    for (int t = 1; t <= 5; ++t) {
      step.step = t;
      const Values gradient = rounded(random_values(n, 10 + static_cast<unsigned>(t)));
      ops::update_parameters(context(), step, weight, make_kept(gradient), history, history2);
      for (std::size_t i = 0; i < elements.size(); ++i) {
        const double sign = elements[i].w > 0 ? 1 : elements[i].w < 0 ? -1 : 0;
        rule(step, gradient[i] * step.gradient_scale + step.l2 * elements[i].w + step.l1 * sign, elements[i]);
      }
    }
    Values expected, expected_history, expected_history2;
    for (const Element& e : elements) {
      expected.push_back(e.w);
      expected_history.push_back(e.h);
      expected_history2.push_back(e.h2);
    }
    // About ten roundings per step and five steps; AdaDelta and Adam divide by roots of small sums, which
    // about doubles relative errors.
    const double tolerance = 200 * epsilon();
    expect_near(values(weight), expected, tolerance);
    expect_near(values(history), expected_history, tolerance);
    expect_near(values(history2), expected_history2, tolerance);
  }

  void check_all_sizes(const UpdateStep& step, void (*rule)(const UpdateStep&, double, Element&)) {
    for (const std::int64_t n : {0, 1, 37, 50001}) {
      check(step, rule, n);
      UpdateStep decayed = step;
      decayed.gradient_scale = 0.25;
      decayed.l2 = 0.05;
      check(decayed, rule, n);
      decayed.l2 = 0;
      decayed.l1 = 0.0005;
      check(decayed, rule, n);
    }
  }

 private:
  /// A gradient that lives as long as the test: the stream may be asynchronous.
  const Tensor& make_kept(const Values& gradient) {
    kept_.push_back(make({static_cast<std::int64_t>(gradient.size())}, gradient));
    return kept_.back();
  }
  std::vector<Tensor> kept_;
};

TEST_P(Update, Sgd) { check_all_sizes({.rule = UpdateRule::sgd, .rate = 0.1, .momentum = 0.9}, sgd); }

TEST_P(Update, Nesterov) {
  check_all_sizes({.rule = UpdateRule::nesterov, .rate = 0.1, .momentum = 0.9}, nesterov);
}

TEST_P(Update, AdaGrad) {
  check_all_sizes({.rule = UpdateRule::adagrad, .rate = 0.1, .delta = 1e-3}, adagrad);
}

TEST_P(Update, RmsProp) {
  check_all_sizes({.rule = UpdateRule::rmsprop, .rate = 0.1, .rms_decay = 0.98, .delta = 1e-3}, rmsprop);
}

TEST_P(Update, AdaDelta) {
  check_all_sizes({.rule = UpdateRule::adadelta, .rate = 1, .momentum = 0.95, .delta = 1e-3}, adadelta);
}

TEST_P(Update, Adam) {
  check_all_sizes(
      {.rule = UpdateRule::adam, .rate = 0.01, .momentum = 0.9, .momentum2 = 0.999, .delta = 1e-3}, adam);
}

TEST_P(Update, OneHistoryIsEnoughForMostRules) {
  Tensor weight = make({2}, {1, 2}), history = make({2}, {0, 0}), none;
  const Tensor gradient = make({2}, {1, -1});
  ops::update_parameters(context(), {.rule = UpdateRule::sgd, .rate = 0.5}, weight, gradient, history, none);
  expect_near(values(weight), {0.5, 2.5}, 0);
  EXPECT_THROW(ops::update_parameters(context(), {.rule = UpdateRule::adam}, weight, gradient, history, none),
               Error);
}

BANYAN_ON_ALL_DEVICES(Update);

}  // namespace
}  // namespace banyan
