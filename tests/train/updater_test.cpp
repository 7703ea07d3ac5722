#include "banyan/train/updater.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/part_bench.hpp"

namespace banyan {
namespace {

/// Two steps of SGD with rate 0.5, momentum 0.5 and decay 0.25 x 2, for a weight of -4 whose gradient is 1.
/// All numbers have few bits: there is nothing to round.
std::vector<double> after_each_step(bool l1, bool decoupled, bool disabled = false) {
  PartBench bench;
  LearnableParameter parameter;
  parameter.offset = 0;
  parameter.count = 1;
  parameter.lr_mult = 1;
  parameter.decay_mult = 2;
  Tensor value = bench.scalar(-4);
  const Tensor gradient = bench.scalar(1);
  const std::vector<parallel::Bucket> buckets = {{0, 1, 0, 0}};
  const std::vector<LearnableParameter> parameters = {parameter};
  SolverSettings solver;
  solver.update.momentum = 0.5;
  solver.update.weight_decay = 0.25;
  solver.update.l1 = l1;
  solver.update.decoupled = decoupled;
  solver.update.disabled = disabled;
  Updater updater(bench.context, solver, parameters, buckets, 0, value, gradient);
  std::vector<double> values;
  for (int iteration = 0; iteration < 2; ++iteration) {
    updater.begin(bench.context, iteration, 0.5);
    updater.update(bench.context, 0);
    copy_to_host(bench.context, value, &values.emplace_back());
  }
  if (disabled) copy_to_host(bench.context, updater.histories_of_bucket(0)[0], &values.emplace_back());
  return values;
}

TEST(Updater, DecaysAsTheRegularizationSays) {
  // h = 0.5 (1 - 2), then 0.5 h + 0.5 (1 - 1.75)
  EXPECT_THAT(after_each_step(false, false), testing::ElementsAre(-3.5, -2.875));
  // h = 0.5 (1 - 0.5), then 0.5 h + 0.5 (1 - 0.5)
  EXPECT_THAT(after_each_step(true, false), testing::ElementsAre(-4.25, -4.625));
  // h = 0.5, then 0.5 h + 0.5; besides, a quarter of the weight
  EXPECT_THAT(after_each_step(false, true), testing::ElementsAre(-3.5, -3.375));
}

TEST(Updater, LeavesParametersAndHistoryWhereUpdatesAreDisabled) {
  for (const bool decoupled : {false, true})
    EXPECT_THAT(after_each_step(false, decoupled, true), testing::ElementsAre(-4, -4, 0));
}

/// From where the pass computed, not from where the weights are stored.
TEST(Updater, BeginsFromTheValuesThatThePassUsed) {
  for (const bool disabled : {false, true}) {
    PartBench bench;
    const Tensor used = bench.scalar(2);
    LearnableParameter parameter;
    parameter.offset = 0;
    parameter.count = 1;
    parameter.used = &used;
    Tensor value = bench.scalar(-4);
    SolverSettings solver;
    solver.update.weight_decay = 0.25;
    solver.update.disabled = disabled;
    const std::vector<parallel::Bucket> buckets = {{0, 1, 0, 0}};
    const std::vector<LearnableParameter> parameters = {parameter};
    Updater updater(bench.context, solver, parameters, buckets, 0, value, bench.scalar(1));
    updater.begin(bench.context, 0, 0.5);
    updater.update(bench.context, 0);
    double found = 0;
    copy_to_host(bench.context, value, &found);
    EXPECT_EQ(found, disabled ? -4 : 2 - 0.5 * (1 + 0.25 * 2));
  }
}

}  // namespace
}  // namespace banyan
