// Terms: a block is a vector of neighbouring channels; the last one starts early rather than being short.
// What is written is the output or the gradient of the input, what is read the input or the gradient of the
// output.
//
// Along an axis, the pixels that are written are in as many phases as windows move in steps when gradients
// are written (pixel i in phase i % stride), and in one phase otherwise: those of a phase have the same taps
// of the window, at the same distances.
//
// Every loop over an array of vectors is unrolled by a pragma: see convolution_rows.cpp.
#include "ops/cpu/convolution_depthwise.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/constant_numbers.hpp"
#include "ops/cpu/convolution_choice.hpp"
#include "ops/cpu/shares.hpp"

namespace banyan::ops {
namespace {

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
/// Of the weights' gradient, whose sums and addresses are in registers.
constexpr int kMostTaps = 9;
/// Outputs whose products are added up in registers, and then added to a thread's sums.
constexpr std::int64_t kTileColumns = 16, kTilePixels = 32;

std::int64_t floor_of(std::int64_t number, std::int64_t divisor) {
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

  Axis(const ConvolutionGeometry& g, const Tensor& input, const Tensor& output, std::size_t axis,
       bool gradients)
      : read(input.shape()[static_cast<int>(axis) + 2]), written(output.shape()[static_cast<int>(axis) + 2]) {
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

/// The taps of a window, or of some of its columns, row after row.
struct Window {
  std::int64_t width = 0;
  bool shares = false;  ///< may kSharing of them share what they read?
  std::vector<Product> products;
  Products rows(const Range& range) const {
    return Products(products).subspan(static_cast<std::size_t>(range.first * width),
                                      static_cast<std::size_t>(range.count() * width));
  }
};

constexpr std::int64_t kMostSums = std::int64_t{8} << 20;  ///< for the gradient of the weights: 32 MiB

/// Sizes for one call; copied into the enqueued work.
template <std::int64_t kLanes>
struct Depthwise {
  using Block = ChannelBlock<float, kLanes>;
  using Vector = typename Block::Values;

  Axis h, w;
  std::int64_t batch, channels, kernel_h, kernel_w;
  int threads;
  /// [phase of the rows] for every phase of the columns, where they are whole, and then for every pixel that
  /// is not.
  std::vector<Window> windows;

  Depthwise(const ConvolutionGeometry& g, const Tensor& input, const Tensor& output, bool gradients, int team)
      : h(g, input, output, 0, gradients),
        w(g, input, output, 1, gradients),
        batch(input.shape()[0]),
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
  std::int64_t read_row() const { return w.read * channels; }
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
  std::int64_t shares() const { return std::clamp<std::int64_t>(kMostSums / sums(), 1, threads); }

 private:
  void add_window(std::int64_t phase, const Range& columns) {
    for (std::int64_t f = 0; f < h.count(); ++f) {
      Window window{columns.count(), false, {}};
      for (const Tap& row : h.taps(f))
        for (std::int64_t i = columns.first; i < columns.last; ++i) {
          const Tap& column = w.taps(phase)[static_cast<std::size_t>(i)];
          window.products.push_back(
              {row.at * read_row() + column.at * channels, (row.number * kernel_w + column.number) * kLanes});
        }
      const auto& taps = w.taps(phase);
      window.shares = window.width >= kSharing && taps[1].at - taps[0].at == w.step;
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
  template <class Vector>
  void apply(Vector& values) const {
    if (kind == Activation::Kind::relu) end_with_relu(slope, values);
    if (kind == Activation::Kind::clip) {
      const Vector least = Vector{} + low, most = Vector{} + high;
      values = values < low ? least : values > high ? most : values;
    }
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

/// P pixels of a phase, N neighbouring blocks from `block` on. `x` and `y`: at the first of them. Not
/// inlined: its loop needs the registers.
template <int P, int N, std::int64_t kLanes>
[[gnu::noinline]] void add_windows(const Depthwise<kLanes>& s, const Window& window, const Range& rows,
                                   const Ordered& ordered, std::int64_t block, const End& end, const float* x,
                                   float* y) {
  using Block = typename Depthwise<kLanes>::Block;
  using Vector = typename Depthwise<kLanes>::Vector;
  Vector sums[P][N];
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n) Block::load(ordered.bias + (block + n) * kLanes, sums[0][n]);
#pragma GCC unroll 8
  for (int p = 1; p < P; ++p)
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) sums[p][n] = sums[0][n];
  const std::int64_t first = s.first_channel(block), last = s.first_channel(block + N - 1) - first;
  const auto distance = [&](int n) { return n < N - 1 ? n * kLanes : last; };
  const std::int64_t step = s.w.step * s.channels, next = s.block_values();
  const std::int64_t pixel = s.w.count() * s.channels;
  const float* const weights = ordered.weight + block * next;
  x += first, y += first;
  // A line must be fetched before it is written: that can begin now.
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p)
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) __builtin_prefetch(y + p * pixel + distance(n), 1);
  /// T taps.
  const auto add = [&]<int T>(const Product* taps, std::integral_constant<int, T>) {
    const float* from = x + taps->at;
    Vector factors[T][N], values;
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      const float* weight = weights + taps[t].place;
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n, weight += next) Block::load_factor(weight, factors[t][n]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < P + T - 1; ++i, from += step)
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) {
        Block::load(from + distance(n), values);
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t)
          if (i >= t && i - t < P) sums[i - t][n] += values * factors[t][n];
      }
  };
  const Products products = window.rows(rows);
  const Product *tap = products.data(), *const last_tap = tap + products.size();
  if (window.shares) {
    while (tap != last_tap) {
      std::int64_t left = window.width;
      for (; left >= kSharing; left -= kSharing, tap += kSharing)
        add(tap, std::integral_constant<int, kSharing>());
      for (; left > 0; --left, ++tap) add(tap, std::integral_constant<int, 1>());
    }
  } else {
    for (; tap != last_tap; ++tap) add(tap, std::integral_constant<int, 1>());
  }
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p)
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      end.apply(sums[p][n]);
      Block::store(sums[p][n], y + p * pixel + distance(n));
    }
}

/// P pixels of a phase in each row, from the j-th on, all blocks.
template <int P, std::int64_t kLanes>
void write_pixels(const Depthwise<kLanes>& s, std::span<const Row> rows, std::int64_t phase, std::int64_t j,
                  const Ordered& ordered, const End& end) {
  const std::int64_t from = j * s.w.step * s.channels, to = (phase + j * s.w.count()) * s.channels;
  in_parts<kBlocks<P, kLanes>>(s.blocks(), [&]<int N>(std::int64_t block, std::integral_constant<int, N>) {
    for (const Row& row : rows)
      add_windows<P, N>(s, s.window(row.phase, phase, j), row.taps, ordered, block, end, row.x + from,
                        row.y + to);
  });
}

/// Rows [first, last) of an image, of which there are few.
template <std::int64_t kLanes>
void write_rows(const Depthwise<kLanes>& s, const Ordered& ordered, const End& end, const float* x,
                std::int64_t first, std::int64_t last, float* y) {
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
        write_pixels<1>(s, rows, f, j, ordered, end);
  };
  write_ends(0, s.w.whole_first);
  in_parts<kMostPixels>(s.w.whole_last - s.w.whole_first,
                        [&]<int P>(std::int64_t j, std::integral_constant<int, P>) {
                          for (std::int64_t f = 0; f < phases; ++f)
                            write_pixels<P>(s, rows, f, s.w.whole_first + j, ordered, end);
                        });
  write_ends(s.w.whole_last, s.w.length());
}

template <std::int64_t kLanes>
void run_windows(const Depthwise<kLanes>& s, const float* x, const float* weight, const float* bias,
                 const End& end, float* y, float* workspace) {
  float *const ordered_weight = workspace, *const ordered_bias = workspace + s.values();
  const std::int64_t strips = s.strips();
  Shares shares(s.threads, s.batch * strips, 1);
#pragma omp parallel num_threads(s.threads)
  {
#pragma omp for schedule(static)
    for (std::int64_t block = 0; block < s.blocks(); ++block) {
      const std::int64_t first = s.first_channel(block);
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        ordered_bias[block * kLanes + lane] = bias == nullptr ? 0 : bias[first + lane];
        for (std::int64_t tap = 0; tap < s.taps(); ++tap)
          ordered_weight[block * s.block_values() + tap * kLanes + lane] =
              weight[(first + lane) * s.taps() + tap];
      }
    }
    shares.run([&](std::int64_t first, std::int64_t last) {
      for (std::int64_t task = first; task < last; ++task) {
        const std::int64_t image = task / strips, strip = task % strips;
        write_rows(s, {ordered_weight, ordered_bias}, end, x + image * s.h.read * s.read_row(),
                   s.h.written * strip / strips, s.h.written * (strip + 1) / strips,
                   y + image * s.h.written * s.written_row());
      }
    });
  }
}

// --- Gradient of the weights --------------------------------------------------------------------

/// Outputs in a rectangle of an image, which have the same taps inside.
struct Tile {
  std::int64_t row, rows, column, columns;
  Products taps;
};

/// Adds the products of a tile with K taps, and its gradients. `x` and `dy`: at its first pixel.
template <int K, std::int64_t kLanes>
void add_products(const Depthwise<kLanes>& s, const Tile& tile, const Product* taps, const float* x,
                  const float* dy, float* kept, float* bias) {
  using Block = typename Depthwise<kLanes>::Block;
  using Vector = typename Depthwise<kLanes>::Vector;
  const std::int64_t step = s.w.step * s.channels, end = tile.columns * step;
  Vector sums[K + 1] = {}, gradient, values;
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const float* at[K + 1];
#pragma GCC unroll 9
    for (int k = 0; k < K; ++k) at[k] = x + taps[k].at;
    const float* from = dy;
    for (std::int64_t column = 0; column < end; column += step, from += s.channels) {
      Block::load_factor(from, gradient);
      sums[K] += gradient;
#pragma GCC unroll 9
      for (int k = 0; k < K; ++k) {
        Block::load(at[k] + column, values);
        sums[k] += values * gradient;
      }
    }
    x += s.h.step * s.read_row();
    dy += s.written_row();
  }
  const auto add = [&](const Vector& sum, float* to) {
    Block::load(to, values);
    values += sum;
    Block::store(values, to);
  };
#pragma GCC unroll 9
  for (int k = 0; k < K; ++k) add(sums[k], kept + taps[k].place);
  if (bias != nullptr) add(sums[K], bias);
}

/// A tile, all blocks; `x` and `dy`: the image.
template <std::int64_t kLanes>
void add_tile(const Depthwise<kLanes>& s, const Tile& tile, const float* x, const float* dy, float* kept) {
  x += (tile.row * s.h.step * s.w.read + tile.column * s.w.step) * s.channels;
  dy += (tile.row * s.w.written + tile.column) * s.channels;
  for (std::int64_t block = 0; block < s.blocks(); ++block, kept += s.block_sums()) {
    const std::int64_t channel = s.first_channel(block);
    float* bias = kept + s.block_values();
    if (tile.taps.empty()) add_products<0>(s, tile, nullptr, x, dy + channel, kept, bias);
    in_parts<kMostTaps>(static_cast<std::int64_t>(tile.taps.size()),
                        [&]<int K>(std::int64_t first, std::integral_constant<int, K>) {
                          add_products<K>(s, tile, tile.taps.data() + first, x + channel, dy + channel, kept,
                                          bias);
                          bias = nullptr;
                        });
  }
}

/// Rows [first, last) of the outputs of an image.
template <std::int64_t kLanes>
void add_rows(const Depthwise<kLanes>& s, std::int64_t first, std::int64_t last, const float* x,
              const float* dy, float* kept) {
  const std::int64_t whole = s.w.whole_last - s.w.whole_first;
  const std::int64_t parts = (whole + kTileColumns - 1) / kTileColumns;
  const std::int64_t most_rows = parts == 0 ? 1 : std::max<std::int64_t>(kTilePixels / (whole / parts), 1);
  Tile tile{};
  for (std::int64_t row = first, end; row < last; row = end) {
    const bool is_whole = row >= s.h.whole_first && row < s.h.whole_last;
    const Range in_rows = s.h.inside(0, row);
    end = is_whole ? std::min({row + kRowsAtATime, s.h.whole_last, last}) : row + 1;
    const auto add_ends = [&](std::int64_t from, std::int64_t to) {
      tile.row = row, tile.rows = end - row, tile.columns = 1;
      for (tile.column = from; tile.column < to; ++tile.column) {
        tile.taps = s.window(0, 0, tile.column).rows(in_rows);
        add_tile(s, tile, x, dy, kept);
      }
    };
    add_ends(0, s.w.whole_first);
    tile.taps = s.windows[0].rows(in_rows);
    for (tile.row = row; tile.row < end; tile.row += tile.rows) {
      tile.rows = std::min(most_rows, end - tile.row);
      for (std::int64_t part = 0; part < parts; ++part) {
        tile.column = s.w.whole_first + whole * part / parts;
        tile.columns = s.w.whole_first + whole * (part + 1) / parts - tile.column;
        add_tile(s, tile, x, dy, kept);
      }
    }
    add_ends(s.w.whole_last, s.w.written);
  }
}

/// The sums of a block over the shares, in their order, where the caller wants them.
template <std::int64_t kLanes>
void write_block(const Depthwise<kLanes>& s, std::int64_t block, const float* kept, bool adds, float* dw,
                 float* db) {
  const std::int64_t first = s.first_channel(block);
  const auto write = [&](const float* from, float& to) {
    float sum = *from;
    for (std::int64_t share = 1; share < s.shares(); ++share) sum += from[share * s.sums()];
    to = adds ? to + sum : sum;
  };
  // Channels already in the previous block are not added again.
  for (std::int64_t lane = block * kLanes - first; lane < kLanes; ++lane) {
    const float* from = kept + block * s.block_sums() + lane;
    for (std::int64_t tap = 0; tap < s.taps(); ++tap, from += kLanes)
      write(from, dw[(first + lane) * s.taps() + tap]);
    if (db != nullptr) write(from, db[first + lane]);
  }
}

template <std::int64_t kLanes>
void run_backward_weight(const Depthwise<kLanes>& s, const float* x, const float* dy, bool adds, float* dw,
                         float* db, float* kept) {
  const std::int64_t shares = s.shares();
#pragma omp parallel num_threads(s.threads)
  {
#pragma omp for schedule(static)
    for (std::int64_t share = 0; share < shares; ++share) {
      float* const sums = kept + share * s.sums();
      std::fill_n(sums, s.sums(), 0.0f);
      const std::int64_t rows = s.batch * s.h.written, end = rows * (share + 1) / shares;
      for (std::int64_t row = rows * share / shares; row < end;) {
        const std::int64_t image = row / s.h.written, first = row % s.h.written;
        const std::int64_t last = std::min(s.h.written, first + end - row);
        add_rows(s, first, last, x + image * s.h.read * s.read_row(),
                 dy + image * s.h.written * s.written_row(), sums);
        row += last - first;
      }
    }
#pragma omp for schedule(static)
    for (std::int64_t block = 0; block < s.blocks(); ++block) write_block(s, block, kept, adds, dw, db);
  }
}

// ------------------------------------------------------------------------------------------------

/// body(Depthwise) with vectors of the instruction set that the channels fill.
template <class Body>
void with_depthwise(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output,
                    bool gradients, int threads, const Body& body) {
  if (instruction_set() == InstructionSet::avx512 && geometry.in_channels >= 16)
    body(Depthwise<16>(geometry, input, output, gradients, threads));
  else
    body(Depthwise<8>(geometry, input, output, gradients, threads));
}

void forward_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& input,
                    const Tensor& weight, const Tensor& bias, const Activation& activation, Tensor& output) {
  with_depthwise(geometry, input, output, false, context.device().threads(),
                 [&]<std::int64_t kLanes>(const Depthwise<kLanes>& sizes) {
                   auto* workspace = context.workspace_of<float>(sizes.values() + sizes.blocks() * kLanes);
                   context.run([sizes, x = input.data<float>(), w = weight.data<float>(),
                                b = bias.defined() ? bias.data<float>() : nullptr, end = End(activation),
                                y = output.data<float>(),
                                workspace] { run_windows(sizes, x, w, b, end, y, workspace); });
                 });
}

void backward_data_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& grad_output,
                          const Tensor& weight, Tensor& grad_input) {
  with_depthwise(geometry, grad_input, grad_output, true, context.device().threads(),
                 [&]<std::int64_t kLanes>(const Depthwise<kLanes>& sizes) {
                   auto* workspace = context.workspace_of<float>(sizes.values() + sizes.blocks() * kLanes);
                   context.run([sizes, dy = grad_output.data<float>(), w = weight.data<float>(),
                                dx = grad_input.data<float>(),
                                workspace] { run_windows(sizes, dy, w, nullptr, End({}), dx, workspace); });
                 });
}

void backward_weight_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& input,
                            const Tensor& grad_output, bool adds, Tensor& grad_weight, Tensor& grad_bias) {
  with_depthwise(geometry, input, grad_output, false, context.device().threads(),
                 [&]<std::int64_t kLanes>(const Depthwise<kLanes>& sizes) {
                   auto* kept = context.workspace_of<float>(sizes.shares() * sizes.sums());
                   context.run([sizes, x = input.data<float>(), dy = grad_output.data<float>(), adds,
                                dw = grad_weight.data<float>(),
                                db = grad_bias.defined() ? grad_bias.data<float>() : nullptr,
                                kept] { run_backward_weight(sizes, x, dy, adds, dw, db, kept); });
                 });
}

const Define define_forward(forward_depthwise, DeviceKind::cpu, &forward_on_cpu);
const Define define_backward_data(backward_data_depthwise, DeviceKind::cpu, &backward_data_on_cpu);
const Define define_backward_weight(backward_weight_depthwise, DeviceKind::cpu, &backward_weight_on_cpu);

}  // namespace

bool depthwise_applies(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output) {
  return geometry.spatial_axes() == 2 && geometry.group == geometry.in_channels &&
         geometry.in_channels == geometry.out_channels && geometry.in_channels >= 8 &&
         is_kernel_order(input) && is_kernel_order(output) && input.count() > 0 && output.count() > 0;
}

bool depthwise_pays(DepthwisePass pass, const ConvolutionGeometry& geometry, const Tensor& input,
                    const Tensor& output) {
  if (!depthwise_applies(geometry, input, output)) return false;
  const auto all_are = [](const std::vector<std::int64_t>& lengths, std::int64_t wanted) {
    return std::ranges::all_of(lengths, [&](std::int64_t length) { return length == wanted; });
  };
  const bool has_gaps = !all_are(geometry.dilation, 1);
  const bool is_long = output.shape()[3] >= 10;  // a row: in short ones most of the time goes to their ends
  // Between 8 and 16 channels take two vectors of 8, which oneDNN has in one with a mask.
  const bool fills = geometry.in_channels >= 16 || geometry.in_channels == 8;
  // oneDNN has a kernel for the weights' gradient of windows of up to 3 x 3 without gaps; others take up to
  // two hundred times as long.
  const bool only_ours = has_gaps || std::ranges::max(geometry.kernel) > 3;
  switch (instruction_set()) {
    case InstructionSet::avx512:
      if (pass == DepthwisePass::forward) return fills && is_long && !has_gaps && all_are(geometry.stride, 1);
      if (pass == DepthwisePass::backward_data)
        return has_gaps || (fills && std::ranges::max(geometry.stride) <= 2);
      // Blocks that begin within lines of the cache take two reads for each value.
      return only_ours || (is_long && (geometry.in_channels % 16 == 0 || output.shape()[3] >= 56));
    case InstructionSet::avx2:
      if (pass == DepthwisePass::forward) return false;
      return pass == DepthwisePass::backward_data ? has_gaps : only_ours || is_long;
    case InstructionSet::baseline:
      break;
  }
  return false;
}

}  // namespace banyan::ops
