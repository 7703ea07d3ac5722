// The cuDNN functions that Banyan calls: handles, queries about convolutions, and convolutions. What cuDNN
// documents as refused is refused with its status; what it leaves undefined is a violation.
#include <algorithm>
#include <cstring>

#include "dnn_run.hpp"

using namespace emulated;
using namespace emulated::dnn;

namespace {

/// The heuristics' answer, in the direction's own struct.
template <class Performance>
cudnnStatus_t list_algorithms(const char* function, Direction direction, cudnnHandle_t handle,
                              cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                              cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y,
                              int requested, int* returned, Performance* results) {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (begin(handle, function, &status) == nullptr) return status;
  if (requested < 1 || returned == nullptr || results == nullptr)
    return refuse(CUDNN_STATUS_BAD_PARAM, function, ": no room for an answer");
  Problem problem;
  status = find_problem(function, x, w, convolution, y, &problem);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const std::vector<Ranked> ranked = rank(direction, problem);
  *returned = std::min(requested, static_cast<int>(ranked.size()));
  for (int i = 0; i < *returned; ++i) {
    const Ranked& each = ranked[i];
    Performance& result = results[i];
    result = {};
    result.algo = static_cast<decltype(result.algo)>(each.algorithm);
    result.status = each.status;
    result.time = -1;  // nothing is measured
    result.memory =
        each.status == CUDNN_STATUS_SUCCESS ? workspace_bytes(direction, each.algorithm, problem) : 0;
    result.determinism =
        is_deterministic(direction, each.algorithm) ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
    result.mathType = each.math;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t get_workspace(const char* function, Direction direction, cudnnHandle_t handle,
                            cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                            cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y,
                            int algorithm, std::size_t* bytes) {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (begin(handle, function, &status) == nullptr) return status;
  if (bytes == nullptr) return refuse(CUDNN_STATUS_BAD_PARAM, function, ": no room for an answer");
  Problem problem;
  status = find_problem(function, x, w, convolution, y, &problem);
  if (status == CUDNN_STATUS_SUCCESS) status = check_support(direction, algorithm, problem);
  if (status == CUDNN_STATUS_SUCCESS) *bytes = workspace_bytes(direction, algorithm, problem);
  return status;
}

}  // namespace

extern "C" {

std::size_t cudnnGetVersion(void) { return CUDNN_VERSION; }
std::size_t cudnnGetCudartVersion(void) { return CUDART_VERSION; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
#define STATUS_NAME(name) \
  case name:              \
    return #name;
  switch (status) {
    STATUS_NAME(CUDNN_STATUS_SUCCESS)
    STATUS_NAME(CUDNN_STATUS_NOT_INITIALIZED)
    STATUS_NAME(CUDNN_STATUS_BAD_PARAM)
    STATUS_NAME(CUDNN_STATUS_BAD_PARAM_NULL_POINTER)
    STATUS_NAME(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER)
    STATUS_NAME(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED)
    STATUS_NAME(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND)
    STATUS_NAME(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT)
    STATUS_NAME(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH)
    STATUS_NAME(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH)
    STATUS_NAME(CUDNN_STATUS_NOT_SUPPORTED)
    STATUS_NAME(CUDNN_STATUS_NOT_SUPPORTED_SHAPE)
    STATUS_NAME(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE)
    STATUS_NAME(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT)
    STATUS_NAME(CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH)
    STATUS_NAME(CUDNN_STATUS_INTERNAL_ERROR)
    STATUS_NAME(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED)
    STATUS_NAME(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    STATUS_NAME(CUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED)
    STATUS_NAME(CUDNN_STATUS_EXECUTION_FAILED)
    STATUS_NAME(CUDNN_STATUS_EXECUTION_FAILED_CUDART)
  }
#undef STATUS_NAME
  return "CUDNN_UNKNOWN_STATUS";
}

void cudnnGetLastErrorString(char* message, std::size_t max_size) {
  const std::string text = take_last_error();
  if (message == nullptr || max_size == 0) return;
  const std::size_t length = std::min(text.size(), max_size - 1);
  std::memcpy(message, text.data(), length);
  message[length] = 0;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  int code = 0;
  if (fails("cudnnCreate", current_device, &code))
    return refuse(code != 0 ? static_cast<cudnnStatus_t>(code) : CUDNN_STATUS_ALLOC_FAILED,
                  "cudnnCreate fails by a setting");
  if (handle == nullptr) return refuse(CUDNN_STATUS_BAD_PARAM, "cudnnCreate: null");
  if (settings().gpus == 0) return refuse(CUDNN_STATUS_NOT_INITIALIZED, "cudnnCreate: there is no GPU");
  if (capture_forbids("cudnnCreate"))
    return refuse(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
                  "cudnnCreate while a stream is captured");
  auto dnn = std::make_shared<DnnHandle>();
  dnn->device = current_device;
  *handle = handles().add<cudnnHandle_t>(std::move(dnn));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  if (handle == nullptr) return CUDNN_STATUS_SUCCESS;
  const std::shared_ptr<DnnHandle> dnn = handles().remove(handle, "cudnnDestroy");
  if (dnn == nullptr) return CUDNN_STATUS_BAD_PARAM;
  int code = 0;
  if (fails("cudnnDestroy", dnn->device, &code))
    return code != 0 ? static_cast<cudnnStatus_t>(code) : CUDNN_STATUS_INTERNAL_ERROR;
  wait_before_destroying("cudnnDestroy", dnn->device);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  const auto dnn = begin(handle, "cudnnSetStream", &status);
  if (dnn == nullptr) return status;
  if (stream != nullptr) {
    const Stream* of = stream_of(stream, "cudnnSetStream");
    if (of == nullptr) return CUDNN_STATUS_BAD_PARAM;
    if (of->device != dnn->device) {
      complain("cudnnSetStream: a cuDNN handle of gpu:", dnn->device, " and a stream of gpu:", of->device);
      return CUDNN_STATUS_MAPPING_ERROR;
    }
  }
  dnn->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t convolution,
                                                     cudnnTensorDescriptor_t y, int requested, int* returned,
                                                     cudnnConvolutionFwdAlgoPerf_t* results) {
  return list_algorithms("cudnnGetConvolutionForwardAlgorithm_v7", Direction::forward, handle, x, w,
                         convolution, y, requested, returned, results);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t w,
                                                      cudnnConvolutionDescriptor_t convolution,
                                                      cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t algorithm,
                                                      std::size_t* bytes) {
  return get_workspace("cudnnGetConvolutionForwardWorkspaceSize", Direction::forward, handle, x, w,
                       convolution, y, algorithm, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x,
                                      const void* x_data, cudnnFilterDescriptor_t w, const void* w_data,
                                      cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                      std::size_t workspace_bytes, const void* beta,
                                      cudnnTensorDescriptor_t y, void* y_data) {
  return run({Direction::forward, handle, algorithm, alpha, beta, x, w, convolution, y, x_data, w_data,
              y_data, workspace, workspace_bytes});
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle, cudnnFilterDescriptor_t w,
                                                          cudnnTensorDescriptor_t dy,
                                                          cudnnConvolutionDescriptor_t convolution,
                                                          cudnnTensorDescriptor_t dx, int requested,
                                                          int* returned,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return list_algorithms("cudnnGetConvolutionBackwardDataAlgorithm_v7", Direction::backward_data, handle, dx,
                         w, convolution, dy, requested, returned, results);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t handle, cudnnFilterDescriptor_t w,
                                                           cudnnTensorDescriptor_t dy,
                                                           cudnnConvolutionDescriptor_t convolution,
                                                           cudnnTensorDescriptor_t dx,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm,
                                                           std::size_t* bytes) {
  return get_workspace("cudnnGetConvolutionBackwardDataWorkspaceSize", Direction::backward_data, handle, dx,
                       w, convolution, dy, algorithm, bytes);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w,
                                           const void* w_data, cudnnTensorDescriptor_t dy,
                                           const void* dy_data, cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           std::size_t workspace_bytes, const void* beta,
                                           cudnnTensorDescriptor_t dx, void* dx_data) {
  return run({Direction::backward_data, handle, algorithm, alpha, beta, dx, w, convolution, dy, dx_data,
              w_data, dy_data, workspace, workspace_bytes});
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                            cudnnTensorDescriptor_t dy,
                                                            cudnnConvolutionDescriptor_t convolution,
                                                            cudnnFilterDescriptor_t dw, int requested,
                                                            int* returned,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return list_algorithms("cudnnGetConvolutionBackwardFilterAlgorithm_v7", Direction::backward_filter, handle,
                         x, dw, convolution, dy, requested, returned, results);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                             cudnnTensorDescriptor_t dy,
                                                             cudnnConvolutionDescriptor_t convolution,
                                                             cudnnFilterDescriptor_t dw,
                                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                                             std::size_t* bytes) {
  return get_workspace("cudnnGetConvolutionBackwardFilterWorkspaceSize", Direction::backward_filter, handle,
                       x, dw, convolution, dy, algorithm, bytes);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             cudnnTensorDescriptor_t x, const void* x_data,
                                             cudnnTensorDescriptor_t dy, const void* dy_data,
                                             cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             std::size_t workspace_bytes, const void* beta,
                                             cudnnFilterDescriptor_t dw, void* dw_data) {
  return run({Direction::backward_filter, handle, algorithm, alpha, beta, x, dw, convolution, dy, x_data,
              dw_data, dy_data, workspace, workspace_bytes});
}

}  // extern "C"
