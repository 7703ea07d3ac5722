// Work of several streams at one address: with or without an order between them, whenever they ran.
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "test_tools.hpp"

namespace emulated_tests {

namespace order {

// One number per use: the emulator reports a pair of kernels only once.
template <int kNumber>
__global__ void write_all(float* to, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
    to[i] = static_cast<float>(kNumber);
}
template <int kNumber>
__global__ void read_all(const float* from, float* to, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) to[i] = from[i];
}
__global__ void brighten(unsigned char* image, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
    image[i] = static_cast<unsigned char>(image[i] + 1);
}

}  // namespace order

namespace {

constexpr int kCount = 300;
constexpr const char* kNoOrder = "no order between two pieces of work";

class Order : public Emulator {
 protected:
  Order()
      : values_(0, std::vector<float>(kCount)),
        copy_(0, std::vector<float>(kCount)),
        other_copy_(0, std::vector<float>(kCount)) {
    wait_for_all_gpus();
  }
  ~Order() override { use(); }

  template <int kNumber>
  void write(cudaStream_t stream, int from = 0, int count = kCount) {
    launch(order::write_all<kNumber>, 1, 32, stream, values_.get() + from, count);
  }
  template <int kNumber>
  void read(cudaStream_t stream, int from = 0, int count = kCount) {
    launch(order::read_all<kNumber>, 1, 32, stream, values_.get() + from, copy_.get() + from, count);
  }
  template <int kNumber>
  void read_too(cudaStream_t stream) {
    launch(order::read_all<kNumber>, 1, 32, stream, values_.get(), other_copy_.get(), kCount);
  }
  /// The first stream's work so far precedes the second's from now on.
  void join(cudaStream_t first, cudaStream_t second) {
    EXPECT_EQ(cudaEventRecord(event_, first), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(second, event_, 0), cudaSuccess);
  }

  GpuArray<float> values_, copy_, other_copy_;
  const TestStream a_, b_, c_;
  const TestEvent event_, second_event_;
};

/// Long enough for all work to be done.
void let_time_pass() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

TEST_F(Order, WrittenThenRead) {
  expect_violation(kNoOrder, [&] {
    write<0>(a_);
    read<0>(b_);
  });
  expect_violation(kNoOrder, [&] {
    write<1>(a_);
    let_time_pass();  // done long before: the order is still missing
    read<1>(b_);
  });
  expect_violation(kNoOrder, [&] {
    read<2>(b_);
    let_time_pass();
    write<2>(a_);
  });
  expect_no_violation([&] {
    write<3>(a_);
    join(a_, b_);
    read<3>(b_);
  });
}

TEST_F(Order, TheMessageNamesBoth) {
  use("stacks=1");
  const Said said = listen([&] {
    write<4>(a_);
    let_time_pass();
    read<4>(b_);
  });
  EXPECT_TRUE(said.holds("of gpu:0")) << said.text;
  EXPECT_TRUE(said.holds("writes: kernel emulated_tests::order::write_all<4>")) << said.text;
  EXPECT_TRUE(said.holds("reads: kernel emulated_tests::order::read_all<4>")) << said.text;
  EXPECT_TRUE(said.holds("the first was enqueued by")) << said.text;
}

TEST_F(Order, WrittenTwice) {
  expect_violation(kNoOrder, [&] {
    write<10>(a_);
    let_time_pass();
    write<11>(b_);
  });
  expect_no_violation([&] {
    write<12>(a_);
    join(a_, b_);
    write<13>(b_);
  });
}

TEST_F(Order, AllMayRead) {
  expect_no_violation([&] {
    read<20>(a_);
    read_too<20>(b_);
  });
  // A writer comes after all readers, not only after the latest.
  expect_violation(kNoOrder, [&] {
    read<21>(a_);
    read_too<21>(b_);
    join(b_, c_);
    let_time_pass();
    write<21>(c_);
  });
  expect_no_violation([&] {
    read<22>(a_);
    read_too<22>(b_);
    join(a_, c_);
    join(b_, c_);
    write<22>(c_);
  });
}

TEST_F(Order, OtherPartsOfTheMemory) {
  expect_no_violation([&] {
    write<30>(a_, 0, 100);
    write<31>(b_, 100, 100);
    read<30>(c_, 200, 100);
  });
  expect_violation(kNoOrder, [&] {
    write<32>(a_, 0, 100);
    let_time_pass();
    write<33>(b_, 99, 100);
  });
}

TEST_F(Order, OneStreamIsInOrder) {
  expect_no_violation([&] {
    use("delay_us=200");
    for (int i = 0; i < 10; ++i) {
      write<40>(a_);
      read<40>(a_);
    }
  });
}

TEST_F(Order, AnEventRecordedTooEarly) {
  expect_violation(kNoOrder, [&] {
    cudaEventRecord(event_, a_);
    write<50>(a_);
    cudaStreamWaitEvent(b_, event_, 0);
    let_time_pass();
    read<50>(b_);
  });
  expect_violation(kNoOrder, [&] {
    const TestEvent never;
    write<51>(a_);
    cudaStreamWaitEvent(b_, never, 0);  // never recorded: no wait
    let_time_pass();
    read<51>(b_);
  });
  expect_violation(kNoOrder, [&] {
    write<52>(a_);
    cudaStreamWaitEvent(b_, event_, 0);  // recorded after the wait
    cudaEventRecord(event_, a_);
    let_time_pass();
    read<52>(b_);
  });
}

TEST_F(Order, AWaitIsForTheLatestRecordBeforeIt) {
  expect_no_violation([&] {
    cudaEventRecord(event_, a_);
    write<53>(a_);
    cudaEventRecord(event_, a_);
    cudaStreamWaitEvent(b_, event_, 0);
    cudaEventRecord(event_, c_);  // has no effect on the earlier wait
    read<53>(b_);
  });
}

TEST_F(Order, OverThreeStreams) {
  expect_no_violation([&] {
    write<60>(a_);
    join(a_, b_);
    join(b_, c_);
    read<60>(c_);
  });
  expect_violation(kNoOrder, [&] {
    cudaEventRecord(second_event_, b_);  // before b waits for a
    write<61>(a_);
    join(a_, b_);
    cudaStreamWaitEvent(c_, second_event_, 0);
    let_time_pass();
    read<61>(c_);
  });
  expect_violation(kNoOrder, [&] {
    write<62>(a_);
    join(a_, b_);
    read<62>(b_);
    let_time_pass();
    read_too<62>(c_);  // c does not wait
  });
}

TEST_F(Order, TheHostWaits) {
  const std::function<void()> waits[] = {
      [&] { EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess); },
      [&] { EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess); },
      [&] {
        EXPECT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
        EXPECT_EQ(cudaEventSynchronize(event_), cudaSuccess);
      },
      [&] {
        while (cudaStreamQuery(a_) == cudaErrorNotReady) std::this_thread::yield();
      },
      [&] {
        EXPECT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
        while (cudaEventQuery(event_) == cudaErrorNotReady) std::this_thread::yield();
      },
  };
  for (const auto& wait : waits)
    expect_no_violation([&] {
      write<70>(a_);
      wait();
      read<70>(b_);
    });
  expect_violation(kNoOrder, [&] {
    write<71>(a_);
    let_time_pass();
    EXPECT_EQ(cudaStreamSynchronize(c_), cudaSuccess);  // another stream
    read<71>(b_);
  });
}

TEST_F(Order, WorkBeforeTheHostsWaitKnowsNothingOfIt) {
  expect_violation(kNoOrder, [&] {
    use("lazy=1");
    read<72>(b_);
    write<72>(a_);
    EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
  });
}

/// Nor of the stream's end.
TEST_F(Order, WorkBeforeTheEndOfAStreamKnowsNothingOfIt) {
  const PinnedArray<float> pinned(1);
  const auto retired = [] {
    auto& machine = emulated::Machine::get();
    const std::lock_guard<std::mutex> lock(machine.mutex);
    return machine.retired.size();
  };
  const std::size_t before = retired();
  expect_violation(kNoOrder, [&] {
    {
      const TestStream ends;
      write<73>(ends);
      launch(take_long, 1, 1, b_, pinned.get());
      read<73>(b_);
    }
    while (retired() == before) std::this_thread::yield();
  });
  expect_no_violation([&] {
    {
      const TestStream ends;
      write<74>(ends);
    }
    read<74>(b_);
  });
}

TEST_F(Order, TwoGpus) {
  const TestStream there(1);
  const GpuArray<float> target(1, kCount);
  const auto copy = [&] {
    EXPECT_EQ(cudaMemcpyAsync(target.get(), values_.get(), values_.bytes(), cudaMemcpyDefault, there),
              cudaSuccess);
  };
  expect_violation(kNoOrder, [&] {
    write<80>(a_);
    let_time_pass();
    copy();
  });
  expect_violation(kNoOrder, [&] {
    copy();
    let_time_pass();
    write<81>(a_);
  });
  expect_no_violation([&] {
    use("delay_us=1000");
    write<82>(a_);
    join(a_, there);
    copy();
    EXPECT_EQ(target.values()[kCount - 1], 82);
  });
}

TEST_F(Order, CopiesAndMemsets) {
  std::vector<float> host(kCount);
  expect_violation(kNoOrder, [&] {
    EXPECT_EQ(cudaMemsetAsync(values_.get(), 0, 400, a_), cudaSuccess);
    let_time_pass();
    read<90>(b_);
  });
  expect_violation(kNoOrder, [&] {
    write<91>(a_);
    let_time_pass();
    EXPECT_EQ(cudaMemcpyAsync(host.data(), values_.get(), 404, cudaMemcpyDefault, b_), cudaSuccess);
  });
  expect_no_violation([&] {
    EXPECT_EQ(cudaMemsetAsync(values_.get(), 0, 400, a_), cudaSuccess);
    join(a_, b_);
    read<92>(b_);
    join(b_, a_);
    EXPECT_EQ(cudaMemcpyAsync(values_.get(), host.data(), 408, cudaMemcpyDefault, a_), cudaSuccess);
  });
}

TEST_F(Order, PinnedHostMemory) {
  const PinnedArray<float> pinned(kCount);
  const auto out = [&](cudaStream_t stream, std::size_t bytes) {
    EXPECT_EQ(cudaMemcpyAsync(pinned.get(), values_.get(), bytes, cudaMemcpyDefault, stream), cudaSuccess);
  };
  const auto in = [&](cudaStream_t stream, std::size_t bytes) {
    EXPECT_EQ(cudaMemcpyAsync(copy_.get(), pinned.get(), bytes, cudaMemcpyDefault, stream), cudaSuccess);
  };
  expect_violation(kNoOrder, [&] {
    out(a_, 500);
    let_time_pass();
    in(b_, 504);
  });
  expect_no_violation([&] {
    out(a_, 508);
    join(a_, b_);
    in(b_, 512);
  });
}

TEST_F(Order, SmallElements) {
  const GpuArray<unsigned char> image(0, std::vector<unsigned char>(1000));
  expect_violation(kNoOrder, [&] {
    EXPECT_EQ(cudaMemsetAsync(image.get(), 0, 999, a_), cudaSuccess);
    let_time_pass();
    launch(order::brighten, 1, 32, b_, image.get(), 999);
  });
  expect_no_violation([&] {  // two parts that meet within four bytes
    launch(order::brighten, 1, 32, a_, image.get(), 333);
    launch(order::brighten, 1, 32, b_, image.get() + 333, 333);
  });
  expect_violation(kNoOrder, [&] {
    launch(order::brighten, 1, 16, a_, image.get(), 334);
    let_time_pass();
    launch(order::brighten, 1, 16, b_, image.get() + 333, 333);
  });
}

TEST_F(Order, NewMemoryHasNoHistory) {
  expect_no_violation([&] {
    for (int i = 0; i < 3; ++i) {
      const GpuArray<float> memory(0, kCount);
      launch(order::write_all<100>, 1, 32, i % 2 == 0 ? a_ : b_, memory.get(), kCount);
    }
  });
}

TEST_F(Order, FreedWhileAnotherGpuUsesIt) {
  const TestStream there(1);
  const GpuArray<float> target(1, kCount);
  const auto copy_of_new_memory = [&](bool waits) {
    const GpuArray<float> source(0, std::vector<float>(kCount));
    EXPECT_EQ(cudaMemcpyAsync(target.get(), source.get(), source.bytes(), cudaMemcpyDefault, there),
              cudaSuccess);
    if (waits) {
      EXPECT_EQ(cudaStreamSynchronize(there), cudaSuccess);
    } else {
      let_time_pass();
    }
  };
  expect_violation("freed", [&] { copy_of_new_memory(false); });
  expect_no_violation([&] { copy_of_new_memory(true); });
}

// --- the default stream ---

TEST_F(Order, TheDefaultStreamComesBeforeAndAfterBlockingStreams) {
  const TestStream blocking(0, cudaStreamDefault), second(0, cudaStreamDefault);
  expect_no_violation([&] {
    use("delay_us=500");
    write<110>(blocking);
    read<110>(nullptr);
    write<111>(second);
  });
  expect_violation(kNoOrder, [&] {
    write<112>(blocking);
    let_time_pass();
    read<112>(second);
  });
}

TEST_F(Order, TheDefaultStreamHasNothingToDoWithNonBlockingStreams) {
  expect_violation(kNoOrder, [&] {
    write<113>(nullptr);
    let_time_pass();
    read<113>(a_);
  });
  expect_violation(kNoOrder, [&] {
    write<114>(a_);
    let_time_pass();
    read<114>(nullptr);
  });
}

TEST_F(Order, EachGpuHasADefaultStream) {
  const TestStream there(1, cudaStreamDefault);
  const GpuArray<float> target(1, kCount);
  expect_violation(kNoOrder, [&] {
    write<115>(nullptr);
    let_time_pass();
    EXPECT_EQ(cudaMemcpyAsync(target.get(), values_.get(), 600, cudaMemcpyDefault, there), cudaSuccess);
  });
}

TEST_F(Order, CudaMemcpyWaits) {
  expect_no_violation([&] {
    float host = 0;
    write<116>(nullptr);
    EXPECT_EQ(cudaMemcpy(&host, values_.get(), 4, cudaMemcpyDefault), cudaSuccess);
    EXPECT_EQ(host, 116);
    read<116>(a_);
  });
}

// --- lazy streams ---

std::uint64_t done(cudaStream_t handle) {
  auto* stream = reinterpret_cast<emulated::Stream*>(handle);
  const std::lock_guard<std::mutex> lock(stream->mutex);
  return stream->done;
}

TEST_F(Order, ALazyStreamRunsWhenSomethingWaitsForIt) {
  use("lazy=1");
  const std::uint64_t before_a = done(a_), before_b = done(b_);
  write<120>(a_);
  EXPECT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  write<121>(a_);
  EXPECT_EQ(cudaStreamWaitEvent(b_, event_, 0), cudaSuccess);
  let_time_pass();
  EXPECT_EQ(done(a_), before_a);
  EXPECT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
  EXPECT_EQ(done(b_), before_b + 2) << "the wait, and the mark that the host has waited for";
  let_time_pass();
  EXPECT_EQ(done(a_), before_a + 2) << "up to the event";
  EXPECT_EQ(values_.values()[0], 121);
}

/// One thread waits for all streams of the GPU, whose number changes meanwhile.
TEST_F(Order, StreamsEndWhileAnotherThreadFreesMemory) {
  std::atomic<bool> ended{false};
  std::thread other([&] {
    for (int i = 0; i < 3000; ++i) {
      cudaStream_t stream = nullptr;
      EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    }
    ended = true;
  });
  while (!ended) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
  }
  other.join();
}

}  // namespace
}  // namespace emulated_tests
