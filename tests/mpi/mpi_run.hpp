// Trainers that mpirun starts, on this machine.
#pragma once

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "banyan/base/text.hpp"
#include "banyan/data/image_codec.hpp"
#include "banyan/parallel/mpi.hpp"
#include "train/trainer_fixture.hpp"

namespace banyan {

/// "" if mpirun can start trainers that join.
inline std::string why_no_mpi() {
  static const std::string why = [] {
    if (!parallel::built_with_mpi()) return std::string("this build has no MPI library");
    if (std::system("mpirun --version 2>/dev/null | grep -q 'Open MPI'") != 0)
      return std::string("there is no mpirun of Open MPI");
    return std::string();
  }();
  return why;
}

/// "" if mpirun also has ULFM, so that a run can go on without a process.
inline std::string why_no_ulfm() {
  static const std::string why = [] {
    if (!why_no_mpi().empty()) return why_no_mpi();
    if (std::system("ompi_info 2>/dev/null | grep -q 'FT MPI support: yes'") != 0)
      return std::string(
          "this mpirun has no ULFM, with which a run can go on without a process: Open MPI 5 has");
    return std::string();
  }();
  return why;
}

/// What one process of a run is started with.
struct MpiProcess {
  std::vector<std::string> flags;
  std::string folder = "";  ///< to work in; "": the test's
};

class MpiRun : public TrainerRun {
 protected:
  using Clock = std::chrono::steady_clock;
  void SetUp() override {
    TrainerRun::SetUp();
    if (!why_no_mpi().empty()) GTEST_SKIP() << why_no_mpi();
  }

  std::unique_ptr<TrainerProcess> start_processes(const std::vector<MpiProcess>& processes,
                                                  const std::vector<std::string>& of_mpirun = {}) const {
    // More processes than cores; root, as in most containers. The shortest way for messages on one machine.
    std::vector<std::string> words = {"mpirun", "--oversubscribe", "--allow-run-as-root", "--bind-to",
                                      "none"};
    words.insert(words.end(), of_mpirun.begin(), of_mpirun.end());
    for (std::size_t p = 0; p < processes.size(); ++p) {
      if (p > 0) words.push_back(":");
      words.insert(words.end(), {"-np", "1"});
      if (!processes[p].folder.empty()) words.insert(words.end(), {"-wdir", processes[p].folder});
      words.push_back(TrainerProcess::program());
      words.insert(words.end(), processes[p].flags.begin(), processes[p].flags.end());
    }
    return std::make_unique<TrainerProcess>(folder_, path("log"), words, 0, TrainerProcess::Whole{});
  }

  /// A net that reads images, two for each device and iteration; item `stuck` is stuck.png, a pipe:
  /// whoever opens it waits until somebody writes there. The others are good.png.
  std::string net_with_a_stuck_image(int stuck, int images = 400) const {
    EXPECT_EQ(::mkfifo(path("stuck.png").c_str(), 0600), 0);
    const auto png = data::encode_image({1, 6, 6, std::vector<std::uint8_t>(36, 100)}, "png");
    write("good.png", std::string(png.begin(), png.end()));
    std::string list;
    for (int i = 0; i < images; ++i) list += cat(i == stuck ? "stuck.png " : "good.png ", i % 3, "\n");
    write("list", list);
    return R"(layer { name: "images" type: "ImageData" top: "data" top: "label" image_data_param { batch_size: 2
                  is_color: false source: ")" +
           path("list") + "\" root_folder: \"" + folder_ + "/\" } }" + net_behind_sources();
  }

  /// devices[p] CPU devices of process p, joined.
  std::vector<MpiProcess> joined(const std::vector<int>& devices,
                                 const std::vector<std::string>& flags) const {
    std::vector<MpiProcess> processes;
    for (const int count : devices) {
      MpiProcess& process = processes.emplace_back();
      process.flags = {"--uplink=mpi", "--cpu=" + std::to_string(count), "--threads_per_device=1"};
      process.flags.insert(process.flags.end(), flags.begin(), flags.end());
    }
    return processes;
  }

  /// Runs to the end and returns mpirun's exit code; the output is in file("log").
  int run_joined(const std::vector<int>& devices, const std::vector<std::string>& flags) const {
    return start_processes(joined(devices, flags))->wait();
  }

  /// Process IDs of the trainers under mpirun, by their numbers.
  std::vector<pid_t> trainers_of(const TrainerProcess& mpirun, std::size_t count) const {
    std::vector<pid_t> found;
    for (int attempt = 0; attempt < 1000 && found.size() < count; ++attempt) {
      found.clear();
      std::vector<std::pair<int, pid_t>> numbered;
      for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        const pid_t pid = std::atoi(entry.path().filename().c_str());
        if (pid <= 0 || stat_of(pid).parent != mpirun.pid()) continue;
        if (const auto number = number_of(pid)) numbered.push_back({*number, pid});
      }
      std::sort(numbered.begin(), numbered.end());
      for (const auto& [number, pid] : numbered) found.push_back(pid);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(found.size(), count) << file("log");
    found.resize(count, -1);
    return found;
  }

  /// None is left, after up to a second.
  static void expect_gone(const std::vector<pid_t>& pids) {
    for (const pid_t pid : pids) {
      for (int i = 0; i < 200 && stat_of(pid).state != 0; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_EQ(stat_of(pid).state, 0) << pid;
    }
  }

  /// The one error that the trainers print, without what mpirun says.
  std::string error_in_log() const {
    const std::string log = file("log");
    const std::size_t start = log.find("trainer: ");
    EXPECT_NE(start, std::string::npos) << log;
    if (start == std::string::npos) return "";
    EXPECT_EQ(log.find("trainer: ", start + 1), std::string::npos) << "said twice: " << log;
    std::istringstream lines(log.substr(start));
    std::string text, line;
    std::getline(lines, text);
    while (std::getline(lines, line) && line.starts_with("  ")) text += "\n" + line;
    return text;
  }

 private:
  struct Stat {
    char state = 0;  ///< 0: it has ended, even if nobody has asked for its exit code yet
    pid_t parent = -1;
  };
  static Stat stat_of(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    Stat stat;
    const auto after_name = text.rfind(')');
    if (after_name == std::string::npos) return stat;
    std::istringstream rest(text.substr(after_name + 1));
    rest >> stat.state >> stat.parent;
    if (stat.state == 'Z' || stat.state == 'X') stat.state = 0;
    return stat;
  }
  static std::optional<int> number_of(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
    const std::string key = "OMPI_COMM_WORLD_RANK=";
    for (std::string entry; std::getline(file, entry, '\0');)
      if (entry.starts_with(key)) return std::stoi(entry.substr(key.size()));
    return std::nullopt;
  }
};

}  // namespace banyan
