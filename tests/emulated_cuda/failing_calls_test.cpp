// Calls that are made to fail: fail=NAME:N[:CODE][:sticky].
#include <cublas_v2.h>

#include <chrono>
#include <filesystem>
#include <iterator>

#include "control.hpp"
#include "failure.hpp"
#include "test_tools.hpp"

namespace emulated_tests {

namespace failing {

__global__ void increment(float* value) { *value += 1; }

}  // namespace failing

namespace {

class FailingCalls : public Emulator {
 protected:
  ~FailingCalls() override { use(); }
  static cudaError_t malloc_and_free() {
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, 4);
    if (status == cudaSuccess) cudaFree(memory);
    return status;
  }
};

TEST_F(FailingCalls, Once) {
  use("fail=cudaMalloc:2");
  EXPECT_EQ(malloc_and_free(), cudaSuccess);
  EXPECT_EQ(emulated::failures_struck(), 0u);
  EXPECT_EQ(malloc_and_free(), cudaErrorMemoryAllocation) << "the usual one of cudaMalloc";
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(malloc_and_free(), cudaSuccess);
  EXPECT_EQ(emulated::failures_struck(), 1u);
}

TEST_F(FailingCalls, WithACode) {
  use("fail=cudaMalloc:1:999");
  EXPECT_EQ(malloc_and_free(), cudaErrorUnknown);
  EXPECT_EQ(malloc_and_free(), cudaSuccess);
}

TEST_F(FailingCalls, QuestionsForVersions) {
  use("fail=cudaDriverGetVersion:1+cublasGetProperty:2");
  int version = 0;
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaErrorUnknown);
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_EQ(cublasGetProperty(MAJOR_VERSION, &version), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasGetProperty(MAJOR_VERSION, &version), CUBLAS_STATUS_INTERNAL_ERROR);
  EXPECT_EQ(emulated::failures_struck(), 2u);
}

TEST_F(FailingCalls, Several) {
  use("fail=cudaMalloc:1+cudaMemGetInfo:2+cudaMalloc:3:700");
  std::size_t free = 0, total = 0;
  EXPECT_EQ(malloc_and_free(), cudaErrorMemoryAllocation);
  EXPECT_EQ(malloc_and_free(), cudaSuccess);
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(malloc_and_free(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaErrorUnknown);
  EXPECT_EQ(emulated::failures_struck(), 3u);
}

TEST_F(FailingCalls, ForGood) {
  const GpuArray<float> value(0, std::vector<float>(1)), other(1, std::vector<float>(1));
  const TestStream here(0), there(1);
  use("fail=cudaMemsetAsync:1:719:sticky");
  EXPECT_EQ(cudaMemsetAsync(value.get(), 0, 4, here), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress) << "stays";
  EXPECT_EQ(malloc_and_free(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamSynchronize(here), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaMemsetAsync(value.get(), 0, 4, here), cudaErrorIllegalAddress);
  launch(failing::increment, 1, 1, here, value.get());
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess) << "the other GPU works";
  EXPECT_EQ(cudaMemsetAsync(other.get(), 0, 4, there), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(there), cudaSuccess);
  EXPECT_EQ(malloc_and_free(), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaErrorIllegalAddress);
  use();  // it works again
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(malloc_and_free(), cudaSuccess);
  EXPECT_EQ(value.values()[0], 0);
}

TEST_F(FailingCalls, NobodyWaitsForAFailedGpu) {
  const GpuArray<float> value(0, std::vector<float>(1)), other(1, std::vector<float>(1));
  const TestStream here(0), there(1);
  const TestEvent event(0);
  use("lazy=1,fail=cudaStreamIsCapturing:1:sticky");
  launch(failing::increment, 1, 1, here, value.get());
  EXPECT_EQ(cudaEventRecord(event, here), cudaSuccess);
  cudaSetDevice(1);
  EXPECT_EQ(cudaStreamWaitEvent(there, event, 0), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(other.get(), 0, 4, there), cudaSuccess);
  cudaSetDevice(0);
  cudaStreamCaptureStatus status;
  EXPECT_NE(cudaStreamIsCapturing(here, &status), cudaSuccess);
  cudaSetDevice(1);
  EXPECT_EQ(cudaStreamSynchronize(there), cudaSuccess);
  use();
  cudaSetDevice(0);
  EXPECT_EQ(value.values()[0], 0) << "the kernel has not run";
}

TEST_F(FailingCalls, ALostGpuIsAtRestWhenACallSaysSo) {
  const PinnedArray<float> pinned(1);
  const auto stage = [&] { return *static_cast<volatile float*>(pinned.get()); };
  const TestStream stream;
  use("fail=cudaMemGetInfo:1:sticky");
  launch(take_long, 1, 1, stream, pinned.get());
  while (stage() == 0) std::this_thread::yield();
  std::size_t free = 0, total = 0;
  EXPECT_NE(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(stage(), 2) << "the kernel still runs";
  use();
}

/// What a lost copy would have written may be copied from, and must then not change.
TEST_F(FailingCalls, ALostCopyWritesNothing) {
  const GpuArray values(0, std::vector<float>(8));
  const PinnedArray pinned(8, 1.0F);
  {
    const TestStream stream;
    use("lazy=1,fail=cudaStreamIsCapturing:1:sticky");
    EXPECT_EQ(cudaMemcpyAsync(pinned.get(), values.get(), 32, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    cudaStreamCaptureStatus status;
    EXPECT_NE(cudaStreamIsCapturing(stream, &status), cudaSuccess);
    EXPECT_NE(cudaStreamSynchronize(stream), cudaSuccess);
    use();
  }
  wait_for_all_gpus();
  const TestStream stream;
  use("lazy=1");
  expect_violation("host memory was changed between cudaMemcpyAsync and the copy", [&] {
    cudaMemcpyAsync(values.get(), pinned.get(), 32, cudaMemcpyHostToDevice, stream);
    pinned.get()[3] = 2;
  });
}

/// Otherwise a process that continues after the GPU is repaired would have ever more threads and ever less
/// memory.
TEST_F(FailingCalls, ALostGpuGivesBackWhatIsFreed) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  std::size_t before = 0, after = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  void *memory = nullptr, *pinned = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 1 << 20), cudaSuccess);
  EXPECT_EQ(cudaHostAlloc(&pinned, 4, cudaHostAllocPortable), cudaSuccess);
  EXPECT_EQ(cudaEventCreate(&event), cudaSuccess);
  EXPECT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  const auto at_work = threads();
  use("fail=cudaMemGetInfo:1:sticky");
  EXPECT_NE(cudaMemGetInfo(&after, &total), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaFreeHost(pinned), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaEventDestroy(event), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorIllegalAddress);
  for (int i = 0; i < 500 && threads() >= at_work; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LT(threads(), at_work);
  use();
  EXPECT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
  EXPECT_EQ(after, before);
}

TEST_F(FailingCalls, ALaunch) {
  const GpuArray<float> value(0, std::vector<float>(1));
  use("fail=launch:2:2");
  for (const cudaError_t status : {cudaSuccess, cudaErrorMemoryAllocation, cudaSuccess}) {
    launch(failing::increment, 1, 1, nullptr, value.get());
    EXPECT_EQ(cudaGetLastError(), status);
  }
  EXPECT_EQ(value.values()[0], 2);
}

TEST_F(FailingCalls, AKernelWhileItRuns) {
  const GpuArray<float> value(0, std::vector<float>(1));
  const TestStream stream;
  use("fail=kernel:2");
  launch(failing::increment, 1, 1, stream, value.get());
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  launch(failing::increment, 1, 1, stream, value.get());
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  EXPECT_EQ(emulated::failures_struck(), 1u);
  use();
  EXPECT_EQ(value.values()[0], 1) << "the second has not run";
}

TEST_F(FailingCalls, AnyCallIsCounted) {
  const auto program = [](std::vector<cudaError_t>* statuses) {
    void* memory = nullptr;
    statuses->push_back(cudaMalloc(&memory, 4));
    statuses->push_back(cudaMemsetAsync(memory, 0, memory == nullptr ? 0 : 4, nullptr));
    statuses->push_back(cudaDeviceSynchronize());
    const auto failed = cudaFree(memory);
    statuses->push_back(failed);
    if (failed != cudaSuccess) cudaFree(memory);
  };
  std::vector<cudaError_t> statuses;
  use("fail=any:1000000");
  program(&statuses);
  EXPECT_EQ(statuses, std::vector<cudaError_t>(4));
  EXPECT_STREQ(emulated_cuda_failed_call(), "");
  EXPECT_EQ(emulated_cuda_calls(), 4u);
  EXPECT_EQ(emulated_cuda_failures(), 0u);
  for (unsigned i = 0; i < 4; ++i) {
    use("fail=any:" + std::to_string(i + 1));
    statuses.clear();
    program(&statuses);
    for (unsigned k = 0; k < 4; ++k) EXPECT_EQ(statuses[k] != cudaSuccess, k == i) << i << " " << k;
    EXPECT_EQ(emulated_cuda_failures(), 1u);
    EXPECT_STREQ(emulated_cuda_failed_call(), i == 0   ? "cudaMalloc"
                                              : i == 1 ? "cudaMemsetAsync"
                                              : i == 2 ? "cudaDeviceSynchronize"
                                                       : "cudaFree");
    EXPECT_LT(emulated_cuda_seconds_since_failure(), 60);
  }
}

TEST_F(FailingCalls, AFailedGpuLeavesNothingBehind) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto body = [](const char* settings) {
    emulated::configure(settings);
    void* memory = nullptr;
    cudaMalloc(&memory, 4);
    cudaDeviceSynchronize();
    std::exit(cudaFree(memory) == cudaSuccess ? 0 : 1);
  };
  EXPECT_EXIT(body(""), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(body("fail=cudaDeviceSynchronize:1:sticky"), testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace emulated_tests
