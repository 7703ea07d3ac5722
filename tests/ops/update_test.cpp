// The solvers' rules over several steps against their formulas, written out per element in f64.
#include "banyan/ops/update.hpp"

#include "banyan/base/error.hpp"
#include "banyan/ops/device_value.hpp"
#include "banyan/tensor/values.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using ops::UpdateRule;
using Values = std::vector<double>;

/// One step of a rule, as used by the formulas below.
struct Step {
  UpdateRule rule = UpdateRule::sgd;
  double gradient_scale = 1, l2 = 0, l1 = 0, rate = 0, momentum = 0, momentum2 = 0, rms_decay = 0, delta = 0;
  std::int64_t t = 1;
  ops::UpdateStep constant() const { return {rule, 0.25, l2, l1, rms_decay, delta}; }
  ops::UpdateValues values() const {
    ops::UpdateValues values{gradient_scale, 4 * rate, momentum, momentum2};
    if (ops::corrects_bias(rule)) ops::correct_bias(values, t);
    return values;
  }
};

class Update : public DeviceTest {
 protected:
  struct Element {
    double w, h, h2;
  };

  static void sgd(const Step& s, double g, Element& e) {
    e.h = s.momentum * e.h + s.rate * g;
    e.w -= e.h;
  }
  static void nesterov(const Step& s, double g, Element& e) {
    const double old = e.h;
    e.h = s.momentum * old + s.rate * g;
    e.w -= (1 + s.momentum) * e.h - s.momentum * old;
  }
  static void sag(const Step& s, double g, Element& e) {
    e.h = s.momentum * e.h + (1 - s.momentum) * g;
    e.w -= s.rate * e.h;
  }
  static void adagrad(const Step& s, double g, Element& e) {
    e.h += g * g;
    e.w -= s.rate * g / (std::sqrt(e.h) + s.delta);
  }
  static void rmsprop(const Step& s, double g, Element& e) {
    e.h = s.rms_decay * e.h + (1 - s.rms_decay) * g * g;
    e.w -= s.rate * g / (std::sqrt(e.h) + s.delta);
  }
  static void adadelta(const Step& s, double g, Element& e) {
    e.h = s.momentum * e.h + (1 - s.momentum) * g * g;
    const double u = g * std::sqrt((e.h2 + s.delta) / (e.h + s.delta));
    e.h2 = s.momentum * e.h2 + (1 - s.momentum) * u * u;
    e.w -= s.rate * u;
  }
  static void adam(const Step& s, double g, Element& e) {
    e.h = s.momentum * e.h + (1 - s.momentum) * g;
    e.h2 = s.momentum2 * e.h2 + (1 - s.momentum2) * g * g;
    const auto t = static_cast<double>(s.t);
    const double correction = std::sqrt(1 - std::pow(s.momentum2, t)) / (1 - std::pow(s.momentum, t));
    e.w -= s.rate * correction * e.h / (std::sqrt(e.h2) + s.delta);
  }

  /// `g` without decay.
  static void adamw(const Step& s, double g, Element& e) {
    e.h = s.momentum * e.h + (1 - s.momentum) * g;
    e.h2 = s.momentum2 * e.h2 + (1 - s.momentum2) * g * g;
    const auto t = static_cast<double>(s.t);
    const double first = e.h / (1 - std::pow(s.momentum, t)), second = e.h2 / (1 - std::pow(s.momentum2, t));
    e.w -= s.rate * (first / (std::sqrt(second) + s.delta) + s.l2 * e.w);
  }

  void run(const Step& step, Tensor& weight, const Tensor& gradient, Tensor& history, Tensor& history2) {
    if (!values_) values_ = std::make_unique<ops::DeviceValue<ops::UpdateValues>>(device());
    values_->write(context(), step.values());
    Tensor none;
    ops::update_parameters(context(), step.constant(), values_->get(), weight, gradient, history, history2,
                           none);
  }

  /// Five steps of `step` on `n` elements, with new gradients each time.
  void check(Step step, void (*rule)(const Step&, double, Element&), std::int64_t n) {
    Values w = rounded(random_values(n, 1));
    if (n > 3) w[2] = 0;  // sign(0) is 0
    std::vector<Element> elements;
    for (const double v : w) elements.push_back({v, 0, 0});
    const Values zeros(w.size(), 0);
    Tensor weight = make({n}, w), history = make({n}, zeros), history2 = make({n}, zeros);
    for (int t = 1; t <= 5; ++t) {
      step.t = t;
      const Values gradient = rounded(random_values(n, 10 + static_cast<unsigned>(t)));
      run(step, weight, make_kept(gradient), history, history2);
      for (std::size_t i = 0; i < elements.size(); ++i) {
        const double sign = elements[i].w > 0 ? 1 : elements[i].w < 0 ? -1 : 0;
        const double decay = step.rule == UpdateRule::adamw ? 0 : step.l2 * elements[i].w + step.l1 * sign;
        rule(step, gradient[i] * step.gradient_scale + decay, elements[i]);
      }
    }
    Values expected, expected_history, expected_history2;
    for (const Element& e : elements) {
      expected.push_back(e.w);
      expected_history.push_back(e.h);
      expected_history2.push_back(e.h2);
    }
    // About ten roundings per step, five steps; AdaDelta and Adam divide by roots of small sums, which about
    // doubles relative errors.
    const double tolerance = 200 * epsilon();
    expect_near(values(weight), expected, tolerance);
    expect_near(values(history), expected_history, tolerance);
    expect_near(values(history2), expected_history2, tolerance);
  }

  void check_all_sizes(const Step& step, void (*rule)(const Step&, double, Element&)) {
    for (const std::int64_t n : {0, 1, 37, 50001}) {
      check(step, rule, n);
      Step decayed = step;
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
  std::unique_ptr<ops::DeviceValue<ops::UpdateValues>> values_;
};

TEST_P(Update, Sgd) { check_all_sizes({.rule = UpdateRule::sgd, .rate = 0.1, .momentum = 0.9}, sgd); }

/// NVIDIA's WD: the decay is not in the history.
TEST_P(Update, DecoupledDecay) {
  for (const bool sag : {false, true}) {
    const Values w{3, 0, -4}, g{1, -2, 5}, h{0.5, 0.25, -1};
    Tensor weight = make({3}, w), history = make({3}, h), none;
    const Tensor gradient = make({3}, g);
    ops::DeviceValue<ops::UpdateValues> on_device(device());
    ops::UpdateValues now{0.5, 0.25, 0.75};
    now.weight_decay = 0.125;
    on_device.write(context(), now);
    ops::update_parameters(context(),
                           {.rule = sag ? UpdateRule::sag : UpdateRule::sgd, .lr_mult = 2, .decoupled = 3},
                           on_device.get(), weight, gradient, history, none, none);
    Values expected, expected_history;
    for (std::size_t i = 0; i < 3; ++i) {
      expected_history.push_back(0.75 * h[i] + (sag ? 0.25 : 0.5) * (0.5 * g[i]));
      expected.push_back(w[i] - (sag ? 0.5 : 1) * expected_history[i] - 0.5 * 0.375 * w[i]);
    }
    expect_near(values(weight), expected, 20 * epsilon());  // five roundings
    expect_near(values(history), expected_history, 20 * epsilon());
  }
}

TEST_P(Update, RatesByNorms) {
  const Values w{3, 0, -4}, g{0, 12, 5};  // norms 5 and 13
  static constexpr double scale = 0.5, rate = 0.8, momentum = 0.9, eta = 0.02;
  struct Case {
    bool times, clips;
    double decay, expected;
    bool by_history = false;
    double without = rate;  ///< the rate without a norm
    bool turbo = false;
  };
  const double c = 0.25;  // of turbo
  for (const Case& of :
       {Case{true, false, 0, rate * 0.1 * eta * 5 / 6.5}, Case{true, true, 0, 0.1 * eta * 5 / 6.5},
        Case{false, false, 0.1, rate * eta * 5 / (6.5 + 0.1 * 5)}, Case{false, true, 0, eta * 5 / 6.5},
        // Of the history's norm, which gradient_scale is not in.
        Case{false, false, 0, rate * eta * 5 / 13, true}, Case{false, true, 0, eta * 5 / 13, true},
        Case{true, false, 0, rate * (0.1 * eta * 5 / 6.5 - 0.9 * c), false, rate * (1 - 0.9 * c), true},
        Case{true, true, 0, 0.1 * eta * 5 / 6.5 - 0.9 * c, false, 1 - 0.9 * c, true},
        Case{false, false, 0, rate * eta * 5 / 13 * (1 - 0.9 * c), true, rate * (1 - 0.9 * c), true},
        Case{false, true, 0, eta * 5 / 13 * (1 - 0.9 * c), true, 1 - 0.9 * c, true}}) {
    Tensor weight = make({3}, w), history = make({3}, {0, 0, 0}), none = make({3}, {0, 0, 0});
    const Tensor gradient = make({3}, g);
    Tensor squares(device(), Shape{2}, DType::f64);
    set_values(context(), {25, 169}, squares);
    ops::UpdateStep step{.lr_mult = 7, .l2 = 1};  // lr_mult is replaced
    Tensor cosine(device(), Shape{1}, DType::f64);
    set_values(context(), {c}, cosine);
    step.layer_wise = {squares.data<double>(),
                       eta,
                       of.decay,
                       of.times,
                       of.clips,
                       of.by_history,
                       of.turbo ? cosine.data<double>() : nullptr};
    ops::DeviceValue<ops::UpdateValues> on_device(device());
    ops::UpdateValues values_now{scale, rate, momentum};
    values_now.weight_decay = 0.25;
    on_device.write(context(), values_now);
    ops::update_parameters(context(), step, on_device.get(), weight, gradient, history, none, none);
    Values expected;
    for (std::size_t i = 0; i < 3; ++i) expected.push_back(w[i] - of.expected * (scale * g[i] + 0.25 * w[i]));
    expect_near(values(weight), expected, 20 * epsilon());
    // Without a norm L is 1.
    set_values(context(), {0, 169}, squares);
    weight = make({3}, w);
    history = make({3}, {0, 0, 0});
    ops::update_parameters(context(), step, on_device.get(), weight, gradient, history, none, none);
    for (std::size_t i = 0; i < 3; ++i) expected[i] = w[i] - of.without * (scale * g[i] + 0.25 * w[i]);
    expect_near(values(weight), expected, 20 * epsilon());
  }
}

TEST_P(Update, RunningCosine) {
  ops::DeviceValue<ops::UpdateValues> on_device(device());
  ops::UpdateValues now;
  now.cosine_share = 0.25;
  on_device.write(context(), now);
  Tensor cosine(device(), Shape{1}, DType::f64), products(device(), Shape{3}, DType::f64);
  const auto next = [&](double from, const Values& of) {
    set_values(context(), {from}, cosine);
    set_values(context(), of, products);
    ops::follow_cosine(context(), on_device.get(), products, cosine);
    return values(cosine)[0];
  };
  EXPECT_DOUBLE_EQ(next(0.5, {4, 9, -6}), 0.75 * 0.5 - 0.25);
  EXPECT_DOUBLE_EQ(next(0.5, {4, 9, 3}), 0.75 * 0.5 + 0.25 * 0.5);
  EXPECT_DOUBLE_EQ(next(0.5, {0, 9, 0}), 0.75 * 0.5);
  EXPECT_DOUBLE_EQ(next(0.5, {4, 0, 0}), 0.75 * 0.5);
  now.cosine_share = 0;
  on_device.write(context(), now);
  EXPECT_EQ(next(0.5, {4, 9, -6}), 0.5);
}

TEST_P(Update, Nesterov) {
  check_all_sizes({.rule = UpdateRule::nesterov, .rate = 0.1, .momentum = 0.9}, nesterov);
}

TEST_P(Update, Sag) { check_all_sizes({.rule = UpdateRule::sag, .rate = 0.1, .momentum = 0.9}, sag); }

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

TEST_P(Update, AdamW) {
  Step step{.rule = UpdateRule::adamw, .rate = 0.01, .momentum = 0.9, .momentum2 = 0.999, .delta = 1e-3};
  for (const std::int64_t n : {0, 1, 37, 50001}) {
    step.l2 = 0;
    check(step, adamw, n);
    step.l2 = 0.05;
    step.gradient_scale = 0.25;
    check(step, adamw, n);
  }
}

// The direction is AdamW's step at rate 1; the step that follows it is as long as rate x lr_mult x |w|.
TEST_P(Update, Lamb) {
  const Step step{.rule = UpdateRule::lamb,
                  .gradient_scale = 0.5,
                  .l2 = 0.1,
                  .rate = 0.02,
                  .momentum = 0.9,
                  .momentum2 = 0.99,
                  .delta = 1e-3,
                  .t = 3};
  const Values w{3, 0, -4}, g{0.5, 12, -5}, h{0.1, -0.2, 0.3}, h2{0.01, 0.5, 0.2};
  Step at_rate_one = step;
  at_rate_one.rate = 1;
  Values direction, first, second;
  for (std::size_t i = 0; i < w.size(); ++i) {
    Element e{w[i], h[i], h2[i]};
    adamw(at_rate_one, step.gradient_scale * g[i], e);
    direction.push_back(w[i] - e.w);
    first.push_back(e.h);
    second.push_back(e.h2);
  }
  Tensor weight = make({3}, w), history = make({3}, h), history2 = make({3}, h2), found = empty({3});
  const Tensor gradient = make({3}, g);
  ops::DeviceValue<ops::UpdateValues> on_device(device());
  on_device.write(context(), step.values());
  ops::update_parameters(context(), step.constant(), on_device.get(), weight, gradient, history, history2,
                         found);
  expect_near(values(found), direction, 20 * epsilon());
  expect_near(values(history), first, 20 * epsilon());
  expect_near(values(history2), second, 20 * epsilon());
  expect_near(values(weight), w, 0);
  Tensor squares(device(), Shape{2}, DType::f64);
  for (const double square : {0.25, 0.0}) {  // without a norm the ratio is 1
    set_values(context(), {25, square}, squares);
    weight = make({3}, w);
    ops::follow_direction(context(), 0.25, on_device.get(), squares.data<double>(), found, weight);
    Values expected;
    for (std::size_t i = 0; i < w.size(); ++i)
      expected.push_back(w[i] - step.rate * (square == 0 ? 1 : 10) * direction[i]);
    expect_near(values(weight), expected, 20 * epsilon());
  }
}

TEST_P(Update, OneHistoryIsEnoughForMostRules) {
  Tensor weight = make({2}, {1, 2}), history = make({2}, {0, 0}), none;
  const Tensor gradient = make({2}, {1, -1});
  run({.rule = UpdateRule::sgd, .rate = 0.5}, weight, gradient, history, none);
  expect_near(values(weight), {0.5, 2.5}, 0);
  EXPECT_THROW(run({.rule = UpdateRule::adam}, weight, gradient, history, none), Error);
  context().synchronize();
}

BANYAN_ON_ALL_DEVICES(Update);

}  // namespace
}  // namespace banyan
