#include "layers/recurrent_layer.hpp"

#include <algorithm>

#include "banyan/base/log.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"

namespace banyan {
namespace {

LayerTraits traits_of(const RecurrentForm& form, int states) {
  if (!form.needs_cont) return {.arity = {1, 2, 1, 1}, .constant_input = 1};
  const int exposed = form.settings.expose_hidden() ? states : 0;
  return {.arity = {2 + exposed, 3 + exposed, 1 + exposed, 1 + exposed}, .constant_input = 1};
}

}  // namespace

RecurrentLayer::RecurrentLayer(const caffe::LayerParameter& parameter, const LayerOptions& options,
                               int states, int gates, const RecurrentForm& form)
    : Layer(parameter, options, traits_of(form, states)),
      d_(form.settings.num_output()),
      states_(states),
      dstates_(states),
      form_(form),
      width_(gates * d_),
      initial_(states),
      carried_(states) {}

void RecurrentLayer::read_settings() { require_num_output(settings().has_num_output(), d_); }

void RecurrentLayer::setup(const Blobs& inputs, const Blobs&) {
  if (settings().debug_info() && options().rank == 0)
    log_warning(cat("layer ", quoted(name()), " (", type(),
                    "): recurrent_param.debug_info has no effect, as there is no unrolled net; the solver's "
                    "debug_info shows the layer"));
  marked_ = inputs.size() > 1;
  static_ = static_cast<int>(inputs.size()) > 2 + (exposed() ? state_count() : 0);
  read_shapes(inputs);
  if (joined_ && options().devices > 1 && options().rank == 0 && options().net_phase == Phase::train)
    log_warning(
        cat("layer ", quoted(name()), " (", type(),
            "): axis 0 of its input joins time steps and sequences; where a data layer makes it, each device "
            "gets a "
            "part of the steps, and results are not those of one device: bring N x T x ..., and Permute"));
  declare(Shape{width_, x_size_}, settings().weight_filler());
  if (!form_.bias_last) declare(Shape{width_}, settings().bias_filler());
  if (static_) declare(Shape{width_, s_size_}, settings().weight_filler());
  declare(Shape{width_, d_}, settings().weight_filler());
  if (form_.bias_last) declare(Shape{width_}, settings().bias_filler());
}

void RecurrentLayer::expect(const Blob& input, const Shape& shape, const char* what) const {
  if (!(input.shape == shape))
    refuse("input ", quoted(input.name), " has the shape ", input.shape.to_string(), "; expected ",
           shape.to_string(), ": ", what);
}

void RecurrentLayer::read_steps(const Blob& input) {
  const Shape& x = input.shape;
  joined_ = form_.joins_axes && x.axes() >= 2 && (form_.sequences > 0 || x.axes() == 2);
  if (!joined_ && x.axes() < 3)
    refuse("input ", quoted(input.name), " has the shape ", x.to_string(),
           "; expected at least 3 axes: time steps x sequences x values");
  n_ = !joined_ ? x[1] : std::max<std::int64_t>(form_.sequences, 1);
  t_ = !joined_ ? x[0] : x[0] / n_;
  x_size_ = x.count(joined_ ? 1 : 2);
  if (joined_ && x[0] % n_ != 0)
    refuse("input ", quoted(input.name), " has the shape ", x.to_string(),
           "; its first axis is no multiple of lstm_param.batch_size, which is ", n_);
}

void RecurrentLayer::read_shapes(const Blobs& inputs) {
  read_steps(*inputs[0]);
  const Shape steps{t_, n_};
  if (!form_.joins_axes)
    expect(*inputs[1], steps, "cont, whether a sequence continues, time steps x sequences");
  else if (marked_ && inputs[1]->shape.count() != steps.count())
    refuse("input ", quoted(inputs[1]->name), " has the shape ", inputs[1]->shape.to_string(), "; expected ",
           steps.count(), " values: whether a sequence continues, time steps x sequences");
  if (static_) {
    const Shape& s = inputs[2]->shape;
    if (s.axes() < 2 || s[0] != n_)
      refuse("the static input (x_static) ", quoted(inputs[2]->name), " has the shape ", s.to_string(),
             "; expected sequences x values with ", n_, " sequences");
    s_size_ = s.count(1);
  }
  for (int k = 0; exposed() && k < state_count(); ++k)
    expect(*inputs[state_input(k)], Shape{1, n_, d_},
           k == 0 ? "h_0, the state before the first step" : "c_0, the cell's state before the first step");
}

void RecurrentLayer::reshape(const Blobs& inputs, const Blobs& outputs) {
  read_shapes(inputs);
  const auto check = [&](int input, const Parameter& weights, std::int64_t size) {
    if (weights.shape[1] != size)
      refuse("input ", quoted(inputs[input]->name), " of shape ", inputs[input]->shape.to_string(),
             " does not fit the weights for ", weights.shape[1], " values");
  };
  check(0, parameters_[0], x_size_);
  if (static_) check(2, parameters_[2], s_size_);
  set_output(*outputs[0], joined_ ? Shape{rows(), d_} : per_step());
  for (std::size_t o = 1; o < outputs.size(); ++o) set_output(*outputs[o], Shape{1, n_, d_});
}

Tensor RecurrentLayer::state(int k, std::int64_t t) const {
  return t < 0 ? initial_[k] : states_[k].slice(t * n_ * d_, Shape{n_, d_});
}

std::vector<Tensor*> RecurrentLayer::carried() {
  std::vector<Tensor*> all;
  for (Tensor& state : carried_)
    if (!exposed() && marked_) all.push_back(&state);
  return all;
}

/// Where their number changed (a batch cut short at the end of an epoch), sequences keep their places; new
/// ones begin with zeros.
Tensor RecurrentLayer::carried_over(Context& context, int k) {
  Tensor& state = carried_[k];
  if (state.defined() && state.shape()[1] != d_)
    refuse("the carried state that was restored has ", state.shape()[1], " values for each sample, not ", d_);
  if (state.defined() && state.shape()[0] == n_) return state;
  Tensor fitted(context.device(), Shape{n_, d_}, dtype());
  ops::fill(context, fitted, 0);
  if (state.defined()) {
    const Shape kept{std::min(n_, state.shape()[0]), d_};
    Tensor to = fitted.slice(0, kept);
    ops::axpby(context, 1, state.slice(0, kept), 0, to);
    context.synchronize();  // `state` is freed
  }
  state = fitted;
  return state;
}

void RecurrentLayer::take_initial_states(Context& context, const Blobs& inputs) {
  for (int k = 0; k < state_count(); ++k) {
    ensure(context, initial_[k], Shape{n_, d_}, dtype());
    if (!marked_) {
      ops::fill(context, initial_[k], 0);
      continue;
    }
    const Tensor from = exposed() ? inputs[state_input(k)]->data : carried_over(context, k);
    ops::axpby(context, 1, from, 0, initial_[k]);
  }
}

/// Several devices take turns with the batches of a test, so none sees the end of the batch before.
void RecurrentLayer::note_continued(Context& context, const Blobs& inputs) {
  if (options().net_phase != Phase::test || options().devices == 1 || exposed() || !marked_ || rows() == 0)
    return;
  if (!continued_.defined()) {
    ensure(context, continued_, Shape{1}, DType::f64);
    ensure(context, continued_here_, Shape{1}, DType::f64);
    ops::fill(context, continued_, 0);
  }
  ops::absolute_sum(context, cont(inputs, 0), continued_here_);
  ops::axpby(context, 1, continued_here_, 1, continued_);
}

void RecurrentLayer::check_results(Context& context) {
  if (!continued_.defined()) return;
  double sum = 0;
  copy_to_host(context, continued_, &sum);
  ops::fill(context, continued_, 0);
  if (sum != 0)
    refuse("a sequence continues from one test batch to the next (cont is not 0 at the first step), but ",
           options().devices,
           " devices take turns with the batches; test on one device, or begin all sequences with a batch");
}

void RecurrentLayer::forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
  Context& context = *pass.context;
  note_continued(context, inputs);
  take_initial_states(context, inputs);
  run(context, inputs, outputs, pass.update_statistics || options().net_phase == Phase::test);
}

void RecurrentLayer::recompute(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
  run(*pass.context, inputs, outputs, false);
}

void RecurrentLayer::project_inputs(Context& context, const Blobs& inputs) {
  ensure(context, gates_, Shape{t_, n_, width_}, dtype());
  ops::gemm(context, {false, true, rows(), width_, x_size_}, 1, inputs[0]->data, parameters_[0].value, 0,
            gates_);
  const Tensor& added = bias().value;
  if (!static_) return ops::scale_bias(context, gates_, none_, added, {rows(), width_, 1}, {}, gates_);
  ensure(context, from_static_, Shape{n_, width_}, dtype());
  ops::gemm(context, {false, true, n_, width_, s_size_}, 1, inputs[2]->data, parameters_[2].value, 0,
            from_static_);
  ops::scale_bias(context, from_static_, none_, added, {n_, width_, 1}, {}, from_static_);
  ops::scale_bias(context, gates_, none_, from_static_, {t_, n_ * width_, 1}, {}, gates_);
}

void RecurrentLayer::run(Context& context, const Blobs& inputs, const Blobs& outputs, bool leaves_trace) {
  project_inputs(context, inputs);
  ensure(context, conted_, per_step(), dtype());
  if (!marked_) {
    ensure(context, ones_, Shape{t_, n_}, dtype());
    ops::fill(context, ones_, 1);
  }
  begin(context, outputs);
  for (std::int64_t t = 0; t < t_; ++t) {
    const Tensor kept = cont(inputs, t);
    Tensor conted = conted_.slice(t * n_ * d_, Shape{n_, d_}), to = gates(t);
    ops::scale_bias(context, state(0, t - 1), kept, none_, {1, n_, d_}, {}, conted);
    ops::gemm(context, {false, true, n_, width_, d_}, 1, conted, hidden_weights().value, 1, to);
    step(context, kept, t);
  }
  for (int k = 0; k < state_count(); ++k)
    if (exposed() || (leaves_trace && marked_))
      ops::axpby(context, 1, state(k, t_ - 1), 0, exposed() ? outputs[1 + k]->data : carried_[k]);
  finish(context, outputs);
}

void RecurrentLayer::backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                              const Blobs& inputs) {
  Context& context = *pass.context;
  for (int k = 0; k < state_count(); ++k) {
    ensure(context, dstates_[k], Shape{n_, d_}, dtype());
    if (exposed() && outputs[1 + k]->grad.defined())
      ops::axpby(context, 1, outputs[1 + k]->grad, 0, dstates_[k]);
    else
      ops::fill(context, dstates_[k], 0);
  }
  const Tensor dh = begin_backward(context, outputs);
  for (std::int64_t t = t_ - 1; t >= 0; --t) {
    const Tensor kept = cont(inputs, t);
    if (dh.defined()) ops::axpby(context, 1, dh.slice(t * n_ * d_, Shape{n_, d_}), 1, dstates_[0]);
    step_backward(context, kept, t);
    if (t == 0 && !exposed()) break;
    ops::gemm(context, {false, false, n_, d_, width_}, 1, gates(t), hidden_weights().value, 0, dstates_[0]);
    ops::scale_bias(context, dstates_[0], kept, none_, {1, n_, d_}, {}, dstates_[0]);
  }
  for (int k = 0; exposed() && k < state_count(); ++k)
    if (propagate[state_input(k)]) ops::axpby(context, 1, dstates_[k], 0, inputs[state_input(k)]->grad);
  add_gradients(context, rows(), gates_, conted_, hidden_weights().grad);
  add_input_gradients(context, propagate, inputs);
}

void RecurrentLayer::add_gradients(Context& context, std::int64_t rows, const Tensor& dy, const Tensor& x,
                                   Tensor& dweights, Tensor* dbias) {
  if (rows == 0) return;
  const std::int64_t width = dy.count() / rows, size = x.count() / rows;
  if (dweights.defined()) ops::gemm(context, {true, false, width, size, rows}, 1, dy, x, 1, dweights);
  if (dbias != nullptr && dbias->defined())
    ops::scale_backward(context, Tensor(), dy, {rows, width, 1}, *dbias);
}

void RecurrentLayer::add_input_gradients(Context& context, const std::vector<bool>& propagate,
                                         const Blobs& inputs) {
  add_gradients(context, rows(), gates_, inputs[0]->data, parameters_[0].grad, &bias().grad);
  if (propagate[0])
    ops::gemm(context, {false, false, rows(), x_size_, width_}, 1, gates_, parameters_[0].value, 0,
              inputs[0]->grad);
  if (!static_ || !(propagate[2] || parameters_[2].grad.defined())) return;
  ops::fill(context, from_static_, 0);
  ops::scale_backward(context, none_, gates_, {t_, n_ * width_, 1}, from_static_);
  add_gradients(context, n_, from_static_, inputs[2]->data, parameters_[2].grad);
  if (propagate[2])
    ops::gemm(context, {false, false, n_, s_size_, width_}, 1, from_static_, parameters_[2].value, 0,
              inputs[2]->grad);
}

double RecurrentLayer::forward_flops(const Blobs&, const Blobs&) const {
  const auto n = static_cast<double>(n_), width = static_cast<double>(width_);
  return n * width *
         (static_cast<double>(t_) * static_cast<double>(x_size_ + d_) + static_cast<double>(s_size_));
}

}  // namespace banyan
