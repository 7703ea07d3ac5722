// What is built into CUDA's compiler, for kernels compiled as C++.
#pragma once

#include <cuda_runtime_api.h>

namespace emulated {

struct Builtins {
  uint3 thread{}, block{};
  dim3 threads, blocks;
};
/// Of the CUDA thread that this host thread is running.
extern thread_local Builtins builtins __attribute__((tls_model("initial-exec")));

/// `line` distinguishes barriers (compilers copy calls, so an address would not).
void barrier(unsigned line = __builtin_LINE());

}  // namespace emulated

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define threadIdx (::emulated::builtins.thread)
#define blockIdx (::emulated::builtins.block)
#define blockDim (::emulated::builtins.threads)
#define gridDim (::emulated::builtins.blocks)
#define __syncthreads ::emulated::barrier
