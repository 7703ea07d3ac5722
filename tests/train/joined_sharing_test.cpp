// --share_data: only the first process sees the data sets, and nothing else changes.
#include <gmock/gmock.h>

#include "banyan/train/batch_sharing.hpp"
#include "joined_run.hpp"
#include "promise_cases.hpp"

namespace banyan {
namespace {

using testing::Each;
using testing::HasSubstr;

/// The other processes' nets name a data set that does not exist.
void share(int process, TrainOptions& options) {
  options.shared_batches = share_batches(*static_cast<parallel::WireUplink*>(options.uplink));
  if (process == 0) return;
  for (auto& layer : *options.solver.nets.mutable_net_param()->mutable_layer())
    if (layer.has_data_param()) layer.mutable_data_param()->set_source("/nowhere/at/all");
}

/// Shuffled, augmented, with uneven and empty shares, several prefetch threads, and test passes.
TEST(SharedData, HasTheBitsOfOwnFiles) {
  for (const char* more : {"shuffle: true threads: 3", "epoch_end: PARTIAL"}) {
    SCOPED_TRACE(more);
    TrainingCase what{std::string(kSolver) + "iter_size: 2 test_iter: 3 test_interval: 6",
                      data_layer(more) + kBody + classifier()};
    what.precision = RunPrecision::f32;
    for (const std::vector<int>& devices : std::vector<std::vector<int>>{{1, 1}, {2, 1, 3}}) {
      const Joined own = train_joined(what, devices), shared = train_joined(what, devices, share);
      ASSERT_THAT(own.errors, Each(""));
      ASSERT_THAT(shared.errors, Each(""));
      EXPECT_EQ(shared.trained.model_bytes, own.trained.model_bytes);
      EXPECT_EQ(shared.trained.losses(), own.trained.losses());
    }
  }
}

TEST(SharedData, GoesOnFromASnapshot) {
  TrainingCase what{std::string(kSolver) + "snapshot: 7", data_layer("shuffle: true") + kBody + classifier()};
  const TrainingFolder folder;
  const Joined whole = train_joined(what, {1, 2}, share, folder);
  ASSERT_THAT(whole.errors, Each(""));
  const Joined resumed = train_joined(
      what, {1, 2},
      [&](int process, TrainOptions& options) {
        share(process, options);
        options.snapshot = snapshot_paths(folder.path() + "/out", 7).state;
      },
      folder);
  ASSERT_THAT(resumed.errors, Each(""));
  EXPECT_EQ(resumed.trained.model_bytes, whole.trained.model_bytes);
}

TEST(SharedData, WithoutADataSetAllEndWithProcess0sError) {
  TrainingCase what{kSolver, data_layer() + kBody + classifier()};
  what.net.replace(what.net.find("'DATA'"), 6, "'/nowhere/either'");
  const Joined joined = train_joined(what, {1, 1, 1}, share);
  EXPECT_THAT(joined.errors, Each(HasSubstr("/nowhere/either")));
}

/// Item 31 belongs to the second of two devices, but process 0 reads it.
TEST(SharedData, ADamagedRecordIsNamed) {
  const TrainingFolder folder;
  std::filesystem::remove_all(folder.path() + "/images");
  {
    data::LmdbWriter writer(folder.path() + "/images");
    const std::vector<std::uint8_t> pixels(3 * 12 * 12, 100);
    for (int i = 0; i < 50; ++i)
      writer.put(cat(1000 + i), i == 31 ? "no record" : data::raw_datum(3, 12, 12, pixels.data(), i % 5));
    writer.close();
  }
  const TrainingCase what{kSolver, data_layer() + kBody + classifier()};
  const Joined joined = train_joined(what, {1, 1}, share, folder);
  EXPECT_THAT(joined.errors, Each(HasSubstr("1031")));
  EXPECT_THAT(joined.errors, Each(HasSubstr("while process 0 read it for this one")));
}

}  // namespace
}  // namespace banyan
