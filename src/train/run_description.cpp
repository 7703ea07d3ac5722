#include "run_description.hpp"

#include <google/protobuf/text_format.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "banyan/device/cuda_devices.hpp"
#include "net_summary.hpp"
#include "processor_name.hpp"

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
  const Tensor& gradients = net.parameter_store().flat_gradients;
  if (gradients.defined()) memory.gradients = static_cast<std::int64_t>(gradients.bytes());
  memory.optimizer = memory.gradients * histories_of(run.solver.update.rule);
  memory.activations = summary.activation_bytes;
  memory.activations_unshared = summary.unshared_bytes;
  return memory;
}

metrics::Start::MemoryPlan plan_of(const Plan& plan) {
  static constexpr const char* kWork[] = {"forward", "convert", "recompute", "backward"};
  metrics::Start::MemoryPlan described;
  for (const PlanStep& step : plan.steps)
    described.steps.push_back({kWork[static_cast<std::size_t>(step.work)], step.layer});
  described.backward = plan.backward;
  for (const PlannedBlock& block : plan.blocks) {
    if (block.bytes == 0) continue;
    metrics::Start::Block& one = described.blocks.emplace_back();
    one.name = plan.tensors[block.tensor].name;
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
  start.plan = plan_of(net.plan());
  return start;
}

}  // namespace banyan
