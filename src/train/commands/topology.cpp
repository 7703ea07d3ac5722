#include <unistd.h>

#include <cstdio>
#include <map>

#include "banyan/base/error.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "banyan/parallel/links.hpp"
#include "banyan/parallel/tree_choice.hpp"
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

void measure_sums(const std::vector<std::unique_ptr<Device>>& devices, int repeats, TopologyReport& report) {
  parallel::AbortState abort;
  parallel::LinkAccess access([](const std::string&) {});  // the report says so
  std::vector<std::unique_ptr<Activity>> activities;
  std::vector<parallel::Member> members;
  for (const auto& device : devices) {
    activities.push_back(std::make_unique<Activity>(device->name(), &abort.flag()));
    members.push_back({device.get(), activities.back().get(), &access});
  }
  report.all_reduce =
      parallel::time_all_reduce(report.links, report.tree, members, kSizes, repeats, abort,
                                parallel::spin_policy(report.tree.size(), report.threads_per_device));
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
  if (options.dot) return topology_dot(report);
  if (devices.size() > 1) measure_links(all, report);
  const auto form = [&] { return options.json ? topology_json(report) : topology_text(report); };
  if (report.stalled()) {
    // The driver may wait for the copy forever, even when the process exits normally.
    std::fputs(form().c_str(), stdout);
    std::fflush(stdout);
    ::_exit(1);
  }
  if (devices.size() > 1) measure_sums(devices, options.repeats, report);
  return form();
}

}  // namespace banyan
