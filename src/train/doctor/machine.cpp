#include "machine.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan::doctor {
namespace {

namespace fs = std::filesystem;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The number that a text begins with; nothing for "max" and the like.
std::optional<std::uint64_t> number_in(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> number_of(const std::string& path) { return number_in(first_line(path)); }

void lower(std::optional<std::uint64_t>& limit, std::optional<std::uint64_t> other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

/// `Name:   123 kB` of a file such as /proc/meminfo, in bytes.
std::map<std::string, std::uint64_t> kilobytes_of(const std::string& path) {
  std::map<std::string, std::uint64_t> found;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':'), digit = line.find_first_of("0123456789", colon);
    if (colon == std::string::npos || digit == std::string::npos) continue;
    found[line.substr(0, colon)] = number_in(line.substr(digit)).value_or(0) * 1024;
  }
  return found;
}

/// The soft limits of /proc/self/limits, whose columns are aligned.
std::map<std::string, std::optional<std::uint64_t>> limits_of(const std::string& path) {
  constexpr std::size_t kNameWidth = 26;
  std::map<std::string, std::optional<std::uint64_t>> found;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.size() <= kNameWidth) continue;
    std::string name = line.substr(0, kNameWidth);
    while (name.ends_with(' ')) name.pop_back();
    found[name] = number_in(line.substr(kNameWidth));
  }
  return found;
}

/// The process's control group and all above it, in the hierarchy of `controller` ("": the unified one), from
/// the innermost on. In a container the path may be one of the host, which is not there: then the root is the
/// group.
std::vector<std::string> groups_of(const std::string& root, const std::string& controller) {
  const std::string mount = root + "/sys/fs/cgroup" + (controller.empty() ? "" : "/" + controller);
  std::string path;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    // 0::/user.slice or 4:cpu,cpuacct:/docker/1234
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controller.empty() ? controllers == ",,"
                           : controllers.find("," + controller + ",") != std::string::npos)
      path = line.substr(second + 1);
  }
  std::vector<std::string> groups;
  for (fs::path at = path; at.has_relative_path(); at = at.parent_path())
    if (fs::exists(mount + at.string())) groups.push_back(mount + at.string());
  groups.push_back(mount);
  return groups;
}

void read_unified_groups(const std::string& root, MachineState& machine) {
  for (const std::string& group : groups_of(root, "")) {
    for (const char* name : {"/memory.max", "/memory.high"}) {
      const auto limit = number_of(group + name);
      if (!limit || (machine.memory_limit && *machine.memory_limit <= *limit)) continue;
      machine.memory_limit = limit;
      const auto parts = [&] {
        std::map<std::string, std::uint64_t> found;
        std::ifstream file(group + "/memory.stat");
        std::string name_of_part;
        for (std::uint64_t bytes = 0; file >> name_of_part >> bytes;) found[name_of_part] = bytes;
        return found;
      }();
      const auto cache = parts.find("file");
      const std::uint64_t all = number_of(group + "/memory.current").value_or(0);
      machine.group_memory = all - std::min(all, cache == parts.end() ? 0 : cache->second);
    }
    std::istringstream quota(first_line(group + "/cpu.max"));
    std::string used;
    double period = 0;
    if (quota >> used >> period && period > 0)
      if (const auto microseconds = number_in(used))
        machine.core_quota =
            std::min(machine.core_quota.value_or(1e9), static_cast<double>(*microseconds) / period);
    const auto threads = number_of(group + "/pids.max");
    if (threads && (!machine.threads_limit || *threads < *machine.threads_limit)) {
      machine.threads_limit = threads;
      machine.threads = number_of(group + "/pids.current").value_or(0);
    }
  }
}

/// Control groups of version 1 say "no limit" by a number near 2^63.
std::optional<std::uint64_t> old_limit(const std::string& path) {
  const auto limit = number_of(path);
  return limit && *limit < (std::uint64_t{1} << 60) ? limit : std::nullopt;
}

void read_old_groups(const std::string& root, MachineState& machine) {
  for (const std::string& group : groups_of(root, "memory")) {
    const auto limit = old_limit(group + "/memory.limit_in_bytes");
    if (!limit || (machine.memory_limit && *machine.memory_limit <= *limit)) continue;
    machine.memory_limit = limit;
    const std::uint64_t all = number_of(group + "/memory.usage_in_bytes").value_or(0);
    std::uint64_t cache = 0;
    std::ifstream file(group + "/memory.stat");
    std::string name;
    for (std::uint64_t bytes = 0; file >> name >> bytes;)
      if (name == "cache") cache = bytes;
    machine.group_memory = all - std::min(all, cache);
  }
  for (const std::string& group : groups_of(root, "cpu")) {
    const auto quota = number_of(group + "/cpu.cfs_quota_us"),
               period = number_of(group + "/cpu.cfs_period_us");
    if (quota && period && *period > 0)
      machine.core_quota = std::min(machine.core_quota.value_or(1e9),
                                    static_cast<double>(*quota) / static_cast<double>(*period));
  }
  for (const std::string& group : groups_of(root, "pids")) {
    const auto threads = number_of(group + "/pids.max");
    if (!threads || (machine.threads_limit && *machine.threads_limit <= *threads)) continue;
    machine.threads_limit = threads;
    machine.threads = number_of(group + "/pids.current").value_or(0);
  }
}

int count_cores(const std::string& root) {
  // "0-3,8"
  int count = 0;
  std::istringstream ranges(first_line(root + "/sys/devices/system/cpu/online"));
  for (std::string range; std::getline(ranges, range, ',');) {
    const auto first = number_in(range);
    const std::size_t dash = range.find('-');
    const auto last = dash == std::string::npos ? first : number_in(range.substr(dash + 1));
    if (first && last) count += static_cast<int>(*last - *first) + 1;
  }
  return count;
}

std::string processor_of(const std::string& root) {
  std::ifstream file(root + "/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
  return "processor";
}

void judge_cores(const MachineState& machine, const MachineNeeds& needs, Findings& findings) {
  std::string text =
      cat(machine.processor, ", ", count_text(static_cast<std::uint64_t>(needs.cores), "usable core"));
  if (machine.cores > needs.cores) text += cat(" of ", machine.cores);
  Figures figures = {{"cores", cat(needs.cores)}, {"load", json_number(machine.load)}};
  if (machine.core_quota) figures.emplace_back("core_quota", json_number(*machine.core_quota));
  if (machine.core_quota && *machine.core_quota < needs.cores - 0.05) {
    const int whole = std::max(1, static_cast<int>(*machine.core_quota));
    findings.warn("processor",
                  cat(text, ", but the control group may use the time of ", *machine.core_quota,
                      " only: threads will be stopped in the middle of their work"),
                  cat("give the container more, or start with: taskset -c 0-", whole - 1, " trainer ..."),
                  figures);
    return;
  }
  // Its own start is a part of the load.
  if (machine.load > 0.5 * machine.cores + 1) {
    findings.warn("processor",
                  cat(text, "; other programs keep ",
                      machine.load < machine.cores
                          ? cat(machine.load, " of ",
                                count_text(static_cast<std::uint64_t>(machine.cores), "core"), " busy")
                          : cat("all cores busy (load ", machine.load, ")")),
                  "end them, or leave them their cores with taskset; every device waits for the slowest",
                  figures);
    return;
  }
  findings.ok("processor", text, figures);
}

void judge_memory(const MachineState& machine, Findings& findings) {
  std::string text = cat(bytes_text(static_cast<double>(machine.usable_memory())), " of ",
                         bytes_text(static_cast<double>(machine.memory)), " usable");
  if (machine.memory_limit)
    text += cat(", the control group has ", bytes_text(static_cast<double>(*machine.memory_limit)));
  const Figures figures = {{"usable_bytes", cat(machine.usable_memory())},
                           {"total_bytes", cat(machine.memory)}};
  const std::uint64_t swapped = machine.swap - std::min(machine.swap, machine.swap_free);
  if (machine.usable_memory() < machine.memory / 20)
    findings.warn("memory", text, "end other programs, or give the container more memory", figures);
  else if (swapped > machine.memory / 20)
    findings.warn("memory", cat(text, "; ", bytes_text(static_cast<double>(swapped)), " are swapped out"),
                  "end other programs: memory that is swapped out and in again makes devices wait", figures);
  else if (!machine.overcommit)
    findings.warn(
        "memory", text + "; the system refuses memory that is reserved, not used (vm.overcommit_memory 2)",
        "sysctl vm.overcommit_memory=0: databases are mapped as a whole, and CUDA reserves addresses",
        figures);
  else
    findings.ok("memory", text, figures);
}

void judge_limits(const MachineState& machine, const MachineNeeds& needs, Findings& findings) {
  constexpr std::uint64_t kFewFiles = 256;
  const std::size_t before = findings.all().size();
  if (machine.threads_limit &&
      machine.threads + static_cast<std::uint64_t>(needs.threads) > *machine.threads_limit)
    findings.fail(
        "limits",
        cat("the run starts about ", needs.threads, " threads; of ", *machine.threads_limit, " ",
            machine.threads, " are in use"),
        "raise the limit of processes (ulimit -u, pids.max), or use fewer devices or --threads_per_device");
  if (machine.files && *machine.files < kFewFiles)
    findings.warn("limits", cat("a process may open only ", *machine.files, " files"), "ulimit -n 1024");
  if (machine.address_space)
    findings.warn("limits",
                  cat("addresses are limited to ", bytes_text(static_cast<double>(*machine.address_space))),
                  "ulimit -v unlimited: databases are mapped as a whole, and CUDA reserves addresses");
  if (machine.file_size)
    findings.warn("limits", cat("files may grow to ", bytes_text(static_cast<double>(*machine.file_size))),
                  "ulimit -f unlimited: a larger snapshot fails");
  if (machine.cpu_seconds)
    findings.warn("limits",
                  cat("the process is killed after ", *machine.cpu_seconds, " seconds of processor time"),
                  "ulimit -t unlimited");
  if (findings.all().size() > before) return;
  const auto of = [](const std::optional<std::uint64_t>& limit) {
    return limit ? cat(*limit) : std::string("no limit");
  };
  findings.ok("limits", cat("threads: ", of(machine.threads_limit), ", open files: ", of(machine.files),
                            ", locked memory: ",
                            machine.locked ? bytes_text(static_cast<double>(*machine.locked)) : "no limit",
                            needs.gpus ? " (pinned memory does not count)" : " (not needed)"));
}

}  // namespace

std::uint64_t MachineState::usable_memory() const {
  if (!memory_limit) return available;
  return std::min(available, *memory_limit - std::min(*memory_limit, group_memory));
}

MachineState read_machine(const std::string& root) {
  MachineState machine;
  machine.processor = processor_of(root);
  machine.cores = count_cores(root);
  std::istringstream(first_line(root + "/proc/loadavg")) >> machine.load;
  auto memory = kilobytes_of(root + "/proc/meminfo");
  machine.memory = memory["MemTotal"];
  machine.available = memory["MemAvailable"];
  machine.swap = memory["SwapTotal"];
  machine.swap_free = memory["SwapFree"];
  machine.overcommit = number_of(root + "/proc/sys/vm/overcommit_memory").value_or(0) != 2;
  read_unified_groups(root, machine);
  read_old_groups(root, machine);
  auto limits = limits_of(root + "/proc/self/limits");
  // Of all processes of the user: how many there are is not known without looking at each.
  lower(machine.threads_limit, limits["Max processes"]);
  machine.files = limits["Max open files"];
  machine.address_space = limits["Max address space"];
  machine.file_size = limits["Max file size"];
  machine.locked = limits["Max locked memory"];
  machine.cpu_seconds = limits["Max cpu time"];
  return machine;
}

void judge_machine(const MachineState& machine, const MachineNeeds& needs, Findings& findings) {
  judge_cores(machine, needs, findings);
  judge_memory(machine, findings);
  judge_limits(machine, needs, findings);
}

}  // namespace banyan::doctor
