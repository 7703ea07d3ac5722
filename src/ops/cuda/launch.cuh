// The only two things that require a CUDA compiler: a launch, and memory shared by a block. Everything else
// in the kernels is C++.
#pragma once

#include <cuda_runtime.h>

namespace banyan::ops {

/// Enqueues `kernel` on `stream`, whose GPU must be the thread's current one. The next cudaGetLastError
/// reports launch errors.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const dim3& grid, const dim3& block, cudaStream_t stream,
            const Arguments&... arguments) {
  kernel<<<grid, block, 0, stream>>>(arguments...);
}

}  // namespace banyan::ops

/// In a kernel: uninitialized memory for COUNT values of type TYPE shared by a block's threads; NAME points
/// to the first. No constructor runs.
#define BANYAN_SHARED_ARRAY(TYPE, NAME, COUNT)                                  \
  __shared__ alignas(TYPE) unsigned char NAME##_memory[(COUNT) * sizeof(TYPE)]; \
  TYPE* const NAME = reinterpret_cast<TYPE*>(NAME##_memory)
