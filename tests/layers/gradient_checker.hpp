// Compares a layer's gradients in f64 with central differences of an arbitrary weighted sum of all its
// outputs.
#pragma once

#include "layers/bench.hpp"

namespace banyan::testing {

struct GradientCheck {
  double step = 1e-5;
  /// Central differences err by step^2 times the third derivative and by 1e-16 / step of rounding: 1e-10 each
  /// for functions of ordinary size; 1e-6 leaves room for steep ones.
  double tolerance = 1e-6;
};

class GradientChecker {
 public:
  explicit GradientChecker(Bench& bench, const GradientCheck& check = {}) : bench_(bench), check_(check) {
    for (std::size_t i = 0; i < bench.inputs.size(); ++i)
      inputs_.push_back(get_values(bench.context(), bench.inputs[i]->data));
    if (bench.layer().traits().chooses_samples) bench.forward();  // the shapes of the outputs
    for (const Blob* output : bench.outputs)
      weights_.push_back(spread_values(output->shape.count(), 91 + static_cast<unsigned>(weights_.size())));
  }

  void run() {
    restore();
    bench_.forward();
    bench_.zero_parameter_gradients();
    bench_.backward(weights_);
    std::vector<Values> input_gradients, parameter_gradients;
    for (std::size_t i = 0; i < inputs_.size(); ++i) input_gradients.push_back(bench_.input_gradient(i));
    for (std::size_t p = 0; p < bench_.layer().parameters().size(); ++p)
      parameter_gradients.push_back(is_learnable(p) ? bench_.parameter_gradient(p) : Values());
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (!bench_.layer().traits().differentiable(static_cast<int>(i))) continue;
      const auto write = [&](const Values& values) { inputs_[i] = values; };
      compare(inputs_[i], write, input_gradients[i], cat("input ", i));
    }
    for (std::size_t p = 0; p < bench_.layer().parameters().size(); ++p) {
      if (!is_learnable(p)) continue;
      const auto write = [&](const Values& values) { bench_.set_parameter(p, values); };
      compare(bench_.parameter(p), write, parameter_gradients[p], cat("parameter ", p));
    }
  }

 private:
  bool is_learnable(std::size_t p) { return bench_.layer().parameters()[p].grad.defined(); }
  void restore() {
    for (std::size_t i = 0; i < inputs_.size(); ++i) bench_.set_input(i, inputs_[i]);
  }
  double objective() {
    restore();
    bench_.forward();
    double sum = 0;
    for (std::size_t o = 0; o < weights_.size(); ++o) {
      const Values values = bench_.output(o);
      for (std::size_t i = 0; i < values.size(); ++i) sum += weights_[o][i] * values[i];
    }
    return sum;
  }
  template <class Write>
  void compare(Values values, Write write, const Values& gradient, const std::string& what) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = values[i];
      values[i] = value + check_.step;
      write(values);
      const double above = objective();
      values[i] = value - check_.step;
      write(values);
      const double below = objective();
      values[i] = value;
      write(values);
      const double expected = (above - below) / (2 * check_.step);
      ASSERT_NEAR(gradient[i], expected, check_.tolerance * std::max(1.0, std::abs(expected)))
          << what << ", element " << i;
    }
  }

  Bench& bench_;
  GradientCheck check_;
  std::vector<Values> weights_, inputs_;
};

}  // namespace banyan::testing
