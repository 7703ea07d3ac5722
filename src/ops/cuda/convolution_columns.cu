#include "ops/cuda/convolution_columns.hpp"
#include "ops/cuda/cuda_backend.cuh"
#include "ops/cuda/gemm.hpp"

namespace banyan::ops {
namespace {

/// One sample with exactly three spatial axes; missing ones have length 1 and come first.
struct Volume {
  std::int64_t kernel[3], stride[3], pad[3], dilation[3], in[3], out[3];
  std::int64_t taps, in_positions, out_positions;
};

Volume volume_of(const ColumnsProblem& problem) {
  Volume v;
  const ConvolutionGeometry& g = problem.geometry;
  const int absent = 3 - g.spatial_axes();
  v.taps = v.in_positions = v.out_positions = 1;
  for (int axis = 0; axis < 3; ++axis) {
    const bool here = axis >= absent;
    const auto at = static_cast<std::size_t>(here ? axis - absent : 0);
    v.kernel[axis] = here ? g.kernel[at] : 1;
    v.stride[axis] = here ? g.stride[at] : 1;
    v.pad[axis] = here ? g.pad[at] : 0;
    v.dilation[axis] = here ? g.dilation[at] : 1;
    v.in[axis] = here ? problem.input[axis - absent + 2] : 1;
    v.out[axis] = here ? problem.output[axis - absent + 2] : 1;
    v.taps *= v.kernel[axis];
    v.in_positions *= v.in[axis];
    v.out_positions *= v.out[axis];
  }
  return v;
}

/// columns[c][tap][position] = what output `position` reads from channel c through `tap`.
template <class T>
struct Unfold {
  Volume v;
  const T* image;
  T* columns;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t position = i % v.out_positions;
    std::int64_t tap = i / v.out_positions % v.taps;
    std::int64_t at = 0, step = 1;
    bool inside = true;
    for (int axis = 2; axis >= 0; --axis) {
      const std::int64_t x =
          position % v.out[axis] * v.stride[axis] - v.pad[axis] + tap % v.kernel[axis] * v.dilation[axis];
      position /= v.out[axis];
      tap /= v.kernel[axis];
      inside = inside && x >= 0 && x < v.in[axis];
      at += x * step;
      step *= v.in[axis];
    }
    const std::int64_t channel = i / v.out_positions / v.taps;
    columns[i] = inside ? image[channel * v.in_positions + at] : T(0);
  }
};

/// image[c][x] = sum of the columns that read it, with taps in ascending order.
template <class T>
struct Fold {
  Volume v;
  const T* columns;
  T* image;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t rest = i % v.in_positions;
    const std::int64_t channel = i / v.in_positions;
    std::int64_t x[3];
    for (int axis = 2; axis >= 0; --axis) {
      x[axis] = rest % v.in[axis];
      rest /= v.in[axis];
    }
    T sum = 0;
    for (std::int64_t tap = 0; tap < v.taps; ++tap) {
      std::int64_t of_tap = tap, position = 0, step = 1;
      bool reads = true;
      for (int axis = 2; axis >= 0; --axis) {
        const std::int64_t start = x[axis] + v.pad[axis] - of_tap % v.kernel[axis] * v.dilation[axis];
        of_tap /= v.kernel[axis];
        const std::int64_t out = start / v.stride[axis];
        reads = reads && start >= 0 && start % v.stride[axis] == 0 && out < v.out[axis];
        position += out * step;
        step *= v.out[axis];
      }
      if (reads) sum += columns[(channel * v.taps + tap) * v.out_positions + position];
    }
    image[i] = sum;
  }
};

/// Used by all three directions: sizes in elements, per sample and per group.
struct Sizes {
  explicit Sizes(const ColumnsProblem& problem) : v(volume_of(problem)) {
    const ConvolutionGeometry& g = problem.geometry;
    samples = problem.input[0];
    groups = g.group;
    outputs = g.out_channels / g.group;
    depth = g.in_channels / g.group * v.taps;
    positions = v.out_positions;
    image = g.in_channels * v.in_positions;
    result = g.out_channels * positions;
    columns = g.in_channels * v.taps * positions;
  }
  Volume v;
  std::int64_t samples, groups, outputs, depth, positions, image, result, columns;
};

template <class T>
void unfold(Context& context, const Sizes& s, const T* image, T* columns) {
  CudaBackend::for_each(context, s.columns, Unfold<T>{s.v, image, columns});
}

}  // namespace

std::size_t columns_bytes(const ColumnsProblem& problem) {
  return static_cast<std::size_t>(Sizes(problem).columns) * size_of(problem.dtype);
}

void columns_forward(Context& context, const ColumnsProblem& problem, const void* input, const void* weight,
                     void* output, void* columns) {
  const Sizes s(problem);
  dispatch_float(problem.dtype, "convolution", [&]<class T>() {
    const T* w = static_cast<const T*>(weight);
    T* unfolded = static_cast<T*>(columns);
    for (std::int64_t n = 0; n < s.samples; ++n) {
      unfold(context, s, static_cast<const T*>(input) + n * s.image, unfolded);
      T* y = static_cast<T*>(output) + n * s.result;
      for (std::int64_t g = 0; g < s.groups; ++g)
        gemm_on_memory<T>(context, {false, false, s.outputs, s.positions, s.depth}, 1,
                          w + g * s.outputs * s.depth, unfolded + g * s.depth * s.positions, 0,
                          y + g * s.outputs * s.positions);
    }
  });
}

void columns_backward_data(Context& context, const ColumnsProblem& problem, const void* grad_output,
                           const void* weight, void* grad_input, void* columns) {
  const Sizes s(problem);
  dispatch_float(problem.dtype, "convolution", [&]<class T>() {
    const T* w = static_cast<const T*>(weight);
    T* unfolded = static_cast<T*>(columns);
    for (std::int64_t n = 0; n < s.samples; ++n) {
      const T* dy = static_cast<const T*>(grad_output) + n * s.result;
      for (std::int64_t g = 0; g < s.groups; ++g)
        gemm_on_memory<T>(context, {true, false, s.depth, s.positions, s.outputs}, 1,
                          w + g * s.outputs * s.depth, dy + g * s.outputs * s.positions, 0,
                          unfolded + g * s.depth * s.positions);
      CudaBackend::for_each(context, s.image,
                            Fold<T>{s.v, unfolded, static_cast<T*>(grad_input) + n * s.image});
    }
  });
}

void columns_backward_weight(Context& context, const ColumnsProblem& problem, const void* input,
                             const void* grad_output, void* grad_weight, void* columns) {
  const Sizes s(problem);
  dispatch_float(problem.dtype, "convolution", [&]<class T>() {
    T* dw = static_cast<T*>(grad_weight);
    T* unfolded = static_cast<T*>(columns);
    for (std::int64_t n = 0; n < s.samples; ++n) {
      unfold(context, s, static_cast<const T*>(input) + n * s.image, unfolded);
      const T* dy = static_cast<const T*>(grad_output) + n * s.result;
      for (std::int64_t g = 0; g < s.groups; ++g)
        gemm_on_memory<T>(context, {false, true, s.outputs, s.depth, s.positions}, 1,
                          dy + g * s.outputs * s.positions, unfolded + g * s.depth * s.positions,
                          n == 0 ? 0 : 1, dw + g * s.outputs * s.depth);
    }
  });
}

}  // namespace banyan::ops
