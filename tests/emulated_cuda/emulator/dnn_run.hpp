// cuDNN's handles, and the three calls that compute.
#pragma once

#include "dnn_algorithms.hpp"

namespace emulated::dnn {

struct DnnHandle {
  int device = 0;
  cudaStream_t stream = nullptr;
};
Registry<DnnHandle>& handles();

/// Start of every call with a handle. Null: return `status`.
std::shared_ptr<DnnHandle> begin(cudnnHandle_t handle, const char* function, cudnnStatus_t* status);

/// The problem given by descriptors, or a status other than success.
cudnnStatus_t find_problem(const char* function, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                           cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y,
                           Problem* problem);

/// The arguments of a convolution in any direction: x and y are the input and output of the forward one, or
/// their gradients.
struct Call {
  Direction direction;
  cudnnHandle_t handle;
  int algorithm;
  const void *alpha, *beta;
  cudnnTensorDescriptor_t x;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t convolution;
  cudnnTensorDescriptor_t y;
  const void *x_data, *w_data, *y_data;
  void* workspace;
  std::size_t workspace_bytes;
};
cudnnStatus_t run(const Call& call);

}  // namespace emulated::dnn
