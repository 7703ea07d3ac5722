// Promise 4: signals, kills and full disks lose nothing that was saved.
#include <sys/stat.h>
#include <sys/syscall.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "banyan/data/image_codec.hpp"
#include "banyan/train/snapshot_files.hpp"
#include "train/trainer_fixture.hpp"

namespace banyan {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class Interruption : public TrainerRun {
 protected:
  void SetUp() override {
    TrainerRun::SetUp();
    write("long", solver_for("net", "max_iter: 100000000 display: 1"));
  }
  std::unique_ptr<TrainerProcess> start_long(std::vector<std::string> flags = {}) const {
    flags.insert(flags.end(), {"--cpu=2", "--solver=" + path("long")});
    auto process = start(flags);
    EXPECT_TRUE(process->says("Iteration 3 ")) << process->text();
    return process;
  }
  std::size_t states() const {
    std::size_t found = 0;
    if (!fs::exists(path("run"))) return 0;
    for (const auto& entry : fs::directory_iterator(path("run")))
      found += entry.path().extension() == ".solverstate";
    return found;
  }
};

TEST_F(Interruption, CtrlCAndSigtermSnapshotAndEnd) {
  for (const int number : {SIGINT, SIGTERM}) {
    fs::remove_all(path("run"));
    const auto process = start_long();
    process->signal(number);
    EXPECT_EQ(process->wait(), 0);
    EXPECT_THAT(process->text(), HasSubstr("Optimization stopped early."));
    EXPECT_EQ(states(), 1u);
    EXPECT_TRUE(find_latest_snapshot(path("run/s")));
  }
}

/// The names of the threads that take SIGTERM.
std::vector<std::string> takers(pid_t process) {
  std::vector<std::string> names;
  for (const auto& task : fs::directory_iterator(cat("/proc/", process, "/task"))) {
    std::ifstream status(task.path() / "status");
    std::string name;
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("Name:\t")) name = line.substr(6);
      if (line.starts_with("SigBlk:\t") &&
          (std::stoull(line.substr(8), nullptr, 16) >> (SIGTERM - 1)) % 2 == 0)
        names.push_back(name);
    }
  }
  return names;
}

TEST_F(Interruption, NoThreadThatComputesTakesSignals) {
  const auto training = start_long();
  EXPECT_THAT(takers(training->pid()), testing::ElementsAre("signals"));
  const auto timing = start({"time", "--model=" + path("net"), "--iterations=1000000000", "--cpu=1"});
  EXPECT_TRUE(timing->says("Benchmark begins")) << timing->text();
  EXPECT_THAT(takers(timing->pid()), testing::ElementsAre("signals"));
  timing->signal(SIGTERM);
  EXPECT_EQ(timing->wait(), 0);
}

TEST_F(Interruption, EffectsOfSigintAndSighup) {
  auto process = start_long({"--sigint_effect=snapshot", "--sighup_effect=none"});
  process->signal(SIGHUP);
  process->signal(SIGINT);
  EXPECT_TRUE(process->says("Snapshotting solver state"));
  EXPECT_EQ(process->wait(0.3), -1);
  EXPECT_EQ(states(), 1u);
  process->signal(SIGTERM);
  EXPECT_EQ(process->wait(), 0);
  fs::remove_all(path("run"));

  process = start_long({"--sigint_effect=none", "--sighup_effect=stop"});
  process->signal(SIGINT);
  EXPECT_EQ(process->wait(0.3), -1);
  EXPECT_EQ(states(), 0u);
  process->signal(SIGHUP);
  EXPECT_EQ(process->wait(), 0);
  EXPECT_EQ(states(), 1u);
}

/// Is a thread of that process in a call that opens a file?
bool is_in_open(pid_t pid) {
  std::error_code ended;
  for (const auto& task : fs::directory_iterator(cat("/proc/", pid, "/task"), ended)) {
    std::ifstream file(task.path() / "syscall");
    if (long number = -1; file >> number && number == SYS_openat) return true;
  }
  return false;
}

TEST_F(Interruption, ASecondSignalEndsAtOnce) {
  // The polling thread is blocked by a file that nobody writes, so only the handler can end the process.
  ASSERT_EQ(::mkfifo(path("stuck.png").c_str(), 0600), 0);
  const auto png = data::encode_image({1, 6, 6, std::vector<std::uint8_t>(36, 100)}, "png");
  write("good.png", std::string(png.begin(), png.end()));
  std::string list;
  for (int i = 0; i < 40; ++i) list += (i == 20 ? "stuck.png " : "good.png ") + std::to_string(i % 3) + "\n";
  write("list", list);
  write("net",
        R"(layer { name: "images" type: "ImageData" top: "data" top: "label" image_data_param { batch_size: 2
                  is_color: false source: ")" +
            path("list") + "\" root_folder: \"" + folder_ + "/\" } }" + net_behind_sources());
  const auto process = start_long();
  bool stuck = false;
  for (int i = 0; i < 1000 && !stuck; ++i) {
    stuck = is_in_open(process->pid());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // nor does any other file take so long
    stuck = stuck && is_in_open(process->pid());
  }
  ASSERT_TRUE(stuck) << process->text();
  process->signal(SIGINT);
  EXPECT_EQ(process->wait(0.3), -1);
  process->signal(SIGINT);
  EXPECT_EQ(process->wait(1), 130);
}

TEST_F(Interruption, AFullDiskLeavesTheEarlierSnapshotWhole) {
  // Much larger than the log, to which the limit also applies. Adam keeps two histories, so a state is larger
  // than its model.
  std::string net = file("net");
  net.replace(net.find("num_output: 3"), 13, "num_output: 500");
  write("net", net);
  write("first", solver_for("net", "max_iter: 4 type: 'Adam' momentum: 0.9"));
  write("on", solver_for("net", "max_iter: 8 type: 'Adam' momentum: 0.9"));
  ASSERT_EQ(train_with("first", {"--cpu=2"}), 0) << file("log");
  const std::string model = file("run/s_iter_4.caffemodel"), state = file("run/s_iter_4.solverstate");
  ASSERT_GT(state.size(), model.size() + 100);
  for (const std::size_t room : {model.size() / 2, model.size() + 50}) {  // for nothing; for the model
    EXPECT_EQ(run({"--cpu=2", "--solver=" + path("on"), "--snapshot=latest"}, room), 1);
    EXPECT_THAT(message(), HasSubstr(room < model.size() ? "s_iter_8.caffemodel" : "s_iter_8.solverstate"));
    EXPECT_EQ(file("run/s_iter_4.caffemodel"), model);
    EXPECT_EQ(file("run/s_iter_4.solverstate"), state);
    EXPECT_FALSE(fs::exists(path("run/s_iter_8.solverstate")));
    for (const auto& entry : fs::directory_iterator(path("run")))
      EXPECT_THAT(entry.path().extension(), testing::AnyOf(".caffemodel", ".solverstate"));
  }
  EXPECT_EQ(train_with("on", {"--cpu=2", "--snapshot=latest"}), 0) << file("log");
  EXPECT_TRUE(fs::exists(path("run/s_iter_8.solverstate")));
}

TEST_F(Interruption, AKillLosesNothingThatWasSaved) {
  write("busy", solver_for("net", "max_iter: 100000000 snapshot: 1"));
  std::mt19937 random(5);
  std::int64_t reached = 0;
  for (int round = 0; round < 6; ++round) {
    const auto process = start({"--cpu=2", "--solver=" + path("busy"), "--snapshot=latest"});
    ASSERT_TRUE(process->says("Snapshotting solver state")) << process->text();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
    process->signal(SIGKILL);
    EXPECT_EQ(process->wait(), 128 + SIGKILL);
    const auto latest = find_latest_snapshot(path("run/s"));
    ASSERT_TRUE(latest);
    const std::int64_t iteration = read_snapshot(*latest).state.iter();
    EXPECT_GE(iteration, reached);
    if (reached > 0) {
      EXPECT_THAT(process->text(), HasSubstr(cat("_iter_", reached, ".solverstate")));
    }
    reached = iteration;
  }
  EXPECT_GT(reached, 5);
}

}  // namespace
}  // namespace banyan
