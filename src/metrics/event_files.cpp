#include "banyan/metrics/event_files.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <iomanip>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/metrics/record_file.hpp"
#include "proto/tensorboard_subset.pb.h"

namespace banyan::metrics {
namespace {

namespace fs = std::filesystem;
namespace tb = banyan_tensorboard;

constexpr const char* kPrefix = "events.out.tfevents.";
constexpr const char* kSuffix = ".banyan";
constexpr std::int64_t kEver = std::numeric_limits<std::int64_t>::max();

/// Our files in the order of their names, which is that of their times.
std::vector<fs::path> files_in(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// In the file's name; 0 if there is none.
std::int64_t seconds_in(const fs::path& file) {
  const std::string digits = file.filename().string().substr(std::string_view(kPrefix).size());
  std::int64_t seconds = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), seconds);
  return seconds;
}

/// Later than all of `files`, so that its name comes after theirs.
std::string new_name(const std::vector<fs::path>& files) {
  using namespace std::chrono;
  std::int64_t seconds = duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch()).count();
  for (const fs::path& file : files) seconds = std::max(seconds, seconds_in(file) + 1);
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::ostringstream name;
  name << kPrefix << std::setw(10) << std::setfill('0') << seconds << '.' << host << '.' << ::getpid()
       << kSuffix;
  return name.str();
}

/// What a file tells of the steps before one.
struct Kept {
  std::int64_t bytes = 0;
  bool anything = false, graph = false;
};
Kept before_step(const fs::path& path, std::int64_t step) {
  Kept kept;
  kept.bytes = read_frames(path, [&](const std::string& record) {
    tb::Event event;
    if (!event.ParseFromString(record)) return false;
    if (event.what_case() == tb::Event::kFileVersion) return true;
    if (event.step() >= step) return false;
    kept.anything = kept.anything || event.what_case() != tb::Event::kSessionLog;
    kept.graph = kept.graph || event.what_case() == tb::Event::kGraphDef;
    return true;
  });
  return kept;
}

void add_scalar(tb::Summary& summary, const std::string& tag, double value) {
  auto& entry = *summary.add_value();
  entry.set_tag(tag);
  entry.set_simple_value(static_cast<float>(value));
}

void add_scalar(tb::Summary& summary, const std::string& tag, const std::optional<double>& value) {
  if (value) add_scalar(summary, tag, *value);
}

/// Names of curves beside those of the outputs.
constexpr const char* kOwnCurves[] = {"loss", "learning_rate", "gradient_norm", "epoch"};

void add_outputs(tb::Summary& summary, const std::string& prefix, const std::vector<Output>& outputs) {
  for (const Output& output : outputs)
    for (std::size_t i = 0; i < output.values.size(); ++i)
      add_scalar(summary,
                 cat(prefix, output.name, contains(kOwnCurves, output.name) ? "_output" : "",
                     output.values.size() > 1 ? cat("/", i) : ""),
                 output.values[i]);
}

void add_histogram(tb::Summary& summary, const std::string& tag, const Histogram& from) {
  if (from.count == 0) return;
  auto& entry = *summary.add_value();
  entry.set_tag(tag);
  auto& histogram = *entry.mutable_histo();
  histogram.set_min(from.min);
  histogram.set_max(from.max);
  histogram.set_num(static_cast<double>(from.count));
  histogram.set_sum(from.sum);
  histogram.set_sum_squares(from.sum_of_squares);
  histogram.mutable_bucket_limit()->Add(from.limits.begin(), from.limits.end());
  histogram.mutable_bucket()->Add(from.counts.begin(), from.counts.end());
}

/// Shown as Markdown.
void add_text(tb::Summary& summary, const std::string& tag, const std::string& text) {
  auto& entry = *summary.add_value();
  entry.set_tag(tag);
  entry.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  auto& tensor = *entry.mutable_tensor();
  tensor.set_dtype(tb::DT_STRING);
  tensor.mutable_tensor_shape()->add_dim()->set_size(1);
  tensor.add_string_val(text);
}

/// As it is, in a fixed-width font.
std::string as_code(const std::string& text) {
  std::string code;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) code += "    " + line + "\n";
  return code;
}

std::string about(const Start& start) {
  std::string text = "| | |\n|---|---|\n";
  const auto add = [&text](const std::string& what, const std::string& value) {
    if (value.empty()) return;
    text += cat("| ", what, " | ");
    for (const char c : value) text += c == '|' ? "\\|" : c == '\n' ? std::string(" ") : std::string(1, c);
    text += " |\n";
  };
  std::string command, devices;
  for (const std::string& word : start.command_line) command += (command.empty() ? "" : " ") + word;
  for (const Start::DeviceDescription& device : start.devices)
    devices += cat(devices.empty() ? "" : ", ", device.name, " (", device.description, ")");
  add("program", "Banyan " + start.version);
  add("command", command);
  add("folder", start.working_directory);
  add("host", start.host);
  add("devices", devices);
  add("precision", start.precision);
  add("samples per iteration", std::to_string(start.samples_per_iteration));
  add("seed", start.seed);
  add("resumed from", start.resumed_from);
  return text;
}

/// A node for each layer, named as it is; Splits, most of which the program inserted, are left out.
tb::GraphDef graph_of(const std::vector<Start::LayerDescription>& layers) {
  tb::GraphDef graph;
  std::set<std::string> names;
  std::map<std::string, std::string> makers;  // node and output that made each blob last
  for (const Start::LayerDescription& layer : layers) {
    if (layer.type == "Split") {
      for (const auto& output : layer.outputs) makers[output.first] = makers[layer.inputs.at(0)];
      continue;
    }
    std::string name = layer.name;
    for (int i = 2; !names.insert(name).second; ++i) name = cat(layer.name, "_", i);
    auto& node = *graph.add_node();
    node.set_name(name);
    node.set_op(layer.type);
    for (const std::string& input : layer.inputs) node.add_input(makers[input]);
    const auto add = [&node](const char* key) -> tb::AttrValue& {
      auto& entry = *node.add_attr();
      entry.set_key(key);
      return *entry.mutable_value();
    };
    auto& shapes = *add("_output_shapes").mutable_list();
    for (std::size_t i = 0; i < layer.outputs.size(); ++i) {
      makers[layer.outputs[i].first] = i == 0 ? name : cat(name, ":", i);
      auto& shape = *shapes.add_shape();
      for (const std::int64_t length : layer.outputs[i].second) shape.add_dim()->set_size(length);
    }
    add("parameters").set_s(std::to_string(layer.parameters));
    add("multiply_adds").set_s(cat(layer.multiply_adds));
  }
  return graph;
}

/// The curves, histograms, pictures and texts of a record.
struct Summarize {
  tb::Summary& summary;

  void operator()(const Start& start) const {
    add_text(summary, "run", about(start));
    add_text(summary, "solver", as_code(start.solver.text));
    for (const Start::Text& net : start.nets) add_text(summary, net.name + "_net", as_code(net.text));
  }
  void operator()(const Train& train) const {
    add_scalar(summary, "train/loss", train.loss);
    add_scalar(summary, "train/learning_rate", train.rate);
    add_scalar(summary, "train/gradient_norm", train.gradient_norm);
    add_scalar(summary, "train/epoch", train.epoch);
    add_outputs(summary, "train/", train.outputs);
    add_scalar(summary, "speed/samples_per_second", train.samples_per_second);
    for (const Train::Device& device : train.devices) {
      add_scalar(summary, "memory/" + device.name, static_cast<double>(device.memory_peak));
      add_scalar(summary, cat("data/", device.name, "/waiting"), device.waiting_for_data);
      for (const auto& [name, value] : device.milliseconds)
        add_scalar(summary, cat("time/", device.name, "/", name), value);
    }
  }
  void operator()(const Test& test) const {
    add_scalar(summary, test.name() + "/loss", test.loss);
    add_outputs(summary, test.name() + "/", test.outputs);
  }
  void operator()(const Parameters& parameters) const {
    for (const Parameters::Entry& entry : parameters.entries) {
      add_scalar(summary, "norm/" + entry.name, entry.norm);
      add_scalar(summary, "gradient_norm/" + entry.name, entry.gradient_norm);
      add_scalar(summary, "update_ratio/" + entry.name, entry.update_ratio);
      add_histogram(summary, (entry.statistic ? "statistics/" : "values/") + entry.name, entry.values);
      add_histogram(summary, "gradients/" + entry.name, entry.gradients);
    }
  }
  void operator()(const Pictures& pictures) const {
    for (const Pictures::Picture& picture : pictures.pictures) {
      auto& entry = *summary.add_value();
      entry.set_tag(picture.tag);
      auto& image = *entry.mutable_image();
      image.set_width(picture.width);
      image.set_height(picture.height);
      image.set_colorspace(picture.channels);
      image.set_encoded_image_string(picture.png.data(), picture.png.size());
    }
  }
  void operator()(const Warning& warning) const {
    add_text(summary, "warnings", warning.text + (warning.advice.empty() ? "" : "\n\n" + warning.advice));
  }
  void operator()(const Layers&) const {}
  void operator()(const Snapshot&) const {}
  void operator()(const End&) const {}
};

std::string frame_of(const tb::Event& event) { return framed(event.SerializeAsString()); }

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

EventFiles::EventFiles(const std::string& folder, std::int64_t iteration, Existing existing) {
  const std::vector<fs::path> files = files_in(folder);
  for (const fs::path& file : files) {
    const Kept kept = before_step(file, existing == Existing::resume ? iteration : kEver);
    if (existing == Existing::refuse && kept.anything) refuse_existing(folder);
    if (existing == Existing::resume && kept.anything)
      io::AppendFile(file).cut(kept.bytes);
    else
      fs::remove(file);
    has_graph_ = has_graph_ || (existing == Existing::resume && kept.graph);
  }
  tb::Event version, session;
  version.set_wall_time(now());
  version.set_file_version("brain.Event:2");
  session.set_wall_time(version.wall_time());
  session.set_step(iteration);
  // A TensorBoard that has read what was just cut off forgets it.
  session.mutable_session_log()->set_status(tb::SessionLog::START);
  file_ = std::make_unique<io::AppendFile>((fs::path(folder) / new_name(files)).string());
  file_->append(frame_of(version) + frame_of(session));
}

EventFiles::~EventFiles() = default;

const std::string& EventFiles::path() const { return file_->path(); }

void EventFiles::sync() { file_->sync(); }

void EventFiles::write(const Record& record) {
  tb::Event event;
  event.set_wall_time(record.time);
  event.set_step(record.iteration);
  std::visit(Summarize{*event.mutable_summary()}, record.what);
  if (event.summary().value_size() == 0) return;
  std::string frames = frame_of(event);
  const auto* start = std::get_if<Start>(&record.what);
  if (start != nullptr && !has_graph_) {
    event.set_graph_def(graph_of(start->layers).SerializeAsString());
    frames += frame_of(event);
  }
  file_->append(frames);
  has_graph_ = has_graph_ || start != nullptr;
}

}  // namespace banyan::metrics
