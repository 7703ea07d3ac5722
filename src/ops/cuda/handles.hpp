// What the CUDA operators keep per Context: cuBLAS and cuDNN handles bound to its stream, and scratch memory
// of the reductions.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>
#include <string_view>

#include "banyan/device/context.hpp"
#include "device/cuda/cuda_check.hpp"
#include "device/cuda/cuda_device.hpp"

namespace banyan::ops {

/// Throws a runtime failure naming the device and the call.
/// "13.1.0"
std::string cublas_version();
void cublas_check(cublasStatus_t status, std::string_view what, const Device& device);
void cudnn_check(cudnnStatus_t status, std::string_view what, const Device& device);

class CudaHandles final : public LibraryHandles {
 public:
  explicit CudaHandles(Context& context) : context_(&context) {}
  ~CudaHandles() override;
  CudaHandles(const CudaHandles&) = delete;
  CudaHandles& operator=(const CudaHandles&) = delete;

  /// Computes f32 in f32 (no TF32) with its own workspace, which makes its results reproducible.
  cublasHandle_t cublas();
  cudnnHandle_t cudnn();
  /// Like Context::workspace, but only for the reductions: an operator may hold pointers into the context's
  /// workspace while it reduces.
  void* reduction_scratch(std::size_t bytes);

 private:
  Context* context_;
  cublasHandle_t cublas_ = nullptr;
  cudnnHandle_t cudnn_ = nullptr;
  std::unique_ptr<Storage> cublas_workspace_, scratch_;
};

/// The context's handles; made on first use.
CudaHandles& cuda_handles(Context& context);

/// The context's stream for a launch or library call; makes its device the thread's current one, as launches
/// require.
inline cudaStream_t cuda_stream(Context& context) {
  context.device().make_current();
  return static_cast<CudaStream&>(context.stream()).native();
}

}  // namespace banyan::ops
