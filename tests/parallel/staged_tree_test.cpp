// Trees over links that damage data: sums are correct because every edge takes the detour through host
// memory. Also the detour on asynchronous streams, where a missing wait is a data race.
#include <gtest/gtest.h>

#include "banyan/ops/basic.hpp"
#include "banyan/parallel/all_reduce_time.hpp"
#include "banyan/parallel/gradient_sync.hpp"
#include "banyan/parallel/statistics_exchange.hpp"
#include "faulty_device.hpp"
#include "tree_fixture.hpp"

namespace banyan::parallel {
namespace {

TEST(StagedTree, SumsAreRightOverDamagingLinks) {
  constexpr int kDevices = 4;
  AbortState abort;
  int warnings = 0;
  LinkAccess access([&](const std::string&) { ++warnings; }, LinkAccess::Verify::all);
  std::vector<std::unique_ptr<FaultyDevice>> devices;
  std::vector<std::unique_ptr<Activity>> activities;
  std::vector<Member> members;
  for (int i = 0; i < kDevices; ++i) {
    devices.push_back(std::make_unique<FaultyDevice>(i, Fault::damages));
    activities.push_back(std::make_unique<Activity>(devices.back()->name(), &abort.flag()));
    members.push_back({devices.back().get(), activities.back().get(), &access});
  }
  const LinkMatrix links(kDevices, LinkClass::none);
  // Checks every value of every sum, in the short message and the long one. The trees are built, and their
  // links decided, before the threads start.
  const auto times =
      time_all_reduce(links, build_tree(links), members, {4096, 1 << 20}, 2, abort, spin_policy(kDevices, 1));
  EXPECT_EQ(times.size(), 2u);
  EXPECT_EQ(warnings, 2 * (kDevices - 1));  // one per edge and direction
}

/// If neighbours' memory cannot be read directly, a device keeps room for one chunk of a neighbour's, however
/// many chunks and neighbours there are.
TEST(StagedTree, StagingTakesOneChunk) {
  constexpr int kDevices = 4;
  constexpr std::int64_t kCount = 1 << 18, kChunk = 1 << 12;
  AbortState abort;
  LinkAccess access([](const std::string&) {}, LinkAccess::Verify::all);
  std::vector<std::unique_ptr<FaultyDevice>> devices;
  std::vector<std::unique_ptr<Activity>> activities;
  std::vector<Member> members;
  std::vector<Activity*> running;
  std::vector<Tensor> parts, sums;
  for (int i = 0; i < kDevices; ++i) {
    devices.push_back(std::make_unique<FaultyDevice>(i, Fault::damages));
    activities.push_back(std::make_unique<Activity>(devices.back()->name(), &abort.flag()));
    running.push_back(activities.back().get());
    members.push_back({devices.back().get(), running.back(), &access});
    parts.emplace_back(*devices.back(), Shape{kCount}, DType::f32);
    sums.emplace_back(*devices.back(), Shape{kCount}, DType::f32);
  }
  std::vector<std::size_t> kept(kDevices);
  const auto buckets = plan_buckets({{0, kCount, 0}}, kCount, sizeof(float), kDevices);
  ASSERT_EQ(buckets.front().count % kChunk, 0);
  DeviceTree tree(star_tree(kDevices), members, abort, spin_policy(kDevices, 1),
                  GradientSync::slots_for(buckets, sizeof(float), kChunk * sizeof(float)));
  Rendezvous meeting(kDevices, abort, spin_policy(kDevices, 1));
  WorkerGroup(running, abort, {}).run([&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    Context compute(*devices[r]), lane(*devices[r], "lane");
    ops::fill(compute, parts[r], 1.0);
    const std::size_t before = devices[r]->memory().in_use;
    const auto keep_sum = [&](int bucket) {
      const Bucket& at = buckets[bucket];
      Tensor sum = sums[r].slice(at.offset, Shape{at.count});
      ops::copy(lane, parts[r].slice(at.offset, Shape{at.count}), sum);
    };
    GradientSync sync(&tree, rank, lane, buckets, parts[r], sums[r], keep_sum, kChunk * sizeof(float));
    for (int round = 0; round < 3; ++round) {
      sync.start();
      sync.layer_done(0, compute.stream());
      sync.finish(compute.stream());
    }
    compute.synchronize();
    kept[r] = devices[r]->memory().in_use - before;
    meeting.meet(rank, *running[r], {"test"});  // others may still read what is here
  });
  for (const std::size_t bytes : kept) EXPECT_EQ(bytes, kChunk * sizeof(float));
}

class DetourTest : public testing::TestWithParam<TreeSetting> {};
INSTANTIATE_TEST_SUITE_P(Devices, DetourTest, testing::ValuesIn(all_settings()), name_of_setting);

/// A transfer that the owner's next values overtake, or that overtakes its own, gives wrong numbers.
TEST_P(DetourTest, KeepsTheOrderOfStreams) {
  constexpr std::int64_t kCount = 700000;  // three pieces of the detour's buffers
  const auto setting = GetParam();
  CpuDeviceOptions options;
  options.asynchronous = setting.asynchronous;
  options.max_delay_us = setting.delay_us;
  const auto owner = make_cpu_device(0, options), reader = make_cpu_device(1, options);
  Context sender(*owner), receiver(*reader);
  Tensor source(*owner, Shape{kCount}, DType::f32), target(*reader, Shape{kCount}, DType::f32);
  Transfer transfer(Access::staged, *owner, *reader);
  const auto sent = owner->create_event(), received = reader->create_event();
  for (int round = 0; round < setting.devices; ++round) {
    sender.stream().wait(*received);
    float* values = source.data<float>();
    sender.run([=] { std::fill_n(values, kCount, static_cast<float>(round)); });
    sender.stream().record(*sent);
    receiver.stream().wait(*sent);
    transfer.copy(receiver.stream(), target.raw(), source.raw(), source.bytes());
    receiver.stream().record(*received);
    std::vector<float> host(kCount);
    copy_to_host(receiver, target, host.data());
    for (const float value : host) ASSERT_EQ(value, round);
  }
  sender.synchronize();
}

}  // namespace
}  // namespace banyan::parallel
