// NCCL's rules for communicators that do not wait.
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "failure.hpp"
#include "test_tools.hpp"

namespace emulated_tests {
namespace {

/// Two ranks, on gpu:0 and gpu:1.
class Nccl : public Emulator {
 protected:
  Nccl() { join(comms_); }
  static void join(ncclComm_t (&comms)[2]) {
    ncclUniqueId id;
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    for (int rank = 0; rank < 2; ++rank) {
      cudaSetDevice(rank);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      EXPECT_EQ(ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config), ncclInProgress);
    }
    cudaSetDevice(0);
  }
  ~Nccl() override {
    for (int rank = 0; rank < 2; ++rank)
      if (comms_[rank] != nullptr) abort(rank);
  }
  void abort(int rank) { EXPECT_EQ(ncclCommAbort(std::exchange(comms_[rank], nullptr)), ncclSuccess); }
  static ncclResult_t state_of(ncclComm_t comm) {
    ncclResult_t state = ncclInternalError;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    return state;
  }
  static void wait(ncclComm_t comm) {
    while (state_of(comm) == ncclInProgress) std::this_thread::yield();
  }
  ncclResult_t send(const GpuArray<>& values, cudaStream_t stream) {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclSend(values.get(), values.bytes(), ncclUint8, 1, comms_[0], stream), ncclSuccess);
    return ncclGroupEnd();
  }
  ncclResult_t receive(const GpuArray<>& values, cudaStream_t stream) {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclRecv(values.get(), values.bytes(), ncclUint8, 0, comms_[1], stream), ncclSuccess);
    return ncclGroupEnd();
  }
  ncclComm_t comms_[2] = {};
};

TEST_F(Nccl, AGroupArrives) {
  expect_no_violation([&] {
    for (ncclComm_t comm : comms_) EXPECT_EQ(state_of(comm), ncclSuccess);
    const GpuArray<> from(0, std::vector<float>{1, 2}), to(1, std::vector<float>{0, 0});
    const TestStream a(0), b(1);
    EXPECT_EQ(send(from, a), ncclInProgress);
    EXPECT_EQ(receive(to, b), ncclInProgress);
    for (ncclComm_t comm : comms_) {
      EXPECT_EQ(state_of(comm), ncclInProgress);
      wait(comm);
    }
    EXPECT_EQ(to.values(), (std::vector<float>{1, 2}));
  });
}

TEST_F(Nccl, WhatIsEnqueuedTooEarlyIsInFront) {
  expect_no_violation([&] {
    const GpuArray<> from(0, std::vector<float>{1}), to(1, std::vector<float>{0}),
        seen(1, std::vector<float>{5});
    const TestStream a(0), b(1);
    EXPECT_EQ(send(from, a), ncclInProgress);
    EXPECT_EQ(receive(to, b), ncclInProgress);
    EXPECT_EQ(cudaMemcpyAsync(seen.get(), to.get(), 4, cudaMemcpyDefault, b), cudaSuccess);
    for (ncclComm_t comm : comms_) wait(comm);
    EXPECT_EQ(to.values(), std::vector<float>{1});
    EXPECT_EQ(seen.values(), std::vector<float>{0});
  });
}

TEST_F(Nccl, NoCallBeforeTheLastIsDone) {
  const GpuArray<> from(0, std::vector<float>{1}), to(1, std::vector<float>{0});
  const TestStream a(0), b(1);
  EXPECT_EQ(send(from, a), ncclInProgress);
  expect_violation("ncclSend on a communicator whose last call may be in progress",
                   [&] { EXPECT_EQ(ncclSend(from.get(), 4, ncclUint8, 1, comms_[0], a), ncclInvalidUsage); });
  expect_violation("ncclCommFinalize on a communicator",
                   [&] { EXPECT_EQ(ncclCommFinalize(comms_[0]), ncclInvalidUsage); });
  EXPECT_EQ(receive(to, b), ncclInProgress);
  for (ncclComm_t comm : comms_) wait(comm);
}

TEST_F(Nccl, AsMuchIsReceivedAsIsSent) {
  const GpuArray<> from(0, std::vector<float>{1, 2}), to(1, std::vector<float>{0});
  const TestStream a(0), b(1);
  expect_violation("ncclRecv of 4 bytes from rank 0, which sends 8", [&] {
    EXPECT_EQ(send(from, a), ncclInProgress);
    EXPECT_EQ(receive(to, b), ncclInProgress);
    for (ncclComm_t comm : comms_) wait(comm);
    EXPECT_EQ(cudaStreamSynchronize(b), cudaSuccess);
    abort(0);  // what is sent never arrives
  });
}

/// Communicators of the same GPU that wait for what nobody sends: the abort of one frees memory, and so waits
/// for the other, too.
class NcclAborts : public Nccl {
 protected:
  NcclAborts() {
    join(others_);
    wait_for_ever(comms_[1], a_);
    wait_for_ever(others_[1], b_);
  }
  ~NcclAborts() override {
    for (ncclComm_t comm : others_)
      if (comm != nullptr) ncclCommAbort(comm);
  }
  void wait_for_ever(ncclComm_t comm, cudaStream_t stream) {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclRecv(to_.get(), to_.bytes(), ncclUint8, 0, comm, stream), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
    wait(comm);
  }
  ncclComm_t others_[2] = {};
  GpuArray<> to_{1, std::vector<float>{0}};
  TestStream a_{1}, b_{1};
};

TEST_F(NcclAborts, OneWaitsForTheOther) {
  std::atomic<bool> returned{false};
  std::thread aborts([&] {
    abort(1);
    returned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(returned);
  EXPECT_EQ(ncclCommAbort(std::exchange(others_[1], nullptr)), ncclSuccess);
  aborts.join();
  EXPECT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
}

TEST_F(NcclAborts, InAGroupAllEnd) {
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  abort(1);
  EXPECT_EQ(ncclCommAbort(std::exchange(others_[1], nullptr)), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
}

TEST_F(Nccl, AStreamOfItsOwnGpu) {
  const GpuArray<> from(0, std::vector<float>{1});
  const TestStream elsewhere(1);
  expect_violation("ncclGroupEnd: the stream belongs to another GPU than the communicator",
                   [&] { EXPECT_EQ(send(from, elsewhere), ncclInvalidUsage); });
}

TEST_F(Nccl, WhatIsDestroyedIsNotUsed) {
  const GpuArray<> from(0, std::vector<float>{1});
  const TestStream a(0);
  for (ncclComm_t comm : comms_) EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
  for (ncclComm_t comm : comms_) wait(comm);
  const ncclComm_t gone = std::exchange(comms_[0], nullptr);
  expect_no_violation([&] { EXPECT_EQ(ncclCommDestroy(gone), ncclSuccess); });
  ncclResult_t state = ncclSuccess;
  expect_violation("ncclCommGetAsyncError on a communicator that is destroyed",
                   [&] { EXPECT_EQ(ncclCommGetAsyncError(gone, &state), ncclInvalidArgument); });
  expect_violation("ncclSend on a communicator that is destroyed",
                   [&] { EXPECT_EQ(ncclSend(from.get(), 4, ncclUint8, 1, gone, a), ncclInvalidArgument); });
  expect_violation("ncclCommDestroy on a communicator that is destroyed",
                   [&] { EXPECT_EQ(ncclCommDestroy(gone), ncclInvalidArgument); });
}

TEST_F(Nccl, CallsFailThatTransferNothing) {
  use("fail=ncclGetUniqueId:1+ncclCommGetAsyncError:2+ncclCommFinalize:1");
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclUnhandledCudaError);
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclResult_t state = ncclInProgress;
  EXPECT_EQ(state_of(comms_[0]), ncclSuccess);
  EXPECT_EQ(ncclCommGetAsyncError(comms_[0], &state), ncclUnhandledCudaError);
  EXPECT_EQ(ncclCommFinalize(comms_[0]), ncclUnhandledCudaError);
  EXPECT_EQ(emulated::failures_struck(), 3u);
  use();
}

TEST_F(Nccl, CommunicatorsThatWaitAreNotEmulated) {
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;  // they wait unless told otherwise
  ncclComm_t comm = nullptr;
  for (ncclConfig_t* given : {&config, static_cast<ncclConfig_t*>(nullptr)})
    expect_violation("the emulator's communicators do not wait",
                     [&] { EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, given), ncclInvalidUsage); });
  EXPECT_EQ(comm, nullptr);
}

}  // namespace
}  // namespace emulated_tests
