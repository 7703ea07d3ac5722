#include "banyan/observe/sampling.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/observe/spans.hpp"

namespace banyan {
namespace {

using testing::ElementsAre;

void record(Activity& activity, const char* name, DeviceTrack lane = DeviceTrack::compute) {
  TimeSpan* span = activity.open_span(lane, SpanKind::forward, name);
  if (span == nullptr) return;
  span->begin = steady_nanoseconds();
  span->end = steady_nanoseconds();
}

std::vector<std::string> names_of(const std::vector<RecordedSpan>& spans) {
  std::vector<std::string> names;
  for (const RecordedSpan& span : spans) names.push_back(*span.name);
  return names;
}

TEST(SpanSampler, TakesWhatIsRecordedBetweenBeginAndEnd) {
  Activity activity("cpu:0");
  SpanSampler sampler(activity);
  EXPECT_TRUE(sampler.take().empty());
  for (int round = 0; round < 3; ++round) {  // again and again in the same memory
    record(activity, "before");
    sampler.begin();
    record(activity, "one");
    record(activity, "two", DeviceTrack::gradients);
    activity.open_span(DeviceTrack::compute, SpanKind::forward, "unfinished");
    sampler.end();
    record(activity, "after");
    EXPECT_THAT(names_of(sampler.take()), ElementsAre("one", "two"));
    EXPECT_TRUE(sampler.take().empty());
  }
}

TEST(SpanSampler, AUsedSpanHasNoTimesOfTheSampleBefore) {
  Activity activity("cpu:0");
  SpanSampler sampler(activity);
  sampler.begin();
  record(activity, "one");
  sampler.end();
  sampler.take();
  sampler.begin();
  activity.open_span(DeviceTrack::compute, SpanKind::forward, "unfinished");
  sampler.end();
  EXPECT_TRUE(sampler.take().empty());
}

TEST(SpanSampler, LeavesATimelineAsItWouldBe) {
  Timeline timeline;
  Activity activity("cpu:0");
  activity.trace_to(timeline.add_device("cpu:0"));
  SpanSampler sampler(activity);
  record(activity, "before");
  sampler.begin();
  record(activity, "one");
  sampler.end();
  record(activity, "after");
  EXPECT_THAT(names_of(sampler.take()), ElementsAre("one"));
  std::vector<std::string> all;
  for (const Track* track : timeline.tracks())
    track->for_each([&](const TimeSpan& span) { all.push_back(*span.name); });
  EXPECT_THAT(all, ElementsAre("before", "one", "after"));
}

TEST(SpanSampler, GoesOnWhenTheTimelineIsFull) {
  Timeline timeline(3);
  Activity activity("cpu:0");
  activity.trace_to(timeline.add_device("cpu:0"));
  SpanSampler sampler(activity);
  record(activity, "before");
  sampler.begin();  // there is room for two
  for (const char* name : {"one", "two", "three"}) record(activity, name);
  sampler.end();
  EXPECT_TRUE(sampler.take().empty());  // not all were recorded
  sampler.begin();
  for (const char* name : {"one", "two", "three"}) record(activity, name);
  sampler.end();
  EXPECT_THAT(names_of(sampler.take()), ElementsAre("one", "two", "three"));
}

TEST(DataSpan, CountsItsTimeWithoutATimelineToo) {
  Activity activity("cpu:0");
  EXPECT_EQ(activity.waited_for_data(), 0);
  std::int64_t least = 0;
  for (int i = 1; i <= 2; ++i) {
    const DataSpan span(activity, "source");
    const std::int64_t begun = steady_nanoseconds();
    while (steady_nanoseconds() - begun < 2'000'000) {
    }
    least += 2'000'000;
  }
  EXPECT_GE(activity.waited_for_data(), least);
}

}  // namespace
}  // namespace banyan
