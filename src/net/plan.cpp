#include "banyan/net/plan.hpp"

#include <algorithm>
#include <set>

#include "banyan/base/contains.hpp"
#include "banyan/net/checkpoints.hpp"
#include "banyan/net/data_sharing.hpp"
#include "banyan/net/fusion.hpp"
#include "banyan/net/gradient_sharing.hpp"
#include "banyan/net/memory_plan.hpp"
#include "banyan/net/tensor_uses.hpp"

namespace banyan {
namespace {

constexpr double kPassesOfCost = 3;            ///< a backward pass costs about two forward passes
constexpr std::int64_t kTensorAlignment = 64;  ///< bytes: a cache line, and good for vector loads

/// What is decided before the memory.
struct Choices {
  std::vector<int> kept_by;  ///< per layer, see find_fusions
  std::vector<Fusion> fusions;
};

std::vector<bool> conversions_of(const Activations& activations) {
  std::vector<bool> converts;
  for (const LayerBlobs& layer : activations.layers) converts.push_back(layer.converts());
  return converts;
}

Choices choose(const Graph& graph, const Activations& activations, const std::vector<bool>& converts,
               const std::vector<int>& affines, const PlanPolicy& policy, Plan& plan) {
  Choices choices;
  choices.kept_by.assign(graph.layers.size(), -1);
  if (policy.in_place_abn) plan.in_place_abn = find_in_place_abn(graph, converts, affines);
  for (const InPlaceAbn& found : plan.in_place_abn) choices.kept_by[found.norm] = found.activation;
  choices.fusions =
      policy.fuse ? find_fusions(graph, converts, affines, choices.kept_by) : only_affines(affines);
  const auto is_large = [&](int layer) {
    const Blob& input = *activations.blobs[graph.layers[layer].inputs[0]];
    const Blob& output = *activations.blobs[graph.layers[layer].outputs[0]];
    const auto suits = [](const Blob& blob) {
      return blob.dtype == DType::f32 && blob.layout == Layout::channels_last;
    };
    return suits(input) && suits(output) &&
           output.shape.count(1) * static_cast<std::int64_t>(sizeof(float)) >= policy.expansion_bytes;
  };
  if (policy.fuse && policy.expansion_bytes > 0 && !graph.trains)
    fuse_expansions(graph, converts, is_large, choices.fusions);
  return choices;
}

void list_tensors(const Graph& graph, const Activations& activations, const TensorUses& uses, Plan& plan) {
  for (const Blob* blob : activations.tensors()) {
    const std::size_t t = plan.tensors.size();
    const bool outside = t < graph.blobs.size() && graph.from_source(t);
    const bool zeroed = outside && graph.producer_of(static_cast<int>(t)).traits.filled_by_user;
    plan.tensors.push_back({blob->name, blob->shape, blob->layout, blob->dtype, uses.data_of[t],
                            uses.grad_of[t], -1, -1, outside, zeroed});
  }
}

/// Tensors of a layer's forward step.
std::vector<int> tensors_of(const LayerUse& use, int addend) {
  std::vector<int> tensors = use.inputs;
  tensors.insert(tensors.end(), use.outputs.begin(), use.outputs.end());
  for (const int from : use.converted_from)
    if (from >= 0) tensors.push_back(from);
  if (addend >= 0) tensors.push_back(addend);
  return tensors;
}

/// Each step of a forward pass.
std::vector<PartStep> part_steps(const Graph& graph, const TensorUses& uses, const Plan& plan,
                                 const std::vector<Fusion>& fusions, const ParameterStore& parameters) {
  std::vector<PartStep> steps;
  for (std::size_t l = 0; l < graph.layers.size(); ++l) {
    const GraphLayer& layer = graph.layers[l];
    PartStep& step = steps.emplace_back();
    step.runs = !fusions[l].forward_elsewhere && !uses.layers[l].view;
    const std::vector<int> tensors =
        fusions[l].left_out ? layer.outputs : tensors_of(uses.layers[l], fusions[l].addend);
    const auto batch_of = [&](int tensor) {
      const Shape& shape = plan.tensors[tensor].shape;
      return shape.axes() == 0 ? 0 : shape[0];
    };
    const std::int64_t batch = tensors.empty() ? 0 : batch_of(tensors[0]);
    const bool one_batch =
        std::all_of(tensors.begin(), tensors.end(), [&](int t) { return batch_of(t) == batch; });
    const bool weighted = std::any_of(layer.loss_weights.begin(), layer.loss_weights.end(),
                                      [](double weight) { return weight != 0; });
    const bool drops = fusions[l].drop_layer >= 0;  // random numbers belong to places in the batch
    if (layer.traits.by_sample && one_batch && !weighted && !drops) step.batch = batch;
    std::set<int> owners;
    for (const int tensor : tensors)
      if (owners.insert(owner_of(uses.data_of, tensor)).second)
        step.bytes += plan.tensors[tensor].shape.count() *
                      static_cast<std::int64_t>(size_of(plan.tensors[tensor].dtype));
    for (const std::size_t part : {static_cast<int>(l), fusions[l].expansion})
      if (part < graph.layers.size())
        for (const int owner : parameters.owner[part])
          step.parameters += parameters.parameters[owner].count * static_cast<std::int64_t>(sizeof(float));
  }
  return steps;
}

bool chooses_samples(const Graph& graph) {
  return std::any_of(graph.layers.begin(), graph.layers.end(),
                     [](const GraphLayer& layer) { return layer.traits.chooses_samples; });
}

/// Of each parameter that learns, the steps that touch its gradient; the last of them completes it.
std::vector<Span> gradient_lifetimes(const ParameterStore& parameters, const Schedule& schedule) {
  std::vector<Span> spans(parameters.parameters.size());
  for (std::size_t step = 0; step < schedule.size(); ++step) {
    const Action& action = schedule[step];
    if (action.work != Work::backward) continue;
    for (std::size_t p = 0; p < spans.size(); ++p) {
      const LearnableParameter& parameter = parameters.parameters[p];
      const bool touched = parameter.ready_layer == action.layer ||
                           contains(parameters.owner[action.layer], static_cast<int>(p));
      if (parameter.learns() && touched) spans[p].include(static_cast<int>(step));
    }
  }
  return spans;
}

/// Data that only steps of one run need has room for as many samples as these take at a time; what else they
/// read or write must keep its contents as long as they run.
void fit_to_parts(const TensorUses& uses, const std::vector<Fusion>& fusions, TensorSpans& spans,
                  Plan& plan) {
  for (PlannedTensor& tensor : plan.tensors) tensor.samples = 0;
  for (const SampleParts& run : plan.parts) {
    const auto first = static_cast<int>(run.first), last = static_cast<int>(run.end) - 1;
    for (int step = first; step <= last; ++step)
      for (const int tensor : tensors_of(uses.layers[step], fusions[step].addend)) {
        const int owner = owner_of(uses.data_of, tensor);
        bool inside = !plan.tensors[owner].outside;
        for (const Span& span : spans.data[owner])
          inside = inside && span.first >= first && span.last <= last;
        if (inside) {
          plan.tensors[tensor].samples = plan.tensors[owner].samples = run.samples;
          continue;
        }
        for (Span& span : spans.data[owner])
          if (span.first <= last && span.last >= first) span.include(first), span.include(last);
      }
  }
}

/// Places every tensor that owns its memory, and gradients of parameters if the policy says so.
MemoryPlan place_tensors(const TensorUses& uses, const std::vector<Fusion>& fusions,
                         const ParameterStore& parameters, const Schedule& schedule, const PlanPolicy& policy,
                         Plan& plan) {
  const bool reuse = policy.reuse_memory;
  TensorSpans spans = find_lifetimes(uses, schedule);
  fit_to_parts(uses, fusions, spans, plan);
  std::vector<Lifetime> lifetimes;
  plan.blocks.clear();
  const auto add = [&](int tensor, int parameter, bool gradient, std::int64_t bytes,
                       std::vector<Span> alive) {
    if (!reuse) alive = {{0, static_cast<int>(schedule.size())}};
    plan.blocks.push_back({tensor, parameter, gradient, 0, bytes, alive});
    lifetimes.push_back({bytes, std::move(alive)});
  };
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    PlannedTensor& tensor = plan.tensors[t];
    tensor.data = tensor.grad = -1;
    const int number = static_cast<int>(t);
    if (!spans.data[t].empty() && !tensor.outside)
      add(number, -1, false,
          tensor.samples > 0 ? uses.data_size[t] / tensor.shape[0] * tensor.samples : uses.data_size[t],
          std::move(spans.data[t]));
    if (spans.grad[t].used()) add(number, -1, true, uses.grad_size[t], {spans.grad[t]});
  }
  plan.parameter_gradients.assign(parameters.parameters.size(), -1);
  if (policy.gradient_element > 0) {
    const std::vector<Span> alive = gradient_lifetimes(parameters, schedule);
    const auto element = static_cast<std::int64_t>(policy.gradient_element);
    for (std::size_t p = 0; p < alive.size(); ++p)
      if (alive[p].used())
        add(-1, static_cast<int>(p), true, element * parameters.parameters[p].count, {alive[p]});
  }
  const MemoryPlan memory =
      reuse ? plan_memory(lifetimes, kTensorAlignment) : plan_separate(lifetimes, kTensorAlignment);
  for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
    PlannedBlock& block = plan.blocks[i];
    block.offset = memory.offsets[i];
    if (block.tensor < 0)
      plan.parameter_gradients[block.parameter] = block.offset;
    else
      (block.gradient ? plan.tensors[block.tensor].grad : plan.tensors[block.tensor].data) = block.offset;
  }
  return memory;
}

/// None if they cost more than `most` of a pass.
std::vector<int> cheap_repeats(const TensorUses& uses, double most) {
  if (most <= 0) return {};
  std::vector<int> repeats = find_repeats(uses);
  double forward = 0, again = 0;
  for (const LayerUse& layer : uses.layers) forward += layer.cost;
  for (const int layer : repeats) again += uses.layers[layer].cost;
  return again <= most * kPassesOfCost * forward ? repeats : std::vector<int>{};
}

/// Cuts are chosen once, for the first shapes: they determine what is computed when, which should not change.
Schedule place_and_schedule(const TensorUses& uses, const std::vector<Fusion>& fusions,
                            const ParameterStore& parameters, const PlanPolicy& policy, Plan& plan) {
  const auto finish = [&](const Schedule& chosen, const MemoryPlan& placed) {
    plan.bytes = placed.total;
    plan.unshared_bytes = placed.sum;
    return chosen;
  };
  Schedule schedule = plain_schedule(static_cast<int>(uses.layers.size()));
  MemoryPlan memory = place_tensors(uses, fusions, parameters, schedule, policy, plan);
  plan.bytes_without_cuts = memory.total;
  if (policy.segments != 1) plan.cuts = policy.cuts ? *policy.cuts : choose_cuts(uses, policy.segments);
  if (!plan.cuts.empty()) {
    schedule = checkpointed_schedule(uses, plan.cuts);
    memory = place_tensors(uses, fusions, parameters, schedule, policy, plan);
  } else if (policy.segments == 1) {
    plan.repeats = cheap_repeats(uses, policy.repeats);
    if (plan.repeats.empty()) return finish(schedule, memory);
    const Schedule with_repeats = schedule_with_repeats(uses, plan.repeats);
    memory = place_tensors(uses, fusions, parameters, with_repeats, policy, plan);
    if (memory.total < plan.bytes_without_cuts) return finish(with_repeats, memory);
    plan.repeats.clear();
    memory = place_tensors(uses, fusions, parameters, schedule, policy, plan);
  }
  return finish(schedule, memory);
}

class StepMaker {
 public:
  StepMaker(const Graph& graph, const Activations& activations, const ParameterStore& parameters,
            const Choices& choices, const TensorUses& uses)
      : graph_(graph),
        activations_(activations),
        parameters_(parameters),
        choices_(choices),
        uses_(uses),
        touched_(parameters.parameters.size(), false) {}

  PlanStep make(const Action& action) {
    const GraphLayer& layer = graph_.layers[action.layer];
    const LayerUse& use = uses_.layers[action.layer];
    const Fusion& fusion = choices_.fusions[action.layer];
    PlanStep step;
    step.work = action.work;
    step.layer = action.layer;
    step.inputs = use.inputs;
    step.outputs = use.outputs;
    step.output = fusion.output;
    step.input = fusion.input;
    step.sum = fusion.sum;
    step.addend = fusion.addend;
    step.affine = fusion.affine;
    step.drop_layer = fusion.drop_layer;
    step.expansion = fusion.expansion;
    if (fusion.expansion >= 0) step.expanded = choices_.fusions[fusion.expansion].output;
    if (const int activation = choices_.kept_by[action.layer]; activation >= 0) {
      step.kept_output = graph_.layers[activation].outputs[0];
      step.kept_activation = graph_.layers[activation].traits.activation;
    }
    if (action.work == Work::backward)
      backward(layer, use, fusion, step);
    else
      forward(layer, use, fusion, step);
    return step;
  }

 private:
  bool copies(int layer, std::size_t input) const {
    return activations_.layers[layer].conversions[input] == Conversion::copy;
  }

  void forward(const GraphLayer& layer, const LayerUse& use, const Fusion& fusion, PlanStep& step) {
    step.runs_layer = step.work != Work::convert && !fusion.forward_elsewhere;
    for (std::size_t i = 0; i < use.inputs.size(); ++i)
      if (copies(step.layer, i)) step.copies.push_back({layer.inputs[i], use.inputs[i]});
    for (std::size_t o = 0; o < layer.outputs.size() && step.work == Work::forward; ++o) {
      if (layer.loss_weights[o] == 0) continue;
      step.losses.push_back({layer.outputs[o], layer.loss_weights[o], !loss_begun_, false});
      loss_begun_ = true;
    }
  }

  void backward(const GraphLayer& layer, const LayerUse& use, const Fusion& fusion, PlanStep& step) {
    step.needs_backward = layer.needs_backward;
    step.propagate = layer.propagate;
    step.runs_layer = layer.needs_backward && !fusion.backward_elsewhere;
    begin_gradients(layer, step);
    if (!layer.needs_backward) return;
    for (std::size_t i = 0; i < use.inputs.size(); ++i)
      if (copies(step.layer, i) && layer.propagate[i])
        step.copies.push_back({use.inputs[i], layer.inputs[i]});
    for (std::size_t o = 0; o < layer.outputs.size(); ++o)
      if (layer.loss_weights[o] != 0)
        step.losses.push_back(
            {layer.outputs[o], layer.loss_weights[o], false, graph_.receives_gradient(layer.outputs[o])});
  }

  /// The first step that touches a gradient clears it or lets the layer overwrite it.
  void begin_gradients(const GraphLayer& layer, PlanStep& step) {
    for (const LearnableParameter& parameter : parameters_.parameters)
      step.completes = step.completes || (parameter.learns() && parameter.ready_layer == step.layer);
    const std::vector<int>& owners = parameters_.owner[step.layer];
    for (std::size_t slot = 0; slot < owners.size(); ++slot) {
      if (!parameters_.learns(step.layer, slot) || touched_[owners[slot]]) continue;
      touched_[owners[slot]] = true;
      if (step.runs_layer && layer.traits.overwrites_gradients)
        step.fresh |= std::uint64_t{1} << slot;
      else
        step.clears.push_back(static_cast<int>(slot));
    }
  }

  const Graph& graph_;
  const Activations& activations_;
  const ParameterStore& parameters_;
  const Choices& choices_;
  const TensorUses& uses_;
  std::vector<bool> touched_;  ///< gradients, by index of the owner
  bool loss_begun_ = false;
};

}  // namespace

Plan make_plan(const Graph& graph, const Activations& activations, const ParameterStore& parameters,
               const std::vector<double>& costs, const PlanPolicy& policy) {
  Plan plan;
  const std::vector<bool> converts = conversions_of(activations);
  std::vector<int> affines(graph.layers.size(), -1);
  if (policy.fuse_scale) affines = find_affines(graph, converts);
  const Graph run = with_affines(graph, affines);
  const Choices choices = choose(run, activations, converts, affines, policy, plan);
  TensorUses uses = find_tensor_uses(run, activations, choices.fusions, choices.kept_by, costs);
  if (policy.reuse_memory) {
    share_data(uses);
    share_gradients(uses);
  }
  list_tensors(run, activations, uses, plan);
  if (policy.reuse_memory && policy.cache > 0 && !run.trains && !chooses_samples(run))
    plan.parts = find_sample_parts(part_steps(run, uses, plan, choices.fusions, parameters), policy.cache);
  const Schedule schedule = place_and_schedule(uses, choices.fusions, parameters, policy, plan);
  StepMaker maker(run, activations, parameters, choices, uses);
  for (const Action& action : schedule) plan.steps.push_back(maker.make(action));
  plan.backward = run.layers.size();
  return plan;
}

}  // namespace banyan
