#include "banyan/observe/timeline.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "banyan/device/context.hpp"
#include "banyan/observe/spans.hpp"

namespace banyan {
namespace {

std::vector<const TimeSpan*> spans_of(const Track& track) {
  std::vector<const TimeSpan*> spans;
  track.for_each([&](const TimeSpan& span) { spans.push_back(&span); });
  return spans;
}

TEST(Timeline, KeepsTheFirstSpansAndCountsTheRest) {
  Timeline timeline(5000);  // more than one chunk
  Track& track = timeline.open_track(0, "thread");
  for (int i = 0; i < 5003; ++i) {
    TimeSpan* const span = track.open(SpanKind::forward, "layer" + std::to_string(i % 3), "", i, 7);
    EXPECT_EQ(span == nullptr, i >= 5000) << i;
  }
  EXPECT_EQ(timeline.dropped(), 3);
  const auto spans = spans_of(track);
  ASSERT_EQ(spans.size(), 5000u);
  for (int i = 0; i < 5000; ++i) {
    EXPECT_EQ(spans[i]->number, i);
    EXPECT_EQ(*spans[i]->name, "layer" + std::to_string(i % 3));
  }
}

TEST(Timeline, ThreadsOpenTracksWhileOthersAreRead) {
  Timeline timeline;
  timeline.add_device("cpu:0");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&timeline] {
      Track& track = timeline.open_track(0, "worker");
      for (int i = 0; i < 1000; ++i) track.open(SpanKind::prefetch, "batch", "", i, -1)->begin = i + 1;
    });
  std::int64_t seen = 0;
  for (const Track* track : timeline.tracks()) seen += static_cast<std::int64_t>(spans_of(*track).size());
  EXPECT_LE(seen, 4000);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(timeline.tracks().size(), 7u);  // three from the device
}

TEST(Timeline, WithoutOneNothingIsRecorded) {
  Activity activity("cpu:0");
  EXPECT_EQ(activity.open_span(DeviceTrack::compute, SpanKind::forward, "conv"), nullptr);
  const HostSpan host(activity, SpanKind::test);
}

TEST(Timeline, StreamSpansHaveTheTimesOfTheStream) {
  for (const bool asynchronous : {false, true}) {
    CpuDeviceOptions options;
    options.asynchronous = asynchronous;
    const auto device = make_cpu_device(0, options);
    Timeline timeline;
    Activity activity("cpu:0");
    activity.trace_to(timeline.add_device("cpu:0"));
    Context context(*device);
    std::atomic<std::int64_t> worked{0};
    {
      const StreamSpan outer(activity, DeviceTrack::compute, context.stream(), SpanKind::forward, "conv");
      context.run([&worked] {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        worked = steady_nanoseconds();
      });
    }
    context.synchronize();
    const auto spans = spans_of(*timeline.tracks()[1]);
    ASSERT_EQ(spans.size(), 1u);
    EXPECT_LE(spans[0]->begin + 2'000'000, worked) << asynchronous;
    EXPECT_GE(spans[0]->end, worked) << asynchronous;
  }
}

TEST(Timeline, WaitsForOthersAreSpansOfTheSolver) {
  Timeline timeline;
  Activity activity("cpu:0");
  activity.trace_to(timeline.add_device("cpu:0"));
  activity.set_iteration(3);
  activity.enter(Stage::exchange, "bn1");
  activity.set_waiting(true);
  activity.set_waiting(false);
  const auto spans = spans_of(*timeline.tracks()[0]);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(*spans[0]->name, "bn1");
  EXPECT_STREQ(spans[0]->detail, "exchange");
  EXPECT_EQ(spans[0]->iteration, 3);
  EXPECT_GE(spans[0]->end, spans[0]->begin);
}

}  // namespace
}  // namespace banyan
