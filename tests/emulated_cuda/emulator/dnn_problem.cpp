#include "dnn_problem.hpp"

#include <algorithm>
#include <utility>

namespace emulated::dnn {

namespace {

thread_local std::string last_message;

/// Is each axis of `order` (innermost first) as far from the next as packed memory requires? Only axes longer
/// than 1 count.
bool is_packed(const TensorDescriptor& tensor, const std::vector<std::size_t>& order) {
  std::int64_t step = 1;
  for (const std::size_t axis : order) {
    if (tensor.dims[axis] > 1 && tensor.strides[axis] != step) return false;
    step *= tensor.dims[axis];
  }
  return true;
}

}  // namespace

void set_last_error(std::string text) { last_message = std::move(text); }
std::string take_last_error() { return std::exchange(last_message, std::string()); }

std::size_t size_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
    case CUDNN_DATA_INT64:
      return 8;
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32:
      return 4;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    case CUDNN_DATA_INT8:
      return 1;
  }
  return 0;
}

Packing packing_of(const TensorDescriptor& tensor) {
  std::vector<std::size_t> spatial;
  for (std::size_t axis = tensor.dims.size() - 1; axis >= 2; --axis) spatial.push_back(axis);
  const auto ordered = [&](std::vector<std::size_t> first, const std::vector<std::size_t>& then) {
    first.insert(first.end(), then.begin(), then.end());
    return first;
  };
  Packing packing;
  packing.hw = is_packed(tensor, spatial);
  packing.chw = is_packed(tensor, ordered(spatial, {1}));
  packing.channels_first = is_packed(tensor, ordered(spatial, {1, 0}));
  packing.channels_last = is_packed(tensor, ordered(ordered({1}, spatial), {0}));
  return packing;
}

std::int64_t extent_of(const TensorDescriptor& tensor) {
  std::int64_t last = 0;
  for (std::size_t axis = 0; axis < tensor.dims.size(); ++axis)
    last += (tensor.dims[axis] - 1) * tensor.strides[axis];
  return last + 1;
}

bool overlaps_itself(const TensorDescriptor& tensor) {
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride, length
  for (std::size_t axis = 0; axis < tensor.dims.size(); ++axis)
    if (tensor.dims[axis] > 1) axes.emplace_back(tensor.strides[axis], tensor.dims[axis]);
  std::sort(axes.begin(), axes.end());
  std::int64_t covered = 1;  // elements up to the last one of the axes so far
  for (const auto& [stride, length] : axes) {
    if (stride < covered) return true;
    covered += (length - 1) * stride;
  }
  return false;
}

namespace {

/// The tensor with ones for missing spatial axes.
TensorDescriptor with_three_spatial_axes(const TensorDescriptor& tensor) {
  TensorDescriptor wide = tensor;
  const std::size_t missing = 5 - tensor.dims.size();
  wide.dims.insert(wide.dims.begin() + 2, missing, 1);
  wide.strides.insert(wide.strides.begin() + 2, missing, 1);
  return wide;
}

cudnnStatus_t check_types(const TensorDescriptor& x, const FilterDescriptor& w,
                          const ConvolutionDescriptor& convolution, const TensorDescriptor& y) {
  if (!x.set || !w.set || !convolution.set || !y.set)
    return refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor was created, but never set");
  if (x.type != w.type || x.type != y.type)
    return refuse(CUDNN_STATUS_BAD_PARAM, "tensors and filter of different data types");
  if (x.type != CUDNN_DATA_FLOAT && x.type != CUDNN_DATA_DOUBLE && x.type != CUDNN_DATA_BFLOAT16)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                  "the emulator knows float, double and bfloat16 tensors alone");
  if (convolution.compute_type != (x.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                  "float and bfloat16 tensors are computed in float, double ones in double");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_channels(const TensorDescriptor& x, const FilterDescriptor& w,
                             const ConvolutionDescriptor& convolution, const TensorDescriptor& y) {
  const std::size_t axes = x.dims.size();
  if (y.dims.size() != axes || w.dims.size() != axes || convolution.pad.size() + 2 != axes)
    return refuse(CUDNN_STATUS_BAD_PARAM, "tensors, filter and convolution have different numbers of axes");
  if (axes != 4 && axes != 5)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "tensors have ", axes, " axes, not 4 or 5");
  if (x.dims[0] != y.dims[0])
    return refuse(CUDNN_STATUS_BAD_PARAM, "batches of ", x.dims[0], " and ", y.dims[0]);
  if (w.dims[1] * convolution.groups != x.dims[1])
    return refuse(CUDNN_STATUS_BAD_PARAM, "input of ", x.dims[1], " channels, filter for ",
                  convolution.groups, " times ", w.dims[1]);
  if (w.dims[0] != y.dims[1])
    return refuse(CUDNN_STATUS_BAD_PARAM, "output of ", y.dims[1], " channels, filter for ", w.dims[0]);
  if (w.dims[0] % convolution.groups != 0)
    return refuse(CUDNN_STATUS_BAD_PARAM, w.dims[0], " output channels in ", convolution.groups, " groups");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_memory(const TensorDescriptor& x, const TensorDescriptor& y) {
  for (const TensorDescriptor* tensor : {&x, &y}) {
    for (const std::int64_t stride : tensor->strides)
      if (stride < 0) return refuse(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "a tensor with a stride of ", stride);
    if (overlaps_itself(*tensor))
      return refuse(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "a tensor whose elements share memory");
  }
  return CUDNN_STATUS_SUCCESS;
}

/// Makes the spatial axis `index` of the tensors.
cudnnStatus_t make_axis(const TensorDescriptor& x, const FilterDescriptor& w,
                        const ConvolutionDescriptor& convolution, const TensorDescriptor& y,
                        std::size_t index, Axis* axis) {
  *axis = {x.dims[index + 2],      y.dims[index + 2],         w.dims[index + 2],
           convolution.pad[index], convolution.stride[index], convolution.dilation[index]};
  const std::int64_t reach = (axis->kernel - 1) * axis->dilation + 1, padded = axis->in + 2 * axis->pad;
  if (reach > padded)
    return refuse(CUDNN_STATUS_BAD_PARAM, "a filter that reaches over ", reach, " elements on an axis of ",
                  padded, " with padding");
  const std::int64_t expected = (padded - reach) / axis->stride + 1;
  if (axis->out != expected)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "an output axis of ", axis->out, " elements, expected ",
                  expected);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t make_problem(const TensorDescriptor& x, const FilterDescriptor& w,
                           const ConvolutionDescriptor& convolution, const TensorDescriptor& y,
                           Problem* problem) {
  cudnnStatus_t status = check_types(x, w, convolution, y);
  if (status == CUDNN_STATUS_SUCCESS) status = check_channels(x, w, convolution, y);
  if (status == CUDNN_STATUS_SUCCESS) status = check_memory(x, y);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  Problem p;
  p.spatial_axes = static_cast<int>(x.dims.size()) - 2;
  for (std::size_t i = 0; i < convolution.pad.size(); ++i) {
    status = make_axis(x, w, convolution, y, i, &p.axes[i + 3 - convolution.pad.size()]);
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  p.type = x.type;
  p.math = convolution.math;
  p.channels_last = w.format == CUDNN_TENSOR_NHWC;
  p.flipped = convolution.mode == CUDNN_CONVOLUTION;
  p.batch = x.dims[0];
  p.in_channels = x.dims[1];
  p.out_channels = y.dims[1];
  p.groups = convolution.groups;
  p.x = with_three_spatial_axes(x);
  p.y = with_three_spatial_axes(y);
  p.x_packing = packing_of(p.x);
  p.y_packing = packing_of(p.y);
  *problem = std::move(p);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace emulated::dnn
