// Set-up of what the devices of a training run share: devices, links, tree, seed.
#include "run.hpp"

#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <random>
#include <sstream>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/shared_batches.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/processor.hpp"
#include "banyan/parallel/links.hpp"
#include "banyan/parallel/tree_choice.hpp"
#include "banyan/train/device_choice.hpp"
#include "banyan/train/log_lines.hpp"
#include "served.hpp"

namespace banyan {
namespace {

/// What would otherwise be noticed late, or never.
void compare_processes(const TrainOptions& options) {
  if (options.uplink == nullptr) return;
  // A server's workers only compute differences: they need not compute alike.
  const char* set = options.parameter_server ? "" : name_of(ops::instruction_set());
  const std::string servers =
      options.parameter_server ? cat(options.parameter_server->servers, " ", options.parameter_server->inner,
                                     " ", options.parameter_server->spares)
                               : "";
  parallel::expect_alike(
      *options.uplink,
      {{"version of the program", BANYAN_VERSION},
       {"--precision", name_of(options.precision)},
       {"kind of devices (--cpu or --gpu)", options.parameter_server                     ? ""
                                            : options.devices[0].kind == DeviceKind::cpu ? "CPU"
                                                                                         : "GPU"},
       {"--sync_bn", std::to_string(static_cast<int>(options.sync_bn))},
       {"solver", cat(options.solver.checksum)},
       {"--servers, --server_tree or --spare_workers", servers},
       {"instruction set (ONEDNN_MAX_CPU_ISA=AVX2 makes all processors compute alike)", set}});
}

/// A stale copy on one machine, with another batch size or rate of dropout, say.
void compare_nets(const Run& run) {
  if (run.options.uplink == nullptr) return;
  std::vector<std::pair<std::string, std::string>> facts = facts_of(run.train_net, "the training net");
  if (!run.options.parameter_server)  // where only the server tests
    for (std::size_t k = 0; k < run.test_nets.size(); ++k)
      for (auto& fact : facts_of(run.test_nets[k], cat("test net #", k))) facts.push_back(std::move(fact));
  parallel::expect_alike(*run.options.uplink, facts);
}

/// Devices that this process's cores are meant for: its own, and those of other processes of the run that may
/// use the same cores.
int devices_on_these_cores(const TrainOptions& options) {
  const auto own = static_cast<int>(options.devices.size());
  if (options.uplink == nullptr) return own;
  const std::vector<int> cores = allowed_cores();
  std::string mine = cat(machine_id(), " ", own);
  for (const int core : cores) mine += cat(" ", core);
  const std::vector<std::string> all = options.uplink->share(mine);
  int devices = 0;
  for (const std::string& process : all) {
    std::istringstream in(process);
    std::string machine;
    int count = 0;
    in >> machine >> count;
    bool shared = false;
    for (int core = 0; in >> core;) shared = shared || contains(cores, core);
    if (shared && machine == machine_id()) devices += count;
  }
  return devices;
}

int threads_for_each(const TrainOptions& options, int devices) {
  if (options.threads_per_device > 0) return options.threads_per_device;
  return std::max(1, static_cast<int>(allowed_cores().size()) / devices);
}

/// nullptr for GPUs, whose host threads are bound to no core.
std::unique_ptr<DeviceCores> cores_for(const TrainOptions& options, int threads) {
  if (options.devices[0].kind != DeviceKind::cpu) return nullptr;
  const std::size_t allowed = allowed_cores().size();
  const auto existing = static_cast<std::size_t>(::sysconf(_SC_NPROCESSORS_ONLN));
  LOG_IF(WARNING, options.uplink != nullptr && options.devices.size() > allowed && allowed < existing)
      << "This process may use " << allowed << " of the machine's " << existing << " cores for its "
      << options.devices.size() << " devices: mpirun binds processes to cores unless it is told otherwise "
      << "(mpirun --bind-to none)";
  auto cores =
      std::make_unique<DeviceCores>(static_cast<int>(options.devices.size()), threads, options.pinning);
  LOG(INFO) << cores->describe();
  return cores;
}

void make_devices(Run& run, int threads) {
  LOG_IF(WARNING, run.options.devices[0].kind == DeviceKind::cuda && !cuda_version_numbers().optimized)
      << "The GPUs' kernels were compiled without optimization: configure with -DBANYAN_CUDA_OPTIMIZE=ON and "
      << "build again";
  std::map<int, int> replicas;  // on the same GPU so far
  for (const DeviceChoice& choice : run.options.devices) {
    if (choice.kind == DeviceKind::cuda) {
      const int replica = replicas[choice.ordinal]++;
      if (replica == 1)
        LOG(INFO) << "GPU " << choice.ordinal << " is listed more than once: its replicas share it.";
      run.devices.push_back(
          make_cuda_device(choice.ordinal, replica, math_of(run.options.precision, choice.kind)));
    } else {
      CpuDeviceOptions cpu = run.options.cpu;
      cpu.threads = threads;
      cpu.math = math_of(run.options.precision, choice.kind);
      if (run.cores) cpu.cores = run.cores->of(static_cast<int>(run.devices.size()));
      run.devices.push_back(make_cpu_device(choice.ordinal, cpu));
    }
    const std::string& name = run.devices.back()->name();
    run.activities.push_back(std::make_unique<Activity>(
        run.options.uplink == nullptr ? name : cat(name, " of ", run.options.uplink->name()),
        &run.abort.flag()));
    if (run.options.timeline)
      run.activities.back()->trace_to(run.options.timeline->add_device(run.devices.back()->name()));
    run.members.push_back({run.devices.back().get(), run.activities.back().get(), &run.access});
  }
}

void measure_links(Run& run) try {
  if (run.options.link_cost) {
    run.links.slowest = *run.options.link_cost;
    return;
  }
  run.links = parallel::measure_link_cost(*run.tree, run.members, run.spin);
} catch (Error& error) {
  error.add_context("while measuring the links between the devices");
  throw;
}

void build_tree_of(Run& run) {
  std::vector<Device*> devices;
  for (const auto& device : run.devices) devices.push_back(device.get());
  run.link_classes = parallel::discover_links(devices);
  const parallel::LinkMatrix& links = *run.link_classes;
  run.tree = parallel::choose_tree(run.options.tree, links);
  if (run.team.alone()) return;
  std::vector<std::string> names;
  for (const auto& device : run.devices) names.push_back(device->name());
  LOG(INFO) << "Device tree:\n" << run.tree->draw(names);
  measure_links(run);
  run.team.trees = std::make_unique<parallel::StatisticsTrees>(links, *run.tree, run.members,
                                                               sync_group_sizes(run.train_net.net), run.abort,
                                                               run.spin, run.team.uplink);
}

/// The seed: that of the resumed state, else random_seed, else drawn now.
void choose_seed(Run& run) {
  if (run.resume && run.resume->state.banyan().has_seed()) {
    run.seed = run.resume->state.banyan().seed();
  } else if (run.solver.random_seed) {
    run.seed = *run.solver.random_seed;
  } else {
    std::random_device source;
    run.seed = (static_cast<std::uint64_t>(source()) << 31) ^ source();
  }
  if (parallel::Uplink* uplink = run.options.uplink) run.seed = std::stoull(uplink->share(cat(run.seed))[0]);
  LOG(INFO) << "Random seed: " << run.seed;
}

/// What determines the bits of a run, besides solver, nets and seed.
caffe::BanyanState describe(const Run& run) {
  const Device& device = *run.devices[0];
  caffe::BanyanState state;
  state.set_devices(run.is_server() ? workers_of(run) * devices_of_worker(run) : run.team.place.devices());
  state.set_device_kind(device.kind() == DeviceKind::cpu ? "cpu" : "gpu");
  state.set_threads_per_device(device.threads());
  state.set_precision(name_of(run.options.precision));
  state.set_tree(run.tree->to_string());
  return state;
}

/// The part of a snapshot that does not change during the run.
void plan_snapshots(Run& run) {
  run.snapshots.diff = run.solver.snapshot.diff;
  run.snapshots.format = run.solver.snapshot.format;
  run.snapshots.run = describe(run);
  run.snapshots.run.set_version(BANYAN_VERSION);
  run.snapshots.run.set_seed(run.seed);
}

/// One process speaks for all, and only it may have a terminal, but all must stop at the same displays.
void open_metrics(Run& run) {
  run.interval = run.solver.display;
  bool wanted = RunMetrics::wanted(run.options), told = RunMetrics::told(run.options);
  if (parallel::Uplink* uplink = run.options.uplink) {
    const std::string first = uplink->share(told ? "told" : wanted ? "watched" : "")[0];
    wanted = !first.empty();
    told = first == "told";
  }
  if (!wanted) return;
  if (run.interval == 0 && told) run.interval = RunMetrics::kInterval;
  if (run.process() != 0) return;
  std::vector<Activity*> activities;
  for (const auto& activity : run.activities) activities.push_back(activity.get());
  run.metrics =
      std::make_unique<RunMetrics>(run.options, activities, run.resume ? run.resume->state.iter() : 0);
}

void check_options(const TrainOptions& options) {
  if (options.devices.empty()) runtime_failure("no device to train on");
  for (const DeviceChoice& choice : options.devices)
    if (choice.kind != options.devices[0].kind) bad_input("CPU and GPU devices cannot train together");
  check_precision(options.precision, options.devices[0].kind);
}

}  // namespace

void read_resume(Run& run, const std::string& state_path) {
  LOG(INFO) << log_lines::resuming(state_path);
  const bool first = run.process() == 0;
  SolverSnapshot snapshot;
  if (first) snapshot = read_snapshot(state_path);
  if (parallel::Uplink* uplink = run.options.uplink) {
    std::string packed;
    if (first && !snapshot.state.SerializeToString(&packed))
      runtime_failure("the state ", quoted(state_path),
                      " has more than 2 GiB, and cannot be sent to the other processes");
    const std::vector<std::string> states = uplink->share(packed);
    if (!first && !snapshot.state.ParseFromString(states[0]))
      runtime_failure("the state ", quoted(state_path), " of process 0 arrived damaged");
    snapshot.state_path = state_path;
  }
  run.resume = std::move(snapshot);
  if (!first) return;
  caffe::BanyanState now = describe(run);
  if (run.snapshots.run.has_seed()) now.set_seed(run.seed);
  for (const std::string& difference : resume_differences(run.resume->state, now)) LOG(WARNING) << difference;
}

std::unique_ptr<Run> make_run(const TrainOptions& options) {
  check_options(options);
  compare_processes(options);
  check_served(options);
  const int devices = devices_on_these_cores(options), threads = threads_for_each(options, devices);
  std::unique_ptr<DeviceCores> cores = cores_for(options, threads);
  auto made = std::make_unique<Run>(
      options, parallel::spin_policy(devices, options.devices[0].kind == DeviceKind::cpu ? threads : 1),
      [](const std::string& line) { LOG(WARNING) << line; });
  Run& run = *made;
  run.cores = std::move(cores);
  run.snapshots.prefix = snapshot_prefix_of(run.solver.snapshot, options.solver_path);
  if (run.process() == 0 && (run.solver.snapshot.interval > 0 || run.solver.snapshot.after_train)) {
    check_snapshot_prefix(run.snapshots.prefix);
    remove_snapshot_leftovers(run.snapshots.prefix);
  }
  run.train_net = train_net_of(run.solver, options.solver_path);
  if (!run.is_worker() && !run.is_further_server())
    run.test_nets = test_nets_of(run.solver, options.solver_path);
  compare_nets(run);
  make_devices(run, threads);
  build_tree_of(run);
  for (const auto& device : run.devices) device->limit_memory(options.memory_limit);  // links are measured
  if (!options.snapshot.empty()) read_resume(run, options.snapshot);
  choose_seed(run);
  if (options.parameter_server) run.names = options.uplink->share(options.uplink->name());
  plan_snapshots(run);
  open_metrics(run);
  if (options.shared_batches) run.abort.on_raise([shared = options.shared_batches] { shared->end(); });
  if (parallel::Uplink* uplink = options.uplink)
    run.abort.on_raise([uplink, &run] {
      uplink->abort(run.abort.error().value_or(Error(ErrorKind::runtime, "the run was ended")));
    });
  return made;
}

}  // namespace banyan
