#include "run_description.hpp"

#include <google/protobuf/text_format.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "banyan/device/cuda_devices.hpp"
#include "banyan/layers/batch_norm.hpp"
#include "net_summary.hpp"
#include "parameter_meter.hpp"
#include "processor_name.hpp"
#include "vitals.hpp"

namespace banyan {
namespace {

std::string text_of(const caffe::NetParameter& net) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(net, &text);
  return text;
}

/// A file's name, not the description of a net that the solver contains.
std::string path_of(const std::string& origin) {
  std::error_code ignored;
  return std::filesystem::exists(origin, ignored) ? origin : "";
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string gpu_name(int ordinal) {
  std::istringstream lines(describe_cuda_device(ordinal));
  const std::string label = "Name:";
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(label))
      return line.substr(std::min(line.find_first_not_of(' ', label.size()), line.size()));
  return "GPU";
}

std::vector<metrics::Start::DeviceDescription> devices_of(const Run& run) {
  std::vector<metrics::Start::DeviceDescription> devices;
  for (std::size_t rank = 0; rank < run.devices.size(); ++rank) {
    const Device& device = *run.devices[rank];
    metrics::Start::DeviceDescription& described = devices.emplace_back();
    described.name = device.name();
    described.kind = device.kind() == DeviceKind::cpu ? "cpu" : "gpu";
    described.description = device.kind() == DeviceKind::cpu ? processor_name() : gpu_name(device.ordinal());
    described.threads = device.threads();
    if (run.cores) described.cores = run.cores->of(static_cast<int>(rank));
    described.batch = run.team.boards[rank].share;
  }
  return devices;
}

std::optional<metrics::Start::Tree> tree_of(const Run& run) {
  if (run.devices.size() < 2) return std::nullopt;
  metrics::Start::Tree described;
  const parallel::Tree& tree = *run.tree;
  std::vector<std::string> names;
  for (const auto& device : run.devices) names.push_back(device->name());
  for (int node = 0; node < tree.size(); ++node) described.parents.push_back(tree.parent(node, tree.root()));
  described.direct = tree.to_string() == "direct";
  described.text = tree.draw(names);
  for (const parallel::MeasuredLinks::Edge& edge : run.links.edges)
    described.links.push_back({edge.reader, edge.owner,
                               name_of(run.link_classes->at(edge.reader, edge.owner)), edge.copies.latency_s,
                               edge.copies.bytes_per_s});
  for (int a = 0; a < tree.size(); ++a) {
    std::vector<std::string>& row = described.classes.emplace_back();
    for (int b = 0; b < tree.size(); ++b) row.emplace_back(a == b ? "" : name_of(run.link_classes->at(a, b)));
  }
  return described;
}

std::vector<metrics::Start::LayerDescription> layers_of(const Net& net, const NetSummary& summary) {
  std::vector<metrics::Start::LayerDescription> layers;
  for (std::size_t i = 0; i < summary.layers.size(); ++i) {
    const LayerSummary& layer = summary.layers[i];
    metrics::Start::LayerDescription& described = layers.emplace_back();
    described.name = layer.name;
    described.type = layer.type;
    described.inputs = layer.inputs;
    for (const auto& [name, shape] : layer.outputs) described.outputs.emplace_back(name, shape.dims());
    for (const Parameter& parameter : net.layers()[i]->parameters())
      described.blobs.push_back(parameter.shape.dims());
    described.parameters = layer.parameters;
    described.shared_parameters = layer.shared_parameters;
    described.output_bytes = layer.output_bytes;
    described.multiply_adds = layer.multiply_adds;
    described.in_place = layer.in_place;
  }
  return layers;
}

metrics::Start::Memory memory_of(const Run& run, const Net& net, const NetSummary& summary) {
  metrics::Start::Memory memory;
  memory.parameters = summary.parameter_bytes;
  const ParameterStore& store = net.parameter_store();
  if (store.flat_gradients.defined())
    memory.gradients = static_cast<std::int64_t>(store.flat_gradients.bytes());
  if (store.flat_values.defined())
    memory.optimizer =
        static_cast<std::int64_t>(store.flat_values.bytes()) * histories_of(run.solver.update.rule);
  memory.activations = summary.activation_bytes;
  memory.activations_unshared = summary.unshared_bytes;
  return memory;
}

metrics::Start::MemoryPlan plan_of(const Net& net) {
  const Plan& plan = net.plan();
  const std::vector<ParameterName> parameters = parameter_names(net);
  static constexpr const char* kWork[] = {"forward", "convert", "recompute", "backward"};
  metrics::Start::MemoryPlan described;
  for (const PlanStep& step : plan.steps)
    described.steps.push_back({kWork[static_cast<std::size_t>(step.work)], step.layer});
  described.backward = plan.backward;
  for (const PlannedBlock& block : plan.blocks) {
    if (block.bytes == 0) continue;
    metrics::Start::Block& one = described.blocks.emplace_back();
    one.name = block.tensor < 0 ? parameters[block.parameter].name : plan.tensors[block.tensor].name;
    one.gradient = block.gradient;
    one.offset = block.offset;
    one.bytes = block.bytes;
    for (const Span& span : block.spans) one.spans.emplace_back(span.first, span.last);
  }
  return described;
}

}  // namespace

metrics::Start describe_run(const Run& run, const Net& net, const Sources& sources) {
  const NetSummary summary = summary_of(net);
  const SolverSettings& solver = run.solver;
  std::error_code ignored;
  metrics::Start start;
  start.version = BANYAN_VERSION;
  if (run.resume) start.resumed_from = run.resume->state_path;
  start.working_directory = std::filesystem::current_path(ignored).string();
  start.host = host_name();
  start.processor = processor_name();
  start.precision = name_of(run.options.precision);
  start.seed = std::to_string(run.seed);
  start.weights = run.options.weights;
  start.command_line = run.options.metrics.command_line;
  start.process = ::getpid();
  start.host_memory = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  start.max_iter = solver.max_iter;
  start.display = run.interval;
  start.average_loss = solver.average_loss;
  start.iter_size = solver.iter_size;
  start.histograms = solver.metrics.histograms;
  start.images = solver.metrics.images;
  start.solver = {"solver", run.options.solver_path, solver.text};
  start.nets.push_back({"train", path_of(run.train_net.origin), text_of(run.train_net.net)});
  for (std::size_t k = 0; k < run.test_nets.size(); ++k)
    start.nets.push_back(
        {"test" + std::to_string(k), path_of(run.test_nets[k].origin), text_of(run.test_nets[k].net)});
  start.devices = devices_of(run);
  start.tree = tree_of(run);
  start.samples_per_iteration = run.outcome.samples_per_iteration;
  start.datasets = sources.describe();
  start.layers = layers_of(net, summary);
  start.memory = memory_of(run, net, summary);
  start.plan = plan_of(net);
  return start;
}

namespace {

/// Of an iteration of the run that wrote the snapshot: a mean, if that changed.
std::optional<double> samples_before(const Run& run) {
  if (!run.resume || run.resume->state.iter() <= 0) return std::nullopt;
  for (const auto& position : run.resume->state.banyan().source())
    if (position.net() == "train")
      return static_cast<double>(position.consumed()) / static_cast<double>(run.resume->state.iter());
  return std::nullopt;
}

/// Of the layers that take statistics of their batch.
std::vector<WarningFacts::Normalization> normalizations_of(const Net& net, int devices) {
  std::vector<WarningFacts::Normalization> found;
  for (std::size_t l = 0; l < net.layers().size(); ++l) {
    const auto* layer = dynamic_cast<const BatchNormalization*>(net.layers()[l].get());
    if (layer == nullptr || layer->uses_stored()) continue;
    const Blobs inputs = net.inputs_of(static_cast<int>(l));
    const std::int64_t samples = inputs[0]->shape.axes() > 0 ? inputs[0]->shape[0] : 1;
    const BatchNormDialect& dialect = layer->dialect();
    int group = 1;
    if (dialect.sync) group = dialect.sync_group_size > 0 ? dialect.sync_group_size : devices;
    found.push_back({layer->name(), samples * group, samples * devices});
  }
  return found;
}

}  // namespace

WarningFacts warning_facts(const Run& run, const Net& net, const Sources& sources, int devices) {
  const SolverSettings& solver = run.solver;
  WarningFacts facts;
  facts.sources = sources.facts(solver.test.interval > 0 ? solver.test.batches : std::vector<int>{});
  facts.normalizations = normalizations_of(net, devices);
  for (const LearnableParameter& parameter : net.parameters())
    facts.parameters.push_back({parameter.layer,
                                parameter.learns() && parameter.offset >= 0 && !solver.update.disabled,
                                parameter.value.shape().axes() > 1});
  for (const int layer : rectifiers_of(net))
    facts.rectifiers.push_back(net.layers()[static_cast<std::size_t>(layer)]->name());
  facts.iter_size = solver.iter_size;
  facts.steps_by_gradient =
      (solver.update.rule == ops::UpdateRule::sgd || solver.update.rule == ops::UpdateRule::nesterov) &&
      solver.update.layer_wise == LayerWise::none;
  facts.clip_norm = solver.clip_norm;
  facts.samples = run.outcome.samples_per_iteration;
  facts.base_lr = solver.rate.base_lr;
  facts.stated_batch_size = solver.rate.stated_batch_size;
  facts.scales_rate = solver.rate.base_batch_size.has_value();
  facts.samples_before = samples_before(run);
  return facts;
}

}  // namespace banyan
