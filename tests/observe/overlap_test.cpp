#include "banyan/observe/overlap.hpp"

#include <gtest/gtest.h>

namespace banyan {
namespace {

constexpr std::int64_t kMs = 1'000'000;

/// A device with spans at the given milliseconds.
struct Written {
  explicit Written(Timeline& timeline) : tracks(timeline.add_device("cpu")) {}
  DeviceTracks tracks;
  void add(DeviceTrack lane, SpanKind kind, std::int64_t begin, std::int64_t end, const char* name = "",
           const char* detail = "", std::int64_t iteration = 0) {
    TimeSpan* span = tracks.lanes[static_cast<std::size_t>(lane)]->open(kind, name, detail, -1, iteration);
    span->begin = (100 + begin) * kMs;
    span->end = (100 + end) * kMs;
  }
};

TEST(Overlap, EveryMomentOfAnIterationHasOneShare) {
  Timeline timeline;
  Written run(timeline);
  run.add(DeviceTrack::compute, SpanKind::iteration, 0, 100);
  run.add(DeviceTrack::solver, SpanKind::data, 0, 5);
  run.add(DeviceTrack::compute, SpanKind::forward, 6, 20, "conv");
  run.add(DeviceTrack::compute, SpanKind::forward, 20, 30, "bn");
  run.add(DeviceTrack::compute, SpanKind::exchange, 22, 26, "bn", "forward");
  run.add(DeviceTrack::compute, SpanKind::forward, 30, 34, "loss");
  run.add(DeviceTrack::compute, SpanKind::exchange, 31, 32, "loss", "divisor");
  run.add(DeviceTrack::compute, SpanKind::backward, 40, 50, "loss");
  run.add(DeviceTrack::gradients, SpanKind::climb, 50,
          58);  // 50 to 52: nothing else runs; 52 to 70: alongside conv
  run.add(DeviceTrack::compute, SpanKind::backward, 52, 70, "conv");
  run.add(DeviceTrack::gradients, SpanKind::descent, 58,
          90);  // 70 to 90 without a layer, with an update of 5
  run.add(DeviceTrack::gradients, SpanKind::update, 75, 80);
  run.add(DeviceTrack::gradients, SpanKind::climb, 60, 64);  // two buckets at once are counted once
  const auto iterations = measure_overlap(spans_of(timeline))[0];
  ASSERT_EQ(iterations.size(), 1u);
  const IterationShares& s = iterations[0];
  EXPECT_DOUBLE_EQ(s.total, 100);
  EXPECT_DOUBLE_EQ(s.statistics, 4);
  EXPECT_DOUBLE_EQ(s.divisors, 1);
  EXPECT_DOUBLE_EQ(s.compute, 14 + 6 + 3 + 10 + 18);
  EXPECT_DOUBLE_EQ(s.hidden, 18);
  EXPECT_DOUBLE_EQ(s.update, 5);
  EXPECT_DOUBLE_EQ(s.gradients, 2 + 15);
  EXPECT_DOUBLE_EQ(s.data, 5);
  EXPECT_DOUBLE_EQ(s.skew, 0);  // alone
  EXPECT_NEAR(s.compute + s.statistics + s.divisors + s.gradients + s.update + s.data + s.other, s.total,
              1e-9);
}

TEST(Overlap, IterationsAreApartAndUnfinishedOnesLeftOut) {
  Timeline timeline;
  Written run(timeline);
  run.add(DeviceTrack::compute, SpanKind::iteration, 0, 10, "", "", 4);
  run.add(DeviceTrack::compute, SpanKind::forward, 2, 6, "conv", "", 4);
  run.add(DeviceTrack::compute, SpanKind::forward, 12, 18, "conv", "", 5);  // between iterations: a test
  run.add(DeviceTrack::compute, SpanKind::iteration, 20, 40, "", "", 5);
  run.add(DeviceTrack::compute, SpanKind::forward, 22, 30, "conv", "", 5);
  run.tracks.lanes[1]->open(SpanKind::iteration, "", "", -1, 6)->begin = 150 * kMs;
  const auto iterations = measure_overlap(spans_of(timeline))[0];
  ASSERT_EQ(iterations.size(), 2u);
  EXPECT_EQ(iterations[1].iteration, 5);
  EXPECT_DOUBLE_EQ(iterations[0].compute, 4);
  EXPECT_DOUBLE_EQ(iterations[1].compute, 8);
  EXPECT_DOUBLE_EQ(iterations[1].total, 20);
  const auto layers = measure_layers(spans_of(timeline)[0], 5);
  ASSERT_EQ(layers.size(), 1u);
  EXPECT_DOUBLE_EQ(layers[0].forward, 14);
}

TEST(Overlap, SkewIsTheTimeBeforeTheLastDeviceArrives) {
  Timeline timeline;
  Written fast(timeline), slow(timeline);
  for (Written* device : {&fast, &slow}) {
    const std::int64_t late = device == &slow ? 3 : 0;
    device->add(DeviceTrack::compute, SpanKind::iteration, 0, 60);
    for (const std::int64_t at : {0, 10}) {  // two sub-iterations
      device->add(DeviceTrack::compute, SpanKind::forward, at, at + 10, "bn");
      device->add(DeviceTrack::compute, SpanKind::exchange, at + late, at + 4 + (late > 0), "bn", "forward");
    }
    device->add(DeviceTrack::compute, SpanKind::backward, 20, 30 + 5 * late, "conv");
    device->add(DeviceTrack::gradients, SpanKind::climb, 25, 50);
  }
  const IterationShares first = measure_overlap(spans_of(timeline))[0].at(0),
                        second = measure_overlap(spans_of(timeline))[1].at(0);
  EXPECT_DOUBLE_EQ(first.statistics, 8);
  EXPECT_DOUBLE_EQ(first.gradients, 20);  // 30 to 50
  EXPECT_DOUBLE_EQ(first.skew, 2 * 3 + 15);
  EXPECT_DOUBLE_EQ(second.statistics, 4);
  EXPECT_DOUBLE_EQ(second.gradients, 5);
  EXPECT_DOUBLE_EQ(second.skew, 0);
}

}  // namespace
}  // namespace banyan
