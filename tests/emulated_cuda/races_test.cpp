// Two threads of a launch at one address, and barriers.
#include <cstdint>

#include "test_tools.hpp"

namespace emulated_tests {

namespace races {

constexpr unsigned kThreads = 64;

/// `order`: a separate kernel for each, because the emulator repeats a report at most three times.
template <bool kBarrier, int kOrder>
__global__ void neighbour_in_shared(float* to) {
  BANYAN_SHARED_ARRAY(float, memory, kThreads);
  memory[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (kBarrier) __syncthreads();
  to[threadIdx.x] = memory[(threadIdx.x + 1) % kThreads];
}
/// The second write comes after others' reads.
template <bool kBarrier, int kOrder>
__global__ void shared_again(float* to) {
  BANYAN_SHARED_ARRAY(float, memory, kThreads);
  memory[threadIdx.x] = 1;
  __syncthreads();
  to[threadIdx.x] = memory[(threadIdx.x + 1) % kThreads];
  if (kBarrier) __syncthreads();
  memory[threadIdx.x] = 2;
}
template <bool kOne>
__global__ void all_write_shared(float* to) {
  BANYAN_SHARED_ARRAY(float, memory, kThreads);
  if (!kOne || threadIdx.x == 0) memory[0] = 1;
  __syncthreads();
  to[threadIdx.x] = memory[0];
}
template <bool kBarrier, int kOrder>
__global__ void neighbour_in_global(float* values, float* to) {
  values[threadIdx.x] = 1;
  if (kBarrier) __syncthreads();
  to[threadIdx.x] = values[(threadIdx.x + 1) % kThreads];
}
template <bool kOne>
__global__ void all_write_global(float* to) {
  if (!kOne || threadIdx.x == 0) *to = 1;
}
/// Barriers do not order blocks.
template <bool kOwn>
__global__ void other_block(float* values, float* to) {
  values[blockIdx.x] = 1;
  __syncthreads();
  to[blockIdx.x] = values[kOwn ? blockIdx.x : (blockIdx.x + 1) % gridDim.x];
}
template <bool kOwn>
__global__ void read_then_written_by_the_next_block(float* values, float* to) {
  to[blockIdx.x] = values[blockIdx.x];
  __syncthreads();
  values[kOwn ? blockIdx.x : (blockIdx.x + 1) % gridDim.x] = 1;
}

// Values shorter than the 4 bytes that the emulator keeps together.
template <class T, bool kBarrier, int kOrder>
__global__ void narrow_neighbour(T* values, T* to) {
  values[threadIdx.x] = 1;
  if (kBarrier) __syncthreads();
  to[threadIdx.x] = values[(threadIdx.x + 1) % kThreads];
}
template <class T, bool kBarrier>
__global__ void narrow_neighbour_in_shared(T* to) {
  BANYAN_SHARED_ARRAY(T, memory, kThreads);
  memory[threadIdx.x] = 1;
  if (kBarrier) __syncthreads();
  to[threadIdx.x] = memory[(threadIdx.x + 1) % kThreads];
}
template <class T, bool kBarrier>
__global__ void narrow_again(T* values, T* to) {
  to[threadIdx.x] = values[(threadIdx.x + 1) % kThreads];
  if (kBarrier) __syncthreads();
  values[threadIdx.x] = 1;
}
template <class T, bool kOne>
__global__ void all_write_narrow(T* to) {
  if (!kOne || threadIdx.x == 0) *to = 1;
}
template <class T>
__global__ void side_by_side(T* values) {
  values[threadIdx.x] = static_cast<T>(values[threadIdx.x] + 1);
}
/// All threads read one byte; each writes another.
__global__ void bytes_beside_one_that_all_read(unsigned char* values) {
  if (threadIdx.x > 0) values[threadIdx.x] = values[0];
}
/// The first thread writes a word, the second the third byte of it, or of the next one.
template <bool kNext, bool kBarrier, int kOrder>
__global__ void word_and_byte(unsigned* words) {
  if (threadIdx.x == 0) words[0] = 1;
  if (kBarrier) __syncthreads();
  if (threadIdx.x == 1) reinterpret_cast<unsigned char*>(words + (kNext ? 1 : 0))[2] = 1;
}
/// The bytes of a word, each by a thread; then the word, by another.
template <bool kBarrier, int kOrder>
__global__ void bytes_then_word(unsigned* words, unsigned* to) {
  if (threadIdx.x < 4) reinterpret_cast<unsigned char*>(words)[threadIdx.x] = 1;
  if (kBarrier) __syncthreads();
  if (threadIdx.x == 5) *to = words[0];
}
template <bool kOwn>
__global__ void byte_of_another_block(unsigned char* values, unsigned char* to) {
  values[blockIdx.x] = 1;
  __syncthreads();
  to[blockIdx.x] = values[kOwn ? blockIdx.x : (blockIdx.x + 1) % gridDim.x];
}

__global__ void all_read(const float* from, float* to) { to[blockIdx.x * blockDim.x + threadIdx.x] = *from; }

template <bool kAll>
__global__ void half_in_barrier(float* to) {
  if (!kAll && threadIdx.x >= kThreads / 2) return;
  to[threadIdx.x] = 1;
  __syncthreads();
  to[threadIdx.x] = 2;
}
/// Not the same barrier.
__global__ void barriers_of_branches(float* to) {
  if (threadIdx.x % 2 == 0) {
    to[threadIdx.x] = 1;
    __syncthreads();
  } else {
    to[threadIdx.x] = 2;
    __syncthreads();
  }
}
__global__ void barrier_in_equal_branches(float* to, int count) {
  for (int i = 0; i < count; ++i) {
    to[(threadIdx.x + static_cast<unsigned>(i)) % kThreads] = static_cast<float>(i);
    __syncthreads();
  }
}
__global__ void sum(const float* from, float* to) {
  BANYAN_SHARED_ARRAY(float, memory, kThreads);
  memory[threadIdx.x] = from[threadIdx.x];
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) memory[threadIdx.x] += memory[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) *to = memory[0];
}
__global__ void numbers(unsigned* to) {
  const unsigned in_block = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  to[block * blockDim.x * blockDim.y * blockDim.z + in_block] = block * 1000 + in_block;
}

__global__ void other_axes(unsigned* to) { to[threadIdx.x] = threadIdx.y + threadIdx.z; }

}  // namespace races

namespace {

using races::kThreads;
class Races : public Emulator {
 protected:
  Races() : values_(0, std::vector<float>(kThreads, 1)), target_(0, std::vector<float>(kThreads)) {}
  ~Races() override { use(); }
  GpuArray<float> values_, target_;
};

// Which of the two comes first depends on the thread order.
constexpr const char* kAny = "without a barrier between";
constexpr const char* kBoth = "another thread of the launch writes it too, without a barrier between";

const char* const kOrders[] = {"order=forward", "order=reverse", "order=random"};

template <int kOrder>
void in_shared_memory(float* to) {
  use(kOrders[kOrder]);
  expect_violation(kAny,
                   [&] { launch(races::neighbour_in_shared<false, kOrder>, 1, kThreads, nullptr, to); });
  expect_no_violation([&] { launch(races::neighbour_in_shared<true, kOrder>, 1, kThreads, nullptr, to); });
  expect_violation(kAny, [&] { launch(races::shared_again<false, kOrder>, 1, kThreads, nullptr, to); });
  expect_no_violation([&] { launch(races::shared_again<true, kOrder>, 1, kThreads, nullptr, to); });
}
TEST_F(Races, ReadAndWrittenInSharedMemory) {
  in_shared_memory<0>(target_.get());
  in_shared_memory<1>(target_.get());
  in_shared_memory<2>(target_.get());
}

TEST_F(Races, WrittenTwiceInSharedMemory) {
  expect_violation(kBoth,
                   [&] { launch(races::all_write_shared<false>, 1, kThreads, nullptr, target_.get()); });
  expect_no_violation([&] { launch(races::all_write_shared<true>, 1, kThreads, nullptr, target_.get()); });
}

template <int kOrder>
void in_global_memory(float* values, float* to) {
  use(kOrders[kOrder]);
  expect_violation(
      kAny, [&] { launch(races::neighbour_in_global<false, kOrder>, 1, kThreads, nullptr, values, to); });
  expect_no_violation(
      [&] { launch(races::neighbour_in_global<true, kOrder>, 1, kThreads, nullptr, values, to); });
}
TEST_F(Races, ReadAndWrittenInGlobalMemory) {
  in_global_memory<0>(values_.get(), target_.get());
  in_global_memory<1>(values_.get(), target_.get());
  in_global_memory<2>(values_.get(), target_.get());
}

TEST_F(Races, WrittenTwiceInGlobalMemory) {
  expect_violation(kBoth,
                   [&] { launch(races::all_write_global<false>, 1, kThreads, nullptr, target_.get()); });
  expect_violation(kBoth, [&] { launch(races::all_write_global<false>, 2, 1, nullptr, target_.get()); });
  expect_no_violation([&] { launch(races::all_write_global<true>, 1, kThreads, nullptr, target_.get()); });
}

template <class T>
void of_narrow_values() {
  const GpuArray<T> values(0, std::vector<T>(kThreads)), to(0, std::vector<T>(kThreads));
  use("order=forward");
  expect_violation(kAny, [&] {
    launch(races::narrow_neighbour<T, false, 0>, 1, kThreads, nullptr, values.get(), to.get());
  });
  use("order=reverse");
  expect_violation(kAny, [&] {
    launch(races::narrow_neighbour<T, false, 1>, 1, kThreads, nullptr, values.get(), to.get());
  });
  expect_violation(
      kAny, [&] { launch(races::narrow_neighbour_in_shared<T, false>, 1, kThreads, nullptr, to.get()); });
  expect_violation(
      kAny, [&] { launch(races::narrow_again<T, false>, 1, kThreads, nullptr, values.get(), to.get()); });
  expect_violation(kBoth, [&] { launch(races::all_write_narrow<T, false>, 1, kThreads, nullptr, to.get()); });
  expect_no_violation([&] {
    launch(races::narrow_neighbour<T, true, 0>, 1, kThreads, nullptr, values.get(), to.get());
    launch(races::narrow_neighbour_in_shared<T, true>, 1, kThreads, nullptr, to.get());
    launch(races::narrow_again<T, true>, 1, kThreads, nullptr, values.get(), to.get());
    launch(races::all_write_narrow<T, true>, 1, kThreads, nullptr, to.get());
    launch(races::side_by_side<T>, 1, kThreads, nullptr, values.get());
    EXPECT_EQ(values.values(), std::vector<T>(kThreads, 2));
  });
}
TEST_F(Races, ValuesOfOneByte) { of_narrow_values<unsigned char>(); }
TEST_F(Races, ValuesOfTwoBytes) { of_narrow_values<std::uint16_t>(); }

TEST_F(Races, BytesAreToldApart) {
  const GpuArray<unsigned char> values(0, std::vector<unsigned char>(kThreads)),
      to(0, std::vector<unsigned char>(kThreads));
  expect_no_violation([&] {
    launch(races::bytes_beside_one_that_all_read, 1, kThreads, nullptr, values.get());
    launch(races::byte_of_another_block<true>, 4, 1, nullptr, values.get(), to.get());
  });
  expect_violation(
      kAny, [&] { launch(races::byte_of_another_block<false>, 4, 1, nullptr, values.get(), to.get()); });
}

TEST_F(Races, AWordAndAByteOfIt) {
  const GpuArray<unsigned> words(0, std::vector<unsigned>(2)), to(0, std::vector<unsigned>(1));
  use("order=forward");
  expect_violation(kBoth, [&] { launch(races::word_and_byte<false, false, 0>, 1, 8, nullptr, words.get()); });
  expect_violation(kAny,
                   [&] { launch(races::bytes_then_word<false, 0>, 1, 8, nullptr, words.get(), to.get()); });
  use("order=reverse");
  expect_violation(kBoth, [&] { launch(races::word_and_byte<false, false, 1>, 1, 8, nullptr, words.get()); });
  expect_violation(kAny,
                   [&] { launch(races::bytes_then_word<false, 1>, 1, 8, nullptr, words.get(), to.get()); });
  expect_no_violation([&] {
    launch(races::word_and_byte<true, false, 1>, 1, 8, nullptr, words.get());
    launch(races::word_and_byte<false, true, 1>, 1, 8, nullptr, words.get());
    launch(races::bytes_then_word<true, 1>, 1, 8, nullptr, words.get(), to.get());
    EXPECT_EQ(to.values()[0], 0x01010101u);
  });
}

TEST_F(Races, BarriersOrderNoTwoBlocks) {
  expect_violation(kAny,
                   [&] { launch(races::other_block<false>, 4, 1, nullptr, values_.get(), target_.get()); });
  expect_no_violation([&] { launch(races::other_block<true>, 4, 1, nullptr, values_.get(), target_.get()); });
  expect_violation(kAny, [&] {
    launch(races::read_then_written_by_the_next_block<false>, 4, 1, nullptr, values_.get(), target_.get());
  });
  expect_no_violation([&] {
    launch(races::read_then_written_by_the_next_block<true>, 4, 1, nullptr, values_.get(), target_.get());
  });
}

TEST_F(Races, AllMayRead) {
  expect_no_violation([&] {
    launch(races::all_read, 4, kThreads / 4, nullptr, static_cast<const float*>(values_.get()),
           target_.get());
  });
}

TEST_F(Races, OneLaunchAfterTheOtherIsNoRace) {
  expect_no_violation([&] {
    for (int i = 0; i < 3; ++i) launch(races::other_block<true>, 4, 1, nullptr, values_.get(), target_.get());
    launch(races::all_write_global<true>, 1, kThreads, nullptr, target_.get());
    launch(races::all_write_global<true>, 1, kThreads, nullptr, target_.get());
  });
}

TEST_F(Races, ABarrierIsReachedByAll) {
  expect_violation("is not reached by 32 threads of the block, which have ended",
                   [&] { launch(races::half_in_barrier<false>, 1, kThreads, nullptr, target_.get()); });
  expect_no_violation([&] {
    launch(races::half_in_barrier<true>, 1, kThreads, nullptr, target_.get());
    launch(races::half_in_barrier<false>, 1, kThreads / 2, nullptr, target_.get());
  });
}

TEST_F(Races, AllReachTheSameBarrier) {
  expect_violation("threads of a block wait in different barriers",
                   [&] { launch(races::barriers_of_branches, 1, kThreads, nullptr, target_.get()); });
  expect_no_violation(
      [&] { launch(races::barrier_in_equal_branches, 1, kThreads, nullptr, target_.get(), 100); });
}

TEST_F(Races, ABarrierOutsideOfAKernel) {
  expect_violation("__syncthreads outside of a kernel", [] { __syncthreads(); });
}

TEST_F(Races, ABlockOfOneAxisAfterOneOfThree) {
  expect_no_violation([] {
    const GpuArray<unsigned> all(0, 12 * 24), axes(0, 24);
    launch(races::numbers, dim3(3, 2, 2), dim3(4, 3, 2), nullptr, all.get());
    launch(races::other_axes, 1, 24, nullptr, axes.get());
    EXPECT_EQ(axes.values(), std::vector<unsigned>(24, 0));
  });
}

TEST_F(Races, ResultsDoNotDependOnTheOrderOfThreads) {
  for (const char* order : {"order=forward", "order=reverse", "order=random,seed=3"}) {
    use(order);
    expect_no_violation([&] {
      launch(races::sum, 1, kThreads, nullptr, static_cast<const float*>(values_.get()), target_.get());
      EXPECT_EQ(target_.values()[0], 64);
      const dim3 grid(3, 2, 2), block(4, 3, 2);
      const GpuArray<unsigned> all(0, 12 * 24);
      launch(races::numbers, grid, block, nullptr, all.get());
      const std::vector<unsigned> found = all.values();
      for (unsigned i = 0; i < 12 * 24; ++i) EXPECT_EQ(found[i], i / 24 * 1000 + i % 24);
    });
  }
}

}  // namespace
}  // namespace emulated_tests
