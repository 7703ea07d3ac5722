// Whatever happens to one process, all end, one error says what and where, mpirun fails, and nothing is left.
#include "mpi_run.hpp"

namespace banyan {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

constexpr double kWatchdog = 2, kLimit = kWatchdog + 2;
/// Of mpirun itself: it waits for a second before it kills what does not end, and longer on a busy machine.
constexpr double kOfMpirun = 3;

class JoinedFailure : public MpiRun {
 protected:
  void SetUp() override {
    MpiRun::SetUp();
    write("solver", solver_for("net", "max_iter: 1000000 display: 100 snapshot: 0"));
  }
  std::unique_ptr<TrainerProcess> start_long(const std::vector<int>& devices) const {
    auto mpirun =
        start_processes(joined(devices, {"--solver=" + path("solver"), cat("--watchdog=", kWatchdog)}));
    EXPECT_TRUE(mpirun->says("Iteration 300 ")) << mpirun->text();
    return mpirun;
  }
  static double seconds_since(Clock::time_point then) {
    return std::chrono::duration<double>(Clock::now() - then).count();
  }
};

TEST_F(JoinedFailure, AKilledProcessIsNamed) {
  const auto mpirun = start_long({1, 2, 1});
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 3);
  const auto before = Clock::now();
  ::kill(trainers[1], SIGKILL);
  ASSERT_TRUE(mpirun->says("trainer: process 1 on ")) << mpirun->text();
  EXPECT_LT(seconds_since(before), 2);
  EXPECT_GT(mpirun->wait(kLimit + kOfMpirun), 0) << mpirun->text();
  EXPECT_THAT(
      error_in_log(),
      ContainsRegex(cat("process 1 on .* \\(process ID ", trainers[1],
                        "\\) was killed, or has ended without a word\n.*while running.* on cpu:[01] of "
                        "process 1 on .*, iteration [0-9]+")));
  expect_gone(trainers);
}

TEST_F(JoinedFailure, AStoppedProcessIsMissed) {
  const auto mpirun = start_long({1, 1, 1});
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 3);
  const auto before = Clock::now();
  ::kill(trainers[2], SIGSTOP);
  ASSERT_TRUE(mpirun->says("trainer: process 2 on ")) << mpirun->text();
  EXPECT_GE(seconds_since(before), kWatchdog);
  EXPECT_LT(seconds_since(before), kLimit);
  EXPECT_GT(mpirun->wait(kLimit + kOfMpirun), 0) << mpirun->text();
  EXPECT_THAT(
      error_in_log(),
      ContainsRegex("has not been heard of for 2.*while others wait for it(.|\n)*cpu:0 of process 2"));
  expect_gone(trainers);
}

/// However far it has come: in MPI's own start, while they find each other, or later. The least patience for
/// the start is 20 s.
TEST_F(JoinedFailure, AProcessThatIsStoppedWhileItStartsIsMissed) {
  const auto mpirun =
      start_processes(joined({1, 1, 1}, {"--solver=" + path("solver"), cat("--watchdog=", kWatchdog)}));
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 3);
  const auto before = Clock::now();
  ::kill(trainers[1], SIGSTOP);
  EXPECT_GT(mpirun->wait(20 + kLimit + kOfMpirun), 0) << mpirun->text();
  EXPECT_LT(seconds_since(before), 20 + kLimit + kOfMpirun);
  // Open MPI gives up itself where the stopped process was about to make the shared memory that others open.
  if (file("log").find("shared memory initialization") == std::string::npos) {
    EXPECT_THAT(error_in_log(),
                ContainsRegex("have not found each other for 20 s: (one of them|process 1) has not "
                              "started, was stopped|process 1 on .* has not been heard of for 2"));
  }
  expect_gone(trainers);
}

/// The processes' own errors: a record that only one of them reads.
TEST_F(JoinedFailure, AFailureInOneProcessIsSaidOnceByIt) {
  std::filesystem::remove_all(path("db"));
  make_small_lmdb(path("db"), 9);  // of 3 devices with 2 samples each, the first one's
  const auto before = Clock::now();
  EXPECT_NE(run_joined({1, 1, 1}, {"--solver=" + path("solver"), cat("--watchdog=", kWatchdog)}), 0);
  EXPECT_LT(seconds_since(before), kLimit + kOfMpirun);
  EXPECT_THAT(error_in_log(), ContainsRegex("db.*(.|\n)*layer \"images\"(.|\n)*on cpu:0 of process 0 on "));
}

/// A device that hangs in one process, while the process itself is alive: a file that nobody writes.
TEST_F(JoinedFailure, AHangingDeviceIsNamedByItsOwnProcess) {
  write("net", net_with_a_stuck_image(301));  // of the 76th iteration's four
  write("solver", solver_for("net", "max_iter: 1000000 display: 1 snapshot: 0"));
  const auto mpirun =
      start_processes(joined({1, 1}, {"--solver=" + path("solver"), cat("--watchdog=", kWatchdog)}));
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 2);
  ASSERT_TRUE(mpirun->says("Iteration 74 ")) << mpirun->text();
  const auto before = Clock::now();
  ASSERT_TRUE(mpirun->says("trainer: watchdog: ")) << mpirun->text();
  EXPECT_LT(seconds_since(before), kLimit);
  EXPECT_GT(mpirun->wait(kLimit + kOfMpirun), 0) << mpirun->text();
  EXPECT_THAT(error_in_log(), ContainsRegex("watchdog: cpu:0 of process 1 on .* has made no progress for"));
  EXPECT_THAT(error_in_log(), HasSubstr("layer \"images\" data"));
  expect_gone(trainers);
}

/// Process 0 reads ahead for process 1, which will not need it any more.
TEST_F(JoinedFailure, AStuckReadThatNobodyNeedsDoesNotHoldUpTheEnd) {
  write("net", net_with_a_stuck_image(85));  // of process 1's, in the 22nd iteration
  write("solver", solver_for("net", "max_iter: 20 display: 10 snapshot: 0"));
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{{}, {"--share_data"}}) {
    std::vector<std::string> flags = {"--solver=" + path("solver"), cat("--watchdog=", kWatchdog)};
    flags.insert(flags.end(), more.begin(), more.end());
    EXPECT_EQ(start_processes(joined({1, 1}, flags))->wait(30), 0) << file("log");
    EXPECT_THAT(file("log"), HasSubstr("Optimization Done."));
  }
}

TEST_F(JoinedFailure, ProcessesThatTrainDifferentNetsAreToldSo) {
  std::string net = file("net");
  net.replace(net.find("num_output: 4"), 13, "num_output: 5");
  write("other_net", net);
  write("other", solver_for("other_net", "max_iter: 1000000 display: 100 snapshot: 0"));
  auto processes = joined({1, 1}, {"--solver=" + path("solver")});
  processes[1].flags.back() = "--solver=" + path("other");
  EXPECT_NE(start_processes(processes)->wait(10), 0);
  EXPECT_THAT(error_in_log(),
              HasSubstr("process 1 has another layer \"conv\" of the training net than process 0"));
}

/// mpirun may start each process with flags of its own.
TEST_F(JoinedFailure, FlagsThatMustBeAlikeAreCompared) {
  for (const std::string& flag :
       std::vector<std::string>{"--reduce_precision=bf16", "--snapshot=latest", "--share_data",
                                "--parameter_server", "--stage=other"}) {
    auto processes = joined({1, 1}, {"--solver=" + path("solver"), "--watchdog=30"});
    processes[0].flags.push_back(flag);
    if (flag == "--parameter_server") processes[0].flags.front() = "--uplink=auto";
    EXPECT_GT(start_processes(processes)->wait(20), 0);
    EXPECT_THAT(error_in_log(),
                HasSubstr(cat("process 1 has another ", flag.substr(0, flag.find('=')), " than process 0")));
  }
}

TEST_F(JoinedFailure, WithoutMpirunTheTrainersEndToo) {
  const auto mpirun = start_long({1, 1});
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 2);
  mpirun->signal(SIGKILL);
  mpirun->wait();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  expect_gone(trainers);
}

}  // namespace
}  // namespace banyan
