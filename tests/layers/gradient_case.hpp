// A layer with one set of settings and the inputs that its gradients are checked with.
#pragma once

#include "layers/gradient_checker.hpp"

namespace banyan::testing {

struct GradientCase {
  std::string name, text;
  std::vector<Shape> inputs;
  int outputs = 1;
  int classes = 0;  ///< > 0: one input holds labels below this
  bool in_place = false;
  int labels = -1;             ///< which one; -1: the last
  double size = 1, shift = 0;  ///< of the values of the other inputs
  Values last_input = {};      ///< if given, the last input's
};
inline void PrintTo(const GradientCase& tested, std::ostream* out) { *out << tested.name; }

/// The case's layer.
inline Bench bench_of(const GradientCase& tested, BenchOptions options = {}) {
  options.in_place = tested.in_place;
  return Bench(tested.text, tested.inputs, tested.outputs, options);
}

/// Gives inputs and learnable parameters the values of the case.
inline void set_values_of(Bench& bench, const GradientCase& tested) {
  const std::size_t labels =
      tested.labels < 0 ? tested.inputs.size() - 1 : static_cast<std::size_t>(tested.labels);
  for (std::size_t i = 0; i < tested.inputs.size(); ++i) {
    const std::int64_t count = tested.inputs[i].count();
    // Sizes 1, 1.1, 1.2: no value of one input equals one of another (a kink of MAX).
    Values values =
        spread_values(count, static_cast<unsigned>(i + 1), tested.size * (1 + 0.1 * static_cast<double>(i)));
    for (double& value : values) value += tested.shift;
    if (tested.classes > 0 && i == labels) values = integers(count, tested.classes, 3);
    if (i + 1 == tested.inputs.size() && !tested.last_input.empty()) values = tested.last_input;
    bench.set_input(i, values);
  }
  for (std::size_t p = 0; p < bench.layer().parameters().size(); ++p)
    if (bench.layer().parameters()[p].kind == ParameterKind::learnable)
      bench.set_parameter(
          p, spread_values(bench.layer().parameters()[p].shape.count(), static_cast<unsigned>(p + 20)));
}

inline void check_gradients(const GradientCase& tested) {
  Bench bench = bench_of(tested);
  set_values_of(bench, tested);
  GradientChecker(bench).run();
}

}  // namespace banyan::testing
