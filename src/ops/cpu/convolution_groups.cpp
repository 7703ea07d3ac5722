// Terms: a block is a vector of neighbouring channels, of whole groups. The rows of an image that the windows
// need are packed block by block, with zeros for what is padded, into a ring of as many rows as a window is
// high: in the image the pixels of a block are far apart, and would be in few sets of the cache.
//
// Lane l of the output is the sum, over the taps of the window and the channels i of a group, of
//   input lane (l / kGroup * kGroup + i) * weight (lane, i, tap)
#include "ops/cpu/convolution_groups.hpp"

#include <omp.h>

#include <algorithm>
#include <utility>

#include "ops/common/optional_data.hpp"
#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/constant_numbers.hpp"
#include "ops/cpu/convolution_choice.hpp"
#include "ops/cpu/convolution_turned.hpp"
#include "ops/cpu/shares.hpp"

namespace banyan::ops {
namespace {

/// Of a vector: 16 with AVX-512. With 4 the kernels are not chosen.
constexpr std::int64_t kLanes = kRegisterBytes / sizeof(float);
using Block = ChannelBlock<float, kLanes>;
using Vector = Block::Values;
/// Output pixels whose sums stay in registers, beside the weights of a tap: AVX2 has 16 registers. Additions
/// take some cycles, and eight can be under way.
template <std::int64_t kGroup>
constexpr int kPixels = kLanes == 8 && kGroup == 8 ? 4 : 8;
constexpr std::int64_t kRows = 14;  ///< of output pixels that a thread computes at a time, at most

struct Axis {
  std::int64_t input, output, kernel, stride, pad, dilation;

  Axis(const ConvolutionGeometry& g, const Tensor& in, const Tensor& out, std::size_t axis)
      : input(in.shape()[static_cast<int>(axis) + 2]),
        output(out.shape()[static_cast<int>(axis) + 2]),
        kernel(g.kernel[axis]),
        stride(g.stride[axis]),
        pad(g.pad[axis]),
        dilation(g.dilation[axis]) {}
  std::int64_t window() const { return (kernel - 1) * dilation + 1; }
  /// What all windows together cover, from -pad on.
  std::int64_t covered() const { return (output - 1) * stride + window(); }
};

/// Sizes for one call; plain values, copied into the enqueued work.
template <std::int64_t kGroup>
struct Groups {
  Axis h, w;
  std::int64_t batch, channels;
  int threads;

  Groups(const ConvolutionGeometry& g, const Tensor& input, const Tensor& output, int team)
      : h(g, input, output, 0),
        w(g, input, output, 1),
        batch(input.shape()[0]),
        channels(g.in_channels),
        threads(team) {}

  std::int64_t blocks() const { return channels / kLanes; }
  std::int64_t taps() const { return h.kernel * w.kernel; }
  std::int64_t block_values() const { return taps() * kGroup * kLanes; }
  std::int64_t values() const { return blocks() * block_values(); }   ///< of the weights
  std::int64_t packed_block() const { return w.covered() * kLanes; }  ///< of a row
  std::int64_t packed_row() const { return w.covered() * channels; }
  std::int64_t ring() const { return h.window() * packed_row(); }
  std::int64_t output_row() const { return w.output * kLanes; }
  std::int64_t input_image() const { return h.input * w.input * channels; }
  std::int64_t output_image() const { return h.output * w.output * channels; }
  /// Of an image; where there are few images, enough for all threads.
  std::int64_t strips() const {
    return std::clamp((threads + batch - 1) / batch, (h.output + kRows - 1) / kRows, h.output);
  }
  /// Of weight (lane, i, tap) in the caller's memory.
  std::int64_t place(std::int64_t block, std::int64_t lane, std::int64_t i, std::int64_t tap) const {
    return ((block * kLanes + lane) * kGroup + i) * taps() + tap;
  }
  /// Of the weight with which input channel i of the group counts in a lane of the turned convolution.
  std::int64_t turned_place(std::int64_t block, std::int64_t lane, std::int64_t i, std::int64_t tap) const {
    return place(block, lane / kGroup * kGroup + i, lane % kGroup, taps() - 1 - tap);
  }
};

/// use(integral_constant) for 0 <= i < kCount.
template <std::int64_t kCount, class Use>
void for_each_of_group(const Use& use) {
  [&]<std::int64_t... i>(std::integer_sequence<std::int64_t, i...>) {
    (use(std::integral_constant<std::int64_t, i>()), ...);
  }
  (std::make_integer_sequence<std::int64_t, kCount>());
}

/// In every lane, channel i of its group; `from` holds the values at `memory`.
template <std::int64_t i, std::int64_t kGroup>
void spread(const Vector& from, const float* memory, Vector& to) {
  // From memory, where lanes would have to cross the halves of a register of AVX2.
  if constexpr (kGroup == kLanes) {
    to = memory[i] - Vector{};  // exact for all numbers, so that it is one load
    return;
  }
  [&]<std::int64_t... lane>(std::integer_sequence<std::int64_t, lane...>) {
    to = __builtin_shufflevector(from, from, (lane / kGroup * kGroup + i)...);
  }
  (std::make_integer_sequence<std::int64_t, kLanes>());
}

/// The packed rows that the windows of a row of outputs need.
template <std::int64_t kGroup>
class Ring {
 public:
  /// Of one image, from output row `first` on.
  Ring(const Groups<kGroup>& s, const float* image, std::int64_t first, float* memory)
      : s_(s), image_(image), memory_(memory), packed_(first * s.h.stride) {}
  /// For this row of outputs; they come in ascending order.
  void move_to(std::int64_t output) {
    const std::int64_t first = output * s_.h.stride;
    for (packed_ = std::max(packed_, first); packed_ < first + s_.h.window(); ++packed_)
      pack(packed_ - s_.h.pad, place(packed_));
  }
  /// The first pixel of a block in row `kernel_row` of these windows.
  const float* row(std::int64_t output, std::int64_t block, std::int64_t kernel_row) const {
    return place(output * s_.h.stride + kernel_row * s_.h.dilation) + block * s_.packed_block();
  }

 private:
  float* place(std::int64_t row) const { return memory_ + row % s_.h.window() * s_.packed_row(); }
  void pack(std::int64_t row, float* to) const {
    if (row < 0 || row >= s_.h.input) {
      std::fill_n(to, s_.packed_row(), 0.0f);
      return;
    }
    const std::int64_t count = s_.w.covered(), first = std::min(s_.w.pad, count);
    const std::int64_t last = std::clamp(s_.w.input + s_.w.pad, first, count);
    for (std::int64_t block = 0; block < s_.blocks(); ++block) {
      float* const line = to + block * s_.packed_block();
      std::fill_n(line, first * kLanes, 0.0f);
      std::fill_n(line + last * kLanes, (count - last) * kLanes, 0.0f);
    }
    const float* from = image_ + row * s_.w.input * s_.channels;
    for (std::int64_t x = first; x < last; ++x)
      for (std::int64_t block = 0; block < s_.blocks(); ++block, from += kLanes)
        std::copy_n(from, kLanes, to + block * s_.packed_block() + x * kLanes);
  }

  const Groups<kGroup>& s_;
  const float* image_;
  float* memory_;
  std::int64_t packed_;
};

// --- Forward ------------------------------------------------------------------------------------

/// P neighbouring pixels of a block; `rows`: of the inputs, at the first one's windows. A slope of 1: no
/// ReLU.
template <int P, std::int64_t kGroup>
void add_windows(const Groups<kGroup>& s, const float* const* rows, const float* weight, const float* bias,
                 float slope, float* y) {
  Vector sums[P], factors[kGroup];
  Block::load(bias, sums[0]);
#pragma GCC unroll 8
  for (int p = 1; p < P; ++p) sums[p] = sums[0];
  const std::int64_t step = s.w.stride * kLanes;
  for (std::int64_t r = 0; r < s.h.kernel; ++r) {
    const float* x = rows[r];
    for (std::int64_t tap = 0; tap < s.w.kernel; ++tap, x += s.w.dilation * kLanes) {
#pragma GCC unroll 8
      for (std::int64_t i = 0; i < kGroup; ++i) Block::load_factor(weight + i * kLanes, factors[i]);
      weight += kGroup * kLanes;
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) {
        Vector values, lanes;
        Block::load(x + p * step, values);
        for_each_of_group<kGroup>([&](auto i) {
          spread<i, kGroup>(values, x + p * step, lanes);
          sums[p] += lanes * factors[i];
        });
      }
    }
  }
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) {
    if (slope != 1) end_with_relu(slope, sums[p]);
    Block::store(sums[p], y + p * s.channels);
  }
}

/// Weights and bias in loop order.
struct Ordered {
  const float *weight, *bias;
};

/// Rows [first, last) of an image.
template <std::int64_t kGroup>
void forward_rows(const Groups<kGroup>& s, const Ordered& ordered, float slope, const float* x,
                  std::int64_t first, std::int64_t last, float* y, float* memory) {
  constexpr std::int64_t kMost = kPixels<kGroup>;
  Ring<kGroup> ring(s, x, first, memory);
  std::vector<const float*> rows(static_cast<std::size_t>(s.h.kernel));
  const std::int64_t parts = (s.w.output + kMost - 1) / kMost;
  for (std::int64_t row = first; row < last; ++row) {
    ring.move_to(row);
    for (std::int64_t block = 0; block < s.blocks(); ++block) {
      for (std::int64_t r = 0; r < s.h.kernel; ++r)
        rows[static_cast<std::size_t>(r)] = ring.row(row, block, r);
      for (std::int64_t part = 0, column = 0; part < parts; ++part) {
        const std::int64_t end = s.w.output * (part + 1) / parts;
        with_constant<kMost>(end - column, [&]<int P>(std::integral_constant<int, P>) {
          add_windows<P>(s, rows.data(), ordered.weight + block * s.block_values(),
                         ordered.bias + block * kLanes, slope,
                         y + (row * s.w.output + column) * s.channels + block * kLanes);
        });
        for (const float*& at : rows) at += (end - column) * s.w.stride * kLanes;
        column = end;
      }
    }
  }
}

template <std::int64_t kGroup>
void run_forward(const Groups<kGroup>& s, bool turned, const float* x, const float* weight, const float* bias,
                 float slope, float* y, float* workspace) {
  float *const ordered = workspace, *const ordered_bias = ordered + s.values();
  float* const rings = ordered_bias + s.channels;
  Shares shares(s.threads, s.batch * s.strips(), 1);
#pragma omp parallel num_threads(s.threads)
  {
#pragma omp for schedule(static)
    for (std::int64_t block = 0; block < s.blocks(); ++block) {
      float* to = ordered + block * s.block_values();
      for (std::int64_t tap = 0; tap < s.taps(); ++tap)
        for (std::int64_t i = 0; i < kGroup; ++i)
          for (std::int64_t lane = 0; lane < kLanes; ++lane)
            *to++ = weight[turned ? s.turned_place(block, lane, i, tap) : s.place(block, lane, i, tap)];
      for (std::int64_t lane = block * kLanes; lane < (block + 1) * kLanes; ++lane)
        ordered_bias[lane] = bias == nullptr ? 0 : bias[lane];
    }
    float* const ring = rings + omp_get_thread_num() * s.ring();
    shares.run([&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t image = task / s.strips(), strip = task % s.strips();
        forward_rows(s, {ordered, ordered_bias}, slope, x + image * s.input_image(),
                     s.h.output * strip / s.strips(), s.h.output * (strip + 1) / s.strips(),
                     y + image * s.output_image(), ring);
      }
    });
  }
}

// --- Gradient of the weights --------------------------------------------------------------------

/// Adds a row of outputs to the sums of one tap.
template <std::int64_t kGroup>
void add_tap(const Groups<kGroup>& s, const float* x, const float* dy, float* kept) {
  constexpr int kTogether = kGroup == 4 ? 2 : 1;
  Vector sums[kTogether][kGroup] = {}, gradient, values, lanes;
  const std::int64_t step = s.w.stride * kLanes;
  const auto add = [&](std::int64_t pixel, auto& sum) {
    Block::load(x + pixel * step, values);
    Block::load(dy + pixel * kLanes, gradient);
    for_each_of_group<kGroup>([&](auto i) {
      spread<i, kGroup>(values, x + pixel * step, lanes);
      sum[i] += lanes * gradient;
    });
  };
  std::int64_t pixel = 0;
  for (; pixel + kTogether <= s.w.output; pixel += kTogether)
#pragma GCC unroll 8
    for (int k = 0; k < kTogether; ++k) add(pixel + k, sums[k]);
  for (; pixel < s.w.output; ++pixel) add(pixel, sums[0]);
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < kGroup; ++i) {
    Vector sum;
    Block::load(kept + i * kLanes, sum);
#pragma GCC unroll 8
    for (int k = 0; k < kTogether; ++k) sum += sums[k][i];
    Block::store(sum, kept + i * kLanes);
  }
}

/// Adds rows [first, last) of an image to the sums of all blocks.
template <std::int64_t kGroup>
void add_rows(const Groups<kGroup>& s, const float* x, const float* dy, std::int64_t first, std::int64_t last,
              float* kept, float* memory) {
  Ring<kGroup> ring(s, x, first, memory);
  float* const gradients = memory + s.ring();
  for (std::int64_t row = first; row < last; ++row) {
    ring.move_to(row);
    float* to = kept;
    for (std::int64_t block = 0; block < s.blocks(); ++block) {
      const float* from = dy + row * s.w.output * s.channels + block * kLanes;
      for (std::int64_t pixel = 0; pixel < s.w.output; ++pixel, from += s.channels)
        std::copy_n(from, kLanes, gradients + pixel * kLanes);
      for (std::int64_t r = 0; r < s.h.kernel; ++r) {
        const float* at = ring.row(row, block, r);
        for (std::int64_t tap = 0; tap < s.w.kernel; ++tap, to += kGroup * kLanes)
          add_tap(s, at + tap * s.w.dilation * kLanes, gradients, to);
      }
    }
  }
}

/// The sums of a block over the threads, in their order, where the caller wants them.
template <std::int64_t kGroup>
void write_block(const Groups<kGroup>& s, std::int64_t block, const float* kept, bool adds, float* dw) {
  const float* from = kept + block * s.block_values();
  for (std::int64_t tap = 0; tap < s.taps(); ++tap)
    for (std::int64_t i = 0; i < kGroup; ++i)
      for (std::int64_t lane = 0; lane < kLanes; ++lane, ++from) {
        float sum = *from;
        for (std::int64_t share = 1; share < s.threads; ++share) sum += from[share * s.values()];
        float& to = dw[s.place(block, lane, i, tap)];
        to = adds ? to + sum : sum;
      }
}

template <std::int64_t kGroup>
void run_backward_weight(const Groups<kGroup>& s, const float* x, const float* dy, bool adds, float* dw,
                         float* workspace) {
  float *const kept = workspace, *const memories = workspace + s.threads * s.values();
#pragma omp parallel num_threads(s.threads)
  {
#pragma omp for schedule(static)
    for (std::int64_t share = 0; share < s.threads; ++share) {
      float *const sums = kept + share * s.values(), *const memory =
                                                         memories + share * (s.ring() + s.output_row());
      std::fill_n(sums, s.values(), 0.0f);
      const std::int64_t rows = s.batch * s.h.output, end = rows * (share + 1) / s.threads;
      for (std::int64_t row = rows * share / s.threads; row < end;) {
        const std::int64_t image = row / s.h.output, first = row % s.h.output;
        const std::int64_t last = std::min(s.h.output, first + end - row);
        add_rows(s, x + image * s.input_image(), dy + image * s.output_image(), first, last, sums, memory);
        row += last - first;
      }
    }
#pragma omp for schedule(static)
    for (std::int64_t block = 0; block < s.blocks(); ++block) write_block(s, block, kept, adds, dw);
  }
}

// ------------------------------------------------------------------------------------------------

std::int64_t group_size(const ConvolutionGeometry& geometry) { return geometry.in_channels / geometry.group; }

template <class Body>
void with_groups(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output, int threads,
                 const Body& body) {
  if (group_size(geometry) == 4)
    body(Groups<4>(geometry, input, output, threads));
  else
    body(Groups<8>(geometry, input, output, threads));
}

void run(Context& context, const ConvolutionGeometry& geometry, bool turned, const Tensor& input,
         const Tensor& weight, const float* bias, double slope, Tensor& output) {
  with_groups(geometry, input, output, context.device().threads(), [&](const auto& sizes) {
    auto* workspace =
        context.workspace_of<float>(sizes.values() + sizes.channels + sizes.threads * sizes.ring());
    context.run([sizes, turned, x = input.data<float>(), w = weight.data<float>(), bias,
                 slope = static_cast<float>(slope), y = output.data<float>(),
                 workspace] { run_forward(sizes, turned, x, w, bias, slope, y, workspace); });
  });
}

void forward_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& input,
                    const Tensor& weight, const Tensor& bias, double slope, Tensor& output) {
  run(context, geometry, false, input, weight, detail::optional_data<float>(bias), slope, output);
}

void backward_data_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& grad_output,
                          const Tensor& weight, Tensor& grad_input) {
  run(context, turned(geometry), true, grad_output, weight, nullptr, 1, grad_input);
}

void backward_weight_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& input,
                            const Tensor& grad_output, bool adds, Tensor& grad_weight) {
  with_groups(geometry, input, grad_output, context.device().threads(), [&](const auto& sizes) {
    auto* workspace = context.workspace_of<float>(sizes.threads * sizes.values() +
                                                  sizes.threads * (sizes.ring() + sizes.output_row()));
    context.run([sizes, x = input.data<float>(), dy = grad_output.data<float>(), adds,
                 dw = grad_weight.data<float>(),
                 workspace] { run_backward_weight(sizes, x, dy, adds, dw, workspace); });
  });
}

const Define define_forward(forward_by_groups, DeviceKind::cpu, &forward_on_cpu);
const Define define_backward_data(backward_data_by_groups, DeviceKind::cpu, &backward_data_on_cpu);
const Define define_backward_weight(backward_weight_by_groups, DeviceKind::cpu, &backward_weight_on_cpu);

}  // namespace

bool groups_apply(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output) {
  const std::int64_t size = group_size(geometry);
  return instruction_set() != InstructionSet::baseline && geometry.spatial_axes() == 2 &&
         geometry.in_channels == geometry.out_channels && (size == 4 || size == 8) &&
         geometry.in_channels % kLanes == 0 && is_kernel_order(input) && is_kernel_order(output) &&
         input.count() > 0 && output.count() > 0;
}

bool groups_can_turn(const ConvolutionGeometry& geometry) {
  ConvolutionGeometry single = geometry;
  single.group = 1;
  return can_turn(single);
}

bool groups_pay(GroupPass pass, const ConvolutionGeometry& geometry, const Tensor& input,
                const Tensor& output) {
  if (!groups_apply(geometry, input, output)) return false;
  // What lies between the taps of a dilated window would be packed for nothing.
  if (geometry.dilation[0] > 1 || geometry.dilation[1] > 1) return false;
  const bool strided = geometry.stride[0] > 1 || geometry.stride[1] > 1, small = group_size(geometry) == 4;
  // With AVX2 a vector is a group of 8, which Winograd's algorithm computes, but for strides.
  const bool is_avx2 = instruction_set() == InstructionSet::avx2;
  switch (pass) {
    case GroupPass::forward:
      return small || strided == is_avx2;
    case GroupPass::backward_data:
      return groups_can_turn(geometry) && (small || !is_avx2);
    case GroupPass::backward_weight:
      break;
  }
  return !is_avx2 || (small ? geometry.kernel[0] * geometry.kernel[1] > 1 : strided);
}

}  // namespace banyan::ops
