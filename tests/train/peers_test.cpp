#include "train/peers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/tree_fixture.hpp"
#include "train/part_bench.hpp"

namespace banyan {
namespace {

TEST(Peers, OneDeviceIsAlone) {
  PartBench bench;
  const Peers& peers = bench.peers;
  EXPECT_TRUE(peers.alone());
  EXPECT_TRUE(peers.first());
  EXPECT_TRUE(peers.gathers());
  EXPECT_TRUE(peers.in_first_process());
  EXPECT_EQ(peers.exchange(), nullptr);
  EXPECT_EQ(peers.devices(), 1);
  EXPECT_THAT(peers.sum_processes({1, 2}, "test"), testing::ElementsAre(1, 2));
  Tensor value = bench.scalar(3);
  peers.broadcast(value, "test");
  double host = 0;
  copy_to_host(bench.context, value, &host);
  EXPECT_EQ(host, 3);
}

TEST(Peers, TheFirstDevicesValuesGoToAll) {
  constexpr std::int64_t kCount = 40000;  // more than one piece
  parallel::TreeFixture fixture({3, true, 50});
  Team team(3, fixture.abort, fixture.spin());
  team.trees = std::make_unique<parallel::StatisticsTrees>(fixture.statistics_trees());
  fixture.run([&](int rank) {
    Context context(fixture.device(rank));
    Peers peers(team, rank, fixture.activity(rank), context);
    EXPECT_FALSE(peers.alone());
    EXPECT_EQ(peers.first(), rank == 0);
    EXPECT_EQ(peers.gathers(), rank == 0);
    EXPECT_EQ(peers.devices(), 3);
    std::vector<double> host(kCount);
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = (rank + 1) * static_cast<double>(i);
    Tensor values(fixture.device(rank), Shape{kCount}, DType::f64);
    copy_from_host(context, host.data(), values);
    peers.broadcast(values, "test");
    copy_to_host(context, values, host.data());
    for (std::size_t i = 0; i < host.size(); ++i) ASSERT_EQ(host[i], static_cast<double>(i));
    peers.meet("test");
  });
}

/// Above the only device of process 0, which counts what goes to process 1.
class CountingUplink : public parallel::Uplink {
 public:
  const parallel::UplinkPlace& place() const override { return place_; }
  std::string name() const override { return "process 0"; }
  std::vector<std::string> share(const std::string& mine) override { return {mine, mine}; }
  void attach(parallel::UplinkRun) override {}
  void detach() noexcept override {}
  parallel::OtherDevices others() const override { return {}; }
  void begin(int, Tensor& message, parallel::UplinkMerge merge, const parallel::Meeting&,
             parallel::ProcessRange, Context&, parallel::Doorbell&) override {
    EXPECT_EQ(merge, parallel::UplinkMerge::first);
    ++exchanges;
    values += message.count();
  }
  bool done(int, Context&) override { return true; }
  void abort(const Error&) noexcept override {}

  int exchanges = 0;
  std::int64_t values = 0;

 private:
  const parallel::UplinkPlace place_{0, {1, 1}};
};

/// VGG-16 has 138 million parameters, and each exchange costs a round trip: 50 ms between distant machines.
TEST(Peers, FewExchangesSpreadParametersOverProcesses) {
  constexpr std::int64_t kCount = (5 << 20) + 7;
  parallel::TreeFixture fixture({1, false, 0});
  CountingUplink uplink;
  Team team(1, fixture.abort, fixture.spin(), &uplink);
  team.trees = std::make_unique<parallel::StatisticsTrees>(
      fixture.links(), parallel::build_tree(fixture.links()), fixture.members, std::vector<int>{},
      fixture.abort, fixture.spin(), &uplink);
  fixture.run([&](int rank) {
    Context context(fixture.device(rank));
    Peers peers(team, rank, fixture.activity(rank), context);
    Tensor values(fixture.device(rank), Shape{kCount}, DType::f32);
    peers.broadcast(values, "test");
  });
  EXPECT_EQ(uplink.values, kCount);
  EXPECT_LE(uplink.exchanges, 6);
}

}  // namespace
}  // namespace banyan
