// cuDNN's descriptors: created, set, destroyed. What cuDNN refuses to set is refused with its status.
#include <algorithm>

#include "dnn_problem.hpp"

namespace emulated::dnn {

Registry<TensorDescriptor>& tensors() {
  static auto* const kTensors = new Registry<TensorDescriptor>("tensor descriptor");
  return *kTensors;
}
Registry<FilterDescriptor>& filters() {
  static auto* const kFilters = new Registry<FilterDescriptor>("filter descriptor");
  return *kFilters;
}
Registry<ConvolutionDescriptor>& convolutions() {
  static auto* const kConvolutions = new Registry<ConvolutionDescriptor>("convolution descriptor");
  return *kConvolutions;
}

namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 31;  ///< fewer than these

/// Does the call fail because of a setting?
bool fails_with(const char* function, cudnnStatus_t usual, cudnnStatus_t* status) {
  int code = 0;
  if (!fails(function, current_device, &code)) return false;
  *status = refuse(code != 0 ? static_cast<cudnnStatus_t>(code) : usual, function,
                   " fails by a setting of the emulated machine");
  return true;
}

template <class T, class Handle>
cudnnStatus_t create(const char* function, Registry<T>& registry, Handle* handle) {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (fails_with(function, CUDNN_STATUS_ALLOC_FAILED, &status)) return status;
  if (handle == nullptr) return refuse(CUDNN_STATUS_BAD_PARAM, function, ": null");
  *handle = registry.template add<Handle>(std::make_shared<T>());
  return CUDNN_STATUS_SUCCESS;
}

template <class T>
cudnnStatus_t destroy(const char* function, Registry<T>& registry, const void* handle) {
  if (handle == nullptr) return CUDNN_STATUS_SUCCESS;
  if (registry.remove(handle, function) == nullptr) return CUDNN_STATUS_BAD_PARAM;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  fails_with(function, CUDNN_STATUS_INTERNAL_ERROR, &status);
  return status;
}

/// Start of every call that sets a descriptor. Null: return `status`.
template <class T>
std::shared_ptr<T> begin(const char* function, Registry<T>& registry, const void* handle,
                         cudnnStatus_t* status) {
  if (fails_with(function, CUDNN_STATUS_INTERNAL_ERROR, status)) return nullptr;
  *status = CUDNN_STATUS_BAD_PARAM;
  return registry.find(handle, function);
}

/// For an array that cuDNN would read unchecked.
bool is_given(const char* function, const int* array, int length) {
  if (array != nullptr || length <= 0) return true;
  complain(function, ": a null pointer instead of ", length, " numbers");
  return false;
}

bool is_type(cudnnDataType_t type) { return size_of(type) != 0; }

std::vector<std::int64_t> copied(const int* values, int count) { return {values, values + count}; }

}  // namespace

}  // namespace emulated::dnn

using namespace emulated;
using namespace emulated::dnn;

extern "C" {

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  return create("cudnnCreateTensorDescriptor", tensors(), tensor);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  return destroy("cudnnDestroyTensorDescriptor", tensors(), tensor);
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t handle, cudnnDataType_t type, int axes,
                                         const int dims[], const int strides[]) {
  constexpr const char* kName = "cudnnSetTensorNdDescriptor";
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  const auto tensor = begin(kName, tensors(), handle, &status);
  if (tensor == nullptr) return status;
  if (!is_given(kName, dims, axes) || !is_given(kName, strides, axes))
    return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (axes <= 1 || !is_type(type))
    return refuse(CUDNN_STATUS_BAD_PARAM, "tensor of ", axes, " axes, data type ", type);
  // The documentation requires 4 axes, though the library itself accepts fewer.
  if (axes < 4 || axes > kMostAxes)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "tensor of ", axes, " axes, not 4 to ", kMostAxes);
  TensorDescriptor made{true, type, copied(dims, axes), copied(strides, axes)};
  std::int64_t reach = 1;
  for (std::size_t axis = 0; axis < made.dims.size(); ++axis) {
    const std::int64_t length = made.dims[axis], stride = made.strides[axis];
    if (length <= 0) return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor's axis of ", length, " elements");
    if (stride == 0 && length > 1)
      return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor's axis of ", length, " elements with stride 0");
    reach += (length - 1) * std::max<std::int64_t>(stride, -stride);
  }
  if (reach >= kMostElements)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a tensor over ", reach, " elements: 2^31 or more");
  *tensor = std::move(made);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  return create("cudnnCreateFilterDescriptor", filters(), filter);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  return destroy("cudnnDestroyFilterDescriptor", filters(), filter);
}

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t handle, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int axes, const int dims[]) {
  constexpr const char* kName = "cudnnSetFilterNdDescriptor";
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  const auto filter = begin(kName, filters(), handle, &status);
  if (filter == nullptr) return status;
  if (!is_given(kName, dims, axes)) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (axes < 3 || !is_type(type))
    return refuse(CUDNN_STATUS_BAD_PARAM, "filter of ", axes, " axes, data type ", type);
  if (axes > kMostAxes)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "filter of ", axes, " axes, more than ", kMostAxes);
  // The third format is for vectors of small integers, which the emulator does not support.
  if (format != CUDNN_TENSOR_NCHW && format != CUDNN_TENSOR_NHWC)
    return refuse(CUDNN_STATUS_BAD_PARAM, "filter of format ", format);
  FilterDescriptor made{true, type, format, copied(dims, axes)};
  for (const std::int64_t length : made.dims)
    if (length <= 0) return refuse(CUDNN_STATUS_BAD_PARAM, "a filter's axis of ", length, " elements");
  *filter = std::move(made);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* convolution) {
  return create("cudnnCreateConvolutionDescriptor", convolutions(), convolution);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) {
  return destroy("cudnnDestroyConvolutionDescriptor", convolutions(), convolution);
}

cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t handle, int axes, const int pad[],
                                              const int stride[], const int dilation[],
                                              cudnnConvolutionMode_t mode, cudnnDataType_t compute_type) {
  constexpr const char* kName = "cudnnSetConvolutionNdDescriptor";
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  const auto convolution = begin(kName, convolutions(), handle, &status);
  if (convolution == nullptr) return status;
  for (const int* array : {pad, stride, dilation})
    if (!is_given(kName, array, axes)) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (axes < 0) return refuse(CUDNN_STATUS_BAD_PARAM, "convolution over ", axes, " axes");
  if (axes > kMostAxes - 2)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "convolution over ", axes, " axes, more than ", kMostAxes - 2);
  if (mode != CUDNN_CONVOLUTION && mode != CUDNN_CROSS_CORRELATION)
    return refuse(CUDNN_STATUS_BAD_PARAM, "convolution mode ", mode);
  if (compute_type != CUDNN_DATA_FLOAT && compute_type != CUDNN_DATA_DOUBLE &&
      compute_type != CUDNN_DATA_HALF && compute_type != CUDNN_DATA_INT32)
    return refuse(CUDNN_STATUS_BAD_PARAM, "convolution computed in data type ", compute_type);
  for (int i = 0; i < axes; ++i)
    if (pad[i] < 0 || stride[i] <= 0 || dilation[i] <= 0)
      return refuse(CUDNN_STATUS_BAD_PARAM, "convolution with padding ", pad[i], ", stride ", stride[i],
                    ", dilation ", dilation[i]);
  convolution->set = true;
  convolution->compute_type = compute_type;
  convolution->mode = mode;
  convolution->pad = copied(pad, axes);
  convolution->stride = copied(stride, axes);
  convolution->dilation = copied(dilation, axes);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t handle, int groups) {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  const auto convolution = begin("cudnnSetConvolutionGroupCount", convolutions(), handle, &status);
  if (convolution == nullptr) return status;
  if (groups < 1) return refuse(CUDNN_STATUS_BAD_PARAM, "convolution in ", groups, " groups");
  convolution->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t handle, cudnnMathType_t math) {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  const auto convolution = begin("cudnnSetConvolutionMathType", convolutions(), handle, &status);
  if (convolution == nullptr) return status;
  if (math < CUDNN_DEFAULT_MATH || math > CUDNN_FMA_MATH)
    return refuse(CUDNN_STATUS_BAD_PARAM, "convolution with math type ", math);
  convolution->math = math;
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
