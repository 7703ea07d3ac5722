// The windows of a convolution where each channel is convolved by itself, in channels-last f32 images.
//
// Terms: a block is a vector of neighbouring channels; the last one starts early rather than being short.
// What is written is the output or the gradient of the input, what is read the input or the gradient of the
// output.
//
// Along an axis, the pixels that are written are in as many phases as windows move in steps when gradients
// are written (pixel i in phase i % stride), and in one phase otherwise: those of a phase have the same taps
// of the window, at the same distances.
//
// Every loop over an array of vectors is unrolled by a pragma: see convolution_rows.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "banyan/ops/convolution.hpp"
#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/constant_numbers.hpp"

namespace banyan::ops::depthwise {

template <std::int64_t kLanes>
constexpr int kRegisters = 32;  // of AVX-512
template <>
constexpr int kRegisters<8> = 16;  // of AVX2
/// Neighbouring taps of a row that share what they read: the first one's value for a pixel is the second
/// one's for the pixel before it.
constexpr int kSharing = 3;
constexpr int kMostPixels = 8;  ///< of a phase at a time
/// Blocks of P pixels at a time: sums, the weights of the taps and a value are in registers.
template <int P, std::int64_t kLanes>
constexpr int kBlocks = (kRegisters<kLanes> - 1) / (P + kSharing);
/// Rows, of which some blocks are written before other blocks: what their windows share is in the L1 cache.
constexpr std::int64_t kRowsAtATime = 8;

inline std::int64_t floor_of(std::int64_t number, std::int64_t divisor) {
  return (number >= 0 ? number : number - divisor + 1) / divisor;
}

/// A tap of the window, and the pixel that it reads for the first one written.
struct Tap {
  std::int64_t number, at;
};
struct Range {
  std::int64_t first, last;
  std::int64_t count() const { return last - first; }
};

/// One axis of what is written. Pixel j of phase f is pixel f + j * phases.size(), and its taps read at
/// tap.at + j * step.
struct Axis {
  std::int64_t read, written, step;
  std::vector<std::vector<Tap>> phases;  ///< the taps of each, as they follow each other in memory
  std::int64_t whole_first, whole_last;  ///< for these j, no tap of any phase is outside

  Axis(const ConvolutionGeometry& g, const Shape& input, const Shape& output, std::size_t axis,
       bool gradients)
      : read(input[static_cast<int>(axis) + 2]), written(output[static_cast<int>(axis) + 2]) {
    const std::int64_t kernel = g.kernel[axis], stride = g.stride[axis], pad = g.pad[axis];
    const std::int64_t dilation = g.dilation[axis];
    step = gradients ? 1 : stride;
    phases.resize(static_cast<std::size_t>(gradients ? stride : 1));
    if (gradients) {
      std::swap(read, written);
      for (std::int64_t f = 0; f < stride; ++f)
        for (std::int64_t k = kernel; k-- > 0;)
          if (const std::int64_t distance = f + pad - k * dilation; distance % stride == 0)
            phases[static_cast<std::size_t>(f)].push_back({k, distance / stride});
    } else {
      for (std::int64_t k = 0; k < kernel; ++k) phases[0].push_back({k, k * dilation - pad});
    }
    whole_first = 0;
    whole_last = written / count();
    for (const std::vector<Tap>& taps : phases) {
      if (taps.empty()) continue;
      whole_first = std::max(whole_first, -floor_of(taps.front().at, step));
      whole_last = std::min(whole_last, floor_of(read - 1 - taps.back().at, step) + 1);
    }
    whole_first = std::min(whole_first, length());
    whole_last = std::max(whole_last, whole_first);
  }

  std::int64_t count() const { return static_cast<std::int64_t>(phases.size()); }
  /// Of the longest phase.
  std::int64_t length() const { return (written + count() - 1) / count(); }
  const std::vector<Tap>& taps(std::int64_t phase) const { return phases[static_cast<std::size_t>(phase)]; }
  /// The taps that are inside for pixel j of a phase.
  Range inside(std::int64_t phase, std::int64_t j) const {
    const std::vector<Tap>& all = taps(phase);
    const auto first =
        std::ranges::partition_point(all, [&](const Tap& tap) { return tap.at + j * step < 0; });
    const auto last =
        std::partition_point(first, all.end(), [&](const Tap& tap) { return tap.at + j * step < read; });
    return {first - all.begin(), last - all.begin()};
  }
};

/// A tap of a window: what it reads, in floats from the pixel at 0, and where its weights are in a block's.
struct Product {
  std::int64_t at, place;
};
using Products = std::span<const Product>;

/// Of the taps of a row, which one reads for a pixel what the first one reads for the next pixel?
enum class Sharing : std::uint8_t { none, next, after_next };

/// The taps of a window, or of some of its columns, row after row.
struct Window {
  std::int64_t width = 0;
  Sharing sharing = Sharing::none;
  std::vector<Product> products;
  Products rows(const Range& range) const {
    return Products(products).subspan(static_cast<std::size_t>(range.first * width),
                                      static_cast<std::size_t>(range.count() * width));
  }
};

/// Sizes for one call; copied into the enqueued work. kBlocksRead: what is read is not channels-last but so
/// many blocks of it, as if these were all channels; 0: it is.
template <std::int64_t kLanes, int kBlocksRead = 0>
struct Depthwise {
  using Block = ChannelBlock<float, kLanes>;
  using Vector = typename Block::Values;

  Axis h, w;
  std::int64_t batch, channels, kernel_h, kernel_w;
  int threads;
  /// [phase of the rows] for every phase of the columns, where they are whole, and then for every pixel that
  /// is not.
  std::vector<Window> windows;

  Depthwise(const ConvolutionGeometry& g, const Shape& input, const Shape& output, bool gradients, int team)
      : h(g, input, output, 0, gradients),
        w(g, input, output, 1, gradients),
        batch(input[0]),
        channels(g.in_channels),
        kernel_h(g.kernel[0]),
        kernel_w(g.kernel[1]),
        threads(team) {
    const std::int64_t phases = w.count();
    for (std::int64_t f = 0; f < phases; ++f) add_window(f, {0, std::ssize(w.taps(f))});
    for (std::int64_t j = 0; j < w.length(); ++j) {
      if (j == w.whole_first) j = w.whole_last;
      for (std::int64_t f = 0; f < phases && j < w.length(); ++f) add_window(f, w.inside(f, j));
    }
  }

  /// Of pixel j of a phase of the columns.
  const Window& window(std::int64_t row_phase, std::int64_t phase, std::int64_t j) const {
    if (j >= w.whole_first) j = j < w.whole_last ? -1 : j - (w.whole_last - w.whole_first);
    return windows[static_cast<std::size_t>(((j + 1) * w.count() + phase) * h.count() + row_phase)];
  }
  std::int64_t taps() const { return kernel_h * kernel_w; }
  std::int64_t blocks() const { return (channels + kLanes - 1) / kLanes; }
  std::int64_t first_channel(std::int64_t block) const { return std::min(block * kLanes, channels - kLanes); }
  std::int64_t block_values() const { return taps() * kLanes; }
  std::int64_t values() const { return blocks() * block_values(); }  ///< of the weights
  /// From a pixel of what is read to the next one.
  std::int64_t read_pixel() const { return kBlocksRead > 0 ? kBlocksRead * kLanes : channels; }
  std::int64_t read_row() const { return w.read * read_pixel(); }
  std::int64_t written_row() const { return w.written * channels; }
  /// Of an image; where there are few images, enough for all threads.
  std::int64_t strips() const {
    return std::clamp((threads + batch - 1) / batch, (h.written + kRowsAtATime - 1) / kRowsAtATime,
                      h.written);
  }
  /// For the gradient of the weights, of a share of the rows: sums of every tap of a block, then of its bias.
  std::int64_t block_sums() const { return block_values() + kLanes; }
  std::int64_t sums() const { return blocks() * block_sums(); }
  /// A thread computes one of them; fewer than there are threads where windows are so large.
  std::int64_t shares() const {
    constexpr std::int64_t kMost = std::int64_t{8} << 20;  // 32 MiB
    return std::clamp<std::int64_t>(kMost / sums(), 1, threads);
  }

 private:
  void add_window(std::int64_t phase, const Range& columns) {
    for (std::int64_t f = 0; f < h.count(); ++f) {
      Window window{columns.count(), Sharing::none, {}};
      for (const Tap& row : h.taps(f))
        for (std::int64_t i = columns.first; i < columns.last; ++i) {
          const Tap& column = w.taps(phase)[static_cast<std::size_t>(i)];
          window.products.push_back({row.at * read_row() + column.at * read_pixel(),
                                     (row.number * kernel_w + column.number) * kLanes});
        }
      const auto& taps = w.taps(phase);
      if (window.width >= kSharing && taps[1].at - taps[0].at == w.step) window.sharing = Sharing::next;
      if (window.width == kSharing && taps[2].at - taps[0].at == w.step) window.sharing = Sharing::after_next;
      windows.push_back(std::move(window));
    }
  }
};

// --- Forward, and the gradient of the input -----------------------------------------------------

/// What windows end with: as Relu and ClipFunction in ops/common/activations.hpp, which are bit-identical.
struct End {
  Activation::Kind kind;
  float slope, low, high;

  explicit End(const Activation& activation)
      : kind(activation.kind),
        slope(static_cast<float>(activation.slope)),
        low(static_cast<float>(activation.low)),
        high(static_cast<float>(activation.high)) {}
  /// To P pixels of N blocks.
  template <class Vector, int P, int N>
  void apply(Vector (&values)[P][N]) const {
    const auto to_all = [&](const auto& function) {
#pragma GCC unroll 24
      for (int p = 0; p < P; ++p)
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) function(values[p][n]);
    };
    if (kind == Activation::Kind::relu) to_all([own = slope](Vector& v) { end_with_relu(own, v); });
    if (kind == Activation::Kind::clip)
      to_all([least = Vector{} + low, most = Vector{} + high](Vector& v) { end_with_clip(least, most, v); });
  }
};

/// Weights, [block][tap][lane], and bias, [block][lane].
struct Ordered {
  const float *weight, *bias;
};

/// A row to be written: `x` is the row of the image that a tap at 0 reads.
struct Row {
  std::int64_t phase;
  Range taps;
  const float* x;
  float* y;
};

/// P pixels of a phase in each row, from the j-th on, N neighbouring blocks from `block` on. Not inlined: its
/// loops need the registers.
template <int P, int N, std::int64_t kLanes, int kBlocksRead>
[[gnu::noinline]] void add_windows(const Depthwise<kLanes, kBlocksRead>& s, std::span<const Row> rows,
                                   std::int64_t phase, std::int64_t j, const Ordered& ordered,
                                   std::int64_t block, std::int64_t read_place, const End& end) {
  using Block = typename Depthwise<kLanes, kBlocksRead>::Block;
  using Vector = typename Depthwise<kLanes, kBlocksRead>::Vector;
  const End own_end = end;  // what is written does not change it
  const std::int64_t first = s.first_channel(block), last = s.first_channel(block + N - 1) - first;
  const std::int64_t last_read = kBlocksRead > 0 ? (N - 1) * kLanes : last;
  const auto distance = [&](int n) { return n < N - 1 ? n * kLanes : last; };
  const auto read_distance = [&](int n) { return n < N - 1 ? n * kLanes : last_read; };
  const std::int64_t step = s.w.step * s.read_pixel(), next = s.block_values();
  const std::int64_t pixel = s.w.count() * s.channels;
  const std::int64_t from_x = j * step + read_place;
  const std::int64_t from_y = (phase + j * s.w.count()) * s.channels + first;
  const float* const weights = ordered.weight + block * next;
  const Window* window = nullptr;
  Products products;
  const Row* previous = nullptr;
  for (const Row& row : rows) {
    if (previous == nullptr || row.phase != previous->phase || row.taps.first != previous->taps.first ||
        row.taps.last != previous->taps.last) {
      window = &s.window(row.phase, phase, j);
      products = window->rows(row.taps);
    }
    previous = &row;
    const float* const x = row.x + from_x;
    float* const y = row.y + from_y;
    Vector sums[P][N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) Block::load(ordered.bias + (block + n) * kLanes, sums[0][n]);
#pragma GCC unroll 8
    for (int p = 1; p < P; ++p)
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sums[p][n] = sums[0][n];
        // A line must be fetched before it is written: that can begin now.
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) __builtin_prefetch(y + p * pixel + distance(n), 1);
    /// T taps, each the kApart-th after the one before it, that share what they read.
    const auto add = [&]<int T, int kApart = 1>(const Product* taps, std::integral_constant<int, T>,
                                                std::integral_constant<int, kApart> = {}) {
      const float* from = x + taps->at;
      Vector factors[T][N], values;
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        const float* weight = weights + taps[t * kApart].place;
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n, weight += next) Block::load_factor(weight, factors[t][n]);
      }
#pragma GCC unroll 16
      for (int i = 0; i < P + T - 1; ++i, from += step)
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) {
          Block::load_factor(from + read_distance(n), values);
#pragma GCC unroll 8
          for (int t = 0; t < T; ++t)
            if (i >= t && i - t < P) sums[i - t][n] += values * factors[t][n];
        }
    };
    constexpr std::integral_constant<int, 1> kOne;
    constexpr std::integral_constant<int, 2> kTwo;
    constexpr std::integral_constant<int, kSharing> kThree;
    const Product *tap = products.data(), *const last_tap = tap + products.size();
    const bool is_3x3 = window->width == 3 && products.size() == 9;
    if (is_3x3 && window->sharing == Sharing::next) {
#pragma GCC unroll 3
      for (int r = 0; r < 3; ++r) add(tap + 3 * r, kThree);
    } else if (is_3x3 && window->sharing == Sharing::after_next) {
#pragma GCC unroll 3
      for (int r = 0; r < 3; ++r) {
        add(tap + 3 * r, kTwo, kTwo);
        add(tap + 3 * r + 1, kOne);
      }
    } else if (window->sharing == Sharing::next) {
      while (tap != last_tap) {
        std::int64_t left = window->width;
        for (; left >= kSharing; left -= kSharing, tap += kSharing) add(tap, kThree);
        for (; left > 0; --left, ++tap) add(tap, kOne);
      }
    } else {
      for (; tap != last_tap; ++tap) add(tap, kOne);
    }
    own_end.apply(sums);
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) Block::store(sums[p][n], y + p * pixel + distance(n));
  }
}

/// P pixels of a phase in each row, from the j-th on.
template <int P, std::int64_t kLanes, int kBlocksRead>
void write_pixels(const Depthwise<kLanes, kBlocksRead>& s, const Range& blocks, std::span<const Row> rows,
                  std::int64_t phase, std::int64_t j, const Ordered& ordered, const End& end) {
  in_parts<kBlocks<P, kLanes>>(
      blocks.count(), [&]<int N>(std::int64_t number, std::integral_constant<int, N>) {
        const std::int64_t block = blocks.first + number;
        const std::int64_t read_place = kBlocksRead > 0 ? number * kLanes : s.first_channel(block);
        add_windows<P, N>(s, rows, phase, j, ordered, block, read_place, end);
      });
}

/// Some blocks of rows [first, last) of an image, of which there are few; `x`: where these blocks are read.
template <std::int64_t kLanes, int kBlocksRead>
void write_rows(const Depthwise<kLanes, kBlocksRead>& s, const Range& blocks, const Ordered& ordered,
                const End& end, const float* x, std::int64_t first, std::int64_t last, float* y) {
  Row rows_of[kRowsAtATime];
  const std::span<const Row> rows(rows_of, static_cast<std::size_t>(last - first));
  for (std::int64_t i = first; i < last; ++i) {
    const std::int64_t phase = i % s.h.count(), j = i / s.h.count();
    rows_of[i - first] = {phase, s.h.inside(phase, j), x + j * s.h.step * s.read_row(),
                          y + i * s.written_row()};
  }
  const std::int64_t phases = s.w.count();
  const auto write_ends = [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t j = from; j < to; ++j)
      for (std::int64_t f = 0; f < std::min(phases, s.w.written - j * phases); ++f)
        write_pixels<1>(s, blocks, rows, f, j, ordered, end);
  };
  write_ends(0, s.w.whole_first);
  in_parts<kMostPixels>(s.w.whole_last - s.w.whole_first,
                        [&]<int P>(std::int64_t j, std::integral_constant<int, P>) {
                          for (std::int64_t f = 0; f < phases; ++f)
                            write_pixels<P>(s, blocks, rows, f, s.w.whole_first + j, ordered, end);
                        });
  write_ends(s.w.whole_last, s.w.length());
}

/// Weights and bias of a block as write_rows reads them; `bias` null: 0.
template <std::int64_t kLanes, int kBlocksRead>
void order_block(const Depthwise<kLanes, kBlocksRead>& s, std::int64_t block, const float* weight,
                 const float* bias, float* ordered_weight, float* ordered_bias) {
  const std::int64_t first = s.first_channel(block);
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    ordered_bias[block * kLanes + lane] = bias == nullptr ? 0 : bias[first + lane];
    for (std::int64_t tap = 0; tap < s.taps(); ++tap)
      ordered_weight[block * s.block_values() + tap * kLanes + lane] =
          weight[(first + lane) * s.taps() + tap];
  }
}

}  // namespace banyan::ops::depthwise
