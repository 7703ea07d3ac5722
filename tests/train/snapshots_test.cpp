#include "train/snapshots.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "train/part_bench.hpp"

namespace banyan {
namespace {

const char kSnapshotNet[] = R"(
layer { name: "in" type: "DummyData" top: "in" top: "target"
        dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 1 } data_filler { value: 3 } data_filler { value: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "in" top: "out"
        inner_product_param { num_output: 1 weight_filler { type: "constant" value: 0.5 } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "out" bottom: "target" top: "loss" })";

/// One device's parts, as assembled for a run.
struct Trainer : PartBench {
  explicit Trainer(const std::string& prefix) {
    plan.prefix = prefix;
    plan.run.set_seed(17);
    solver.update.rule = ops::UpdateRule::adam;
    solver.update.momentum = 0.5;
    solver.update.momentum2 = 0.75;
    solver.rate.base_lr = 0.25;
    solver.average_loss = 2;
    buckets = {{0, net_->flat_values().count(), 1, 0}};
    updater = std::make_unique<Updater>(context, solver, net_->parameters(), buckets, 0, net_->flat_values(),
                                        net_->flat_gradients());
    rate = std::make_unique<LearningRate>(solver, 1, false);
    losses = std::make_unique<Losses>(peers, solver.average_loss);
    snapshots = std::make_unique<Snapshots>(plan, peers, context,
                                            SnapshotParts{*net_, *updater, *rate, *losses, sources});
  }
  void iterate(int iteration) {
    Pass forward = pass();
    net_->zero_gradients();
    net_->forward(forward);
    net_->backward(forward);
    losses->push(net_->loss(), iteration);
    losses->gather(iteration);
    updater->begin(context, iteration, rate->rate(iteration));
    updater->update(context, 0);
  }
  std::vector<double> values() {
    std::vector<double> host(static_cast<std::size_t>(net_->flat_values().count()));
    copy_to_host(context, net_->flat_values(), host.data());
    return host;
  }

  SolverSettings solver;
  SnapshotPlan plan;
  std::unique_ptr<Net> net_ = net(kSnapshotNet);
  std::vector<parallel::Bucket> buckets;
  std::unique_ptr<Updater> updater;
  std::unique_ptr<LearningRate> rate;
  std::unique_ptr<Losses> losses;
  Sources sources;
  std::unique_ptr<Snapshots> snapshots;
};

TEST(Snapshots, WhatIsRestoredGoesOnAsWhatWasSaved) {
  const std::string prefix = testing::TempDir() + "banyan_snapshots_test";
  Trainer saved(prefix), resumed(prefix);
  for (int i = 0; i < 3; ++i) saved.iterate(i);
  saved.snapshots->save(3);
  const SnapshotPaths paths = snapshot_paths(prefix, 3);
  const SolverSnapshot snapshot = read_snapshot(paths.state);
  EXPECT_EQ(snapshot.state.banyan().seed(), 17u);
  EXPECT_EQ(snapshot.state.history_size(), 4);  // Adam's two for weights and bias
  EXPECT_EQ(resumed.snapshots->restore(snapshot), 3);
  EXPECT_EQ(resumed.values(), saved.values());
  EXPECT_EQ(resumed.losses->smoothed(), saved.losses->smoothed());
  saved.losses->begin(3);
  resumed.losses->begin(3);
  saved.iterate(3);
  resumed.iterate(3);
  EXPECT_EQ(resumed.values(), saved.values());
  EXPECT_EQ(resumed.losses->smoothed(), saved.losses->smoothed());
  std::filesystem::remove(paths.model);
  std::filesystem::remove(paths.state);
}

}  // namespace
}  // namespace banyan
