// LSTM, RNN, LSTMUnit and Lstm: values against loops over steps and sequences, gradients, what goes from pass
// to pass, what is refused.
#include "layers/gradient_checker.hpp"

namespace banyan::testing {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// T steps of N sequences: x of I values, x_static of S (0: none), states of D.
struct Sizes {
  std::int64_t t = 4, n = 3, i = 5, s = 0, d = 2;
};

std::string text_of(const std::string& type, const Sizes& sizes, const std::string& more = "") {
  return cat("type: '", type, "' recurrent_param { num_output: ", sizes.d, " ", more, " }");
}

std::vector<Shape> shapes_of(const Sizes& sizes, int exposed = 0) {
  std::vector<Shape> shapes{{sizes.t, sizes.n, sizes.i}, {sizes.t, sizes.n}};
  if (sizes.s > 0) shapes.push_back({sizes.n, sizes.s});
  for (int k = 0; k < exposed; ++k) shapes.push_back({1, sizes.n, sizes.d});
  return shapes;
}

/// Some sequences begin at the first step, others in the middle, others continue what was before.
Values continues(const Sizes& sizes, unsigned seed = 1) {
  Values cont(static_cast<std::size_t>(sizes.t * sizes.n), 1);
  std::mt19937 random(seed);
  for (double& value : cont) value = random() % 3 == 0 ? 0 : 1;
  cont[0] = 1;
  return cont;
}

void fill_in(Bench& bench, const Values& cont) {
  for (std::size_t i = 0; i < bench.inputs.size(); ++i)
    bench.set_input(
        i, i == 1 ? cont : spread_values(bench.inputs[i]->shape.count(), static_cast<unsigned>(i + 1)));
  for (std::size_t p = 0; p < bench.layer().parameters().size(); ++p)
    bench.set_parameter(
        p, spread_values(bench.layer().parameters()[p].shape.count(), static_cast<unsigned>(p + 20)));
}

/// rows(a)_r . x, for a row-major matrix with rows as long as x.
double product(const Values& a, std::int64_t row, const double* x, std::int64_t length) {
  double sum = 0;
  for (std::int64_t i = 0; i < length; ++i) sum += a[static_cast<std::size_t>(row * length + i)] * x[i];
  return sum;
}

/// The formulas, sequence by sequence. `states`: h (and c) of N x D each, replaced by those after the last
/// step. Returns the output.
Values naive(Bench& bench, bool lstm, const Sizes& z, const Values& x, const Values& cont,
             const Values& fixed, std::vector<Values>& states) {
  std::vector<Values> p;
  for (std::size_t i = 0; i < bench.layer().parameters().size(); ++i) p.push_back(bench.parameter(i));
  const Values& hidden = p[z.s > 0 ? 3 : 2];
  const std::size_t own = z.s > 0 ? 4 : 3;
  const std::int64_t width = (lstm ? 4 : 1) * z.d;
  Values output(static_cast<std::size_t>(z.t * z.n * z.d));
  for (std::int64_t n = 0; n < z.n; ++n)
    for (std::int64_t t = 0; t < z.t; ++t) {
      const std::int64_t at = t * z.n + n;
      double* h = &states[0][static_cast<std::size_t>(n * z.d)];
      Values conted(h, h + z.d), gates;
      for (double& value : conted) value *= cont[static_cast<std::size_t>(at)];
      for (std::int64_t g = 0; g < width; ++g)
        gates.push_back(product(p[0], g, &x[static_cast<std::size_t>(at * z.i)], z.i) +
                        p[1][static_cast<std::size_t>(g)] + product(hidden, g, conted.data(), z.d) +
                        (z.s > 0 ? product(p[2], g, &fixed[static_cast<std::size_t>(n * z.s)], z.s) : 0));
      for (std::int64_t d = 0; d < z.d; ++d) {
        if (!lstm) {
          h[d] = std::tanh(gates[static_cast<std::size_t>(d)]);
          continue;
        }
        const auto gate = [&](int k) { return gates[static_cast<std::size_t>(k * z.d + d)]; };
        double& c = states[1][static_cast<std::size_t>(n * z.d + d)];
        c = cont[static_cast<std::size_t>(at)] * sigmoid(gate(1)) * c + sigmoid(gate(0)) * std::tanh(gate(3));
        h[d] = sigmoid(gate(2)) * std::tanh(c);
      }
      for (std::int64_t d = 0; d < z.d; ++d)
        output[static_cast<std::size_t>(at * z.d + d)] =
            lstm ? h[d] : std::tanh(product(p[own], d, h, z.d) + p[own + 1][static_cast<std::size_t>(d)]);
    }
  return output;
}

struct Case {
  std::string name;
  bool lstm = true;
  Sizes sizes;
  bool exposed = false;
};
void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const bool lstm : {true, false})
    for (const bool exposed : {false, true}) {
      const std::string name = cat(lstm ? "lstm" : "rnn", exposed ? "_exposed" : "");
      all.push_back({name, lstm, {}, exposed});
      all.push_back({name + "_static", lstm, {3, 2, 4, 3, 3}, exposed});
      all.push_back({name + "_one_step", lstm, {1, 3, 2, 2, 2}, exposed});
      all.push_back({name + "_one_sequence", lstm, {5, 1, 2, 0, 3}, exposed});
      all.push_back({name + "_single_values", lstm, {2, 1, 1, 1, 1}, exposed});
    }
  return all;
}

class Recurrent : public ::testing::TestWithParam<Case> {
 protected:
  static int states() { return GetParam().lstm ? 2 : 1; }
  static std::unique_ptr<Bench> make(const Sizes& sizes, const BenchOptions& options = {}) {
    const bool exposed = GetParam().exposed;
    return std::make_unique<Bench>(
        text_of(GetParam().lstm ? "LSTM" : "RNN", sizes, exposed ? "expose_hidden: true" : ""),
        shapes_of(sizes, exposed ? states() : 0), exposed ? 1 + states() : 1, options);
  }
};
INSTANTIATE_TEST_SUITE_P(Layers, Recurrent, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(Recurrent, IsItsFormulaPassAfterPass) {
  const Sizes z = GetParam().sizes;
  for (const DType dtype : {DType::f64, DType::f32}) {
    BenchOptions options;
    options.dtype = dtype;
    const auto bench = make(z, options);
    std::vector<Values> expected(static_cast<std::size_t>(states()),
                                 Values(static_cast<std::size_t>(z.n * z.d), 0));
    for (unsigned pass = 1; pass < 4; ++pass) {
      const Values cont = continues(z, pass);
      fill_in(*bench, cont);
      const Values x = spread_values(z.t * z.n * z.i, 50 + pass);
      bench->set_input(0, x);
      const std::size_t first_state = z.s > 0 ? 3 : 2;
      for (std::size_t k = 0; GetParam().exposed && k < expected.size(); ++k)
        bench->set_input(first_state + k, expected[k]);
      const Values fixed = z.s > 0 ? get_values(bench->context(), bench->inputs[2]->data) : Values();
      const Values output = naive(*bench, GetParam().lstm, z, x, cont, fixed, expected);
      bench->forward();
      // Sums of about 10 products, through at most 15 steps.
      const double tolerance = dtype == DType::f64 ? 1e-14 : 3e-6;
      expect_near(bench->output(), output, tolerance, cat("output, pass ", pass));
      for (std::size_t k = 0; GetParam().exposed && k < expected.size(); ++k)
        expect_near(bench->output(1 + k), expected[k], tolerance, cat("state ", k, ", pass ", pass));
    }
  }
}

/// Also of the states before the first step, whether carried over or exposed.
TEST_P(Recurrent, HasTheGradientOfItsFormula) {
  const auto bench = make(GetParam().sizes);
  fill_in(*bench, continues(GetParam().sizes));
  bench->forward();
  bench->pass.update_statistics = false;  // every pass begins where this one ended
  GradientChecker(*bench).run();
}

TEST_P(Recurrent, ComputesTheSameOutputsAgain) {
  const auto bench = make(GetParam().sizes);
  fill_in(*bench, continues(GetParam().sizes));
  bench->forward();
  bench->forward();
  std::vector<Values> before;
  for (std::size_t o = 0; o < bench->outputs.size(); ++o) {
    before.push_back(bench->output(o));
    ops::fill(bench->context(), bench->outputs[o]->data, 9);
  }
  bench->layer().recompute(bench->pass, bench->inputs, bench->outputs);
  for (std::size_t o = 0; o < bench->outputs.size(); ++o) EXPECT_EQ(bench->output(o), before[o]);
  bench->layer().recompute(bench->pass, bench->inputs, bench->outputs);
  EXPECT_EQ(bench->output(), before[0]) << "the second time";
}

TEST_P(Recurrent, TwoPassesAreOneOfTwiceAsManySteps) {
  if (GetParam().exposed) return;
  const Sizes half = GetParam().sizes;
  Sizes whole = half;
  whole.t *= 2;
  const auto long_bench = make(whole), bench = make(half);
  const Values cont = continues(whole);
  fill_in(*long_bench, cont);
  fill_in(*bench, continues(half));
  const Values x = get_values(long_bench->context(), long_bench->inputs[0]->data);
  if (half.s > 0) bench->set_input(2, get_values(long_bench->context(), long_bench->inputs[2]->data));
  long_bench->forward();
  Values both;
  for (const std::int64_t part : {0, 1}) {
    const auto cut = [&](const Values& values) {
      const auto length = std::ssize(values) / 2;
      return Values(values.begin() + part * length, values.begin() + (part + 1) * length);
    };
    bench->set_input(0, cut(x));
    bench->set_input(1, cut(cont));
    bench->forward();
    const Values output = bench->output();
    both.insert(both.end(), output.begin(), output.end());
  }
  expect_near(both, long_bench->output(), 1e-15);
}

/// A device without a share of the batch.
TEST_P(Recurrent, TakesNoSequencesAtAll) {
  Sizes none = GetParam().sizes;
  none.n = 0;
  const auto bench = make(none);
  fill_in(*bench, {});
  bench->forward();
  bench->backward(std::vector<Values>(bench->outputs.size()));
  for (std::size_t p = 0; p < bench->layer().parameters().size(); ++p)
    for (const double value : bench->parameter_gradient(p)) EXPECT_EQ(value, 0);
}

/// Caffe's order and shapes, and the settings of `param` in the same order.
TEST(RecurrentParameters, AreCaffes) {
  using Shapes = std::vector<Shape>;
  const auto shapes = [](const std::string& type, const std::vector<Shape>& inputs) {
    Bench bench(cat("type: '", type,
                    "' param { lr_mult: 1 } param { lr_mult: 2 } param { lr_mult: 3 } recurrent_param { "
                    "num_output: 2 "
                    "weight_filler { value: 4 } bias_filler { value: 5 } }"),
                inputs, 1);
    Shapes found;
    for (const Parameter& p : bench.layer().parameters()) {
      EXPECT_EQ(p.filler.value(), p.shape.axes() == 1 ? 5 : 4);
      EXPECT_EQ(p.lr_mult, found.size() < 3 ? 1 + static_cast<double>(found.size()) : 1);
      found.push_back(p.shape);
    }
    return found;
  };
  const Shape x{4, 3, 5, 2}, cont{4, 3}, fixed{3, 7};
  EXPECT_EQ(shapes("LSTM", {x, cont}), (Shapes{{8, 10}, {8}, {8, 2}}));
  EXPECT_EQ(shapes("LSTM", {x, cont, fixed}), (Shapes{{8, 10}, {8}, {8, 7}, {8, 2}}));
  EXPECT_EQ(shapes("RNN", {x, cont}), (Shapes{{2, 10}, {2}, {2, 2}, {2, 2}, {2}}));
  EXPECT_EQ(shapes("RNN", {x, cont, fixed}), (Shapes{{2, 10}, {2}, {2, 7}, {2, 2}, {2, 2}, {2}}));
}

const Sizes kSizes;

TEST(CarriedState, IsNotTouchedByPassesThatLeaveNoTrace) {
  Bench bench(text_of("LSTM", kSizes), shapes_of(kSizes), 1);
  fill_in(bench, Values(12, 1));
  bench.forward();
  bench.pass.update_statistics = false;
  bench.forward();
  const Values second = bench.output();
  bench.forward();
  EXPECT_EQ(bench.output(), second);
  bench.pass.update_statistics = true;
  bench.forward();
  EXPECT_EQ(bench.output(), second);
  bench.forward();
  EXPECT_NE(bench.output(), second);
}

/// Test nets carry it as well, though their passes change nothing else.
TEST(CarriedState, GoesOnInTests) {
  BenchOptions options;
  options.phase = Phase::test;
  Bench bench(text_of("RNN", kSizes), shapes_of(kSizes), 1, options);
  fill_in(bench, Values(12, 1));
  bench.pass.update_statistics = false;
  bench.forward();
  const Values first = bench.output();
  bench.forward();
  EXPECT_NE(bench.output(), first);
}

/// An epoch's last batch has fewer sequences: the first of them go on, the others begin with zeros.
TEST(CarriedState, KeepsTheFirstSequencesWhenTheirNumberChanges) {
  Sizes fewer = kSizes;
  fewer.n = 2;
  const auto reshaped = [](Bench& bench, const Sizes& sizes) {
    bench.reshape(shapes_of(sizes));
    fill_in(bench, Values(static_cast<std::size_t>(sizes.t * sizes.n), 1));
    bench.forward();
    return bench.output();
  };
  for (const std::int64_t kept : {2, 0}) {
    Bench bench(text_of("LSTM", kSizes), shapes_of(kSizes), 1),
        exposed(text_of("LSTM", kSizes, "expose_hidden: true"), shapes_of(kSizes, 2), 3);
    reshaped(bench, kSizes);
    fewer.n = kept;
    reshaped(bench, fewer);
    std::vector<Values> states;
    for (Tensor* state : bench.layer().carried()) {
      states.push_back(get_values(bench.context(), *state));
      ASSERT_EQ(std::ssize(states.back()), kept * kSizes.d);
      states.back().resize(static_cast<std::size_t>(kSizes.n * kSizes.d), 0);
    }
    fill_in(exposed, Values(12, 1));
    exposed.set_input(2, states[0]);
    exposed.set_input(3, states[1]);
    exposed.forward();
    EXPECT_EQ(reshaped(bench, kSizes), exposed.output()) << kept;
  }
  EXPECT_TRUE(Bench(text_of("LSTM", kSizes, "expose_hidden: true"), shapes_of(kSizes, 2), 3)
                  .layer()
                  .carried()
                  .empty());
}

TEST(CarriedState, CannotGoFromDeviceToDeviceInTests) {
  BenchOptions options;
  options.phase = Phase::test;
  options.devices = 2;
  Bench bench(text_of("LSTM", kSizes), shapes_of(kSizes), 1, options);
  Values cont(12, 1);
  cont[0] = cont[1] = cont[2] = 0;
  fill_in(bench, cont);
  bench.forward();
  bench.layer().check_results(bench.context());
  cont[1] = 1;
  bench.set_input(1, cont);
  bench.forward();
  try {
    bench.layer().check_results(bench.context());
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("2 devices take turns"), std::string::npos) << error.message();
  }
  bench.layer().check_results(bench.context());  // said once
}

TEST(RecurrentRefusals, NameInputAndShape) {
  const std::string lstm = "type: 'LSTM' recurrent_param { num_output: 2 }",
                    exposing = "type: 'RNN' recurrent_param { num_output: 2 expose_hidden: true }";
  const auto expect = [](const std::string& text, const std::vector<Shape>& inputs, const std::string& part) {
    EXPECT_NE(refusal(text, inputs).find(part), std::string::npos) << refusal(text, inputs);
  };
  const Shape x{4, 3, 5}, cont{4, 3};
  expect("type: 'RNN'", {x, cont}, "num_output is missing");
  expect(lstm, {Shape{4, 3}, cont}, "at least 3 axes");
  expect(lstm, {x, Shape{3, 4}}, "expected 4 3 (12): cont, whether a sequence continues");
  expect(lstm, {x, cont, Shape{4, 3}}, "static input (x_static) \"input2\"");
  expect(lstm, {x, cont, Shape{3}}, "static input (x_static) \"input2\"");
  expect(exposing, {x, cont, Shape{3, 2}}, "expected 1 3 2 (6): h_0, the state before");
  expect("type: 'LSTMUnit'", {Shape{1, 3, 2}, Shape{1, 3, 6}, Shape{1, 3}}, "1 x N x 4D");
  expect("type: 'LSTMUnit'", {Shape{1, 3, 2}, Shape{1, 3, 8}, Shape{3}}, "1 x N x 4D");
  Bench bench(lstm, {x, cont}, 1);
  EXPECT_THROW(bench.reshape({Shape{4, 3, 6}, cont}), Error);
  bench.reshape({Shape{2, 3, 5}, Shape{2, 3}});  // another number of steps is fine
}

TEST(LstmUnit, HasTheGradientOfItsFormula) {
  for (const std::int64_t t : {1, 3}) {
    Bench bench("type: 'LSTMUnit'", {Shape{t, 3, 2}, Shape{t, 3, 8}, Shape{t, 3}}, 2);
    fill_in(bench, spread_values(t * 3 * 8, 5));
    bench.set_input(2, continues({t, 3, 0, 0, 0}));
    GradientChecker(bench).run();
  }
}

/// One step of LSTM without input is LSTMUnit on the biases.
TEST(LstmUnit, IsAStepOfLstm) {
  Sizes z = kSizes;
  z.t = 1;
  Bench lstm(text_of("LSTM", z, "expose_hidden: true"), shapes_of(z, 2), 3);
  fill_in(lstm, {1, 0, 1});
  lstm.set_input(0, Values(15, 0));
  lstm.set_input(2, Values(6, 0));
  Bench unit("type: 'LSTMUnit'", {Shape{1, 3, 2}, Shape{1, 3, 8}, Shape{1, 3}}, 2);
  Values gates;
  for (int n = 0; n < 3; ++n) {
    const Values bias = lstm.parameter(1);
    gates.insert(gates.end(), bias.begin(), bias.end());
  }
  unit.set_input(0, get_values(lstm.context(), lstm.inputs[3]->data));
  unit.set_input(1, gates);
  unit.set_input(2, {1, 0, 1});
  lstm.forward();
  unit.forward();
  EXPECT_EQ(unit.output(0), lstm.output(2));
  EXPECT_EQ(unit.output(1), lstm.output(0));
}

/// Junhyuk Oh's: the same with other parameters, in another order.
std::string lstm_of_oh(const Sizes& sizes, const std::string& more = "") {
  return cat("type: 'Lstm' lstm_param { num_output: ", sizes.d, " ", more, " }");
}

/// Of places 0, 1, 2 in Lstm, those in LSTM.
constexpr std::size_t kPlacesInLstm[] = {0, 2, 1};

/// Without marks it is LSTM whose sequences begin with a pass; with marks it is LSTM, pass after pass.
TEST(LstmOfOh, IsLstmWithTheSameWeights) {
  for (const bool marked : {false, true}) {
    Bench lstm(text_of("LSTM", kSizes), shapes_of(kSizes), 1);
    std::vector<Shape> shapes = shapes_of(kSizes);
    if (!marked) shapes.pop_back();
    Bench bench(lstm_of_oh(kSizes), shapes, 1);
    Values cont = continues(kSizes);
    if (!marked) {
      cont.assign(cont.size(), 1);
      std::fill_n(cont.begin(), kSizes.n, 0);
    }
    fill_in(lstm, cont);
    fill_in(bench, cont);
    for (std::size_t p = 0; p < 3; ++p) bench.set_parameter(p, lstm.parameter(kPlacesInLstm[p]));
    for (unsigned pass = 0; pass < 3; ++pass) {
      const Values x = spread_values(60, 30 + pass), dy = spread_values(24, 40 + pass);
      for (Bench* each : {&lstm, &bench}) {
        each->set_input(0, x);
        each->forward();
        each->zero_parameter_gradients();
        each->backward(dy);
      }
      EXPECT_EQ(bench.output(), lstm.output()) << marked << ", pass " << pass;
      EXPECT_EQ(bench.input_gradient(), lstm.input_gradient());
      for (std::size_t p = 0; p < 3; ++p)
        EXPECT_EQ(bench.parameter_gradient(p), lstm.parameter_gradient(kPlacesInLstm[p])) << p;
    }
    EXPECT_EQ(bench.layer().carried().size(), marked ? 2u : 0u);
  }
}

TEST(LstmOfOh, HasTheGradientOfItsFormula) {
  struct Form {
    std::string more;
    std::vector<Shape> shapes;
  };
  const std::vector<Form> forms = {{"", {Shape{4, 3, 5}}},
                                   {"", {Shape{4, 3, 5}, Shape{4, 3}}},
                                   {"", {Shape{4, 3, 5}, Shape{12}}},
                                   {"", {Shape{4, 5}}},
                                   {"batch_size: 3", {Shape{12, 5, 1, 1}, Shape{12, 1}}},
                                   {"clipping_threshold: 1000", {Shape{4, 3, 5}}}};
  for (const Form& form : forms) {
    Bench bench(lstm_of_oh(kSizes, form.more), form.shapes, 1);
    Sizes marks = kSizes;
    if (form.shapes.size() > 1) marks.n = form.shapes[1].count() / marks.t;
    fill_in(bench, continues(marks));
    bench.forward();
    bench.pass.update_statistics = false;
    GradientChecker(bench).run();
  }
}

/// Steps and sequences in one axis: the same values in the same order.
TEST(LstmOfOh, MayHaveOneAxisOfStepsAndSequences) {
  Bench apart(lstm_of_oh(kSizes), {Shape{4, 3, 5}}, 1),
      joined(lstm_of_oh(kSizes, "batch_size: 3"), {Shape{12, 5}}, 1),
      alone(lstm_of_oh(kSizes), {Shape{12, 5}}, 1), one(lstm_of_oh(kSizes), {Shape{12, 1, 5}}, 1);
  for (Bench* each : {&apart, &joined, &alone, &one}) {
    fill_in(*each, {});
    each->forward();
  }
  EXPECT_EQ(apart.outputs[0]->shape, (Shape{4, 3, 2}));
  EXPECT_EQ(joined.outputs[0]->shape, (Shape{12, 2}));
  EXPECT_EQ(alone.outputs[0]->shape, (Shape{12, 2}));
  EXPECT_EQ(joined.output(), apart.output());
  EXPECT_EQ(alone.output(), one.output());
  EXPECT_NE(alone.output(), joined.output());
  joined.reshape({Shape{6, 5}});
  EXPECT_EQ(joined.outputs[0]->shape, (Shape{6, 2}));
}

TEST(LstmOfOh, BeginsEachPassAnewWithoutMarks) {
  Bench bench(lstm_of_oh(kSizes), {Shape{4, 3, 5}}, 1);
  fill_in(bench, {});
  bench.forward();
  const Values first = bench.output();
  bench.forward();
  EXPECT_EQ(bench.output(), first);
  ops::fill(bench.context(), bench.outputs[0]->data, 9);
  bench.layer().recompute(bench.pass, bench.inputs, bench.outputs);
  EXPECT_EQ(bench.output(), first);
}

/// Two steps of one cell, by hand: what goes on to the step before, too, comes from gradients within the
/// bound.
TEST(LstmOfOh, HoldsTheGradientsOfGatesWithinTheBound) {
  constexpr double kBound = 0.0625;
  const Sizes z{2, 1, 1, 0, 1};
  Bench bench(lstm_of_oh(z, cat("clipping_threshold: ", kBound)), {Shape{2, 1, 1}}, 1);
  const Values x{0.7, -0.4}, w{0.5, -0.3, 0.8, 1.1}, u{0.9, 0.6, -0.7, 0.4}, b{0.1, 0.2, -0.1, 0.3},
      dy{2, -3};
  bench.set_input(0, x);
  bench.set_parameter(0, w);
  bench.set_parameter(1, u);
  bench.set_parameter(2, b);
  bench.forward();
  bench.zero_parameter_gradients();
  bench.backward(dy);
  double gate[2][4], c[2], h[2], c_before = 0, h_before = 0;
  for (int t = 0; t < 2; ++t) {
    for (int k = 0; k < 4; ++k) {
      const double sum = w[k] * x[t] + u[k] * h_before + b[k];
      gate[t][k] = k < 3 ? sigmoid(sum) : std::tanh(sum);
    }
    c_before = c[t] = gate[t][1] * c_before + gate[t][0] * gate[t][3];
    h_before = h[t] = gate[t][2] * std::tanh(c[t]);
  }
  expect_near(bench.output(), {h[0], h[1]}, 1e-15);
  Values dw(4, 0), du(4, 0), db(4, 0), dx(2, 0);
  double dc = 0, dh = 0;
  int held = 0;
  for (int t = 1; t >= 0; --t) {
    const double i = gate[t][0], f = gate[t][1], o = gate[t][2], g = gate[t][3], squashed = std::tanh(c[t]);
    dh += dy[static_cast<std::size_t>(t)];
    dc += dh * o * (1 - squashed * squashed);
    const double d[4] = {dc * g * i * (1 - i), t > 0 ? dc * c[0] * f * (1 - f) : 0,
                         dh * squashed * o * (1 - o), dc * i * (1 - g * g)};
    dh = 0;
    dc *= f;
    for (std::size_t k = 0; k < 4; ++k) {
      const double within = std::clamp(d[k], -kBound, kBound);
      held += within != d[k] ? 1 : 0;
      dw[k] += within * x[static_cast<std::size_t>(t)];
      du[k] += t > 0 ? within * h[0] : 0;
      db[k] += within;
      dx[static_cast<std::size_t>(t)] += within * w[k];
      dh += within * u[k];
    }
  }
  EXPECT_GE(held, 3);
  EXPECT_LE(held, 6);  // of seven that are not 0
  expect_near(bench.parameter_gradient(0), dw, 1e-15);
  expect_near(bench.parameter_gradient(1), du, 1e-15);
  expect_near(bench.parameter_gradient(2), db, 1e-15);
  expect_near(bench.input_gradient(), dx, 1e-15);
}

/// Blobs as in the branch's files: W_x, W_h, b; `param` in the same order.
TEST(LstmOfOh, HasTheParametersOfTheBranch) {
  Bench bench(
      "type: 'Lstm' param { lr_mult: 1 } param { lr_mult: 2 } param { lr_mult: 3 } lstm_param { num_output: "
      "2 "
      "weight_filler { value: 4 } bias_filler { value: 5 } }",
      {Shape{4, 3, 5, 2}}, 1);
  const std::vector<Shape> shapes{{8, 10}, {8, 2}, {8}};
  ASSERT_EQ(bench.layer().parameters().size(), 3u);
  for (std::size_t p = 0; p < 3; ++p) {
    EXPECT_EQ(bench.layer().parameters()[p].shape, shapes[p]);
    EXPECT_EQ(bench.layer().parameters()[p].lr_mult, 1 + static_cast<double>(p));
    EXPECT_EQ(bench.layer().parameters()[p].filler.value(), p == 2 ? 5 : 4);
  }
}

TEST(LstmOfOh, RefusesWhatDoesNotFit) {
  const auto expect = [](const std::string& more, const std::vector<Shape>& inputs, const std::string& part) {
    const std::string text = "type: 'Lstm' lstm_param { " + more + " }";
    EXPECT_NE(refusal(text, inputs).find(part), std::string::npos) << refusal(text, inputs);
  };
  expect("", {Shape{4, 3, 5}}, "num_output is missing");
  expect("num_output: 2", {Shape{4}}, "at least 3 axes");
  expect("num_output: 2", {Shape{4, 3, 5}, Shape{4}}, "expected 12 values: whether a sequence continues");
  expect("num_output: 2 batch_size: 3", {Shape{4, 5}}, "no multiple of lstm_param.batch_size, which is 3");
  expect("num_output: 2 batch_size: 0", {Shape{4, 5}}, "batch_size must be positive");
}

}  // namespace
}  // namespace banyan::testing
