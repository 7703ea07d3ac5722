// Virtual CPU devices: memory accounts, inline and asynchronous streams, events, and failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/device/context.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;

std::unique_ptr<Device> asynchronous_device(int ordinal, unsigned delay = 100) {
  CpuDeviceOptions options;
  options.asynchronous = true;
  options.max_delay_us = delay;
  return make_cpu_device(ordinal, options);
}

TEST(CpuDevice, NamesItself) {
  CpuDeviceOptions options;
  options.threads = 2;
  const auto device = make_cpu_device(3, options);
  EXPECT_EQ(device->name(), "cpu:3");
  EXPECT_EQ(device->ordinal(), 3);
  EXPECT_EQ(device->threads(), 2);
  options.threads = 0;
  EXPECT_THROW(make_cpu_device(0, options), Error);
}

TEST(CpuDevice, TellsHowItsStreamsRun) {
  EXPECT_TRUE(make_cpu_device(0)->runs_inline());
  EXPECT_FALSE(asynchronous_device(0)->runs_inline());
  EXPECT_TRUE(asynchronous_device(0)->in_host_memory());
}

TEST(CpuDevice, RunsOutOfMemoryAtItsLimit) {
  const auto device = make_cpu_device(1);
  device->limit_memory(1000);
  const Tensor kept(*device, {150}, DType::f32);
  try {
    Tensor(*device, {101}, DType::f32);
    FAIL() << "1004 bytes were allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::runtime);
    EXPECT_THAT(error.what(), HasSubstr("cpu:1"));
    EXPECT_THAT(error.what(), HasSubstr("404 bytes"));
    EXPECT_THAT(error.what(), HasSubstr("600 bytes in use"));
  }
  EXPECT_EQ(device->memory().in_use, 600u) << "a refused request is not accounted";
  Tensor(*device, {100}, DType::f32);  // exactly at the limit
  EXPECT_EQ(device->memory().peak, 1000u);
  device->limit_memory(0);
  Tensor(*device, {1000}, DType::f32);
}

TEST(CpuDevice, RunsOutOfMemoryInEarnest) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers end the program on such a request";
#endif
  const auto device = make_cpu_device(0);
  EXPECT_THROW(Tensor(*device, {std::int64_t{1} << 60}, DType::u8), Error);
  EXPECT_EQ(device->memory().in_use, 0u);
  // Whole pages of it would be more than there are addresses.
  EXPECT_THROW(device->allocate_host(std::numeric_limits<std::size_t>::max() - 1), Error);
}

TEST(CpuDevice, AccountsFromSeveralThreads) {
  const auto device = make_cpu_device(0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) Tensor(*device, {16}, DType::f32);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(device->memory().in_use, 0u);
  EXPECT_LE(device->memory().peak, 4u * 64);
}

/// Whether the page at `address` is one of those for which huge pages were asked, as the system tells.
bool asked_for_huge_pages(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  std::uintptr_t first = 1, last = 0;
  for (std::string line; std::getline(maps, line);) {
    char dash = 0;
    std::istringstream words(line);
    std::uintptr_t begin = 0, end = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-')
      first = begin, last = end;
    else if (first <= at && at < last && line.starts_with("VmFlags:"))
      return line.find(" hg") != std::string::npos;
  }
  return false;
}

TEST(CpuDevice, LargeBlocksAreInHugePages) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers have an allocator of their own";
#endif
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) GTEST_SKIP() << "there are none here";
  const auto device = make_cpu_device(0);
  constexpr std::int64_t kPage = 2 << 20;
  const auto is_in_one = [&](std::int64_t bytes, std::int64_t at) {
    const Tensor block(*device, {bytes}, DType::u8);
    EXPECT_EQ(device->memory().in_use, static_cast<std::size_t>(bytes));
    return asked_for_huge_pages(static_cast<const char*>(block.raw()) + at);
  };
  EXPECT_TRUE(is_in_one(kPage / 4 * 3, kPage / 4 * 3 - 1));
  EXPECT_TRUE(is_in_one(kPage + kPage / 2, kPage - 1));
  EXPECT_TRUE(is_in_one(2 * kPage - 1, 2 * kPage - 2));  // to the end
}

TEST(InlineStream, RunsAtOnce) {
  const auto device = make_cpu_device(0);
  Context context(*device);
  int ran = 0;
  context.run([&] { ++ran; });
  EXPECT_EQ(ran, 1);
  EXPECT_THROW(context.run([] { throw std::logic_error("here"); }), std::logic_error);
  const auto event = device->create_event();
  EXPECT_TRUE(event->done());
  context.stream().wait(*event);
  context.stream().record(*event);
  EXPECT_TRUE(event->done());
  event->synchronize();
}

TEST(AsynchronousStream, RunsInOrderOnAThreadOfItsOwn) {
  const auto device = asynchronous_device(0);
  Context context(*device);
  std::vector<int> order;
  std::thread::id where;
  for (int i = 0; i < 20; ++i) context.run([&order, i] { order.push_back(i); });
  context.run([&] { where = std::this_thread::get_id(); });
  context.synchronize();
  ASSERT_EQ(order.size(), 20u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(order[i], i);
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(AsynchronousStream, EnqueueDoesNotWait) {
  const auto device = asynchronous_device(0, 0);
  Context context(*device);
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  std::atomic<bool> ran{false};
  context.run([&ran, opened] {
    opened.wait();
    ran = true;
  });
  EXPECT_FALSE(ran);  // an enqueue that waited would never have returned
  gate.set_value();
  context.synchronize();
  EXPECT_TRUE(ran);
}

// A value goes through four devices' streams, event by event; each wait is needed (ThreadSanitizer would see
// a missing one).
TEST(AsynchronousStream, EventsOrderStreams) {
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Context>> contexts;
  for (int i = 0; i < 4; ++i) {
    devices.push_back(asynchronous_device(i));
    contexts.push_back(std::make_unique<Context>(*devices.back()));
  }
  std::vector<std::unique_ptr<Event>> events;
  for (int i = 0; i < 4; ++i) events.push_back(devices[i]->create_event());
  std::int64_t value = 1;
  std::int64_t expected = 1;
  for (int hop = 0; hop < 100; ++hop) {
    const auto from = static_cast<std::size_t>(hop % 4), to = static_cast<std::size_t>((hop + 1) % 4);
    contexts[from]->run([&value, hop] { value = value * 3 + hop; });
    expected = static_cast<std::int64_t>(static_cast<std::uint64_t>(expected) * 3 +
                                         static_cast<std::uint64_t>(hop)) %
               1000003;
    contexts[from]->run([&value] { value %= 1000003; });
    contexts[from]->stream().record(*events[from]);
    contexts[to]->stream().wait(*events[from]);
  }
  contexts[0]->synchronize();
  EXPECT_EQ(value, expected);
}

TEST(AsynchronousStream, AWaitIsForEarlierRecordsOnly) {
  const auto device = asynchronous_device(0, 0);
  Context first(*device), second(*device);
  const auto event = device->create_event();
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  first.stream().record(*event);
  second.stream().wait(*event);
  first.run([opened] { opened.wait(); });
  first.stream().record(*event);  // recorded after the wait was enqueued: not waited for
  second.synchronize();
  EXPECT_FALSE(event->done());
  gate.set_value();
  event->synchronize();
  EXPECT_TRUE(event->done());
}

TEST(AsynchronousStream, AnInlineStreamWaitsForIt) {
  const auto slow = asynchronous_device(0, 1000);
  const auto plain = make_cpu_device(1);
  Context producer(*slow), consumer(*plain);
  const auto event = slow->create_event();
  int value = 0;
  producer.run([&value] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    value = 42;
  });
  producer.stream().record(*event);
  consumer.stream().wait(*event);
  int seen = 0;
  consumer.run([&] { seen = value; });
  EXPECT_EQ(seen, 42);
}

TEST(AsynchronousStream, AFailureComesOutOfSynchronizeOnce) {
  const auto device = asynchronous_device(0);
  Context context(*device);
  const auto event = device->create_event();
  std::atomic<bool> later{false};
  context.run([] { throw std::runtime_error("first"); });
  context.run([] { throw std::runtime_error("second"); });
  context.run([&] { later = true; });
  context.stream().record(*event);
  event->synchronize();  // events after a failure are reached: nothing hangs
  try {
    context.synchronize();
    FAIL() << "no exception";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
  EXPECT_FALSE(later) << "work after a failure is dropped";
  context.run([&] { later = true; });
  context.synchronize();
  EXPECT_TRUE(later);
}

TEST(AsynchronousStream, FinishesItsWorkBeforeItGoes) {
  std::atomic<int> ran{0};
  const auto device = asynchronous_device(0, 200);
  {
    Context context(*device);
    for (int i = 0; i < 20; ++i) context.run([&] { ++ran; });
  }
  EXPECT_EQ(ran, 20);
}

class ContextTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Device> device_ = GetParam() ? asynchronous_device(0) : make_cpu_device(0);
  Context context_{*device_};
};

TEST_P(ContextTest, WorkspaceGrowsAndKeepsItsPlace) {
  float* small = context_.workspace_of<float>(100);
  context_.run([small] { small[99] = 1; });
  EXPECT_EQ(context_.workspace(50), small);
  char* large = static_cast<char*>(context_.workspace(std::size_t{1} << 20));
  context_.run([large] { large[(std::size_t{1} << 20) - 1] = 1; });
  context_.synchronize();
  EXPECT_EQ(context_.workspace(400), large);
  EXPECT_LE(device_->memory().in_use, std::size_t{1} << 20) << "the small one was released";
}

TEST_P(ContextTest, HostCopiesAreInLogicalOrder) {
  Tensor last(*device_, {2, 3, 2, 2}, DType::f32, Layout::channels_last);
  std::vector<float> sent(24);
  for (int i = 0; i < 24; ++i) sent[i] = static_cast<float>(i);
  copy_from_host(context_, sent.data(), last);
  // memory order N, H, W, C: element (0, 1, 0, 0) is second, (1, 0, 0, 0) follows the first sample's 12
  EXPECT_EQ(last.data<float>()[1], 4);
  EXPECT_EQ(last.data<float>()[3], 1);
  EXPECT_EQ(last.data<float>()[12], 12);
  std::vector<float> received(24);
  copy_to_host(context_, last, received.data());
  EXPECT_EQ(received, sent);
}

TEST_P(ContextTest, HostCopiesOfEveryType) {
  const auto there_and_back = [&]<class T>(T) {
    Tensor tensor(*device_, {5}, DTypeOf<T>::value);
    const std::vector<T> sent{1, 2, 3, 4, 250};
    std::vector<T> received(5);
    copy_from_host(context_, sent.data(), tensor);
    copy_to_host(context_, tensor, received.data());
    EXPECT_EQ(received, sent);
  };
  there_and_back(float());
  there_and_back(double());
  there_and_back(std::int32_t());
  there_and_back(std::uint8_t());
  Tensor other(*device_, {1}, DType::f64);
  const float value = 1;
  EXPECT_THROW(copy_from_host(context_, &value, other), Error);
}

TEST_P(ContextTest, StreamCopiesAndZeroes) {
  Tensor a(*device_, {1000}, DType::u8), b(*device_, {1000}, DType::u8);
  std::vector<std::uint8_t> sevens(1000, 7), received(1000);
  copy_from_host(context_, sevens.data(), a);
  context_.stream().copy(b.raw(), a.raw(), 1000);
  context_.stream().zero(b.raw(), 500);
  context_.stream().copy(nullptr, nullptr, 0);
  copy_to_host(context_, b, received.data());
  EXPECT_EQ(received[499], 0);
  EXPECT_EQ(received[500], 7);
}

TEST_P(ContextTest, ZeroesLargeMemoryWholly) {
  constexpr std::int64_t kBytes = 7'000'003;  // pieces for several threads, and part of one
  CpuDeviceOptions options;
  options.asynchronous = GetParam();
#if !defined(__SANITIZE_THREAD__)  // ThreadSanitizer does not understand libgomp's barriers: false races
  options.threads = 3;
#endif
  const auto device = make_cpu_device(0, options);
  device->make_current();
  Context context(*device, "zero");
  Tensor memory(*device, {kBytes}, DType::u8);
  const std::vector<std::uint8_t> sevens(kBytes, 7);
  std::vector<std::uint8_t> received(kBytes);
  copy_from_host(context, sevens.data(), memory);
  context.stream().zero(static_cast<std::uint8_t*>(memory.raw()) + 1, kBytes - 2);
  copy_to_host(context, memory, received.data());
  EXPECT_EQ(received.front(), 7);
  EXPECT_EQ(received.back(), 7);
  EXPECT_EQ(std::count(received.begin(), received.end(), 0), kBytes - 2);
}

TEST_P(ContextTest, CannotBeCaptured) {
  bool ran = false;
  try {
    static_cast<void>(context_.stream().capture([&] { ran = true; }));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "cpu:0: work cannot be captured into a graph; only GPUs can do that");
  }
  EXPECT_FALSE(ran);
}

INSTANTIATE_TEST_SUITE_P(Streams, ContextTest, testing::Values(false, true), [](const auto& info) {
  return std::string(info.param ? "Asynchronous" : "Inline");
});

TEST(CudaDevices, WholeWithoutCuda) {
  std::string why;
  const int count = cuda_device_count(&why);
  EXPECT_EQ(count == 0, !why.empty());
  if (count == 0) {
    EXPECT_THROW(make_cuda_device(0, 0), Error);
  }
  const auto cpu = make_cpu_device(0);
  EXPECT_THROW(enable_peer_access(*cpu, *cpu), Error);
}

}  // namespace
}  // namespace banyan
