// Promise 3: whatever fails on one device, all stop within 2 s, one error says where, nothing is snapshotted,
// every thread is joined and every byte freed. gpu_tests also contains this file: there the devices are GPUs.
#include <gmock/gmock.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "banyan/data/image_codec.hpp"
#include "banyan/device/memory.hpp"
#include "train/fault.hpp"
#include "train/run_devices.hpp"
#include "train/training_run.hpp"

namespace banyan {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

constexpr double kLimitSeconds = 2;
constexpr std::int64_t kIteration = 3;
constexpr int kDevices = 3;
/// cpu:0, gpu:1, or gpu:0#2, the third replica on a GPU.
const std::string kAnyDevice = "[cg]pu:[0-2](#[0-2])?";

#if defined(BANYAN_GPU_TESTS)
/// Of devices; drivers take host memory when they like.
std::size_t bytes_in_use() { return memory_of_all_devices().in_use; }
constexpr std::size_t kUncertainBytes = 1;
constexpr int kFailedRuns = 20;
/// Several times cuBLAS's workspace, 32 MiB.
constexpr std::size_t kEnoughMemory = std::size_t{256} << 20;
/// Runs on GPUs take longer to begin, so fewer amounts of memory.
std::size_t next_limit(std::size_t limit) { return 2 * limit; }
#else
/// Bytes the allocator has handed to this process.
std::size_t bytes_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}
/// A replica of this net holds more than 20 kB: leaking one in every tenth run would show.
constexpr std::size_t kUncertainBytes = 60'000;
constexpr int kFailedRuns = 60;
constexpr std::size_t kEnoughMemory = std::size_t{1} << 20;
std::size_t next_limit(std::size_t limit) { return limit + limit / 4; }
#endif

std::optional<Error> error_of(const TrainOptions& options) {
  try {
    train(options);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

const std::vector<Stage> kStagesOfWork = {Stage::set_up,   Stage::data,    Stage::forward, Stage::exchange,
                                          Stage::backward, Stage::reduce,  Stage::update,  Stage::broadcast,
                                          Stage::test,     Stage::snapshot};

Fault fault_at(int device, Stage stage, FaultKind kind) {
  return {device, stage, stage == Stage::set_up ? 0 : kIteration, kind, 0};
}

bool has_layer(Stage stage) {
  return stage == Stage::data || stage == Stage::forward || stage == Stage::exchange ||
         stage == Stage::backward;
}

class Failure : public TrainingRun {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_run_devices(); !why.empty()) GTEST_SKIP() << why;
    TrainingRun::SetUp();
  }
  TrainOptions options(int devices, const std::string& source) const {
    TrainOptions run = TrainingRun::options(devices, source);
    run.devices = run_devices(devices);
    return run;
  }
  TrainOptions options(int devices) const { return options(devices, lmdb_source()); }
  /// Injects one fault and checks everything promised for it.
  void expect_clean_failure(const TrainOptions& run, const Fault& fault, const std::string& message) {
    const std::string device = names_of(run.devices)[static_cast<std::size_t>(fault.device)];
    SCOPED_TRACE(cat(device, " ", name_of(fault.stage)));
    const auto threads_before = thread_count();
    std::optional<Error> error;
    {
      const InstalledFaults faults({fault}, names_of(run.devices));
      error = error_of(run);
      ASSERT_EQ(faults.struck(), 1);
      EXPECT_LT(faults.seconds_since(), kLimitSeconds);
    }
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::runtime);
    EXPECT_THAT(error->what(), HasSubstr(message));
    const std::string layer = has_layer(fault.stage) ? "layer \"[a-z]+\" " : "";
    EXPECT_THAT(error->what(),
                ContainsRegex(cat("\n  while running (layer \"[a-z]+\" |[a-z]+ )?", name_of(fault.stage),
                                  " on ", device, ", iteration ", fault.iteration, "$")));
    if (!layer.empty()) {
      EXPECT_THAT(error->what(), ContainsRegex(layer + name_of(fault.stage)));
    }
    EXPECT_EQ(std::string(error->what()).find("while running"),
              std::string(error->what()).rfind("while running"));
    EXPECT_LE(settled_thread_count(threads_before), threads_before);
    // The snapshot of iteration 3 precedes everything else in that iteration.
    const bool earlier = fault.stage != Stage::set_up && fault.stage != Stage::snapshot;
    EXPECT_EQ(files().size(), earlier ? 2u : 0u);
    EXPECT_EQ(files().count("snapshot_iter_3.solverstate"), earlier ? 1u : 0u);
    for (const auto& [name, state] : files()) std::filesystem::remove(path(name));
  }
  void expect_clean_failures(FaultKind kind, const std::string& message) {
    const TrainOptions run = options(kDevices);
    ASSERT_EQ(train(run), 0);
    for (const auto& [name, state] : files()) std::filesystem::remove(path(name));
    for (const Stage stage : kStagesOfWork)
      for (int device = 0; device < kDevices; ++device)
        expect_clean_failure(run, fault_at(device, stage, kind), message);
    EXPECT_EQ(train(run), 0);  // nothing remains of the failures
  }
};

TEST_F(Failure, AnExceptionOnEachDeviceInEachStage) {
  expect_clean_failures(FaultKind::exception, "an injected fault");
}

TEST_F(Failure, OutOfMemoryOnEachDeviceInEachStage) {
  expect_clean_failures(FaultKind::out_of_memory, "out of memory on ");
}

TEST_F(Failure, OneDeviceAlone) {
  const TrainOptions run = options(1);
  for (const Stage stage : {Stage::set_up, Stage::data, Stage::forward, Stage::backward, Stage::reduce,
                            Stage::update, Stage::test, Stage::snapshot})
    expect_clean_failure(run, fault_at(0, stage, FaultKind::exception), "an injected fault");
  EXPECT_EQ(train(run), 0);
}

#if !defined(BANYAN_GPU_TESTS)  // a GPU's streams always are
TEST_F(Failure, WithAsynchronousStreams) {
  TrainOptions run = options(kDevices);
  run.cpu.asynchronous = true;
  run.cpu.max_delay_us = 100;
  for (const Stage stage : kStagesOfWork)
    expect_clean_failure(run, fault_at(1, stage, FaultKind::exception), "an injected fault");
  EXPECT_EQ(train(run), 0);
}
#endif

TEST_F(Failure, EveryByteIsFreed) {
  const TrainOptions run = options(kDevices);
  std::size_t before = 0;
  for (int i = 0; i < kFailedRuns + 10; ++i) {
    if (i == 10) before = bytes_in_use();  // the libraries' caches have reached their size by then
    const Stage stage = kStagesOfWork[static_cast<std::size_t>(i) % kStagesOfWork.size()];
    const InstalledFaults faults({fault_at(i % kDevices, stage, FaultKind::exception)},
                                 names_of(run.devices));
    ASSERT_TRUE(error_of(run));
  }
  EXPECT_LT(bytes_in_use(), before + kUncertainBytes);
}

/// A device with less memory than the run needs, wherever it runs out.
TEST_F(Failure, EveryAmountOfMemoryIsEnoughOrAClearError) {
  TrainOptions run = options(kDevices);
  int failures = 0;
  bool enough = false;
  for (std::size_t limit = 64; limit < kEnoughMemory; limit = next_limit(limit)) {
    run.memory_limit = limit;
    const auto start = InstalledFaults::Clock::now();
    const auto error = error_of(run);
    enough = !error;
    if (enough) break;
    ++failures;
    EXPECT_LT(InstalledFaults::Clock::now() - start, std::chrono::seconds(2));
    EXPECT_EQ(error->kind(), ErrorKind::runtime);
    EXPECT_THAT(error->what(), ContainsRegex(cat("out of memory on ", kAnyDevice,
                                                 ": asked for [0-9]+ bytes with [0-9]+ bytes in use, limit ",
                                                 limit, " bytes")));
    EXPECT_THAT(error->what(), ContainsRegex(cat("while running .*on ", kAnyDevice, ", iteration 0")));
  }
  EXPECT_GT(failures, 5);
  EXPECT_TRUE(enough);
}

TEST_F(Failure, ACorruptRecordIsNamed) {
  make_small_lmdb(path("damaged"), 17);  // 3 devices x 2: the third iteration
  const TrainOptions run = options(kDevices, lmdb_source("damaged"));
  const auto error = error_of(run);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::bad_input);
  EXPECT_THAT(error->what(), HasSubstr(path("damaged")));
  EXPECT_THAT(error->what(), HasSubstr("00000017"));
  EXPECT_THAT(error->what(),
              ContainsRegex(cat("layer \"images\" data on ", names_of(run.devices)[2], ", iteration 2$")));
  EXPECT_EQ(train(options(kDevices)), 0);
}

TEST_F(Failure, ADeviceThatWaitsForDataStopsToo) {
  // A file that nobody writes: opening it waits forever. It is item 7: device 1's in iteration 1.
  ASSERT_EQ(::mkfifo(path("stuck.png").c_str(), 0600), 0);
  const auto png = data::encode_image({1, 6, 6, std::vector<std::uint8_t>(36, 100)}, "png");
  std::ofstream(path("good.png"), std::ios::binary)
      .write(reinterpret_cast<const char*>(png.data()), static_cast<std::streamsize>(png.size()));
  std::ofstream list(path("list"));
  for (int i = 0; i < 24; ++i) list << (i == 7 ? "stuck.png " : "good.png ") << i % 3 << "\n";
  list.close();
  const std::string source = R"(layer { name: "images" type: "ImageData" top: "data" top: "label"
      image_data_param { source: ")" +
                             path("list") + R"(" root_folder: ")" + folder_ +
                             R"(/" batch_size: 2 is_color: false } })";
  TrainOptions run = options(2, source);
  run.solver.test.initialization = false;
  const auto threads_before = thread_count();
  for (int attempt = 0; attempt < 2; ++attempt) {
    const InstalledFaults faults({{0, Stage::forward, 1, FaultKind::exception, 2}}, names_of(run.devices));
    const auto error = error_of(run);
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(), HasSubstr(cat("on ", names_of(run.devices)[0], ", iteration 1")));
    EXPECT_LT(faults.seconds_since(), kLimitSeconds);
    EXPECT_LE(settled_thread_count(threads_before), threads_before);  // the reader was interrupted and joined
  }
}

TEST_F(Failure, ALossThatIsNotFiniteIsNamed) {
  TrainOptions run = options(kDevices);
  run.solver.rate.base_lr = 1e30f;
  run.solver.clip_norm.reset();
  run.check_nan = true;
  const auto error = error_of(run);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::runtime);
  EXPECT_THAT(error->what(), HasSubstr("not finite"));
  // A synchronized layer's last stage before its output is checked is its exchange.
  EXPECT_THAT(error->what(),
              ContainsRegex(cat("while running layer \"[a-z]+\" (forward|backward|exchange) on ", kAnyDevice,
                                ", iteration [1-5]$")));
  run.solver.debug_info = true;  // prints on the first device, which must still check
  run.devices.resize(1);
  EXPECT_TRUE(error_of(run));
}

TEST_F(Failure, ALabelOutOfRangeIsNamed) {
  TrainOptions run = options(kDevices);
  run.solver.nets.mutable_net_param()->mutable_layer(4)->mutable_inner_product_param()->set_num_output(2);
  run.solver.test.initialization = false;
  const auto error = error_of(run);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::bad_input);
  EXPECT_THAT(error->what(), HasSubstr("label 2 of sample"));
  EXPECT_THAT(error->what(), ContainsRegex(cat("layer \"loss\" .*on ", kAnyDevice, ", iteration 0$")));
}

// A thread that never comes back cannot be stopped: the watchdog names it and the process ends.
class StalledDevice : public Failure, public testing::WithParamInterface<std::pair<Stage, int>> {};

TEST_P(StalledDevice, IsNamedAndTheProcessEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto [stage, device] = GetParam();
  TrainOptions run = options(kDevices);
  run.watchdog_seconds = kSilenceSeconds;
  run.solver.snapshot.after_train = false;
  const Fault fault = fault_at(device, stage, FaultKind::stall);
  const std::string name = names_of(run.devices)[static_cast<std::size_t>(device)];
  const auto start = InstalledFaults::Clock::now();
  EXPECT_EXIT(
      {
        const InstalledFaults faults({fault}, names_of(run.devices));
        std::thread([&faults] {  // ends the child with another code if it takes too long
          while (faults.struck() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
          // Counted in naps: on a busy machine it is the time in which the process runs that matters.
          for (int nap = 0; nap < (kSilenceSeconds + kLimitSeconds) * 100; ++nap)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          ::_exit(3);
        })
            .detach();
        train(run);
      },
      testing::ExitedWithCode(1),
      cat("watchdog: ", name, " has made no progress for .*while running .*", name_of(stage), " on ", name,
          ", iteration ", fault.iteration));
  EXPECT_LT(InstalledFaults::Clock::now() - start, std::chrono::seconds(20));
}

std::vector<std::pair<Stage, int>> stalls() {
  std::vector<std::pair<Stage, int>> all = {{Stage::forward, 0}, {Stage::forward, 1}, {Stage::exchange, 2}};
  for (std::size_t i = 0; i < kStagesOfWork.size(); ++i)
    all.emplace_back(kStagesOfWork[i], static_cast<int>(i % kDevices));
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, StalledDevice, testing::ValuesIn(stalls()), [](const auto& info) {
  std::string name = name_of(info.param.first);
  std::erase(name, '-');
  return cat(name, "_device", info.param.second, "_", info.index);
});

}  // namespace
}  // namespace banyan
