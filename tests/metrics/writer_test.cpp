#include "banyan/metrics/writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "metrics/example_run.hpp"

namespace banyan::metrics {
namespace {

using namespace std::chrono_literals;

/// Keeps the iterations of what it is given; can be told to fail or to wait.
class TestSink : public Sink {
 public:
  void write(const Record& record) override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return !held_; });
    if (fails) runtime_failure("no room");
    iterations_.push_back(record.iteration);
  }
  void sync() override { synced = true; }
  void hold(bool held) {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  std::vector<std::int64_t> iterations() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return iterations_;
  }
  std::atomic<bool> fails{false}, synced{false};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  std::vector<std::int64_t> iterations_;
};

std::mutex logged_mutex;
std::vector<std::string> logged;

class WriterTest : public testing::Test {
 protected:
  void SetUp() override {
    logged.clear();
    set_log_sink([](Severity, const std::string& message, const std::source_location&) {
      const std::lock_guard<std::mutex> lock(logged_mutex);
      logged.push_back(message);
    });
  }
  void TearDown() override { set_log_sink(nullptr); }
  static std::vector<std::string> messages() {
    const std::lock_guard<std::mutex> lock(logged_mutex);
    return logged;
  }
  template <class Condition>
  static bool eventually(Condition condition) {
    for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(5ms);
    return condition();
  }
  static Record warning(std::int64_t iteration) { return record(iteration, Warning{}); }
  std::shared_ptr<TestSink> sink_ = std::make_shared<TestSink>(), other_ = std::make_shared<TestSink>();
};

TEST_F(WriterTest, PassesEverythingOnInOrder) {
  {
    Writer writer({sink_, other_});
    for (int i = 0; i < 100; i += 2) {
      writer.write(warning(i));
      writer.write([i] { return std::vector<Record>{warning(i + 1)}; });
    }
  }
  std::vector<std::int64_t> expected(100);
  for (int i = 0; i < 100; ++i) expected[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(sink_->iterations(), expected);
  EXPECT_EQ(other_->iterations(), expected);
  EXPECT_TRUE(sink_->synced);
  EXPECT_TRUE(messages().empty());
}

TEST_F(WriterTest, AFailureIsToldOnceAndTriedAgain) {
  Writer writer({sink_, other_});
  sink_->fails = true;
  for (int i = 0; i < 5; ++i) writer.write(warning(i));
  ASSERT_TRUE(eventually([&] { return other_->iterations().size() == 5; }));
  ASSERT_EQ(messages().size(), 1u);
  EXPECT_THAT(messages()[0], testing::HasSubstr("no room; training goes on"));
  // A disk that is almost full: now and then there is room. That is no news each time.
  for (int i = 5; i < 9; ++i) {
    sink_->fails = i % 2 == 0;
    writer.write(warning(i));
    const auto count = static_cast<std::size_t>(i) + 1;
    ASSERT_TRUE(eventually([&] { return other_->iterations().size() == count; }));
  }
  writer.close(10);
  EXPECT_THAT(sink_->iterations(), testing::ElementsAre(5, 7));
  ASSERT_EQ(messages().size(), 2u);
  EXPECT_EQ(messages()[1], "Metrics: 7 records were lost; the last time: no room");
}

TEST_F(WriterTest, WhatCannotBeMadeIsTold) {
  {
    Writer writer({sink_});
    writer.write([]() -> std::vector<Record> { runtime_failure("the GPU is lost"); });
    writer.write(warning(1));
  }
  EXPECT_THAT(messages(), testing::ElementsAre("Metrics: the GPU is lost"));
  EXPECT_THAT(sink_->iterations(), testing::ElementsAre(1));
}

/// Giving records to the writer takes no time, whatever the disk does.
TEST_F(WriterTest, ASlowDiskHoldsUpNobody) {
  sink_->hold(true);
  Writer writer({sink_});
  for (std::size_t i = 0; i < Writer::kMostWaiting + 100; ++i)
    writer.write(warning(static_cast<std::int64_t>(i)));
  sink_->hold(false);
  writer.close(60);
  // One may have been taken before the first was dropped.
  EXPECT_THAT(sink_->iterations().size(), testing::AnyOf(Writer::kMostWaiting, Writer::kMostWaiting + 1));
  ASSERT_EQ(messages().size(), 1u);
  EXPECT_THAT(messages()[0], testing::MatchesRegex(".* (99|100) records were dropped"));
}

TEST_F(WriterTest, CatchesUpIfTheDiskAnswersInTime) {
  Writer writer({sink_});
  EXPECT_TRUE(writer.catch_up(0)) << "nothing was given";
  for (int i = 0; i < 100; ++i) writer.write(warning(i));
  EXPECT_TRUE(writer.catch_up(60));
  EXPECT_EQ(sink_->iterations().size(), 100u);
  sink_->hold(true);
  writer.write(warning(100));
  EXPECT_FALSE(writer.catch_up(0.02));
  EXPECT_EQ(sink_->iterations().size(), 100u);
  sink_->hold(false);
  EXPECT_TRUE(writer.catch_up(60));
  EXPECT_EQ(sink_->iterations().size(), 101u);
}

TEST_F(WriterTest, ADiskThatDoesNotAnswerEndsNoRun) {
  sink_->hold(true);
  const auto used = std::make_shared<int>(1);
  {
    Writer writer({sink_});
    writer.write(warning(0));
    writer.write([used] { return std::vector<Record>{}; });
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_FALSE(writer.close(0.1));
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 5s);
  }
  EXPECT_EQ(used.use_count(), 1);  // what waited holds nothing any more
  ASSERT_EQ(messages().size(), 1u);
  EXPECT_THAT(messages()[0], testing::HasSubstr("does not answer"));
  sink_->hold(false);  // lets the thread end
  ASSERT_TRUE(eventually([&] { return sink_.use_count() == 1; }));
}

}  // namespace
}  // namespace banyan::metrics
