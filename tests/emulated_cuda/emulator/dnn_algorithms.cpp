#include "dnn_algorithms.hpp"

#include <algorithm>

#include "rounding.hpp"

namespace emulated::dnn {

namespace {

// The rules below are those of the tables in cuDNN's documentation of its three functions. Where release
// notes partly lifted a rule (dilation: for images only), it stays for the rest.

/// Kinds of algorithm, common to the enumerators of the three directions.
enum class Method {
  simple,    ///< products without a workspace: forward IMPLICIT_GEMM, backward 0
  indexed,   ///< with precomputed indices: forward IMPLICIT_PRECOMP_GEMM, backward 1
  unfolded,  ///< forward GEMM
  reduced,   ///< backward filter 3
  fft,
  fft_tiling,
  winograd,
  winograd_nonfused,
  none  ///< an enumerator that cuDNN never implemented
};

Method method_of(Direction direction, int algorithm) {
  static constexpr Method kForward[] = {
      Method::simple, Method::indexed,    Method::unfolded, Method::none,
      Method::fft,    Method::fft_tiling, Method::winograd, Method::winograd_nonfused};
  static constexpr Method kData[] = {Method::simple,     Method::indexed,  Method::fft,
                                     Method::fft_tiling, Method::winograd, Method::winograd_nonfused};
  static constexpr Method kFilter[] = {Method::simple,    Method::indexed, Method::fft,
                                       Method::reduced,   Method::none,    Method::winograd_nonfused,
                                       Method::fft_tiling};
  if (algorithm < 0 || algorithm >= algorithms_of(direction)) return Method::none;
  switch (direction) {
    case Direction::forward:
      return kForward[algorithm];
    case Direction::backward_data:
      return kData[algorithm];
    case Direction::backward_filter:
      return kFilter[algorithm];
  }
  return Method::none;
}

cudnnStatus_t unsupported_layout(const char* why) { return refuse(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, why); }
cudnnStatus_t unsupported_shape(const char* why) { return refuse(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, why); }
cudnnStatus_t unsupported_type(const char* why) { return refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, why); }

template <class Test>
bool all_axes(const Problem& p, Test&& test) {
  return std::all_of(p.axes + 3 - p.spatial_axes, p.axes + 3, test);
}
bool has_dilation(const Problem& p) {
  return !all_axes(p, [](const Axis& a) { return a.dilation == 1; });
}
bool has_stride(const Problem& p) {
  return !all_axes(p, [](const Axis& a) { return a.stride == 1; });
}

/// Filters with the channel innermost: not in double, images, all three fully packed that way; plain products
/// only.
cudnnStatus_t check_channels_last(Direction direction, Method method, const Problem& p) {
  if (p.type == CUDNN_DATA_DOUBLE) return unsupported_type("channels-last filters in double");
  if (p.spatial_axes != 2) return unsupported_layout("channels-last filters of volumes");
  if (!p.x_packing.channels_last || !p.y_packing.channels_last)
    return unsupported_layout("a channels-last filter with tensors that are not packed channels-last");
  const bool offered = direction == Direction::forward
                           ? method == Method::indexed
                           : method == Method::simple || method == Method::indexed;
  if (!offered) return unsupported_layout("an algorithm that has no channels-last filters");
  return CUDNN_STATUS_SUCCESS;
}

/// Backward, the output's gradient must be packed except for the batch.
cudnnStatus_t check_gradient(Direction direction, const Problem& p) {
  if (direction == Direction::forward || p.y_packing.chw) return CUDNN_STATUS_SUCCESS;
  return unsupported_layout("an output gradient that is not packed (channels, then spatial axes)");
}

cudnnStatus_t check_products(Direction direction, Method method, const Problem& p) {
  const bool volume = p.spatial_axes == 3;
  switch (method) {
    case Method::indexed:
      if (volume && direction != Direction::forward && has_dilation(p))
        return unsupported_shape("dilation in volumes");
      if (volume && direction == Direction::backward_data && p.type == CUDNN_DATA_DOUBLE)
        return unsupported_type("volumes in double");
      if (volume && (!p.x_packing.channels_first || !p.y_packing.channels_first))
        return unsupported_layout("volumes that are not packed");
      return CUDNN_STATUS_SUCCESS;
    case Method::unfolded:
      if (volume) return unsupported_shape("volumes");
      return has_dilation(p) ? unsupported_shape("dilation") : CUDNN_STATUS_SUCCESS;
    case Method::reduced:
      return has_dilation(p) ? unsupported_shape("dilation") : CUDNN_STATUS_SUCCESS;
    default:
      return CUDNN_STATUS_SUCCESS;
  }
}

/// What both require; they transform whole axes, or tiles of them.
cudnnStatus_t check_transform(const Problem& p) {
  if (has_dilation(p)) return unsupported_shape("dilation");
  if (!p.x_packing.hw || !p.y_packing.hw) return unsupported_layout("spatial axes that are not packed");
  const auto reaches_inside = [](const Axis& a) { return a.kernel > a.pad; };
  return all_axes(p, reaches_inside) ? CUDNN_STATUS_SUCCESS
                                     : unsupported_shape("a filter that is not longer than the padding");
}

cudnnStatus_t check_fft(const Problem& p) {
  if (p.spatial_axes == 3) return unsupported_shape("volumes");
  if (p.type != CUDNN_DATA_FLOAT) return unsupported_type("double");
  if (has_stride(p)) return unsupported_shape("stride");
  const auto fits = [](const Axis& a) { return a.in + 2 * a.pad <= 256; };
  if (!all_axes(p, fits)) return unsupported_shape("an axis of more than 256 elements with padding");
  return check_transform(p);
}

cudnnStatus_t check_fft_tiling(Direction direction, const Problem& p) {
  if (p.spatial_axes == 3) {
    if (direction == Direction::backward_filter) return unsupported_shape("volumes");
    if (has_stride(p)) return unsupported_shape("stride");
    const auto is_short = [](const Axis& a) { return a.kernel <= 16; };
    return all_axes(p, is_short) ? check_transform(p) : unsupported_shape("a filter longer than 16 elements");
  }
  const Axis &height = p.axes[1], &width = p.axes[2];
  const bool one_axis = height.kernel == 1 || width.kernel == 1;  // a transform of rows or columns only
  if (p.type == CUDNN_DATA_DOUBLE && !one_axis)
    return unsupported_type("double, unless one axis of the filter has length 1");
  if (direction == Direction::backward_filter) {
    const bool row = height.in == 1 && height.out == 1, column = width.in == 1 && width.out == 1;
    if (!row && !column) return unsupported_shape("images of more than one row and column");
    if (std::max(height.in + 2 * height.pad, width.in + 2 * width.pad) > 256)
      return unsupported_shape("an axis of more than 256 elements");
  }
  const std::int64_t longest = one_axis ? 256 : 32,
                     widest = one_axis || direction == Direction::backward_filter ? 1 : 2;
  if (std::max(height.kernel, width.kernel) > longest) return unsupported_shape("the filter is too long");
  if (std::max(height.stride, width.stride) > widest) return unsupported_shape("stride");
  return check_transform(p);
}

cudnnStatus_t check_winograd(Method method, const Problem& p) {
  if (p.spatial_axes == 3) return unsupported_shape("volumes");
  if (p.type != CUDNN_DATA_FLOAT) return unsupported_type("double");
  if (has_stride(p)) return unsupported_shape("stride");
  if (has_dilation(p)) return unsupported_shape("dilation");
  const std::int64_t height = p.axes[1].kernel, width = p.axes[2].kernel;
  const bool square =
      height == width && (height == 3 || (method == Method::winograd_nonfused && height == 5));
  return square ? CUDNN_STATUS_SUCCESS : unsupported_shape("the filter's size");
}

cudnnStatus_t check_method(Direction direction, Method method, const Problem& p) {
  if (method == Method::none)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "an algorithm that cuDNN does not implement");
  if (p.type == CUDNN_DATA_BFLOAT16) {
    if (!has_bf16())
      return refuse(CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH, "bfloat16 needs compute capability 8.0");
    if (method != Method::simple && method != Method::indexed && method != Method::reduced)
      return unsupported_type("bfloat16, but for products that are not unfolded");
  }
  if (p.channels_last) return check_channels_last(direction, method, p);
  const cudnnStatus_t gradient = check_gradient(direction, p);
  if (gradient != CUDNN_STATUS_SUCCESS) return gradient;
  switch (method) {
    case Method::fft:
      return check_fft(p);
    case Method::fft_tiling:
      return check_fft_tiling(direction, p);
    case Method::winograd:
    case Method::winograd_nonfused:
      return check_winograd(method, p);
    default:
      return check_products(direction, method, p);
  }
}

}  // namespace

const char* name_of(Direction direction) {
  switch (direction) {
    case Direction::forward:
      return "cudnnConvolutionForward";
    case Direction::backward_data:
      return "cudnnConvolutionBackwardData";
    case Direction::backward_filter:
      return "cudnnConvolutionBackwardFilter";
  }
  return "";
}

std::string name_of(Direction direction, int algorithm) {
  switch (method_of(direction, algorithm)) {
    case Method::simple:
      return direction == Direction::forward ? "IMPLICIT_GEMM" : "0";
    case Method::indexed:
      return direction == Direction::forward ? "IMPLICIT_PRECOMP_GEMM" : "1";
    case Method::unfolded:
      return "GEMM";
    case Method::reduced:
      return "3";
    case Method::fft:
      return "FFT";
    case Method::fft_tiling:
      return "FFT_TILING";
    case Method::winograd:
      return "WINOGRAD";
    case Method::winograd_nonfused:
      return "WINOGRAD_NONFUSED";
    case Method::none:
      break;
  }
  return "algorithm " + std::to_string(algorithm);
}

int algorithms_of(Direction direction) {
  switch (direction) {
    case Direction::forward:
      return CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
    case Direction::backward_data:
      return CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
    case Direction::backward_filter:
      return CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
  }
  return 0;
}

bool is_deterministic(Direction direction, int algorithm) {
  const Method method = method_of(direction, algorithm);
  return direction == Direction::forward || (method != Method::simple && method != Method::reduced);
}

cudnnStatus_t check_support(Direction direction, int algorithm, const Problem& problem) {
  if (algorithm < 0 || algorithm >= algorithms_of(direction))
    return refuse(CUDNN_STATUS_BAD_PARAM, "algorithm ", algorithm, " of ", algorithms_of(direction));
  const std::string& mode = settings().cudnn;
  if (mode == "none" || (mode == "contiguous" && problem.channels_last))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the emulated machine is set to cudnn=", mode);
  return check_method(direction, method_of(direction, algorithm), problem);
}

std::size_t workspace_bytes(Direction direction, int algorithm, const Problem& p) {
  const auto bytes = [](std::int64_t elements, std::size_t each) {
    return static_cast<std::size_t>(elements) * each;
  };
  // Transformed tiles of input, output and filter, as complex numbers or not.
  const auto transformed = [&](std::int64_t tile, std::int64_t step, std::size_t each) {
    std::int64_t tiles = 1;
    for (const Axis& axis : p.axes) tiles *= (axis.out + step - 1) / step;
    const std::int64_t planes =
        p.batch * (p.in_channels + p.out_channels) * tiles + p.out_channels * p.in_per_group();
    return bytes(planes * tile * tile, each);
  };
  switch (method_of(direction, algorithm)) {
    case Method::simple:
    case Method::none:
      return 0;
    case Method::indexed:
      // Partial sums of the filter's gradient, or indices; sizes that are not round numbers, as with cuDNN.
      return direction == Direction::backward_filter
                 ? bytes(p.weights(), std::max(p.element(), sizeof(float))) + 4
                 : bytes(p.depth() + p.positions() + 9, 4);
    case Method::unfolded:
      return bytes(p.depth() * p.positions(), p.element());
    case Method::reduced:
      return bytes(2 * p.depth() + 5, 4);
    case Method::fft: {
      const std::int64_t plane =
          (p.axes[1].in + 2 * p.axes[1].pad) * ((p.axes[2].in + 2 * p.axes[2].pad) / 2 + 1);
      return bytes(plane * (p.batch * (p.in_channels + p.out_channels) + p.out_channels * p.in_per_group()),
                   8);
    }
    case Method::fft_tiling:
      return transformed(32, 24, p.element());
    case Method::winograd:
      return bytes(16 * p.out_channels * p.in_per_group(), p.element());
    case Method::winograd_nonfused:
      return transformed(6, 4, p.element());
  }
  return 0;
}

std::vector<Ranked> rank(Direction direction, const Problem& problem) {
  // The last deterministic one can be used whenever any can, and is not a transform: cudnn=last keeps it.
  static constexpr Method kBest[] = {
      Method::winograd_nonfused, Method::winograd, Method::fft_tiling, Method::fft, Method::unfolded,
      Method::indexed,           Method::reduced,  Method::simple,     Method::none};
  std::vector<int> order;
  for (const Method method : kBest)
    for (int i = 0; i < algorithms_of(direction); ++i)
      if (method_of(direction, i) == method) order.push_back(i);
  std::vector<Ranked> usable, others;
  for (const int algorithm : order) {
    const cudnnStatus_t status = check_support(direction, algorithm, problem);
    if (status != CUDNN_STATUS_SUCCESS) {
      others.push_back({algorithm, status, CUDNN_DEFAULT_MATH});
      continue;
    }
    const Method method = method_of(direction, algorithm);
    const bool allowed = problem.type == CUDNN_DATA_FLOAT
                             ? has_tf32()
                             : problem.type == CUDNN_DATA_BFLOAT16 && problem.math != CUDNN_FMA_MATH;
    if (allowed && (method == Method::indexed || method == Method::winograd_nonfused))
      usable.push_back({algorithm, status, CUDNN_TENSOR_OP_MATH});
    usable.push_back({algorithm, status, CUDNN_FMA_MATH});
  }
  set_last_error("");
  usable.insert(usable.end(), others.begin(), others.end());
  return usable;
}

bool is_refused_when_run(Direction direction, int algorithm, const Problem& problem) {
  const std::string& mode = settings().cudnn;
  if (mode == "refuse") return true;
  if (mode != "last") return false;
  if (problem.channels_last) return true;
  int last = -1;
  for (const Ranked& each : rank(direction, problem))
    if (each.status == CUDNN_STATUS_SUCCESS && is_deterministic(direction, each.algorithm))
      last = each.algorithm;
  return algorithm != last;
}

}  // namespace emulated::dnn
