// The watchdog distinguishes slow from stuck: a disk that syncs slowly and records that arrive slowly are not
// stalls, a reader that gets nothing is one. Stuck readers are interrupted and joined.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <fstream>
#include <set>
#include <thread>

#include "banyan/data/image_codec.hpp"
#include "train/fault.hpp"
#include "train/training_run.hpp"

namespace {

std::atomic<int> sync_milliseconds{0}, syncs{0};

}  // namespace

/// Replaces the C library's function in this program and the libraries it loads.
extern "C" __attribute__((visibility("default"))) int fsync(int fd) {
  ++syncs;
  std::this_thread::sleep_for(std::chrono::milliseconds(sync_milliseconds.load()));
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace banyan {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

constexpr double kWatchdogSeconds = 0.5;

class SlowButAlive : public TrainingRun {
 protected:
  /// An image list whose items `pipes` are named pipes: opening one waits for a writer.
  TrainOptions options_with_pipes(int devices, int batch, const std::set<int>& pipes) {
    png_ = data::encode_image({1, 6, 6, std::vector<std::uint8_t>(36, 100)}, "png");
    std::ofstream(path("good.png"), std::ios::binary)
        .write(reinterpret_cast<const char*>(png_.data()), static_cast<std::streamsize>(png_.size()));
    std::ofstream list(path("list"));
    for (int i = 0; i < 400; ++i) {
      if (pipes.contains(i)) {
        EXPECT_EQ(::mkfifo(pipe(i).c_str(), 0600), 0);
      }
      list << (pipes.contains(i) ? cat("pipe", i, ".png ") : "good.png ") << i % 3 << "\n";
    }
    TrainOptions run =
        options(devices, R"(layer { name: "images" type: "ImageData" top: "data" top: "label"
        image_data_param { source: ")" +
                             path("list") + R"(" root_folder: ")" + folder_ +
                             R"(/" is_color: false batch_size: )" + std::to_string(batch) + " } }");
    run.solver.test.initialization = false;
    run.solver.max_iter = 2;
    run.watchdog_seconds = kWatchdogSeconds;
    return run;
  }
  std::string pipe(int item) const { return path(cat("pipe", item, ".png")); }
  std::optional<Error> error_of(const TrainOptions& run) const {
    try {
      train(run);
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }
  std::vector<std::uint8_t> png_;
};

TEST_F(SlowButAlive, ADiskThatTakesLongerThanTheWatchdog) {
  TrainOptions run = options(2);
  run.solver.max_iter = 3;
  run.watchdog_seconds = kWatchdogSeconds;
  sync_milliseconds = 800;
  syncs = 0;
  const auto error = error_of(run);
  sync_milliseconds = 0;
  EXPECT_FALSE(error) << (error ? error->what() : "");
  EXPECT_GE(syncs, 4);  // otherwise the replacement was not called: model, state and the folder of each
  EXPECT_EQ(files().count("snapshot_iter_3.solverstate"), 1u);
}

std::atomic<bool> waits_for_data{false};

/// A batch of device 1 takes twice as long as the watchdog waits, but each of its records far less. (A pipe
/// is replaced by an image just before it is written: the reader checks the file's size after opening it.)
TEST_F(SlowButAlive, RecordsThatComeInSlowly) {
  const std::set<int> slow = {17, 19, 21, 23, 25, 27, 29, 31};
  const TrainOptions run = options_with_pipes(2, 8, slow);
  std::atomic<bool> over{false};
  std::atomic<int> served{0};
  waits_for_data = false;
  install_fault_injector([](const Activity& activity, Stage stage, const char*) {
    const ActivityState now = activity.state();
    if (stage == Stage::data && now.iteration == 1 && activity.device() == "cpu:1") waits_for_data = true;
  });
  std::thread writer([&] {
    while (!waits_for_data && !over) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    for (const int item : slow) {
      std::this_thread::sleep_for(std::chrono::milliseconds(125));
      const std::string aside = pipe(item) + ".aside";
      std::filesystem::create_hard_link(pipe(item), aside);
      std::filesystem::copy_file(path("good.png"), path("copy"));
      std::filesystem::rename(path("copy"), pipe(item));
      const int fd = ::open(aside.c_str(), O_WRONLY | O_NONBLOCK);  // fails if no reader is there yet
      if (fd < 0) continue;
      if (::write(fd, png_.data(), png_.size()) > 0) ++served;
      ::close(fd);
    }
  });
  const auto error = error_of(run);
  over = true;
  writer.join();
  install_fault_injector(nullptr);
  EXPECT_FALSE(error) << (error ? error->what() : "");
  EXPECT_GE(served, 6);
}

TEST_F(SlowButAlive, ButAStuckReaderIsNamed) {
  const TrainOptions run = options_with_pipes(2, 2, {7});
  const auto threads_before = thread_count();
  const auto error = error_of(run);
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("watchdog: cpu:1 has made no progress for "));
  EXPECT_THAT(error->what(), ContainsRegex("layer \"images\" data on cpu:1, iteration 1$"));
  EXPECT_LE(settled_thread_count(threads_before), threads_before);
}

TEST_F(SlowButAlive, StuckReadersOfAllDevicesAreJoined) {
  const TrainOptions run = options_with_pipes(4, 2, {9, 10, 11});
  const auto threads_before = thread_count();
  const InstalledFaults faults({{0, Stage::forward, 1, FaultKind::exception, 2}});
  const auto error = error_of(run);
  const double seconds = faults.seconds_since();
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("an injected fault"));
  EXPECT_LT(seconds, 2);  // promise 3
  EXPECT_LE(settled_thread_count(threads_before), threads_before);
}

}  // namespace
}  // namespace banyan
