#include "ops/cuda/convolution_plan.hpp"

#include <algorithm>
#include <limits>

#include "ops/cuda/handles.hpp"
#include "ops/cuda/limits.hpp"

namespace banyan::ops {

namespace {

/// Algorithms that need more are skipped: they are a few per cent faster but take memory from the net.
constexpr std::size_t kMostWorkspaceBytes = std::size_t{512} << 20;

int to_int(std::int64_t value) {
  if (value > std::numeric_limits<int>::max())
    runtime_failure("convolution: an axis or a stride of ", value, " elements is too long for cuDNN");
  return static_cast<int>(value);
}

/// cuDNN requires at least two spatial axes: puts `leading` entries of `value` in front of the others.
std::vector<int> padded_axes(const std::vector<std::int64_t>& values, std::size_t leading, int value) {
  std::vector<int> result(leading, value);
  for (const std::int64_t each : values) result.push_back(to_int(each));
  return result;
}

TensorDescriptor tensor_descriptor(const Device& device, cudnnDataType_t type, const Shape& shape,
                                   std::size_t leading, bool channels_last) {
  std::vector<std::int64_t> lengths{shape[0], shape[1]};
  lengths.insert(lengths.end(), leading, 1);
  for (int axis = 2; axis < shape.axes(); ++axis) lengths.push_back(shape[axis]);
  // Strides from the innermost axis outwards: spatial axes, then the channel, or vice versa; the batch last.
  std::vector<std::int64_t> strides(lengths.size());
  std::int64_t step = channels_last ? lengths[1] : 1;
  for (std::size_t axis = lengths.size() - 1; axis >= 2; --axis) {
    strides[axis] = step;
    step *= lengths[axis];
  }
  strides[1] = channels_last ? 1 : step;
  strides[0] = channels_last ? step : step * lengths[1];
  const std::vector<int> dims = padded_axes(lengths, 0, 0), steps = padded_axes(strides, 0, 0);
  cudnnTensorDescriptor_t raw = nullptr;
  cudnn_check(cudnnCreateTensorDescriptor(&raw), "cudnnCreateTensorDescriptor", device);
  TensorDescriptor descriptor(raw);
  cudnn_check(cudnnSetTensorNdDescriptor(raw, type, static_cast<int>(dims.size()), dims.data(), steps.data()),
              cat("cudnnSetTensorNdDescriptor for ", shape.to_string()), device);
  return descriptor;
}

FilterDescriptor filter_descriptor(const Device& device, cudnnDataType_t type,
                                   const ConvolutionGeometry& geometry, std::size_t leading,
                                   bool channels_last) {
  std::vector<int> dims{to_int(geometry.out_channels), to_int(geometry.in_channels / geometry.group)};
  const std::vector<int> kernel = padded_axes(geometry.kernel, leading, 1);
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  cudnnFilterDescriptor_t raw = nullptr;
  cudnn_check(cudnnCreateFilterDescriptor(&raw), "cudnnCreateFilterDescriptor", device);
  FilterDescriptor descriptor(raw);
  const cudnnTensorFormat_t format = channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  cudnn_check(cudnnSetFilterNdDescriptor(raw, type, format, static_cast<int>(dims.size()), dims.data()),
              "cudnnSetFilterNdDescriptor", device);
  return descriptor;
}

cudnnDataType_t cudnn_type(DType dtype) {
  return dtype == DType::f64    ? CUDNN_DATA_DOUBLE
         : dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16
                                : CUDNN_DATA_FLOAT;
}

/// Of factors of that type?
bool uses_tensor_cores(const Device& device, DType dtype) {
  return dtype == DType::bf16 || (dtype == DType::f32 && device.math() == Math::tf32);
}

ConvolutionDescriptor convolution_descriptor(const Device& device, DType dtype,
                                             const ConvolutionGeometry& geometry, std::size_t leading) {
  const std::vector<int> pad = padded_axes(geometry.pad, leading, 0);
  const std::vector<int> stride = padded_axes(geometry.stride, leading, 1);
  const std::vector<int> dilation = padded_axes(geometry.dilation, leading, 1);
  cudnnConvolutionDescriptor_t raw = nullptr;
  cudnn_check(cudnnCreateConvolutionDescriptor(&raw), "cudnnCreateConvolutionDescriptor", device);
  ConvolutionDescriptor descriptor(raw);
  cudnn_check(cudnnSetConvolutionNdDescriptor(raw, static_cast<int>(pad.size()), pad.data(), stride.data(),
                                              dilation.data(), CUDNN_CROSS_CORRELATION,
                                              dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT),
              "cudnnSetConvolutionNdDescriptor", device);
  cudnn_check(cudnnSetConvolutionGroupCount(raw, to_int(geometry.group)), "cudnnSetConvolutionGroupCount",
              device);
  // cuDNN's default lets f32 be rounded to TF32, and does not use tensor cores for bf16.
  const cudnnMathType_t math = !uses_tensor_cores(device, dtype) ? CUDNN_FMA_MATH
                               : dtype == DType::bf16            ? CUDNN_TENSOR_OP_MATH
                                                                 : CUDNN_DEFAULT_MATH;
  cudnn_check(cudnnSetConvolutionMathType(raw, math), "cudnnSetConvolutionMathType", device);
  return descriptor;
}

// The three directions of cuDNN's interface differ only in names and argument order. `kKnown`: documented as
// deterministic, and general. `plain`: direct sums of products. Transforms (FFT, Winograd) are excluded: in
// f32 their rounding errors are several times as large, and whether one is chosen depends on the batch, so
// devices with different shares would differ from one device with the whole batch by more than the order of
// additions.

struct Forward {
  using Performance = cudnnConvolutionFwdAlgoPerf_t;
  using Algorithm = cudnnConvolutionFwdAlgo_t;
  static constexpr int kCount = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
  static constexpr const char* kRankCall = "cudnnGetConvolutionForwardAlgorithm_v7";
  static constexpr const char* kWorkspaceCall = "cudnnGetConvolutionForwardWorkspaceSize";
  static constexpr Algorithm kKnown[] = {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                                         CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM};
  static bool plain(Algorithm algorithm) {
    return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM ||
           algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM ||
           algorithm == CUDNN_CONVOLUTION_FWD_ALGO_GEMM;
  }
  static cudnnStatus_t rank(cudnnHandle_t handle, const ConvolutionFormat& f,
                            cudnnConvolutionDescriptor_t convolution, int most, int* found,
                            Performance* results) {
    return cudnnGetConvolutionForwardAlgorithm_v7(handle, f.input.get(), f.weight.get(), convolution,
                                                  f.output.get(), most, found, results);
  }
  static cudnnStatus_t workspace(cudnnHandle_t handle, const ConvolutionFormat& f,
                                 cudnnConvolutionDescriptor_t convolution, Algorithm algorithm,
                                 std::size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(handle, f.input.get(), f.weight.get(), convolution,
                                                   f.output.get(), algorithm, bytes);
  }
};

struct BackwardData {
  using Performance = cudnnConvolutionBwdDataAlgoPerf_t;
  using Algorithm = cudnnConvolutionBwdDataAlgo_t;
  static constexpr int kCount = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
  static constexpr const char* kRankCall = "cudnnGetConvolutionBackwardDataAlgorithm_v7";
  static constexpr const char* kWorkspaceCall = "cudnnGetConvolutionBackwardDataWorkspaceSize";
  static constexpr Algorithm kKnown[] = {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1};
  static bool plain(Algorithm algorithm) { return algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1; }
  static cudnnStatus_t rank(cudnnHandle_t handle, const ConvolutionFormat& f,
                            cudnnConvolutionDescriptor_t convolution, int most, int* found,
                            Performance* results) {
    return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, f.weight.get(), f.output.get(), convolution,
                                                       f.input.get(), most, found, results);
  }
  static cudnnStatus_t workspace(cudnnHandle_t handle, const ConvolutionFormat& f,
                                 cudnnConvolutionDescriptor_t convolution, Algorithm algorithm,
                                 std::size_t* bytes) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, f.weight.get(), f.output.get(), convolution,
                                                        f.input.get(), algorithm, bytes);
  }
};

struct BackwardWeight {
  using Performance = cudnnConvolutionBwdFilterAlgoPerf_t;
  using Algorithm = cudnnConvolutionBwdFilterAlgo_t;
  static constexpr int kCount = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
  static constexpr const char* kRankCall = "cudnnGetConvolutionBackwardFilterAlgorithm_v7";
  static constexpr const char* kWorkspaceCall = "cudnnGetConvolutionBackwardFilterWorkspaceSize";
  static constexpr Algorithm kKnown[] = {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1};
  static bool plain(Algorithm algorithm) { return algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1; }
  static cudnnStatus_t rank(cudnnHandle_t handle, const ConvolutionFormat& f,
                            cudnnConvolutionDescriptor_t convolution, int most, int* found,
                            Performance* results) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, f.input.get(), f.output.get(), convolution,
                                                         f.weight.get(), most, found, results);
  }
  static cudnnStatus_t workspace(cudnnHandle_t handle, const ConvolutionFormat& f,
                                 cudnnConvolutionDescriptor_t convolution, Algorithm algorithm,
                                 std::size_t* bytes) {
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, f.input.get(), f.output.get(), convolution,
                                                          f.weight.get(), algorithm, bytes);
  }
};

/// Does cuDNN have an answer? False if it reports that it does not support such arguments, as it would on
/// every such GPU. Other failures throw: a list shortened by lack of memory would make this device use other
/// kernels than its replicas, and arguments that contradict each other are a fault of ours.
bool answered(cudnnStatus_t status, const char* call, const Device& device) {
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return false;
  cudnn_check(status, call, device);
  return true;
}

/// Adds one algorithm unless it is listed already, is refused, or needs too much memory.
template <class Direction>
void add_attempt(std::vector<ConvolutionAttempt>& list, const Device& device, cudnnHandle_t handle,
                 const ConvolutionFormat& format, cudnnConvolutionDescriptor_t convolution,
                 typename Direction::Algorithm algorithm, std::size_t most_bytes) {
  for (const ConvolutionAttempt& attempt : list)
    if (attempt.format == &format && attempt.algorithm == static_cast<int>(algorithm)) return;
  std::size_t bytes = 0;
  // Queried again, not taken from the heuristics, because it must be for the descriptor's math type.
  if (!answered(Direction::workspace(handle, format, convolution, algorithm, &bytes),
                Direction::kWorkspaceCall, device))
    return;
  if (bytes <= most_bytes) list.push_back({&format, static_cast<int>(algorithm), bytes});
}

template <class Direction>
ConvolutionAttempts find_attempts(const Device& device, cudnnHandle_t handle,
                                  cudnnConvolutionDescriptor_t convolution,
                                  const std::vector<std::unique_ptr<ConvolutionFormat>>& formats,
                                  bool tensor_cores) {
  ConvolutionAttempts attempts;
  for (const auto& format : formats) {
    // An algorithm may be listed twice, with and without tensor cores.
    constexpr int kMost = 2 * Direction::kCount;
    typename Direction::Performance results[kMost];
    int found = 0;
    if (!answered(Direction::rank(handle, *format, convolution, kMost, &found, results), Direction::kRankCall,
                  device))
      found = 0;
    for (int i = 0; i < found; ++i) {
      // Tensor cores would round f32 factors to TF32.
      const bool fits = results[i].mathType == CUDNN_DEFAULT_MATH || results[i].mathType == CUDNN_FMA_MATH ||
                        (tensor_cores && results[i].mathType == CUDNN_TENSOR_OP_MATH);
      if (results[i].status == CUDNN_STATUS_SUCCESS && results[i].determinism == CUDNN_DETERMINISTIC &&
          fits && Direction::plain(results[i].algo))
        add_attempt<Direction>(attempts.list, device, handle, *format, convolution, results[i].algo,
                               kMostWorkspaceBytes);
    }
    for (const auto algorithm : Direction::kKnown)
      add_attempt<Direction>(attempts.list, device, handle, *format, convolution, algorithm,
                             std::numeric_limits<std::size_t>::max());
  }
  return attempts;
}

/// Is a product over unfolded images better? Faster than cuDNN's deterministic algorithms without transforms
/// (tests/bench/gpu_convolutions.cpp times both; docs/bench/gpu_convolutions.md): without tensor cores, yes:
/// cuDNN's have small tiles, and those for gradients of weights add what many images contribute one after the
/// other. With them, no, but for images that need no unfolding, or little of it: cuDNN takes its time on the
/// host, too. A depthwise convolution's products would be too thin. It does not depend on the number of
/// samples: devices with fewer of them compute alike.
bool columns_are_better(const ColumnsProblem& problem, ConvolutionDirection direction, bool tensor_cores,
                        bool channels_last) {
  constexpr std::int64_t kMostGroups = 8, kMostUnfolded = std::int64_t{100} << 10;  // numbers of a sample
  if (problem.dtype == DType::f64 || problem.geometry.group > kMostGroups) return false;
  // cuDNN would round them to bf16.
  if (direction == ConvolutionDirection::backward_weight && problem.dtype == DType::bf16) return true;
  if (!channels_last) return false;
  const std::int64_t of_a_sample = unfolded_bytes(problem);
  // It would need more memory than it is worth.
  if (direction == ConvolutionDirection::backward_data && of_a_sample > most_columns_bytes()) return false;
  return !tensor_cores || of_a_sample <= kMostUnfolded * static_cast<std::int64_t>(size_of(problem.dtype));
}

}  // namespace

ConvolutionPlan::ConvolutionPlan(const Device& device, const ConvolutionGeometry& geometry, DType dtype,
                                 const Shape& input, const Shape& output, bool prefer_channels_last,
                                 Columns columns)
    : device_(&device) {
  const cudnnDataType_t type = cudnn_type(dtype);
  tensor_cores_ = uses_tensor_cores(device, dtype);
  const std::size_t leading = geometry.spatial_axes() == 1 ? 1 : 0;
  convolution_ = convolution_descriptor(device, dtype, geometry, leading);
  const auto add_format = [&](bool channels_last) {
    auto format = std::make_unique<ConvolutionFormat>();
    format->channels_last = channels_last;
    format->input = tensor_descriptor(device, type, input, leading, channels_last);
    format->output = tensor_descriptor(device, type, output, leading, channels_last);
    format->weight = filter_descriptor(device, type, geometry, leading, channels_last);
    formats_.push_back(std::move(format));
  };
  columns_format_.channels_last = true;
  const ColumnsProblem problem{geometry, dtype, input, output};
  for (const auto direction : {ConvolutionDirection::forward, ConvolutionDirection::backward_data,
                               ConvolutionDirection::backward_weight}) {
    const auto d = static_cast<std::size_t>(direction);
    columns_bytes_[d] = columns_bytes(problem, direction);
    columns_first_[d] = columns == Columns::by_rules &&
                        columns_are_better(problem, direction, tensor_cores_, prefer_channels_last);
  }
  // cuDNN has no channels-last kernels for f64 or for f32 volumes, nor, for some images, in f32 without
  // tensor cores. Contiguous always follows, because it supports everything.
  if (prefer_channels_last && dtype != DType::f64 && geometry.spatial_axes() <= 2) add_format(true);
  add_format(false);
}

ConvolutionAttempts& ConvolutionPlan::attempts(cudnnHandle_t handle, ConvolutionDirection direction) {
  const auto d = static_cast<std::size_t>(direction);
  std::optional<ConvolutionAttempts>& attempts = attempts_[d];
  if (attempts) return *attempts;
  if (!columns_first_[d]) {
    switch (direction) {
      case ConvolutionDirection::forward:
        attempts = find_attempts<Forward>(*device_, handle, convolution_.get(), formats_, tensor_cores_);
        break;
      case ConvolutionDirection::backward_data:
        attempts = find_attempts<BackwardData>(*device_, handle, convolution_.get(), formats_, tensor_cores_);
        break;
      case ConvolutionDirection::backward_weight:
        attempts =
            find_attempts<BackwardWeight>(*device_, handle, convolution_.get(), formats_, tensor_cores_);
        break;
    }
  } else {
    attempts.emplace().reported = true;
  }
  attempts->list.push_back({&columns_format_, kColumnsAlgorithm, columns_bytes_[d]});
  return *attempts;
}

}  // namespace banyan::ops
