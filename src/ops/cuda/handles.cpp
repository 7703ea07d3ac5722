#include "ops/cuda/handles.hpp"

#include <algorithm>
#include <string>

namespace banyan::ops {

namespace {

// NVIDIA's recommendation for Hopper; smaller GPUs need 4 MiB.
constexpr std::size_t kCublasWorkspaceBytes = std::size_t{32} << 20;

}  // namespace

std::string cublas_version() {
  std::string version;
  for (const libraryPropertyType part : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL}) {
    int number = 0;
    if (cublasGetProperty(part, &number) != CUBLAS_STATUS_SUCCESS) return "of an unknown version";
    version += cat(version.empty() ? "" : ".", number);
  }
  return version;
}

void cublas_check(cublasStatus_t status, std::string_view what, const Device& device) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  runtime_failure(device.name(), ": ", what, " failed: ", cublasGetStatusString(status));
}

void cudnn_check(cudnnStatus_t status, std::string_view what, const Device& device) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char detail[512] = "";
  cudnnGetLastErrorString(detail, sizeof(detail));
  detail[sizeof(detail) - 1] = 0;
  runtime_failure(device.name(), ": ", what, " failed: ", cudnnGetErrorString(status),
                  detail[0] != 0 ? ": " : "", detail);
}

CudaHandles::~CudaHandles() {
  // Not make_current(), which may throw.
  static_cast<void>(cudaSetDevice(context_->device().ordinal()));
  if (cublas_ != nullptr) cublasDestroy(cublas_);
  if (cudnn_ != nullptr) cudnnDestroy(cudnn_);
}

cublasHandle_t CudaHandles::cublas() {
  const cudaStream_t stream = cuda_stream(*context_);
  if (cublas_ != nullptr) return cublas_;
  const Device& device = context_->device();
  auto workspace = std::make_unique<Storage>(context_->device(), kCublasWorkspaceBytes);
  cublasHandle_t handle = nullptr;
  cublas_check(cublasCreate(&handle), "cublasCreate", device);
  cublas_ = handle;
  cublas_workspace_ = std::move(workspace);
  // Stream first: setting it resets the workspace to cuBLAS's default.
  cublas_check(cublasSetStream(handle, stream), "cublasSetStream", device);
  cublas_check(cublasSetWorkspace(handle, cublas_workspace_->data(), kCublasWorkspaceBytes),
               "cublasSetWorkspace", device);
  // Partial sums of bf16 products stay f32.
  const cublasMath_t math = device.math() == Math::tf32   ? CUBLAS_TF32_TENSOR_OP_MATH
                            : device.math() == Math::bf16 ? CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION
                                                          : CUBLAS_DEFAULT_MATH;
  cublas_check(cublasSetMathMode(handle, math), "cublasSetMathMode", device);
  cublas_check(cublasSetAtomicsMode(handle, CUBLAS_ATOMICS_NOT_ALLOWED), "cublasSetAtomicsMode", device);
  cublas_check(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST), "cublasSetPointerMode", device);
  return handle;
}

cudnnHandle_t CudaHandles::cudnn() {
  const cudaStream_t stream = cuda_stream(*context_);
  if (cudnn_ != nullptr) return cudnn_;
  cudnnHandle_t handle = nullptr;
  cudnn_check(cudnnCreate(&handle), "cudnnCreate", context_->device());
  cudnn_ = handle;
  cudnn_check(cudnnSetStream(handle, stream), "cudnnSetStream", context_->device());
  return handle;
}

void* CudaHandles::reduction_scratch(std::size_t bytes) {
  if (scratch_ == nullptr || scratch_->bytes() < bytes) {
    // Freed first: cudaFree waits for kernels still using it. Rounded up so that it rarely grows.
    const std::size_t grown = std::max<std::size_t>(bytes + bytes / 2, std::size_t{1} << 20);
    scratch_.reset();
    scratch_ = std::make_unique<Storage>(context_->device(), grown);
  }
  return scratch_->data();
}

CudaHandles& cuda_handles(Context& context) {
  std::unique_ptr<LibraryHandles>& handles = context.handles();
  if (handles == nullptr) handles = std::make_unique<CudaHandles>(context);
  return static_cast<CudaHandles&>(*handles);
}

}  // namespace banyan::ops
