#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/report/report.hpp"
#include "report/columns.hpp"
#include "report/schema.hpp"

namespace banyan::report {
namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;
// A page stays usable, whatever the length of the run.
constexpr std::size_t kMostRows = 12000, kMostDeviceRows = 1500, kMostParameterRows = 1500;
// Of a run that goes on less is shown, so that showing it again and again costs little, and not all is kept.
constexpr std::size_t kMostLiveRows = 3000, kMostKeptRows = 16000;
constexpr std::size_t kMostWarnings = 1000, kMostComponents = 16, kMostLayerLines = 100;

/// Outputs of a net: each component of each is a column.
class OutputColumns {
 public:
  void take(const Json& outputs, Columns& columns) {
    for (const Json& output : outputs) {
      const auto name = output["name"].get<std::string>();
      const Json& values = output["values"];
      for (std::size_t i = 0; i < std::min(values.size(), kMostComponents); ++i) {
        const auto [found, added] = numbers_.emplace(std::pair(name, i), numbers_.size());
        const std::string column = cat("output", found->second);
        if (added)
          list_.push_back({{"name", name},
                           {"index", i},
                           {"components", values.size()},
                           {"weight", to_json(number_in(output, "weight"))},
                           {"column", column}});
        columns.set(column, number_in({{"v", values[i]}}, "v"));
      }
    }
  }
  const Json& json() const { return list_; }

 private:
  std::map<std::pair<std::string, std::size_t>, std::size_t> numbers_;
  Json list_ = Json::array();
};

struct TestNet {
  std::string name;
  Columns columns{kMostRows};
  OutputColumns outputs;
};

class Run {
 public:
  explicit Run(const std::string& folder) : folder_(folder) {}
  /// A run that goes on.
  Run(const std::string& folder, const std::string& name)
      : folder_(folder), name_(name), most_rows_(kMostLiveRows), train_(kMostKeptRows) {}

  void take(const Json& line) {
    const auto kind = line["kind"].get<std::string>();
    const auto iteration = line["iteration"].get<std::int64_t>();
    last_time_ = line["time"];
    if (kind == "start")
      start(line, iteration);
    else if (starts_.empty())
      bad_input("expected a line of kind \"start\" before one of kind ", banyan::quoted(kind));
    else if (kind == "train")
      train(line, iteration);
    else if (kind == "test")
      test(line, iteration);
    else if (kind == "parameters")
      parameters(line, iteration);
    else if (kind == "layers")
      keep(layers_, line, kMostLayerLines);
    else if (kind == "snapshot")
      snapshots_.push_back(line);
    else if (kind == "warning")
      ++warning_count_ <= kMostWarnings ? warnings_.push_back(line) : void();
    else if (kind == "end")
      ends_.push_back(line);
  }

  void note(const std::string& text) { notes_.push_back(text); }
  void forget_notes() { notes_.clear(); }
  bool empty() const { return starts_.empty(); }

  Json json() const {
    Json run = Json::object();
    run["folder"] = folder_;
    run["name"] = name();
    run["notes"] = notes_;
    run["last_time"] = last_time_;
    run["starts"] = starts_;
    run["ends"] = ends_;
    const std::vector<std::size_t> rows = train_.thinned("loss", most_rows_);
    run["train"] = {
        {"rows", train_.added()}, {"columns", train_.json(rows)}, {"outputs", train_outputs_.json()}};
    run["devices"] = {{"rows", devices_.added()}, {"names", device_names_}, {"columns", devices_.json()}};
    Json& tests = run["tests"] = Json::array();
    for (const auto& [net, test] : tests_)
      tests.push_back({{"net", net},
                       {"name", test.name},
                       {"rows", test.columns.added()},
                       {"columns", test.columns.json()},
                       {"outputs", test.outputs.json()}});
    run["parameters"] = {{"list", parameter_list_}, {"columns", parameters_.json()}};
    run["layers"] = layers_;
    run["snapshots"] = snapshots_;
    run["warnings"] = warnings_;
    run["warning_count"] = warning_count_;
    return run;
  }

 private:
  /// Two runs in folders of one name are told apart by the folders above.
  std::string name() const {
    if (folder_.empty()) return name_;
    fs::path path = fs::path(folder_).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    const std::string name = path.filename().string();
    return name.empty() || name == "." || name == ".." ? fs::weakly_canonical(folder_).filename().string()
                                                       : name;
  }

  static void keep(Json& list, const Json& line, std::size_t most) {
    list.push_back(line);
    if (list.size() > most) list.erase(list.begin() + 1);  // the first shows how the run began
  }

  void start(const Json& line, std::int64_t iteration) {
    if (line["format"] > kFormat)
      bad_input("format ", line["format"].get<std::int64_t>(), " is newer than this program, which reads ",
                kFormat);
    // What an interrupted run did after the snapshot from which this one goes on.
    train_.cut(iteration);
    devices_.cut(iteration);
    parameters_.cut(iteration);
    for (auto& [net, test] : tests_) test.columns.cut(iteration + 1);
    for (Json* lines : {&layers_, &snapshots_, &warnings_, &ends_})
      while (!lines->empty() && lines->back()["iteration"] > iteration) lines->erase(lines->size() - 1);
    // Of earlier parts of the run only when they began matters.
    if (!starts_.empty())
      for (const char* large : {"solver", "nets", "devices", "tree", "datasets", "layers", "memory", "plan"})
        starts_.back().erase(large);
    starts_.push_back(line);
  }

  void train(const Json& line, std::int64_t iteration) {
    train_.add_row(iteration);
    for (const char* name :
         {"time", "loss", "epoch", "rate", "gradient_norm", "iterations", "samples_per_second", "seconds"})
      train_.set(name, number_in(line, name));
    if (line.contains("outputs")) train_outputs_.take(line["outputs"], train_);
    if (line.contains("devices")) devices(line["devices"], iteration);
  }

  void devices(const Json& list, std::int64_t iteration) {
    devices_.add_row(iteration);
    for (std::size_t d = 0; d < list.size(); ++d) {
      const Json& device = list[d];
      if (d == device_names_.size()) device_names_.push_back(device["name"]);
      const auto set = [&](const Json& object, const char* name) {
        devices_.set(cat(d, ".", name), number_in(object, name));
      };
      set(device, "waiting_for_data");
      set(device, "sampled");
      if (device.contains("memory"))
        for (const char* name : {"in_use", "peak"}) set(device["memory"], name);
      if (!device.contains("milliseconds")) continue;
      for (const char* name :
           {"compute", "exposed", "exposed_sync_bn", "exposed_divisors", "exposed_gradients", "exposed_skew",
            "update", "data", "other", "iteration", "hidden"})
        set(device["milliseconds"], name);
    }
  }

  void test(const Json& line, std::int64_t iteration) {
    TestNet& test = tests_[line["net"].get<std::int64_t>()];
    test.name = line["name"];
    test.columns.cut(iteration);  // after resuming, a test that was due is run again
    test.columns.add_row(iteration);
    for (const char* name : {"time", "loss", "batches", "seconds"})
      test.columns.set(name, number_in(line, name));
    test.outputs.take(line["outputs"], test.columns);
  }

  void parameters(const Json& line, std::int64_t iteration) {
    parameters_.add_row(iteration);
    for (const Json& parameter : line["parameters"]) {
      const auto name = parameter["name"].get<std::string>();
      const auto [found, added] = parameter_numbers_.emplace(name, parameter_numbers_.size());
      if (added)
        parameter_list_.push_back({{"name", name},
                                   {"layer", parameter.value("layer", "")},
                                   {"count", to_json(number_in(parameter, "count"))}});
      for (const char* value : {"norm", "gradient_norm", "update_ratio"})
        parameters_.set(cat(found->second, ".", value), number_in(parameter, value));
    }
  }

  std::string folder_, name_;
  std::size_t most_rows_ = kMostRows;
  std::vector<std::string> notes_;
  Json last_time_;
  Json starts_ = Json::array(), ends_ = Json::array(), layers_ = Json::array(), snapshots_ = Json::array(),
       warnings_ = Json::array(), device_names_ = Json::array(), parameter_list_ = Json::array();
  std::size_t warning_count_ = 0;
  Columns train_, devices_{kMostDeviceRows}, parameters_{kMostParameterRows};
  OutputColumns train_outputs_;
  std::map<std::int64_t, TestNet> tests_;
  std::map<std::string, std::size_t> parameter_numbers_;
};

Json parse(const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    bad_input("not a JSON object: expected something else at byte ", error.byte);
  } catch (const Json::exception& error) {  // a number out of range
    bad_input("not a JSON object: ", error.what());
  }
}

void take_line(const std::string& text, Run& run) {
  const Json line = parse(text);
  if (const std::string problem = problem_in(line); !problem.empty()) bad_input(problem);
  run.take(line);
}

std::string text_of(const Run& run) {
  return run.json().dump(-1, ' ', false, Json::error_handler_t::replace);
}

void take_lines(std::istream& in, const std::string& path, Run& run) {
  std::int64_t number = 0;
  for (std::string text; std::getline(in, text);) {
    ++number;
    if (in.eof()) {
      run.note(cat("The last line of metrics.jsonl is cut off (", text.size(), " bytes) and not shown."));
      return;
    }
    try {
      take_line(text, run);
    } catch (const Error& error) {
      bad_input(path, ":", number, ": ", error.message());
    }
  }
}

}  // namespace

std::string read_run(const std::string& folder) {
  const std::string path = folder + "/metrics.jsonl";
  if (!fs::exists(folder)) bad_input(banyan::quoted(folder), ": there is no such folder");
  if (!fs::is_directory(folder))
    bad_input(banyan::quoted(folder), " is a file; expected the folder that a run wrote with --metrics");
  if (!fs::exists(path))
    bad_input(banyan::quoted(folder), " holds no metrics.jsonl; a run writes it with --metrics=", folder);
  std::ifstream in(path, std::ios::binary);
  if (!in) bad_input(banyan::quoted(path), " cannot be read");
  return read_run(in, folder);
}

std::string read_run(std::istream& lines, const std::string& folder) {
  const std::string path = folder + "/metrics.jsonl";
  Run run(folder);
  take_lines(lines, path, run);
  if (run.empty()) bad_input(banyan::quoted(path), " holds no complete line yet");
  return text_of(run);
}

struct LiveRun::State {
  std::string folder;
  Run run;
};

LiveRun::LiveRun(const std::string& name, const std::string& folder)
    : state_(std::make_unique<State>(State{folder, Run(folder, name)})) {}

LiveRun::~LiveRun() = default;

void LiveRun::take_file() {
  const std::string path = state_->folder + "/metrics.jsonl";
  std::ifstream in(path, std::ios::binary);
  if (!in) return;
  try {
    take_lines(in, path, state_->run);
  } catch (const Error&) {
    // The run cuts its file there, and says so.
  }
  state_->run.forget_notes();
}

void LiveRun::take(const std::string& line) { take_line(line, state_->run); }

std::string LiveRun::json() const { return state_->run.empty() ? "" : text_of(state_->run); }

}  // namespace banyan::report
