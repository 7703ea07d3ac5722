#include "train/clipping.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/part_bench.hpp"

namespace banyan {
namespace {

TEST(Clipping, FactorOfANorm) {
  EXPECT_EQ(clip_factor(4, 5), 1);
  EXPECT_EQ(clip_factor(5, 5), 1);
  EXPECT_EQ(clip_factor(10, 5), 0.5);
  EXPECT_EQ(clip_factor(3, 0), 0);
  EXPECT_EQ(clip_factor(0, 0), 1);
}

/// Gradients 3 and 4 for two parameters 1 and 1, updated by SGD with rate 1.
std::vector<double> updated(double largest_norm, std::vector<std::string>& logged) {
  PartBench bench;
  LearnableParameter parameter;
  parameter.offset = 0;
  parameter.count = 2;
  parameter.lr_mult = parameter.decay_mult = 1;
  const std::vector<double> ones = {1, 1}, steep = {3, 4};
  Tensor values(*bench.device, Shape{2}, DType::f64), gradients(*bench.device, Shape{2}, DType::f64);
  copy_from_host(bench.context, ones.data(), values);
  copy_from_host(bench.context, steep.data(), gradients);
  const std::vector<parallel::Bucket> buckets = {{0, 2, 0, 0}};
  Updater updater(bench.context, {}, {parameter}, buckets, 0, values, gradients);
  parallel::GradientSync sync(
      nullptr, 0, bench.context, buckets, gradients, values,
      [&](int bucket) { updater.update(bench.context, bucket); }, 0);
  Clipping clipping(
      largest_norm, bench.peers, sync, updater, [&] { return updater.sum_of_squares(bench.context); },
      bench.context);
  const LoggedLines log;
  updater.begin(bench.context, 0, 1);
  clipping.begin();
  sync.start();
  clipping.finish(0);
  sync.finish(bench.context.stream());
  logged = log.lines;
  std::vector<double> result(2);
  copy_to_host(bench.context, values, result.data());
  return result;
}

TEST(Clipping, ScalesTheUpdateByTheNormOfAllGradients) {
  std::vector<std::string> logged;
  EXPECT_THAT(updated(2.5, logged), testing::ElementsAre(1 - 1.5, 1 - 2));
  EXPECT_THAT(logged, testing::ElementsAre("Gradient clipping: scaling down gradients (L2 norm 5 > 2.5) by "
                                           "scale factor 0.5"));
  EXPECT_THAT(updated(5, logged), testing::ElementsAre(1 - 3, 1 - 4));
  EXPECT_THAT(logged, testing::IsEmpty());
}

}  // namespace
}  // namespace banyan
