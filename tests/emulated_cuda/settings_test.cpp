// EMULATED_CUDA: the machine that a program sees.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "control.hpp"
#include "test_tools.hpp"

namespace emulated_tests {

namespace setting {

unsigned seen[12];
unsigned seen_so_far = 0;
/// Hidden from the emulator's checks, because kernels may not use host memory.
__attribute__((no_sanitize("thread"), noinline)) void note_number(unsigned number) {
  seen[seen_so_far++ % 12] = number;
}
__global__ void note_threads() { note_number(blockIdx.x * 10 + threadIdx.x); }
__global__ void nothing() {}
__global__ void exponentials(const float* x, float* y) { y[threadIdx.x] = std::exp(x[threadIdx.x]); }

}  // namespace setting

namespace {

class Settings : public Emulator {};

std::vector<unsigned> order_of(const std::string& settings) {
  use(settings);
  const TestStream stream;  // its random numbers start now
  setting::seen_so_far = 0;
  launch(setting::note_threads, 3, 4, stream);
  wait_for_all_gpus();
  EXPECT_EQ(setting::seen_so_far, 12u);
  return {setting::seen, setting::seen + 12};
}

TEST_F(Settings, OrderOfThreadsAndBlocks) {
  std::vector<unsigned> forward = {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23};
  EXPECT_EQ(order_of("order=forward"), forward);
  EXPECT_EQ(order_of("order=reverse"), std::vector<unsigned>(forward.rbegin(), forward.rend()));
  std::vector<unsigned> shuffled = order_of("order=random");
  EXPECT_NE(shuffled, forward);
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, forward);
}

TEST_F(Settings, Trace) {
  use("trace=1");
  const Said said = listen([] { launch(setting::nothing, 3, 4, nullptr); });
  EXPECT_TRUE(said.holds("EMULATED CUDA gpu:0 stream ")) << said.text;
  EXPECT_TRUE(said.holds("kernel emulated_tests::setting::nothing (grid 3 1 1, block 4 1 1)")) << said.text;
}

TEST_F(Settings, Notes) {
  float host = 0;
  const GpuArray<float> value(0, 1);
  use("notes=0");
  const Said quiet = listen([&] { cudaMemcpyAsync(value.get(), &host, 4, cudaMemcpyHostToDevice, nullptr); });
  EXPECT_EQ(quiet.text, "");
}

TEST_F(Settings, Capability) {
  const auto expect_capability = [](int major, int minor) {
    cudaDeviceProp properties{};
    int value = 0;
    EXPECT_EQ(cudaGetDeviceProperties(&properties, 1), cudaSuccess);
    EXPECT_EQ(properties.major, major);
    EXPECT_EQ(properties.minor, minor);
    EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 1), cudaSuccess);
    EXPECT_EQ(value, major);
    EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMinor, 1), cudaSuccess);
    EXPECT_EQ(value, minor);
  };
  expect_capability(9, 0);
  use("capability=86");
  expect_capability(8, 6);
  use("capability=120");
  expect_capability(12, 0);
}

TEST_F(Settings, Stacks) {
  const auto wrong = [] { cudaStreamDestroy(reinterpret_cast<cudaStream_t>(16)); };
  EXPECT_TRUE(listen(wrong).holds("called by (gpu:0 is current)"));
}

TEST_F(Settings, Counts) {
  const std::string before = emulated_cuda_counts();
  EXPECT_EQ(before.find("\"kernel emulated_tests::setting::nothing\": 12345"), std::string::npos);
  launch(setting::nothing, 1, 1, nullptr);
  const std::string after = emulated_cuda_counts();
  EXPECT_NE(after.find("\"launches\": "), std::string::npos) << after;
  EXPECT_NE(after.find("\"kernel emulated_tests::setting::nothing\": "), std::string::npos) << after;
  EXPECT_NE(after.find("\"call launch\": "), std::string::npos) << after;
}

TEST_F(Settings, FunctionsAreOffByUlps) {
  const int count = 64;
  std::vector<float> x(count), expected(count);
  for (int i = 0; i < count; ++i) {
    x[i] = static_cast<float>(i) / 8;
    expected[i] = std::exp(x[i]);
  }
  const GpuArray<> from(0, x), to(0, x);
  const auto computed = [&](const std::string& settings) {
    use(settings);
    launch(setting::exponentials, 1, count, nullptr, from.get(), to.get());
    return to.values();
  };
  EXPECT_EQ(computed(""), expected);
  const std::vector<float> off = computed("ulps=2");
  EXPECT_NE(off, expected);
  EXPECT_EQ(computed("ulps=2"), off);
  EXPECT_EQ(off[0], 1) << "exact";
  for (int i = 0; i < count; ++i) EXPECT_NEAR(off[i], expected[i], 2.01 * 0x1p-23 * expected[i]);
  EXPECT_EQ(std::exp(x[9]), expected[9]) << "the host's functions remain";
}

TEST_F(Settings, DelaysAreSeen) {
  const TestStream stream;
  use("delay_us=20000,seed=5");
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) launch(setting::nothing, 1, 1, stream);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(20));
}

class RefusedSettings : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(RefusedSettings, EndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(emulated::configure(GetParam().first), testing::ExitedWithCode(2), GetParam().second);
}

INSTANTIATE_TEST_SUITE_P(
    Emulated, RefusedSettings,
    testing::Values(
        std::pair{"nonsense=1", "unknown setting \"nonsense=1\""},
        std::pair{"gpus", "unknown setting \"gpus\""}, std::pair{"gpus=17", "gpus=17: a number is expected"},
        std::pair{"gpus=-1", "a number is expected"}, std::pair{"gpus=", "a number is expected"},
        std::pair{"gpus=2x", "a number is expected"}, std::pair{"peers=some", "one of these is expected"},
        std::pair{"lazy=2", "lazy=2: one of these is expected: 0 1"},
        std::pair{"order=sideways", "one of these is expected"},
        std::pair{"capability=7.5", "capability=7.5: a number is expected"},
        std::pair{"cudnn=old", "one of these is expected"}, std::pair{"fail=cudaMalloc", "NAME:N"},
        std::pair{"fail=cudaMalloc:0", "a number is expected"},
        std::pair{"on_violation=laugh", "one of these is expected: abort report"}));

/// A separate machine.
class Machines : public OwnProcess {
 protected:
  static bool access(int reader, int owner) {
    int can = -1;
    return cudaDeviceCanAccessPeer(&can, reader, owner) == cudaSuccess && can == 1;
  }
};

#define EXPECT_HOLDS(...) EXPECT_EXIT(std::exit((__VA_ARGS__) ? 0 : 1), testing::ExitedWithCode(0), "^$")

TEST_F(Machines, AnUnknownSettingInTheEnvironment) {
  machine("gpus=1,colour=blue");
  EXPECT_EXIT(emulated::settings(), testing::ExitedWithCode(2),
              "EMULATED_CUDA: unknown setting \"colour=blue\"");
}

TEST_F(Machines, SixteenGpus) {
  machine("gpus=16,memory_mib=64,notes=0");
  EXPECT_HOLDS([] {
    int count = 0;
    bool good = cudaGetDeviceCount(&count) == cudaSuccess && count == 16 && access(0, 15) && access(15, 0);
    std::vector<void*> memories;
    std::vector<float> values(1000, 3), back(1000);
    for (int gpu = 0; gpu < 16; ++gpu) {
      void* memory = nullptr;
      good = good && cudaSetDevice(gpu) == cudaSuccess && cudaMalloc(&memory, 4000) == cudaSuccess;
      memories.push_back(memory);
    }
    good = good && cudaMemcpy(memories[0], values.data(), 4000, cudaMemcpyDefault) == cudaSuccess;
    for (std::size_t gpu = 1; gpu < 16; ++gpu)
      good = good && cudaMemcpy(memories[gpu], memories[gpu - 1], 4000, cudaMemcpyDefault) == cudaSuccess;
    good = good && cudaMemcpy(back.data(), memories[15], 4000, cudaMemcpyDefault) == cudaSuccess;
    for (void* memory : memories) good = good && cudaFree(memory) == cudaSuccess;
    void* much = nullptr;
    return good && back == values && cudaMalloc(&much, (64 << 20) + 1) == cudaErrorMemoryAllocation;
  }());
}

TEST_F(Machines, WithoutGpus) {
  machine("gpus=0");
  EXPECT_HOLDS([] {
    int count = -1;
    return cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0 &&
           cudaSetDevice(0) == cudaErrorInvalidDevice;
  }());
}

TEST_F(Machines, Peers) {
  machine("gpus=3,peers=none");
  EXPECT_HOLDS(!access(0, 1) && !access(1, 0) && !access(0, 0));
  machine("gpus=3,peers=one_way");
  EXPECT_HOLDS(access(0, 1) && access(1, 2) && !access(1, 0) && !access(2, 1));
  machine("gpus=3,peers=010/001/100");
  EXPECT_HOLDS(access(0, 1) && access(1, 2) && access(2, 0) && !access(1, 0) && !access(0, 2));
  machine("gpus=3");
  EXPECT_HOLDS(access(0, 1) && access(2, 0));
}

TEST_F(Machines, CountsAreWritten) {
  const std::string file = testing::TempDir() + "/emulated_cuda_counts.json";
  machine(("gpus=1,counts=" + file).c_str());
  EXPECT_HOLDS([] {
    launch(setting::nothing, 1, 1, nullptr);
    return cudaDeviceSynchronize() == cudaSuccess;
  }());
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_NE(text.str().find("\"launches\": 1"), std::string::npos) << text.str();
  std::remove(file.c_str());
}

}  // namespace
}  // namespace emulated_tests
