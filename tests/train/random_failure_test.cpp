// Promise 3 in a thousand random cases: which devices fail, where, when and how, on which tree, with streams
// that run late. None may hang. BANYAN_SCHEDULES sets the number (default 1000), BANYAN_FIRST_SCHEDULE the
// first one (default 0), BANYAN_SCHEDULE runs one of them alone, with its log; BANYAN_SECONDS: fault.hpp.
// gpu_tests also contains this file: there the devices are GPUs, and on emulated ones every other case makes
// a call of CUDA, cuBLAS or cuDNN fail instead, once or for good.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "banyan/device/memory.hpp"
#include "train/fault.hpp"
#include "train/run_devices.hpp"
#include "train/training_run.hpp"
#if defined(BANYAN_GPU_TESTS)
#include "gpu/gpu_training.hpp"
#endif

namespace banyan {
namespace {

/// A hang lasts for ever; on a busy machine a whole run on four emulated GPUs has taken more than 20 s.
constexpr unsigned kHangSeconds = 120;

char running[128];  // printed at a hang or abort; set before either can happen

extern "C" void on_end(int signal) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, running, std::strlen(running));
  InstalledFaults::print_places();
  ::signal(SIGABRT, SIG_DFL);
  if (signal == SIGALRM) std::abort();
}

/// How many places an error names: one message says where.
int places_in(const std::string& what) {
  int places = 0;
  for (std::size_t at = 0; (at = what.find("while running", at)) != std::string::npos; ++at) ++places;
  return places;
}

class RandomFailures : public TrainingRun {
 protected:
  struct Schedule {
    TrainOptions options;
    std::vector<Fault> faults;
    std::string failing_call;  ///< of an emulated GPU, as in EMULATED_CUDA=fail=...; empty: none
  };

#if defined(BANYAN_GPU_TESTS)
  void SetUp() override {
    if (const std::string why = why_no_run_devices(); !why.empty()) GTEST_SKIP() << why;
    configure_ = emulated<void(const char*)>("emulated_cuda_configure");
    calls_ = emulated<unsigned long long()>("emulated_cuda_calls");
    struck_ = emulated<unsigned long long()>("emulated_cuda_failures");
    failed_call_ = emulated<const char*()>("emulated_cuda_failed_call");
    seconds_since_failure_ = emulated<double()>("emulated_cuda_seconds_since_failure");
    TrainingRun::SetUp();
    if (configure_ == nullptr) return;
    configure_("");
    train(draw(0).options);
    calls_of_a_run_ = static_cast<int>(calls_());
    ASSERT_GT(calls_of_a_run_, 1000);
  }

  /// The call that fails in one case on emulated GPUs.
  std::string draw_failing_call(std::mt19937& random) const {
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const char* const names[] = {"any",
                                 "any",
                                 "any",
                                 "kernel",
                                 "launch",
                                 "cudaMalloc",
                                 "cudaHostAlloc",
                                 "cudaMemcpyAsync",
                                 "cudaEventRecord",
                                 "cudaStreamWaitEvent",
                                 "cudaStreamSynchronize",
                                 "cudaEventQuery",
                                 "cudnnConvolutionForward",
                                 "cudnnConvolutionBackwardFilter",
                                 "cublasSgemm_64"};
    const std::string name = names[below(std::size(names))];
    const int number = 1 + below(name == "any" ? calls_of_a_run_ : below(2) == 0 ? 10 : 100);
    return cat("fail=", name, ":", number, below(3) == 0 ? ":sticky" : "");
  }
  void (*configure_)(const char*) = nullptr;
  unsigned long long (*calls_)() = nullptr;
  unsigned long long (*struck_)() = nullptr;
  const char* (*failed_call_)() = nullptr;
  double (*seconds_since_failure_)() = nullptr;
  int calls_of_a_run_ = 0;
#endif

  Schedule draw(unsigned seed) const {
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const int devices = 2 + below(3);
    Schedule schedule;
    schedule.options = options(devices);
    schedule.options.grace_seconds = grace_seconds();
    schedule.options.devices = run_devices(devices);
    SolverSettings& solver = schedule.options.solver;
    solver.max_iter = 4;
    solver.test.interval = 2;
    solver.test.batches[0] = 1 + below(4);
    solver.snapshot.interval = below(4) == 0 ? 2 : 0;
    solver.snapshot.after_train = below(4) == 0;
    solver.iter_size = 1 + below(2);
    solver.display = below(2);
    if (below(2) == 0) solver.clip_norm.reset();
    schedule.options.tree = std::vector<std::string>{"direct", "pairs", "chain", "star"}[below(4)];
    schedule.options.cpu.asynchronous = below(2) == 0;
    schedule.options.cpu.max_delay_us = below(2) == 0 ? 0 : 40;
    for (int i = below(3) == 0 ? 2 : 1; i > 0; --i) {
      const Stage stage = static_cast<Stage>(1 + below(kStages - 1));
      const auto kind = static_cast<FaultKind>(below(3));
      schedule.faults.push_back({below(devices), stage, stage == Stage::set_up ? 0 : below(5), kind,
                                 stage == Stage::set_up ? 0 : below(4)});
    }
#if defined(BANYAN_GPU_TESTS)
    if (calls_of_a_run_ > 0 && below(2) == 0) {
      schedule.faults.clear();
      schedule.failing_call = draw_failing_call(random);
    }
#endif
    return schedule;
  }

  /// Returns whether anything was injected.
  bool run(unsigned seed) {
    const Schedule schedule = draw(seed);
    SCOPED_TRACE(cat("BANYAN_SCHEDULE=", seed, " ", schedule.failing_call));
    std::snprintf(running, sizeof running, "hanging or aborted: BANYAN_SCHEDULE=%u %s\n", seed,
                  schedule.failing_call.c_str());
    const std::ptrdiff_t threads_before = thread_count();
    const std::size_t bytes_before = memory_of_all_devices().in_use;
    const InstalledFaults faults(schedule.faults, names_of(schedule.options.devices));
    ::alarm(kHangSeconds);
#if defined(BANYAN_GPU_TESTS)
    if (configure_ != nullptr) configure_(schedule.failing_call.c_str());
#endif
    keeps_a_stream_ = false;
    const bool failed =
        schedule.failing_call.empty() ? run_with_faults(schedule, faults) : run_with_failing_call(schedule);
    // At most: memory of a GPU that an earlier schedule lost may still be on its way.
    if (!keeps_a_stream_) {
      EXPECT_LE(settled_thread_count(threads_before), threads_before);
    }
    EXPECT_LE(memory_of_all_devices().in_use, bytes_before);
    ::alarm(0);
    return failed;
  }

  void note_stop(double seconds) {
    EXPECT_LT(seconds, seconds_to_stop());
    latest_stop_ = std::max(latest_stop_, seconds);
  }

  bool run_with_faults(const Schedule& schedule, const InstalledFaults& faults) {
    try {
      train(schedule.options);
      EXPECT_EQ(faults.struck(), 0);
    } catch (const Error& error) {
      EXPECT_GT(faults.struck(), 0) << error.what();
      note_stop(faults.seconds_since());
      EXPECT_THAT(error.what(),
                  testing::AnyOf(testing::HasSubstr("an injected"), testing::HasSubstr("out of memory")));
      EXPECT_EQ(places_in(error.what()), 1) << error.what();
      // The exit code follows from the kind: 2 for bad input, 1 for the others.
      bool named = false;
      for (const Fault& fault : schedule.faults)
        named =
            named || (std::string(error.what())
                          .ends_with(cat(name_of(fault.stage), " on ", faults.name_of_device(fault.device),
                                         ", iteration ", fault.iteration)) &&
                      error.kind() ==
                          (fault.kind == FaultKind::bad_record ? ErrorKind::bad_input : ErrorKind::runtime));
      EXPECT_TRUE(named) << error.what();
    }
    return faults.struck() > 0;
  }

  /// A failing call that only cleans up, or that has an alternative, may have no consequences.
  bool run_with_failing_call([[maybe_unused]] const Schedule& schedule) {
    bool failed = false;
#if defined(BANYAN_GPU_TESTS)
    try {
      train(schedule.options);
    } catch (const Error& error) {
      failed = true;
      note_stop(seconds_since_failure_());
      EXPECT_EQ(error.kind(), ErrorKind::runtime) << error.what();
      // The first call of a run asks for the version, of no GPU.
      EXPECT_THAT(error.what(),
                  testing::ContainsRegex("gpu:[0-9]|the GPUs|stream's clock|cudaRuntimeGetVersion failed"))
          << error.what();
      EXPECT_LE(places_in(error.what()), 1) << error.what();
      EXPECT_GT(struck_(), 0U) << error.what();
    }
    keeps_a_stream_ = std::string(failed_call_()) == "cudaStreamDestroy";
    configure_("");
#endif
    return failed;
  }

  double latest_stop_ = 0;       ///< seconds
  bool keeps_a_stream_ = false;  ///< with its thread: the call that failed would have destroyed it
};

TEST_F(RandomFailures, NoneHangs) {
  ::signal(SIGALRM, on_end);
  ::signal(SIGABRT, on_end);
  if (std::getenv("BANYAN_SCHEDULE") != nullptr) {
    FLAGS_minloglevel = google::INFO;
    run(number_from("BANYAN_SCHEDULE", 0));
    return;
  }
  const unsigned first = number_from("BANYAN_FIRST_SCHEDULE", 0),
                 schedules = number_from("BANYAN_SCHEDULES", 1000);
  unsigned failed = 0, slowest = first;
  double longest = 0;
  for (unsigned seed = first; seed < first + schedules && !HasFailure(); ++seed) {
    const auto begun = std::chrono::steady_clock::now();
    failed += run(seed) ? 1 : 0;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    if (seconds > longest) longest = seconds, slowest = seed;
  }
  // Otherwise faults are placed where no device gets to. More than half of a thousand schedules fail; of 30,
  // as many as some callers ask for, four fewer than half are within two standard deviations of sqrt(30) / 2.
  EXPECT_GT(failed, schedules / 3);
  std::printf(
      "%u of %u schedules failed as they should, all devices at most %.1f s later; the slowest was %u: %.1f "
      "s\n",
      failed, schedules, latest_stop_, slowest, longest);
}

}  // namespace
}  // namespace banyan
