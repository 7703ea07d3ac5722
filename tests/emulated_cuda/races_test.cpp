// Two threads of a launch at one address, and barriers.
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
