// Which cores the threads of a running trainer may use, as reported by the system.
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "banyan/device/cores.hpp"
#include "train/trainer_fixture.hpp"

namespace banyan {
namespace {

struct TaskCores {
  std::string name, cores;  ///< "0-3"
};

std::vector<TaskCores> tasks_of(pid_t process) {
  std::vector<TaskCores> tasks;
  for (const auto& task : std::filesystem::directory_iterator(cat("/proc/", process, "/task"))) {
    std::ifstream status(task.path() / "status");
    TaskCores found;
    for (std::string line; std::getline(status, line);) {
      std::istringstream in(line);
      std::string key;
      in >> key;
      if (key == "Name:") in >> found.name;
      if (key == "Cpus_allowed_list:") in >> found.cores;
    }
    if (!found.cores.empty()) tasks.push_back(found);  // it may have ended meanwhile
  }
  return tasks;
}

class PinnedRun : public TrainerRun {
 protected:
  void SetUp() override {
    TrainerRun::SetUp();
    all_ = allowed_cores();
    if (all_.size() < 2) GTEST_SKIP() << "needs two cores";
    write("endless", solver_for("net", "max_iter: 1000000 display: 5 snapshot_after_train: false"));
  }
  /// The tasks of a trainer in the middle of its iterations.
  std::vector<TaskCores> tasks_with(std::vector<std::string> flags) const {
    flags.push_back("--solver=" + path("endless"));
    const auto trainer = start(flags);
    EXPECT_TRUE(trainer->says("Iteration 10 ")) << trainer->text();
    const std::vector<TaskCores> tasks = tasks_of(trainer->pid());
    trainer->signal(SIGINT);
    EXPECT_EQ(trainer->wait(), 0) << trainer->text();
    return tasks;
  }
  std::vector<int> all_;
};

TEST_F(PinnedRun, DevicesHaveTheirCoresAndTheRestRoams) {
  const int threads = static_cast<int>(all_.size()) / 2;
  std::map<std::string, std::set<std::string>> of;
  std::map<std::string, int> number;
  for (const TaskCores& task : tasks_with({"--cpu=2", "--pin=on", cat("--threads_per_device=", threads)})) {
    of[task.name].insert(task.cores);
    ++number[task.name];
  }
  EXPECT_THAT(of["prefetch"], testing::ElementsAre(core_list(all_)));
  EXPECT_THAT(of["trainer"], testing::ElementsAre(core_list(all_)));
  for (const char* device : {"cpu:0", "cpu:1"}) {
    EXPECT_EQ(of[device].size(), 1u) << device << ": its threads are bound differently";
    EXPECT_LE(number[device], threads) << device << " has threads besides its team";
  }
  EXPECT_NE(of["cpu:0"], of["cpu:1"]);
  if (threads == 1) {
    EXPECT_EQ(of["cpu:0"].begin()->find_first_of(",-"), std::string::npos);
  }
}

TEST_F(PinnedRun, NothingIsBoundWhereCoresAreTooFewOrItIsSwitchedOff) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{cat("--cpu=", all_.size() + 1)}, {"--cpu=2", "--pin=off"}})
    for (const TaskCores& task : tasks_with(flags)) EXPECT_EQ(task.cores, core_list(all_)) << task.name;
  EXPECT_EQ(train_with("solver", {cat("--cpu=", all_.size() + 1), "--pin=on"}), 2);
  EXPECT_THAT(message(), testing::HasSubstr("--pin=on"));
}

TEST_F(PinnedRun, StaysWhereItWasPutFromOutside) {
  ASSERT_TRUE(run_on_cores({all_.back()}));  // a child inherits it, as under taskset
  const auto tasks = tasks_with({"--cpu=1"});
  const int code = train_with("solver", {"--cpu=2", "--pin=on"});
  EXPECT_TRUE(run_on_cores(all_));
  for (const TaskCores& task : tasks) EXPECT_EQ(task.cores, cat(all_.back())) << task.name;
  expect_refusal(code, {"--pin=on", "may use 1"});
}

}  // namespace
}  // namespace banyan
