// A parameter server under a real mpirun: stopped, killed and late workers, a killed server, what is logged.
// (What does not depend on MPI is tested without it: tests/parallel/parameter_server_test.cpp,
// tests/train/served_test.cpp.)
#include <fcntl.h>

#include <regex>

#include "mpi_run.hpp"
#include "train/promise_cases.hpp"

namespace banyan {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

/// Of mpirun itself: it waits for a second before it kills what does not end, and longer on a busy machine.
constexpr double kOfMpirun = 3;

class ParameterServerRun : public MpiRun {
 protected:
  void SetUp() override {
    MpiRun::SetUp();
    write("wide", lmdb_source() + wide_net());
  }
  /// Parameters for several servers.
  static std::string wide_net() {
    return "layer { name: 'wide' type: 'InnerProduct' bottom: 'data' top: 'wide' inner_product_param { "
           "num_output: 200 weight_filler { type: 'xavier' } } } "
           "layer { name: 'relu' type: 'ReLU' bottom: 'wide' top: 'wide' } "
           "layer { name: 'ip' type: 'InnerProduct' bottom: 'wide' top: 'ip' inner_product_param { "
           "num_output: 5 weight_filler { type: 'xavier' } } } "
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } "
           "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'accuracy' include { "
           "phase: TEST } }";
  }
  /// Servers and workers with one device each.
  std::unique_ptr<TrainerProcess> start_served(int workers, const std::vector<std::string>& flags,
                                               int servers = 1) const {
    std::vector<std::string> all = {"--parameter_server", "--cpu=1", "--threads_per_device=1",
                                    "--servers=" + std::to_string(servers)};
    all.insert(all.end(), flags.begin(), flags.end());
    return start_processes(
        std::vector<MpiProcess>(static_cast<std::size_t>(workers + servers), MpiProcess{all}), of_mpirun_);
  }
  std::unique_ptr<TrainerProcess> start_long(int workers, const std::vector<std::string>& flags = {},
                                             int servers = 1) const {
    write("solver", solver_for(servers > 1 ? "wide" : "net", "max_iter: 1000000 display: 100 snapshot: 200"));
    std::vector<std::string> all = {"--solver=" + path("solver"), "--watchdog=4", "--silence=1"};
    all.insert(all.end(), flags.begin(), flags.end());
    auto mpirun = start_served(workers, all, servers);
    EXPECT_TRUE(mpirun->says("Iteration 300 ")) << mpirun->text();
    return mpirun;
  }
  /// What a run shows, without times.
  static std::vector<std::string> shown(const std::string& log) {
    std::vector<std::string> found;
    const std::regex line("Iteration [0-9]+.*, loss = .*|Test net output .*|Gradient clipping: .*");
    for (std::sregex_iterator it(log.begin(), log.end(), line), end; it != end; ++it)
      found.push_back(std::regex_replace(it->str(), std::regex("\\(.* iters\\)"), ""));
    return found;
  }
  static std::vector<std::string> norms(const std::string& records) {
    std::vector<std::string> found;
    const std::regex number("\"gradient_norm\":([^,}]*)");
    for (std::sregex_iterator it(records.begin(), records.end(), number), end; it != end; ++it)
      found.push_back((*it)[1]);
    return found;
  }
  std::int64_t iterations_in_log() const {
    const std::string log = file("log");
    std::int64_t last = 0;
    const std::regex line("Iteration ([0-9]+) \\(");
    for (std::sregex_iterator it(log.begin(), log.end(), line), end; it != end; ++it)
      last = std::stoll((*it)[1]);
    return last;
  }
  bool comes(const std::string& pattern, double seconds = 20) const {
    for (int i = 0; i < seconds * 20 && !says(pattern); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return says(pattern);
  }
  /// In one line of the log.
  bool says(const std::string& pattern) const { return std::regex_search(file("log"), std::regex(pattern)); }
  bool goes_on(std::int64_t from, double seconds = 20) const {
    for (int i = 0; i < seconds * 20 && iterations_in_log() <= from; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return iterations_in_log() > from;
  }
  std::vector<std::string> of_mpirun_;  ///< flags
};

/// Under an mpirun that goes on without processes that have ended.
class SurvivingRun : public ParameterServerRun {
 protected:
  void SetUp() override {
    ParameterServerRun::SetUp();
    if (!why_no_ulfm().empty()) GTEST_SKIP() << why_no_ulfm();
    of_mpirun_ = {"--with-ft", "ulfm"};
  }
  static std::string was_killed(std::size_t process, pid_t pid) {
    return cat("process ", process, " on .* \\(process ID ", pid,
               "\\) was killed, or has ended without a word");
  }
};

TEST_F(ParameterServerRun, TrainsToTheEnd) {
  write("solver", solver_for("net", "max_iter: 40 snapshot: 20 display: 10 test_iter: 2 test_interval: 20"));
  const auto mpirun = start_served(3, {"--solver=" + path("solver")});
  EXPECT_EQ(mpirun->wait(), 0) << mpirun->text();
  const std::string log = file("log");
  EXPECT_THAT(log, HasSubstr("Iteration 30 "));
  EXPECT_THAT(log, HasSubstr("Iteration 40, Testing net (#0)"));
  EXPECT_THAT(log, HasSubstr("Parameter server: 40 updates of 120 differences, by age 0:120; 0 dropped"));
  EXPECT_THAT(log, ContainsRegex(
                       "synchronized over the 1 device of each worker, not over all workers: layer \"bn\""));
  EXPECT_THAT(log, HasSubstr("Optimization Done."));
  EXPECT_TRUE(find_latest_snapshot(path("run/s")));
}

TEST_F(ParameterServerRun, AsynchronousAndCompressed) {
  write("solver", solver_for("net", "max_iter: 100 snapshot: 0 display: 50"));
  const auto mpirun = start_served(3, {"--solver=" + path("solver"), "--wait_time=0", "--staleness=6",
                                       "--compress=topk:0.1", "--reduce_precision=bf16"});
  EXPECT_EQ(mpirun->wait(), 0) << mpirun->text();
  EXPECT_THAT(file("log"), ContainsRegex("Parameter server: 100 updates of [0-9]+ differences, .* saved"));
}

TEST_F(ParameterServerRun, AStoppedWorkerIsTakenOutNamedAndTakenBack) {
  const auto mpirun = start_long(2);
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 3);
  ::kill(trainers[2], SIGSTOP);
  ASSERT_TRUE(mpirun->says("is taken out")) << mpirun->text();
  EXPECT_THAT(file("log"),
              ContainsRegex("process 2 on .* has not been heard of for 1[.0-9]* s and is taken out"));
  EXPECT_TRUE(goes_on(iterations_in_log() + 200)) << "with one worker";
  ::kill(trainers[2], SIGCONT);
  ASSERT_TRUE(mpirun->says("is heard of again and taken back")) << mpirun->text();
  EXPECT_TRUE(goes_on(iterations_in_log() + 200)) << "with both";
  mpirun->signal(SIGUSR1);
  EXPECT_EQ(mpirun->wait(), 0) << mpirun->text();
  EXPECT_THAT(file("log"), HasSubstr("workers taken out 1 times, back 1 times"));
}

/// Which comes back when its place is taken.
TEST_F(ParameterServerRun, ASpareWorkerTakesThePlaceOfAStoppedOne) {
  const auto mpirun = start_long(3, {"--spare_workers=1"});
  EXPECT_FALSE(says("process 3 on .* takes the place"));
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 4);
  ::kill(trainers[1], SIGSTOP);
  EXPECT_TRUE(comes("process 3 on .*, a spare worker, takes the place of one that is out")) << mpirun->text();
  EXPECT_TRUE(goes_on(iterations_in_log() + 200)) << "with the spare one";
  ::kill(trainers[1], SIGCONT);
  EXPECT_TRUE(comes("process 1 on .* is heard of again and taken back, as a spare worker")) << mpirun->text();
  EXPECT_TRUE(goes_on(iterations_in_log() + 200));
  mpirun->signal(SIGUSR1);
  EXPECT_EQ(mpirun->wait(), 0) << mpirun->text();
  EXPECT_THAT(file("log"),
              HasSubstr("workers taken out 1 times, back 1 times, replaced by spare ones 1 times"));
}

/// Many seconds of tasks: the other worker does not come to the stuck one in its next pass through the list.
constexpr int kImages = 100'000;
constexpr const char* kTakenOut =
    "process ([12]) on .* has got nothing from its data for [.0-9]+ s and is taken out";

/// A disk that does not answer, in a process that lives. The run goes on for longer than the watchdog would
/// wait.
TEST_F(ParameterServerRun, AWorkerWhoseDiskHangsIsTakenOutNamedAndTakenBack) {
  write("net", net_with_a_stuck_image(301, kImages));
  write("solver", solver_for("net", "max_iter: 1000000 display: 100 snapshot: 200"));
  // A name for the pipe that stays.
  std::filesystem::create_hard_link(path("stuck.png"), path("pipe"));
  const auto mpirun = start_served(2, {"--solver=" + path("solver"), "--watchdog=4", "--silence=2"});
  ASSERT_TRUE(comes(kTakenOut, 60)) << mpirun->text();
  const auto before = Clock::now();
  const std::string log = file("log");
  std::smatch match;
  ASSERT_TRUE(std::regex_search(log, match, std::regex(kTakenOut)));
  const std::string worker = cat("process ", match[1].str(), " on .* ");
  // While the worker is still in open(): afterwards it asks the name for the file's size. Nor shall the next
  // pass through the list stop at it again.
  std::filesystem::copy_file(path("good.png"), path("copy.png"));
  std::filesystem::rename(path("copy.png"), path("stuck.png"));
  while (Clock::now() - before < std::chrono::seconds(6)) {
    ASSERT_TRUE(goes_on(iterations_in_log() + 100)) << "with one worker: " << mpirun->text();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_FALSE(says(worker + "gets data again")) << mpirun->text();
  const int pipe = ::open(path("pipe").c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  ASSERT_GE(pipe, 0) << "nobody reads there";
  const std::string image = file("good.png");
  EXPECT_EQ(::write(pipe, image.data(), image.size()), static_cast<ssize_t>(image.size()));
  ::close(pipe);
  EXPECT_TRUE(comes(worker + "gets data again and is taken back")) << mpirun->text();
  EXPECT_TRUE(goes_on(iterations_in_log() + 200)) << "with both";
  mpirun->signal(SIGUSR1);
  EXPECT_EQ(mpirun->wait(), 0) << mpirun->text();
}

/// At the end such a worker is a failure, after the last snapshot.
TEST_F(ParameterServerRun, AStopDoesNotWaitForAWorkerWhoseDiskHangs) {
  write("net", net_with_a_stuck_image(301, kImages));
  write("solver", solver_for("net", "max_iter: 1000000 display: 100 snapshot: 200"));
  const auto mpirun = start_served(2, {"--solver=" + path("solver"), "--watchdog=4", "--silence=1"});
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 3);
  ASSERT_TRUE(comes(kTakenOut, 60)) << mpirun->text();
  mpirun->signal(SIGUSR1);
  EXPECT_GT(mpirun->wait(4 + 2 + kOfMpirun), 0) << mpirun->text();
  EXPECT_TRUE(find_latest_snapshot(path("run/s")));
  EXPECT_THAT(error_in_log(), ContainsRegex("process [12] on .* has got nothing from its data for [45]"))
      << mpirun->text();
  expect_gone(trainers);
}

/// The run stops with a snapshot as it was asked to, and then whoever waits longest at the end, the server or
/// the other worker, says who is missing.
TEST_F(ParameterServerRun, AStopDoesNotWaitForASilentWorker) {
  const auto mpirun = start_long(2);
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 3);
  ::kill(trainers[2], SIGSTOP);
  ASSERT_TRUE(mpirun->says("is taken out")) << mpirun->text();
  mpirun->signal(SIGUSR1);
  EXPECT_GT(mpirun->wait(4 + 2 + kOfMpirun), 0) << mpirun->text();
  const auto latest = find_latest_snapshot(path("run/s"));
  ASSERT_TRUE(latest);
  EXPECT_GE(read_snapshot(*latest).state.iter(), iterations_in_log());
  EXPECT_THAT(
      error_in_log(),
      ContainsRegex("process 2 on .* has not been heard of for .* by process [01] on .* while others wait"))
      << mpirun->text();
  expect_gone(trainers);
}

/// Open MPI 4 ends all processes when one dies.
TEST_F(ParameterServerRun, AKilledWorkerEndsAllAtOnce) {
  const auto mpirun = start_long(3);
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 4);
  const auto before = Clock::now();
  ::kill(trainers[2], SIGKILL);
  ASSERT_TRUE(mpirun->says("trainer: process 2 on ")) << mpirun->text();
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - before).count(), 2);
  EXPECT_GT(mpirun->wait(2 + kOfMpirun), 0) << mpirun->text();
  EXPECT_THAT(error_in_log(), HasSubstr("was killed, or has ended without a word"));
  expect_gone(trainers);
}

TEST_F(ParameterServerRun, AfterAKilledServerTheRunGoesOnFromItsSnapshot) {
  {
    const auto mpirun = start_long(2);
    ASSERT_TRUE(mpirun->says("Iteration 500 ")) << mpirun->text();  // 400 is saved
    const std::vector<pid_t> trainers = trainers_of(*mpirun, 3);
    ::kill(trainers[0], SIGKILL);
    EXPECT_GT(mpirun->wait(2 + kOfMpirun), 0) << mpirun->text();
    EXPECT_THAT(error_in_log(), ContainsRegex("process 0 on .* was killed, or has ended without a word"));
    expect_gone(trainers);
  }
  const std::int64_t reached = iterations_in_log();
  const auto latest = find_latest_snapshot(path("run/s"));
  ASSERT_TRUE(latest);
  const std::int64_t saved = read_snapshot(*latest).state.iter();
  EXPECT_GE(saved, 400);
  EXPECT_GT(saved, reached - 300) << "snapshots are 200 iterations apart, displays 100";
  write("solver", solver_for("net", cat("max_iter: ", saved + 50, " display: 10 snapshot: 0")));
  const auto again = start_served(2, {"--solver=" + path("solver"), "--snapshot=latest"});
  EXPECT_EQ(again->wait(), 0) << again->text();
  EXPECT_THAT(file("log"), HasSubstr(cat("Resuming from ", *latest)));
  EXPECT_THAT(file("log"), HasSubstr("Parameter server: 50 updates of 100 differences"));
}

/// A server that is stopped is a failure: nobody can go on without it.
TEST_F(ParameterServerRun, AStoppedServerIsMissed) {
  const auto mpirun = start_long(2);
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 3);
  ::kill(trainers[0], SIGSTOP);
  ASSERT_TRUE(mpirun->says("trainer: process 0 on ")) << mpirun->text();
  EXPECT_GT(mpirun->wait(4 + 2 + kOfMpirun), 0) << mpirun->text();
  EXPECT_THAT(error_in_log(), ContainsRegex("has not been heard of for 4.*while others wait for it"));
  expect_gone(trainers);
}

/// Tests, displays, norms for clipping and metrics, and the snapshot: bit for bit those of one server.
TEST_F(ParameterServerRun, TwoServersAreAsOne) {
  write("solver", solver_for("wide",
                             "max_iter: 40 snapshot: 20 display: 10 test_iter: 2 test_interval: 20 momentum: "
                             "0.9 clip_gradients: 0.5"));
  std::vector<std::string> lines, gradients;
  std::string model, state;
  for (const int servers : {1, 2}) {
    const std::string metrics = path(cat("metrics", servers));
    const auto mpirun = start_served(2, {"--solver=" + path("solver"), "--metrics=" + metrics}, servers);
    ASSERT_EQ(mpirun->wait(), 0) << mpirun->text();
    EXPECT_THAT(file("log"),
                HasSubstr("Parameter server: 40 updates of 80 differences, by age 0:80; 0 dropped"));
    const std::vector<std::string> now = shown(file("log"));
    const std::vector<std::string> norms_now = norms(file(cat("metrics", servers, "/metrics.jsonl")));
    EXPECT_GE(now.size(), 8u) << file("log");
    EXPECT_GE(norms_now.size(), 3u);
    if (servers == 1) {
      lines = now;
      gradients = norms_now;
      model = file("run/s_iter_40.caffemodel");
      ASSERT_FALSE(model.empty());
      state = file("run/s_iter_40.solverstate");
    } else {
      EXPECT_THAT(file("log"), HasSubstr("The parameters are shared out over 2 servers: "));
      EXPECT_EQ(now, lines);
      EXPECT_EQ(norms_now, gradients);
      EXPECT_TRUE(file("run/s_iter_40.caffemodel") == model);
      EXPECT_TRUE(file("run/s_iter_40.solverstate") == state);
    }
  }
}

TEST_F(ParameterServerRun, TwoServersAsynchronousAndCompressed) {
  write("solver", solver_for("wide", "max_iter: 100 snapshot: 0 display: 50"));
  const auto mpirun = start_served(3,
                                   {"--solver=" + path("solver"), "--wait_time=0", "--staleness=6",
                                    "--compress=topk:0.1", "--reduce_precision=bf16"},
                                   2);
  EXPECT_EQ(mpirun->wait(), 0) << mpirun->text();
  EXPECT_THAT(file("log"), ContainsRegex("Parameter server: 100 updates of [0-9]+ differences, .* saved"));
}

TEST_F(ParameterServerRun, AWorkerOfTwoServersIsTakenOutAndBack) {
  const auto mpirun = start_long(2, {}, 2);
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 4);
  ::kill(trainers[3], SIGSTOP);
  ASSERT_TRUE(mpirun->says("is taken out")) << mpirun->text();
  EXPECT_TRUE(goes_on(iterations_in_log() + 200)) << "with one worker";
  ::kill(trainers[3], SIGCONT);
  ASSERT_TRUE(mpirun->says("is heard of again and taken back")) << mpirun->text();
  EXPECT_TRUE(goes_on(iterations_in_log() + 200)) << "with both";
  mpirun->signal(SIGUSR1);
  EXPECT_EQ(mpirun->wait(), 0) << mpirun->text();
}

/// Either of two servers; a snapshot of theirs is gone on from by one.
TEST_F(ParameterServerRun, AfterAKilledServerOfTwoOneGoesOn) {
  for (const std::size_t victim : {std::size_t{0}, std::size_t{1}}) {
    const auto mpirun = start_long(2, {}, 2);
    ASSERT_TRUE(mpirun->says("Iteration 500 ")) << mpirun->text();  // 400 is saved
    const std::vector<pid_t> trainers = trainers_of(*mpirun, 4);
    ::kill(trainers[victim], SIGKILL);
    EXPECT_GT(mpirun->wait(2 + kOfMpirun), 0) << mpirun->text();
    EXPECT_THAT(error_in_log(),
                ContainsRegex(cat("process ", victim, " on .* was killed, or has ended without a word")));
    expect_gone(trainers);
  }
  const auto latest = find_latest_snapshot(path("run/s"));
  ASSERT_TRUE(latest);
  const std::int64_t saved = read_snapshot(*latest).state.iter();
  EXPECT_GE(saved, 400);
  write("solver", solver_for("wide", cat("max_iter: ", saved + 50, " display: 10 snapshot: 0")));
  const auto again = start_served(2, {"--solver=" + path("solver"), "--snapshot=latest"});
  EXPECT_EQ(again->wait(), 0) << again->text();
  EXPECT_THAT(file("log"), HasSubstr(cat("Resuming from ", *latest)));
  EXPECT_THAT(file("log"), HasSubstr("Parameter server: 50 updates of 100 differences"));
}

TEST_F(ParameterServerRun, AStoppedFurtherServerIsMissed) {
  const auto mpirun = start_long(2, {}, 2);
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 4);
  ::kill(trainers[1], SIGSTOP);
  ASSERT_TRUE(mpirun->says("trainer: process 1 on ")) << mpirun->text();
  EXPECT_GT(mpirun->wait(4 + 2 + kOfMpirun), 0) << mpirun->text();
  EXPECT_THAT(error_in_log(),
              ContainsRegex("process 1 on .*, a parameter server, has not been heard of for 4"));
  expect_gone(trainers);
}

/// An inner server, and the only worker of one.
TEST_F(ParameterServerRun, ATreeGoesOnWithoutAnInnerServer) {
  const auto mpirun = start_long(4, {"--server_tree=2"});  // process 0, 2 inner servers, 2 workers
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 5);
  for (const std::size_t stopped : {std::size_t{1}, std::size_t{4}}) {
    ::kill(trainers[stopped], SIGSTOP);
    const char* words = stopped == 1 ? "process 1 on .* has not been heard of for 1[.0-9]* s and is taken out"
                                     : "process 2 on .*, or none of its workers, has not been heard of";
    EXPECT_TRUE(comes(words)) << mpirun->text();
    EXPECT_TRUE(goes_on(iterations_in_log() + 200)) << "with the other inner server";
    ::kill(trainers[stopped], SIGCONT);
    EXPECT_TRUE(comes(cat("process ", stopped == 1 ? 1 : 2, " on .* is heard of again and taken back")))
        << mpirun->text();
    EXPECT_TRUE(goes_on(iterations_in_log() + 200)) << "with both";
  }
  mpirun->signal(SIGUSR1);
  EXPECT_EQ(mpirun->wait(), 0) << mpirun->text();
}

TEST_F(ParameterServerRun, AKilledInnerServerEndsAllAtOnce) {
  const auto mpirun = start_long(4, {"--server_tree=2"});
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 5);
  ::kill(trainers[2], SIGKILL);
  EXPECT_GT(mpirun->wait(2 + kOfMpirun), 0) << mpirun->text();
  EXPECT_THAT(error_in_log(), ContainsRegex("process 2 on .* was killed, or has ended without a word"));
  expect_gone(trainers);
}

/// Whatever it was doing, it is named once; with two servers as with one.
TEST_F(SurvivingRun, GoesOnWithoutAKilledWorker) {
  for (const int servers : {1, 2}) {
    const auto mpirun = start_long(3, {}, servers);
    const auto first = static_cast<std::size_t>(servers);
    const std::vector<pid_t> trainers = trainers_of(*mpirun, first + 3);
    for (const std::size_t victim : {first + 1, first}) {
      ::kill(trainers[victim], SIGKILL);
      const std::string words = cat("Parameter server: ", was_killed(victim, trainers[victim]),
                                    ", [.0-9]+ s after it was last heard of, while .* of process ", victim,
                                    " on .*; it is taken out");
      EXPECT_TRUE(comes(words, 5)) << mpirun->text();
      EXPECT_TRUE(goes_on(iterations_in_log() + 200)) << mpirun->text();
    }
    mpirun->signal(SIGUSR1);
    EXPECT_EQ(mpirun->wait(), 0) << mpirun->text();
    EXPECT_THAT(file("log"), HasSubstr("workers taken out 2 times, back 0 times"));
    EXPECT_EQ(file("log").find("trainer: "), std::string::npos) << file("log");
    const auto latest = find_latest_snapshot(path("run/s"));
    ASSERT_TRUE(latest);
    EXPECT_GE(read_snapshot(*latest).state.iter(), iterations_in_log());
    expect_gone(trainers);
  }
}

TEST_F(SurvivingRun, SpareWorkersTakeThePlacesOfKilledOnes) {
  for (const int servers : {1, 2}) {
    const auto mpirun = start_long(3, {"--spare_workers=2"}, servers);  // one trains at a time
    const auto first = static_cast<std::size_t>(servers);
    const std::vector<pid_t> trainers = trainers_of(*mpirun, first + 3);
    for (const std::size_t victim : {first, first + 1}) {
      ::kill(trainers[victim], SIGKILL);
      EXPECT_TRUE(comes(cat("process ", victim + 1, " on .*, a spare worker, takes the place"), 5))
          << mpirun->text();
      EXPECT_TRUE(goes_on(iterations_in_log() + 200)) << mpirun->text();
    }
    mpirun->signal(SIGUSR1);
    EXPECT_EQ(mpirun->wait(), 0) << mpirun->text();
    EXPECT_THAT(file("log"),
                HasSubstr("workers taken out 2 times, back 0 times, replaced by spare ones 2 times"));
    expect_gone(trainers);
  }
}

/// Killed while the processes compare what they are, or at any time later: to the last iteration in any case.
TEST_F(SurvivingRun, AWorkerMayBeKilledAtAnyTime) {
  write("solver", solver_for("net", "max_iter: 400 display: 100 snapshot: 200"));
  for (const int after_ms : {0, 20, 50, 100, 200, 300, 400, 500}) {
    const auto mpirun = start_served(3, {"--solver=" + path("solver"), "--watchdog=4", "--silence=1"});
    ASSERT_TRUE(mpirun->says("4 processes with 4 devices")) << mpirun->text();
    const std::vector<pid_t> trainers = trainers_of(*mpirun, 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
    ::kill(trainers[2], SIGKILL);
    EXPECT_EQ(mpirun->wait(), 0) << after_ms << " ms: " << mpirun->text();
    EXPECT_THAT(file("log"), HasSubstr("Parameter server: 400 updates of ")) << after_ms << " ms";
    EXPECT_TRUE(std::filesystem::exists(path("run/s_iter_400.solverstate"))) << after_ms << " ms";
    std::filesystem::remove_all(path("run"));
  }
}

TEST_F(SurvivingRun, WithoutAnyWorkerTheRunEnds) {
  const auto mpirun = start_long(2);
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 3);
  for (const std::size_t victim : {std::size_t{1}, std::size_t{2}}) ::kill(trainers[victim], SIGKILL);
  EXPECT_EQ(mpirun->wait(2 + kOfMpirun), 1) << mpirun->text();
  EXPECT_THAT(error_in_log(),
              ContainsRegex("all workers of the parameter server have ended; the last one: process [12] on "
                            ".* was killed, or has ended without a word"));
  expect_gone(trainers);
}

/// Of one server, of two, and of a tree.
TEST_F(SurvivingRun, AKilledServerEndsAllAtOnce) {
  const auto ends = [&](std::unique_ptr<TrainerProcess> mpirun, std::size_t victim, std::size_t count) {
    const std::vector<pid_t> trainers = trainers_of(*mpirun, count);
    ::kill(trainers[victim], SIGKILL);
    EXPECT_GT(mpirun->wait(4 + 2 + kOfMpirun), 0) << mpirun->text();
    EXPECT_THAT(error_in_log(), ContainsRegex(was_killed(victim, trainers[victim])));
    expect_gone(trainers);
  };
  ends(start_long(2), 0, 3);
  ends(start_long(2, {}, 2), 1, 4);
  ends(start_long(4, {"--server_tree=2"}), 2, 5);
}

/// An inner server goes on with its other worker.
TEST_F(SurvivingRun, ATreeGoesOnWithoutAKilledWorker) {
  const auto mpirun = start_long(6, {"--server_tree=2"});  // process 0, 2 inner servers, 4 workers
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 7);
  ::kill(trainers[5], SIGKILL);
  EXPECT_TRUE(comes(cat(was_killed(5, trainers[5]), ".*; it is taken out"), 5)) << mpirun->text();
  EXPECT_TRUE(goes_on(iterations_in_log() + 200)) << mpirun->text();
  mpirun->signal(SIGUSR1);
  EXPECT_EQ(mpirun->wait(), 0) << mpirun->text();
}

/// One that has something to say ends the run as ever: it would happen to the others, too.
TEST_F(SurvivingRun, AnErrorInAWorkerEndsAll) {
  write("net", net_with_a_stuck_image(301));
  std::filesystem::remove(path("stuck.png"));
  write("stuck.png", "no picture");
  write("solver", solver_for("net", "max_iter: 1000000 display: 100 snapshot: 0"));
  const auto mpirun = start_served(2, {"--solver=" + path("solver"), "--watchdog=4", "--silence=2"});
  EXPECT_GT(mpirun->wait(60), 0) << mpirun->text();
  EXPECT_THAT(error_in_log(), ContainsRegex("stuck.png(.|\n)*of process [12] on "));
}

/// Synchronous processes need each other.
TEST_F(SurvivingRun, AKilledSynchronousProcessEndsAll) {
  write("solver", solver_for("net", "max_iter: 1000000 display: 100 snapshot: 0"));
  const auto mpirun =
      start_processes(joined({1, 1, 1}, {"--solver=" + path("solver"), "--watchdog=2"}), of_mpirun_);
  ASSERT_TRUE(mpirun->says("Iteration 300 ")) << mpirun->text();
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 3);
  ::kill(trainers[1], SIGKILL);
  EXPECT_GT(mpirun->wait(2 + 2 + kOfMpirun), 0) << mpirun->text();
  EXPECT_THAT(error_in_log(), ContainsRegex(was_killed(1, trainers[1]) + "\n.*while .* of process 1 on "));
  expect_gone(trainers);
}

TEST_F(ParameterServerRun, TooManyServersAreRefused) {
  write("solver", solver_for("wide"));
  const auto refuses = [&](int processes, int servers, const char* words) {
    const auto mpirun = start_served(processes - servers, {"--solver=" + path("solver")}, servers);
    EXPECT_GT(mpirun->wait(), 0);
    EXPECT_THAT(file("log"), HasSubstr(words));
  };
  refuses(2, 2, "2 parameter servers need at least one worker: start 3 processes or more");
  refuses(2, 3, "3 parameter servers need at least one worker: start 4 processes or more");
}

TEST_F(ParameterServerRun, FlagsAreChecked) {
  const auto refused = [&](const std::vector<std::string>& flags, const char* words) {
    std::vector<std::string> all = {"--solver=" + path("solver"), "--cpu=1"};
    all.insert(all.end(), flags.begin(), flags.end());
    EXPECT_EQ(run(all), 2);
    EXPECT_THAT(message(), HasSubstr(words));
  };
  refused({"--parameter_server"}, "this one was started by itself");
  refused({"--staleness=3"}, "--staleness belongs to --parameter_server");
  refused({"--servers=2"}, "--servers belongs to --parameter_server");
  refused({"--uplink=mpi", "--servers=2"}, "--servers belongs to --parameter_server");
  refused({"--server_tree=2"}, "--server_tree belongs to --parameter_server");
  refused({"--parameter_server", "--server_tree=-1"}, "--server_tree=-1: expected inner servers");
  refused({"--parameter_server", "--server_tree=2", "--servers=2"}, "exclude each other");
  refused({"--parameter_server", "--servers=0"}, "--servers=0: expected processes, 1 or more");
  refused({"--parameter_server", "--uplink=nccl"}, "--uplink=nccl does not go with it");
  refused({"--parameter_server", "--staleness=-1"}, "--staleness=-1: expected updates");
  refused({"--parameter_server", "--wait_time=soon"}, "--wait_time=soon: expected seconds, or all");
  refused({"--parameter_server", "--compress=topk:2"}, "--compress=topk:2: expected none, or topk:");
  refused({"--parameter_server", "--uplink=none"}, "--parameter_server joins the processes");
}

}  // namespace
}  // namespace banyan
