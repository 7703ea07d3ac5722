// The making of a Net: layers in the order of the file, each set up with the shapes of the ones before it,
// then the backward plan.
#include <glog/logging.h>

#include <algorithm>
#include <set>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/net/checkpoints.hpp"
#include "banyan/net/filter.hpp"
#include "banyan/net/fork_settings.hpp"
#include "banyan/net/graph.hpp"
#include "banyan/net/layout_plan.hpp"
#include "banyan/net/net.hpp"
#include "banyan/net/splits.hpp"

namespace banyan {
namespace {

caffe::Phase phase_of(Phase phase) { return phase == Phase::train ? caffe::TRAIN : caffe::TEST; }

caffe::NetParameter define_net(const caffe::NetParameter& parameter, const NetOptions& options) {
  if (parameter.layers_size() > 0)
    bad_input("the net is written in an older format (`layers`); it must be upgraded before it is used");
  caffe::NetState state;
  state.set_phase(phase_of(options.phase));
  state.set_level(options.level);
  for (const std::string& stage : options.stages) state.add_stage(stage);
  caffe::NetParameter filtered = filter_net(parameter, state);
  if (filtered.layer_size() == 0)
    bad_input("the net has no layer for phase ", options.phase == Phase::train ? "TRAIN" : "TEST");
  check_connections(filtered);
  caffe::NetParameter net = insert_splits(filtered);
  for (caffe::LayerParameter& layer : *net.mutable_layer()) {
    if (!layer.has_phase()) layer.set_phase(state.phase());
    layer.clear_blobs();
  }
  return net;
}

/// Layers with parameters are found by name in files; two of one name would load each other's weights.
void check_names(const std::vector<std::unique_ptr<Layer>>& layers) {
  std::set<std::string> names, with_parameters;
  for (const auto& layer : layers) {
    const bool learns = !layer->parameters().empty();
    const bool is_new = names.insert(layer->name()).second;
    if (!is_new && (learns || with_parameters.count(layer->name()) != 0))
      bad_input("two layers are named ", quoted(layer->name()),
                "; layers with parameters need names of their own, weights are stored under them");
    if (!is_new) LOG(WARNING) << "two layers are named " << quoted(layer->name());
    if (learns) with_parameters.insert(layer->name());
  }
}

}  // namespace

Net::Net(const caffe::NetParameter& parameter, const NetOptions& options, Context& context,
         Activity& activity)
    : name_(parameter.name()), options_(options), context_(&context), activity_(&activity) {
  options_.channels_last =
      options_.dtype == DType::f32 &&
      options_.channels_last.value_or(channels_last_by_default(context.device().kind(), options_.dtype));
  activity.enter(Stage::set_up);
  try {
    check_fork_settings(parameter, options_.rank == 0 && options_.phase == Phase::train);
    definition_ = define_net(parameter, options_);
    trains_ = options_.phase == Phase::train || definition_.force_backward();
    segments_wanted_ = read_checkpoint(parameter);
    if (!trains_ || !options_.reuse_memory) segments_wanted_ = 1;
    wants_in_place_abn_ = parameter.in_place_abn() && trains_ && options_.reuse_memory;
    build();
  } catch (Error& error) {
    if (!options_.origin.empty()) error.add_context(cat("in the net of ", options_.origin));
    throw;
  }
}

Net::~Net() = default;

void Net::build() {
  for (int i = 0; i < definition_.layer_size(); ++i) {
    try {
      add_layer(i);
    } catch (Error& error) {
      const caffe::LayerParameter& layer = definition_.layer(i);
      error.add_context(cat("while setting up layer ", quoted(layer.name()), " (", layer.type(), ")"));
      throw;
    }
    activity_->beat();
  }
  check_names(layers_);
  store_ = collect_parameters(layers_);
  find_outputs();
  mark_backward();
  if (!options_.shapes_only) {
    bind_parameters(*context_, options_.dtype, trains_, layers_, store_);
    loss_ = Tensor(context_->device(), Shape{1}, DType::f64);
    partial_loss_ = Tensor(context_->device(), Shape{1}, DType::f64);
    context_->stream().zero(loss_.raw(), loss_.bytes());
  }
  bind();
}

void Net::add_layer(int index) {
  caffe::LayerParameter& parameter = *definition_.mutable_layer(index);
  LayerOptions options;
  options.sync_batch_norm = options_.sync_batch_norm;
  options.phase = parameter.phase() == caffe::TRAIN ? Phase::train : Phase::test;
  options.net_phase = options_.phase;
  options.dtype = options_.dtype;
  options.channels_last = *options_.channels_last;
  options.rank = options_.rank;
  options.devices = options_.devices;
  options.seed = options_.seed;
  options.net_name = name_;
  layers_.push_back(make_layer(parameter, options));
  plan_.emplace_back();
  Step& step = plan_.back();
  const Layer& made = layer(index);
  // A loss without a top gets one that nothing can refer to.
  const bool automatic =
      parameter.top_size() == 0 && made.arity().min_outputs > 0 && made.default_loss_weight(0) != 0;
  caffe::LayerParameter counted = parameter;
  if (automatic) counted.add_top("(automatic)");
  check_arity(counted, made.arity());

  for (const std::string& bottom : parameter.bottom()) step.inputs.push_back(blob_of_name_.at(bottom));
  choose_inputs(index);
  connect_outputs(index);
  if (automatic) {
    step.outputs.push_back(static_cast<int>(blobs_.size()));
    BlobState& state = blobs_.emplace_back();
    state.blob = std::make_unique<Blob>();
    state.blob->name = "(automatic)";
    state.producer = index;
    state.automatic = true;
  }
  for (std::size_t i = 0; i < step.outputs.size(); ++i) {
    const int output = static_cast<int>(i);
    const double weight = output < parameter.loss_weight_size()
                              ? static_cast<double>(parameter.loss_weight(output))
                              : made.default_loss_weight(output);
    step.loss_weights.push_back(weight);
    BlobState& state = blobs_[static_cast<std::size_t>(step.outputs[i])];
    state.blob->dtype = options_.dtype;
    state.loss_step = index;
    state.loss_output = output;
    step.layer_outputs.push_back(state.blob.get());
  }
  set_up_layer(index);
}

void Net::connect_outputs(int index) {
  const caffe::LayerParameter& parameter = definition_.layer(index);
  for (int i = 0; i < parameter.top_size(); ++i) {
    const std::string& top = parameter.top(i);
    if (i < parameter.bottom_size() && parameter.bottom(i) == top && works_in_place(index, i)) {
      step(index).outputs.push_back(blob_of_name_.at(top));
      continue;
    }
    const int number = static_cast<int>(blobs_.size());
    BlobState& state = blobs_.emplace_back();
    state.blob = std::make_unique<Blob>();
    state.blob->name = top;
    state.producer = index;
    step(index).outputs.push_back(number);
    blob_of_name_[top] = number;
  }
}

// Caffe lets a layer overwrite its input whatever other layers still need of it. Here `top: "x"` over
// `bottom: "x"` gets memory of its own where sharing it would change a result: the layer cannot, its input
// must be converted, or another layer's backward pass (or, behind a Split, its forward pass) reads what would
// be overwritten. Nor is anything won where the layer's own backward pass reads the input: it would have to
// keep a copy.
bool Net::works_in_place(int index, int output) const {
  if (!layer(index).allows_in_place() || (trains_ && layer(index).backward_reads_inputs())) return false;
  const int target = step(index).inputs[static_cast<std::size_t>(output)];
  if (step(index).layer_inputs[static_cast<std::size_t>(output)] != &blob(target)) return false;
  // All blobs whose data is the target's memory, through layers whose outputs share their input.
  std::set<int> family{target};
  for (int i = index - 1; i >= 0; --i) {
    int in_family = 0, source = -1;
    for (std::size_t o = 0; o < step(i).outputs.size(); ++o) {
      const int shared = layer(i).shared_input(static_cast<int>(o));
      if (shared < 0 || family.count(step(i).outputs[o]) == 0) continue;
      source = step(i).inputs[static_cast<std::size_t>(shared)];
      ++in_family;
    }
    if (in_family == 0) continue;
    if (step(i).outputs.size() > 1) return false;  // the other outputs have readers of their own
    family.insert(source);
  }
  if (!trains_) return true;
  for (int i = 0; i < index; ++i) {
    bool reads = false, writes = false;
    for (const int input : step(i).inputs) reads = reads || family.count(input) != 0;
    for (const int made : step(i).outputs) writes = writes || family.count(made) != 0;
    const bool both = reads && writes;  // in place, or sharing: its inputs and outputs are the same memory
    if ((reads || both) && layer(i).backward_reads_inputs()) return false;
    if ((writes || both) && layer(i).backward_reads_outputs()) return false;
  }
  return true;
}

void Net::set_up_layer(int index) {
  Step& current = step(index);
  if (take_given_shapes(index)) {
    current.given_shape = true;
    return;
  }
  try {
    layer(index).setup(current.layer_inputs, current.layer_outputs);
  } catch (Error& error) {
    if (options_.shapes_only && layer(index).is_source() && !current.outputs.empty())
      error.add_context(cat("(a source whose data does not exist needs a shape for its blob ",
                            quoted(blob(current.outputs[0]).name),
                            ", such as --shape=", blob(current.outputs[0]).name, ":32,3,224,224)"));
    throw;
  }
  reshape_layer(index);
}

/// For nets of shapes only: a source whose outputs' shapes were given is not opened. Outputs without one
/// (labels) get (N), N from the first output with a shape.
bool Net::take_given_shapes(int index) {
  if (!options_.shapes_only || !layer(index).is_source()) return false;
  const Shape* first = nullptr;
  for (const int output : step(index).outputs) {
    const auto given = options_.input_shapes.find(blob(output).name);
    if (given != options_.input_shapes.end() && first == nullptr) first = &given->second;
  }
  if (first == nullptr) return false;
  if (first->axes() == 0) bad_input("the given shape has no axes");
  for (const int output : step(index).outputs) {
    const auto given = options_.input_shapes.find(blob(output).name);
    blob(output).shape = given != options_.input_shapes.end() ? given->second : Shape{first->dim(0)};
  }
  return true;
}

void Net::find_outputs() {
  std::set<int> consumed;  // and not written again in place
  for (const Step& step : plan_) {
    consumed.insert(step.inputs.begin(), step.inputs.end());
    for (const int output : step.outputs) consumed.erase(output);
  }
  for (const auto& [name, number] : blob_of_name_)
    if (consumed.count(number) == 0) outputs_.push_back(&blob(number));
}

void Net::mark_backward() {
  std::vector<BackwardNode> nodes;
  for (int i = 0; i < steps(); ++i) {
    BackwardNode node;
    node.inputs = step(i).inputs;
    node.outputs = step(i).outputs;
    for (const double weight : step(i).loss_weights) node.weighted.push_back(weight != 0);
    for (std::size_t k = 0; k < node.inputs.size(); ++k)
      node.differentiable.push_back(layer(i).differentiable_input(static_cast<int>(k)));
    for (const bool wish : definition_.layer(i).propagate_down()) node.propagate_down.push_back(wish ? 1 : 0);
    for (const int owner : store_.owner[static_cast<std::size_t>(i)]) {
      const LearnableParameter& parameter = store_.parameters[static_cast<std::size_t>(owner)];
      node.learns = node.learns || (!parameter.is_statistic && parameter.lr_mult != 0);
    }
    nodes.push_back(std::move(node));
  }
  const std::vector<BackwardNeed> needs = prune_backward(nodes, definition_.force_backward());
  for (int i = 0; i < steps(); ++i) {
    step(i).needs_backward = trains_ && needs[static_cast<std::size_t>(i)].needs_backward;
    step(i).propagate = needs[static_cast<std::size_t>(i)].propagate;
    if (!trains_) step(i).propagate.assign(step(i).inputs.size(), false);
  }
  std::set<int> given;  // blobs whose gradient a layer further down writes
  for (int i = steps() - 1; i >= 0; --i) {
    for (const int output : step(i).outputs) step(i).receives.push_back(given.count(output) != 0);
    for (std::size_t k = 0; k < step(i).inputs.size(); ++k)
      if (step(i).propagate[k]) given.insert(step(i).inputs[k]);
  }
}

Blobs Net::inputs_of(int layer) const {
  Blobs blobs;
  for (const int input : plan_.at(static_cast<std::size_t>(layer)).inputs) blobs.push_back(&blob(input));
  return blobs;
}

Blobs Net::outputs_of(int layer) const {
  Blobs blobs;
  for (const int output : plan_.at(static_cast<std::size_t>(layer)).outputs) blobs.push_back(&blob(output));
  return blobs;
}

Blob* Net::find_blob(const std::string& name) const {
  const auto found = blob_of_name_.find(name);
  return found == blob_of_name_.end() ? nullptr : &blob(found->second);
}

double Net::loss_weight(const Blob& wanted) const {
  for (const BlobState& state : blobs_)
    if (state.blob.get() == &wanted)
      return step(state.loss_step).loss_weights[static_cast<std::size_t>(state.loss_output)];
  return 0;
}

bool Net::output_is_share(const Blob& wanted) const {
  for (const BlobState& state : blobs_)
    if (state.blob.get() == &wanted) return layer(state.loss_step).output_is_share(state.loss_output);
  return false;
}

}  // namespace banyan
