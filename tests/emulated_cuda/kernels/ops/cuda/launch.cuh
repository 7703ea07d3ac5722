// Replaces src/ops/cuda/launch.cuh in sources compiled for emulated GPUs: the same two things in C++.
#pragma once

#include <cuda_runtime.h>

#include "kernel.hpp"

namespace banyan::ops {

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const dim3& grid, const dim3& block, cudaStream_t stream,
            const Arguments&... arguments) {
  emulated::launch(reinterpret_cast<const void*>(kernel), grid, block, stream,
                   emulated::OwnedKernel(new emulated::TypedKernel<Parameters...>(
                       kernel, static_cast<Parameters>(arguments)...)));
}

}  // namespace banyan::ops

#define BANYAN_SHARED_ARRAY(TYPE, NAME, COUNT)  \
  static constexpr char NAME##_declaration = 0; \
  TYPE* const NAME =                            \
      static_cast<TYPE*>(emulated::shared_array(&NAME##_declaration, sizeof(TYPE) * (COUNT), alignof(TYPE)))
