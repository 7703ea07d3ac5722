// Processes that mpirun starts train as one: the same bits as the devices of one process, the same values as
// one device. (What does not depend on MPI itself is tested without it, in tests/train/joined_*_test.cpp.)
#include "mpi_run.hpp"
#include "train/promise_cases.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;

class JoinedTraining : public MpiRun {
 protected:
  /// A solver's file for the case, as options_of reads it.
  static std::string solver_file(const TrainingCase& of, const TrainingFolder& folder) {
    caffe::SolverParameter solver = io::parse_solver_text(of.solver, "solver");
    std::string net = of.net;
    for (std::size_t at; (at = net.find("DATA")) != std::string::npos;)
      net.replace(at, 4, folder.path() + "/images");
    *solver.mutable_net_param() = io::parse_net_text(net, "net");
    solver.set_max_iter(of.iterations);
    if (!solver.has_average_loss()) solver.set_average_loss(of.iterations);
    solver.set_snapshot_prefix(folder.path() + "/out");
    std::string text;
    google::protobuf::TextFormat::PrintToString(solver, &text);
    std::ofstream(folder.path() + "/solver.prototxt") << text;
    return folder.path() + "/solver.prototxt";
  }
  Trained train_joined(const TrainingCase& of, const std::vector<int>& devices,
                       const std::vector<std::string>& more = {}) const {
    const TrainingFolder folder;
    std::vector<std::string> flags = {"--solver=" + solver_file(of, folder),
                                      cat("--precision=", name_of(of.precision))};
    flags.insert(flags.end(), more.begin(), more.end());
    EXPECT_EQ(run_joined(devices, flags), 0) << file("log");
    return read_trained(folder, of.iterations);
  }
};

TEST_F(JoinedTraining, TwoProcessesHaveTheBitsOfTwoDevices) {
  TrainingCase what{std::string(kSolver) + "clip_gradients: 0.5 iter_size: 2",
                    data_layer("shuffle: true") + kBody + classifier()};
  what.precision = RunPrecision::f32;
  const Trained two = train_case(what, 2);
  EXPECT_EQ(train_joined(what, {1, 1}).model_bytes, two.model_bytes);
}

TEST_F(JoinedTraining, ManyProcessesHaveTheSameBitsInEveryRun) {
  TrainingCase what{kSolver, data_layer() + kBody + classifier()};
  what.precision = RunPrecision::f32;
  const Trained first = train_joined(what, {2, 1, 1});
  EXPECT_EQ(train_joined(what, {2, 1, 1}).model_bytes, first.model_bytes);
}

/// As in expect_the_same_run; with dropout, augmentation and uneven or empty shares.
TEST_F(JoinedTraining, ProcessesAreOneDevice) {
  for (const TrainingCase& what : {TrainingCase{std::string(kSolver) + "iter_size: 2 clip_gradients: 0.5",
                                                data_layer("epoch_end: PARTIAL shuffle: true") + kBody +
                                                    classifier("ignore_label: 2") + kSecondLoss},
                                   TrainingCase{kSolver, data_layer() + kRecurrentBody + classifier()}}) {
    const Trained one = train_case(what, 1);
    for (const std::vector<int>& devices : std::vector<std::vector<int>>{{2, 2}, {1, 3, 1}}) {
      const Trained several = train_joined(what, devices);
      SCOPED_TRACE(testing::PrintToString(devices));
      EXPECT_LE(largest_difference(one.values(), several.values()), 1e-10);
      EXPECT_LE(largest_difference(one.losses(), several.losses()), 1e-10);
    }
  }
}

TEST_F(JoinedTraining, SyncGroupsMaySpanProcesses) {
  TrainingCase what{kSolver, data_layer() + kBody + classifier()};
  const std::string sync = "slope_filler { value: 1 }";
  what.net.replace(what.net.find(sync), sync.size(), sync + " sync_group_size: 3");
  const Trained one = train_case(what, 6), several = train_joined(what, {2, 2, 2});
  EXPECT_LE(largest_difference(one.values(), several.values()), 1e-10);
  EXPECT_LE(largest_difference(one.losses(), several.losses()), 1e-10);
}

/// 16 bits on the wire change the values a little, and only they.
TEST_F(JoinedTraining, ShorterGradientsTrainToo) {
  // Wide enough that buckets are longer than what travels with a header, which is not shortened.
  std::string net = data_layer() + kBody + classifier();
  net.replace(net.find("num_output: 6"), 13, "num_output: 64");
  net.replace(net.find("num_output: 8"), 13, "num_output: 64");
  TrainingCase what{kSolver, net};
  what.precision = RunPrecision::f32;
  what.iterations = 5;
  const Trained exact = train_joined(what, {1, 1});
  for (const std::string type : {"bf16", "f16"}) {
    const Trained shorter = train_joined(what, {1, 1}, {"--reduce_precision=" + type});
    // Gradients have errors of 2^-9 or 2^-12 of their size, the parameters then of that part of what they
    // moved, which five iterations of a net with ReLU can amplify: tens of times.
    const double distance = relative_distance(exact.values(), shorter.values());
    EXPECT_GT(distance, 0) << type;
    EXPECT_LT(distance, 0.1) << type;
  }
}

TEST_F(JoinedTraining, ResumesWithOtherProcessesAlsoWhereOnlyTheFirstHasTheFiles) {
  TrainingCase what{std::string(kSolver) + "snapshot: 7 snapshot_after_train: true",
                    data_layer() + kBody + classifier()};
  const Trained whole = train_case(what, 1);
  const TrainingFolder folder;
  TrainingCase part = what;
  const std::string long_solver = solver_file(what, folder);
  const std::string kept = path("long.prototxt");
  std::filesystem::copy_file(long_solver, kept);
  part.iterations = 14;
  part.solver += " average_loss: 20";
  const std::string short_solver = solver_file(part, folder);
  ASSERT_EQ(run_joined({2, 1}, {"--solver=" + short_solver, "--precision=f64"}), 0) << file("log");
  // A relative prefix, so that each process looks in its own folder.
  std::string text = file("long.prototxt");
  const std::string prefix = folder.path() + "/out";
  text.replace(text.find(prefix), prefix.size(), "out");
  write("long.prototxt", text);
  std::filesystem::create_directories(path("elsewhere"));
  auto processes = joined({1, 1, 1, 1}, {"--solver=" + kept, "--precision=f64", "--snapshot=latest"});
  for (std::size_t p = 0; p < processes.size(); ++p)
    processes[p].folder = p == 0 ? folder.path() : path("elsewhere");
  ASSERT_EQ(start_processes(processes)->wait(), 0) << file("log");
  EXPECT_THAT(file("log"), HasSubstr("the number of devices was 3, is 4"));
  EXPECT_THAT(file("log"), HasSubstr("out_iter_14.solverstate"));
  const Trained resumed = read_trained(folder, what.iterations);
  EXPECT_LE(largest_difference(whole.values(), resumed.values()), 1e-10);
  EXPECT_TRUE(std::filesystem::is_empty(path("elsewhere")));  // only the first process writes
}

/// Where the others look for the data there is nothing.
TEST_F(JoinedTraining, OneProcessReadsForAll) {
  std::string net = file("net");
  const std::string there = path("db");
  ASSERT_NE(net.find(there), std::string::npos) << net;
  net.replace(net.find(there), there.size(), "db");
  write("relative", net);
  write("solver", solver_for("relative", "max_iter: 20 snapshot_after_train: true"));
  ASSERT_EQ(run_joined({1, 2}, {"--solver=" + path("solver")}), 0) << file("log");
  const std::string own = file("run/s_iter_20.caffemodel");
  std::filesystem::create_directories(path("elsewhere"));
  auto processes = joined({1, 2}, {"--solver=" + path("solver"), "--share_data"});
  processes[1].folder = path("elsewhere");
  ASSERT_EQ(start_processes(processes)->wait(), 0) << file("log");
  EXPECT_EQ(file("run/s_iter_20.caffemodel"), own);
  processes = joined({1, 2}, {"--solver=" + path("solver")});
  processes[1].folder = path("elsewhere");
  EXPECT_EQ(start_processes(processes)->wait(), 2) << file("log");
}

TEST_F(JoinedTraining, OnlyTheFirstProcessLogsButAllWarn) {
  write("solver", solver_for("net", "max_iter: 4 display: 1 of_the_future: 3"));
  ASSERT_EQ(run_joined({1, 1}, {"--solver=" + path("solver"), "--ignore_unknown_fields"}), 0) << file("log");
  const std::string log = file("log");
  EXPECT_THAT(log, HasSubstr("2 processes with 2 devices"));
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = log.find("Iteration 2 (", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 1u) << log;
  EXPECT_THAT(log, testing::ContainsRegex("W[^\n]*\\] \\[process 1 on [^\n]*\\] [^\n]*of_the_future"));
}

/// All processes as one picture, and the network between them.
TEST_F(JoinedTraining, TopologyShowsAllProcesses) {
  const std::vector<std::string> flags = {"topology", "--uplink=mpi", "--threads_per_device=1",
                                          "--iterations=2"};
  std::vector<MpiProcess> processes(3, {flags});
  processes[0].flags.push_back("--cpu=2");
  for (int p : {1, 2}) processes[p].flags.push_back("--cpu=1");
  // Under ThreadSanitizer on a slow processor sums of 256 MiB take minutes.
  EXPECT_EQ(start_processes(processes)->wait(400), 0) << file("log");
  const std::string text = file("log");
  EXPECT_THAT(text, HasSubstr("3 processes with 4 devices:\n├── process 0 on "));
  EXPECT_THAT(text, HasSubstr("│   └── cpu:0\n│       └── cpu:1\n├── process 1 on "));
  EXPECT_THAT(text, testing::ContainsRegex("└── process 2 on [^\n]*\n    └── cpu:0\n"));
  EXPECT_THAT(text,
              testing::ContainsRegex("process 1 on [^ ]* +process 2 on [^ ]* +[0-9.]+ GB/s +[0-9.]+ GB/s"));
  EXPECT_THAT(text, HasSubstr("Sum of f32 over all 4 devices:"));
  EXPECT_THAT(text, HasSubstr("256 MiB"));
  EXPECT_EQ(text.find("processes with"), text.rfind("processes with"));  // said once
}

/// mpirun passes SIGUSR1 on, and gives those that are told to end a second before it kills them.
TEST_F(JoinedTraining, ASignalEndsAllAfterASnapshot) {
  write("solver", solver_for("net", "max_iter: 1000000 display: 1000"));
  const auto mpirun = start_processes(joined({1, 1}, {"--solver=" + path("solver")}));
  ASSERT_TRUE(mpirun->says("Iteration 1000")) << mpirun->text();
  const std::vector<pid_t> trainers = trainers_of(*mpirun, 2);
  mpirun->signal(SIGUSR1);
  EXPECT_EQ(mpirun->wait(10), 0) << mpirun->text();
  EXPECT_THAT(mpirun->text(), HasSubstr("Snapshotting"));
  expect_gone(trainers);
}

TEST_F(JoinedTraining, WithoutAFlagItSaysWhatToPass) {
  const std::vector<std::string> flags = {"--cpu=1", "--solver=" + path("solver")};
  EXPECT_EQ(start_processes({{flags}, {flags}})->wait(), 2);
  EXPECT_THAT(file("log"), HasSubstr("this is one of 2 processes that mpirun started: pass --uplink=mpi"));

  // As srun would, which has no mpirun above the processes.
  ::setenv("SLURM_STEP_NUM_TASKS", "2", 1);
  ::setenv("SLURM_PROCID", "1", 1);
  EXPECT_EQ(run(flags), 2);
  ::unsetenv("SLURM_STEP_NUM_TASKS");
  ::unsetenv("SLURM_PROCID");
  EXPECT_THAT(message(), HasSubstr("this is one of 2 processes that srun started: pass --uplink=mpi"));

  std::vector<std::string> apart = flags;
  apart.push_back("--uplink=none");
  std::filesystem::create_directories(path("run"));
  EXPECT_EQ(start_processes({{apart}})->wait(), 0) << file("log");

  EXPECT_EQ(train_with("solver", {"--uplink=mpi"}), 2);
  EXPECT_THAT(message(), HasSubstr("this one was started by itself"));
  EXPECT_EQ(train_with("solver", {"--reduce_precision=bf16"}), 2);
  EXPECT_THAT(message(), HasSubstr("is for processes joined by --uplink"));
  EXPECT_EQ(train_with("solver", {"--share_data"}), 2);
  EXPECT_THAT(message(), HasSubstr("--share_data is for processes joined by --uplink"));
  const std::vector<std::string> nccl = {"--uplink=nccl", "--reduce_precision=bf16", "--cpu=1",
                                         "--solver=" + path("solver")};
  EXPECT_EQ(start_processes({{nccl}, {nccl}})->wait(), 2);
  // Both find it at the same time, and both may say it.
  EXPECT_THAT(file("log"), HasSubstr("--uplink=nccl joins GPUs"));
}

}  // namespace
}  // namespace banyan
