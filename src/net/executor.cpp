#include "banyan/net/executor.hpp"

#include <algorithm>
#include <set>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/observe/spans.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

/// The memory of `tensor`, viewed with this shape and the blob's layout.
Tensor seen_as(const Tensor& tensor, const Blob& blob, const Shape& shape) {
  if (tensor.shape() == shape && tensor.layout() == blob.layout) return tensor;
  const Tensor flat = tensor.reshaped(Shape{tensor.count()});
  if (blob.layout == Layout::channels_last && layout_matters(shape))
    runtime_failure("blob ", quoted(blob.name), " shares contiguous memory but is laid out as channels_last");
  return flat.slice(0, shape, blob.layout);
}

}  // namespace

Executor::Executor(const std::vector<std::unique_ptr<Layer>>& layers, Context& context, Activity& activity,
                   Reshape reshape_after)
    : layers_(layers),
      context_(context),
      activity_(activity),
      reshape_after_(std::move(reshape_after)),
      loss_(context.device(), Shape{1}, DType::f64),
      partial_loss_(context.device(), Shape{1}, DType::f64),
      draw_(context.device()) {
  context.stream().zero(loss_.raw(), loss_.bytes());
}

void Executor::bind(const Plan& plan, Activations& activations) {
  plan_ = &plan;
  activations_ = &activations;
  tensors_ = activations.tensors();
  bind_memory();
  bind_views();
  bind_seed();
  fused_.assign(plan.steps.size(), {});
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    Fused& fused = fused_[i];
    fused.output = step.output;
    fused.input = step.input;
    fused.sum = step.sum;
    if (step.affine >= 0) {
      Layer& scale = *layers_[step.affine];
      const LayerTraits& traits = scale.traits();
      fused.slope = &scale.parameters()[traits.channel_slope];
      if (traits.channel_bias >= 0) fused.bias = &scale.parameters()[traits.channel_bias];
    }
    if (step.expansion >= 0) {
      const std::vector<Parameter>& parameters = layers_[step.expansion]->parameters();
      fused.expansion = {&tensor(step.inputs[0]).data, &parameters[0],
                         parameters.size() > 1 ? &parameters[1] : nullptr, step.expanded};
    }
    if (step.drop_layer >= 0) fused.dropping = layers_[step.drop_layer]->traits().dropping;
    if (step.addend >= 0) fused.addend = &tensor(step.addend).data;
    if (step.kept_output >= 0) fused.kept_output = &tensor(step.kept_output).data;
    fused.kept_activation = step.kept_activation;
  }
  bind_parts();
}

void Executor::bind_parts() {
  for (const SampleParts& planned : plan_->parts) {
    PartRun& run = part_runs_.emplace_back();
    std::set<int> touched;
    for (std::size_t i = planned.first; i < planned.end; ++i) {
      const PlanStep& step = plan_->steps[i];
      touched.insert(step.inputs.begin(), step.inputs.end());
      touched.insert(step.outputs.begin(), step.outputs.end());
      for (const PlanStep::Copy& copy : step.copies) touched.insert(copy.from);
      if (step.addend >= 0) touched.insert(step.addend);
    }
    for (const int t : touched) {
      if (!tensor(t).data.defined()) continue;
      run.tensors.push_back(t);
      run.whole.push_back(tensor(t).data);
    }
    const std::int64_t batch = plan_->tensors[run.tensors[0]].shape[0];
    for (std::int64_t from = 0; from < batch; from += planned.samples) {
      std::vector<Tensor>& part = run.parts.emplace_back();
      for (std::size_t k = 0; k < run.tensors.size(); ++k) {
        const PlannedTensor& of = plan_->tensors[run.tensors[k]];
        Shape shape = of.shape;
        shape.set_dim(0, std::min(planned.samples, batch - from));
        part.push_back(run.whole[k].slice(of.samples > 0 ? 0 : from * of.shape.count(1), shape, of.layout));
      }
    }
  }
}

void Executor::bind_memory() {
  const std::vector<PlannedTensor>& planned = plan_->tensors;
  // Views go first: memory that grows must not need room for old and new together.
  part_runs_.clear();
  const std::int64_t needed =
      std::max<std::int64_t>(plan_->bytes, 1);  // a net that consists of sources plans nothing
  bool grows = !memory_.defined() || memory_.count() < needed;
  for (std::size_t t = 0; t < planned.size(); ++t) {
    Blob& blob = *tensors_[t];
    blob.grad = Tensor();
    if (!planned[t].outside)
      blob.data = Tensor();
    else if (blob.data.defined() && !(blob.data.shape() == blob.shape))
      grows = true;
  }
  if (grows) context_.synchronize();  // pending work may still use memory released here
  if (!memory_.defined() || memory_.count() < needed) {
    memory_ = Tensor();
    memory_ = Tensor(context_.device(), Shape{needed}, DType::u8);
  }
  for (std::size_t t = 0; t < planned.size(); ++t) {
    Blob& blob = *tensors_[t];
    if (planned[t].outside) {
      const bool kept = blob.data.defined() && blob.data.dtype() == blob.dtype;
      const bool larger = !kept || blob.shape.count() > blob.data.count();
      if (kept)
        blob.data.resize(blob.shape, blob.layout);
      else
        blob.data = Tensor(context_.device(), blob.shape, blob.dtype, blob.layout);
      if (planned[t].zeroed && larger) ops::fill(context_, blob.data, 0);
    }
    place(&PlannedTensor::data, &Blob::data, static_cast<int>(t));
    place(&PlannedTensor::grad, &Blob::grad, static_cast<int>(t));
  }
}

/// Binds the data or the gradient of a tensor that has a place of its own.
void Executor::place(std::int64_t PlannedTensor::*offset, Tensor Blob::*member, int number) {
  const PlannedTensor& planned = plan_->tensors[number];
  Blob& blob = tensor(number);
  if (planned.*offset >= 0)
    blob.*member = memory_.bytes_as(planned.*offset, blob.dtype, held(number), blob.layout);
}

/// The blob's shape, which may be for other samples than the planned one, or as many of these as the plan has
/// room for.
Shape Executor::held(int number) const {
  Shape shape = tensor(number).shape;
  if (const std::int64_t samples = plan_->tensors[number].samples; samples > 0) shape.set_dim(0, samples);
  return shape;
}

/// Where a tensor's shape is no longer the bound one, binds a part of the same memory.
void Executor::bind_changed(int PlannedTensor::*of, std::int64_t PlannedTensor::*offset,
                            Tensor Blob::*member) {
  const int count = static_cast<int>(tensors_.size());
  for (int t = 0; t < count; ++t) {
    const PlannedTensor& planned = plan_->tensors[t];
    Blob& blob = tensor(t);
    if (!(blob.*member).defined() || (blob.*member).shape() == blob.shape) continue;
    if (blob.shape.count() > planned.shape.count() || blob.layout != planned.layout ||
        blob.dtype != planned.dtype)
      runtime_failure("blob ", quoted(blob.name), " is planned as ", planned.shape.to_string(), " (",
                      name_of(planned.layout), "), and with fewer samples it is ", blob.shape.to_string(),
                      " (", name_of(blob.layout), "), which needs another plan");
    blob.*member = Tensor();
    place(offset, member, t);
  }
  for (int t = 0; t < count; ++t) follow(of, member, t);
}

void Executor::bind_views() {
  for (int t = 0; t < static_cast<int>(tensors_.size()); ++t) {
    follow(&PlannedTensor::data_of, &Blob::data, t);
    follow(&PlannedTensor::grad_of, &Blob::grad, t);
  }
}

/// Binds a tensor that shares another's memory, after binding the other.
void Executor::follow(int PlannedTensor::*of, Tensor Blob::*member, int number) {
  const int source = plan_->tensors[number].*of;
  Blob& blob = tensor(number);
  if (source == number || (blob.*member).defined()) return;
  follow(of, member, source);
  const Tensor& shared = tensor(source).*member;
  if (shared.defined()) blob.*member = seen_as(shared, blob, held(number));
}

/// Holds a weight as a tensor, to be added to a gradient.
void Executor::bind_seed() {
  std::size_t bytes = 0;
  for (std::size_t i = plan_->backward; i < plan_->steps.size(); ++i)
    for (const PlanStep::LossTerm& term : plan_->steps[i].losses)
      if (term.receives) bytes = std::max(bytes, tensor(term.tensor).grad.bytes());
  if (bytes == 0 || (seed_.defined() && seed_.bytes() >= bytes)) return;
  context_.synchronize();
  seed_ = Tensor(context_.device(), Shape{static_cast<std::int64_t>(bytes)}, DType::u8);
}

void Executor::prepare(const Pass& pass) { draw_.write(context_, static_cast<std::uint64_t>(pass.draw)); }

void Executor::forward(Pass& pass) {
  pass.draw_on_device = draw_.get();
  std::size_t parts = 0;
  for (std::size_t i = 0; i < plan_->backward;) {
    if (parts < plan_->parts.size() && plan_->parts[parts].first == i) {
      run_parts(parts, pass);
      i = plan_->parts[parts++].end;
    } else {
      run_forward(i++, pass);
    }
  }
}

/// Binds the tensors of a run to a part of the samples, and to all of them in the end, whatever ends it.
class Executor::BoundParts {
 public:
  BoundParts(Executor& executor, const PartRun& run) : executor_(executor), run_(run) {}
  ~BoundParts() {
    bind(run_.whole);
    for (const int t : run_.tensors) executor_.tensor(t).shape = executor_.plan_->tensors[t].shape;
  }
  BoundParts(const BoundParts&) = delete;
  BoundParts& operator=(const BoundParts&) = delete;

  void bind(const std::vector<Tensor>& data) {
    for (std::size_t k = 0; k < run_.tensors.size(); ++k) {
      Blob& blob = executor_.tensor(run_.tensors[k]);
      blob.data = data[k];
      blob.shape = data[k].shape();
    }
  }

 private:
  Executor& executor_;
  const PartRun& run_;
};

void Executor::run_parts(std::size_t number, Pass& pass) {
  const PartRun& run = part_runs_[number];
  const SampleParts& planned = plan_->parts[number];
  BoundParts bound(*this, run);
  for (const std::vector<Tensor>& part : run.parts) {
    bound.bind(part);
    for (std::size_t i = planned.first; i < planned.end; ++i)
      if (&part == &run.parts.front() || plan_->steps[i].does_something()) run_forward(i, pass);
  }
}

void Executor::run_forward(std::size_t index, Pass& pass) {
  const PlanStep& step = plan_->steps[index];
  Layer& layer = layer_of(step);
  activity_.enter(Stage::forward, layer.name().c_str());
  const StreamSpan span(activity_, DeviceTrack::compute, context_.stream(), SpanKind::forward, layer.name());
  if (before_) before_(step.layer, false);
  copy(step, &Blob::data);
  if (layer.traits().chooses_samples) choose_samples(step, pass);
  pass.fused = fused_[index];
  if (step.runs_layer) layer.forward(pass, blobs_of(step).inputs, blobs_of(step).outputs);
  add_loss(step);
  if (after_) after_(step.layer, false);
  if (probe_) probe_(step.layer);
}

/// Gradients are bound before the backward pass: one may have the memory of a blob after a layer that has
/// not chosen yet.
void Executor::choose_samples(const PlanStep& step, Pass& pass) {
  reshape_after_(step.layer, layer_of(step).choose_samples(pass, blobs_of(step).inputs));
  bind_changed(&PlannedTensor::data_of, &PlannedTensor::data, &Blob::data);
  reshaped_ = true;
}

void Executor::backward(Pass& pass, const std::function<void(int)>& layer_done) {
  pass.draw_on_device = draw_.get();
  if (reshaped_) bind_changed(&PlannedTensor::grad_of, &PlannedTensor::grad, &Blob::grad);
  reshaped_ = false;
  for (std::size_t i = plan_->backward; i < plan_->steps.size(); ++i) {
    const PlanStep& step = plan_->steps[i];
    if (step.work != Work::backward) {
      run_again(i, pass);
      continue;
    }
    run_backward(i, pass);
    if (layer_done) layer_done(step.layer);
  }
  gradients_count_as_zero_ = false;
}

/// Recomputes what was dropped after forward. Observers saw it then.
void Executor::run_again(std::size_t index, Pass& pass) {
  const PlanStep& step = plan_->steps[index];
  Layer& layer = layer_of(step);
  activity_.enter(Stage::forward, layer.name().c_str());
  const StreamSpan span(activity_, DeviceTrack::compute, context_.stream(), SpanKind::recompute,
                        layer.name());
  copy(step, &Blob::data);
  pass.fused = fused_[index];
  if (step.runs_layer) layer.recompute(pass, blobs_of(step).inputs, blobs_of(step).outputs);
}

void Executor::run_backward(std::size_t index, Pass& pass) {
  const PlanStep& step = plan_->steps[index];
  if (!step.needs_backward) return clear_gradients(step);
  Layer& layer = layer_of(step);
  activity_.enter(Stage::backward, layer.name().c_str());
  const StreamSpan span(activity_, DeviceTrack::compute, context_.stream(), SpanKind::backward, layer.name());
  if (before_) before_(step.layer, true);
  clear_gradients(step);
  seed_gradients(step);
  pass.fused = fused_[index];
  pass.fresh = gradients_count_as_zero_ ? step.fresh : 0;
  if (step.runs_layer) layer.backward(pass, blobs_of(step).outputs, step.propagate, blobs_of(step).inputs);
  copy(step, &Blob::grad);
  if (after_) after_(step.layer, true);
}

void Executor::clear_gradients(const PlanStep& step) {
  if (!gradients_count_as_zero_) return;
  for (const int slot : step.clears) {
    Tensor& gradient = layer_of(step).parameters()[slot].grad;
    context_.stream().zero(gradient.raw(), gradient.bytes());
  }
}

void Executor::copy(const PlanStep& step, Tensor Blob::*member) {
  for (const PlanStep::Copy& copy : step.copies)
    ops::copy(context_, tensor(copy.from).*member, tensor(copy.to).*member);
}

void Executor::add_loss(const PlanStep& step) {
  for (const PlanStep::LossTerm& term : step.losses) {
    ops::sum(context_, tensor(term.tensor).data, partial_loss_);
    ops::axpby(context_, term.weight, partial_loss_, term.first ? 0 : 1, loss_);
  }
}

/// The gradient of a weighted output is its weight plus its readers' contributions.
void Executor::seed_gradients(const PlanStep& step) {
  for (const PlanStep::LossTerm& term : step.losses) {
    Tensor& gradient = tensor(term.tensor).grad;
    if (!term.receives) {
      ops::fill(context_, gradient, term.weight);
      continue;
    }
    Tensor seed = seed_.bytes_as(0, gradient.dtype(), gradient.shape(), gradient.layout());
    ops::fill(context_, seed, term.weight);
    ops::axpby(context_, 1, seed, 1, gradient);
  }
}

void Executor::observe(LayerHook before, LayerHook after) {
  before_ = std::move(before);
  after_ = std::move(after);
}

void Executor::probe(std::function<void(int layer)> after_forward) { probe_ = std::move(after_forward); }

}  // namespace banyan
