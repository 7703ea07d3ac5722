// LSTM, Lstm, LSTMUnit, RNN and ContinuationIndicator in ONNX. ONNX's own LSTM and RNN know no `cont`, which
// is an input like any other, so the steps follow each other as nodes, as in Caffe's unrolled nets. The names
// of parameters and inputs are in recurrent_layer.hpp.
#include <algorithm>

#include "layer_export.hpp"

namespace banyan::onnx {
namespace {

/// The states after a step of an LSTM.
struct LstmStep {
  std::string cell, h;
};

/// `gates`: their inputs i, f, o, g, 1 x N x 4D; `cont`: 1 x N x 1; `before`: the cell before the step.
LstmStep lstm_step(const LayerExport& layer, const std::string& gates, const std::string& cont,
                   const std::string& before, std::int64_t d) {
  const Attributes last_axis = {{"axis", std::int64_t{2}}};
  const auto split = [&](const std::string& from, const Integers& lengths, const std::string& what) {
    return layer.graph.steps("Split", {from, layer.graph.integers(layer.inner(what + "_lengths"), lengths)},
                             layer.inner(what), lengths.size(), last_axis);
  };
  const Names parts = split(gates, {3 * d, d}, "gates_and_input");
  const Names open = split(layer.step("Sigmoid", {parts[0]}, "gates"), {d, d, d}, "gate");
  const std::string kept = layer.step("Mul", {layer.step("Mul", {cont, open[1]}, "open"), before}, "kept");
  const std::string added = layer.step("Mul", {open[0], layer.step("Tanh", {parts[1]}, "input")}, "added");
  LstmStep made;
  made.cell = layer.step("Add", {kept, added}, "cell");
  made.h = layer.step("Mul", {open[2], layer.step("Tanh", {made.cell}, "squashed")}, "h");
  return made;
}

/// What LSTM, Lstm and RNN have in common.
class Recurrence {
 public:
  Recurrence(const LayerExport& layer, std::size_t states)
      : layer_(layer),
        s_(layer.settings().recurrent_param()),
        steps_(layer.inputs[0]->shape[0]),
        n_(layer.inputs[0]->shape[1]),
        d_(s_.num_output()),
        static_(layer.in.size() > 2 + (s_.expose_hidden() ? states : 0)) {
    begin(states, static_ ? 3 : 2);
  }
  /// Of an Lstm: outputs are like `outputs`.
  Recurrence(const LayerExport& layer, const caffe::LstmParameter& settings, const Shape& outputs)
      : layer_(layer),
        s_(caffe::RecurrentParameter::default_instance()),
        n_(outputs.axes() == 3 ? outputs[1] : std::max<std::int64_t>(settings.batch_size(), 1)),
        d_(settings.num_output()),
        static_(false),
        marked_(layer.in.size() > 1),
        bias_(2) {
    steps_ = outputs.count() / (n_ * d_);
    begin(2, 1);
  }

  std::int64_t steps() const { return steps_; }
  std::int64_t d() const { return d_; }
  /// Place of the derived layer's first parameter.
  std::size_t own_parameters() const { return static_ ? 4 : 3; }
  std::string& state(std::size_t k) { return states_[k]; }
  const std::string& cont(std::int64_t t) const { return cont_[static_cast<std::size_t>(t)]; }

  /// W_x x + b + W_static x_static + W_h (cont h).
  std::string gates(std::int64_t t) {
    const std::string h = layer_.step("Mul", {states_[0], cont(t)}, "h_kept");
    return layer_.step(
        "Add", {from_inputs_[static_cast<std::size_t>(t)], layer_.step("MatMul", {h, hidden_}, "from_h")},
        "gates_at");
  }

  /// The states after the last step, which are those before the first one in the next pass.
  void finish() {
    if (!marked_) return;
    for (std::size_t k = 0; k < states_.size(); ++k) {
      if (s_.expose_hidden()) {
        layer_.graph.node("Identity", {states_[k]}, {layer_.out[1 + k]});
      } else {
        const std::string after = layer_.step("Identity", {states_[k]}, cat(kStates[k], "_after"));
        layer_.graph.output(after, Shape{1, n_, d_});
      }
    }
  }

 private:
  static constexpr const char* kStates[] = {"h", "c"};

  void begin(std::size_t states, std::size_t hidden_weights) {
    project_inputs();
    const Shape marks{steps_, n_, 1};
    const std::string cont =
        marked_ ? layer_.reshaped(layer_.in[1], marks.dims(), "cont") : constant("continues", marks, 1);
    cont_ = layer_.rows_of(cont, steps_, "cont_at");
    hidden_ = layer_.step("Transpose", {layer_.parameter(hidden_weights)}, "hidden_weights",
                          {{"perm", Integers{1, 0}}});
    const Shape state{1, n_, d_};
    for (std::size_t k = 0; k < states; ++k)
      states_.push_back(!marked_             ? constant(cat(kStates[k], "_before"), state, 0)
                        : s_.expose_hidden() ? layer_.in[2 + (static_ ? 1 : 0) + k]
                                             : layer_.graph.optional_input(before(k), state));
  }
  std::string constant(const std::string& name, const Shape& shape, double value) const {
    const std::vector<double> values(static_cast<std::size_t>(shape.count()), value);
    return layer_.graph.constant(layer_.inner(name), shape, values);
  }

  std::string before(std::size_t k) const { return layer_.inner(cat(kStates[k], "_before")); }

  void project_inputs() {
    const std::int64_t width = layer_.shape(0)[0];
    const Attributes transposed = {{"transB", std::int64_t{1}}};
    const std::string x = layer_.reshaped(layer_.in[0], {steps_ * n_, layer_.shape(0)[1]}, "x");
    std::string all =
        layer_.step("Gemm", {x, layer_.parameter(0), layer_.parameter(bias_)}, "products", transposed);
    all = layer_.reshaped(all, {steps_, n_, width}, "from_inputs");
    if (static_) {
      const std::string same = layer_.reshaped(layer_.in[2], {n_, layer_.shape(2)[1]}, "static");
      all = layer_.step("Add",
                        {all, layer_.step("Gemm", {same, layer_.parameter(2)}, "from_static", transposed)},
                        "with_static");
    }
    from_inputs_ = layer_.rows_of(all, steps_, "from_input_at");
  }

  const LayerExport& layer_;
  const caffe::RecurrentParameter& s_;
  std::int64_t steps_ = 0, n_, d_;
  bool static_, marked_ = true;
  std::size_t bias_ = 1;  ///< place among the parameters
  std::string hidden_;    ///< W_h, transposed
  Names from_inputs_, cont_, states_;
};

/// The outputs of all steps: T x N x D.
Names lstm_steps(const LayerExport& layer, Recurrence& recurrence) {
  Names outputs;
  for (std::int64_t t = 0; t < recurrence.steps(); ++t) {
    const LstmStep made =
        lstm_step(layer, recurrence.gates(t), recurrence.cont(t), recurrence.state(1), recurrence.d());
    outputs.push_back(recurrence.state(0) = made.h);
    recurrence.state(1) = made.cell;
  }
  return outputs;
}

void export_lstm(const LayerExport& layer) {
  Recurrence recurrence(layer, 2);
  layer.node("Concat", lstm_steps(layer, recurrence), {{"axis", std::int64_t{0}}});
  recurrence.finish();
}

void export_lstm_of_oh(const LayerExport& layer) {
  const Shape& shape = layer.outputs[0]->shape;
  Recurrence recurrence(layer, layer.settings().lstm_param(), shape);
  const Names steps = lstm_steps(layer, recurrence);
  const Attributes first_axis = {{"axis", std::int64_t{0}}};
  if (shape.axes() == 3)
    layer.node("Concat", steps, first_axis);
  else
    layer.node("Identity",
               {layer.reshaped(layer.step("Concat", steps, "steps", first_axis), shape.dims(), "rows")});
  recurrence.finish();
}

void export_rnn(const LayerExport& layer) {
  Recurrence recurrence(layer, 1);
  Names states;
  for (std::int64_t t = 0; t < recurrence.steps(); ++t)
    states.push_back(recurrence.state(0) = layer.step("Tanh", {recurrence.gates(t)}, "h"));
  const std::size_t own = recurrence.own_parameters();
  const std::string all = layer.reshaped(layer.step("Concat", states, "states", {{"axis", std::int64_t{0}}}),
                                         {-1, recurrence.d()}, "rows");
  const std::string product = layer.step("Gemm", {all, layer.parameter(own), layer.parameter(own + 1)},
                                         "outputs", {{"transB", std::int64_t{1}}});
  layer.node("Tanh", {layer.reshaped(product, layer.outputs[0]->shape.dims(), "in_time")});
  recurrence.finish();
}

void export_lstm_unit(const LayerExport& layer) {
  const Shape& cell = layer.outputs[0]->shape;
  const std::string cont = layer.reshaped(layer.in[2], {cell[0], cell[1], 1}, "cont");
  const LstmStep made = lstm_step(layer, layer.in[1], cont, layer.in[0], cell[2]);
  layer.graph.node("Identity", {made.cell}, {layer.out[0]});
  layer.graph.node("Identity", {made.h}, {layer.out[1]});
}

void export_continuation(const LayerExport& layer) {
  const Shape& shape = layer.outputs[0]->shape;
  std::vector<double> marks(static_cast<std::size_t>(shape.count()), 1);
  std::fill_n(marks.begin(), shape[1], 0);
  layer.node("Identity", {layer.graph.constant(layer.inner("marks"), shape, marks)});
}

}  // namespace

const std::vector<ExportRow>& recurrent_exports() {
  static const std::vector<ExportRow> rows = {{"ContinuationIndicator", export_continuation},
                                              {"LSTM", export_lstm},
                                              {"LSTMUnit", export_lstm_unit},
                                              {"Lstm", export_lstm_of_oh},
                                              {"RNN", export_rnn}};
  return rows;
}

}  // namespace banyan::onnx
