// Building and running a Net: layers in file order, each set up with the shapes of those before it.
#include "banyan/net/net.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <new>
#include <set>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"
#include "banyan/net/checkpoints.hpp"
#include "banyan/net/connections.hpp"
#include "banyan/net/filter.hpp"
#include "banyan/net/fork_settings.hpp"
#include "banyan/net/fusion.hpp"
#include "banyan/net/splits.hpp"
#include "banyan/observe/spans.hpp"
#include "banyan/tensor/values.hpp"

namespace banyan {
namespace {

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
  check_connections(filtered, parameter);
  caffe::NetParameter net = insert_splits(filtered);
  for (caffe::LayerParameter& layer : *net.mutable_layer()) {
    if (!layer.has_phase()) layer.set_phase(state.phase());
    layer.clear_blobs();
  }
  return net;
}

/// Layers with parameters are found by name in files; two with the same name would load each other's weights,
/// which is right where they share all of them.
void check_names(const std::vector<std::unique_ptr<Layer>>& layers) {
  std::map<std::string, std::vector<std::string>> shared_names;  // of the parameters, by layer
  std::set<std::string> again;
  for (const auto& layer : layers) {
    std::vector<std::string> shared;
    for (const Parameter& parameter : layer->parameters()) shared.push_back(parameter.share_name);
    const auto [first, is_new] = shared_names.emplace(layer->name(), shared);
    if (is_new) continue;
    const bool own = std::count(shared.begin(), shared.end(), "") > 0;
    if (own || first->second != shared)
      bad_input("two layers are named ", quoted(layer->name()),
                "; layers with parameters need names of their own, weights are stored under them");
    again.insert(layer->name());
  }
  if (again.erase("") > 0) log_warning("several layers have no name");
  if (again.empty()) return;
  constexpr std::size_t kShown = 3;
  std::vector<std::string> shown;
  for (const std::string& name : again)
    if (shown.size() < kShown) shown.push_back(quoted(name));
  if (again.size() > kShown) shown.push_back(cat(again.size() - kShown, " more"));
  log_warning(cat(again.size() == 1 ? "several layers are named " : "names that several layers have: ",
                  join(shown, ", ", " and ")));
}

LayerOptions layer_options(const NetOptions& net, DeviceKind device, const std::string& name,
                           caffe::Phase phase) {
  LayerOptions options;
  options.sync_batch_norm = net.sync_batch_norm;
  options.phase = phase_of(phase);
  options.net_phase = net.phase;
  options.dtype = net.dtype;
  options.channels_last = net.channels_last;
  options.volumes_last = net.channels_last && device == DeviceKind::cpu;  // cuDNN wants them contiguous
  options.parameters_stay = net.parameters_stay;
  options.rank = net.rank;
  options.devices = net.devices;
  options.seed = net.seed;
  options.net_name = name;
  return options;
}

}  // namespace

Net::Net(const caffe::NetParameter& parameter, const NetOptions& options, Context& context,
         Activity& activity)
    : name_(parameter.name()), options_(options), context_(&context), activity_(&activity) {
  options_.channels_last = options_.channels_last && options_.dtype == DType::f32;
  activity.enter(Stage::set_up);
  try {
    if (options_.rank == 0 && options_.phase == Phase::train && !options_.shapes_only)
      warn_of_fork_settings(parameter);
    definition_ = define_net(parameter, options_);
    precision_ = read_precision(definition_, options_.dtype, context.device().math());
    graph_.trains = options_.phase == Phase::train || definition_.force_backward();
    policy_.reuse_memory = options_.reuse_memory;
    policy_.fuse = options_.reuse_memory && options_.fuse;
    policy_.fuse_scale = options_.reuse_memory && options_.fuse_scale;
    policy_.cache = options_.parameters_stay ? options_.cache : 0;
    const bool computes_plainly = options_.dtype == DType::f32 && context.device().math() == Math::full;
    policy_.expansion_bytes = options_.parameters_stay && computes_plainly ? options_.expansion_bytes : 0;
    const bool saves = options_.reuse_memory && graph_.trains;
    const Checkpointing checkpointing =
        read_checkpoint(parameter, context.device().kind() == DeviceKind::cpu);
    policy_.segments = saves ? checkpointing.segments : 1;
    policy_.repeats = saves ? checkpointing.repeats : 0;
    policy_.in_place_abn = saves && parameter.in_place_abn();
    if (saves && !options_.keep_gradients) policy_.gradient_element = size_of(options_.dtype);
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
  for (std::size_t l = 0; l < layers_.size(); ++l)
    for (std::size_t s = 0; s < store_.owner[l].size(); ++s)
      graph_.layers[l].learns |= store_.learns(static_cast<int>(l), s);
  mark_backward(graph_, definition_.force_backward());
  if (options_.devices > 1 && options_.phase == Phase::train) check_shares(graph_);
  find_ready_layers();
  const std::vector<bool> varies = find_choices();
  for (const int output : graph_.outputs()) {
    if (!varies[output])
      outputs_.push_back(activations_.blobs[output].get());
    else if (options_.rank == 0 && !options_.shapes_only)
      log_warning(cat("output ", quoted(graph_.blobs[output].name),
                      " of the net has another number of values in each pass: it is neither displayed nor "
                      "averaged"));
  }
  if (!options_.shapes_only) {
    const bool flat_gradients = graph_.trains && policy_.gradient_element == 0;
    const FlatGradients gradients = !flat_gradients             ? FlatGradients::none
                                    : options_.gradients_travel ? FlatGradients::copied
                                                                : FlatGradients::kept;
    bind_parameters(*context_, options_.dtype, gradients, layers_, store_);
    executor_ = std::make_unique<Executor>(
        layers_, *context_, *activity_,
        [this](int layer, std::int64_t samples) { reshape_after(layer, samples); });
  }
  plan_and_bind();
}

/// The gradients of a Scale that a normalization runs are computed in that layer's step, which comes later.
void Net::find_ready_layers() {
  if (!policy_.fuse_scale) return;
  const std::vector<int> affines = find_affines(graph_, std::vector<bool>(layers_.size(), false));
  for (std::size_t norm = 0; norm < affines.size(); ++norm)
    for (std::size_t slot = 0; affines[norm] >= 0 && slot < store_.owner[affines[norm]].size(); ++slot) {
      LearnableParameter& parameter = store_.owner_of(affines[norm], slot);
      parameter.ready_layer = std::min(parameter.ready_layer, static_cast<int>(norm));
    }
}

void Net::add_layer(int index) {
  caffe::LayerParameter& parameter = *definition_.mutable_layer(index);
  layers_.push_back(
      make_layer(parameter, layer_options(options_, context_->device().kind(), name_, parameter.phase())));
  const LayerTraits& traits = layers_.back()->traits();
  banyan::add_layer(graph_, parameter, traits);
  graph_.layers.back().storage = precision_.storage_of(parameter, traits);
  add_layer_blobs(graph_, options_.dtype, activations_);
  set_up_layer(index);
}

void Net::set_up_layer(int index) {
  const LayerBlobs& blobs = activations_.layers[index];
  try {
    layers_[index]->read_settings();
    layers_[index]->setup(blobs.inputs, blobs.outputs);
  } catch (Error& error) {
    if (options_.shapes_only && layers_[index]->traits().source && !blobs.outputs.empty()) {
      const std::string& blob = blobs.outputs[0]->name;
      error.add_context(cat("(a source whose data does not exist needs a shape for its blob ", quoted(blob),
                            ", such as --shape=", blob, ":32,3,224,224)"));
    }
    throw;
  }
  graph_.layers[index].traits = layers_[index]->traits();
  reshape_layer(index);
}

void Net::reshape_layer(int index) {
  choose_inputs(graph_, index, options_.dtype, activations_);
  const LayerBlobs& blobs = activations_.layers[index];
  layers_[index]->reshape(blobs.inputs, blobs.outputs);
}

/// Gives the outputs of a layer that chose so many samples, and the layers after it, their shapes.
void Net::reshape_after(int index, std::int64_t samples) {
  const std::int64_t all = activations_.layers[index].inputs[0]->shape[0];
  for (Blob* output : activations_.layers[index].outputs) output->shape.set_dim(0, samples);
  for (const int after : after_[index]) {
    try {
      reshape_layer(after);
    } catch (Error& error) {
      error.add_context(cat("while reshaping layer ", quoted(layers_[after]->name()), " (",
                            layers_[after]->type(), ") for ", samples, " of ", all, " samples, chosen by ",
                            quoted(layers_[index]->name()), " (", layers_[index]->type(), ")"));
      throw;
    }
  }
}

/// Finds the layers after those that choose samples, and returns for each blob whether its shape depends on
/// the choice. What cannot do without samples is refused here, and not when a pass has none.
std::vector<bool> Net::find_choices() {
  const int count = static_cast<int>(layers_.size());
  std::vector<int> last(layers_.size(), -1);  // that chooses before the layer's shapes are known
  for (int chooser = 0; chooser < count; ++chooser) {
    if (!layers_[chooser]->traits().chooses_samples) continue;
    for (const int after : layers_after(graph_, chooser)) {
      if (!layers_[after]->carried().empty())
        bad_input("layer ", quoted(layers_[after]->name()), " (", layers_[after]->type(),
                  ") goes on in each pass with the states of the one before, which belong to other samples "
                  "behind layer ",
                  quoted(layers_[chooser]->name()), " (", layers_[chooser]->type(), ")");
      last[after] = chooser;
    }
  }
  after_.resize(layers_.size());
  for (int l = 0; l < count; ++l)
    if (last[l] >= 0) after_[last[l]].push_back(l);

  std::vector<Shape> planned;
  for (const auto& blob : activations_.blobs) planned.push_back(blob->shape);
  std::vector<bool> varies(planned.size(), false);
  for (int l = 0; l < count; ++l) {
    if (!layers_[l]->traits().chooses_samples) continue;
    const std::int64_t all = planned[graph_.layers[l].outputs[0]][0];
    reshape_after(l, all == 0 ? 1 : 0);
  }
  for (std::size_t b = 0; b < planned.size(); ++b) varies[b] = !(activations_.blobs[b]->shape == planned[b]);
  for (int l = 0; l < count; ++l)
    if (layers_[l]->traits().chooses_samples) reshape_after(l, planned[graph_.layers[l].outputs[0]][0]);
  return varies;
}

void Net::reshape() {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = *layers_[i];
    if (layer.traits().source) continue;
    try {
      reshape_layer(static_cast<int>(i));
    } catch (Error& error) {
      error.add_context(cat("while reshaping layer ", quoted(layer.name()), " (", layer.type(), ") on ",
                            activity_->device()));
      throw;
    }
  }
  plan_and_bind();
}

Plan Net::plan_with(const PlanPolicy& policy) const {
  std::vector<double> costs;  // in elements moved; a multiply-add costs about a tenth of that
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Blobs outputs = outputs_of(static_cast<int>(i));
    double cost = 0.1 * layers_[i]->forward_flops(inputs_of(static_cast<int>(i)), outputs);
    for (const Blob* output : outputs) cost += static_cast<double>(output->shape.count());
    costs.push_back(cost);
  }
  return make_plan(graph_, activations_, store_, costs, policy);
}

void Net::plan_and_bind() {
  plan_ = plan_with(policy_);
  if (policy_.segments != 1) policy_.cuts = plan_.cuts;
  if (!executor_) return;
  const bool places_gradients = policy_.gradient_element > 0;
  if (places_gradients) bind_gradients({}, plan_.parameter_gradients, layers_, store_);  // as in bind_memory
  executor_->bind(plan_, activations_);
  if (places_gradients) bind_gradients(executor_->memory(), plan_.parameter_gradients, layers_, store_);
}

Plan Net::plan_without_in_place_abn() const {
  PlanPolicy policy = policy_;
  policy.in_place_abn = false;
  return plan_with(policy);
}

void Net::observe_layers(Executor::LayerHook before, Executor::LayerHook after) {
  executor_->observe(std::move(before), std::move(after));
  policy_.fuse = false;
  policy_.cache = policy_.expansion_bytes = 0;
  reshape();  // plans are for all samples, whatever a layer chose in the last pass
}

void Net::probe_layers(std::function<void(int layer)> after_forward) {
  executor_->probe(std::move(after_forward));
  policy_.cache = policy_.expansion_bytes = 0;
  const auto expands = [](const PlanStep& step) { return step.expansion >= 0; };
  if (!plan_.parts.empty() || std::any_of(plan_.steps.begin(), plan_.steps.end(), expands)) reshape();
}

void Net::release_activations() {
  context_->synchronize();
  executor_.reset();
  for (const auto& blob : activations_.blobs) blob->data = blob->grad = Tensor();
  for (Blob* stand_in : activations_.tensors()) stand_in->data = stand_in->grad = Tensor();
}

/// Do sources' outputs have other shapes than those planned for?
bool Net::sources_changed() const {
  for (std::size_t b = 0; b < activations_.blobs.size(); ++b)
    if (plan_.tensors[b].outside && !(activations_.blobs[b]->shape == plan_.tensors[b].shape)) return true;
  return false;
}

/// Call inside a catch block: adds the device's current place to the exception.
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

void Net::set_input(const std::string& blob, const std::vector<double>& values) {
  std::vector<std::string> known;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    if (!layers_[l]->traits().filled_by_user) continue;
    const Blobs outputs = outputs_of(static_cast<int>(l));
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      known.push_back(outputs[k]->name);
      if (outputs[k]->name != blob) continue;
      if (static_cast<std::int64_t>(values.size()) != outputs[k]->shape.count())
        bad_input("blob ", quoted(blob), " has the shape ", outputs[k]->shape.to_string(), ", found ",
                  values.size(), " values for it");
      set_values(*context_, values, outputs[k]->data);
      layers_[l]->filled(k);
      return;
    }
  }
  bad_input("the net has no blob ", quoted(blob), " that a program fills (Input, MemoryData)",
            did_you_mean(blob, known));
}

void Net::forward(Pass& pass) {
  prepare(pass);
  run(pass);
}

void Net::prepare(Pass& pass) {
  if (!executor_) runtime_failure("this net was made for its shapes only and cannot run");
  try {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      Layer& layer = *layers_[i];
      if (!layer.traits().source) continue;
      activity_->enter(Stage::data, layer.name().c_str());
      const DataSpan span(*activity_, layer.name());
      layer.prepare(pass, activations_.layers[i].outputs);
    }
    if (sources_changed()) reshape();
    last_unchecked_ = activity_->state().iteration;
    if (!first_unchecked_) first_unchecked_ = last_unchecked_;
    executor_->prepare(pass);
  } catch (...) {
    rethrow_with_place();
  }
}

void Net::run(Pass& pass) {
  try {
    executor_->forward(pass);
  } catch (...) {
    rethrow_with_place();
  }
}

void Net::backward(Pass& pass, const std::function<void(int)>& layer_done) {
  if (!executor_ || !graph_.trains)
    runtime_failure("net ", quoted(name_), " was made without gradients and has no backward pass");
  try {
    if (policy_.gradient_element > 0) executor_->zero_gradients();
    executor_->backward(pass, layer_done);
  } catch (...) {
    rethrow_with_place();
  }
}

void Net::check_results() {
  context_->synchronize();
  const std::int64_t first = std::exchange(first_unchecked_, std::nullopt).value_or(last_unchecked_);
  for (const auto& layer : layers_) {
    try {
      layer->check_results(*context_);
    } catch (Error& error) {
      const std::string when = first == last_unchecked_
                                   ? cat("iteration ", last_unchecked_)
                                   : cat("one of the iterations ", first, " to ", last_unchecked_);
      error.add_context(cat("found in layer ", quoted(layer->name()), " (", layer->type(), ") on ",
                            activity_->device(), ", ", when));
      throw;
    }
  }
}

void Net::parameters_replaced() {
  for (const auto& layer : layers_) layer->parameters_replaced();
}

ops::KernelChoices Net::kernel_choices() const {
  ops::KernelChoices choices;
  for (const auto& layer : layers_)
    for (const auto& [work, kernel] : layer->kernel_choices())
      choices[cat("layer ", quoted(layer->name()), " ", work)] = kernel;
  return choices;
}

Blobs Net::inputs_of(int layer) const {
  Blobs blobs;
  for (const int input : graph_.layers.at(layer).inputs) blobs.push_back(activations_.blobs[input].get());
  return blobs;
}

Blobs Net::outputs_of(int layer) const { return activations_.layers.at(layer).outputs; }

bool Net::keeps(const Blob& blob) const {
  const int number = number_of(blob);
  return !options_.reuse_memory || graph_.from_source(number) || graph_.loss_weight(number) != 0 ||
         graph_.blobs[number].readers.empty();
}

Blob* Net::find_blob(const std::string& name) const {
  const auto found = graph_.by_name.find(name);
  return found == graph_.by_name.end() ? nullptr : activations_.blobs[found->second].get();
}

int Net::number_of(const Blob& wanted) const {
  for (std::size_t b = 0; b < activations_.blobs.size(); ++b)
    if (activations_.blobs[b].get() == &wanted) return static_cast<int>(b);
  runtime_failure("blob ", quoted(wanted.name), " is not one of net ", quoted(name_));
}

double Net::loss_weight(const Blob& blob) const { return graph_.loss_weight(number_of(blob)); }

bool Net::output_is_share(const Blob& blob) const {
  const int number = number_of(blob);
  return graph_.blobs[number].output < graph_.producer_of(number).traits.shares;
}

}  // namespace banyan
