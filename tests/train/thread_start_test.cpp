// Promise 3 when the system has no threads left: whichever thread of a run cannot be started, the run ends
// with an error that says so, and all threads that were started are joined.
#include <gmock/gmock.h>

#include "banyan/device/memory.hpp"
#include "parallel/thread_limit.hpp"
#include "train/training_run.hpp"

namespace banyan {
namespace {

class ThreadStart : public TrainingRun {};

TEST_F(ThreadStart, WhicheverThreadCannotBeStarted) {
  BANYAN_NEEDS_THREAD_LIMIT;
  TrainOptions run = options(3);
  run.tree = "chain";
  ASSERT_EQ(train(run), 0);
  const auto threads = thread_count();
  const std::size_t bytes = memory_of_all_devices().in_use;
  int started = 0;
  for (bool reached = true; reached; ++started) {
    SCOPED_TRACE(started);
    const ThreadLimit limit(started);
    std::string error;
    try {
      train(run);
    } catch (const Error& thrown) {
      EXPECT_EQ(thrown.kind(), ErrorKind::runtime);
      error = thrown.what();
    }
    reached = limit.reached();
    if (reached) {
      EXPECT_THAT(error, testing::HasSubstr("Resource temporarily unavailable"));
    } else {
      EXPECT_EQ(error, "");
    }
    EXPECT_LE(settled_thread_count(threads), threads);
    EXPECT_EQ(memory_of_all_devices().in_use, bytes);
    if (HasFailure()) return;
  }
  // Threads of the measurements, the devices, their sources and the syncs.
  EXPECT_GT(started, 1 + 3 + 3 + 3);
}

}  // namespace
}  // namespace banyan
