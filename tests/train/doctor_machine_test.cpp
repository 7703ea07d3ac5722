// What the doctor makes of machines, from recorded files of /proc and /sys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "train/doctor/disk.hpp"
#include "train/doctor/machine.hpp"

namespace banyan::doctor {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kGi = std::uint64_t{1} << 30;

/// 8 cores, 16 GiB of which 12 are available, no limits.
class Machine : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / ("machine_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    file("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some Processor\n");
    file("sys/devices/system/cpu/online", "0-5,8-9\n");
    file("proc/loadavg", "0.50 0.40 0.30 1/200 4711\n");
    file("proc/meminfo",
         "MemTotal:       16777216 kB\nMemFree:         1000000 kB\nMemAvailable:   12582912 kB\n"
         "SwapTotal:       4194304 kB\nSwapFree:        4194304 kB\n");
    file("proc/sys/vm/overcommit_memory", "0\n");
    limits("unlimited", "1024", "unlimited");
    file("proc/self/cgroup", "0::/\n");
  }
  void TearDown() override { fs::remove_all(root_); }
  void file(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  void limits(const std::string& processes, const std::string& files, const std::string& size) const {
    const auto line = [](std::string name, const std::string& soft) {
      name.resize(26, ' ');
      return name + soft + std::string(21 - soft.size(), ' ') + "unlimited            units     \n";
    };
    file("proc/self/limits", line("Limit", "Soft Limit") + line("Max cpu time", "unlimited") +
                                 line("Max file size", size) + line("Max processes", processes) +
                                 line("Max open files", files) + line("Max locked memory", "8388608") +
                                 line("Max address space", "unlimited"));
  }
  MachineState read() const { return read_machine(root_.string()); }
  std::vector<Finding> judged(const MachineNeeds& needs = {8, 20, false}) const {
    Findings findings;
    judge_machine(read(), needs, findings);
    return findings.all();
  }
  Finding about(const std::string& topic, const MachineNeeds& needs = {8, 20, false}) const {
    for (const Finding& finding : judged(needs))
      if (finding.topic == topic) return finding;
    ADD_FAILURE() << "nothing about " << topic;
    return {};
  }
  fs::path root_;
};

TEST_F(Machine, WithoutLimits) {
  const MachineState machine = read();
  EXPECT_EQ(machine.cores, 8);
  EXPECT_EQ(machine.memory, 16 * kGi);
  EXPECT_EQ(machine.usable_memory(), 12 * kGi);
  EXPECT_FALSE(machine.memory_limit);
  EXPECT_EQ(machine.locked, 8u << 20);
  EXPECT_FALSE(machine.threads_limit);
  for (const Finding& finding : judged()) EXPECT_EQ(finding.kind, FindingKind::ok) << finding.text;
  EXPECT_EQ(about("processor").text, "Some Processor, 8 usable cores");
  EXPECT_EQ(about("processor", {4, 20, false}).text, "Some Processor, 4 usable cores of 8");
  EXPECT_EQ(about("memory").text, "12 GiB of 16 GiB usable");
}

TEST_F(Machine, InAControlGroup) {
  file("proc/self/cgroup", "0::/pod/container\n");
  file("sys/fs/cgroup/pod/memory.max", "8589934592\n");
  file("sys/fs/cgroup/pod/container/memory.max", "4294967296\n");
  file("sys/fs/cgroup/pod/container/memory.current", "3221225472\n");
  file("sys/fs/cgroup/pod/container/memory.stat", "anon 1073741824\nfile 2147483648\n");
  file("sys/fs/cgroup/pod/container/cpu.max", "max 100000\n");
  file("sys/fs/cgroup/pod/cpu.max", "250000 100000\n");
  file("sys/fs/cgroup/pod/container/pids.max", "30\n");
  file("sys/fs/cgroup/pod/container/pids.current", "12\n");
  const MachineState machine = read();
  EXPECT_EQ(machine.memory_limit, 4 * kGi) << "the narrowest counts";
  EXPECT_EQ(machine.usable_memory(), 3 * kGi) << "the page cache makes room";
  EXPECT_EQ(machine.core_quota, 2.5);
  EXPECT_EQ(machine.threads_limit, 30u);
  EXPECT_EQ(about("processor").kind, FindingKind::warning);
  EXPECT_THAT(about("processor").text, HasSubstr("the time of 2.5 only"));
  EXPECT_THAT(about("processor").remedy, HasSubstr("taskset -c 0-1"));
  EXPECT_EQ(about("processor", {2, 20, false}).kind, FindingKind::ok) << "as many as it has";
  EXPECT_EQ(about("limits").kind, FindingKind::error);
  EXPECT_THAT(about("limits").text, HasSubstr("about 20 threads; of 30 12 are in use"));
  EXPECT_EQ(about("limits", {8, 10, false}).kind, FindingKind::ok);
}

/// A container that sees the host's paths, but only its own files.
TEST_F(Machine, InAContainerWithTheHostsPaths) {
  file("proc/self/cgroup", "0::/docker/0123456789\n");
  file("sys/fs/cgroup/memory.max", "1073741824\n");
  file("sys/fs/cgroup/memory.current", "0\n");
  EXPECT_EQ(read().memory_limit, kGi);
  EXPECT_EQ(read().usable_memory(), kGi);
}

TEST_F(Machine, InOldControlGroups) {
  file("proc/self/cgroup",
       "5:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n3:pids:/docker/1\n1:name=systemd:/x\n");
  file("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "2147483648\n");
  file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  file("sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", "1610612736\n");
  file("sys/fs/cgroup/memory/docker/1/memory.stat", "cache 1073741824\nrss 536870912\n");
  file("sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "150000\n");
  file("sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000\n");
  file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  file("sys/fs/cgroup/pids/docker/1/pids.max", "max\n");
  const MachineState machine = read();
  EXPECT_EQ(machine.memory_limit, 2 * kGi);
  EXPECT_EQ(machine.usable_memory(), 2 * kGi - kGi / 2);
  EXPECT_EQ(machine.core_quota, 1.5);
  EXPECT_FALSE(machine.threads_limit);
}

TEST_F(Machine, OtherPrograms) {
  file("proc/loadavg", "7.90 7 7 1/200 4711\n");
  EXPECT_EQ(about("processor").kind, FindingKind::warning);
  EXPECT_THAT(about("processor").text, HasSubstr("keep 7.9 of 8 cores busy"));
  file("proc/loadavg", "16.25 7 7 1/200 4711\n");
  EXPECT_THAT(about("processor").text, HasSubstr("keep all cores busy (load 16.25)"));
}

TEST_F(Machine, LittleMemory) {
  file("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 500000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n");
  EXPECT_EQ(about("memory").kind, FindingKind::warning);
  file("proc/meminfo",
       "MemTotal: 16777216 kB\nMemAvailable: 9000000 kB\nSwapTotal: 8000000 kB\nSwapFree: 1000000 kB\n");
  EXPECT_THAT(about("memory").text, HasSubstr("are swapped out"));
  SetUp();
  file("proc/sys/vm/overcommit_memory", "2\n");
  EXPECT_THAT(about("memory").remedy, HasSubstr("vm.overcommit_memory=0"));
}

TEST_F(Machine, LimitsOfTheProcess) {
  limits("15", "100", "1048576");
  std::string text;
  for (const Finding& finding : judged())
    if (finding.topic == "limits") text += finding.text + "; " + finding.remedy + "\n";
  EXPECT_THAT(text, AllOf(HasSubstr("about 20 threads; of 15"), HasSubstr("only 100 files"),
                          HasSubstr("files may grow to 1.0 MiB"), HasSubstr("ulimit -f unlimited")));
}

TEST_F(Machine, NothingIsReadable) {
  fs::remove_all(root_);
  fs::create_directories(root_);
  const MachineState machine = read();
  EXPECT_EQ(machine.cores, 0);
  EXPECT_EQ(machine.memory, 0u);
  judged();
}

TEST(Disk, IsMeasuredAndLeftAsItWas) {
  const std::string folder = testing::TempDir() + "doctor_disk_" + std::to_string(::getpid());
  fs::create_directories(folder);
  const DiskState disk = measure_disk(folder, 4 << 20);
  EXPECT_GT(disk.write, 0);
  EXPECT_GT(disk.read, 0);
  EXPECT_GT(disk.size, disk.free);
  EXPECT_TRUE(fs::is_empty(folder));
  EXPECT_EQ(existing_folder(folder + "/a/b"), folder);
  EXPECT_EQ(existing_folder(folder + "/"), folder);
  fs::remove_all(folder);
  EXPECT_THROW(measure_disk(folder, 4 << 20), Error);
}

TEST(Disk, FullOrSlow) {
  const auto judged = [](const DiskState& disk) {
    Findings findings;
    judge_disk(disk, findings);
    return findings.all().at(0).kind;
  };
  EXPECT_EQ(judged({"/data", kGi, 2 * kGi, 5e8, 5e8}), FindingKind::ok);
  EXPECT_EQ(judged({"/data", kGi, 2 * kGi, 1e6, 5e8}), FindingKind::warning);
  EXPECT_EQ(judged({"/data", 0, 2 * kGi, 0, 0}), FindingKind::error);
}

}  // namespace
}  // namespace banyan::doctor
