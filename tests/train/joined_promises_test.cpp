// Promise 1 across processes: whatever the processes and their devices, training is that of one device.
#include <gmock/gmock.h>

#include "joined_run.hpp"
#include "promise_cases.hpp"

namespace banyan {
namespace {

class JoinedPromiseTest : public testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Promises, JoinedPromiseTest, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

/// As in expect_the_same_run.
TEST_P(JoinedPromiseTest, ProcessesAreOneDevice) {
  const TrainingCase& what = GetParam().what;
  const Trained one = train_case(what, 1);
  for (const std::vector<int>& devices : std::vector<std::vector<int>>{{2, 2}, {1, 3, 1}}) {
    const Joined joined = train_joined(what, devices);
    SCOPED_TRACE(testing::PrintToString(devices));
    ASSERT_THAT(joined.errors, testing::Each(""));
    EXPECT_LE(largest_difference(one.values(), joined.trained.values()), 1e-10);
    EXPECT_LE(largest_difference(one.losses(), joined.trained.losses()), 1e-10);
  }
}

TEST(JoinedPromises, F32DriftIsThatOfAPermutedBatch) {
  PermutedDrift drift;
  measure(drift);
  for (const std::vector<int>& devices : std::vector<std::vector<int>>{{2, 2}, {1, 3, 1}}) {
    const Joined joined = train_joined(drift.what, devices, {}, drift.folder);
    SCOPED_TRACE(testing::PrintToString(devices));
    ASSERT_THAT(joined.errors, testing::Each(""));
    drift.expect(joined.trained.values());
  }
}

/// From a snapshot of some processes go on others, with other numbers of devices.
TEST_P(JoinedPromiseTest, ResumesWithOtherProcesses) {
  TrainingCase what = GetParam().what;
  what.solver += " snapshot: 7";
  const Trained one = train_case(what, 1);
  const TrainingFolder folder;
  const Joined first = train_joined(what, {1, 2}, {}, folder);
  ASSERT_THAT(first.errors, testing::Each(""));
  for (const std::vector<int>& devices : std::vector<std::vector<int>>{{3}, {2, 1, 1}}) {
    const Joined resumed = train_joined(
        what, devices,
        [&](int process, TrainOptions& options) {
          // Only the first process has the files.
          const std::string state = snapshot_paths(folder.path() + "/out", 7).state;
          options.snapshot = process == 0 ? state : "/nowhere/" + state;
        },
        folder);
    SCOPED_TRACE(testing::PrintToString(devices));
    ASSERT_THAT(resumed.errors, testing::Each(""));
    EXPECT_LE(largest_difference(one.values(), resumed.trained.values()), 1e-10);
    EXPECT_LE(largest_difference(one.losses(), resumed.trained.losses()), 1e-10);
  }
}

}  // namespace
}  // namespace banyan
