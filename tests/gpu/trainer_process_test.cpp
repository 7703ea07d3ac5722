// Promises 4 and 5 on 1 to 4 GPUs, with the trainer as a process: signals, kills and full disks lose nothing
// that was saved, and what was interrupted ends with the bits of what was not; bad input is named, with exit
// code 2.
#include <filesystem>
#include <random>

#include "banyan/train/snapshot_files.hpp"
#include "train/run_devices.hpp"
#include "train/trainer_fixture.hpp"

namespace banyan {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class GpuProcess : public TrainerRun, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
    if (!fs::exists(TrainerProcess::program())) GTEST_SKIP() << "there is no " << TrainerProcess::program();
    TrainerRun::SetUp();
    std::string list;
    for (const DeviceChoice& gpu : gpu_devices(GetParam()))
      list += (list.empty() ? "--gpu=" : ",") + std::to_string(gpu.ordinal);
    gpus_ = list;
    write("endless", solver_for("net", "max_iter: 100000000 display: 1"));
    write("busy", solver_for("net", "max_iter: 100000000 snapshot: 1"));
  }
  /// Of the snapshot that a run resumes from; none: 0.
  std::int64_t saved_iteration() const {
    const auto latest = find_latest_snapshot(path("run/s"));
    return latest ? read_snapshot(*latest).state.iter() : 0;
  }
  std::string model(std::int64_t iteration) const {
    return file(cat("run/s_iter_", iteration, ".caffemodel"));
  }
  /// The model after `iteration`, trained from there on where `from_latest`, else without a break.
  std::string trained_to(std::int64_t iteration, bool from_latest) const {
    if (!from_latest) fs::remove_all(path("run"));
    write("to", solver_for("net", cat("max_iter: ", iteration)));
    std::vector<std::string> flags = {gpus_};
    if (from_latest) flags.push_back("--snapshot=latest");
    EXPECT_EQ(train_with("to", flags), 0) << file("log");
    return model(iteration);
  }
  std::string gpus_;
};
INSTANTIATE_TEST_SUITE_P(Gpu, GpuProcess, ::testing::Values(1, 2, 3, 4),
                         [](const auto& info) { return cat(info.param, "devices"); });

TEST_P(GpuProcess, ASignalSavesWhatWasTrained) {
  const auto process = start({gpus_, "--solver=" + path("endless")});
  ASSERT_TRUE(process->says("Iteration 3 ")) << process->text();
  process->signal(SIGTERM);
  EXPECT_EQ(process->wait(), 0) << process->text();
  EXPECT_THAT(process->text(), HasSubstr("Optimization stopped early."));
  const std::int64_t stopped = saved_iteration();
  ASSERT_GT(stopped, 3);
  const std::string then = model(stopped), later = trained_to(stopped + 3, true);
  EXPECT_EQ(trained_to(stopped, false), then);
  EXPECT_EQ(trained_to(stopped + 3, false), later);
}

TEST_P(GpuProcess, AKillLosesNothingThatWasSaved) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  std::int64_t reached = 0;
  for (int round = 0; round < 3; ++round) {
    const auto process = start({gpus_, "--solver=" + path("busy"), "--snapshot=latest"});
    ASSERT_TRUE(process->says("Snapshotting solver state")) << process->text();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
    process->signal(SIGKILL);
    EXPECT_EQ(process->wait(), 128 + SIGKILL);
    const std::int64_t iteration = saved_iteration();
    EXPECT_GE(iteration, reached);
    reached = iteration;
  }
  ASSERT_GT(reached, 0);
  const std::string saved = model(reached);
  EXPECT_EQ(trained_to(reached, false), saved);
}

TEST_P(GpuProcess, AFullDiskLeavesTheEarlierSnapshotWhole) {
  // Much larger than the log, to which the limit also applies.
  std::string net = file("net");
  net.replace(net.find("num_output: 3"), 13, "num_output: 500");
  write("net", net);
  const std::string model_before = trained_to(4, false), state_before = file("run/s_iter_4.solverstate");
  write("on", solver_for("net", "max_iter: 8"));
  EXPECT_EQ(run({gpus_, "--solver=" + path("on"), "--snapshot=latest"}, model_before.size() / 2), 1);
  EXPECT_THAT(message(), HasSubstr("s_iter_8.caffemodel"));
  EXPECT_EQ(model(4), model_before);
  EXPECT_EQ(file("run/s_iter_4.solverstate"), state_before);
  EXPECT_FALSE(fs::exists(path("run/s_iter_8.solverstate")));
}

/// A GPU's labels are looked at when something depends on them: nothing is saved after a bad one.
TEST_P(GpuProcess, BadInputIsNamed) {
  const auto expect_refused = [&](const std::string& from, const std::string& to,
                                  const std::vector<std::string>& words) {
    SCOPED_TRACE(to);
    fs::remove_all(path("run"));
    std::string net = file("net");
    net.replace(net.find(from), from.size(), to);
    write("bad_net", net);
    write("bad", solver_for("bad_net", "max_iter: 20 snapshot: 20"));
    expect_refusal(train_with("bad", {gpus_}), words);
    EXPECT_EQ(saved_iteration(), 0);
  };
  make_small_lmdb(path("damaged"), 5);
  expect_refused(path("db"), path("damaged"), {path("damaged"), "00000005", "layer \"images\" data on gpu:"});
  expect_refused("num_output: 3", "num_output: 2", {"layer \"loss\"", "label 2 of sample", "on gpu:"});
  expect_refused("num_output: 3", "num_outputs: 3", {"bad_net:", "num_outputs"});
  expect_refusal(run({"--gpu=99", "--solver=" + path("solver")}), {"--gpu=99"});
}

}  // namespace
}  // namespace banyan
