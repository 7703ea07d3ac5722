#include "banyan/parallel/link_cost.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>

#include "forwarding_device.hpp"
#include "tree_fixture.hpp"

namespace banyan::parallel {
namespace {

TEST(BestChunk, IsAsGoodAsTheBestOfAll) {
  for (const std::size_t message : {1u, 100u, 4000u, 100000u})
    for (const int depth : {1, 2, 3, 4, 15})
      for (const double latency : {1e-7, 3e-6, 1e-4})
        for (const double rate : {1e7, 1e9, 1e11})
          for (const std::size_t largest : {std::size_t{64}, std::size_t{5000}, std::size_t{1} << 20}) {
            const LinkCost link{latency, rate};
            double least = 1e9;
            for (std::size_t chunk = 1; chunk <= std::min(message, largest); ++chunk)
              least = std::min(least, pipeline_seconds(message, depth, link, chunk));
            const std::size_t chosen = best_chunk(message, depth, link, largest);
            EXPECT_LE(chosen, largest);
            // The formula's chunks are not a whole number of bytes; the chosen one may be a byte longer.
            EXPECT_LE(pipeline_seconds(message, depth, link, chosen),
                      (1 + 1.0 / static_cast<double>(chosen)) * least)
                << message << " bytes, depth " << depth << ", " << latency << " s, " << rate
                << " B/s, at most " << largest << ": " << chosen;
          }
}

TEST(BestChunk, FollowsTheLink) {
  constexpr std::size_t kMessage = 100'000'000, kAny = std::size_t{1} << 40;
  const LinkCost link{10e-6, 10e9};
  // sqrt(S L B / (2 d - 1)): 3.2 MB for one level, 1.8 MB for two.
  EXPECT_NEAR(static_cast<double>(best_chunk(kMessage, 1, link, kAny)), 3.2e6, 1e5);
  EXPECT_NEAR(static_cast<double>(best_chunk(kMessage, 2, link, kAny)), 1.83e6, 1e5);
  EXPECT_GT(best_chunk(kMessage, 2, {40e-6, 10e9}, kAny), best_chunk(kMessage, 2, link, kAny));
  EXPECT_LE(best_chunk(kMessage, 2, link, 1 << 20), 1u << 20);
  EXPECT_GT(best_chunk(kMessage, 2, link, 1 << 20),
            1'000'000u);                                     // 96 equal ones instead of 95 and a remainder
  EXPECT_EQ(best_chunk(kMessage, 0, link, kAny), kMessage);  // one device
  EXPECT_EQ(best_chunk(0, 2, link, kAny), 1u);
}

/// Made-up edges: the one with the highest latency is not the one with the lowest bandwidth, and links
/// outside the tree, which are even slower, do not count.
TEST(SlowestLink, TakesTheWorstOfTheTreesEdges) {
  const Tree tree = chain_tree(4);
  std::vector<std::pair<int, int>> asked;
  const auto edge = [&](int reader, int owner) -> LinkCost {
    asked.emplace_back(reader, owner);
    if (std::abs(reader - owner) != 1) return {1, 1};
    return {owner == 2 ? 5e-6 : 2e-6, owner == 3 ? 4e9 : 8e9};
  };
  const LinkCost slowest = slowest_link(tree, edge);
  EXPECT_EQ(slowest.latency_s, 5e-6);
  EXPECT_EQ(slowest.bytes_per_s, 4e9);
  EXPECT_THAT(asked, testing::UnorderedElementsAre(std::pair(0, 1), std::pair(1, 2), std::pair(2, 3)));
}

TEST(SlowestLink, WithoutEdgesCostsNothing) {
  const LinkCost slowest = slowest_link(chain_tree(1), [](int, int) -> LinkCost { return {1, 1}; });
  EXPECT_EQ(slowest.seconds(1e12), 0);
  EXPECT_EQ(chunk_for(chain_tree(1), DeviceKind::cpu, 1 << 20, slowest), largest_chunk(1, DeviceKind::cpu));
}

TEST(ChunkFor, KeepsToTheTreesDepthAndTheDevicesLimit) {
  constexpr std::size_t kMessage = 1 << 20;
  const LinkCost slow{1e-3, 1e9}, quick{1e-6, 1e9};
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda})
    for (const int devices : {2, 4, 8}) {
      const std::size_t largest = largest_chunk(devices, kind);
      EXPECT_EQ(chunk_for(chain_tree(devices), kind, kMessage, quick),
                best_chunk(kMessage, chain_tree(devices).greatest_depth(), quick, largest));
      EXPECT_EQ(chunk_for(direct_tree(devices), kind, kMessage, quick),
                best_chunk(kMessage, 1, quick, largest));
      EXPECT_EQ(chunk_for(direct_tree(devices), kind, kMessage, slow), std::min(largest, kMessage));
    }
  EXPECT_LT(chunk_for(chain_tree(8), DeviceKind::cuda, kMessage, quick),
            chunk_for(direct_tree(8), DeviceKind::cuda, kMessage, quick));
}

/// Records which device becomes current and between which devices bytes are copied.
struct Record {
  std::mutex mutex;
  std::set<int> current;
  std::set<std::pair<int, int>> copied;  ///< reader, owner
};
class RecordingDevice : public ForwardingDevice {
 public:
  RecordingDevice(int ordinal, Record& record)
      : ForwardingDevice(ordinal, "cpu:" + std::to_string(ordinal), {}), record_(record) {}
  void make_current() override {
    const std::lock_guard<std::mutex> lock(record_.mutex);
    record_.current.insert(ordinal());
    ForwardingDevice::make_current();
  }
  std::unique_ptr<Stream> create_stream(const std::string& name) override {
    return std::make_unique<RecordingStream>(*this, name);
  }

 private:
  class RecordingStream : public ForwardingStream {
   public:
    RecordingStream(RecordingDevice& device, const std::string& name)
        : ForwardingStream(device, name), device_(device) {}
    void copy(void* to, const void* from, std::size_t bytes) override {
      const ForwardingDevice* owner = owner_of(from);
      const std::lock_guard<std::mutex> lock(device_.record_.mutex);
      if (owner != nullptr && owner != &device_)
        device_.record_.copied.emplace(device_.ordinal(), owner->ordinal());
      ForwardingStream::copy(to, from, bytes);
    }

   private:
    RecordingDevice& device_;
  };
  Record& record_;
};

/// One edge is copied over, because CPU devices share one memory, and the token passes through every device's
/// thread.
TEST(MeasureLinkCost, CopiesOverOneEdgeAndPassesATokenThroughAllThreads) {
  for (const int devices : {1, 2, 5}) {
    Record record;
    std::vector<std::unique_ptr<Device>> made;
    std::set<int> all;
    for (int i = 0; i < devices; ++i) {
      made.push_back(std::make_unique<RecordingDevice>(i, record));
      all.insert(i);
    }
    TreeFixture fixture(std::move(made));
    const Tree tree = build_tree(fixture.links());
    const MeasuredLinks links = measure_link_cost(tree, fixture.members, fixture.spin());
    const LinkCost& cost = links.slowest;
    EXPECT_EQ(std::ssize(links.edges), tree.size() - 1);
    if (devices == 1) {
      EXPECT_TRUE(record.copied.empty());
      EXPECT_EQ(cost.latency_s, 0);
      continue;
    }
    EXPECT_EQ(record.current, all);
    ASSERT_EQ(record.copied.size(), 1u);
    const auto [reader, owner] = *record.copied.begin();
    EXPECT_THAT(tree.neighbours(reader), testing::Contains(owner));
  }
}

}  // namespace
}  // namespace banyan::parallel
