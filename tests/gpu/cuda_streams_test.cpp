// Memory, streams and events of CUDA devices. Two replicas on one GPU stand for two devices.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/device/context.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "banyan/device/stamp.hpp"
#include "banyan/observe/timeline.hpp"
#include "banyan/ops/basic.hpp"
#include "gpu/gpu_training.hpp"
#include "train/run_devices.hpp"

namespace banyan {
namespace {

class CudaStreams : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
    first_ = make_cuda_device(0, 0);
    second_ = make_cuda_device(0, 1);
  }

  static std::vector<float> values(Context& context, const Tensor& tensor) {
    std::vector<float> host(tensor.count());
    copy_to_host(context, tensor, host.data());
    return host;
  }

  std::unique_ptr<Device> first_, second_;
};

/// Number of elements that keep a GPU busy for a while; BANYAN_SLOW_GPU is set where an emulated one runs the
/// tests.
const std::int64_t kMany = std::int64_t{1} << (std::getenv("BANYAN_SLOW_GPU") == nullptr ? 24 : 14);

TEST_F(CudaStreams, ReplicasHaveNamesAndMemoryOfTheirOwn) {
  EXPECT_EQ(first_->name(), "gpu:0");
  EXPECT_EQ(second_->name(), "gpu:0#1");
  EXPECT_EQ(first_->ordinal(), second_->ordinal());
  const Tensor tensor(*first_, {1000}, DType::f32);
  EXPECT_EQ(first_->memory().in_use, 4000u);
  EXPECT_EQ(second_->memory().in_use, 0u);
}

TEST_F(CudaStreams, RunningOutOfMemoryNamesTheDeviceAndIsNotFinal) {
  try {
    first_->allocate(std::size_t{1} << 50);
    FAIL() << "the GPU has a pebibyte";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::runtime);
    EXPECT_NE(error.message().find("out of memory on gpu:0: asked for 1125899906842624 bytes"),
              std::string::npos)
        << error.what();
  }
  // The check of a later launch must not find the failure.
  Context context(*first_);
  Tensor tensor(*first_, {3}, DType::f32);
  ops::fill(context, tensor, 7);
  EXPECT_EQ(values(context, tensor), std::vector<float>(3, 7));
}

TEST_F(CudaStreams, AnEventOrdersTheStreamsOfTwoReplicas) {
  Context producer(*first_), consumer(*second_);
  Tensor source(*first_, {kMany}, DType::f32), target(*second_, {kMany}, DType::f32);
  const auto written = first_->create_event(), taken = second_->create_event();
  for (int round = 1; round <= 5; ++round) {
    // Late in the producer's stream: without the wait the consumer would copy an older value.
    for (int i = 0; i < 50; ++i) ops::fill(producer, source, -1);
    ops::fill(producer, source, round);
    producer.stream().record(*written);
    consumer.stream().wait(*written);
    consumer.stream().copy(target.raw(), source.raw(), source.bytes());
    consumer.stream().record(*taken);
    producer.stream().wait(*taken);
    ops::fill(producer, source, -2);
    EXPECT_EQ(values(consumer, target), std::vector<float>(kMany, static_cast<float>(round)));
  }
}

TEST_F(CudaStreams, TheHostDoesNotWaitForWorkItEnqueues) {
  Context context(*first_);
  Tensor tensor(*first_, {kMany * 8}, DType::f32);
  ops::fill(context, tensor, 0);
  context.synchronize();
  const auto done = first_->create_event();
  EXPECT_TRUE(done->done()) << "never recorded";
  // 500 fills of 512 MiB: more than 50 ms on any GPU, enqueued in a few.
  for (int i = 0; i < 500; ++i) ops::fill(context, tensor, i);
  context.stream().record(*done);
  EXPECT_FALSE(done->done());
  done->synchronize();
  EXPECT_TRUE(done->done());
}

/// Events measure milliseconds as floats, so the reference is renewed every second.
TEST_F(CudaStreams, AreStampedWithTheHostsTimeForLong) {
  Context context(*first_);
  std::int64_t last = 0;
  for (const int milliseconds : {0, 1100, 10, 1100, 10}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    std::atomic<std::int64_t> at{0};
    stamp(context.stream(), at);
    context.synchronize();
    const std::int64_t now = steady_nanoseconds();
    EXPECT_GE(at, last + milliseconds * 1'000'000 - 1'000'000);
    EXPECT_LE(at, now + 50'000'000);  // the most a busy host may delay the comparison of clocks
    last = at;
  }
}

TEST_F(CudaStreams, CopiesBetweenHostAndReplicas) {
  EXPECT_TRUE(enable_peer_access(*first_, *second_));
  Context a(*first_), b(*second_);
  const auto pinned = first_->allocate_host(4 * sizeof(float));
  auto* host = static_cast<float*>(pinned.get());
  for (int i = 0; i < 4; ++i) host[i] = static_cast<float>(i + 1);
  Tensor on_a(*first_, {4}, DType::f32), on_b(*second_, {4}, DType::f32);
  a.stream().copy(on_a.raw(), host, on_a.bytes());
  a.synchronize();
  b.stream().copy(on_b.raw(), on_a.raw(), on_b.bytes());
  EXPECT_EQ(values(b, on_b), (std::vector<float>{1, 2, 3, 4}));
  b.stream().zero(on_b.raw(), 2 * sizeof(float));
  EXPECT_EQ(values(b, on_b), (std::vector<float>{0, 0, 3, 4}));
}

TEST_F(CudaStreams, CopiesBetweenGpus) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "one GPU only";
  const auto other = make_cuda_device(1, 0);
  enable_peer_access(*first_, *other);  // with or without it, the copy works
  EXPECT_EQ(enable_peer_access(*first_, *other), enable_peer_access(*other, *first_)) << "twice is fine";
  Context a(*first_), b(*other);
  Tensor source(*first_, {kMany}, DType::f32), target(*other, {kMany}, DType::f32);
  const auto written = first_->create_event();
  for (int i = 1; i <= 50; ++i) ops::fill(a, source, i);
  a.stream().record(*written);
  b.stream().wait(*written);
  b.stream().copy(target.raw(), source.raw(), source.bytes());
  EXPECT_EQ(values(b, target), std::vector<float>(kMany, 50));
}

/// After a failed wait the copy's target may be freed: it must not be written later.
TEST_F(CudaStreams, AWaitThatFailsOnceHasWaited) {
  const auto configure = emulated<void(const char*)>("emulated_cuda_configure");
  if (configure == nullptr) GTEST_SKIP() << "needs emulated GPUs";
  Context context(*first_);
  Tensor tensor(*first_, {3}, DType::f32);
  ops::fill(context, tensor, 7);
  context.synchronize();
  std::vector<float> host(3, -1);
  configure("lazy=1,fail=cudaStreamSynchronize:1");  // nothing runs before something waits for it
  EXPECT_THROW(copy_to_host(context, tensor, host.data()), Error);
  EXPECT_EQ(host, std::vector<float>(3, 7));
  configure("");
  context.synchronize();
}

/// Cleaning up after a lost GPU has to wait for other devices that read the same memory.
TEST_F(CudaStreams, AThreadLeavesALostGpuForAnother) {
  const auto configure = emulated<void(const char*)>("emulated_cuda_configure");
  if (configure == nullptr || cuda_device_count() < 2) GTEST_SKIP() << "needs two emulated GPUs";
  const auto other = make_cuda_device(1, 0);
  Context here(*first_), lost(*other);
  Tensor kept(*first_, {3}, DType::f32), gone(*other, {3}, DType::f32);
  // CUDA keeps the last error per thread: it ends with this one.
  std::thread([&] {
    first_->make_current();
    configure("lazy=1,fail=cudaMemsetAsync:1:sticky");
    ops::fill(here, kept, 7);
    EXPECT_THROW(lost.stream().zero(gone.raw(), gone.bytes()), Error);
    EXPECT_THROW(lost.synchronize(), Error);
    EXPECT_EQ(values(here, kept), std::vector<float>(3, 7));
  }).join();
  configure("");
}

TEST_F(CudaStreams, DescribesTheGpu) {
  const std::string text = describe_cuda_device(0);
  for (const char* line :
       {"Name:", "Compute capability:", "Global memory:", "Multiprocessors:", "PCI bus id:"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
}

}  // namespace
}  // namespace banyan
