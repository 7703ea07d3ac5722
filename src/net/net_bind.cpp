// Shapes, layouts and storage of a Net's activations. Runs at set-up and whenever a source's shapes changed.
#include <algorithm>
#include <map>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/net/checkpoints.hpp"
#include "banyan/net/data_sharing.hpp"
#include "banyan/net/gradient_sharing.hpp"
#include "banyan/net/net.hpp"

namespace banyan {

void Net::choose_inputs(int index) {
  Step& current = step(index);
  std::vector<LayoutInput> seen;
  for (const int input : current.inputs) seen.push_back({&blob(input).shape, blob(input).layout});
  const std::vector<LayoutChoice> choices = choose_layouts(layer(index).layout_rule(), seen);
  current.layer_inputs.resize(choices.size());
  current.stand_ins.resize(choices.size());
  current.conversions.resize(choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    Blob& original = blob(current.inputs[i]);
    current.conversions[i] = choices[i].conversion;
    current.layer_inputs[i] = &original;
    if (choices[i].conversion == Conversion::none) {
      current.stand_ins[i].reset();
      continue;
    }
    if (i < current.outputs.size() && current.outputs[i] == current.inputs[i])
      runtime_failure("layer ", quoted(layer(index).name()), " works in place on blob ",
                      quoted(original.name), ", whose layout it cannot use any more");
    std::unique_ptr<Blob>& stand_in = current.stand_ins[i];
    if (!stand_in) stand_in = std::make_unique<Blob>();
    stand_in->name = original.name;
    stand_in->dtype = original.dtype;
    stand_in->shape = original.shape;
    stand_in->layout = choices[i].layout;
    current.layer_inputs[i] = stand_in.get();
  }
}

void Net::reshape_layer(int index) {
  choose_inputs(index);
  layer(index).reshape(step(index).layer_inputs, step(index).layer_outputs);
}

void Net::reshape() {
  for (int i = 0; i < steps(); ++i) {
    if (layer(i).is_source()) continue;
    try {
      reshape_layer(i);
    } catch (Error& error) {
      error.add_context(cat("while reshaping layer ", quoted(layer(i).name()), " (", layer(i).type(), ") on ",
                            activity_->device()));
      throw;
    }
  }
  bind();
}

/// Outputs of sources have storage of their own that outlives a pass: a user may have filled it.
bool Net::is_own(int number) const {
  const BlobState& state = blobs_[static_cast<std::size_t>(number)];
  return layer(state.producer).is_source() || state.blob->dtype != options_.dtype;
}

/// Numbers blobs first, then the stand-ins in order of layers; `tensors` receives what the numbers mean.
TensorUses Net::tensor_uses(std::vector<Blob*>& tensors) const {
  TensorUses uses;
  std::map<const Blob*, int> number;
  const auto add = [&](Blob* tensor, bool has_grad) {
    const int n = static_cast<int>(tensors.size());
    number[tensor] = n;
    tensors.push_back(tensor);
    uses.data_of.push_back(n);
    uses.grad_of.push_back(n);
    uses.has_grad.push_back(has_grad);
    uses.keeps_data.push_back(false);
    return n;
  };
  for (const BlobState& state : blobs_) add(state.blob.get(), false);
  for (const Blob* output : outputs_) uses.keeps_data[static_cast<std::size_t>(number.at(output))] = true;
  for (const Step& step : plan_) {
    for (std::size_t o = 0; o < step.outputs.size(); ++o) {
      const auto output = static_cast<std::size_t>(step.outputs[o]);
      if (step.loss_weights[o] != 0) uses.keeps_data[output] = true;
      if (step.needs_backward && (step.loss_weights[o] != 0 || step.receives[o]))
        uses.has_grad[output] = true;
    }
    for (std::size_t i = 0; i < step.inputs.size(); ++i)
      if (step.propagate[i]) uses.has_grad[static_cast<std::size_t>(step.inputs[i])] = true;
  }
  for (int l = 0; l < steps(); ++l) {
    const Step& current = step(l);
    LayerUse& use = uses.layers.emplace_back();
    use.outputs = current.outputs;
    use.needs_backward = current.needs_backward;
    const bool recovers = current.kept_output >= 0;
    const bool reads_inputs = layer(l).backward_reads_inputs() && !recovers;
    use.reads_inputs = reads_inputs;
    if (recovers) use.backward_reads = {current.kept_output};
    use.reads_outputs = layer(l).backward_reads_outputs();
    if (current.fusion.backward_elsewhere) use.reads_inputs = use.reads_outputs = false;
    use.propagate = current.propagate;
    use.gathers_gradients = layer(l).gathers_gradients();
    for (std::size_t i = 0; i < current.inputs.size(); ++i)
      use.passes_gradient.push_back(layer(l).passes_gradient(static_cast<int>(i)));
    for (const double weight : current.loss_weights) use.weighted.push_back(weight != 0);
    use.view = layer(l).shared_input(0) >= 0;
    use.in_place = layer(l).allows_in_place() && !reads_inputs && like_output(l);
    use.repeatable = layer(l).repeatable();
    use.cost = cost_of(l);
    for (std::size_t i = 0; i < current.inputs.size(); ++i) {
      if (current.conversions[i] == Conversion::none) {
        use.inputs.push_back(current.inputs[i]);
        use.converted_from.push_back(-1);
        continue;
      }
      const int stand_in = add(current.stand_ins[i].get(), current.propagate[i]);
      use.inputs.push_back(stand_in);
      use.converted_from.push_back(current.inputs[i]);
      if (current.conversions[i] != Conversion::relabel) continue;
      uses.data_of[static_cast<std::size_t>(stand_in)] = current.inputs[i];
      uses.grad_of[static_cast<std::size_t>(stand_in)] = current.inputs[i];
    }
    for (std::size_t o = 0; o < current.outputs.size(); ++o) {
      const int shared = layer(l).shared_input(static_cast<int>(o)), output = current.outputs[o];
      if (shared < 0 || use.inputs[static_cast<std::size_t>(shared)] == output) continue;
      const int source = use.inputs[static_cast<std::size_t>(shared)];
      uses.data_of[static_cast<std::size_t>(output)] = source;
      if (layer(l).shares_gradient() && current.propagate[static_cast<std::size_t>(shared)] &&
          uses.has_grad[static_cast<std::size_t>(output)])
        uses.grad_of[static_cast<std::size_t>(output)] = source;
    }
  }
  // A sum that the maker of one of its inputs runs is written where that input would be.
  for (const Step& maker : plan_)
    if (maker.fusion.sum >= 0)
      uses.data_of[static_cast<std::size_t>(step(maker.fusion.sum).outputs[0])] = maker.outputs[0];
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const bool own = t < blobs_.size() && is_own(static_cast<int>(t));
    uses.data_size.push_back(own ? 0 : tensors[t]->shape.count());
    uses.grad_size.push_back(tensors[t]->shape.count());
  }
  if (options_.reuse_memory) {
    share_data(uses);
    share_gradients(uses);
  }
  return uses;
}

/// May the first input and output of the layer lie in the same memory, by shape and layout?
bool Net::like_output(int index) const {
  if (step(index).layer_outputs.empty()) return false;
  const Blob &in = *step(index).layer_inputs[0], &out = *step(index).layer_outputs[0];
  return in.shape == out.shape && in.layout == out.layout && in.dtype == out.dtype;
}

/// In elements moved: a multiply-add costs about a tenth of one.
double Net::cost_of(int index) const {
  double cost = 0.1 * layer(index).forward_flops(inputs_of(index), outputs_of(index));
  for (const int output : step(index).outputs) cost += static_cast<double>(blob(output).shape.count());
  return cost;
}

namespace {

/// The same memory as `tensor`, seen with another shape or layout of the same bytes.
Tensor seen_as(const Tensor& tensor, const Blob& blob) {
  if (tensor.shape() == blob.shape && tensor.layout() == blob.layout) return tensor;
  const Tensor flat = tensor.reshaped(Shape{tensor.count()});
  if (blob.layout == Layout::channels_last && layout_matters(blob.shape))
    runtime_failure("blob ", quoted(blob.name), " shares contiguous memory but is laid out as channels_last");
  return flat.slice(0, blob.shape, blob.layout);
}

}  // namespace

void Net::fuse() {
  std::vector<FusionNode> nodes;
  for (int i = 0; i < steps(); ++i) {
    const Step& current = step(i);
    FusionNode& node = nodes.emplace_back();
    node.inputs = current.inputs;
    node.outputs = current.outputs;
    node.relu_slope = layer(i).relu_slope();
    node.fuses_relu = current.kept_output < 0 ? layer(i).fuses_relu() : ReluFusion::forward;
    node.fuses_relu_of_input = layer(i).fuses_relu_of_input();
    node.fuses_sum = layer(i).fuses_sum();
    node.is_plain_sum = layer(i).is_plain_sum();
    node.converts_inputs = current.converts_inputs();
    node.weighted = current.weighted();
    node.needs_backward = current.needs_backward;
    node.propagate = current.propagate;
  }
  const std::vector<Fusion> fusions =
      options_.fuse && options_.reuse_memory ? find_fusions(nodes) : std::vector<Fusion>(plan_.size());
  for (int i = 0; i < steps(); ++i) {
    Fusion& fusion = step(i).fusion = fusions[static_cast<std::size_t>(i)];
    if (fusion.sum >= 0) fusion.runs.addend = &blob(fusion.addend);
    layer(i).fuse(fusion.runs);
  }
}

void Net::bind() {
  choose_in_place_abn();
  fuse();
  std::vector<Blob*> tensors;
  const TensorUses uses = tensor_uses(tensors);
  Slots slots;
  plan(uses, slots);
  if (!options_.shapes_only) bind_arena(tensors, uses, slots);
  for (BlobState& state : blobs_) state.bound = state.blob->shape;
}

std::vector<Lifetime> Net::lifetimes_of(const TensorUses& uses, const Schedule& schedule,
                                        Slots& slots) const {
  TensorSpans spans = find_lifetimes(uses, schedule);
  std::vector<Lifetime> lifetimes;
  const auto add = [&](std::int64_t size, std::vector<Span> alive) {
    if (!options_.reuse_memory) alive = {{0, static_cast<int>(schedule.size())}};
    lifetimes.push_back({size, std::move(alive)});
    return static_cast<int>(lifetimes.size()) - 1;
  };
  slots.data.assign(uses.data_of.size(), -1);
  slots.grad = slots.data;
  for (std::size_t t = 0; t < uses.data_of.size(); ++t) {
    const bool own = t < blobs_.size() && is_own(static_cast<int>(t));
    if (!spans.data[t].empty() && !own) slots.data[t] = add(uses.data_size[t], std::move(spans.data[t]));
    if (spans.grad[t].used()) slots.grad[t] = add(uses.grad_size[t], {spans.grad[t]});
  }
  return lifetimes;
}

/// Cuts are chosen once, for the first shapes: they decide what is computed when, which should not change.
void Net::plan(const TensorUses& uses, Slots& slots) {
  const auto alignment = static_cast<std::int64_t>(64 / size_of(options_.dtype));
  schedule_ = plain_schedule(steps());
  const std::vector<Lifetime> lifetimes = lifetimes_of(uses, schedule_, slots);
  memory_plan_ =
      options_.reuse_memory ? plan_memory(lifetimes, alignment) : plan_separate(lifetimes, alignment);
  planned_without_checkpoints_ = memory_plan_.total;
  if (segments_wanted_ == 1) return;
  if (!cuts_chosen_) cuts_ = choose_cuts(uses, segments_wanted_);
  cuts_chosen_ = true;
  if (cuts_.empty()) return;
  schedule_ = checkpointed_schedule(uses, cuts_);
  memory_plan_ = plan_memory(lifetimes_of(uses, schedule_, slots), alignment);
}

void Net::bind_arena(const std::vector<Blob*>& tensors, const TensorUses& uses, const Slots& slots) {
  const auto own = [&](std::size_t t) { return t < blobs_.size() && is_own(static_cast<int>(t)); };
  // Views go first: what grows must not need room for its old and its new memory.
  const std::int64_t needed =
      std::max<std::int64_t>(memory_plan_.total, 1);  // a net of sources alone plans nothing
  bool grows = !arena_.defined() || arena_.count() < needed;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    tensors[t]->grad = Tensor();
    if (!own(t)) tensors[t]->data = Tensor();
    if (own(t) && tensors[t]->data.defined() && !(tensors[t]->data.shape() == tensors[t]->shape))
      grows = true;
  }
  if (grows) context_->synchronize();  // pending work may still use what is released here
  if (!arena_.defined() || arena_.count() < needed) {
    arena_ = Tensor();
    arena_ = Tensor(context_->device(), Shape{needed}, options_.dtype);
  }
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    Blob& blob = *tensors[t];
    const auto view = [&](int slot) {
      return arena_.slice(memory_plan_.offsets[static_cast<std::size_t>(slot)], blob.shape, blob.layout);
    };
    if (own(t)) {
      if (blob.data.defined() && blob.data.dtype() == blob.dtype)
        blob.data.resize(blob.shape, blob.layout);
      else
        blob.data = Tensor(context_->device(), blob.shape, blob.dtype, blob.layout);
    }
    if (slots.data[t] >= 0) blob.data = view(slots.data[t]);
    if (slots.grad[t] >= 0) blob.grad = view(slots.grad[t]);
  }
  bind_views(tensors, uses);
}

/// Tensors that share another one's memory.
void Net::bind_views(const std::vector<Blob*>& tensors, const TensorUses& uses) {
  const auto follow = [&](const std::vector<int>& of, Tensor Blob::*member) {
    // Chains are bound from their root on: a link's source comes first.
    const std::function<void(int)> resolve = [&](int t) {
      const int source = of[static_cast<std::size_t>(t)];
      Blob& blob = *tensors[static_cast<std::size_t>(t)];
      if (source == t || (blob.*member).defined()) return;
      resolve(source);
      const Tensor& memory = tensors[static_cast<std::size_t>(source)]->*member;
      if (memory.defined()) blob.*member = seen_as(memory, blob);
    };
    for (int t = 0; t < static_cast<int>(tensors.size()); ++t) resolve(t);
  };
  follow(uses.data_of, &Blob::data);
  follow(uses.grad_of, &Blob::grad);
}

int Net::layout_conversions() const {
  int conversions = 0;
  for (const Step& step : plan_)
    conversions +=
        static_cast<int>(std::count(step.conversions.begin(), step.conversions.end(), Conversion::copy));
  return conversions;
}

}  // namespace banyan
