// Rules of memory, launches, streams and events, each broken and kept.
#include <cublas_v2.h>
#include <cudnn.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "test_tools.hpp"

namespace emulated_tests {

// The emulator looks up kernel names, hence no anonymous namespace.
namespace rules {

__global__ void add_one(float* values, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] += 1;
}
__global__ void copy_value(const float* from, float* to) { *to = *from; }
__global__ void copy_beyond(const float* from, float* to, int at) { *to = from[at]; }
__global__ void write_beyond(float* to, int at) { to[at] = 1; }
__global__ void read_at_byte(const char* from, float* to, int at) {
  *to = *reinterpret_cast<const float*>(from + at);
}
/// The bytes [begin, end), by the first block.
__global__ void xor_bytes(const unsigned char* from, int* to, int begin, int end) {
  int all = 0;
  if (blockIdx.x > 0) return;
  for (int i = begin; i < end; ++i) all ^= from[i];
  *to = all;
}
/// The same, every `step`th of them.
__global__ void xor_some_bytes(const unsigned char* from, int* to, int begin, int end, int step) {
  int all = 0;
  if (blockIdx.x > 0) return;
  for (int i = begin; i < end; i += step) all ^= from[i];
  *to = all;
}
__global__ void sum_bytes(const unsigned char* from, int* to, int at) { *to = from[at] + from[at + 1]; }
__global__ void read_what_a_struct_points_to(const float* const* pointer, float* to) { *to = **pointer; }
__global__ void write_number(unsigned number, unsigned* to) { *to = number; }
__global__ void shared_read_first(float* to) {
  BANYAN_SHARED_ARRAY(float, memory, 32);
  to[threadIdx.x] = memory[threadIdx.x];
}
__global__ void shared_written_first(float* to) {
  BANYAN_SHARED_ARRAY(float, memory, 32);
  memory[threadIdx.x] = 2;
  to[threadIdx.x] = memory[threadIdx.x];
}
__global__ void shared_beyond(float* to) {
  BANYAN_SHARED_ARRAY(float, memory, 31);
  memory[threadIdx.x] = 2;
  to[threadIdx.x] = memory[threadIdx.x];
}
/// The last pair of floats, or half of one and what follows the array.
template <bool kWithin>
__global__ void last_of_shared(double* to) {
  BANYAN_SHARED_ARRAY(char, memory, 124);
  double* const last = reinterpret_cast<double*>(memory + (kWithin ? 112 : 120));
  *last = 2;
  *to = *last;
}
__global__ void much_shared(float* to) {
  BANYAN_SHARED_ARRAY(float, memory, 12289);
  memory[0] = 2;
  *to = memory[0];
}
__global__ void all_shared(float* to) {
  BANYAN_SHARED_ARRAY(float, memory, 12288);
  memory[12287] = 2;
  *to = memory[12287];
}
struct Wide {
  double a, b;
};
__global__ void copy_wide(const Wide* from, Wide* to) { *to = *from; }
__global__ void do_nothing() {}

}  // namespace rules

namespace {

using emulated::Memory;

class Rules : public Emulator {};

// --- memory ---

TEST_F(Rules, AKernelReadsItsOwnMemory) {
  expect_no_violation([] {
    GpuArray values(0, std::vector<float>(1000, 1));
    launch(rules::add_one, 4, 256, nullptr, values.get(), 1000);
    EXPECT_EQ(values.values(), std::vector<float>(1000, 2));
  });
}

/// Remains so for the rest of the process, so only for gpu:2.
void enable_peer_access(int reader, int owner) {
  cudaSetDevice(reader);
  const cudaError_t status = cudaDeviceEnablePeerAccess(owner, 0);
  EXPECT_TRUE(status == cudaSuccess || status == cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(owner, 0), cudaErrorPeerAccessAlreadyEnabled);
  cudaSetDevice(0);
}

TEST_F(Rules, MemoryOfAnotherGpuNeedsPeerAccess) {
  const GpuArray here(0, 1), far(2, std::vector<float>{4});
  expect_abort("memory of another GPU, without peer access",
               [&] { launch(rules::copy_value, 1, 1, nullptr, far.get(), here.get()); });
  int can = -1;
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 2), cudaSuccess);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(2, 0), cudaErrorPeerAccessUnsupported);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 2, 3), cudaSuccess);
  EXPECT_EQ(can, 1);
}

TEST_F(Rules, PeerAccessIsOneWay) {
  const GpuArray two(2, std::vector<float>{5}), three(3, std::vector<float>{6});
  enable_peer_access(2, 3);
  cudaSetDevice(2);
  expect_no_violation([&] {
    launch(rules::copy_value, 1, 1, nullptr, three.get(), two.get());
    EXPECT_EQ(two.values()[0], 6);
  });
  cudaSetDevice(3);
  expect_abort("memory of another GPU, without peer access",
               [&] { launch(rules::copy_value, 1, 1, nullptr, two.get(), three.get()); });
  cudaSetDevice(0);
}

TEST_F(Rules, ACopyNeedsNoPeerAccess) {
  expect_no_violation([] {
    const GpuArray here(0, 1), far(2, std::vector<float>{4});
    EXPECT_EQ(cudaMemcpy(here.get(), far.get(), 4, cudaMemcpyDeviceToDevice), cudaSuccess);
    EXPECT_EQ(here.values()[0], 4);
  });
}

TEST_F(Rules, AMemsetIsTheStreamsGpus) {
  const GpuArray far(2, 4);
  expect_violation("cudaMemsetAsync",
                   [&] { EXPECT_EQ(cudaMemsetAsync(far.get(), 0, 16, nullptr), cudaErrorInvalidValue); });
}

TEST_F(Rules, FreedMemory) {
  GpuArray gone(0, 10);
  const GpuArray target(0, 10);
  float* const address = gone.get();
  gone.release();
  expect_abort("freed", [&] { launch(rules::copy_value, 1, 1, nullptr, address, target.get()); });
  expect_abort("freed", [&] { launch(rules::write_beyond, 1, 1, nullptr, address, 1); });
  expect_violation("freed", [&] {
    EXPECT_EQ(cudaMemcpyAsync(target.get(), address, 40, cudaMemcpyDefault, nullptr), cudaErrorInvalidValue);
  });
  expect_violation("freed", [&] { cudaMemsetAsync(address, 0, 40, nullptr); });
  expect_violation("cudaFree of what is not allocated",
                   [&] { EXPECT_EQ(cudaFree(address), cudaErrorInvalidValue); });
}

TEST_F(Rules, FreeingTakesWhatMallocGave) {
  const GpuArray values(0, 10);
  float host = 0;
  expect_violation("cudaFree of what is not allocated", [&] { cudaFree(values.get() + 1); });
  expect_violation("cudaFree of what cudaMalloc has not made", [&] { cudaFree(&host); });
  expect_violation("cudaFreeHost of what cudaHostAlloc has not made", [&] { cudaFreeHost(&host); });
  expect_no_violation([] {
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(nullptr), cudaSuccess);
  });
}

TEST_F(Rules, FreeingWaitsForTheGpu) {
  expect_no_violation([] {
    use("delay_us=5000");
    GpuArray values(0, std::vector<float>(100));
    const TestStream stream;
    for (int i = 0; i < 10; ++i) launch(rules::add_one, 1, 128, stream, values.get(), 100);
    values.release();
  });
}

// Memory of another GPU: freeing it waits for that one only.
TEST_F(Rules, ArgumentsStayUntilTheKernelHasRun) {
  enable_peer_access(2, 3);
  GpuArray far(3, std::vector<float>{4});
  const GpuArray here(2, 1);
  const TestStream stream(2);
  const auto enqueue = [&] {
    cudaSetDevice(2);
    launch(rules::copy_value, 1, 1, stream, static_cast<const float*>(far.get()), here.get());
    cudaSetDevice(0);
  };
  use("lazy=1");
  expect_no_violation([&] {
    enqueue();
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  });
  expect_violation("copy_value: an argument, when the kernel runs: byte 0 of allocation ", [&] {
    enqueue();
    far.release();
  });
}

TEST_F(Rules, MemoryThatWasNeverWritten) {
  const GpuArray never(0, 10), target(0, 10), second_target(0, 10);
  expect_violation("never written", [&] {
    launch(rules::copy_value, 1, 1, nullptr, static_cast<const float*>(never.get()), target.get());
  });
  const Said copy = listen(
      [&] { EXPECT_EQ(cudaMemcpy(second_target.get(), never.get(), 40, cudaMemcpyDefault), cudaSuccess); });
  EXPECT_EQ(copy.violations, 0u) << "a copy may carry padding";
  EXPECT_TRUE(copy.holds("never written"));
  expect_violation("never written", [&] {
    launch(rules::copy_beyond, 1, 1, nullptr, static_cast<const float*>(second_target.get()), target.get(),
           3);
  });
  expect_no_violation([&] {
    EXPECT_EQ(cudaMemsetAsync(never.get(), 0, 40, nullptr), cudaSuccess);
    launch(rules::copy_beyond, 1, 1, nullptr, static_cast<const float*>(never.get()), target.get(), 9);
    cudaDeviceSynchronize();
  });
}

/// Wherever a range begins and ends within its words: neither the byte before it nor the one after it.
TEST_F(Rules, EachByteIsWrittenOrNot) {
  constexpr int kBytes = 24;
  const GpuArray sum(0, 1);
  int* const to = reinterpret_cast<int*>(sum.get());
  unsigned blocks = 0;  // the same violation of the same launch is told only three times
  for (int begin = 1; begin <= 5; ++begin)
    for (int end = begin + 1; end <= begin + 9; ++end) {
      const testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(begin) + " " + std::to_string(end));
      const GpuArray<unsigned char> set(0, kBytes), copy(0, kBytes),
          part(0, std::vector<unsigned char>(kBytes));
      const auto use = [&](const unsigned char* of, int from, int until) {
        launch(rules::xor_bytes, ++blocks, 1, nullptr, of, to, from, until);
        wait_for_all_gpus();
      };
      const auto expect_written = [&](const unsigned char* of) {
        expect_no_violation([&] { use(of, begin, end); });
        expect_violation("never written", [&] { use(of, begin - 1, end); });
        expect_violation("never written", [&] { use(of, begin, end + 1); });
      };
      EXPECT_EQ(cudaMemsetAsync(set.get() + begin, 0, static_cast<std::size_t>(end - begin), nullptr),
                cudaSuccess);
      expect_written(set.get());
      // Copies take along what is written, to other places within a word too.
      EXPECT_EQ(cudaMemcpy(copy.get(), set.get(), kBytes, cudaMemcpyDefault), cudaSuccess);
      expect_written(copy.get());
      EXPECT_EQ(cudaMemcpy(part.get() + 1, set.get(), kBytes - 1, cudaMemcpyDefault), cudaSuccess);
      expect_no_violation([&] { use(part.get(), begin + 1, end + 1); });
      expect_no_violation([&] { use(part.get(), 0, 1); });
      expect_violation("never written", [&] { use(part.get(), begin, begin + 1); });
      expect_violation("never written", [&] { use(part.get(), end + 1, end + 2); });
    }
}

/// Copies to the two halves of a word, on two streams and between GPUs, each of a byte that was written and
/// one that was not.
TEST_F(Rules, StreamsCopyPartsIntoOneWord) {
  constexpr int kWords = 2000, kWord = 4;
  struct Place {
    int source, target, first_stream, second_stream;  ///< GPUs
  };
  for (const Place& at : {Place{0, 0, 0, 0}, Place{0, 1, 0, 1}, Place{3, 1, 1, 1}}) {
    const testing::ScopedTrace trace(__FILE__, __LINE__,
                                     std::to_string(at.source) + " to " + std::to_string(at.target));
    const GpuArray<unsigned char> source(at.source, kWord), target(at.target, kWord * kWords);
    const GpuArray sum(at.target, 1);
    const TestStream first(at.first_stream), second(at.second_stream);
    cudaSetDevice(at.source);
    for (const int written : {0, 2})
      EXPECT_EQ(cudaMemsetAsync(source.get() + written, 1, 1, nullptr), cudaSuccess);
    wait_for_all_gpus();
    expect_no_violation([&] {
      for (int word = 0; word < kWords; ++word)
        for (const int half : {0, 2}) {
          const TestStream& stream = half == 0 ? first : second;
          cudaSetDevice(stream.gpu());
          EXPECT_EQ(cudaMemcpyAsync(target.get() + word * kWord + half, source.get() + half, 2,
                                    cudaMemcpyDeviceToDevice, stream),
                    cudaSuccess);
        }
    });
    cudaSetDevice(at.target);
    const unsigned char* const from = target.get();
    int* const to = reinterpret_cast<int*>(sum.get());
    const int end = kWord * kWords;
    expect_no_violation([&] { launch(rules::xor_some_bytes, 1, 1, nullptr, from, to, 0, end, 2); });
    unsigned blocks = 1;  // the same violation of the same launch is told only three times
    for (const int unwritten : {1, 3, end - 3, end - 1})
      expect_violation("never written", [&] {
        launch(rules::xor_some_bytes, ++blocks, 1, nullptr, from, to, unwritten, unwritten + 1, 1);
      });
    cudaSetDevice(0);
  }
}

TEST_F(Rules, MemoryBeginsAsNaNs) {
  const GpuArray values(0, 3);
  for (const float value : values.values()) EXPECT_NE(value, value);
}

TEST_F(Rules, OutOfBounds) {
  const GpuArray values(0, std::vector<float>(10)), target(0, 1);
  const float* from = values.get();
  expect_violation("out of bounds",
                   [&] { launch(rules::copy_beyond, 1, 1, nullptr, from, target.get(), 10); });
  expect_violation("out of bounds",
                   [&] { launch(rules::copy_beyond, 1, 1, nullptr, from, target.get(), -1); });
  expect_violation("out of bounds", [&] { launch(rules::write_beyond, 1, 1, nullptr, values.get(), 12); });
  expect_violation("out of bounds", [&] {
    EXPECT_EQ(cudaMemcpyAsync(target.get(), from, 8, cudaMemcpyDefault, nullptr), cudaErrorInvalidValue);
  });
  expect_violation("out of bounds", [&] { cudaMemsetAsync(values.get() + 9, 0, 8, nullptr); });
  expect_no_violation([&] {
    launch(rules::copy_beyond, 1, 1, nullptr, from, target.get(), 9);
    launch(rules::write_beyond, 1, 1, nullptr, values.get() + 9, 0);
  });
}

TEST_F(Rules, TheMessageTellsWhoAndWhere) {
  use("stacks=1");
  const GpuArray values(0, std::vector<float>(10));
  const Said said = listen([&] { launch(rules::add_one, 2, 8, nullptr, values.get(), 11); });
  EXPECT_TRUE(said.holds("CUDA thread 2 0 0 of block 1 0 0: ")) << said.text;
  EXPECT_TRUE(said.holds("byte 40 of allocation ")) << said.text;
  EXPECT_TRUE(said.holds("(40 bytes) of gpu:0, allocated by")) << said.text;
  EXPECT_TRUE(said.holds("emulated_tests::rules::add_one (grid 2 1 1, block 8 1 1)")) << said.text;
  EXPECT_TRUE(said.holds("enqueued by")) << said.text;
}

TEST_F(Rules, Alignment) {
  const GpuArray bytes(0, std::vector<char>(64)), to(0, std::vector<char>(64));
  const GpuArray target(0, 1);
  const char* from = bytes.get();
  expect_violation("not aligned", [&] { launch(rules::read_at_byte, 1, 1, nullptr, from, target.get(), 2); });
  expect_violation("not aligned", [&] {
    launch(rules::copy_wide, 1, 1, nullptr, reinterpret_cast<const rules::Wide*>(from + 4),
           reinterpret_cast<rules::Wide*>(to.get()));
  });
  expect_no_violation([&] {
    launch(rules::read_at_byte, 1, 1, nullptr, from, target.get(), 4);
    launch(rules::copy_wide, 1, 1, nullptr, reinterpret_cast<const rules::Wide*>(from + 16),
           reinterpret_cast<rules::Wide*>(to.get()));
    const GpuArray sum(0, std::vector<int>(1));
    launch(rules::sum_bytes, 1, 1, nullptr, reinterpret_cast<const unsigned char*>(from), sum.get(), 3);
    wait_for_all_gpus();
  });
}

TEST_F(Rules, HostMemoryInAKernel) {
  std::vector<float> pageable(1, 7);
  const PinnedArray pinned(1, 8.0F);
  const GpuArray target(0, 1);
  expect_violation("neither the GPU's nor shared", [&] {
    launch(rules::copy_value, 1, 1, nullptr, static_cast<const float*>(pageable.data()), target.get());
  });
  expect_no_violation([&] {
    launch(rules::copy_beyond, 1, 1, nullptr, static_cast<const float*>(pinned.get()), target.get(), 0);
  });
}

TEST_F(Rules, AddressesComeWithTheLaunch) {
  // An address stored in memory is not translated: the emulator reports it instead of faulting.
  const GpuArray value(0, std::vector<float>{1}), target(0, 1);
  const GpuArray pointer(0, std::vector<const float*>{value.get()});
  EXPECT_TRUE(emulated::is_device_address(value.get()));
  expect_abort("an address that did not come with the launch", [&] {
    launch(rules::read_what_a_struct_points_to, 1, 1, nullptr,
           static_cast<const float* const*>(pointer.get()), target.get());
  });
}

TEST_F(Rules, WhatLiesBetweenArgumentsIsNoAddress) {
  // A number that is the low half of an address, in memory that held the high half.
  const GpuArray<unsigned> target(0, 1);
  unsigned* const address = target.get();
  const auto low = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(address));
  constexpr std::size_t kBytes = sizeof(emulated::TypedKernel<unsigned, unsigned*>);
  std::vector<void*> blocks;
  for (int i = 0; i < 64; ++i) {
    blocks.push_back(::operator new(kBytes));
    for (std::size_t at = 0; at + sizeof(address) <= kBytes; at += sizeof(address))
      std::memcpy(static_cast<char*>(blocks.back()) + at, &address, sizeof(address));
  }
  for (void* block : blocks) ::operator delete(block);
  launch(rules::write_number, 1, 1, nullptr, low, address);
  EXPECT_EQ(target.values(), std::vector<unsigned>{low});
}

TEST_F(Rules, TheHostMayNotUseDeviceMemory) {
  const GpuArray values(0, std::vector<float>(1));
  expect_abort("the host uses device memory", [&] { *values.get() = 1; });
}

TEST_F(Rules, OutOfMemory) {
  void *most = nullptr, *more = nullptr;
  const std::size_t all = emulated::settings().memory;
  std::size_t free = 0, total = 0;
  expect_no_violation([&] {
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    EXPECT_EQ(total, all);
    EXPECT_EQ(cudaMalloc(&most, all + 1), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "not final";
    EXPECT_EQ(cudaMalloc(&most, free - 1000), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&more, 1001), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaMalloc(&more, 1000), cudaSuccess);
    std::size_t now = 0;
    EXPECT_EQ(cudaMemGetInfo(&now, &total), cudaSuccess);
    EXPECT_EQ(now, 0u);
    EXPECT_EQ(cudaFree(most), cudaSuccess);
    EXPECT_EQ(cudaMemGetInfo(&now, &total), cudaSuccess);
    EXPECT_EQ(now, free - 1000);
    EXPECT_EQ(cudaFree(more), cudaSuccess);
  });
}

TEST_F(Rules, FreedMemoryIsNotHandedOutAgain) {
  GpuArray first(0, 100);
  float* const address = first.get();
  first.release();
  const GpuArray second(0, 100);
  EXPECT_NE(second.get(), address);
}

// --- shared memory ---

/// Of the process, in bytes.
std::int64_t resident_memory() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// What the emulator knows about memory is several times as large as the memory.
TEST_F(Rules, FreedMemoryTakesNoMemory) {
  constexpr std::int64_t kBytes = 16 << 20;
  const std::int64_t before = resident_memory();
  for (int round = 0; round < 8; ++round) {
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, kBytes), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(memory, 0, kBytes, nullptr), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
  }
  EXPECT_LT(resident_memory() - before, 3 * kBytes);
}

TEST_F(Rules, SharedMemoryIsWrittenFirst) {
  const GpuArray target(0, 32);
  expect_violation("shared memory that the block has not written",
                   [&] { launch(rules::shared_read_first, 1, 32, nullptr, target.get()); });
  expect_no_violation([&] { launch(rules::shared_written_first, 1, 32, nullptr, target.get()); });
  expect_violation("shared memory that the block has not written", [&] {
    launch(rules::shared_read_first, 1, 31, nullptr, target.get());
  });  // what an earlier launch left there does not count
}

TEST_F(Rules, SharedArraysHaveBounds) {
  const GpuArray target(0, 32);
  expect_violation("neither the GPU's nor shared",
                   [&] { launch(rules::shared_beyond, 1, 32, nullptr, target.get()); });
  expect_no_violation([&] { launch(rules::shared_beyond, 1, 31, nullptr, target.get()); });
}

TEST_F(Rules, AnAccessToASharedArrayEndsWithinIt) {
  const GpuArray<double> target(0, 1);
  expect_violation("beyond a shared array",
                   [&] { launch(rules::last_of_shared<false>, 1, 1, nullptr, target.get()); });
  expect_no_violation([&] { launch(rules::last_of_shared<true>, 1, 1, nullptr, target.get()); });
}

TEST_F(Rules, SharedMemoryHas48KiB) {
  const GpuArray target(0, 1);
  expect_no_violation([&] { launch(rules::all_shared, 1, 1, nullptr, target.get()); });
  expect_abort("more than 48 KiB of shared memory",
               [&] { launch(rules::much_shared, 1, 1, nullptr, target.get()); });
}

// --- launches ---

TEST_F(Rules, LimitsOfALaunch) {
  const dim3 blocks_good[] = {1, {1, 65535}, {1, 1, 3}}, threads_good[] = {1024, {1, 1024}, {16, 1, 64}};
  const dim3 blocks_bad[] = {0, {1, 65536}, {1, 1, 65536}, 0x80000000},
             threads_bad[] = {0, 1025, {1, 1025}, {1, 1, 65}, {32, 32, 2}};
  expect_no_violation([&] {
    for (const dim3& blocks : blocks_good) launch(rules::do_nothing, blocks, 1, nullptr);
    for (const dim3& threads : threads_good) launch(rules::do_nothing, 1, threads, nullptr);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  });
  const auto refused = [](const dim3& blocks, const dim3& threads) {
    expect_violation("launch of emulated_tests::rules::do_nothing", [&] {
      launch(rules::do_nothing, blocks, threads, nullptr);
      EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
    });
  };
  for (const dim3& blocks : blocks_bad) refused(blocks, 1);
  for (const dim3& threads : threads_bad) refused(1, threads);
}

TEST_F(Rules, ALaunchNeedsItsGpuToBeCurrent) {
  const TestStream stream(1);
  expect_violation("on a stream of gpu:1 while gpu:0 is current", [&] {
    launch(rules::do_nothing, 1, 1, stream);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  });
  expect_no_violation([&] {
    cudaSetDevice(1);
    launch(rules::do_nothing, 1, 1, stream);
    cudaSetDevice(0);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  });
}

TEST_F(Rules, AnEventIsRecordedOnItsOwnGpu) {
  const TestStream here(0), there(1);
  const TestEvent event(1);
  expect_violation("an event of gpu:1 on a stream of gpu:0",
                   [&] { EXPECT_EQ(cudaEventRecord(event, here), cudaErrorInvalidResourceHandle); });
  expect_no_violation([&] {
    EXPECT_EQ(cudaEventRecord(event, there), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(here, event, 0), cudaSuccess) << "any GPU may wait for it";
  });
}

TEST_F(Rules, DevicesThatAreNone) {
  EXPECT_EQ(cudaSetDevice(4), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  cudaDeviceProp properties;
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 4), cudaErrorInvalidDevice);
  int value = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrClockRate, 4), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetDevice(&value), cudaSuccess);
  EXPECT_EQ(value, 0);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
}

// --- copies ---

TEST_F(Rules, PageableMemoryInAnAsynchronousCopyIsNoted) {
  const GpuArray values(0, std::vector<float>(8));
  std::vector<float> pageable(8);
  const PinnedArray pinned(8);
  const Said kept = listen([&] {
    cudaMemcpyAsync(values.get(), pinned.get(), 32, cudaMemcpyHostToDevice, nullptr);
    cudaMemcpyAsync(pinned.get(), values.get(), 32, cudaMemcpyDeviceToHost, nullptr);
  });
  EXPECT_EQ(kept.text, "");
  // Notes are printed once per process.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [&](void* to, const void* from) {
    emulated::configure("leaks=0");
    cudaMemcpyAsync(to, from, 32, cudaMemcpyDefault, nullptr);
    cudaDeviceSynchronize();
    std::exit(0);
  };
  EXPECT_EXIT(run(values.get(), pageable.data()), testing::ExitedWithCode(0),
              "note: cudaMemcpyAsync from pageable host memory");
  EXPECT_EXIT(run(pageable.data(), values.get()), testing::ExitedWithCode(0),
              "note: cudaMemcpyAsync to pageable host memory");
}

TEST_F(Rules, HostMemoryStaysAsItIsUntilItsCopyRan) {
  const GpuArray values(0, 8);
  const PinnedArray pinned(8, 1.0F);
  const TestStream stream;
  use("lazy=1");
  expect_violation("host memory was changed between cudaMemcpyAsync and the copy", [&] {
    cudaMemcpyAsync(values.get(), pinned.get(), 32, cudaMemcpyHostToDevice, stream);
    pinned.get()[3] = 2;
  });
  expect_no_violation([&] {
    cudaMemcpyAsync(values.get(), pinned.get(), 32, cudaMemcpyHostToDevice, stream);
    cudaStreamSynchronize(stream);
    pinned.get()[3] = 3;
  });
}

TEST_F(Rules, PinnedMemoryStaysUntilItsCopyRan) {
  const GpuArray values(0, std::vector<float>(8));
  const TestStream stream;
  use("lazy=1");
  expect_violation("a copy's pinned source was freed before the copy ran", [&] {
    const PinnedArray pinned(8);
    cudaMemcpyAsync(values.get(), pinned.get(), 32, cudaMemcpyHostToDevice, stream);
  });
  expect_violation("a copy's pinned target was freed before the copy ran", [&] {
    const PinnedArray pinned(8);
    cudaMemcpyAsync(pinned.get(), values.get(), 32, cudaMemcpyDeviceToHost, stream);
  });
  expect_no_violation([&] {
    const PinnedArray pinned(8);
    cudaMemcpyAsync(pinned.get(), values.get(), 32, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
  });
}

TEST_F(Rules, FreedPinnedMemoryIsNotUsed) {
  expect_abort("an address that is none", [] {
    void* memory = nullptr;
    cudaHostAlloc(&memory, 8, cudaHostAllocDefault);
    cudaFreeHost(memory);
    *static_cast<volatile float*>(memory) = 1;
  });
}

TEST_F(Rules, PinnedMemoryIsFreedAfterTheHostHasWaited) {
  const GpuArray values(0, std::vector<float>(8));
  const TestStream stream;
  expect_violation("freed, although the host has not waited for work that uses it", [&] {
    const PinnedArray pinned(8);
    cudaMemcpyAsync(pinned.get(), values.get(), 28, cudaMemcpyDeviceToHost, stream);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it has run nonetheless
  });
}

TEST_F(Rules, FreeingWaitsForTheWorkOfDestroyedStreams) {
  expect_no_violation([] {
    const GpuArray values(0, std::vector<float>(100));
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    launch(rules::add_one, 1, 32, stream, values.get(), 100);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  });
}

TEST_F(Rules, SourceAndTargetOfACopy) {
  const GpuArray values(0, std::vector<float>(8));
  float host[8] = {};
  expect_violation("source and target overlap", [&] {
    cudaMemcpyAsync(values.get() + 1, values.get(), 16, cudaMemcpyDeviceToDevice, nullptr);
  });
  expect_violation("the kind of copy does not fit", [&] {
    EXPECT_EQ(cudaMemcpy(host, values.get(), 32, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  });
  expect_violation("a null pointer", [&] {
    EXPECT_EQ(cudaMemcpy(nullptr, values.get(), 32, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  });
  expect_no_violation([&] {
    EXPECT_EQ(cudaMemcpy(values.get() + 4, values.get(), 16, cudaMemcpyDefault), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault), cudaSuccess);
  });
}

// --- streams and events ---

TEST_F(Rules, StreamsThatAreInUseOrGone) {
  const GpuArray values(0, 8), others(0, 8);
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  use("lazy=1");
  expect_violation("which has work to do", [&] {
    cudaMemsetAsync(values.get(), 0, 32, stream);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  });
  expect_violation("a stream that does not exist", [&] {
    EXPECT_EQ(cudaMemsetAsync(values.get(), 0, 32, stream), cudaErrorInvalidResourceHandle);
  });
  expect_violation("a stream that does not exist",
                   [&] { EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle); });
  expect_no_violation([&] {
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMemsetAsync(others.get(), 0, 32, stream);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle) << "the default stream";
  });
}

TEST_F(Rules, AStreamWhoseLastKernelRuns) {
  const PinnedArray<float> pinned(1);
  const auto stage = [&] { return *static_cast<volatile float*>(pinned.get()); };
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  expect_violation("which has work to do", [&] {
    launch(take_long, 1, 1, stream, pinned.get());
    while (stage() == 0) std::this_thread::yield();
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(stage(), 1) << "it had ended";
  });
}

TEST_F(Rules, EventsThatAreInUseOrGone) {
  const GpuArray values(0, 8);
  const TestStream stream;
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  use("lazy=1");
  expect_violation("an event of gpu:0 that has not been reached", [&] {
    cudaMemsetAsync(values.get(), 0, 32, stream);
    cudaEventRecord(event, stream);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  });
  expect_violation("an event that does not exist",
                   [&] { EXPECT_EQ(cudaEventRecord(event, stream), cudaErrorInvalidResourceHandle); });
  expect_violation("an event that does not exist",
                   [&] { EXPECT_EQ(cudaStreamWaitEvent(stream, event, 0), cudaErrorInvalidResourceHandle); });
  expect_no_violation([&] {
    cudaEventCreate(&event);
    cudaEventRecord(event, stream);
    EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  });
}

TEST_F(Rules, TimesOfEvents) {
  const GpuArray values(0, 8);
  const PinnedArray pinned(8);
  const TestEvent begin(0, cudaEventDefault), end(0, cudaEventDefault), without(0);
  float milliseconds = -1;
  use("host_gbps=0.0000001");  // 32 bytes last 320 ms
  cudaEventRecord(begin, nullptr);
  cudaEventRecord(without, nullptr);
  cudaMemcpyAsync(values.get(), pinned.get(), 32, cudaMemcpyHostToDevice, nullptr);
  cudaEventRecord(end, nullptr);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorNotReady);
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_GE(milliseconds, 320);
  expect_violation("an event without timing", [&] {
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, without), cudaErrorInvalidResourceHandle);
  });
}

TEST_F(Rules, WorkThatIsNotReady) {
  const GpuArray values(0, 8);
  const PinnedArray pinned(8);
  const TestStream stream;
  const TestEvent event;
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess) << "never recorded";
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  use("host_gbps=0.0000001");
  cudaMemcpyAsync(values.get(), pinned.get(), 32, cudaMemcpyHostToDevice, stream);
  cudaEventRecord(event, stream);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady) << "as CUDA keeps it";
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
}

double milliseconds_of_copy(void* to, const void* from, std::size_t bytes) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), cudaSuccess);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

TEST_F(Rules, LinksHaveSpeeds) {
  constexpr std::size_t kCount = 1000;
  const GpuArray zero(0, kCount), one(1, kCount), two(2, std::vector<float>(kCount)),
      three(3, std::vector<float>(kCount));
  const PinnedArray pinned(kCount);
  enable_peer_access(2, 3);
  const std::size_t bytes = two.bytes();
  use("peer_gbps=0.00002");  // 4000 bytes last 200 ms
  EXPECT_GE(milliseconds_of_copy(three.get(), two.get(), bytes), 200);
  EXPECT_LT(milliseconds_of_copy(zero.get(), two.get(), bytes), 200) << "no peers";
  EXPECT_LT(milliseconds_of_copy(zero.get(), pinned.get(), bytes), 200);
  use("staged_gbps=0.00002");
  EXPECT_GE(milliseconds_of_copy(zero.get(), two.get(), bytes), 200);
  EXPECT_LT(milliseconds_of_copy(three.get(), two.get(), bytes), 200);
  use("host_gbps=0.00002");
  EXPECT_GE(milliseconds_of_copy(zero.get(), pinned.get(), bytes), 200);
  EXPECT_GE(milliseconds_of_copy(pinned.get(), zero.get(), bytes), 200);
  EXPECT_LT(milliseconds_of_copy(zero.get(), two.get(), bytes), 200);
}

// --- the end of the process ---

class RulesAtTheEnd : public OwnProcess {};

TEST_F(RulesAtTheEnd, WhatIsLeftBehind) {
  machine("gpus=2");
  const auto ends = [](auto body) {
    body();
    std::exit(0);
  };
  EXPECT_EXIT(ends([] {}), testing::ExitedWithCode(0), "^$");
  const auto aborted = testing::KilledBySignal(SIGABRT);
  static void* memory = nullptr;
  EXPECT_EXIT(ends([] {
                cudaSetDevice(1);
                cudaMalloc(&memory, 12345);
              }),
              aborted, "leaves behind: 1 allocations \\(12345 bytes\\) of gpu:1");
  EXPECT_EXIT(ends([] { cudaHostAlloc(&memory, 1, 0); }), aborted, "1 blocks of pinned memory");
  EXPECT_EXIT(ends([] {
                cudaStream_t stream = nullptr;
                cudaStreamCreate(&stream);
              }),
              aborted, "1 streams");
  EXPECT_EXIT(ends([] {
                cudaEvent_t event = nullptr;
                cudaEventCreate(&event);
              }),
              aborted, "1 events");
  EXPECT_EXIT(ends([] {
                cublasHandle_t handle = nullptr;
                cublasCreate(&handle);
              }),
              aborted, "leaves behind: 1 handles and descriptors of cuBLAS and cuDNN");
  EXPECT_EXIT(ends([] {
                cudnnHandle_t handle = nullptr, destroyed = nullptr;
                cudnnCreate(&handle);
                cudnnCreate(&destroyed);
                cudnnDestroy(destroyed);
                cudnnTensorDescriptor_t tensor = nullptr;
                cudnnCreateTensorDescriptor(&tensor);
                cudnnFilterDescriptor_t filter = nullptr;
                cudnnCreateFilterDescriptor(&filter);
                cudnnConvolutionDescriptor_t convolution = nullptr;
                cudnnCreateConvolutionDescriptor(&convolution);
              }),
              aborted, "leaves behind: 4 handles and descriptors of cuBLAS and cuDNN");
  machine("gpus=2,leaks=0");
  EXPECT_EXIT(ends([] { cudaMalloc(&memory, 12345); }), testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace emulated_tests
