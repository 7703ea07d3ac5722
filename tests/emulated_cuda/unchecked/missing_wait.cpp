// Work without an order, for ThreadSanitizer, which sees each access of kernels and of the host:
//   missing_wait kernels [wait]   one stream writes, another one reads, with an event's wait between or without
//   missing_wait host [wait]      the host reads what a copy writes to pinned memory, after its stream or before
// Nothing else can find either: the emulator itself looks at kernels' accesses in its checked variant only,
// and at the host's in none.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ops/cuda/launch.cuh"

namespace missing_wait {

__global__ void write(float* to) { *to = 1; }
__global__ void read(const float* from, float* to) { *to = *from; }

}  // namespace missing_wait

namespace {

using banyan::ops::launch;

void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "missing_wait: CUDA error %d\n", static_cast<int>(status));
  std::exit(2);
}

float* on_gpu() {
  void* memory = nullptr;
  check(cudaMalloc(&memory, sizeof(float)));
  return static_cast<float*>(memory);
}

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

void between_kernels(cudaStream_t first, cudaStream_t second, float* value, bool wait) {
  float* const copy = on_gpu();
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  launch(missing_wait::write, 1, 1, first, value);
  if (wait) {
    check(cudaEventRecord(event, first));
    check(cudaStreamWaitEvent(second, event, 0));
  }
  launch(missing_wait::read, 1, 1, second, static_cast<const float*>(value), copy);
  check(cudaGetLastError());
  check(cudaDeviceSynchronize());
  check(cudaEventDestroy(event));
  check(cudaFree(copy));
}

/// The value is written long before, and waited for.
void between_copy_and_host(cudaStream_t stream, float* value, bool wait) {
  void* pinned = nullptr;
  check(cudaHostAlloc(&pinned, sizeof(float), cudaHostAllocDefault));
  launch(missing_wait::write, 1, 1, stream, value);
  check(cudaStreamSynchronize(stream));
  check(cudaMemcpyAsync(pinned, value, sizeof(float), cudaMemcpyDeviceToHost, stream));
  if (wait) check(cudaStreamSynchronize(stream));
  std::printf("read: %g\n", static_cast<double>(*static_cast<volatile float*>(pinned)));
  check(cudaStreamSynchronize(stream));
  check(cudaFreeHost(pinned));
}

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "";
  const bool wait = count > 2 && std::string(arguments[2]) == "wait";
  if (what != "kernels" && what != "host") {
    std::fprintf(stderr, "usage: missing_wait kernels|host [wait]\n");
    return 2;
  }
  const cudaStream_t first = new_stream(), second = new_stream();
  float* const value = on_gpu();
  if (what == "kernels")
    between_kernels(first, second, value, wait);
  else
    between_copy_and_host(first, value, wait);
  check(cudaFree(value));
  check(cudaStreamDestroy(first));
  check(cudaStreamDestroy(second));
  return 0;
}
