// Stream capture, and graphs.
#include <functional>

#include "test_tools.hpp"

namespace emulated_tests {

namespace captured {

template <int kNumber>
__global__ void increment(float* value) {
  *value += 1;
}
template <int kNumber>
__global__ void twice(const float* from, float* to) {
  *to = 2 * *from;
}

}  // namespace captured

namespace {

class Capture : public Emulator {
 protected:
  Capture() : value_(0, std::vector<float>(1)), second_(0, std::vector<float>(1)) { wait_for_all_gpus(); }
  ~Capture() override { use(); }
  cudaError_t begin(cudaStream_t stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    return cudaStreamBeginCapture(stream, mode);
  }
  /// Ends a capture that should have failed.
  void expect_end(cudaStream_t stream, cudaError_t status) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), status);
    EXPECT_EQ(graph, nullptr);
    cudaStreamCaptureStatus still = cudaStreamCaptureStatusActive;
    EXPECT_EQ(cudaStreamIsCapturing(stream, &still), cudaSuccess);
    EXPECT_EQ(still, cudaStreamCaptureStatusNone);
  }
  cudaGraphExec_t end(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return executable;
  }
  void join(cudaEvent_t event, cudaStream_t first, cudaStream_t second) {
    EXPECT_EQ(cudaEventRecord(event, first), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  }
  template <int kNumber>
  void increment(cudaStream_t stream) {
    launch(captured::increment<kNumber>, 1, 1, stream, value_.get());
  }
  template <int kNumber>
  void twice(cudaStream_t stream) {
    launch(captured::twice<kNumber>, 1, 1, stream, value_.get(), second_.get());
  }

  GpuArray<float> value_, second_;
  const TestStream a_, b_, c_;
  const TestEvent event_, second_event_;
};

TEST_F(Capture, NothingRunsUntilTheGraphIsLaunched) {
  expect_no_violation([&] {
    ASSERT_EQ(begin(a_), cudaSuccess);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(a_, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    increment<0>(a_);
    twice<0>(a_);
    const cudaGraphExec_t graph = end(a_);
    EXPECT_EQ(value_.values()[0], 0);
    for (int i = 1; i <= 3; ++i) {
      EXPECT_EQ(cudaGraphLaunch(graph, a_), cudaSuccess);
      EXPECT_EQ(value_.values()[0], i);
      EXPECT_EQ(second_.values()[0], 2 * i);
    }
    for (int i = 0; i < 10; ++i) EXPECT_EQ(cudaGraphLaunch(graph, a_), cudaSuccess);
    EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess) << "the launches go on";
    EXPECT_EQ(value_.values()[0], 13);
  });
}

TEST_F(Capture, CopiesAndMemsetsOfAGraph) {
  expect_no_violation([&] {
    const PinnedArray<float> in(1, 5.0F), out(1);
    ASSERT_EQ(begin(a_), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(second_.get(), 0, 4, a_), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(value_.get(), in.get(), 4, cudaMemcpyDefault, a_), cudaSuccess);
    twice<1>(a_);
    EXPECT_EQ(cudaMemcpyAsync(out.get(), second_.get(), 4, cudaMemcpyDefault, a_), cudaSuccess);
    const cudaGraphExec_t graph = end(a_);
    for (const float value : {5.0F, 6.0F}) {
      *in.get() = value;  // read again at each launch
      EXPECT_EQ(cudaGraphLaunch(graph, a_), cudaSuccess);
      EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
      EXPECT_EQ(*out.get(), 2 * value);
    }
    EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
  });
}

TEST_F(Capture, ForkAndJoin) {
  expect_no_violation([&] {
    ASSERT_EQ(begin(a_), cudaSuccess);
    increment<2>(a_);
    join(event_, a_, b_);
    twice<2>(b_);
    join(event_, b_, a_);
    increment<3>(a_);
    const cudaGraphExec_t graph = end(a_);
    EXPECT_EQ(cudaGraphLaunch(graph, c_), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(graph, c_), cudaSuccess);
    EXPECT_EQ(value_.values()[0], 4);
    EXPECT_EQ(second_.values()[0], 6);
    EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
    twice<3>(b_);  // no longer captured
    EXPECT_EQ(second_.values()[0], 8);
  });
}

TEST_F(Capture, BranchesOfAGraphHaveNoOrder) {
  ASSERT_EQ(begin(a_), cudaSuccess);
  join(event_, a_, b_);
  increment<4>(a_);
  twice<4>(b_);  // reads what the other branch writes
  join(event_, b_, a_);
  const cudaGraphExec_t graph = end(a_);
  expect_violation("no order between two pieces of work", [&] { cudaGraphLaunch(graph, a_); });
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

TEST_F(Capture, AGraphIsOneOfAStreamsPieces) {
  ASSERT_EQ(begin(a_), cudaSuccess);
  increment<5>(a_);
  const cudaGraphExec_t graph = end(a_);
  expect_no_violation([&] {
    increment<6>(a_);
    cudaGraphLaunch(graph, a_);
    cudaGraphLaunch(graph, a_);
    twice<6>(a_);
    join(event_, a_, b_);
    cudaGraphLaunch(graph, b_);
    EXPECT_EQ(value_.values()[0], 4);
    EXPECT_EQ(second_.values()[0], 6);
  });
  expect_violation("no order between two pieces of work", [&] {
    cudaGraphLaunch(graph, a_);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    twice<7>(c_);
  });
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

TEST_F(Capture, AllStreamsAreJoinedAtTheEnd) {
  ASSERT_EQ(begin(a_), cudaSuccess);
  join(event_, a_, b_);
  increment<8>(b_);
  expect_end(a_, cudaErrorStreamCaptureUnjoined);
  increment<8>(b_);
  EXPECT_EQ(value_.values()[0], 1) << "only what was not captured";
}

TEST_F(Capture, WhatCaptureForbids) {
  void* memory = nullptr;
  float host = 0;
  const GpuArray<float> old(0, 1);
  const PinnedArray<float> pinned(1);
  struct Case {
    const char* name;
    std::function<cudaError_t()> call;
    cudaError_t status;
  };
  const Case cases[] = {
      {"malloc", [&] { return cudaMalloc(&memory, 4); }, cudaErrorStreamCaptureUnsupported},
      {"free", [&] { return cudaFree(old.get()); }, cudaErrorStreamCaptureUnsupported},
      {"pinned memory", [&] { return cudaHostAlloc(&memory, 4, cudaHostAllocDefault); },
       cudaErrorStreamCaptureUnsupported},
      {"free pinned memory", [&] { return cudaFreeHost(pinned.get()); }, cudaErrorStreamCaptureUnsupported},
      {"stream synchronize", [&] { return cudaStreamSynchronize(a_); }, cudaErrorStreamCaptureUnsupported},
      {"stream query", [&] { return cudaStreamQuery(a_); }, cudaErrorStreamCaptureUnsupported},
      {"device synchronize", [&] { return cudaDeviceSynchronize(); }, cudaErrorStreamCaptureUnsupported},
      {"memcpy", [&] { return cudaMemcpy(&host, value_.get(), 4, cudaMemcpyDefault); },
       cudaErrorStreamCaptureImplicit},
      {"captured event",
       [&] {
         EXPECT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
         return cudaEventSynchronize(event_);
       },
       cudaErrorCapturedEvent},
      {"query of a captured event",
       [&] {
         EXPECT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
         return cudaEventQuery(event_);
       },
       cudaErrorCapturedEvent},
      {"query of any event", [&] { return cudaEventQuery(second_event_); },
       cudaErrorStreamCaptureUnsupported},
      {"wait for what was not captured",
       [&] {
         EXPECT_EQ(cudaEventRecord(event_, b_), cudaSuccess);
         return cudaStreamWaitEvent(a_, event_, 0);
       },
       cudaErrorStreamCaptureIsolation},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    expect_no_violation([&] {  // a failing call is not a violation: the program gets the error
      ASSERT_EQ(begin(a_), cudaSuccess);
      increment<9>(a_);
      EXPECT_EQ(one.call(), one.status);
      cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
      EXPECT_EQ(cudaStreamIsCapturing(a_, &status), cudaSuccess);
      EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
      expect_end(a_, cudaErrorStreamCaptureInvalidated);
    });
  }
  EXPECT_EQ(value_.values()[0], 0);
}

TEST_F(Capture, TheDefaultStream) {
  EXPECT_EQ(begin(nullptr), cudaErrorStreamCaptureUnsupported);
  ASSERT_EQ(begin(a_), cudaSuccess);
  launch(captured::increment<10>, 1, 1, nullptr, value_.get());
  EXPECT_NE(cudaGetLastError(), cudaSuccess);
  expect_end(a_, cudaErrorStreamCaptureInvalidated);
}

TEST_F(Capture, Modes) {
  const auto malloc_elsewhere = [] {
    cudaError_t status = cudaErrorUnknown;
    std::thread([&] {
      void* memory = nullptr;
      status = cudaMalloc(&memory, 4);
      if (status == cudaSuccess) status = cudaFree(memory);
    }).join();
    return status;
  };
  void* memory = nullptr;
  ASSERT_EQ(begin(a_, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(malloc_elsewhere(), cudaErrorStreamCaptureUnsupported);
  expect_end(a_, cudaErrorStreamCaptureInvalidated);

  ASSERT_EQ(begin(a_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(malloc_elsewhere(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorStreamCaptureUnsupported);
  expect_end(a_, cudaErrorStreamCaptureInvalidated);

  ASSERT_EQ(begin(a_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(malloc_elsewhere(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(end(a_)), cudaSuccess);
}

TEST_F(Capture, TwoCapturesDoNotMeet) {
  ASSERT_EQ(begin(a_), cudaSuccess);
  ASSERT_EQ(begin(b_), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(b_, event_, 0), cudaErrorStreamCaptureMerge);
  expect_end(a_, cudaErrorStreamCaptureInvalidated);
  expect_end(b_, cudaErrorStreamCaptureInvalidated);
}

TEST_F(Capture, WhoEndsIt) {
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaErrorInvalidValue) << "not begun";
  ASSERT_EQ(begin(a_), cudaSuccess);
  EXPECT_EQ(begin(a_), cudaErrorInvalidValue) << "begun already";
  std::thread([&] {
    cudaGraph_t none = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(a_, &none), cudaErrorStreamCaptureWrongThread);
  }).join();
  EXPECT_EQ(cudaGraphExecDestroy(end(a_)), cudaSuccess);

  ASSERT_EQ(begin(a_), cudaSuccess);
  join(event_, a_, b_);
  EXPECT_EQ(cudaStreamEndCapture(b_, &graph), cudaErrorStreamCaptureUnmatched);
  expect_end(a_, cudaErrorStreamCaptureInvalidated);
}

TEST_F(Capture, AStreamIsNotDestroyedMeanwhile) {
  ASSERT_EQ(begin(a_), cudaSuccess);
  expect_violation("cudaStreamDestroy of a stream that is being captured", [&] {
    EXPECT_NE(cudaStreamDestroy(a_), cudaSuccess);
    expect_end(a_, cudaErrorStreamCaptureInvalidated);
  });
}

class CaptureAtTheEnd : public OwnProcess {};

TEST_F(CaptureAtTheEnd, GraphsLeftBehind) {
  machine("gpus=1");
  const auto body = [] {
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    cudaStreamCreate(&stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&executable, graph, 0);
    cudaStreamDestroy(stream);
    std::exit(0);
  };
  EXPECT_EXIT(body(), testing::KilledBySignal(SIGABRT), "leaves behind: 1 graphs, 1 executable graphs");
}

}  // namespace
}  // namespace emulated_tests
