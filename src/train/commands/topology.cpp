#include <unistd.h>

#include <cstdio>
#include <iomanip>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/device/cores.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "banyan/parallel/link_probe.hpp"
#include "banyan/parallel/links.hpp"
#include "banyan/parallel/tree_choice.hpp"
#include "banyan/parallel/wire_uplink.hpp"
#include "banyan/train/commands.hpp"
#include "banyan/train/device_choice.hpp"
#include "glog/logging.h"
#include "train/commands/link_measure.hpp"
#include "train/commands/topology_report.hpp"

namespace banyan {
namespace {

constexpr std::size_t kKi = 1024, kMi = 1024 * kKi;
const std::vector<std::size_t> kSizes = {1 * kKi, 2 * kKi,  16 * kKi, 64 * kKi,    256 * kKi, 1 * kMi,
                                         4 * kMi, 16 * kMi, 64 * kMi, 100'000'000, 256 * kMi};

/// With more processes only neighbours are measured: the number of pairs grows quadratically.
constexpr int kAllProcessPairs = 8;

int threads_for(const TopologyOptions& options) {
  if (options.devices[0].kind == DeviceKind::cuda) return 1;
  if (options.threads > 0) return options.threads;
  return std::max(1, usable_cores() / static_cast<int>(options.devices.size()));
}

std::vector<std::unique_ptr<Device>> make_devices(const TopologyOptions& options, int threads,
                                                  const DeviceCores& cores) {
  std::vector<std::unique_ptr<Device>> devices;
  std::map<int, int> replicas;
  for (const DeviceChoice& choice : options.devices) {
    if (choice.kind == DeviceKind::cuda) {
      devices.push_back(make_cuda_device(choice.ordinal, replicas[choice.ordinal]++));
    } else {
      CpuDeviceOptions cpu;
      cpu.threads = threads;
      cpu.cores = cores.of(static_cast<int>(devices.size()));
      devices.push_back(make_cpu_device(choice.ordinal, cpu));
    }
  }
  return devices;
}

class Attached {
 public:
  Attached(parallel::WireUplink& uplink, parallel::UplinkRun run) : uplink_(uplink) {
    uplink_.attach(std::move(run));
  }
  ~Attached() { uplink_.detach(); }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

 private:
  parallel::WireUplink& uplink_;
};

std::vector<parallel::AllReduceTime> measure_sums(const std::vector<std::unique_ptr<Device>>& devices,
                                                  int repeats, const TopologyReport& report,
                                                  parallel::WireUplink* uplink = nullptr) {
  parallel::AbortState abort;
  parallel::LinkAccess access([](const std::string&) {});  // the report says so
  std::vector<std::unique_ptr<Activity>> activities;
  std::vector<parallel::Member> members;
  parallel::UplinkRun run;
  for (const auto& device : devices) {
    activities.push_back(std::make_unique<Activity>(device->name(), &abort.flag()));
    members.push_back({device.get(), activities.back().get(), &access});
    run.activities.push_back(activities.back().get());
  }
  std::optional<Attached> attached;
  if (uplink != nullptr) {
    run.fail = [&abort](const Error& error) { abort.raise(error); };
    abort.on_raise([&abort, uplink] {
      uplink->abort(abort.error().value_or(Error(ErrorKind::runtime, "the measurement was ended")));
    });
    attached.emplace(*uplink, std::move(run));
  }
  return parallel::time_all_reduce(report.links, report.tree, members, kSizes, repeats, abort,
                                   parallel::spin_policy(report.tree.size(), report.threads_per_device),
                                   uplink);
}

/// Of the processes on this machine, how many come before this one, and the most on any machine.
std::pair<int, int> turn_on_machine(parallel::WireUplink& uplink) {
  const std::vector<std::string> machines = uplink.share(machine_id());
  const int me = uplink.place().process;
  std::map<std::string, int> counted;
  int turn = 0, most = 0;
  for (int process = 0; process < static_cast<int>(machines.size()); ++process) {
    if (process == me) turn = counted[machines[process]];
    most = std::max(most, ++counted[machines[process]]);
  }
  return {turn, most};
}

/// One pair after the other. With many processes, neighbours only.
std::vector<MeasuredNetwork> measure_network(parallel::WireUplink& uplink, bool all_pairs) {
  const int me = uplink.place().process, processes = uplink.place().processes();
  const auto probe = std::make_shared<parallel::LinkProbe>();
  uplink.carry(probe);
  parallel::AbortState failed;
  const Attached attached(uplink, {{}, [&failed](const Error& error) { failed.raise(error); }});
  const auto check = [&failed] {
    if (const auto error = failed.error()) throw Error(*error);
  };
  std::vector<MeasuredNetwork> network;
  for (int a = 0; a < processes; ++a)
    for (int b = a + 1; b < processes; ++b) {
      if (!all_pairs && b != a + 1) continue;
      std::string mine;
      if (me == a || me == b) {
        const parallel::NetworkSpeed speed = probe->measure(me == a ? b : a, check);
        std::ostringstream out;
        out << std::setprecision(12) << speed.latency_s << " " << speed.there_bytes_per_s << " "
            << speed.back_bytes_per_s;
        mine = out.str();
      }
      std::istringstream in(uplink.share(mine)[a]);
      MeasuredNetwork& link = network.emplace_back();
      link.from = a;
      link.to = b;
      in >> link.speed.latency_s >> link.speed.there_bytes_per_s >> link.speed.back_bytes_per_s;
    }
  return network;
}

std::string describe_joined(const std::vector<std::unique_ptr<Device>>& devices, TopologyReport& report,
                            const TopologyOptions& options) {
  parallel::WireUplink& uplink = *options.uplink;
  std::vector<Device*> all;
  for (const auto& device : devices) all.push_back(device.get());
  // Processes on one machine would disturb each other.
  const auto [turn, turns] = turn_on_machine(uplink);
  for (int now = 0; now < turns; ++now) {
    if (now == turn && devices.size() > 1) measure_links(all, report);
    uplink.share("");
  }
  if (report.stalled()) runtime_failure(topology_advice(report)[0]);
  JoinedTopology joined;
  for (const std::string& packed : uplink.share(ProcessTopology{
           uplink.name(), report.tree.draw(report.devices), topology_warnings(report), topology_json(report)}
                                                    .pack()))
    joined.processes.push_back(ProcessTopology::unpack(packed));
  joined.devices = uplink.place().devices();
  joined.all_pairs = uplink.place().processes() <= kAllProcessPairs;
  joined.network = measure_network(uplink, joined.all_pairs);
  joined.all_reduce = measure_sums(devices, options.repeats, report, &uplink);
  return options.json ? joined_topology_json(joined) : joined_topology_text(joined);
}

}  // namespace

std::string describe_topology(const TopologyOptions& options) {
  const int threads = threads_for(options);
  // Bound as in training.
  const bool on_cpu = options.devices[0].kind == DeviceKind::cpu;
  const DeviceCores cores(static_cast<int>(options.devices.size()), threads,
                          on_cpu ? Pinning::automatic : Pinning::off);
  const auto devices = make_devices(options, threads, cores);
  std::vector<Device*> all;
  std::vector<std::string> names;
  for (const auto& device : devices) {
    all.push_back(device.get());
    names.push_back(device->name());
  }
  const parallel::LinkMatrix links = parallel::discover_links(all);
  TopologyReport report{names,
                        !on_cpu,
                        threads,
                        usable_cores(),
                        links,
                        options.tree,
                        parallel::choose_tree(options.tree, links),
                        false,
                        {},
                        {}};
  if (options.uplink != nullptr) return describe_joined(devices, report, options);
  if (options.dot) return topology_dot(report);
  if (devices.size() > 1) measure_links(all, report);
  const auto form = [&] { return options.json ? topology_json(report) : topology_text(report); };
  if (report.stalled()) {
    // The driver may wait for the copy forever, even when the process exits normally.
    std::fputs(form().c_str(), stdout);
    std::fflush(stdout);
    ::_exit(1);
  }
  if (devices.size() > 1) report.all_reduce = measure_sums(devices, options.repeats, report);
  return form();
}

}  // namespace banyan
