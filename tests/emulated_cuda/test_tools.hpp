// What the tests of the emulated CUDA runtime share. Each of its rules is shown by a small program that
// breaks it and by one that follows it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <source_location>
#include <string>
#include <thread>
#include <vector>

#include "machine.hpp"
#include "ops/cuda/launch.cuh"

namespace emulated_tests {

using banyan::ops::launch;
using emulated::violations;

/// A kernel that tells when it has begun and when it ends.
__global__ inline void take_long(float* stage) {
  *stage = 1;
  usleep(300'000);
  *stage = 2;
}

/// Settings for what follows; violations are counted.
inline void use(const std::string& settings = "") {
  emulated::configure("on_violation=report" + (settings.empty() ? "" : "," + settings));
}

inline void wait_for_all_gpus() {
  int current = 0;
  cudaGetDevice(&current);
  for (int gpu = 0; gpu < emulated::settings().gpus; ++gpu) {
    cudaSetDevice(gpu);
    cudaDeviceSynchronize();
  }
  cudaSetDevice(current);
}

/// What part of a program makes the emulator report, until all GPUs are idle.
struct Said {
  std::uint64_t violations = 0;
  std::string text;
  bool holds(const std::string& part) const { return text.find(part) != std::string::npos; }
};
template <class Body>
Said listen(const Body& body) {
  Said said;
  const std::uint64_t before = violations();
  testing::internal::CaptureStderr();
  body();
  wait_for_all_gpus();
  said.text = testing::internal::GetCapturedStderr();
  said.violations = violations() - before;
  return said;
}

template <class Body>
void expect_violation(const std::string& of, const Body& body,
                      std::source_location where = std::source_location::current()) {
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), of);
  const Said said = listen(body);
  EXPECT_GT(said.violations, 0u);
  EXPECT_TRUE(said.holds("EMULATED CUDA VIOLATION: "));
  EXPECT_TRUE(said.holds(of)) << said.text;
}
template <class Body>
void expect_no_violation(const Body& body, std::source_location where = std::source_location::current()) {
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "");
  const Said said = listen(body);
  EXPECT_EQ(said.violations, 0u) << said.text;
}

/// In another process, which the violation aborts: for kernels that would fault after it.
template <class Body>
void expect_abort(const std::string& of, const Body& body,
                  std::source_location where = std::source_location::current()) {
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), of);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [&] {
    emulated::configure("");
    body();
    wait_for_all_gpus();
  };
  EXPECT_DEATH(run(), of);
}

/// A GPU's memory.
template <class T = float>
class GpuArray {
 public:
  /// Never written.
  GpuArray(int gpu, std::size_t count) : count_(count) {
    int current = 0;
    cudaGetDevice(&current);
    cudaSetDevice(gpu);
    EXPECT_EQ(cudaMalloc(&memory_, count * sizeof(T)), cudaSuccess);
    cudaSetDevice(current);
  }
  GpuArray(int gpu, const std::vector<T>& values) : GpuArray(gpu, values.size()) {
    EXPECT_EQ(cudaMemcpy(memory_, values.data(), bytes(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  GpuArray(const GpuArray&) = delete;
  GpuArray& operator=(const GpuArray&) = delete;
  ~GpuArray() { release(); }
  void release() {
    EXPECT_EQ(cudaFree(memory_), cudaSuccess);
    memory_ = nullptr;
  }
  T* get() const { return static_cast<T*>(memory_); }
  std::size_t count() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  /// Waits for all GPUs first.
  std::vector<T> values() const {
    wait_for_all_gpus();
    std::vector<T> values(count_);
    EXPECT_EQ(cudaMemcpy(values.data(), memory_, bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }

 private:
  void* memory_ = nullptr;
  std::size_t count_;
};

/// Pinned host memory.
template <class T = float>
class PinnedArray {
 public:
  explicit PinnedArray(std::size_t count, T value = T(0)) {
    EXPECT_EQ(cudaHostAlloc(&memory_, count * sizeof(T), cudaHostAllocPortable), cudaSuccess);
    std::fill(get(), get() + count, value);
  }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;
  ~PinnedArray() { EXPECT_EQ(cudaFreeHost(memory_), cudaSuccess); }
  T* get() const { return static_cast<T*>(memory_); }

 private:
  void* memory_ = nullptr;
};

class TestStream {
 public:
  explicit TestStream(int gpu = 0, unsigned flags = cudaStreamNonBlocking) : gpu_(gpu) {
    cudaSetDevice(gpu);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, flags), cudaSuccess);
    cudaSetDevice(0);
  }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  ~TestStream() {
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  operator cudaStream_t() const { return stream_; }
  int gpu() const { return gpu_; }

 private:
  cudaStream_t stream_ = nullptr;
  int gpu_;
};

class TestEvent {
 public:
  explicit TestEvent(int gpu = 0, unsigned flags = cudaEventDisableTiming) {
    cudaSetDevice(gpu);
    EXPECT_EQ(cudaEventCreateWithFlags(&event_, flags), cudaSuccess);
    cudaSetDevice(0);
  }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  ~TestEvent() {
    cudaEventSynchronize(event_);
    EXPECT_EQ(cudaEventDestroy(event_), cudaSuccess);
  }
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Four GPUs: 0 and 1 can reach each other, as can 2 and 3 (see CMakeLists.txt); gpu:0 is current.
class Emulator : public testing::Test {
 protected:
  Emulator() {
    use();
    EXPECT_EQ(emulated::settings().gpus, 4);
    EXPECT_EQ(emulated::settings().peers, "islands");
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  }
  ~Emulator() override {
    use();
    wait_for_all_gpus();
    cudaGetLastError();
  }
};

/// For what needs a separate machine, or the end of a process: `body` runs in a new process and should end it
/// by returning its exit code.
class OwnProcess : public testing::Test {
 protected:
  OwnProcess() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    before_ = std::getenv("EMULATED_CUDA");
  }
  ~OwnProcess() override { setenv("EMULATED_CUDA", before_.c_str(), 1); }
  /// Before EXPECT_EXIT.
  static void machine(const char* settings) { setenv("EMULATED_CUDA", settings, 1); }

 private:
  std::string before_;
};

}  // namespace emulated_tests
