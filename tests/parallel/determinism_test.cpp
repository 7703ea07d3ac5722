// Sums are bit-identical whatever the chunk size and whichever device is late. The values are chosen so that
// the order of additions shows: different roots, or parts added in order of arrival, give different bits.
#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

#include "banyan/ops/basic.hpp"
#include "banyan/parallel/gradient_sync.hpp"
#include "slow_box.hpp"
#include "tree_fixture.hpp"

namespace banyan::parallel {
namespace {

std::vector<float> inexact_values(int rank, std::int64_t count) {
  std::vector<float> values(count);
  std::minstd_rand random(static_cast<unsigned>(rank + 1));
  for (float& value : values)
    value = (static_cast<float>(random() % 2001) - 1000) / (1.0f + static_cast<float>(random() % 977));
  return values;
}

/// What the owner of a bucket does with the sum of its gradients.
using Update = void (*)(Context& lane, const Tensor& sum, Tensor& values);
void keep_sum(Context& lane, const Tensor& sum, Tensor& values) { ops::copy(lane, sum, values); }
void subtract_sum(Context& lane, const Tensor& sum, Tensor& values) {
  ops::axpby(lane, -0.1, sum, 1.0, values);
}

/// The values on the last device after three layers' gradients became ready one after the other.
std::vector<float> updated(TreeFixture& fixture, const Tree& shape, std::int64_t count,
                           std::size_t chunk_bytes, Update update) {
  const int devices = fixture.size();
  const std::int64_t layer = count / 3;
  const auto buckets =
      plan_buckets({{0, layer, 2}, {layer, layer, 1}, {2 * layer, count - 2 * layer, 0}}, count, 4, devices);
  DeviceTree tree = fixture.tree(shape, GradientSync::slots_for(buckets, 4, chunk_bytes));
  std::vector<float> result(count);
  fixture.run([&](int rank) {
    Context compute(fixture.device(rank)), lane(fixture.device(rank), "lane");
    Tensor gradients(fixture.device(rank), Shape{count}, DType::f32),
        values(fixture.device(rank), Shape{count}, DType::f32);
    ops::fill(compute, values, 1);
    copy_from_host(compute, inexact_values(rank, count).data(), gradients);
    const auto at_owner = [&](int bucket) {
      const Bucket& at = buckets[bucket];
      Tensor value = values.slice(at.offset, Shape{at.count});
      update(lane, gradients.slice(at.offset, Shape{at.count}), value);
    };
    GradientSync sync(&tree, rank, lane, buckets, gradients, values, at_owner, chunk_bytes);
    sync.start();
    for (int l = 2; l >= 0; --l) sync.layer_done(l, compute.stream());
    sync.finish(compute.stream());
    if (rank == devices - 1) copy_to_host(compute, values, result.data());
    compute.synchronize();
    lane.synchronize();
    fixture.meet(rank);
  });
  return result;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class DeterminismTest : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  int devices() const { return std::get<0>(GetParam()); }
  Tree shape() const {
    return std::get<1>(GetParam()) ? direct_tree(devices())
                                   : build_tree(LinkMatrix(devices(), LinkClass::memory));
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, DeterminismTest,
                         testing::Combine(testing::Values(2, 3, 4, 5, 8), testing::Bool()),
                         [](const auto& setting) {
                           return std::to_string(std::get<0>(setting.param)) +
                                  (std::get<1>(setting.param) ? "Direct" : "Pairs");
                         });

TEST_P(DeterminismTest, ChunkSizeChangesNoBit) {
  constexpr std::int64_t kCount = 150001;  // 600 KB: each of up to 8 devices owns a segment
  std::vector<float> first_sum, first_values;
  for (const std::size_t chunk :
       {std::size_t{1} << 30, std::size_t{65536}, std::size_t{20000}, std::size_t{4096}}) {
    TreeFixture fixture({devices(), false, 0});
    const auto summed = updated(fixture, shape(), kCount, chunk, keep_sum),
               values = updated(fixture, shape(), kCount, chunk, subtract_sum);
    if (first_sum.empty()) {
      first_sum = summed;
      first_values = values;
    }
    EXPECT_TRUE(same_bits(summed, first_sum)) << "chunks of " << chunk;
    EXPECT_TRUE(same_bits(values, first_values)) << "chunks of " << chunk;
  }
}

/// Streams that pause before each piece of work, pipes that delay sender and receiver, a different chunk size
/// in every run.
TEST_P(DeterminismTest, FiftyRunsWithLatePipesGiveTheSameBits) {
  constexpr std::int64_t kCount = 40000;
  SlowBoxOptions box;
  box.devices = devices();
  TreeFixture undisturbed(slow_box(box));
  const auto first_sum = updated(undisturbed, shape(), kCount, 1 << 30, keep_sum),
             first_values = updated(undisturbed, shape(), kCount, 1 << 30, subtract_sum);
  box.stream_delay_us = box.pipe_delay_us = 40;
  for (std::size_t run = 0; run < 50; ++run) {
    TreeFixture fixture(slow_box(box));
    const std::size_t chunk = 16384 << run % 5;
    const auto values = updated(fixture, shape(), kCount, chunk, run % 2 == 0 ? keep_sum : subtract_sum);
    ASSERT_TRUE(same_bits(values, run % 2 == 0 ? first_sum : first_values)) << "run " << run;
  }
}

/// The comparison above can fail: with different roots the sum is not bit-identical.
TEST(Determinism, OtherOrdersGiveOtherBits) {
  const auto a = inexact_values(0, 1000), b = inexact_values(1, 1000), c = inexact_values(2, 1000);
  std::vector<float> left(1000), right(1000);
  for (std::size_t i = 0; i < 1000; ++i) {
    left[i] = (a[i] + b[i]) + c[i];
    right[i] = a[i] + (b[i] + c[i]);
  }
  EXPECT_FALSE(same_bits(left, right));
}

}  // namespace
}  // namespace banyan::parallel
