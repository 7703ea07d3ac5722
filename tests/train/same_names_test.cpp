// Two sources of one name in one net, which Caffe allows (and its example of LRCN does): each has its own
// position in its own data set.
#include <gmock/gmock.h>

#include "banyan/train/batch_sharing.hpp"
#include "joined_run.hpp"

namespace banyan {
namespace {

using testing::Each;

/// Beside the folder's 50 images, 31 others.
struct TwoDataSets : TrainingFolder {
  TwoDataSets() {
    std::vector<int> order;
    for (int i = 0; i < 31; ++i) order.push_back(1000 + 3 * i);
    write_images(path() + "/others", order);
  }
};

/// Each source has its batch size, and a classifier behind it.
TrainingCase two_sources() {
  const auto branch = [](const std::string& prefix, const std::string& path, int batch) {
    return cat(
        "layer { name: 'data' type: 'Data' top: '", prefix, "data' top: '", prefix,
        "label' data_param { source: '", path, "' backend: LMDB batch_size: ", batch,
        " shuffle: true } transform_param { scale: 0.01 crop_size: 10 mirror: true } } layer { name: '",
        prefix, "ip' type: 'InnerProduct' bottom: '", prefix, "data' top: '", prefix,
        "ip' inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } } layer { name: '",
        prefix, "loss' type: 'SoftmaxWithLoss' bottom: '", prefix, "ip' bottom: '", prefix, "label' top: '",
        prefix, "loss' } ");
  };
  return {cat(kFixedSolver, "snapshot: 7"), branch("", "DATA", 12) + branch("more_", "DATA/../others", 5)};
}

std::string state_at_7(const TrainingFolder& folder) {
  return snapshot_paths(folder.path() + "/out", 7).state;
}

std::vector<std::uint64_t> positions(const caffe::SolverState& state) {
  std::vector<std::uint64_t> consumed;
  for (const auto& source : state.banyan().source()) consumed.push_back(source.consumed());
  return consumed;
}

TEST(TwoSourcesOfOneName, GoOnFromASnapshotWithTheSameBits) {
  for (const int devices : {1, 2}) {
    SCOPED_TRACE(devices);
    const TrainingCase what = two_sources();
    const TwoDataSets folder;
    const Trained whole = train_case(what, devices, folder);
    const auto items = static_cast<std::uint64_t>(20 * devices);
    EXPECT_EQ(positions(whole.state), (std::vector<std::uint64_t>{12 * items, 5 * items}));
    TrainOptions resumed = options_of(what, folder, devices);
    resumed.snapshot = state_at_7(folder);
    EXPECT_EQ(train(resumed), 0);
    const Trained again = read_trained(folder, 20);
    EXPECT_EQ(again.model_bytes, whole.model_bytes);
    EXPECT_EQ(again.losses(), whole.losses());
    EXPECT_EQ(positions(again.state), positions(whole.state));
  }
}

/// The other processes' nets name data sets that do not exist.
void share_sources(int process, TrainOptions& options) {
  options.shared_batches = share_batches(*static_cast<parallel::WireUplink*>(options.uplink));
  if (process == 0) return;
  for (auto& layer : *options.solver.nets.mutable_net_param()->mutable_layer())
    if (layer.has_data_param()) layer.mutable_data_param()->set_source("/nowhere/at/all");
}

TEST(TwoSourcesOfOneName, ShareBatchesWithOtherProcesses) {
  const TrainingCase what = two_sources();
  const TwoDataSets folder;
  const Joined own = train_joined(what, {1, 2}, {}, folder);
  ASSERT_THAT(own.errors, Each(""));
  const Joined shared = train_joined(what, {1, 2}, share_sources, folder);
  ASSERT_THAT(shared.errors, Each(""));
  EXPECT_EQ(shared.trained.model_bytes, own.trained.model_bytes);
  EXPECT_EQ(shared.trained.losses(), own.trained.losses());
  const Joined resumed = train_joined(
      what, {1, 2},
      [&](int process, TrainOptions& options) {
        share_sources(process, options);
        options.snapshot = state_at_7(folder);
      },
      folder);
  ASSERT_THAT(resumed.errors, Each(""));
  EXPECT_EQ(resumed.trained.model_bytes, own.trained.model_bytes);
}

}  // namespace
}  // namespace banyan
