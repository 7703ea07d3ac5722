// What the functions of the CUDA runtime share.
#pragma once

#include "machine.hpp"

namespace emulated {

/// Records an error as the thread's last one.
cudaError_t result(cudaError_t status);
/// The error of a GPU that has failed for good.
inline constexpr cudaError_t kSticky = cudaErrorIllegalAddress;
/// A call that fails because of a setting or a failed GPU.
inline bool call_fails(const char* function, cudaError_t usual, cudaError_t* status) {
  int code = 0;
  if (!fails(function, current_device, &code)) return false;
  *status = result(code != 0 ? static_cast<cudaError_t>(code) : is_broken(current_device) ? kSticky : usual);
  return true;
}

}  // namespace emulated

/// Starts each function that destroys something: on a GPU that has failed for good it reports that, but still
/// destroys it, as CUDA does when the process ends. Otherwise streams, each with a thread, and memory would
/// accumulate in a process that continues after the GPU has been repaired.
#define EMULATED_END(FUNCTION)                                                              \
  cudaError_t ended_with = cudaSuccess;                                                     \
  do {                                                                                      \
    if (call_fails(#FUNCTION, cudaErrorUnknown, &ended_with) && !is_broken(current_device)) \
      return ended_with;                                                                    \
  } while (false)
/// Starts each function that can fail.
#define EMULATED_CALL(FUNCTION, USUAL_ERROR)                                            \
  do {                                                                                  \
    if (cudaError_t failed; call_fails(#FUNCTION, USUAL_ERROR, &failed)) return failed; \
  } while (false)
