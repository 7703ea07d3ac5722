// cuDNN's descriptors as the emulator stores them, and one convolution built from them.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "blas_registry.hpp"

namespace emulated::dnn {

inline constexpr int kMostAxes = 8;  ///< of a tensor

/// Lengths and strides in elements, from the batch on.
struct TensorDescriptor {
  bool set = false;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<std::int64_t> dims, strides;
};
/// Output channels, input channels of a group, spatial axes; packed.
struct FilterDescriptor {
  bool set = false;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  std::vector<std::int64_t> dims;
};
struct ConvolutionDescriptor {
  bool set = false;
  cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  int groups = 1;
  std::vector<std::int64_t> pad, stride, dilation;
};

Registry<TensorDescriptor>& tensors();
Registry<FilterDescriptor>& filters();
Registry<ConvolutionDescriptor>& convolutions();

/// What cudnnGetLastErrorString reports about the calling thread's latest refusal; reading clears it.
void set_last_error(std::string text);
std::string take_last_error();

/// Returns `status` and records its reason for cudnnGetLastErrorString.
template <class... Parts>
cudnnStatus_t refuse(cudnnStatus_t status, const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  set_last_error(out.str());
  return status;
}

/// The four orders that matter to cuDNN's algorithms. Axes of length 1 may have any stride.
struct Packing {
  bool channels_first = false;  ///< fully packed, N C spatial
  bool channels_last = false;   ///< fully packed, N spatial C
  bool chw = false;             ///< N may have any stride; then C spatial
  bool hw = false;              ///< N and C may have any stride; the spatial axes are packed
};
Packing packing_of(const TensorDescriptor& tensor);
/// Elements from the first to the last.
std::int64_t extent_of(const TensorDescriptor& tensor);
/// Do two elements share memory? (As cuDNN's documentation defines it, by lengths and strides.)
bool overlaps_itself(const TensorDescriptor& tensor);
std::size_t size_of(cudnnDataType_t type);

struct Axis {
  std::int64_t in = 1, out = 1, kernel = 1, pad = 0, stride = 1, dilation = 1;
};

/// One convolution, always with three spatial axes: shorter tensors get leading axes of length 1.
struct Problem {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  bool channels_last = false;  ///< the filter's order
  bool flipped = false;        ///< CUDNN_CONVOLUTION
  int spatial_axes = 2;        ///< those of the tensors: 2 or 3
  std::int64_t batch = 1, in_channels = 1, out_channels = 1, groups = 1;
  Axis axes[3];
  TensorDescriptor x, y;  ///< (N, C, three spatial axes)
  Packing x_packing, y_packing;

  std::int64_t in_per_group() const { return in_channels / groups; }
  std::int64_t out_per_group() const { return out_channels / groups; }
  std::int64_t taps() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }
  std::int64_t inputs() const { return axes[0].in * axes[1].in * axes[2].in; }  ///< positions of a channel
  std::int64_t positions() const {
    return axes[0].out * axes[1].out * axes[2].out;
  }                                                               ///< of an output channel
  std::int64_t depth() const { return in_per_group() * taps(); }  ///< products of one output
  std::int64_t weights() const { return out_channels * depth(); }
  std::uint64_t flops() const {
    return 2 * static_cast<std::uint64_t>(batch) * static_cast<std::uint64_t>(weights()) *
           static_cast<std::uint64_t>(positions());
  }
  std::size_t element() const { return size_of(type); }
};

/// Checks what all algorithms require of the descriptors.
cudnnStatus_t make_problem(const TensorDescriptor& x, const FilterDescriptor& w,
                           const ConvolutionDescriptor& convolution, const TensorDescriptor& y,
                           Problem* problem);

}  // namespace emulated::dnn
