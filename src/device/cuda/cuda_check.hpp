// Turns CUDA's status codes into runtime failures that name the device and the call.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "banyan/base/error.hpp"

namespace banyan {

/// Throws "gpu:0: <what> failed: <CUDA's text> (<CUDA's name>)"; the parts of `what` are concatenated only
/// then. A failed kernel is reported by whichever call comes next: the text says what went wrong, `what`
/// where it was noticed.
template <class... Parts>
void cuda_check(cudaError_t status, std::string_view device, const Parts&... what) {
  if (status == cudaSuccess) return;
  // The check of a later launch must not find a non-sticky error again.
  static_cast<void>(cudaGetLastError());
  runtime_failure(device, ": ", what..., " failed: ", cudaGetErrorString(status), " (",
                  cudaGetErrorName(status), ")");
}

}  // namespace banyan
