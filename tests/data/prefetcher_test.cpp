#include "banyan/data/prefetcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "banyan/base/error.hpp"
#include "banyan/device/context.hpp"
#include "parallel/thread_limit.hpp"

namespace banyan::data {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

ShareSequence shares() { return ShareSequence::training(Dealing({100, 2, 0, 1, EpochEnd::wrap}), 0); }

/// Writes the number of the first item into the shape of an array.
void note(HostBatch& batch) {
  batch.arrays.resize(1);
  batch.arrays[0].shape = Shape{static_cast<std::int64_t>(batch.share.first)};
}
Prefetcher::Fill note_first(const std::shared_ptr<HostMemory>&) { return note; }

/// Makes room for one number.
int* make_room(HostMemory& memory, HostBatch& batch) {
  batch.arrays.resize(1);
  memory.reserve(sizeof(int), batch.arrays[0].memory, batch.arrays[0].capacity);
  return static_cast<int*>(batch.arrays[0].memory.get());
}

TEST(Prefetcher, KeepsTheOrderWhateverTheThreadsDo) {
  const auto device = make_cpu_device(0);
  for (const int threads : {1, 3}) {
    Prefetcher prefetcher(*device, shares(),
                          [](const auto&) {
                            return [](HostBatch& batch) {
                              // Every third batch is slow.
                              if (batch.share.first % 6 == 0) std::this_thread::sleep_for(2ms);
                              note(batch);
                            };
                          },
                          {4, threads, "test", nullptr});
    for (int i = 0; i < 50; ++i) EXPECT_EQ(prefetcher.take().arrays[0].shape, Shape{2 * i});
  }
}

TEST(Prefetcher, FillsNoMoreThanItsDepthAhead) {
  const auto device = make_cpu_device(0);
  std::atomic<int> filled{0};
  Prefetcher prefetcher(*device, shares(), [&](const auto&) { return [&](HostBatch&) { ++filled; }; },
                        {3, 1, "test", nullptr});
  prefetcher.take();
  std::this_thread::sleep_for(50ms);
  // One in use and three ahead.
  EXPECT_EQ(filled, 4);
}

TEST(Prefetcher, TellsHowManyBatchesAreReady) {
  const auto device = make_cpu_device(0);
  const auto gauge = std::make_shared<QueueGauge>();
  std::atomic<int> filled{0};
  std::mutex slow;
  std::unique_lock hold(slow, std::defer_lock);
  Prefetcher::Options options{3, 1, "test", nullptr};
  options.gauge = gauge;
  Prefetcher prefetcher(
      *device, shares(),
      [&](const auto&) {
        return [&](HostBatch&) {
          const std::lock_guard wait(slow);
          ++filled;
        };
      },
      options);
  EXPECT_EQ(gauge->most, 3);
  const auto becomes = [](const std::atomic<int>& value, int wanted) {
    for (int i = 0; i < 1000 && value != wanted; ++i) std::this_thread::sleep_for(5ms);
    return value == wanted;
  };
  // All of its four batches, because none is in use yet.
  EXPECT_TRUE(becomes(filled, 4));
  EXPECT_TRUE(becomes(gauge->filled, 3)) << gauge->filled;
  hold.lock();
  for (int left = 3; left >= 0; --left) {
    prefetcher.take();
    EXPECT_TRUE(becomes(gauge->filled, left)) << gauge->filled << ", not " << left;
  }
  hold.unlock();
  EXPECT_TRUE(becomes(gauge->filled, 3)) << gauge->filled;
}

TEST(Prefetcher, AFailureComesOutAtItsBatchAndStays) {
  const auto device = make_cpu_device(0);
  Prefetcher prefetcher(*device, shares(),
                        [](const auto&) {
                          return [](HostBatch& batch) {
                            if (batch.share.first == 6) bad_input("record 6 is broken");
                          };
                        },
                        {4, 2, "test", nullptr});
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(prefetcher.take());
  for (int i = 0; i < 2; ++i) {
    try {
      prefetcher.take();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("record 6 is broken"));
    }
  }
}

TEST(Prefetcher, AThreadThatCannotBeStartedEndsTheOthers) {
  BANYAN_NEEDS_THREAD_LIMIT;
  for (int failing = 0; failing < 3; ++failing) {
    auto device = make_cpu_device(0);
    const auto fills = std::make_shared<std::atomic<int>>(0);
    const ThreadLimit limit(failing);
    std::string error;
    try {
      const Prefetcher prefetcher(*device, shares(),
                                  [fills](const auto&) { return [fills](HostBatch&) { ++*fills; }; },
                                  {4, 3, "test", nullptr});
    } catch (const Error& thrown) {
      error = thrown.what();
    }
    EXPECT_THAT(error, testing::HasSubstr("cannot start a prefetch thread of test: Resource temporarily"));
    EXPECT_EQ(fills.use_count(), 1) << "threads were not joined";
    device.reset();
  }
}

/// A slow source that is alive beats; a stuck one does not.
TEST(Prefetcher, BeatsAsLongAsItemsComeIn) {
  const auto device = make_cpu_device(0);
  for (const bool counts : {true, false}) {
    const auto items = std::make_shared<std::atomic<std::uint64_t>>(0);
    int beats = 0;
    Prefetcher::Options options{1, 1, "test", nullptr, items, [&] { ++beats; }};
    Prefetcher prefetcher(
        *device, shares(),
        [=](const auto&) {
          return [=](HostBatch&) {
            for (int i = 0; i < 6; ++i) {
              std::this_thread::sleep_for(50ms);
              if (counts) ++*items;
            }
          };
        },
        options);
    prefetcher.take();
    if (counts)
      EXPECT_GE(beats, 1);
    else
      EXPECT_EQ(beats, 0);
  }
}

TEST(Prefetcher, AReaderThatCannotBeMadeFailsTheFirstBatch) {
  const auto device = make_cpu_device(0);
  Prefetcher prefetcher(*device, shares(),
                        [](const auto&) -> Prefetcher::Fill { bad_input("no such source"); },
                        {4, 1, "test", nullptr});
  EXPECT_THROW(prefetcher.take(), Error);
}

TEST(Prefetcher, IsDestroyedAtOnceInAnyState) {
  const auto device = make_cpu_device(0);
  const auto start = Clock::now();
  for (int i = 0; i < 50; ++i) {
    Prefetcher prefetcher(*device, shares(), note_first, {2, 2, "test", nullptr});
    for (int k = 0; k < i % 4; ++k) prefetcher.take();
  }
  EXPECT_LT(Clock::now() - start, 5s);
}

/// A source that stalls until the test releases it, whatever interrupts it. Owned by the fill, as the
/// prefetcher requires.
struct Stall {
  std::mutex mutex;
  std::condition_variable changed;
  bool released = false, left = false, refused = false;
  void wait(HostMemory& memory, HostBatch& batch) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return released; });
    try {
      make_room(memory, batch);
    } catch (const Error& error) {
      refused = error.kind() == ErrorKind::aborted;
    }
    left = true;
    changed.notify_all();
  }
};

TEST(Prefetcher, AStalledSourceHangsNothing) {
  auto device = make_cpu_device(0);
  const auto stall = std::make_shared<Stall>();
  const auto interrupted = std::make_shared<std::atomic<bool>>(false);
  auto start = Clock::now();
  {
    Prefetcher prefetcher(*device, shares(),
                          [stall](const std::shared_ptr<HostMemory>& memory) {
                            return [=](HostBatch& batch) { stall->wait(*memory, batch); };
                          },
                          {2, 1, "stalled", interrupted});
    std::thread other([&] {
      std::this_thread::sleep_for(50ms);
      *interrupted = true;
    });
    try {
      prefetcher.take();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::aborted);
    }
    EXPECT_LT(Clock::now() - start, 1s);
    other.join();
    start = Clock::now();
  }
  EXPECT_LT(Clock::now() - start, 2s);
  // The thread was left running and no longer finds a device.
  device.reset();
  std::unique_lock lock(stall->mutex);
  stall->released = true;
  stall->changed.notify_all();
  stall->changed.wait(lock, [&] { return stall->left; });
  EXPECT_TRUE(stall->refused);
}

/// A read that waits in vain ends with its prefetcher: its thread is joined, not left running.
TEST(Prefetcher, AReadThatWaitsIsInterrupted) {
  const auto device = make_cpu_device(0);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  for (const int threads : {1, 3}) {
    const auto reading = std::make_shared<std::atomic<int>>(0),
               failures = std::make_shared<std::atomic<int>>(0);
    const auto start = Clock::now();
    {
      Prefetcher prefetcher(*device, shares(),
                            [=](const auto&) {
                              return [=](HostBatch&) {
                                ++*reading;
                                char byte = 0;
                                if (::read(ends[0], &byte, 1) < 0 && errno == EINTR) ++*failures;
                              };
                            },
                            {3, threads, "silent", nullptr});
      while (*reading < threads) std::this_thread::yield();
    }
    EXPECT_LT(Clock::now() - start, 500ms);
    EXPECT_EQ(*failures, threads);  // by now, because they are joined
    EXPECT_EQ(*reading, threads);
  }
  ::close(ends[0]);
  ::close(ends[1]);
}

/// An event of a device that has failed: every query fails.
struct FailedEvent : Event {
  void synchronize() override { runtime_failure("gpu:0: cudaEventSynchronize failed"); }
  bool done() override { runtime_failure("gpu:0: cudaEventQuery failed"); }
};

/// The error that ends a run is reported, not what the destructor encounters; memory that the device may
/// still be copying from is not freed.
TEST(Prefetcher, IsDestroyedQuietlyAfterADeviceHasFailed) {
  const auto device = make_cpu_device(0);
  std::weak_ptr<void> buffer;
  const auto start = Clock::now();
  try {
    Prefetcher prefetcher(*device, shares(),
                          [](const std::shared_ptr<HostMemory>& memory) {
                            return [memory](HostBatch& batch) { make_room(*memory, batch); };
                          },
                          {2, 1, "test", nullptr});
    HostBatch& batch = prefetcher.take();
    batch.copied = std::make_shared<FailedEvent>();
    buffer = batch.arrays[0].memory;
    runtime_failure("an illegal memory access was encountered");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "an illegal memory access was encountered");
  }
  EXPECT_LT(Clock::now() - start, 500ms);
  EXPECT_FALSE(buffer.expired());
}

TEST(Prefetcher, BuffersAreNotRefilledBeforeTheDeviceHasCopiedThem) {
  // An asynchronous stream with random delays reads the buffer long after take() has moved on.
  CpuDeviceOptions options;
  options.asynchronous = true;
  options.max_delay_us = 500;
  const auto device = make_cpu_device(0, options);
  Context context(*device);
  std::vector<int> arrived(200, -1);
  {
    Prefetcher prefetcher(*device, shares(),
                          [&](const std::shared_ptr<HostMemory>& memory) {
                            return [memory](HostBatch& batch) {
                              *make_room(*memory, batch) = static_cast<int>(batch.share.first);
                            };
                          },
                          {2, 1, "test", nullptr});
    for (std::size_t i = 0; i < arrived.size(); ++i) {
      HostBatch& batch = prefetcher.take();
      context.stream().copy(&arrived[i], batch.arrays[0].memory.get(), sizeof(int));
      if (!batch.copied) batch.copied = device->create_event();
      context.stream().record(*batch.copied);
    }
  }  // destroyed while copies are still in flight
  context.synchronize();
  for (std::size_t i = 0; i < arrived.size(); ++i) EXPECT_EQ(arrived[i], static_cast<int>(2 * i));
}

}  // namespace
}  // namespace banyan::data
