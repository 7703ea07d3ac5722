// The running of a Net.
#include <exception>
#include <new>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/net/net.hpp"
#include "banyan/observe/spans.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {

/// Call inside a catch block: the current exception with the place where the device is.
void Net::rethrow_with_place() {
  try {
    throw;
  } catch (Error& error) {
    if (error.kind() != ErrorKind::aborted) error.add_context(activity_->describe());
    throw;
  } catch (const std::bad_alloc&) {
    Error placed(ErrorKind::runtime, "out of memory on " + activity_->device());
    placed.add_context(activity_->describe());
    throw placed;
  } catch (const std::exception& error) {
    Error placed(ErrorKind::runtime, error.what());
    placed.add_context(activity_->describe());
    throw placed;
  }
}

bool Net::sources_changed() const {
  for (const BlobState& state : blobs_)
    if (layer(state.producer).is_source() && !(state.blob->shape == state.bound)) return true;
  return false;
}

void Net::forward(Pass& pass) {
  if (options_.shapes_only) runtime_failure("this net was made for its shapes only and cannot run");
  try {
    for (int i = 0; i < steps(); ++i) {
      if (!layer(i).is_source()) continue;
      activity_->enter(Stage::data, layer(i).name().c_str());
      const HostSpan span(*activity_, SpanKind::data, layer(i).name());
      layer(i).prepare(pass, step(i).layer_outputs);
    }
    if (sources_changed()) reshape();
    loss_started_ = false;
    last_unchecked_ = activity_->state().iteration;
    if (!first_unchecked_) first_unchecked_ = last_unchecked_;
    for (int i = 0; i < steps(); ++i) {
      activity_->enter(Stage::forward, layer(i).name().c_str());
      run_forward(pass, i);
    }
  } catch (...) {
    rethrow_with_place();
  }
}

void Net::run_forward(Pass& pass, int index) {
  Step& current = step(index);
  Context& context = *pass.context;
  const StreamSpan span(*activity_, DeviceTrack::compute, context.stream(), SpanKind::forward,
                        layer(index).name());
  if (before_layer_) before_layer_(index, false);
  convert_inputs(context, index);
  if (!current.fusion.forward_elsewhere)
    layer(index).forward(pass, current.layer_inputs, current.layer_outputs);
  add_loss(context, index);
  if (after_layer_) after_layer_(index, false);
}

void Net::convert_inputs(Context& context, int index) {
  Step& current = step(index);
  for (std::size_t i = 0; i < current.inputs.size(); ++i)
    if (current.conversions[i] == Conversion::copy)
      ops::copy(context, blob(current.inputs[i]).data, current.stand_ins[i]->data);
}

/// Makes again what was dropped after forward. Observers saw it then.
void Net::run_again(Pass& pass, int index, bool layer_too) {
  Step& current = step(index);
  Context& context = *pass.context;
  const StreamSpan span(*activity_, DeviceTrack::compute, context.stream(), SpanKind::recompute,
                        layer(index).name());
  convert_inputs(context, index);
  if (layer_too && !current.fusion.forward_elsewhere)
    layer(index).recompute(pass, current.layer_inputs, current.layer_outputs);
}

void Net::add_loss(Context& context, int index) {
  const Step& current = step(index);
  for (std::size_t o = 0; o < current.outputs.size(); ++o) {
    if (current.loss_weights[o] == 0) continue;
    ops::sum(context, blob(current.outputs[o]).data, partial_loss_);
    ops::axpby(context, current.loss_weights[o], partial_loss_, loss_started_ ? 1 : 0, loss_);
    loss_started_ = true;
  }
}

void Net::backward(Pass& pass, const std::function<void(int)>& layer_done) {
  if (options_.shapes_only || !trains_)
    runtime_failure("net ", quoted(name_), " was made without gradients and has no backward pass");
  try {
    for (const auto& [work, i] : schedule_) {
      if (work == Work::forward) continue;
      if (work != Work::backward || step(i).needs_backward)
        activity_->enter(work == Work::backward ? Stage::backward : Stage::forward, layer(i).name().c_str());
      if (work != Work::backward) {
        run_again(pass, i, work == Work::recompute);
        continue;
      }
      if (step(i).needs_backward) run_backward(pass, i);
      settle_gradients(*pass.context, i);
      if (layer_done) layer_done(i);
    }
  } catch (...) {
    rethrow_with_place();
  }
}

void Net::run_backward(Pass& pass, int index) {
  Step& current = step(index);
  Context& context = *pass.context;
  const StreamSpan span(*activity_, DeviceTrack::compute, context.stream(), SpanKind::backward,
                        layer(index).name());
  if (before_layer_) before_layer_(index, true);
  if (layer(index).overwrites_gradients())
    for (std::size_t slot = 0; slot < layer(index).parameters().size(); ++slot)
      layer(index).parameters()[slot].fresh = std::exchange(store_.owner_of(index, slot).cleared, false);
  else
    settle_gradients(context, index);
  seed_gradients(context, index);
  if (!current.fusion.backward_elsewhere)
    layer(index).backward(pass, current.layer_outputs, current.propagate, current.layer_inputs);
  for (std::size_t i = 0; i < current.inputs.size(); ++i)
    if (current.conversions[i] == Conversion::copy && current.propagate[i])
      ops::copy(context, current.stand_ins[i]->grad, blob(current.inputs[i]).grad);
  if (after_layer_) after_layer_(index, true);
}

/// The gradient of a weighted output is its weight, plus what the layers that read it gave.
void Net::seed_gradients(Context& context, int index) {
  Step& current = step(index);
  for (std::size_t o = 0; o < current.outputs.size(); ++o) {
    const double weight = current.loss_weights[o];
    if (weight == 0) continue;
    Tensor& grad = blob(current.outputs[o]).grad;
    if (!current.receives[o]) {
      ops::fill(context, grad, weight);
      continue;
    }
    if (!current.seed.defined() || !(current.seed.shape() == grad.shape()) ||
        current.seed.layout() != grad.layout())
      current.seed = Tensor(context.device(), grad.shape(), grad.dtype(), grad.layout());
    ops::fill(context, current.seed, weight);
    ops::axpby(context, 1, current.seed, 1, grad);
  }
}

void Net::zero_gradients() {
  for (LearnableParameter& parameter : store_.parameters) parameter.cleared = parameter.grad.defined();
}

/// Zeros for those gradients of the layer that were to be cleared and that nothing has been written to.
void Net::settle_gradients(Context& context, int index) {
  for (std::size_t slot = 0; slot < layer(index).parameters().size(); ++slot) {
    Parameter& parameter = layer(index).parameters()[slot];
    const bool cleared = std::exchange(store_.owner_of(index, slot).cleared, false);
    if (std::exchange(parameter.fresh, false) || cleared)
      context.stream().zero(parameter.grad.raw(), parameter.grad.bytes());
  }
}

void Net::check_results() {
  context_->synchronize();
  const std::int64_t first = std::exchange(first_unchecked_, std::nullopt).value_or(last_unchecked_);
  for (int i = 0; i < steps(); ++i) {
    try {
      layer(i).check_results(*context_);
    } catch (Error& error) {
      const std::string when = first == last_unchecked_
                                   ? cat("iteration ", last_unchecked_)
                                   : cat("one of the iterations ", first, " to ", last_unchecked_);
      error.add_context(cat("found in layer ", quoted(layer(i).name()), " (", layer(i).type(), ") on ",
                            activity_->device(), ", ", when));
      throw;
    }
  }
}

ops::KernelChoices Net::kernel_choices() const {
  ops::KernelChoices choices;
  for (const auto& layer : layers_)
    for (const auto& [work, kernel] : layer->kernel_choices())
      choices[cat("layer ", quoted(layer->name()), " ", work)] = kernel;
  return choices;
}

void Net::observe_layers(LayerHook before, LayerHook after) {
  before_layer_ = std::move(before);
  after_layer_ = std::move(after);
  options_.fuse = false;
  bind();
}

}  // namespace banyan
