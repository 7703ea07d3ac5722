// Promise 3 under a thousand random schedules: which devices fail, where, when and how, on which tree, with
// streams that run late. None may hang. BANYAN_SCHEDULES sets the number (default 1000), BANYAN_SCHEDULE runs
// one of them alone, with its log.
#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <random>

#include "train/fault.hpp"
#include "train/training_run.hpp"

namespace banyan {
namespace {

constexpr unsigned kHangSeconds = 20;

char running[64];  // what the alarm says; set before it can ring

extern "C" void on_alarm(int) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, running, sizeof running);
  std::abort();
}

class RandomFailures : public TrainingRun {
 protected:
  struct Schedule {
    TrainOptions options;
    std::vector<Fault> faults;
  };

  Schedule draw(unsigned seed) const {
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const int devices = 2 + below(3);
    Schedule schedule;
    schedule.options = options(devices);
    caffe::SolverParameter& solver = schedule.options.solver;
    solver.set_max_iter(4);
    solver.set_test_interval(2);
    solver.set_test_iter(0, 1 + below(4));
    solver.set_snapshot(below(4) == 0 ? 2 : 0);
    solver.set_snapshot_after_train(below(4) == 0);
    solver.set_iter_size(1 + below(2));
    solver.set_display(below(2));
    if (below(2) == 0) solver.clear_clip_gradients();
    schedule.options.tree =
        std::vector<std::string>{"direct", "pairs", "chain", "star"}[static_cast<std::size_t>(below(4))];
    schedule.options.cpu.asynchronous = below(2) == 0;
    schedule.options.cpu.max_delay_us = below(2) == 0 ? 0 : 40;
    for (int i = below(3) == 0 ? 2 : 1; i > 0; --i) {
      const Stage stage = static_cast<Stage>(1 + below(kStages - 1));
      const auto kind = static_cast<FaultKind>(below(3));
      schedule.faults.push_back({below(devices), stage, stage == Stage::set_up ? 0 : below(5), kind,
                                 stage == Stage::set_up ? 0 : below(4)});
    }
    return schedule;
  }

  /// Was anything injected?
  bool run(unsigned seed) const {
    SCOPED_TRACE(cat("BANYAN_SCHEDULE=", seed));
    const Schedule schedule = draw(seed);
    std::snprintf(running, sizeof running, "hanging: BANYAN_SCHEDULE=%u\n", seed);
    const InstalledFaults faults(schedule.faults);
    ::alarm(kHangSeconds);
    try {
      train(schedule.options);
      EXPECT_EQ(faults.struck(), 0);
    } catch (const Error& error) {
      EXPECT_GT(faults.struck(), 0) << error.what();
      EXPECT_LT(faults.seconds_since(), 2);
      EXPECT_THAT(error.what(),
                  testing::AnyOf(testing::HasSubstr("an injected"), testing::HasSubstr("out of memory")));
      bool named = false;
      for (const Fault& fault : schedule.faults)
        named = named || std::string(error.what())
                             .ends_with(cat(name_of(fault.stage), " on cpu:", fault.device, ", iteration ",
                                            fault.iteration));
      EXPECT_TRUE(named) << error.what();
    }
    ::alarm(0);
    return faults.struck() > 0;
  }
};

unsigned number_from(const char* variable, unsigned absent) {
  const char* text = std::getenv(variable);
  return text == nullptr ? absent : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

TEST_F(RandomFailures, NoneHangs) {
  ::signal(SIGALRM, on_alarm);
  if (std::getenv("BANYAN_SCHEDULE") != nullptr) {
    FLAGS_minloglevel = google::INFO;
    run(number_from("BANYAN_SCHEDULE", 0));
    return;
  }
  const unsigned schedules = number_from("BANYAN_SCHEDULES", 1000);
  unsigned failed = 0;
  for (unsigned seed = 0; seed < schedules && !HasFailure(); ++seed) failed += run(seed) ? 1 : 0;
  EXPECT_GT(failed, schedules / 2);  // else the faults are drawn where nobody comes by
  RecordProperty("schedules_that_failed", static_cast<int>(failed));
}

}  // namespace
}  // namespace banyan
