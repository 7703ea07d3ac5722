#include <algorithm>

#include "ops/common/divisor.hpp"
#include "ops/common/pack.hpp"
#include "ops/common/scale_planes.hpp"  // MakeCopy
#include "ops/cuda/convolution_columns.hpp"
#include "ops/cuda/cuda_backend.cuh"
#include "ops/cuda/gemm.hpp"
#include "ops/cuda/limits.hpp"

namespace banyan::ops {
namespace {

/// A convolution with exactly three spatial axes; missing ones have length 1 and come first.
struct Volume {
  std::int64_t kernel[3], stride[3], pad[3], dilation[3], in[3], out[3];
  std::int64_t taps, in_positions, out_positions;  ///< of a sample
  std::int64_t groups, channels;                   ///< channels of a group
  int first_axis;                                  ///< the first that is not missing
};

Volume volume_of(const ColumnsProblem& problem) {
  Volume v;
  const ConvolutionGeometry& g = problem.geometry;
  const int absent = 3 - g.spatial_axes();
  v.first_axis = absent;
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
  v.groups = g.group;
  v.channels = g.in_channels / g.group;
  return v;
}

/// What of a Volume is divided by.
template <class Index>
struct Divisors {
  explicit Divisors(const Volume& v, std::int64_t channel_packs)
      : channels(channel_packs), taps(v.taps), in_positions(v.in_positions), out_positions(v.out_positions) {
    for (int axis = 0; axis < 3; ++axis) {
      kernel[axis] = Divisor<Index>(v.kernel[axis]);
      stride[axis] = Divisor<Index>(v.stride[axis]);
      in[axis] = Divisor<Index>(v.in[axis]);
      out[axis] = Divisor<Index>(v.out[axis]);
    }
  }
  Divisor<Index> channels, taps, in_positions, out_positions;  ///< channels: packs of a group
  Divisor<Index> kernel[3], stride[3], in[3], out[3];
};

/// columns[sample and output position][group][tap][channel] = what the output reads from the channel through
/// the tap. Channels are counted in packs.
template <class T, class, int kWidth, class Index>
struct Unfold {
  Volume v;
  Divisors<Index> by;
  std::int64_t first_row, row_packs;  ///< row_packs: from a row of columns to the next
  const Pack<T, kWidth>* images;
  Pack<T, kWidth>* columns;  ///< from the first row on
  BANYAN_HOST_DEVICE void operator()(std::int64_t row, std::int64_t column) const {
    const Split<Index> tap_and_channel(static_cast<Index>(column), by.channels);
    const Split<Index> group_and_tap(tap_and_channel.quotient, by.taps);
    const Split<Index> sample_and_position(static_cast<Index>(first_row + row), by.out_positions);
    Index tap = group_and_tap.rest, position = sample_and_position.rest;
    std::int64_t at = 0, step = 1;
    bool inside = true;
    for (int axis = 2; axis >= 0; --axis) {
      if (axis < v.first_axis) break;
      const Split<Index> window(position, by.out[axis]);
      const Split<Index> part(tap, by.kernel[axis]);
      const std::int64_t x = static_cast<std::int64_t>(window.rest) * v.stride[axis] - v.pad[axis] +
                             static_cast<std::int64_t>(part.rest) * v.dilation[axis];
      position = window.quotient;
      tap = part.quotient;
      inside = inside && x >= 0 && x < v.in[axis];
      at += x * step;
      step *= v.in[axis];
    }
    Pack<T, kWidth> pack{};
    if (inside) {
      const std::int64_t pixel =
          static_cast<std::int64_t>(sample_and_position.quotient) * v.in_positions + at;
      const Index channel = group_and_tap.quotient * by.channels.value() + tap_and_channel.rest;
      pack = images[pixel * v.groups * static_cast<std::int64_t>(by.channels.value()) + channel];
    }
    columns[row * row_packs + column] = pack;
  }
};

/// image[sample and position][channel] = sum of the columns that read it, with taps in ascending order.
template <class T, class To, int kWidth, class Index>
struct Fold {
  Volume v;
  Divisors<Index> by;
  std::int64_t first_row, row_packs;  ///< as in Unfold; first_row is 0
  const Pack<T, kWidth>* columns;
  Pack<To, kWidth>* images;
  BANYAN_HOST_DEVICE void operator()(std::int64_t row, std::int64_t column) const {
    const Split<Index> group_and_channel(static_cast<Index>(column), by.channels);
    const Split<Index> sample_and_position(static_cast<Index>(row), by.in_positions);
    std::int64_t x[3] = {0, 0, 0};
    Index rest = sample_and_position.rest;
    for (int axis = 2; axis >= 0; --axis) {
      if (axis < v.first_axis) break;
      const Split<Index> part(rest, by.in[axis]);
      x[axis] = static_cast<std::int64_t>(part.rest);
      rest = part.quotient;
    }
    const std::int64_t sample = static_cast<std::int64_t>(sample_and_position.quotient) * v.out_positions;
    const Pack<T, kWidth>* const from = columns +
                                        static_cast<std::int64_t>(group_and_channel.quotient) * v.taps *
                                            static_cast<std::int64_t>(by.channels.value()) +
                                        static_cast<std::int64_t>(group_and_channel.rest);
    Pack<T, kWidth> sum{};
    std::int64_t tap = 0;
    for (std::int64_t a = 0; a < v.kernel[0]; ++a) {
      const std::int64_t outer = window(0, x[0], a);
      for (std::int64_t b = 0; b < v.kernel[1]; ++b) {
        const std::int64_t middle = outer < 0 ? -1 : window(1, x[1], b);
        for (std::int64_t c = 0; c < v.kernel[2]; ++c, ++tap) {
          const std::int64_t inner = middle < 0 ? -1 : window(2, x[2], c);
          if (inner < 0) continue;
          const std::int64_t position = sample + (outer * v.out[1] + middle) * v.out[2] + inner;
          const Pack<T, kWidth> pack =
              from[position * row_packs + tap * static_cast<std::int64_t>(by.channels.value())];
          for (int i = 0; i < kWidth; ++i) sum.values[i] += pack.values[i];
        }
      }
    }
    Pack<To, kWidth> stored;
    for (int i = 0; i < kWidth; ++i) stored.values[i] = static_cast<To>(sum.values[i]);
    images[row * v.groups * static_cast<std::int64_t>(by.channels.value()) + column] = stored;
  }

 private:
  /// The window along an axis that reads x through a tap, or -1.
  BANYAN_HOST_DEVICE std::int64_t window(int axis, std::int64_t x, std::int64_t tap) const {
    const std::int64_t start = x + v.pad[axis] - tap * v.dilation[axis];
    if (start < 0) return -1;
    const Split<Index> place(static_cast<Index>(start), by.stride[axis]);
    if (place.rest != 0 || static_cast<std::int64_t>(place.quotient) >= v.out[axis]) return -1;
    return static_cast<std::int64_t>(place.quotient);
  }
};

/// Sizes in elements.
struct Sizes {
  explicit Sizes(const ColumnsProblem& problem, ConvolutionDirection direction)
      : v(volume_of(problem)), plain(has_plain_columns(problem.geometry)) {
    samples = problem.input[0];
    outputs = problem.geometry.out_channels / v.groups;
    depth = v.taps * v.channels;
    image = v.in_positions * v.groups * v.channels;
    result = v.groups * outputs;
    columns = v.groups * depth;
    rows = samples * v.out_positions;
    // Gradients of images are sums of columns, which are not to be rounded to 16 bits first.
    const bool sums = direction == ConvolutionDirection::backward_data && problem.dtype == DType::bf16;
    const auto bytes = static_cast<std::int64_t>(size_of(sums ? DType::f32 : problem.dtype));
    // cuBLAS has its fast kernels for rows whose lengths are multiples of 16 bytes.
    constexpr std::int64_t kAlignment = 16;
    stride = plain ? columns : (columns * bytes + kAlignment - 1) / kAlignment * kAlignment / bytes;
    row_bytes = stride * bytes;
    const std::int64_t fitting = most_columns_bytes() / row_bytes;
    rows_at_a_time = plain ? rows : std::clamp<std::int64_t>(fitting, 1, std::max<std::int64_t>(rows, 1));
    samples_at_a_time =
        plain ? samples
              : std::clamp<std::int64_t>(fitting / v.out_positions, 1, std::max<std::int64_t>(samples, 1));
  }
  Volume v;
  bool plain;
  std::int64_t samples, outputs, depth;  ///< outputs and depth of a group
  std::int64_t image;                    ///< of a sample
  std::int64_t rows;                     ///< of the product: output positions of all samples
  std::int64_t result, columns;          ///< of a row
  std::int64_t stride, row_bytes;        ///< from a row of columns to the next
  std::int64_t rows_at_a_time, samples_at_a_time;
};

template <class T>
constexpr int kPackOf = 16 / sizeof(T);

template <template <class, class, int, class> class F, int kWidth, class T, class To>
void move_packs(Context& context, const Sizes& s, std::int64_t first_row, std::int64_t rows,
                std::int64_t columns, const T* from, To* to) {
  // Everything that is divided or divides.
  const auto& v = s.v;
  std::int64_t largest = std::max(first_row + rows, columns);
  for (int axis = 0; axis < 3; ++axis)
    largest = std::max({largest, v.in[axis] + v.pad[axis], v.stride[axis], v.kernel[axis]});
  const auto* source = reinterpret_cast<const Pack<T, kWidth>*>(from);
  auto* target = reinterpret_cast<Pack<To, kWidth>*>(to);
  CudaBackend::with_index(largest, [&]<class Index>() {
    using Body = F<T, To, kWidth, Index>;
    CudaBackend::for_each_made(context, rows, columns,
                               detail::MakeCopy<Body>{Body{v, Divisors<Index>(v, v.channels / kWidth),
                                                           first_row, s.stride / kWidth, source, target}});
  });
}

template <class T>
bool is_packed(const Sizes& s, const void* a, const void* b) {
  const auto aligned = [](const void* memory) { return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0; };
  return s.v.channels % kPackOf<T> == 0 && aligned(a) && aligned(b);
}

/// Of all images, what the product's rows from the first on read.
template <class T>
void unfold(Context& context, const Sizes& s, std::int64_t first_row, std::int64_t rows, const T* images,
            T* columns) {
  if (is_packed<T>(s, images, columns))
    move_packs<Unfold, kPackOf<T>>(context, s, first_row, rows, s.columns / kPackOf<T>, images, columns);
  else
    move_packs<Unfold, 1>(context, s, first_row, rows, s.columns, images, columns);
}

template <class T, class To>
void fold(Context& context, const Sizes& s, std::int64_t samples, const T* columns, To* images) {
  const std::int64_t rows = samples * s.v.in_positions, length = s.v.groups * s.v.channels;
  if (is_packed<T>(s, images, columns))
    move_packs<Fold, kPackOf<T>>(context, s, 0, rows, length / kPackOf<T>, columns, images);
  else
    move_packs<Fold, 1>(context, s, 0, rows, length, columns, images);
}

/// body(first, number) for `all` things, at most `at_a_time` each time.
template <class Body>
void in_pieces(std::int64_t all, std::int64_t at_a_time, const Body& body) {
  for (std::int64_t first = 0; first < all; first += at_a_time) body(first, std::min(at_a_time, all - first));
}

}  // namespace

bool has_plain_columns(const ConvolutionGeometry& geometry) {
  const auto all = [](const std::vector<std::int64_t>& values, std::int64_t value) {
    return std::all_of(values.begin(), values.end(), [value](std::int64_t each) { return each == value; });
  };
  return all(geometry.kernel, 1) && all(geometry.stride, 1) && all(geometry.pad, 0);
}

std::size_t columns_bytes(const ColumnsProblem& problem, ConvolutionDirection direction) {
  const Sizes s(problem, direction);
  if (s.plain) return 0;
  const std::int64_t rows = direction == ConvolutionDirection::backward_data
                                ? s.samples_at_a_time * s.v.out_positions
                                : s.rows_at_a_time;
  return static_cast<std::size_t>(rows * s.row_bytes);
}

std::int64_t unfolded_bytes(const ColumnsProblem& problem) {
  const Sizes s(problem, ConvolutionDirection::forward);
  return s.plain ? 0 : s.v.out_positions * s.row_bytes;
}

// Row-major products of a group: rows are output positions, and between one and the next lie the other
// groups.

void columns_forward(Context& context, const ColumnsProblem& problem, const void* input, const void* weight,
                     void* output, void* columns) {
  const Sizes s(problem, ConvolutionDirection::forward);
  dispatch_storage(problem.dtype, "convolution", [&]<class T>() {
    const T* x = static_cast<const T*>(input);
    in_pieces(s.rows, s.rows_at_a_time, [&](std::int64_t first, std::int64_t rows) {
      if (!s.plain) unfold(context, s, first, rows, x, static_cast<T*>(columns));
      const T* unfolded = s.plain ? x : static_cast<const T*>(columns);
      for (std::int64_t g = 0; g < s.v.groups; ++g)
        gemm_on_memory<T, T>(context, {false, true, rows, s.outputs, s.depth}, 1,
                             {unfolded + g * s.depth, s.stride},
                             {static_cast<const T*>(weight) + g * s.outputs * s.depth, s.depth}, 0,
                             {static_cast<T*>(output) + first * s.result + g * s.outputs, s.result});
    });
  });
}

void columns_backward_data(Context& context, const ColumnsProblem& problem, const void* grad_output,
                           const void* weight, void* grad_input, void* columns) {
  const Sizes s(problem, ConvolutionDirection::backward_data);
  dispatch_storage(problem.dtype, "convolution", [&]<class T>() {
    in_pieces(s.samples, s.samples_at_a_time, [&](std::int64_t first, std::int64_t samples) {
      T* dx = static_cast<T*>(grad_input) + first * s.image;
      const T* dy = static_cast<const T*>(grad_output) + first * s.v.out_positions * s.result;
      const auto multiply = [&]<class Result>(Result* unfolded) {
        for (std::int64_t g = 0; g < s.v.groups; ++g)
          gemm_on_memory<T, Result>(context, {false, false, samples * s.v.out_positions, s.depth, s.outputs},
                                    1, {dy + g * s.outputs, s.result},
                                    {static_cast<const T*>(weight) + g * s.outputs * s.depth, s.depth}, 0,
                                    {unfolded + g * s.depth, s.stride});
      };
      if (s.plain) return multiply(dx);
      auto* unfolded = static_cast<Arithmetic<T>*>(columns);
      multiply(unfolded);
      fold(context, s, samples, unfolded, dx);
    });
  });
}

void columns_backward_weight(Context& context, const ColumnsProblem& problem, const void* input,
                             const void* grad_output, void* grad_weight, void* columns) {
  const Sizes s(problem, ConvolutionDirection::backward_weight);
  dispatch_storage(problem.dtype, "convolution", [&]<class T>() {
    const T* x = static_cast<const T*>(input);
    in_pieces(s.rows, s.rows_at_a_time, [&](std::int64_t first, std::int64_t rows) {
      if (!s.plain) unfold(context, s, first, rows, x, static_cast<T*>(columns));
      const T* unfolded = s.plain ? x : static_cast<const T*>(columns);
      for (std::int64_t g = 0; g < s.v.groups; ++g)
        gemm_on_memory<T, Arithmetic<T>>(
            context, {true, false, s.outputs, s.depth, rows}, 1,
            {static_cast<const T*>(grad_output) + first * s.result + g * s.outputs, s.result},
            {unfolded + g * s.depth, s.stride}, first == 0 ? 0 : 1,
            {static_cast<Arithmetic<T>*>(grad_weight) + g * s.outputs * s.depth, s.depth});
    });
  });
}

}  // namespace banyan::ops
