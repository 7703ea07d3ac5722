// trainer: trains, tests, times and describes Caffe nets. Flags, signals and exit codes; the work is in
// libbanyan.
#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <tuple>

#include "banyan/base/error.hpp"
#include "banyan/base/number.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/live/dashboard.hpp"
#include "banyan/live/page_server.hpp"
#include "banyan/observe/console.hpp"
#include "banyan/observe/panel.hpp"
#include "banyan/parallel/device_uplink.hpp"
#include "banyan/parallel/mpi.hpp"
#include "banyan/parallel/wire_uplink.hpp"
#include "banyan/train/batch_sharing.hpp"
#include "banyan/train/commands.hpp"
#include "banyan/train/device_choice.hpp"
#include "banyan/train/doctor.hpp"
#include "banyan/train/signals.hpp"
#include "banyan/train/snapshot_files.hpp"
#include "banyan/train/solver_settings.hpp"
#include "banyan/train/trace_file.hpp"
#include "banyan/train/train.hpp"
#include "common/tool.hpp"
#include "trainer/command_line.hpp"

DEFINE_string(solver, "", "the solver (.prototxt)");
DEFINE_string(snapshot, "",
              "resume from this .solverstate, or from the `latest` of the solver's snapshot_prefix");
DEFINE_int32(max_iter, 0, "iterations of the whole run, in place of the solver's max_iter");
DEFINE_string(model, "", "the net (.prototxt)");
DEFINE_string(weights, "", "start from these .caffemodel files (comma list; later ones overwrite)");
DEFINE_int32(
    iterations, 50,
    "number of batches to run; for topology: how often each sum is repeated, for doctor: iterations to "
    "time (both by default: as many as some seconds allow)");
DEFINE_string(phase, "", "the phase of the net (default: TEST for test, both for check, else TRAIN)");
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
DEFINE_string(names, "index", "names of arrays: conv1/0 (index) or conv1.weight (torch)");
DEFINE_bool(overwrite, false, "replace what is written if it exists: a file, a run's metrics");
DEFINE_bool(plan, false,
            "how the net runs: every tensor with its place in memory, every step; draw: in the picture");
DEFINE_string(layout, "auto",
              "who places the layers: Graphviz (dot), or the same on every machine (own); auto: dot if it is "
              "installed");
DEFINE_string(out, "",
              "write to this file (default: draw, to standard output; report, to report.html in the folder)");
DEFINE_bool(all, false, "look at every record of the data, not at a sample");
DEFINE_bool(updates, false, "one device trains, with updates, as several do in any case");
DEFINE_bool(data, false, "time only the input: source, decode, augment, and the whole pipeline");

DEFINE_string(gpu, "", "GPUs: 0,1 or all; a GPU listed twice holds two replicas");
DEFINE_string(cpu, "", "number of virtual CPU devices");
DEFINE_int32(threads_per_device, 0, "threads of each CPU device (0: an equal share of the cores)");
DEFINE_string(
    pin, "auto",
    "CPU devices bound to their own cores; auto: if there are enough that no other run is bound to");
DEFINE_string(
    uplink, "auto",
    "the processes that mpirun or srun started: joined by MPI, their GPUs by NCCL, or none (each trains by "
    "itself); auto: none, and an error if there are several");
DEFINE_string(reduce_precision, "f32", "what gradients are sent as between processes; their sums are f32");
DEFINE_bool(share_data, false, "only process 0 reads the data sets, and sends the others their batches");
DEFINE_bool(parameter_server, false,
            "process 0 of those that mpirun or srun started serves the parameters, the others train");
DEFINE_int32(
    servers, 1,
    "with --parameter_server: so many processes, the first ones, serve; each updates its share of the "
    "parameters");
DEFINE_int32(
    server_tree, 0,
    "with --parameter_server: so many processes, those after the first one, are inner servers, which add "
    "up what their workers send; 0: no tree");
DEFINE_string(
    wait_time, "all",
    "with --parameter_server: how long an update waits for the other workers after the first one has "
    "sent its difference; all: until they have");
DEFINE_int32(staleness, 0,
             "with --parameter_server: differences that are more updates old than this are dropped");
DEFINE_double(silence, 5,
              "with --parameter_server: a worker that is not heard of for so long is not waited for");
DEFINE_int32(spare_workers, 0,
             "with --parameter_server: so many processes, the last ones, wait until one of the other workers "
             "ends or is not heard of, and take its place");
DEFINE_string(
    compress, "none",
    "with --parameter_server: topk:0.01 sends the largest hundredth of each piece of a difference, and "
    "the rest later");
DEFINE_string(precision, "f32",
              "f32, f64 or bf16 (products and stored activations); on GPUs also tf32 (products)");
DEFINE_string(sync_bn, "as_written",
              "batch norms synchronized over the devices: as the net says, all or none");
DEFINE_string(tree, "auto", "the device tree: its kind, or a file with one");
DEFINE_bool(dot, false,
            "print a graph for Graphviz: the net (draw), or the device tree (topology, which then measures "
            "nothing)");
DEFINE_string(simulate, "",
              "a file that describes a machine and a net: print the predicted times, measure nothing");

DEFINE_string(help_field, "", "explain this field, such as convolution_param.stride or lr_policy");
DEFINE_string(log_format, "text",
              "the log in Caffe's form, or as one JSON object in each line (without a progress line)");
DEFINE_string(progress, "auto", "the progress line; auto: on a terminal");
DEFINE_bool(
    dashboard, false,
    "on a terminal: curves, what each device is doing, time left, below the log (elsewhere: the log)");
DEFINE_string(
    serve, "",
    "the report of this run, live, for browsers on this machine: on this port (0: any that is free), "
    "at an address that the log tells");
DEFINE_double(watchdog, 120,
              "time after which a run ends if a device that others wait for makes no progress (0: never)");
DEFINE_string(trace, "", "write what ran when to this file (JSON for Perfetto or Chrome's tracing page)");
DEFINE_string(
    metrics, "",
    "write losses, speed, memory and more to this folder: metrics.jsonl, and TensorBoard's event files");
DEFINE_int32(histograms, 0,
             "with --metrics: iterations from one histogram of each parameter to the next (0: none)");
DEFINE_int32(images, 0,
             "with --metrics: iterations from one picture of inputs and first filters to the next (0: none)");
DEFINE_bool(check_nan, false, "end at the first loss or gradient that is not finite");
DEFINE_string(warnings, "on",
              "warn early of what looks wrong with the training: not finite, rising loss, dead ReLUs...");
DEFINE_string(sigint_effect, "stop", "what Ctrl-C does; stop: after a snapshot");
DEFINE_string(sighup_effect, "snapshot", "what SIGHUP does");

namespace banyan {
namespace {

using Files = std::vector<std::string>;  // arguments after the command

struct Command {
  tools::CommandRow row;
  std::function<int(Console&, const Files&)> run;
};
const std::vector<Command>& commands();

/// Every flag of the program with what it takes and the commands that it goes with.
std::vector<tools::FlagRow> flag_rows() {
  using tools::file, tools::files, tools::one_of, tools::some, tools::toggle;
  const std::vector<std::string> runs = {"train", "doctor"};
  const std::vector<std::string> nets = {"test", "time", "summary", "draw", "convert"};
  const std::vector<std::string> filtered = {"train", "test",  "time",    "summary",
                                             "draw",  "check", "convert", "doctor"};
  const std::vector<std::string> on_devices = {"train",   "test",     "time",         "summary", "draw",
                                               "convert", "topology", "device_query", "doctor"};
  const std::vector<std::string> effects = {"stop", "snapshot", "none"};
  return {
      {"solver", file({".prototxt"}), runs},
      {"snapshot", file({".solverstate", ".solverstate.h5"}, {"latest"}), runs},
      {"max_iter", some("N"), {"train", "check", "doctor"}},
      {"uplink", one_of({"auto", "none", "mpi", "nccl"}), {"train", "topology"}},
      {"share_data", toggle(), {"train"}},
      {"reduce_precision", one_of({"f32", "bf16", "f16"}), {"train"}},
      {"parameter_server", toggle(), {"train"}},
      {"servers", some("PROCESSES"), {"train"}},
      {"server_tree", some("PROCESSES"), {"train"}},
      {"wait_time", some("SECONDS", {"all"}), {"train"}},
      {"staleness", some("UPDATES"), {"train"}},
      {"silence", some("SECONDS"), {"train"}},
      {"spare_workers", some("PROCESSES"), {"train"}},
      {"compress", some("topk:SHARE", {"none"}), {"train"}},
      {"watchdog", some("SECONDS"), {"train"}},
      {"check_nan", toggle(), {"train"}},
      {"warnings", one_of({"on", "off"}), {"train"}},
      {"sigint_effect", one_of(effects), {"train"}},
      {"sighup_effect", one_of(effects), {"train"}},
      {"trace", file({".json"}), {"train", "time"}},
      {"metrics", file({""}), {"train"}},
      {"histograms", some("N"), {"train"}},
      {"images", some("N"), {"train"}},
      {"dashboard", toggle(), {"train"}},
      {"serve", some("PORT"), {"train"}},
      {"pin", one_of({"auto", "on", "off"}), {"train", "time", "doctor"}},
      {"sync_bn", one_of({"as_written", "on", "off"}), {"train", "time", "doctor"}},
      {"tree",
       file({""}, {"auto", "direct", "pairs", "chain", "star"}),
       {"train", "time", "topology", "doctor"}},
      {"model", file({".prototxt"}), nets},
      {"weights",
       files({".caffemodel", ".caffemodel.h5", ".safetensors", ".npz"}),
       {"train", "test", "time", "summary", "convert", "doctor"}},
      {"iterations", some("N"), {"test", "time", "topology", "doctor"}},
      {"phase", one_of({"TRAIN", "TEST"}), {"test", "time", "summary", "draw", "check", "convert"}},
      {"level", some("N"), filtered},
      {"stage", some("TEXT"), filtered},
      {"shape", some("BLOB:DIM,..."), {"test", "time", "summary", "draw", "check", "convert"}},
      {"ignore_unknown_fields", toggle(), filtered},
      {"fold", one_of({"on", "off"}), {"test", "time"}},
      {"all", toggle(), {"doctor"}},
      {"updates", toggle(), {"time"}},
      {"data", toggle(), {"time"}},
      {"json", toggle(), {"time", "summary", "layers", "topology", "doctor"}},
      {"plan", toggle(), {"summary", "draw"}},
      {"layout", one_of({"auto", "dot", "own"}), {"draw"}},
      {"out", file({""}), {"draw", "report"}},
      {"map", file({""}), {"convert"}},
      {"names", one_of({"index", "torch"}), {"convert"}},
      {"overwrite", toggle(), {"train", "convert"}},
      {"dot", toggle(), {"topology", "draw"}},
      {"simulate", file({".prototxt"}), {"topology"}},
      {"gpu", some("LIST", {"all"}), on_devices},
      {"cpu", some("N"), on_devices},
      {"threads_per_device", some("N"), on_devices},
      {"precision", one_of({"f32", "f64", "bf16", "tf32"}), on_devices},
      {"log_format", one_of({"text", "json"})},
      {"progress", one_of({"auto", "on", "off"})},
      {"help_field", some("FIELD", described_fields())},
  };
}

std::vector<tools::FlagRow> library_flag_rows() {
  using tools::file, tools::one_of, tools::some, tools::toggle;
  std::vector<tools::FlagRow> known = {{"version", toggle()},
                                       {"log_dir", some("FOLDER")},
                                       {"minloglevel", one_of({"0", "1", "2", "3"})},
                                       {"v", some("N")},
                                       {"vmodule", some("TEXT")},
                                       {"logtostderr", toggle()},
                                       {"alsologtostderr", toggle()},
                                       {"colorlogtostderr", toggle()},
                                       {"log_prefix", toggle()},
                                       {"stderrthreshold", one_of({"0", "1", "2", "3"})}};
  std::erase_if(known, [](const tools::FlagRow& flag) {
    gflags::CommandLineFlagInfo info;
    return !gflags::GetCommandLineFlagInfo(flag.name.c_str(), &info);
  });
  return known;
}

const tools::CommandLine& command_line() {
  static const tools::CommandLine line = [] {
    tools::CommandLine made;
    made.program = "trainer";
    made.about = "trains, tests, times and describes Caffe nets";
    for (const Command& command : commands()) made.commands.push_back(command.row);
    made.flags = flag_rows();
    made.library_flags = library_flag_rows();
    made.examples = {
        "trainer --solver=models/lenet/solver.prototxt --cpu=2",
        "trainer --solver=models/cifar10_resnet20/solver.prototxt --gpu=0,1,2,3 --snapshot=latest",
        "trainer test --model=models/lenet/train_test.prototxt "
        "--weights=run/mnist/lenet_iter_10000.caffemodel --iterations=100",
        "trainer summary --model=models/lenet/train_test.prototxt --shape='data:64,1,28,28;label:64'",
        "trainer convert net.caffemodel net.safetensors"};
    made.exit_codes = {
        {0, "done (also after Ctrl-C)"}, {1, "failed while running"}, {2, "bad input or usage"}};
    return made;
  }();
  return line;
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

/// values[i] where the flag is the i-th of the words that it takes.
template <class T>
T choice_of(const char* flag, const std::vector<T>& values) {
  const std::vector<std::string>& words = tools::flag_named(command_line(), flag).value.words;
  if (words.size() != values.size()) runtime_failure("--", flag, " takes ", words.size(), " words");
  const std::string text = gflags::GetCommandLineFlagInfoOrDie(flag).current_value;
  return values.at(static_cast<std::size_t>(std::find(words.begin(), words.end(), text) - words.begin()));
}

/// As the log's last line, where a program reads it.
void say_error(const std::string& what, bool json) {
  const std::string text = "trainer: " + what;
  std::cerr << (json ? json_log_line(Severity::error, text) : text) + "\n" << std::flush;
}

bool json_log() { return choice_of<bool>("log_format", {false, true}); }

DeviceFlags device_flags() {
  DeviceFlags flags;
  if (given("gpu")) flags.gpu = FLAGS_gpu;
  if (given("cpu")) flags.cpu = FLAGS_cpu;
  return flags;
}

ChosenDevices devices_for(const SolverDevices& solver = {}) { return choose_devices(device_flags(), solver); }

RunPrecision precision() {
  return choice_of<RunPrecision>(
      "precision", {RunPrecision::f32, RunPrecision::f64, RunPrecision::bf16, RunPrecision::tf32});
}

RunPrecision precision_for(const std::vector<DeviceChoice>& devices) {
  check_precision(precision(), devices.at(0).kind);
  return precision();
}

std::optional<int> level() { return given("level") ? std::optional<int>(FLAGS_level) : std::nullopt; }

int checked_threads() {
  if (FLAGS_threads_per_device < 0)
    bad_input("--threads_per_device=", FLAGS_threads_per_device, ": expected a number >= 0");
  return FLAGS_threads_per_device;
}

void require_flag(const std::string& value, const char* flag, const char* what) {
  if (value.empty()) bad_input("--", flag, " is missing: ", what);
}

SyncBatchNorm sync_bn() {
  return choice_of<SyncBatchNorm>("sync_bn",
                                  {SyncBatchNorm::as_written, SyncBatchNorm::on, SyncBatchNorm::off});
}

Pinning pinning() { return choice_of<Pinning>("pin", {Pinning::automatic, Pinning::on, Pinning::off}); }

/// Handlers must outlive everything that polls them, and signals may arrive until the very end.
SignalFlags& signal_flags() {
  static SignalFlags signals;
  return signals;
}

/// What a signal does, from its flag.
SignalEffect effect_of(const char* flag) {
  return choice_of<SignalEffect>(flag, {SignalEffect::stop, SignalEffect::snapshot, SignalEffect::none});
}

std::optional<int> max_iter() {
  if (!given("max_iter")) return std::nullopt;
  if (FLAGS_max_iter < 0) bad_input("--max_iter=", FLAGS_max_iter, ": expected iterations, 0 or more");
  return FLAGS_max_iter;
}

io::UnknownFields unknown_fields() {
  return FLAGS_ignore_unknown_fields ? io::UnknownFields::ignore : io::UnknownFields::refuse;
}

std::optional<DType> reduce_precision() {
  return choice_of<std::optional<DType>>("reduce_precision", {std::nullopt, DType::bf16, DType::f16});
}

/// The number that is all of the text, or nothing.
std::optional<double> number_in(const std::string& text) {
  std::istringstream in(text);
  double value = 0;
  if (!(in >> value) || !in.eof()) return std::nullopt;
  return value;
}

/// --parameter_server and what belongs to it.
std::optional<ParameterServerOptions> parameter_server() {
  if (!FLAGS_parameter_server) {
    for (const char* flag :
         {"servers", "server_tree", "wait_time", "staleness", "silence", "spare_workers", "compress"})
      if (given(flag)) bad_input("--", flag, " belongs to --parameter_server, which is missing");
    return std::nullopt;
  }
  if (FLAGS_uplink == "none" || FLAGS_uplink == "nccl")
    bad_input("--parameter_server joins the processes by MPI; --uplink=", FLAGS_uplink,
              " does not go with it");
  if (FLAGS_share_data)
    bad_input("--parameter_server does not go with --share_data: every worker reads its data");
  ParameterServerOptions options;
  options.servers = FLAGS_servers;
  if (FLAGS_servers < 1) bad_input("--servers=", FLAGS_servers, ": expected processes, 1 or more");
  options.inner = FLAGS_server_tree;
  if (FLAGS_server_tree < 0)
    bad_input("--server_tree=", FLAGS_server_tree, ": expected inner servers, 0 for no tree");
  if (FLAGS_servers > 1 && FLAGS_server_tree > 0)
    bad_input("--servers and --server_tree exclude each other: the servers of a tree have all parameters");
  options.spares = FLAGS_spare_workers;
  if (FLAGS_spare_workers < 0)
    bad_input("--spare_workers=", FLAGS_spare_workers, ": expected processes, 0 or more");
  if (FLAGS_spare_workers > 0 && FLAGS_server_tree > 0)
    bad_input(
        "--spare_workers and --server_tree exclude each other: workers of a tree belong to one of its "
        "servers");
  if (FLAGS_wait_time != "all") {
    options.wait_seconds = number_in(FLAGS_wait_time).value_or(-1);
    if (!(options.wait_seconds >= 0))
      bad_input("--wait_time=", FLAGS_wait_time, ": expected seconds, or all");
  }
  options.staleness = FLAGS_staleness;
  if (FLAGS_staleness < 0) bad_input("--staleness=", FLAGS_staleness, ": expected updates, 0 or more");
  options.silent_seconds = FLAGS_silence;
  if (!(FLAGS_silence >= 1))
    bad_input("--silence=", FLAGS_silence,
              ": expected at least 1 second: processes tell of themselves several "
              "times in each");
  if (FLAGS_compress != "none") {
    const bool top = FLAGS_compress.rfind("topk:", 0) == 0;
    options.compression.top = top ? number_in(FLAGS_compress.substr(5)).value_or(0) : 0;
    if (!(options.compression.top > 0 && options.compression.top <= 1))
      bad_input("--compress=", FLAGS_compress,
                ": expected none, or topk: with the share of values to send, such "
                "as topk:0.01");
  }
  options.compression.narrow = reduce_precision();
  return options;
}

/// --uplink: to the processes that were started together with this one; nullptr: there are none.
std::unique_ptr<parallel::WireUplink> join_processes(Console& console) {
  const std::optional<DType> narrow = reduce_precision();
  if (FLAGS_uplink != "mpi" && FLAGS_uplink != "nccl" && !FLAGS_parameter_server) {
    const std::optional<parallel::Launch> launch = parallel::find_launch();
    if (FLAGS_uplink == "auto" && launch && launch->processes > 1)
      bad_input(
          "this is one of ", launch->processes, " processes that ", launch->launcher,
          " started: pass --uplink=mpi (or nccl) to train on all of their devices together, or --uplink=none "
          "to have each train by itself");
    if (narrow)
      bad_input("--reduce_precision=", FLAGS_reduce_precision, " is for processes joined by --uplink");
    if (FLAGS_share_data) bad_input("--share_data is for processes joined by --uplink");
    return nullptr;
  }
  parallel::WireUplinkOptions options;
  options.watchdog_seconds = FLAGS_watchdog;
  options.reduce_precision = narrow;
  options.told_to_end = &told_to_end();
  options.served_by_first = FLAGS_parameter_server;
  if (FLAGS_parameter_server) options.dispensable_from = FLAGS_servers + FLAGS_server_tree;
  if (const std::optional<parallel::Launch> launch = parallel::find_launch()) {
    options.process = launch->process;
    options.turn_on_host = launch->turn_on_host;
  }
  auto uplink = std::make_unique<parallel::WireUplink>(parallel::connect_by_mpi(), options);
  if (uplink->place().process > 0) {
    console.set_origin(cat("[", uplink->name(), "] "));
    if (!given("minloglevel")) FLAGS_minloglevel = google::GLOG_WARNING;
  }
  return uplink;
}

/// --uplink=nccl
const parallel::DeviceWires& nccl_for(const std::vector<DeviceChoice>& devices) {
  if (devices[0].kind != DeviceKind::cuda)
    bad_input("--uplink=nccl joins GPUs: processes with CPU devices are joined by --uplink=mpi");
  const parallel::DeviceWires& wires = parallel::nccl_wires();
  LOG(INFO) << "GPUs of different processes exchange by " << wires.version();
  return wires;
}

/// A trace of each process: trace.json, trace.1.json...
std::string trace_path(int process) {
  if (FLAGS_trace.empty() || process == 0) return FLAGS_trace;
  const std::filesystem::path path(FLAGS_trace);
  return (path.parent_path() / cat(path.stem().string(), ".", process, path.extension().string())).string();
}

/// What the solver says about metrics, and flags, which come first.
void set_metrics(TrainOptions& options) {
  MetricsSettings& settings = options.solver.metrics;
  if (given("metrics")) settings.folder = FLAGS_metrics;
  for (const auto& [flag, value, setting] : {std::tuple{"histograms", FLAGS_histograms, &settings.histograms},
                                             std::tuple{"images", FLAGS_images, &settings.images}}) {
    if (value < 0) bad_input("--", flag, "=", value, ": expected iterations, 0 for never");
    if (given(flag)) *setting = value;
    if (*setting > 0 && settings.folder.empty())
      bad_input("--", flag, " belongs to metrics: --metrics is missing");
  }
  options.metrics.command_line = gflags::GetArgvs();
  options.metrics.existing = given("snapshot") ? metrics::Existing::resume
                             : FLAGS_overwrite ? metrics::Existing::replace
                                               : metrics::Existing::refuse;
}

/// --serve; nullptr without it.
std::unique_ptr<live::PageServer> page_server(TrainOptions& options) {
  if (!given("serve")) return nullptr;
  live::PageServerOptions serving;
  serving.port = banyan::number_in<int>(FLAGS_serve).value_or(-1);
  if (serving.port < 0 || serving.port > 65535)
    bad_input("--serve=", FLAGS_serve, ": expected a port from 1 to 65535, or 0 for any that is free");
  serving.name = std::filesystem::path(options.solver_path).stem().string();
  serving.folder = options.solver.metrics.folder;
  serving.resumes = !options.snapshot.empty();
  auto server = std::make_unique<live::PageServer>(serving);
  LOG(INFO) << "This run's report: " << server->url();
  options.metrics.sinks.push_back(server->sink());
  return server;
}

/// --dashboard; nullptr without it, and where it cannot be shown.
std::unique_ptr<live::Dashboard> dashboard(Console& console, TrainOptions& options) {
  if (!FLAGS_dashboard) return nullptr;
  std::string why;
  if (!Panel::possible(console, why)) {
    LOG(INFO) << "--dashboard shows the log only: " << why;
    return nullptr;
  }
  auto made = std::make_unique<live::Dashboard>(console);
  options.metrics.sinks.push_back(made->sink());
  options.board = made->board();
  return made;
}

/// What the flags say about a training run, apart from its solver and its devices.
TrainOptions run_options() {
  if (!FLAGS_weights.empty() && !FLAGS_snapshot.empty())
    bad_input("--weights and --snapshot exclude each other: a snapshot has its own weights");
  TrainOptions options;
  options.solver_path = FLAGS_solver;
  options.threads_per_device = checked_threads();
  options.pinning = pinning();
  options.sync_bn = sync_bn();
  options.tree = FLAGS_tree;
  options.snapshot = FLAGS_snapshot;
  options.weights = split_list(FLAGS_weights);
  options.signals = &signal_flags();
  return options;
}

/// What processes say to each other depends on these flags, which a line of mpirun's may give to some only.
void compare_flags(parallel::WireUplink& uplink) {
  const bool served = FLAGS_parameter_server;
  parallel::expect_alike(uplink, {{"--parameter_server", served ? "yes" : "no"},
                                  {"--uplink", served ? "" : FLAGS_uplink},
                                  // A server takes differences of any kind.
                                  {"--reduce_precision", served ? "" : FLAGS_reduce_precision},
                                  {"--share_data", FLAGS_share_data ? "yes" : "no"},
                                  {"--snapshot", FLAGS_snapshot},
                                  {"--max_iter", max_iter() ? std::to_string(*max_iter()) : ""},
                                  {"--level", level() ? std::to_string(*level()) : ""},
                                  {"--stage", FLAGS_stage}});
}

int train_with(Console& console, parallel::WireUplink* uplink) {
  TrainOptions options = run_options();
  options.solver = load_solver(FLAGS_solver, unknown_fields(), max_iter());
  add_to_state(*options.solver.nets.mutable_train_state(), level(), split_list(FLAGS_stage));
  const ChosenDevices chosen = devices_for(options.solver.devices);
  LOG_IF(INFO, !chosen.note.empty()) << chosen.note;
  options.devices = chosen.devices;
  options.precision = precision_for(options.devices);
  options.watchdog_seconds = FLAGS_watchdog;
  options.check_nan = FLAGS_check_nan;
  options.is_the_program = true;
  options.warnings = choice_of<bool>("warnings", {true, false});
  options.uplink = uplink;
  if (uplink != nullptr) compare_flags(*uplink);
  std::optional<parallel::DeviceUplink> on_devices;
  options.parameter_server = parameter_server();
  const int process = uplink != nullptr ? uplink->place().process : 0;
  if (options.parameter_server) {
    options.parameter_server->uplink = uplink;
    if (process < options.parameter_server->servers + options.parameter_server->inner) {
      options.devices.resize(1);
      options.pinning = Pinning::off;  // it computes little: the cores are for workers
    }
    if (process > 0) options.signals = nullptr;  // the first server decides when to stop
  }
  if (uplink != nullptr) {
    uplink->bring(static_cast<int>(options.devices.size()));
    LOG(INFO) << uplink->place().processes() << " processes with " << uplink->place().devices() << " devices";
    if (FLAGS_share_data) options.shared_batches = share_batches(*uplink);
    if (FLAGS_uplink == "nccl")
      options.uplink = &on_devices.emplace(*uplink, nccl_for(options.devices), reduce_precision());
  }
  if (process == 0) options.console = &console;
  resolve_start(options);
  LOG_IF(INFO, FLAGS_snapshot == "latest" && options.snapshot.empty())
      << "No snapshot " << snapshot_prefix_of(options.solver.snapshot, FLAGS_solver)
      << "_iter_*.solverstate yet: starting from the beginning";
  set_metrics(options);
  install_signals(effect_of("sigint_effect"), effect_of("sighup_effect"), signal_flags());
  // One process speaks for all.
  const auto server = process == 0 ? page_server(options) : nullptr;
  const auto shown = process == 0 ? dashboard(console, options) : nullptr;
  int code = 0;
  with_trace(trace_path(process), [&](const std::shared_ptr<Timeline>& timeline) {
    options.timeline = timeline;
    code = train(options);
  });
  return code;
}

/// Does something together with the other processes; whatever fails, one of them says it.
int do_joined(parallel::WireUplink& uplink, const std::function<int()>& work) try {
  const int code = work();
  uplink.leave();
  return code;
} catch (Error& error) {
  uplink.abort(error);
  if (uplink.speaks()) {
    uplink.sign(error);
    say_error(error.what(), FLAGS_log_format == "json");
  }
  uplink.let_others_speak();
  return exit_code(error.kind());
} catch (const std::exception& error) {
  uplink.abort(Error(ErrorKind::runtime, cat(error.what(), "\n  in ", uplink.name())));
  throw;
}

int run_train(Console& console, const Files&) {
  require_flag(FLAGS_solver, "solver",
               "the solver to train with, such as --solver=models/lenet/solver.prototxt");
  if (FLAGS_dashboard && json_log()) bad_input("--dashboard and --log_format=json exclude each other");
  if (!(FLAGS_watchdog >= 0)) bad_input("--watchdog=", FLAGS_watchdog, ": expected seconds, 0 for none");
  parameter_server();  // what is wrong there is said before anybody waits
  const std::unique_ptr<parallel::WireUplink> uplink = join_processes(console);
  if (!uplink) return train_with(console, nullptr);
  return do_joined(*uplink, [&] { return train_with(console, uplink.get()); });
}

int run_doctor(Console& console, const Files&) {
  if (FLAGS_solver.empty())
    for (const char* flag : {"snapshot", "max_iter", "weights", "level", "stage", "all", "iterations"})
      if (given(flag)) bad_input("--", flag, " belongs to a run: --solver is missing");
  if (FLAGS_iterations < 1) bad_input("--iterations=", FLAGS_iterations, ": expected a number >= 1");
  DoctorOptions options;
  options.solver = FLAGS_solver;
  options.devices = device_flags();
  options.level = level();
  options.stages = split_list(FLAGS_stage);
  options.unknown_fields = unknown_fields();
  options.all_records = FLAGS_all;
  options.max_iter = max_iter();
  options.iterations = given("iterations") ? FLAGS_iterations : 0;
  options.run = run_options();
  options.run.precision = precision();
  install_signals(SignalEffect::stop, SignalEffect::stop, signal_flags());
  options.run.console = &console;
  if (!FLAGS_json)
    options.found = [](const Finding& finding) { std::cout << finding_text(finding) << std::flush; };
  const Diagnosis diagnosis = diagnose(options);
  std::cout << (FLAGS_json ? diagnosis_json(diagnosis) : diagnosis_sum(diagnosis)) << std::flush;
  if (diagnosis.stalled) ::_exit(diagnosis.exit_code());
  return diagnosis.exit_code();
}

void note_first_device_only() {
  LOG_IF(INFO, devices_for().devices.size() > 1) << "This command uses the first device only";
}

std::map<std::string, Shape> given_shapes() {
  std::map<std::string, Shape> shapes;
  for (const auto& text : split_list(FLAGS_shape, ';')) {
    const auto [shape, is_new] = shapes.insert(parse_shape_flag(text));
    if (!is_new) bad_input("--shape gives the blob ", quoted(shape->first), " two shapes");
  }
  return shapes;
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
  options.phase =
      FLAGS_phase.empty() ? default_phase : choice_of<Phase>("phase", {Phase::train, Phase::test});
  options.level = level();
  options.stages = split_list(FLAGS_stage);
  options.iterations = FLAGS_iterations;
  options.fold = choice_of<bool>("fold", {true, false});
  options.precision = precision_for(devices);
  options.unknown_fields = unknown_fields();
  options.shapes = given_shapes();
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
  options.updates = FLAGS_updates;
  options.json = FLAGS_json;
  options.signals = &signal_flags();
  install_signals(SignalEffect::stop, SignalEffect::stop, signal_flags());
  if (FLAGS_data) {
    if (!FLAGS_trace.empty()) bad_input("--data and --trace exclude each other");
    if (FLAGS_updates) bad_input("--data and --updates exclude each other");
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

/// To standard output, or completely or not at all to the file of --out.
void print(const std::string& text) {
  if (FLAGS_out.empty())
    std::cout << text;
  else
    io::write_file(FLAGS_out, text);
}

int run_draw(Console&, const Files&) {
  note_first_device_only();
  if (FLAGS_dot && given("layout")) bad_input("--dot and --layout exclude each other");
  DrawOptions drawing;
  drawing.plan = FLAGS_plan;
  drawing.layout = choice_of<DrawLayout>("layout", {DrawLayout::automatic, DrawLayout::dot, DrawLayout::own});
  print(draw_model(model_options(Phase::train), drawing, FLAGS_dot));
  return 0;
}

int run_report(Console&, const Files& folders) {
  write_report(folders, FLAGS_out);
  return 0;
}

int run_device_query(Console&, const Files&) {
  std::vector<DeviceChoice> gpus;
  if (given("gpu")) gpus = devices_for().devices;
  std::cout << describe_devices(gpus);
  return 0;
}

int run_topology(Console& console, const Files&) {
  if (given("simulate")) {
    if (FLAGS_dot) bad_input("--dot and --simulate exclude each other");
    std::cout << describe_simulation(FLAGS_simulate, FLAGS_json);
    return 0;
  }
  if (FLAGS_iterations < 1) bad_input("--iterations=", FLAGS_iterations, ": expected a number >= 1");
  if (FLAGS_dot && FLAGS_json) bad_input("--dot and --json exclude each other");
  TopologyOptions options;
  DeviceFlags flags = device_flags();
  if (!flags.gpu && !flags.cpu) {
    const GpuCensus gpus = count_gpus_if_possible();
    LOG_IF(WARNING, gpus.unknown) << "Looking at the processor only: " << gpus.why_none;
    if (gpus.count > 0) flags.gpu = "all";
  }
  options.devices = choose_devices(flags).devices;
  options.threads = checked_threads();
  options.tree = FLAGS_tree;
  options.repeats = given("iterations") ? FLAGS_iterations : 0;
  options.json = FLAGS_json;
  options.dot = FLAGS_dot;
  if (FLAGS_uplink == "nccl") bad_input("topology measures networks by --uplink=mpi");
  const std::unique_ptr<parallel::WireUplink> uplink = join_processes(console);
  if (!uplink) {
    std::cout << describe_topology(options);
    return 0;
  }
  return do_joined(*uplink, [&] {
    if (FLAGS_dot) bad_input("--dot draws the devices of one process");
    uplink->bring(static_cast<int>(options.devices.size()));
    options.uplink = uplink.get();
    const std::string text = describe_topology(options);
    if (uplink->place().process == 0) std::cout << text;
    return 0;
  });
}

int run_layers(Console&, const Files& types) {
  std::cout << (types.empty() ? describe_layers(FLAGS_json) : describe_layer_types(types, FLAGS_json));
  return 0;
}

int run_check(Console&, const Files& files) {
  CheckOptions options;
  options.files = files;
  options.level = level();
  options.stages = split_list(FLAGS_stage);
  options.shapes = given_shapes();
  options.unknown_fields = unknown_fields();
  options.max_iter = max_iter();
  if (given("phase")) options.phase = choice_of<Phase>("phase", {Phase::train, Phase::test});
  const CheckReport report = check_files(options);
  std::cout << report.text;
  return report.problems == 0 ? 0 : 2;
}

int run_convert(Console&, const Files& files) {
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
  options.names = choice_of<io::NameStyle>("names", {io::NameStyle::index, io::NameStyle::torch});
  options.overwrite = FLAGS_overwrite;
  convert_files(options);
  return 0;
}

int run_completion(Console&, const Files& shells) {
  std::cout << (shells[0] == "bash" ? tools::bash_completion(command_line())
                                    : tools::zsh_completion(command_line()));
  return 0;
}

int run_man(Console&, const Files&) {
  std::cout << tools::man_page(command_line(), program_version());
  return 0;
}

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {{"train", "", "trains with a solver (the default command)"}, run_train},
      {{"test", "", "runs batches of a test net and prints its outputs"}, run_test},
      {{"time", "", "times each layer, communication among devices, or the input"}, run_time},
      {{"summary", "", "prints layers, shapes, parameters, multiply-adds and memory"}, run_summary},
      {{"draw", "", "draws the net as SVG, on standard output or into --out"}, run_draw},
      {{"report", "RUN...", "one HTML page of what runs measured (the folders of --metrics)", 1, 1000,
        tools::file({""})},
       run_report},
      {{"check", "FILE...", "reports everything that is wrong with solvers and nets", 1, 1000,
        tools::file({".prototxt"})},
       run_check},
      {{"convert", "IN OUT", "weights to and from .safetensors and .npz, nets to .onnx", 1, 2,
        tools::file({".caffemodel", ".caffemodel.h5", ".safetensors", ".npz", ".onnx"}),
        "OUT.onnx needs --model=DEPLOY; --weights=FILE may take the place of IN there."},
       run_convert},
      {{"doctor",
        "",
        "looks for what may go wrong with a run, and how long it will take",
        0,
        0,
        {},
        "It looks at the machine; with --solver also at nets, data, memory and disk, and times some "
        "iterations. "
        "Each finding is ok, a warning or an error, with what to do. Exit code: 0 all ok, 1 warnings, 2 "
        "errors."},
       run_doctor},
      {{"layers", "[TYPE...]", "lists the layer types, or explains one and its settings", 0, 1000,
        tools::some("TYPE", registered_layer_types())},
       run_layers},
      {{"device_query", "", "describes the processor and the GPUs"}, run_device_query},
      {{"topology", "", "draws the device tree, verifies and measures the links"}, run_topology},
      {{"completion", "bash|zsh", "prints what the shell needs to complete command lines", 1, 1,
        tools::one_of({"bash", "zsh"}),
        "For this shell only: source <(trainer completion bash). `cmake --install` puts both scripts where "
        "the "
        "shells look."},
       run_completion},
      {{"man", "", "prints the manual page: trainer man | man -l -"}, run_man}};
  return all;
}

/// For tools::parse.
tools::Tool description() {
  tools::Tool tool;
  tool.name = "trainer";
  tool.arguments = "[command]";
  tool.most = 1000;
  for (const auto& flag : command_line().library_flags) tool.other_flags.push_back(flag.name);
  return tool;
}

int run_command(const std::vector<std::string>& words) {
  const std::vector<Command>& all = commands();
  const tools::CommandRow& row =
      words.empty() ? command_line().commands[0] : tools::command_named(command_line(), words[0]);
  const Files files(words.begin() + (words.empty() ? 0 : 1), words.end());
  if (row.name == "train" && given("iterations"))
    bad_input("--iterations does not go with train; --max_iter=N says how many iterations a run has");
  tools::check_usage(command_line(), row, files);
  const auto command =
      std::find_if(all.begin(), all.end(), [&](const Command& one) { return one.row.name == row.name; });
  Console console(json_log() ? ProgressMode::off
                             : choice_of<ProgressMode>("progress", {ProgressMode::automatic, ProgressMode::on,
                                                                    ProgressMode::off}));
  const auto route = route_logs("trainer", console, json_log() ? LogFormat::json : LogFormat::text);
  return command->run(console, files);
}

void print_help(const std::vector<std::string>& words) {
  std::cout << (words.empty()
                    ? tools::help_text(command_line())
                    : tools::help_text(command_line(), tools::command_named(command_line(), words[0])));
}

int run(int argc, char** argv) {
  bool help = false;
  gflags::SetArgv(argc, const_cast<const char**>(argv));
  auto words = tools::parse(description(), argc, argv, help);
  if (!help && !words.empty() && words[0] == "help") {
    help = true;
    words.erase(words.begin());
  }
  if (help) {
    print_help(words);
    return 0;
  }
  // The flag itself belongs to gflags, which would only print a version number.
  if (gflags::GetCommandLineFlagInfoOrDie("version").current_value == "true") {
    std::cout << version_report();
    return 0;
  }
  if (given("help_field")) {
    std::cout << describe_field(FLAGS_help_field, FLAGS_json);
    return 0;
  }
  if (words.empty() && argc == 1) {
    print_help({});
    return 2;
  }
  return run_command(words);
}

/// Whether the log is to be JSON, though the words before may be wrong and end the reading of flags.
bool asks_for_json_log(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string word = words[i];
    std::replace(word.begin(), word.end(), '-', '_');
    if (word.starts_with("__")) word.erase(0, 1);
    if (word == "_log_format=json") return true;
    if (word == "_log_format" && i + 1 < words.size() && words[i + 1] == "json") return true;
  }
  return false;
}

/// As the log's last line, where a program reads it.
int failed(const std::string& what, int code, const std::vector<std::string>& words) {
  say_error(what, FLAGS_log_format == "json" || asks_for_json_log(words));
  return code;
}

}  // namespace
}  // namespace banyan

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  try {
    return banyan::run(argc, argv);
  } catch (const banyan::Error& error) {
    return banyan::failed(error.what(), banyan::exit_code(error.kind()), words);
  } catch (const std::bad_alloc&) {
    return banyan::failed("out of memory", 1, words);
  } catch (const std::exception& error) {
    return banyan::failed(error.what(), 1, words);
  }
}
