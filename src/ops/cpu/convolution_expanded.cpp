// Threads compute strips: the rows of an image, or where there are fewer images than threads a part of them.
// A strip is computed in bands of output rows, and a band in groups of a few blocks of channels. A group's
// rows of the expanded image are in a thread's own memory and stay in the L1 cache; those that the next band
// needs too are moved to the beginning. Rows that two strips need are computed twice.
//
// Every loop over an array of vectors is unrolled by a pragma: see convolution_rows.cpp.
#include <omp.h>

#include <algorithm>
#include <cstring>

#include "banyan/ops/expanded_convolution.hpp"
#include "ops/common/optional_data.hpp"
#include "ops/cpu/convolution_choice.hpp"
#include "ops/cpu/depthwise_windows.hpp"
#include "ops/cpu/shares.hpp"

namespace banyan::ops {
namespace {

using namespace depthwise;

/// Blocks of a group, and pixels that are expanded at a time: sums, weights and a factor are in registers.
constexpr int kVectors = 2;
template <std::int64_t kLanes>
constexpr int kPixels = kLanes == 16 ? 12 : 6;
/// Of a group's rows in a band: they are written and read in order, mostly within the L1 cache.
constexpr std::int64_t kBandBytes = std::int64_t{48} << 10;

template <std::int64_t kLanes>
struct Expanded {
  Depthwise<kLanes, kVectors> windows;
  std::int64_t inputs;  ///< channels
  std::int64_t band;    ///< output rows

  Expanded(const ConvolutionGeometry& geometry, const Shape& input, const Shape& output, int threads)
      : windows(geometry, expanded(geometry, input), output, false, threads), inputs(input[1]) {
    const auto row_bytes = windows.read_row() * static_cast<std::int64_t>(sizeof(float));
    const std::int64_t rows = kBandBytes / std::max<std::int64_t>(row_bytes, 1);
    band = std::clamp<std::int64_t>((rows - span()) / windows.h.step + 1, 1, kRowsAtATime);
  }

  static Shape expanded(const ConvolutionGeometry& geometry, Shape shape) {
    shape.set_dim(1, geometry.in_channels);
    return shape;
  }
  /// From the first row of a window to the last.
  std::int64_t span() const {
    const auto& taps = windows.h.taps(0);
    return taps.back().at - taps.front().at + 1;
  }
  std::int64_t groups() const { return (windows.blocks() + kVectors - 1) / kVectors; }
  Range blocks_of(std::int64_t group) const {
    return {group * kVectors, std::min((group + 1) * kVectors, windows.blocks())};
  }
  /// Of expanded rows, for a band.
  std::int64_t group_values() const { return ((band - 1) * windows.h.step + span()) * windows.read_row(); }
  std::int64_t band_values() const { return groups() * group_values(); }
  std::int64_t strips() const {
    return std::min((windows.threads + windows.batch - 1) / windows.batch, windows.h.written);
  }
  std::int64_t weights() const { return windows.blocks() * inputs * kLanes; }
  /// For the expansion's weights and bias, and those of the windows.
  std::int64_t ordered() const { return weights() + windows.values() + 2 * windows.blocks() * kLanes; }
};

/// Weights of the expansion, [group][input channel][block][lane], and bias, [block][lane].
template <std::int64_t kLanes>
void order_group(const Expanded<kLanes>& s, const Range& blocks, const float* weight, const float* bias,
                 float* ordered_weight, float* ordered_bias) {
  float* to = ordered_weight + blocks.first * s.inputs * kLanes;
  for (std::int64_t c = 0; c < s.inputs; ++c)
    for (std::int64_t block = blocks.first; block < blocks.last; ++block)
      for (std::int64_t lane = 0; lane < kLanes; ++lane)
        *to++ = weight[(s.windows.first_channel(block) + lane) * s.inputs + c];
  for (std::int64_t block = blocks.first; block < blocks.last; ++block)
    for (std::int64_t lane = 0; lane < kLanes; ++lane)
      ordered_bias[block * kLanes + lane] = bias == nullptr ? 0 : bias[s.windows.first_channel(block) + lane];
}

/// Neighbouring pixels, a group of N blocks from `block` on; P pixels at a time, of which there are no fewer.
/// Not inlined: its loop needs the registers.
template <int P, int N, std::int64_t kLanes>
[[gnu::noinline]] void expand_pixels(const Expanded<kLanes>& s, const Ordered& ordered, std::int64_t block,
                                     const End& end, const float* x, std::int64_t pixels, float* y) {
  using Block = typename Depthwise<kLanes>::Block;
  using Vector = typename Depthwise<kLanes>::Vector;
  const std::int64_t inputs = s.inputs;
  const End own_end = end;
  Vector bias[N];
#pragma GCC unroll 2
  for (int n = 0; n < N; ++n) Block::load(ordered.bias + (block + n) * kLanes, bias[n]);
  // Few addresses stay in registers: of every eighth pixel, and the distances of the next seven.
  constexpr int kNear = 8;
  std::int64_t distance[kNear];
  for (int p = 0; p < kNear; ++p) distance[p] = p * inputs;
  const std::int64_t far = kNear * inputs;
  for (std::int64_t pixel = 0; pixel < pixels; pixel += P) {
    if (pixel > pixels - P) pixel = pixels - P;  // the last ones begin early
    Vector sums[P][N];
#pragma GCC unroll 24
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) sums[p][n] = bias[n];
    const float* const from = x + pixel * inputs;
    const float* weights = ordered.weight + block * inputs * kLanes;
    for (std::int64_t c = 0; c < inputs; ++c, weights += N * kLanes) {
      Vector weight[N];
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) Block::load_factor(weights + n * kLanes, weight[n]);
#pragma GCC unroll 24
      for (int p = 0; p < P; ++p) {
        const float value = from[c + p / kNear * far + distance[p % kNear]];
#pragma GCC unroll 2
        for (int n = 0; n < N; ++n) sums[p][n] += value * weight[n];
      }
    }
    own_end.apply(sums);
    float* const to = y + pixel * kVectors * kLanes;
#pragma GCC unroll 24
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) Block::store(sums[p][n], to + (p * kVectors + n) * kLanes);
  }
}

template <std::int64_t kLanes>
void expand(const Expanded<kLanes>& s, const Ordered& ordered, const Range& blocks, const End& end,
            const float* x, std::int64_t pixels, float* y) {
  if (pixels == 0) return;
  with_constant<kVectors>(blocks.count(), [&]<int N>(std::integral_constant<int, N>) {
    with_constant<kPixels<kLanes>>(pixels, [&]<int P>(std::integral_constant<int, P>) {
      expand_pixels<P, N>(s, ordered, blocks.first, end, x, pixels, y);
    });
  });
}

/// The ordered weights of the two convolutions, and what they end with.
struct Work {
  Ordered expansion;
  End expansion_end;
  Ordered windows;
  End end;
};

/// Rows [first, last) of an image's output; `x`, `y`: the image.
template <std::int64_t kLanes>
void write_strip(const Expanded<kLanes>& s, const Work& work, const float* x, std::int64_t first,
                 std::int64_t last, float* expanded, float* y) {
  const Axis& h = s.windows.h;
  const std::int64_t row = s.windows.read_row(), row_of_x = s.windows.w.read * s.inputs;
  const auto inside = [&](std::int64_t at) { return std::clamp<std::int64_t>(at, 0, h.read); };
  std::int64_t from = 0, to = 0;  // rows of the expanded image that there are
  for (std::int64_t i = first, next; i < last; i = next) {
    next = std::min(i + s.band, last);
    const std::int64_t needed_from = inside(i * h.step + h.taps(0).front().at);
    const std::int64_t needed_to =
        std::max(inside((next - 1) * h.step + h.taps(0).back().at + 1), needed_from);
    const std::int64_t kept = std::max<std::int64_t>(to - needed_from, 0), begin = needed_from + kept;
    for (std::int64_t group = 0; group < s.groups(); ++group) {
      float* const rows = expanded + group * s.group_values();
      if (kept > 0)
        std::memmove(rows, rows + (needed_from - from) * row,
                     static_cast<std::size_t>(kept * row) * sizeof(float));
      expand(s, work.expansion, s.blocks_of(group), work.expansion_end, x + begin * row_of_x,
             (needed_to - begin) * s.windows.w.read, rows + kept * row);
      write_rows(s.windows, s.blocks_of(group), work.windows, work.end, rows - needed_from * row, i, next, y);
    }
    from = needed_from, to = needed_to;
  }
}

struct Pointers {
  const float *x, *expansion_weight, *expansion_bias, *weight, *bias;
  float *y, *workspace;
};

template <std::int64_t kLanes>
void run_expanded(const Expanded<kLanes>& s, const Pointers& at, const End& expansion_end, const End& end) {
  const Depthwise<kLanes, kVectors>& windows = s.windows;
  float *const expansion_weight = at.workspace, *const expansion_bias = expansion_weight + s.weights();
  float* const weight = expansion_bias + windows.blocks() * kLanes;
  float *const bias = weight + windows.values(), *const expanded = at.workspace + s.ordered();
  const Work work{{expansion_weight, expansion_bias}, expansion_end, {weight, bias}, end};
  const std::int64_t strips = s.strips();
  Shares shares(windows.threads, windows.batch * strips, 1);
#pragma omp parallel num_threads(windows.threads)
  {
#pragma omp for schedule(static)
    for (std::int64_t group = 0; group < s.groups(); ++group) {
      const Range blocks = s.blocks_of(group);
      order_group(s, blocks, at.expansion_weight, at.expansion_bias, expansion_weight, expansion_bias);
      for (std::int64_t block = blocks.first; block < blocks.last; ++block)
        order_block(windows, block, at.weight, at.bias, weight, bias);
    }
    shares.run([&](std::int64_t first, std::int64_t last) {
      for (std::int64_t task = first; task < last; ++task) {
        const std::int64_t image = task / strips, strip = task % strips;
        write_strip(s, work, at.x + image * windows.h.read * windows.w.read * s.inputs,
                    windows.h.written * strip / strips, windows.h.written * (strip + 1) / strips,
                    expanded + omp_get_thread_num() * s.band_values(),
                    at.y + image * windows.h.written * windows.written_row());
      }
    });
  }
}

void expand_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& input,
                   const Expansion& expansion, const Tensor& weight, const Tensor& bias,
                   const Activation& end, Tensor& output) {
  if (output.count() == 0) return;
  with_f32_lanes(
      geometry.in_channels, [&]<std::int64_t kLanes>(std::integral_constant<std::int64_t, kLanes>) {
        const Expanded<kLanes> sizes(geometry, input.shape(), output.shape(), context.device().threads());
        const Pointers at{
            input.data<float>(),
            expansion.weight.data<float>(),
            detail::optional_data<float>(expansion.bias),
            weight.data<float>(),
            detail::optional_data<float>(bias),
            output.data<float>(),
            context.workspace_of<float>(sizes.ordered() + sizes.windows.threads * sizes.band_values())};
        context.run([sizes, at, expansion_end = End(expansion.end), end = End(end)] {
          run_expanded(sizes, at, expansion_end, end);
        });
      });
}

const Define define_expand(expand_and_convolve, DeviceKind::cpu, &expand_on_cpu);

}  // namespace

bool can_expand(const ConvolutionGeometry& geometry) {
  // With gaps, more rows of the expanded image would be kept than used.
  return instruction_set() != InstructionSet::baseline && geometry.spatial_axes() == 2 &&
         std::ranges::max(geometry.dilation) == 1 && geometry.group == geometry.in_channels &&
         geometry.in_channels == geometry.out_channels && geometry.in_channels >= 8;
}

std::int64_t expansion_that_pays() {
  constexpr std::int64_t kWithAvx512 = std::int64_t{512} << 10;
  return instruction_set() == InstructionSet::avx2 ? l2_cache() : kWithAvx512;
}

}  // namespace banyan::ops
