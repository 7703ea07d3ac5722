#include "banyan/metrics/json_lines.hpp"

#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

#include "banyan/base/error.hpp"
#include "banyan/base/json.hpp"
#include "banyan/base/log.hpp"

namespace banyan::metrics {
namespace {

/// Adds the members of one kind of record to an object; absent values are left out.
class Members {
 public:
  explicit Members(JsonObject& object) : object_(object) {}

  void operator()(const Start& start) {
    object_.add("format", 1).add("version", start.version).add("max_iter", start.max_iter);
    text("resumed_from", start.resumed_from);
    texts("weights", start.weights);
    texts("command_line", start.command_line);
    text("working_directory", start.working_directory);
    if (start.process > 0) object_.add("process", start.process);
    JsonObject host;
    host.add("name", start.host).add("processor", start.processor);
    host.add("cores", start.host_cores).add("memory", start.host_memory);
    object_.raw("host", host.text());
    text("seed", start.seed);
    text("precision", start.precision);
    object_.add("display", start.display).add("average_loss", start.average_loss);
    object_.add("iter_size", start.iter_size);
    if (start.histograms > 0) object_.add("histograms", start.histograms);
    if (start.images > 0) object_.add("images", start.images);
    object_.raw("solver", JsonObject().add("path", start.solver.path).add("text", start.solver.text).text());
    object_.array("nets", start.nets, [](const Start::Text& net) {
      return JsonObject().add("name", net.name).add("path", net.path).add("text", net.text).text();
    });
    object_.array("devices", start.devices, [](const Start::DeviceDescription& device) {
      JsonObject json;
      json.add("name", device.name).add("kind", device.kind).add("description", device.description);
      json.add("threads", device.threads);
      if (!device.cores.empty()) json.raw("cores", integers(device.cores));
      return json.add("batch", device.batch).text();
    });
    if (start.tree) object_.raw("tree", tree(*start.tree));
    object_.add("samples_per_iteration", start.samples_per_iteration);
    object_.array("datasets", start.datasets, [](const Start::DataSet& data) {
      JsonObject json;
      json.add("net", data.net).add("layer", data.layer).add("source", data.source);
      return json.add("records", data.records).text();
    });
    object_.array("layers", start.layers, layer);
    const Start::Memory& memory = start.memory;
    JsonObject bytes;
    bytes.add("parameters", memory.parameters).add("gradients", memory.gradients);
    bytes.add("optimizer", memory.optimizer).add("activations", memory.activations);
    object_.raw("memory", bytes.add("activations_unshared", memory.activations_unshared).text());
    object_.raw("plan", plan(start.plan));
  }

  void operator()(const Train& train) {
    object_.add("loss", train.loss);
    number("epoch", train.epoch);
    if (!train.outputs.empty()) object_.array("outputs", train.outputs, output);
    number("rate", train.rate);
    number("gradient_norm", train.gradient_norm);
    if (train.iterations > 0) object_.add("iterations", train.iterations);
    number("samples_per_second", train.samples_per_second);
    number("seconds", train.seconds);
    if (!train.devices.empty()) object_.array("devices", train.devices, device);
  }

  void operator()(const Test& test) {
    object_.add("net", test.net).add("name", test.name()).add("loss", test.loss);
    object_.array("outputs", test.outputs, output);
    object_.add("batches", test.batches).add("seconds", test.seconds);
  }

  void operator()(const Parameters& parameters) {
    object_.array("parameters", parameters.entries, [](const Parameters::Entry& entry) {
      JsonObject json;
      json.add("name", entry.name).add("layer", entry.layer).add("index", entry.index);
      json.add("count", entry.count).add("norm", entry.norm);
      if (entry.gradient_norm) json.add("gradient_norm", *entry.gradient_norm);
      if (entry.update_ratio) json.add("update_ratio", *entry.update_ratio);
      return json.text();
    });
  }

  void operator()(const Layers& layers) {
    object_.add("sampled", layers.sampled);
    object_.array("layers", layers.layers, [](const Layers::Time& time) {
      JsonObject json;
      json.add("name", time.name).add("forward", time.forward);
      return json.add("backward", time.backward).text();
    });
  }

  void operator()(const Snapshot& snapshot) {
    object_.add("model", snapshot.model).add("state", snapshot.state);
    object_.add("bytes", snapshot.bytes).add("seconds", snapshot.seconds);
  }

  void operator()(const Warning& warning) {
    object_.add("text", warning.text);
    text("advice", warning.advice);
  }

  void operator()(const Pictures&) {}

  void operator()(const End& end) {
    object_.add("reason", end.reason);
    text("error", end.error);
    object_.add("seconds", end.seconds);
  }

 private:
  void text(const char* name, const std::string& value) {
    if (!value.empty()) object_.add(name, value);
  }
  void texts(const char* name, const std::vector<std::string>& values) {
    if (!values.empty()) object_.raw(name, json_strings(values));
  }
  void number(const char* name, const std::optional<double>& value) {
    if (value) object_.add(name, *value);
  }

  template <class Integers>
  static std::string integers(const Integers& values) {
    std::vector<std::string> items;
    for (const auto value : values) items.push_back(std::to_string(value));
    return json_array(items);
  }

  static std::string output(const Output& output) {
    JsonObject json;
    json.add("name", output.name).array("values", output.values, json_number);
    return json.add("weight", output.weight).text();
  }

  static std::string device(const Train::Device& device) {
    JsonObject json, memory, milliseconds;
    memory.add("in_use", device.memory_in_use).add("peak", device.memory_peak);
    json.add("name", device.name).raw("memory", memory.text());
    if (device.waiting_for_data) json.add("waiting_for_data", *device.waiting_for_data);
    if (!device.sampled) return json.text();
    for (const auto& [name, value] : device.milliseconds) milliseconds.add(name, value);
    return json.add("sampled", *device.sampled).raw("milliseconds", milliseconds.text()).text();
  }

  static std::string tree(const Start::Tree& tree) {
    JsonObject json;
    json.raw("parents", integers(tree.parents)).add("direct", tree.direct).add("text", tree.text);
    json.array("links", tree.links, [](const Start::Link& link) {
      JsonObject one;
      one.add("from", link.from).add("to", link.to).add("class", link.link_class);
      one.add("latency_seconds", link.latency_seconds);
      return one.add("bytes_per_second", link.bytes_per_second).text();
    });
    return json.array("classes", tree.classes, json_strings).text();
  }

  static std::string layer(const Start::LayerDescription& layer) {
    JsonObject json;
    json.add("name", layer.name).add("type", layer.type).raw("inputs", json_strings(layer.inputs));
    json.array("outputs", layer.outputs, [](const auto& output) {
      return JsonObject().add("name", output.first).raw("shape", integers(output.second)).text();
    });
    json.array("blobs", layer.blobs, [](const Dims& dims) { return integers(dims); });
    json.add("parameters", layer.parameters).add("shared_parameters", layer.shared_parameters);
    json.add("multiply_adds", layer.multiply_adds).add("in_place", layer.in_place);
    return json.add("output_bytes", layer.output_bytes).text();
  }

  static std::string plan(const Start::MemoryPlan& plan) {
    JsonObject json;
    json.array("steps", plan.steps, [](const Start::Step& step) {
      return JsonObject().add("work", step.work).add("layer", step.layer).text();
    });
    json.add("backward", plan.backward);
    json.array("blocks", plan.blocks, [](const Start::Block& block) {
      JsonObject one;
      one.add("name", block.name).add("gradient", block.gradient);
      one.add("offset", block.offset).add("bytes", block.bytes);
      return one
          .array("spans", block.spans,
                 [](const std::pair<int, int>& span) { return cat("[", span.first, ", ", span.second, "]"); })
          .text();
    });
    return json.text();
  }

  JsonObject& object_;
};

const char* kind_of(const Record& record) {
  static constexpr const char* kKinds[] = {"start",    "train",   "test",     "parameters", "layers",
                                           "snapshot", "warning", "pictures", "end"};
  static_assert(std::size(kKinds) == std::variant_size_v<decltype(Record::what)>);
  return kKinds[record.what.index()];
}

/// What begins every line; the rest of a line is not looked at.
struct Beginning {
  std::string_view kind;
  std::int64_t iteration = 0;
};
constexpr std::string_view kBeforeKind = R"({"kind": ")", kBeforeIteration = R"(", "iteration": )";

std::optional<Beginning> beginning_of(std::string_view line) {
  if (!line.starts_with(kBeforeKind) || !line.ends_with('}')) return std::nullopt;
  line.remove_prefix(kBeforeKind.size());
  Beginning beginning;
  beginning.kind = line.substr(0, line.find('"'));
  line.remove_prefix(beginning.kind.size());
  if (!line.starts_with(kBeforeIteration)) return std::nullopt;
  line.remove_prefix(kBeforeIteration.size());
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), beginning.iteration);
  if (error != std::errc() || end == line.data() + line.size() || *end != ',') return std::nullopt;
  return beginning;
}

/// Does the line tell of something that a run whose next iteration is `iteration` will tell again?
bool will_be_repeated(const Beginning& line, std::int64_t iteration) {
  // A snapshot after this many iterations is where the run continues.
  if (line.kind == "snapshot" || line.kind == "end") return line.iteration > iteration;
  return line.iteration >= iteration;
}

/// Bytes of the lines that stay; the first one that does not ends them, because later ones are of the same
/// part of the run.
std::int64_t bytes_before(const std::string& path, std::int64_t iteration) {
  std::ifstream file(path, std::ios::binary);
  std::int64_t bytes = 0;
  std::int64_t number = 1;
  for (std::string line; std::getline(file, line); ++number) {
    if (file.eof()) return bytes;  // without a newline
    const auto beginning = beginning_of(line);
    if (!beginning) {
      if (number == 1) bad_input(path, " holds something other than metrics");
      log_warning(cat(path, ": line ", number, " is damaged; it and what follows it is removed"));
      return bytes;
    }
    if (will_be_repeated(*beginning, iteration)) return bytes;
    bytes += static_cast<std::int64_t>(line.size()) + 1;
  }
  return bytes;
}

}  // namespace

std::string json_line(const Record& record) {
  if (std::holds_alternative<Pictures>(record.what)) return "";
  JsonObject object;
  object.add("kind", kind_of(record)).add("iteration", record.iteration).add("time", record.time);
  std::visit(Members(object), record.what);
  return object.text();
}

JsonLines::JsonLines(const std::string& path, std::int64_t iteration, Existing existing) : file_(path) {
  if (file_.size() == 0) return;
  const bool keeps = existing == Existing::resume;
  const std::int64_t kept = bytes_before(path, keeps ? iteration : std::numeric_limits<std::int64_t>::max());
  if (existing == Existing::refuse && kept > 0) refuse_existing(path);
  file_.cut(keeps ? kept : 0);
}

void JsonLines::write(const Record& record) {
  const std::string line = json_line(record);
  if (!line.empty()) file_.append(line + "\n");
}

}  // namespace banyan::metrics
