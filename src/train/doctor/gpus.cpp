#include "gpus.hpp"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/device/context.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/parallel/links.hpp"
#include "banyan/parallel/tree_choice.hpp"
#include "banyan/tensor/values.hpp"
#include "train/commands/link_measure.hpp"

namespace banyan::doctor {
namespace {

using parallel::ClockLimit;
using parallel::GpuState;

std::string cuda_text(int number) { return cat(number / 1000, ".", number % 1000 / 10); }
/// Before version 9 it has one digit less.
int cudnn_major(int number) { return number < 10000 ? number / 1000 : number / 10000; }
std::string cudnn_text(int number) {
  const int major = cudnn_major(number), rest = number - major * (number < 10000 ? 1000 : 10000);
  return cat(major, ".", rest / 100, ".", rest % 100);
}

const char* name_of(ClockLimit limit) {
  switch (limit) {
    case ClockLimit::setting:
      return "clocks that were set";
    case ClockLimit::power:
      return "the power limit";
    case ClockLimit::heat:
      return "heat";
    case ClockLimit::hardware:
      return "the board's protection or power supply";
  }
  return "?";
}

std::string percent(double part, double whole) {
  return cat(static_cast<int>(100 * part / whole + 0.5), " %");
}

/// Which kernels the GPU runs.
void judge_kernels(const std::string& topic, const CudaGpu& gpu, const CudaVersions& versions,
                   Findings& findings) {
  if (!versions.optimized)
    findings.warn(topic, "the program's kernels were compiled without optimization",
                  "configure with -DBANYAN_CUDA_OPTIMIZE=ON and build again");
  const std::vector<int>& architectures = versions.architectures;
  if (architectures.empty()) return;
  const int least = *std::min_element(architectures.begin(), architectures.end());
  std::vector<std::string> texts;
  for (const int one : architectures) texts.push_back(cat(one));
  if (gpu.architecture < least)
    findings.fail(topic,
                  cat("compute capability ", gpu.architecture / 10, ".", gpu.architecture % 10,
                      ", but the program has kernels for ", join(texts, ", "), " and newer"),
                  cat("configure with -DBANYAN_CUDA_ARCHITECTURES=\"", gpu.architecture, ";",
                      join(texts, ";"), "\" and build again"));
  // Native code runs on later GPUs of the same major number; what is newer still is compiled by the driver.
  const bool native = std::any_of(architectures.begin(), architectures.end(), [&](int one) {
    return one / 10 == gpu.architecture / 10 && one <= gpu.architecture;
  });
  if (!native && gpu.architecture > least)
    findings.warn(topic,
                  cat("no native kernels for compute capability ", gpu.architecture / 10, ".",
                      gpu.architecture % 10, ": the driver compiles them at the first start, for minutes"),
                  cat("configure with -DBANYAN_CUDA_ARCHITECTURES=\"", join(texts, ";"), ";",
                      gpu.architecture, "\" and build again"));
}

void judge_memory(const std::string& topic, const CudaGpu& gpu, const std::optional<GpuState>& state,
                  Findings& findings) {
  std::vector<std::string> others;
  for (const auto& process : state ? state->processes : std::vector<parallel::GpuProcess>()) {
    if (process.id == static_cast<unsigned>(::getpid())) continue;
    std::string text = cat("process ", process.id);
    if (!process.name.empty()) text += cat(" (", process.name, ")");
    if (process.bytes > 0) text += cat(" with ", bytes_text(static_cast<double>(process.bytes)));
    others.push_back(text);
  }
  const std::string text = cat(gpu.name, ", ", bytes_text(static_cast<double>(gpu.free)), " of ",
                               bytes_text(static_cast<double>(gpu.memory)), " free");
  const Figures figures = {{"free_bytes", cat(gpu.free)},
                           {"total_bytes", cat(gpu.memory)},
                           {"other_processes", cat(others.size())}};
  if (!others.empty())
    findings.warn(
        topic, cat(text, "; in use by ", join(others, ", ")),
        "wait for it, end it, or choose another GPU: both would be slower, and memory may not suffice",
        figures);
  else if (gpu.free < gpu.memory / 10 * 8)
    findings.warn(topic, text + ", though no other process is seen on it",
                  "look for one in another container, or restart the GPU", figures);
  else
    findings.ok(topic, text, figures);
}

void judge_errors(const std::string& topic, const GpuState& state, Findings& findings) {
  if (state.row_repair_failed.value_or(false))
    findings.fail(topic, "a damaged row of its memory cannot be replaced", "have the GPU replaced");
  else if (state.row_repair_pending.value_or(false))
    findings.warn(topic, "a damaged row of its memory is replaced at the next reset",
                  "reset the GPU or restart the machine");
  if (state.uncorrected_errors.value_or(0) > 0)
    findings.fail(topic,
                  cat(count_text(*state.uncorrected_errors, "error"),
                      " of its memory could not be corrected since the driver was loaded"),
                  "reset the GPU or restart the machine; if they come again, have it replaced");
  if (state.ecc && !*state.ecc)
    findings.warn(topic, "ECC is off: a wrong bit in its memory goes unnoticed",
                  "nvidia-smi -e 1, and a restart");
  else if (state.ecc && state.ecc_after_restart && *state.ecc != *state.ecc_after_restart)
    findings.warn(topic, "ECC will be off after the next restart", "nvidia-smi -e 1");
}

void judge_speed(const std::string& topic, const GpuState& state, Findings& findings) {
  const std::size_t before = findings.all().size();
  if (!state.clock_limits.empty()) {
    std::vector<std::string> reasons;
    for (const ClockLimit limit : state.clock_limits) reasons.emplace_back(name_of(limit));
    const bool set = state.clock_limits == std::vector{ClockLimit::setting};
    const bool power = state.clock_limits == std::vector{ClockLimit::power};
    findings.warn(topic,
                  cat("slowed down by ", join(reasons, " and "),
                      state.temperature ? cat(", at ", *state.temperature, " degrees") : std::string()),
                  set     ? "nvidia-smi -rac -rgc resets the clocks"
                  : power ? "nvidia-smi -pl WATTS, if the power supply allows it"
                          : "look after its cooling and its power supply");
  } else if (state.temperature && state.slowdown_temperature &&
             *state.temperature + 5 >= *state.slowdown_temperature) {
    findings.warn(topic,
                  cat("at ", *state.temperature, " degrees; it slows down at ", *state.slowdown_temperature),
                  "look after its cooling");
  }
  if (state.power_limit && state.usual_power_limit && *state.power_limit < 0.98 * *state.usual_power_limit)
    findings.warn(
        topic,
        cat("limited to ", *state.power_limit, " W, ", percent(*state.power_limit, *state.usual_power_limit),
            " of its usual ", *state.usual_power_limit, " W"),
        cat("nvidia-smi -pl ", *state.usual_power_limit));
  if (state.lanes && state.most_lanes && *state.lanes < *state.most_lanes)
    findings.warn(topic, cat("linked by ", *state.lanes, " of ", *state.most_lanes, " PCIe lanes"),
                  "put the card into another slot, or firmly into this one");
  if (findings.all().size() > before) return;
  std::string text;
  if (state.clock && state.most_clock)
    text += cat("clocks ", *state.clock, " of ", *state.most_clock, " MHz (idle GPUs lower them)");
  if (state.memory_clock && state.most_memory_clock)
    text += cat(", memory ", *state.memory_clock, " of ", *state.most_memory_clock, " MHz");
  if (state.power_limit) text += cat(text.empty() ? "" : ", ", "power limit ", *state.power_limit, " W");
  if (state.temperature) text += cat(text.empty() ? "" : ", ", *state.temperature, " degrees");
  if (state.ecc) text += cat(text.empty() ? "" : ", ", "ECC ", *state.ecc ? "on" : "off");
  if (state.persistent && !*state.persistent)
    text += ", persistence mode off (nvidia-smi -pm 1 makes starts faster)";
  if (state.mig.value_or(false)) text += ", divided by MIG";
  if (!text.empty()) findings.ok(topic, text);
}

void judge_mode(const std::string& topic, const GpuState& state, Findings& findings) {
  if (state.prohibited.value_or(false))
    findings.fail(topic, "its compute mode forbids programs", "nvidia-smi -c 0");
}

/// Computes something and looks at the result.
void compute(const DeviceChoice& choice, Findings& findings) {
  const std::string topic = cat("gpu:", choice.ordinal);
  findings.attempt(
      topic, "look at dmesg for the driver's messages; restart the machine if the GPU is lost", [&] {
        const auto device = make_cuda_device(choice.ordinal, 0);
        device->make_current();
        Context context(*device);
        constexpr std::int64_t kCount = 1 << 20;
        Tensor one(*device, Shape{kCount}, DType::f32), sum(*device, Shape{kCount}, DType::f32);
        ops::fill(context, one, 1);
        ops::fill(context, sum, 2);
        ops::axpby(context, 3, one, 1, sum);
        const Values result = values_of(context, sum);
        const auto wrong =
            std::count_if(result.values.begin(), result.values.end(), [](double x) { return x != 5; });
        if (wrong > 0) runtime_failure("it computes wrong results: ", wrong, " of ", kCount, " sums");
        findings.ok(topic, "computes");
      });
}

TopologyReport measure_links(const std::vector<DeviceChoice>& gpus, const std::string& tree) {
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Device*> all;
  std::vector<std::string> names;
  for (const DeviceChoice& gpu : gpus) {
    devices.push_back(make_cuda_device(gpu.ordinal, 0));
    all.push_back(devices.back().get());
    names.push_back(devices.back()->name());
  }
  const parallel::LinkMatrix links = parallel::discover_links(all);
  TopologyReport report{names, true, 1, 1, links, tree, parallel::choose_tree(tree, links), false, {}, {}};
  measure_links(all, report);
  // What is in flight on a link that stalls keeps using them.
  if (report.stalled())
    for (auto& device : devices) static_cast<void>(device.release());
  return report;
}

std::string link_name(const TopologyReport& report, const MeasuredLink& link) {
  return cat(report.devices[static_cast<std::size_t>(link.from)], " to ",
             report.devices[static_cast<std::size_t>(link.to)]);
}

}  // namespace

void judge_versions(const CudaVersions& versions, const std::string& driver, Findings& findings) {
  const std::string text =
      cat("driver ", driver.empty() ? "" : driver + " ", "for CUDA ", cuda_text(versions.driver), "; CUDA ",
          cuda_text(versions.runtime), ", cuDNN ", cudnn_text(versions.cudnn));
  const std::size_t before = findings.all().size();
  const int driver_major = versions.driver / 1000, runtime_major = versions.runtime / 1000;
  // Within a major version an older driver runs newer libraries.
  if (driver_major < runtime_major)
    findings.fail("CUDA", cat(text, ": the driver is too old for these libraries"),
                  cat("install a driver for CUDA ", cuda_text(versions.runtime), " or newer"));
  else if (versions.driver < versions.runtime)
    findings.warn("CUDA",
                  cat(text,
                      ": the driver is older than the libraries, which works within a major version, "
                      "but not for kernels that it must compile"),
                  cat("install a driver for CUDA ", cuda_text(versions.runtime), " or newer"));
  if (runtime_major != versions.built_with / 1000)
    findings.fail("CUDA",
                  cat("the program was built with CUDA ", cuda_text(versions.built_with), ", but runs with ",
                      cuda_text(versions.runtime)),
                  cat("install CUDA ", versions.built_with / 1000, ", or build the program again"));
  if (cudnn_major(versions.cudnn) != cudnn_major(versions.cudnn_built_with))
    findings.fail(
        "cuDNN",
        cat("the program was built with cuDNN ", cudnn_text(versions.cudnn_built_with), ", but runs with ",
            cudnn_text(versions.cudnn)),
        cat("install cuDNN ", cudnn_major(versions.cudnn_built_with), ", or build the program again"));
  else if (versions.cudnn < versions.cudnn_built_with)
    findings.warn("cuDNN",
                  cat("the program was built with cuDNN ", cudnn_text(versions.cudnn_built_with),
                      ", but runs with the older ", cudnn_text(versions.cudnn)),
                  cat("install cuDNN ", cudnn_text(versions.cudnn_built_with),
                      " or a newer one of the same major version"));
  if (versions.cudnn_runtime != 0 && versions.cudnn_runtime / 1000 != runtime_major)
    findings.fail(
        "cuDNN",
        cat("cuDNN ", cudnn_text(versions.cudnn), " was made for CUDA ", cuda_text(versions.cudnn_runtime),
            ", but CUDA ", cuda_text(versions.runtime), " is loaded"),
        cat("install the cuDNN for CUDA ", runtime_major));
  if (findings.all().size() == before)
    findings.ok("CUDA", text,
                {{"driver", cat(versions.driver)},
                 {"runtime", cat(versions.runtime)},
                 {"cudnn", cat(versions.cudnn)}});
}

void judge_gpu(const std::string& topic, const CudaGpu& gpu, const CudaVersions& versions,
               const std::optional<GpuState>& state, Findings& findings) {
  judge_memory(topic, gpu, state, findings);
  judge_kernels(topic, gpu, versions, findings);
  if (!state) return;
  judge_mode(topic, *state, findings);
  judge_errors(topic, *state, findings);
  judge_speed(topic, *state, findings);
}

void judge_links(const TopologyReport& report, Findings& findings) {
  constexpr double kSlow = 2e9;  // bytes per second: less than PCIe 3.0 with four lanes
  std::size_t whole = 0;
  double least = 0;
  for (const MeasuredLink& link : report.measured) {
    const std::string name = link_name(report, link),
                      how = cat(name_of(link.link), ", ", name_of(link.access));
    const Figures figures = {{"bytes_per_second", json_number(link.speed.bytes_per_second)},
                             {"latency_seconds", json_number(link.speed.latency_seconds)}};
    switch (link.check.verdict) {
      case parallel::LinkVerdict::stalled:
        findings.fail("links", cat(name, " (", name_of(link.link), "): ", link.check.what),
                      parallel::kLinkHint);
        continue;
      case parallel::LinkVerdict::corrupt:
        findings.fail("links",
                      cat(name, " (", name_of(link.link), ") damages data: ", link.check.what,
                          "; training would go through host memory"),
                      parallel::kLinkHint, figures);
        continue;
      case parallel::LinkVerdict::whole:
        break;
    }
    if (link.speed.bytes_per_second < kSlow) {
      findings.warn("links", cat(name, " (", how, "): ", bytes_text(link.speed.bytes_per_second), "/s only"),
                    "trainer topology shows all links; look at the PCIe slots and the BIOS", figures);
      continue;
    }
    least = whole == 0 ? link.speed.bytes_per_second : std::min(least, link.speed.bytes_per_second);
    ++whole;
  }
  if (whole > 0)
    findings.ok("links",
                cat(count_text(whole, "link"), report.edges_only ? " of the tree" : "",
                    ": all data arrived whole, ", bytes_text(least), "/s or more"),
                {{"links", cat(whole)}, {"least_bytes_per_second", json_number(least)}});
}

bool examine_gpus(const std::vector<DeviceChoice>& devices, const std::string& tree, Findings& findings) {
  std::vector<DeviceChoice> gpus;
  for (const DeviceChoice& choice : devices)
    if (std::find(gpus.begin(), gpus.end(), choice) == gpus.end()) gpus.push_back(choice);
  bool stalled = false;
  findings.attempt("CUDA", "trainer --version shows what the program runs with", [&] {
    std::vector<std::string> bus_ids;
    for (const DeviceChoice& gpu : gpus)
      bus_ids.push_back(parallel::sysfs_bus_id(cuda_pci_bus_id(gpu.ordinal)));
    // Before this process is a user of them itself.
    const auto states = parallel::read_gpu_states(bus_ids);
    const CudaVersions versions = cuda_version_numbers();
    judge_versions(versions, states ? states->driver : "", findings);
    if (!states)
      findings.warn(
          "CUDA",
          "NVML (libnvidia-ml.so.1) cannot be used: health, clocks and other users of the GPUs are not known",
          "install it, a part of the driver; in a container allow the driver capability `utility`");
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      const std::string topic = cat("gpu:", gpus[i].ordinal);
      findings.attempt(topic, "nvidia-smi shows whether the GPU is there", [&] {
        judge_gpu(topic, query_cuda_gpu(gpus[i].ordinal), versions,
                  states ? std::optional(states->gpus[i]) : std::nullopt, findings);
      });
      compute(gpus[i], findings);
    }
    if (gpus.size() < 2) return;
    const TopologyReport report = measure_links(gpus, tree);
    judge_links(report, findings);
    stalled = report.stalled();
  });
  return stalled;
}

}  // namespace banyan::doctor
