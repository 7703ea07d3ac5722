// trainer: trains, tests, times and describes Caffe nets. Flags, signals and exit codes; the work is in
// libbanyan.
#include <glog/logging.h>

#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/observe/console.hpp"
#include "banyan/parallel/mpi.hpp"
#include "banyan/parallel/wire_uplink.hpp"
#include "banyan/train/commands.hpp"
#include "banyan/train/device_choice.hpp"
#include "banyan/train/signals.hpp"
#include "banyan/train/snapshot_files.hpp"
#include "banyan/train/solver_settings.hpp"
#include "banyan/train/trace_file.hpp"
#include "banyan/train/train.hpp"
#include "common/tool.hpp"

DEFINE_string(solver, "", "the solver (.prototxt)");
DEFINE_string(snapshot, "",
              "resume from this .solverstate, or from the `latest` of the solver's snapshot_prefix");
DEFINE_string(model, "", "the net (.prototxt)");
DEFINE_string(weights, "", "start from these .caffemodel files (comma list; later ones overwrite)");
DEFINE_int32(iterations, 50,
             "number of batches to run; for topology: how often each sum is repeated (default: as often as "
             "time allows)");
DEFINE_string(phase, "", "TRAIN or TEST: the phase of the net (default TRAIN)");
DEFINE_int32(level, 0, "level of the net's state, for include and exclude rules");
DEFINE_string(stage, "", "stages of the net's state (comma list)");
DEFINE_string(shape, "",
              "shapes of blobs whose data need not exist, such as data:32,3,227,227 (separated by ;)");
DEFINE_string(fold, "on",
              "test nets: normalizations become a part of the convolutions before them (on) or not (off)");
DEFINE_bool(ignore_unknown_fields, false,
            "pass over fields of solvers and nets that are not known, with a warning each");
DEFINE_bool(json, false, "print JSON");
DEFINE_string(map, "", "lines `ARRAY LAYER/INDEX`: which array of a .safetensors or .npz is which blob");
DEFINE_string(names, "index", "names of arrays: index (conv1/0) or torch (conv1.weight)");
DEFINE_bool(overwrite, false, "replace the file written if it exists");
DEFINE_bool(plan, false, "print how the net runs: every tensor with its place in memory, every step");
DEFINE_bool(data, false, "time only the input: source, decode, augment, and the whole pipeline");

DEFINE_string(gpu, "", "GPUs: 0,1 or all; a GPU listed twice holds two replicas");
DEFINE_string(cpu, "", "number of virtual CPU devices");
DEFINE_int32(threads_per_device, 0, "threads of each CPU device (0: an equal share of the cores)");
DEFINE_string(pin, "auto",
              "CPU devices bound to their own cores: auto (if there are enough that no other run is bound "
              "to), on or off");
DEFINE_string(uplink, "auto",
              "joins the processes that mpirun or srun started: mpi, or none, in which case each trains by "
              "itself; auto: "
              "none, and an error where there are others");
DEFINE_string(reduce_precision, "f32",
              "what gradients are sent as between processes: f32, bf16 or f16; their sums are f32");
DEFINE_string(precision, "f32", "f32 or f64; on CPU devices also bf16 (products only)");
DEFINE_string(sync_bn, "as_written", "batch norms synchronized over the devices: as_written, on or off");
DEFINE_string(tree, "auto", "the device tree: auto, direct, pairs, chain, star or a file with a tree");
DEFINE_bool(dot, false, "print the device tree as a graph for Graphviz and measure nothing");
DEFINE_string(simulate, "",
              "a file that describes a machine and a net: print the predicted times, measure nothing");

DEFINE_string(progress, "auto", "the progress line: auto (on a terminal), on or off");
DEFINE_double(watchdog, 120,
              "seconds after which a run ends if a device that others wait for makes no progress (0: never)");
DEFINE_string(trace, "", "write what ran when to this file (JSON for Perfetto or Chrome's tracing page)");
DEFINE_bool(check_nan, false, "end at the first loss or gradient that is not finite");
DEFINE_string(sigint_effect, "stop", "what Ctrl-C does: stop (after a snapshot), snapshot or none");
DEFINE_string(sighup_effect, "snapshot", "what SIGHUP does: stop, snapshot or none");

namespace banyan {
namespace {

struct Command {
  const char* name;
  const char* about;
  std::function<int(Console&, const std::vector<std::string>& files)> run;
};

struct FlagGroup {
  const char* title;
  std::vector<const char*> flags;
};

const std::vector<FlagGroup>& flag_groups() {
  static const std::vector<FlagGroup> groups = {
      {"train",
       {"solver", "snapshot", "weights", "level", "stage", "sync_bn", "tree", "uplink", "reduce_precision",
        "watchdog", "check_nan", "trace", "pin", "sigint_effect", "sighup_effect"}},
      {"test, time, summary", {"model", "weights", "iterations", "phase", "level", "stage", "shape", "json"}},
      {"test, time", {"fold"}},
      {"summary", {"plan"}},
      {"check", {"level", "stage", "shape"}},
      {"train, test, time, summary", {"ignore_unknown_fields"}},
      {"convert", {"model", "weights", "map", "names", "overwrite", "phase", "level", "stage", "shape"}},
      {"layers", {"json"}},
      {"time", {"data", "sync_bn", "tree", "trace", "pin"}},
      {"topology", {"tree", "iterations", "json", "dot", "simulate"}},
      {"devices (all commands)", {"gpu", "cpu", "threads_per_device", "precision"}},
      {"output", {"progress"}}};
  return groups;
}

bool given(const char* flag) { return !gflags::GetCommandLineFlagInfoOrDie(flag).is_default; }

/// Comma-separated items, trimmed, without empty ones.
std::vector<std::string> split_list(const std::string& list, char separator = ',') {
  std::vector<std::string> items;
  std::istringstream in(list);
  for (std::string item; std::getline(in, item, separator);) {
    const auto first = item.find_first_not_of(" \t");
    if (first == std::string::npos) continue;
    items.push_back(item.substr(first, item.find_last_not_of(" \t") - first + 1));
  }
  return items;
}

template <class T>
T choice_of(const char* flag, const std::string& text,
            const std::vector<std::pair<std::string, T>>& choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
    names.push_back(name);
  }
  bad_input("--", flag, "=", text, ": expected ", join(names, ", "), did_you_mean(text, names));
}

DeviceFlags device_flags() {
  DeviceFlags flags;
  if (given("gpu")) flags.gpu = FLAGS_gpu;
  if (given("cpu")) flags.cpu = FLAGS_cpu;
  return flags;
}

ChosenDevices devices_for(const SolverDevices& solver = {}) { return choose_devices(device_flags(), solver); }

DType precision_for(const std::vector<DeviceChoice>& devices) {
  const auto precision = choice_of<DType>("precision", FLAGS_precision,
                                          {{"f32", DType::f32}, {"f64", DType::f64}, {"bf16", DType::bf16}});
  check_precision(precision, devices.at(0).kind);
  return precision;
}

int checked_threads() {
  if (FLAGS_threads_per_device < 0)
    bad_input("--threads_per_device=", FLAGS_threads_per_device, ": expected a number >= 0");
  return FLAGS_threads_per_device;
}

void require_flag(const std::string& value, const char* flag, const char* what) {
  if (value.empty()) bad_input("--", flag, " is missing: ", what);
}

SyncBatchNorm sync_bn() {
  return choice_of<SyncBatchNorm>(
      "sync_bn", FLAGS_sync_bn,
      {{"as_written", SyncBatchNorm::as_written}, {"on", SyncBatchNorm::on}, {"off", SyncBatchNorm::off}});
}

Pinning pinning() {
  return choice_of<Pinning>("pin", FLAGS_pin,
                            {{"auto", Pinning::automatic}, {"on", Pinning::on}, {"off", Pinning::off}});
}

/// Handlers must outlive everything that polls them, and signals may arrive until the very end.
SignalFlags& signal_flags() {
  static SignalFlags signals;
  return signals;
}

using Files = std::vector<std::string>;  // arguments after the command

io::UnknownFields unknown_fields() {
  return FLAGS_ignore_unknown_fields ? io::UnknownFields::ignore : io::UnknownFields::refuse;
}

/// --uplink: to the processes that were started together with this one; nullptr: there are none.
std::unique_ptr<parallel::WireUplink> join_processes(Console& console) {
  const bool by_mpi =
      choice_of<bool>("uplink", FLAGS_uplink, {{"auto", false}, {"none", false}, {"mpi", true}});
  const auto narrow =
      choice_of<std::optional<DType>>("reduce_precision", FLAGS_reduce_precision,
                                      {{"f32", std::nullopt}, {"bf16", DType::bf16}, {"f16", DType::f16}});
  if (!by_mpi) {
    const std::optional<parallel::Launch> launch = parallel::find_launch();
    if (FLAGS_uplink == "auto" && launch && launch->processes > 1)
      bad_input(
          "this is one of ", launch->processes, " processes that ", launch->launcher,
          " started: pass --uplink=mpi to train on all of their devices together, or --uplink=none to have "
          "each train by itself");
    if (narrow)
      bad_input("--reduce_precision=", FLAGS_reduce_precision, " is for processes joined by --uplink=mpi");
    return nullptr;
  }
  parallel::WireUplinkOptions options;
  options.watchdog_seconds = FLAGS_watchdog;
  options.reduce_precision = narrow;
  options.stop = &signal_flags().stop;
  auto uplink = std::make_unique<parallel::WireUplink>(parallel::connect_by_mpi(), options);
  if (uplink->place().process > 0) {
    console.set_origin(cat("[", uplink->name(), "] "));
    if (!given("minloglevel")) FLAGS_minloglevel = google::GLOG_WARNING;
  }
  return uplink;
}

/// A trace of each process: trace.json, trace.1.json...
std::string trace_path(int process) {
  if (FLAGS_trace.empty() || process == 0) return FLAGS_trace;
  const std::filesystem::path path(FLAGS_trace);
  return (path.parent_path() / cat(path.stem().string(), ".", process, path.extension().string())).string();
}

int train_with(Console& console, parallel::WireUplink* uplink) {
  if (!FLAGS_weights.empty() && !FLAGS_snapshot.empty())
    bad_input("--weights and --snapshot exclude each other: a snapshot has its own weights");
  TrainOptions options;
  options.solver_path = FLAGS_solver;
  options.solver = load_solver(FLAGS_solver, unknown_fields());
  add_to_state(*options.solver.nets.mutable_train_state(),
               given("level") ? std::optional<int>(FLAGS_level) : std::nullopt, split_list(FLAGS_stage));
  const ChosenDevices chosen = devices_for(options.solver.devices);
  LOG_IF(INFO, !chosen.note.empty()) << chosen.note;
  options.devices = chosen.devices;
  options.precision = precision_for(options.devices);
  options.threads_per_device = checked_threads();
  options.pinning = pinning();
  options.sync_bn = sync_bn();
  options.watchdog_seconds = FLAGS_watchdog;
  options.check_nan = FLAGS_check_nan;
  options.tree = FLAGS_tree;
  options.signals = &signal_flags();
  const int process = uplink != nullptr ? uplink->place().process : 0;
  if (process == 0) options.console = &console;
  if (uplink != nullptr) {
    uplink->bring(static_cast<int>(options.devices.size()));
    options.uplink = uplink;
    LOG(INFO) << uplink->place().processes() << " processes with " << uplink->place().devices() << " devices";
  }
  options.snapshot = FLAGS_snapshot;
  if (FLAGS_snapshot == "latest") {
    const std::string prefix = snapshot_prefix_of(options.solver.snapshot, FLAGS_solver);
    options.snapshot = process == 0 ? find_latest_snapshot(prefix).value_or("") : "";
    if (uplink != nullptr) options.snapshot = uplink->share(options.snapshot)[0];
    LOG_IF(INFO, options.snapshot.empty())
        << "No snapshot " << prefix << "_iter_*.solverstate yet: starting from the beginning";
  }
  if (!FLAGS_weights.empty())
    options.weights = split_list(FLAGS_weights);
  else if (options.snapshot.empty())
    for (const auto& entry : options.solver.weights)
      for (const auto& file : split_list(entry)) options.weights.push_back(file);
  install_signals(parse_signal_effect("sigint_effect", FLAGS_sigint_effect),
                  parse_signal_effect("sighup_effect", FLAGS_sighup_effect), signal_flags());
  int code = 0;
  with_trace(trace_path(process), [&](const std::shared_ptr<Timeline>& timeline) {
    options.timeline = timeline;
    code = train(options);
  });
  return code;
}

int run_train(Console& console, const Files&) {
  require_flag(FLAGS_solver, "solver",
               "the solver to train with, such as --solver=models/lenet/solver.prototxt");
  if (!(FLAGS_watchdog >= 0)) bad_input("--watchdog=", FLAGS_watchdog, ": expected seconds, 0 for none");
  const std::unique_ptr<parallel::WireUplink> uplink = join_processes(console);
  if (!uplink) return train_with(console, nullptr);
  try {
    const int code = train_with(console, uplink.get());
    uplink->leave();
    return code;
  } catch (Error& error) {
    uplink->abort(error);
    if (!uplink->speaks()) return exit_code(error.kind());
    if (std::string(error.what()).find(uplink->name()) == std::string::npos)
      error.add_context(cat("in ", uplink->name()));
    throw;
  } catch (const std::exception& error) {
    uplink->abort(Error(ErrorKind::runtime, cat(error.what(), "\n  in ", uplink->name())));
    throw;
  }
}

void note_first_device_only() {
  LOG_IF(INFO, devices_for().devices.size() > 1) << "This command uses the first device only";
}

ModelOptions model_options(Phase default_phase) {
  require_flag(FLAGS_model, "model", "the net's .prototxt");
  if (FLAGS_iterations < 1) bad_input("--iterations=", FLAGS_iterations, ": expected a number >= 1");
  ModelOptions options;
  options.model = FLAGS_model;
  options.weights = split_list(FLAGS_weights);
  const auto devices = devices_for().devices;
  options.device = devices.at(0);
  options.threads = checked_threads();
  options.phase = FLAGS_phase.empty() ? default_phase
                                      : choice_of<Phase>("phase", FLAGS_phase,
                                                         {{"TRAIN", Phase::train}, {"TEST", Phase::test}});
  options.level = FLAGS_level;
  options.stages = split_list(FLAGS_stage);
  options.iterations = FLAGS_iterations;
  options.fold = choice_of<bool>("fold", FLAGS_fold, {{"on", true}, {"off", false}});
  options.precision = precision_for(devices);
  options.unknown_fields = unknown_fields();
  for (const auto& text : split_list(FLAGS_shape, ';')) options.shapes.insert(parse_shape_flag(text));
  return options;
}

int run_test(Console&, const Files&) {
  require_flag(FLAGS_weights, "weights", "the .caffemodel to test");
  note_first_device_only();
  test_model(model_options(Phase::test));
  return 0;
}

int run_time(Console&, const Files&) {
  TimeOptions options;
  options.model = model_options(Phase::train);
  options.devices = devices_for().devices;
  options.sync_bn = sync_bn();
  options.pinning = pinning();
  options.tree = FLAGS_tree;
  options.json = FLAGS_json;
  options.signals = &signal_flags();
  install_signals(SignalEffect::stop, SignalEffect::stop, signal_flags());
  if (FLAGS_data) {
    if (!FLAGS_trace.empty()) bad_input("--data and --trace exclude each other");
    std::cout << time_data(options);
    return 0;
  }
  with_trace(FLAGS_trace, [&](const std::shared_ptr<Timeline>& timeline) {
    options.timeline = timeline;
    std::cout << time_model(options);
  });
  return 0;
}

int run_summary(Console&, const Files&) {
  note_first_device_only();
  const ModelOptions options = model_options(Phase::train);
  if (FLAGS_plan && FLAGS_json) bad_input("--plan and --json exclude each other");
  std::cout << summarize_model(options, FLAGS_plan   ? SummaryFormat::plan
                                        : FLAGS_json ? SummaryFormat::json
                                                     : SummaryFormat::table);
  return 0;
}

int run_device_query(Console&, const Files&) {
  std::vector<DeviceChoice> gpus;
  if (given("gpu")) gpus = devices_for().devices;
  std::cout << describe_devices(gpus);
  return 0;
}

int run_topology(Console&, const Files&) {
  if (given("simulate")) {
    if (FLAGS_dot) bad_input("--dot and --simulate exclude each other");
    std::cout << describe_simulation(FLAGS_simulate, FLAGS_json);
    return 0;
  }
  if (FLAGS_iterations < 1) bad_input("--iterations=", FLAGS_iterations, ": expected a number >= 1");
  if (FLAGS_dot && FLAGS_json) bad_input("--dot and --json exclude each other");
  TopologyOptions options;
  DeviceFlags flags = device_flags();
  if (!flags.gpu && !flags.cpu && count_gpus().count > 0) flags.gpu = "all";
  options.devices = choose_devices(flags).devices;
  options.threads = checked_threads();
  options.tree = FLAGS_tree;
  options.repeats = given("iterations") ? FLAGS_iterations : 0;
  options.json = FLAGS_json;
  options.dot = FLAGS_dot;
  std::cout << describe_topology(options);
  return 0;
}

int run_layers(Console&, const Files&) {
  std::cout << describe_layers(FLAGS_json);
  return 0;
}

int run_check(Console&, const Files& files) {
  if (files.empty())
    bad_input("check needs the files to check, such as trainer check models/lenet/solver.prototxt");
  CheckOptions options;
  options.files = files;
  if (given("level")) options.level = FLAGS_level;
  options.stages = split_list(FLAGS_stage);
  for (const auto& text : split_list(FLAGS_shape, ';')) options.shapes.insert(parse_shape_flag(text));
  const CheckReport report = check_files(options);
  std::cout << report.text;
  return report.problems == 0 ? 0 : 2;
}

int run_convert(Console&, const Files& files) {
  if (files.empty() || files.size() > 2)
    bad_input("expected convert IN OUT, or convert --model=DEPLOY --weights=FILE OUT.onnx; found ",
              files.size(), " files");
  ConvertOptions options;
  if (given("model")) options.model = model_options(Phase::test);
  for (const char* flag : {"phase", "level", "stage", "shape"})
    if (given(flag) && !given("model")) bad_input("--", flag, " belongs to a net: --model is missing");
  if (given("names") && !files.back().ends_with(".npz") && !files.back().ends_with(".safetensors"))
    bad_input("--names is for arrays (.safetensors, .npz), not for ", quoted(files.back()));
  options.model.weights = split_list(FLAGS_weights);
  options.from = files.size() > 1 ? files[0] : "";
  options.to = files.back();
  options.map = FLAGS_map;
  options.names = choice_of<io::NameStyle>(
      "names", FLAGS_names, {{"index", io::NameStyle::index}, {"torch", io::NameStyle::torch}});
  options.overwrite = FLAGS_overwrite;
  convert_files(options);
  return 0;
}

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {"train", "trains with a solver (the default command)", run_train},
      {"test", "runs batches of a test net and prints its outputs", run_test},
      {"time", "times each layer, communication among devices, or the input", run_time},
      {"summary", "prints layers, shapes, parameters, multiply-adds and memory", run_summary},
      {"check", "reports everything that is wrong with solvers and nets: trainer check FILE...", run_check},
      {"convert", "weights to and from .safetensors and .npz, nets to .onnx: trainer convert IN OUT",
       run_convert},
      {"layers", "lists the layer types and what each supports", run_layers},
      {"device_query", "describes the processor and the GPUs", run_device_query},
      {"topology", "draws the device tree, verifies and measures the links", run_topology}};
  return all;
}

void print_usage(std::ostream& out) {
  out << "Usage: trainer [command] [flags]\n\nCommands:\n";
  for (const auto& command : commands()) {
    std::string name = command.name;
    name.resize(16, ' ');
    out << "  " << name << command.about << "\n";
  }
}

void print_help() {
  print_usage(std::cout);
  for (const auto& group : flag_groups()) {
    std::cout << "\nFlags: " << group.title << "\n";
    for (const char* name : group.flags) {
      const auto flag = gflags::GetCommandLineFlagInfoOrDie(name);
      std::string left = "  --" + flag.name;
      if (flag.type != "bool") left += flag.type == "string" ? "=TEXT" : "=N";
      left.resize(std::max<std::size_t>(left.size() + 2, 27), ' ');
      std::cout << left << flag.description;
      if (flag.type != "bool" && !flag.default_value.empty())
        std::cout << " (default " << flag.default_value << ")";
      std::cout << "\n";
    }
  }
  std::cout
      << "\nExamples:\n"
         "  trainer --solver=models/lenet/solver.prototxt --cpu=2\n"
         "  trainer --solver=models/cifar10_resnet20/solver.prototxt --gpu=0,1,2,3 --snapshot=latest\n"
         "  trainer test --model=models/lenet/train_test.prototxt "
         "--weights=run/mnist/lenet_iter_10000.caffemodel "
         "--iterations=100\n"
         "  trainer summary --model=models/lenet/train_test.prototxt --shape='data:64,1,28,28;label:64'\n"
         "  trainer convert net.caffemodel net.safetensors\n"
         "Exit codes: 0 done (also after Ctrl-C), 1 failed while running, 2 bad input or usage.\n";
}

const Command& command_named(const std::vector<std::string>& words) {
  const std::string name = words.empty() ? "train" : words[0];
  std::vector<std::string> names;
  for (const auto& command : commands()) {
    if (name == command.name) return command;
    names.push_back(command.name);
  }
  bad_input("unknown command ", quoted(name),
            "; commands, nearest first: ", join(nearest_first(name, names), ", "), "; see trainer --help");
}

tools::Tool description() {
  tools::Tool tool;
  tool.name = "trainer";
  tool.arguments = "[command]";
  tool.most = 1000;
  for (const char* flag : {"version", "log_dir", "minloglevel", "v", "vmodule", "logtostderr",
                           "alsologtostderr", "colorlogtostderr", "log_prefix", "stderrthreshold"}) {
    gflags::CommandLineFlagInfo info;
    if (gflags::GetCommandLineFlagInfo(flag, &info)) tool.other_flags.push_back(flag);
  }
  return tool;
}

int run_command(const std::vector<std::string>& words) {
  const Command& command = command_named(words);
  const auto mode = choice_of<ProgressMode>(
      "progress", FLAGS_progress,
      {{"auto", ProgressMode::automatic}, {"on", ProgressMode::on}, {"off", ProgressMode::off}});
  const Files files(words.begin() + (words.empty() ? 0 : 1), words.end());
  if (!files.empty() && command.name != std::string("check") && command.name != std::string("convert"))
    bad_input("expected [command], found ", words.size(), " arguments; see trainer --help");
  Console console(mode);
  const auto route = route_logs("trainer", console);
  return command.run(console, files);
}

int run(int argc, char** argv) {
  bool help = false;
  auto words = tools::parse(description(), argc, argv, help);
  if (help || (!words.empty() && words[0] == "help")) {
    print_help();
    return 0;
  }
  // The flag itself belongs to gflags, which would only print a version number.
  if (gflags::GetCommandLineFlagInfoOrDie("version").current_value == "true") {
    std::cout << version_report();
    return 0;
  }
  if (words.empty() && argc == 1) {
    print_help();
    return 2;
  }
  return run_command(words);
}

}  // namespace
}  // namespace banyan

int main(int argc, char** argv) {
  try {
    return banyan::run(argc, argv);
  } catch (const banyan::Error& error) {
    std::cerr << "trainer: " << error.what() << "\n";
    return banyan::exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    std::cerr << "trainer: out of memory\n";
  } catch (const std::exception& error) {
    std::cerr << "trainer: " << error.what() << "\n";
  }
  return 1;
}
