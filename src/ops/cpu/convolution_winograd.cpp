// Terms: a tile is 2 x 2 outputs and the 4 x 4 inputs that they need; the tiles of all images are numbered
// one after the other. A position is one of the 16 places in a transformed tile. A block is a vector of
// neighbouring channels.
//
// A thread transforms the inputs of some tiles, so that they stay in its L2 cache, and then computes a group
// of output vectors after the other: for each position a product of (tiles, inputs) and (inputs, group),
// whose weights stay in the L1 cache, and the transformation back. Of few tiles, each thread computes a part
// of the outputs.
//
// What a tile's outputs are does not depend on which tiles are computed with it.
//
// For the gradient of the weights, a share of the tiles has sums of its own for all weights, 16 per pair of
// channels. Where these would need too much memory, or there are few tiles, several threads have one share,
// and each of them a part of the outputs.
#include "ops/cpu/convolution_winograd.hpp"

#include <omp.h>

#include <algorithm>
#include <vector>

#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/constant_numbers.hpp"
#include "ops/cpu/convolution_choice.hpp"
#include "ops/cpu/convolution_turned.hpp"
#include "ops/cpu/shares.hpp"

namespace banyan::ops {
namespace {

constexpr std::int64_t kLanes = 16;  ///< of a vector of AVX-512
using Block = ChannelBlock<float, kLanes>;
using Vector = Block::Values;
constexpr std::int64_t kSide = 4, kPositions = kSide * kSide;  ///< of a tile's inputs
constexpr std::int64_t kStep = 2;                              ///< from tile to tile: a side of its outputs
constexpr std::int64_t kTaps = 9;
constexpr int kSums = 24;    ///< in registers, beside up to kVectors of weights and a factor
constexpr int kVectors = 2;  ///< of outputs in a group
constexpr std::int64_t kTiles =
    24;  ///< at a time, if there are many: their values at one position stay in the L1 cache
/// No more than these are computed at once, by each thread a part of the outputs: otherwise every thread
/// would read all weights, for few tiles.
constexpr std::int64_t kFewTiles = 64;
constexpr std::int64_t kMostSums = std::int64_t{8} << 20;  ///< for the gradient of the weights: 32 MiB

/// Vectors of outputs that are computed together.
struct Group {
  std::int64_t first, count;
};

/// Sizes for one call; copied into the enqueued work.
struct Sizes {
  std::int64_t batch, inputs, outputs, in_h, in_w, out_h, out_w, pad_h, pad_w, rows, columns;
  int threads;
  std::int64_t tasks, most;  ///< of tiles in a task
  std::int64_t parts = 1;    ///< of the groups of outputs, computed by a thread each

  Sizes(const ConvolutionGeometry& g, const Tensor& input, const Tensor& output, int team)
      : batch(input.shape()[0]),
        inputs(g.in_channels),
        outputs(g.out_channels),
        in_h(input.shape()[2]),
        in_w(input.shape()[3]),
        out_h(output.shape()[2]),
        out_w(output.shape()[3]),
        pad_h(g.pad[0]),
        pad_w(g.pad[1]),
        rows((out_h + kStep - 1) / kStep),
        columns((out_w + kStep - 1) / kStep),
        threads(team) {
    if (tiles() > kFewTiles) {
      divide_among(threads);
      return;
    }
    const auto longest = [this](std::int64_t some) {  // what the busiest thread computes
      return (groups() + some - 1) / some * most_of(tasks_for(some));
    };
    for (std::int64_t some = 2; some <= std::min<std::int64_t>(threads, groups()); ++some)
      if (longest(some) <= longest(parts)) parts = some;
    tasks = tasks_for(parts);
    most = most_of(tasks);
  }
  /// Where as many threads compute a part of the outputs each.
  std::int64_t tasks_for(std::int64_t some) const {
    return std::clamp<std::int64_t>(threads / some, 1, tiles());
  }
  std::int64_t most_of(std::int64_t shares) const { return (tiles() + shares - 1) / shares; }
  /// The tiles into tasks, as many for each of `workers`.
  void divide_among(std::int64_t workers) {
    const std::int64_t each = kTiles * workers;  // of all of them
    tasks = std::min((tiles() + each - 1) / each * workers, tiles());
    most = most_of(tasks);
  }
  std::int64_t tiles() const { return batch * rows * columns; }
  std::int64_t first_tile(std::int64_t task) const { return tiles() * task / tasks; }

  std::int64_t vectors() const { return outputs / kLanes; }
  std::int64_t groups() const { return (vectors() + kVectors - 1) / kVectors; }
  Group group(std::int64_t number) const {
    const std::int64_t first = vectors() * number / groups();
    return {first, vectors() * (number + 1) / groups() - first};
  }
  Group group_of(std::int64_t vector) const {
    std::int64_t number = vector * groups() / vectors();
    while (vector >= group(number).first + group(number).count) ++number;
    return group(number);
  }
  std::int64_t first_group(std::int64_t part) const { return groups() * part / parts; }
  std::int64_t weights() const { return kPositions * inputs * outputs; }
  /// Of the transformed weights of a group.
  std::int64_t place(const Group& g) const { return kPositions * inputs * kLanes * g.first; }
  /// From position to position. Not a multiple of the distance at which cache lines share a set.
  std::int64_t of_inputs() const { return inputs * most + kLanes; }
  std::int64_t of_gradients() const { return outputs * most + kLanes; }
  std::int64_t of_outputs() const { return (kVectors * most + 1) * kLanes; }
  /// Of a thread.
  std::int64_t workspace() const { return kPositions * (of_inputs() + of_outputs()); }
};

/// For the gradient of the weights.
struct WeightSizes : Sizes {
  std::int64_t shares;  ///< of the tiles, with sums of their own

  WeightSizes(const ConvolutionGeometry& g, const Tensor& input, const Tensor& grad_output, int team)
      : Sizes(g, input, grad_output, team) {
    const std::int64_t limit = std::max<std::int64_t>(std::min(tiles() / kTiles, kMostSums / weights()), 1);
    parts = std::min((threads + limit - 1) / limit, groups());
    shares = std::min(limit, threads / parts);
    divide_among(shares);
  }
  /// Of a thread.
  std::int64_t workspace() const { return kPositions * (of_inputs() + of_gradients()); }
  std::int64_t whole_workspace() const { return shares * (weights() + parts * workspace()); }
};

/// Neighbouring tiles in a row of an image: `count` of them from tile `column` on, the `at`-th of those that
/// are computed together.
struct Run {
  std::int64_t image, row, column, count, at;
};

/// Calls body(Run) for tiles [first, last).
template <class Body>
void for_each_run(const Sizes& s, std::int64_t first, std::int64_t last, const Body& body) {
  for (std::int64_t tile = first; tile < last;) {
    const std::int64_t row = tile / s.columns, column = tile % s.columns;
    const std::int64_t count = std::min(s.columns - column, last - tile);
    body(Run{row / s.rows, row % s.rows, column, count, tile - first});
    tile += count;
  }
}

// --- Transformations ----------------------------------------------------------------------------

/// Half of the transformation, along the columns or rows of a tile.
[[gnu::always_inline]] inline void transform_line(const Vector (&from)[kSide], Vector (&to)[kSide]) {
  to[0] = from[0] - from[2];
  to[1] = from[1] + from[2];
  to[2] = from[2] - from[1];
  to[3] = from[1] - from[3];
}

[[gnu::always_inline]] inline void transform_outputs(const Vector (&from)[kSide][kSide],
                                                     Vector (&to)[kStep][kStep]) {
  Vector half[kStep][kSide];
#pragma GCC unroll 4
  for (int j = 0; j < kSide; ++j) {
    half[0][j] = (from[0][j] + from[1][j]) + from[2][j];
    half[1][j] = (from[1][j] - from[2][j]) - from[3][j];
  }
#pragma GCC unroll 2
  for (int i = 0; i < kStep; ++i) {
    to[i][0] = (half[i][0] + half[i][1]) + half[i][2];
    to[i][1] = (half[i][1] - half[i][2]) - half[i][3];
  }
}

void transform_weights(const Vector (&from)[3][3], Vector (&to)[kSide][kSide]) {
  Vector half[kSide][3];
#pragma GCC unroll 3
  for (int j = 0; j < 3; ++j) {
    const Vector ends = 0.5f * (from[0][j] + from[2][j]), middle = 0.5f * from[1][j];
    half[0][j] = from[0][j];
    half[1][j] = ends + middle;
    half[2][j] = ends - middle;
    half[3][j] = from[2][j];
  }
#pragma GCC unroll 4
  for (int i = 0; i < kSide; ++i) {
    const Vector ends = 0.5f * (half[i][0] + half[i][2]), middle = 0.5f * half[i][1];
    to[i][0] = half[i][0];
    to[i][1] = ends + middle;
    to[i][2] = ends - middle;
    to[i][3] = half[i][2];
  }
}

/// A vector of outputs of a group, one block of inputs. `turned`: the caller's weights lead the other way.
void prepare_weights(const Sizes& s, bool turned, std::int64_t v, std::int64_t block, const float* weight,
                     float* prepared) {
  const Group g = s.group_of(v);
  alignas(64) float taps[kTaps][kLanes];
  for (std::int64_t c = block * kLanes; c < (block + 1) * kLanes; ++c) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const std::int64_t o = v * kLanes + lane;
      const float* from = weight + (turned ? c * s.outputs + o : o * s.inputs + c) * kTaps;
      for (std::int64_t tap = 0; tap < kTaps; ++tap) taps[tap][lane] = from[turned ? kTaps - 1 - tap : tap];
    }
    Vector values[3][3], transformed[kSide][kSide];
    for (int tap = 0; tap < kTaps; ++tap) Block::load(taps[tap], values[tap / 3][tap % 3]);
    transform_weights(values, transformed);
    float* to = prepared + s.place(g) + (c * g.count + v - g.first) * kLanes;
    for (int position = 0; position < kPositions; ++position)
      Block::store(transformed[position / kSide][position % kSide],
                   to + position * s.inputs * g.count * kLanes);
  }
}

/// The four rows of inputs that a row of tiles needs, in one block.
class Strip {
 public:
  Strip(const Sizes& s, const Run& run, const float* x) : step_(s.inputs), width_(s.in_w) {
    const std::int64_t first = run.row * kStep - s.pad_h;
    for (std::int64_t i = 0; i < kSide; ++i) {
      inside_[i] = first + i >= 0 && first + i < s.in_h;
      rows_[i] = inside_[i] ? x + (run.image * s.in_h + first + i) * s.in_w * s.inputs : nullptr;
    }
    whole_ = inside_[0] && inside_[kSide - 1];
  }
  /// A column, transformed.
  [[gnu::always_inline]] void load(std::int64_t column, std::int64_t block, Vector (&to)[kSide]) const {
    Vector values[kSide] = {};
    if (column >= 0 && column < width_) {
      const std::int64_t at = column * step_ + block * kLanes;
#pragma GCC unroll 4
      for (int i = 0; i < kSide; ++i)
        if (whole_ || inside_[i]) Block::load(rows_[i] + at, values[i]);
    }
    transform_line(values, to);
  }

 private:
  std::int64_t step_, width_;
  const float* rows_[kSide];
  bool inside_[kSide], whole_;
};

/// The inputs of a run, of `count` tiles that are computed together. Neighbouring tiles share two columns.
void prepare_run(const Sizes& s, const Run& run, std::int64_t count, const float* x, float* prepared) {
  const Strip strip(s, run, x);
  const std::int64_t position = s.of_inputs();
  for (std::int64_t block = 0; block < s.inputs / kLanes; ++block) {
    float* to = prepared + (block * count + run.at) * kLanes;
    std::int64_t column = run.column * kStep - s.pad_w;
    Vector columns[kSide][kSide];
    strip.load(column, block, columns[0]);
    strip.load(column + 1, block, columns[1]);
    for (std::int64_t t = 0; t < run.count; ++t, column += kStep, to += kLanes) {
      strip.load(column + 2, block, columns[2]);
      strip.load(column + 3, block, columns[3]);
#pragma GCC unroll 4
      for (int i = 0; i < kSide; ++i) {
        const Vector line[kSide] = {columns[0][i], columns[1][i], columns[2][i], columns[3][i]};
        Vector transformed[kSide];
        transform_line(line, transformed);
#pragma GCC unroll 4
        for (int j = 0; j < kSide; ++j) Block::store(transformed[j], to + (i * kSide + j) * position);
        columns[0][i] = columns[2][i];
        columns[1][i] = columns[3][i];
      }
    }
  }
}

// --- Forward ------------------------------------------------------------------------------------

/// P neighbouring tiles, the N vectors of a group, one position. `next`: weights that are wanted soon, as
/// many.
template <int P, int N>
void multiply(const Sizes& s, std::int64_t count, const float* tiles, const float* weights, const float* next,
              float* products) {
  Vector sums[P][N] = {};
  for (std::int64_t block = 0; block < s.inputs; block += kLanes, tiles += count * kLanes)
    for (std::int64_t k = 0; k < kLanes; ++k, weights += N * kLanes, next += N * kLanes) {
      Vector weight[N];
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) __builtin_prefetch(next + n * kLanes, 0, 2);
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) Block::load(weights + n * kLanes, weight[n]);
#pragma GCC unroll 24
      for (int p = 0; p < P; ++p) {
        const float value = tiles[p * kLanes + k];
#pragma GCC unroll 2
        for (int n = 0; n < N; ++n) sums[p][n] += value * weight[n];
      }
    }
#pragma GCC unroll 24
  for (int p = 0; p < P; ++p)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) Block::store(sums[p][n], products + (p * N + n) * kLanes);
}

/// The outputs of a run, for the N vectors of a group.
template <int N>
void write_run(const Sizes& s, const Run& run, const float* products, const float* bias, float slope,
               float* y) {
  const std::int64_t row = run.row * kStep, next = s.out_w * s.outputs;
  const std::int64_t position = s.of_outputs(), pixel = s.outputs, width = s.out_w;
  const bool below = row + 1 < s.out_h, ends = slope != 1;
  products += run.at * N * kLanes;
  Vector added[N] = {};
  for (int n = 0; n < N && bias != nullptr; ++n) Block::load(bias + n * kLanes, added[n]);
  std::int64_t column = run.column * kStep;
  float* to = y + ((run.image * s.out_h + row) * width + column) * pixel;
  for (std::int64_t t = 0; t < run.count; ++t, column += kStep, to += kStep * pixel) {
    const bool beside = column + 1 < width;
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n, products += kLanes) {
      Vector values[kSide][kSide], outputs[kStep][kStep];
#pragma GCC unroll 16
      for (int p = 0; p < kPositions; ++p) Block::load(products + p * position, values[p / kSide][p % kSide]);
      transform_outputs(values, outputs);
#pragma GCC unroll 4
      for (int i = 0; i < kStep * kStep; ++i) {
        Vector& output = outputs[i / kStep][i % kStep];
        output += added[n];
        if (ends) end_with_relu(slope, output);
      }
      Block::store(outputs[0][0], to + n * kLanes);
      if (beside) Block::store(outputs[0][1], to + pixel + n * kLanes);
      if (below) Block::store(outputs[1][0], to + next + n * kLanes);
      if (beside && below) Block::store(outputs[1][1], to + next + pixel + n * kLanes);
    }
  }
}

struct Prepared {
  const float *weight, *bias;  ///< no bias: nullptr
};

/// Tiles [first, last), a part of their outputs.
void compute_tiles(const Sizes& s, std::int64_t first, std::int64_t last, std::int64_t part_of_outputs,
                   const float* x, const Prepared& prepared, float slope, float* y, float* memory) {
  float *const tiles = memory, *const products = memory + kPositions * s.of_inputs();
  const std::int64_t count = last - first;
  for_each_run(s, first, last, [&](const Run& run) { prepare_run(s, run, count, x, tiles); });
  for (std::int64_t number = s.first_group(part_of_outputs); number < s.first_group(part_of_outputs + 1);
       ++number) {
    const Group g = s.group(number);
    with_constant<kVectors>(g.count, [&]<int N>(std::integral_constant<int, N>) {
      constexpr std::int64_t kTogether = kSums / N;
      const std::int64_t parts = (count + kTogether - 1) / kTogether;
      for (std::int64_t position = 0; position < kPositions; ++position) {
        const float* weights = prepared.weight + s.place(g) + position * s.inputs * N * kLanes;
        const float* from = tiles + position * s.of_inputs();
        float* to = products + position * s.of_outputs();
        for (std::int64_t part = 0; part < parts; ++part) {
          const std::int64_t at = count * part / parts;
          with_constant<kTogether>(
              count * (part + 1) / parts - at, [&]<int P>(std::integral_constant<int, P>) {
                // Fetched during the last tiles of a position: those of the next one follow in memory.
                const float* next = part + 1 == parts ? weights + s.inputs * N * kLanes : weights;
                multiply<P, N>(s, count, from + at * kLanes, weights, next, to + at * N * kLanes);
              });
        }
      }
      const std::int64_t o = g.first * kLanes;
      for_each_run(s, first, last, [&](const Run& run) {
        write_run<N>(s, run, products, prepared.bias == nullptr ? nullptr : prepared.bias + o, slope, y + o);
      });
    });
  }
}

/// weight: the caller's; nullptr: `prepared` are filled.
void run_forward(const Sizes& s, bool turned, const float* x, const float* weight, const float* bias,
                 float slope, float* y, float* prepared, float* workspace) {
  Shares shares(s.threads, s.tasks * s.parts, 1);
#pragma omp parallel num_threads(s.threads)
  {
    if (weight != nullptr) {
      const std::int64_t blocks = s.inputs / kLanes;
#pragma omp for schedule(static)
      for (std::int64_t i = 0; i < s.vectors() * blocks; ++i) {
        prepare_weights(s, turned, i / blocks, i % blocks, weight, prepared);
      }
    }
    float* const memory = workspace + omp_get_thread_num() * s.workspace();
    shares.run([&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t task = i / s.parts;
        compute_tiles(s, s.first_tile(task), s.first_tile(task + 1), i % s.parts, x, {prepared, bias}, slope,
                      y, memory);
      }
    });
  }
}

// --- Gradient of the weights --------------------------------------------------------------------

/// As prepare_run, for the gradients of some of the outputs.
void prepare_gradients(const Sizes& s, const Run& run, std::int64_t count, const Group& outputs,
                       const float* dy, float* prepared) {
  const std::int64_t position = s.of_gradients(), pixel = s.outputs, width = s.out_w;
  const bool below = run.row * kStep + 1 < s.out_h;
  for (std::int64_t block = outputs.first; block < outputs.first + outputs.count; ++block) {
    float* to = prepared + (block * count + run.at) * kLanes;
    std::int64_t column = run.column * kStep;
    const float* from =
        dy + ((run.image * s.out_h + run.row * kStep) * width + column) * pixel + block * kLanes;
    for (std::int64_t t = 0; t < run.count; ++t, column += kStep, from += kStep * pixel, to += kLanes) {
      const bool beside = column + 1 < width;
      Vector values[kStep][kStep] = {}, half[kSide][kStep];
      Block::load(from, values[0][0]);
      if (beside) Block::load(from + pixel, values[0][1]);
      if (below) Block::load(from + width * pixel, values[1][0]);
      if (beside && below) Block::load(from + (width + 1) * pixel, values[1][1]);
#pragma GCC unroll 2
      for (int j = 0; j < kStep; ++j) {
        half[0][j] = values[0][j];
        half[1][j] = 0.5f * (values[0][j] + values[1][j]);
        half[2][j] = 0.5f * (values[0][j] - values[1][j]);
        half[3][j] = values[1][j];
      }
#pragma GCC unroll 4
      for (int i = 0; i < kSide; ++i) {
        float* const line = to + i * kSide * position;
        Block::store(half[i][0], line);
        Block::store(0.5f * (half[i][0] + half[i][1]), line + position);
        Block::store(0.5f * (half[i][0] - half[i][1]), line + 2 * position);
        Block::store(half[i][1], line + 3 * position);
      }
    }
  }
}

/// Adds `count` tiles to the sums of K neighbouring inputs and N vectors of outputs at one position.
template <int K, int N>
void add_products(std::int64_t count, const float* inputs, const float* gradients, float* kept) {
  Vector sums[K][N];
#pragma GCC unroll 16
  for (int k = 0; k < K; ++k)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) Block::load(kept + (k * N + n) * kLanes, sums[k][n]);
  for (std::int64_t t = 0; t < count; ++t, inputs += kLanes, gradients += kLanes) {
    Vector gradient[N];
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) Block::load(gradients + n * count * kLanes, gradient[n]);
#pragma GCC unroll 16
    for (int k = 0; k < K; ++k) {
      const float value = inputs[k];
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) sums[k][n] += value * gradient[n];
    }
  }
#pragma GCC unroll 16
  for (int k = 0; k < K; ++k)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) Block::store(sums[k][n], kept + (k * N + n) * kLanes);
}

/// Adds tiles [first, last) to the sums of a part of the outputs. The sums of all outputs, at `kept`, are
/// ordered as the forward pass's weights.
void add_tiles(const WeightSizes& s, std::int64_t first, std::int64_t last, std::int64_t part,
               const Group& outputs, const float* x, const float* dy, float* kept, float* memory) {
  constexpr int kTogether = 16;  // sums in registers
  float *const inputs = memory, *const gradients = memory + kPositions * s.of_inputs();
  const std::int64_t count = last - first;
  for_each_run(s, first, last, [&](const Run& run) {
    prepare_run(s, run, count, x, inputs);
    prepare_gradients(s, run, count, outputs, dy, gradients);
  });
  for (std::int64_t number = s.first_group(part); number < s.first_group(part + 1); ++number) {
    const Group g = s.group(number);
    with_constant<kVectors>(g.count, [&]<int N>(std::integral_constant<int, N>) {
      constexpr int K = kTogether / N;
      for (std::int64_t position = 0; position < kPositions; ++position) {
        const float* from = inputs + position * s.of_inputs();
        const float* with = gradients + position * s.of_gradients() + g.first * count * kLanes;
        float* to = kept + s.place(g) + position * s.inputs * N * kLanes;
        for (std::int64_t c = 0; c < s.inputs; c += K)
          add_products<K, N>(count, from + c / kLanes * count * kLanes + c % kLanes, with,
                             to + c * N * kLanes);
      }
    });
  }
}

/// A share of the tiles, for a part of the outputs.
void add_share(const WeightSizes& s, std::int64_t share, std::int64_t part, const float* x, const float* dy,
               float* kept, float* memory) {
  const Group first_group = s.group(s.first_group(part)), last_group = s.group(s.first_group(part + 1) - 1);
  const Group outputs{first_group.first, last_group.first + last_group.count - first_group.first};
  std::fill_n(kept + s.place(outputs), s.weights() / s.vectors() * outputs.count, 0.0f);
  const std::int64_t end = s.tiles() * (share + 1) / s.shares;
  for (std::int64_t first = s.tiles() * share / s.shares; first < end; first += s.most)
    add_tiles(s, first, std::min(first + s.most, end), part, outputs, x, dy, kept, memory);
}

/// The sums of a vector of outputs and a block of inputs over the shares, in their order, transformed back.
void write_weights(const WeightSizes& s, std::int64_t v, std::int64_t block, const float* kept, bool adds,
                   float* dw) {
  const Group g = s.group_of(v);
  alignas(64) float taps[kTaps][kLanes];
  for (std::int64_t c = block * kLanes; c < (block + 1) * kLanes; ++c) {
    const float* from = kept + s.place(g) + (c * g.count + v - g.first) * kLanes;
    Vector sums[kSide][kSide], half[3][kSide];
    for (int p = 0; p < kPositions; ++p, from += s.inputs * g.count * kLanes) {
      Vector& sum = sums[p / kSide][p % kSide];
      Block::load(from, sum);
      for (std::int64_t share = 1; share < s.shares; ++share) {
        Vector other;
        Block::load(from + share * s.weights(), other);
        sum += other;
      }
    }
    for (int j = 0; j < kSide; ++j) {
      half[0][j] = (sums[0][j] + sums[1][j]) + sums[2][j];
      half[1][j] = sums[1][j] - sums[2][j];
      half[2][j] = (sums[1][j] + sums[2][j]) - sums[3][j];
    }
    for (int i = 0; i < 3; ++i) {
      Block::store((half[i][0] + half[i][1]) + half[i][2], taps[3 * i]);
      Block::store(half[i][1] - half[i][2], taps[3 * i + 1]);
      Block::store((half[i][1] + half[i][2]) - half[i][3], taps[3 * i + 2]);
    }
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      float* to = dw + ((v * kLanes + lane) * s.inputs + c) * kTaps;
      for (std::int64_t tap = 0; tap < kTaps; ++tap)
        to[tap] = adds ? to[tap] + taps[tap][lane] : taps[tap][lane];
    }
  }
}

void run_backward_weight(const WeightSizes& s, const float* x, const float* dy, bool adds, float* dw,
                         float* workspace) {
  float *const kept = workspace, *const memories = workspace + s.shares * s.weights();
#pragma omp parallel num_threads(s.threads)
  {
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < s.shares * s.parts; ++i) {
      const std::int64_t share = i / s.parts;
      add_share(s, share, i % s.parts, x, dy, kept + share * s.weights(), memories + i * s.workspace());
    }
    const std::int64_t blocks = s.inputs / kLanes;
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < s.vectors() * blocks; ++i)
      write_weights(s, i / blocks, i % blocks, kept, adds, dw);
  }
}

// ------------------------------------------------------------------------------------------------

void forward_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& input,
                    const Tensor& weight, const Tensor& bias, double slope, const Tensor& kept,
                    bool is_filled, Tensor& output) {
  const Sizes sizes(geometry, input, output, context.device().threads());
  const bool keeps = kept.defined();
  auto* workspace =
      context.workspace_of<float>((keeps ? 0 : sizes.weights()) + sizes.threads * sizes.workspace());
  float* prepared = keeps ? const_cast<float*>(kept.data<float>()) : workspace;
  if (!keeps) workspace += sizes.weights();
  context.run([sizes, x = input.data<float>(), w = is_filled ? nullptr : weight.data<float>(),
               b = bias.defined() ? bias.data<float>() : nullptr, slope = static_cast<float>(slope),
               y = output.data<float>(), prepared,
               workspace] { run_forward(sizes, false, x, w, b, slope, y, prepared, workspace); });
}

void backward_data_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& grad_output,
                          const Tensor& weight, Tensor& grad_input) {
  const Sizes sizes(turned(geometry), grad_output, grad_input, context.device().threads());
  auto* prepared = context.workspace_of<float>(sizes.weights() + sizes.threads * sizes.workspace());
  context.run(
      [sizes, dy = grad_output.data<float>(), w = weight.data<float>(), dx = grad_input.data<float>(),
       prepared] { run_forward(sizes, true, dy, w, nullptr, 1, dx, prepared, prepared + sizes.weights()); });
}

void backward_weight_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& input,
                            const Tensor& grad_output, bool adds, Tensor& grad_weight) {
  const WeightSizes sizes(geometry, input, grad_output, context.device().threads());
  auto* workspace = context.workspace_of<float>(sizes.whole_workspace());
  context.run([sizes, x = input.data<float>(), dy = grad_output.data<float>(), adds,
               dw = grad_weight.data<float>(),
               workspace] { run_backward_weight(sizes, x, dy, adds, dw, workspace); });
}

const Define define_forward(forward_by_winograd, DeviceKind::cpu, &forward_on_cpu);
const Define define_backward_data(backward_data_by_winograd, DeviceKind::cpu, &backward_data_on_cpu);
const Define define_backward_weight(backward_weight_by_winograd, DeviceKind::cpu, &backward_weight_on_cpu);

bool all_are(const std::vector<std::int64_t>& lengths, std::int64_t wanted) {
  return std::ranges::all_of(lengths, [&](std::int64_t length) { return length == wanted; });
}

}  // namespace

bool winograd_applies(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output) {
  return instruction_set() == InstructionSet::avx512 && is_plain_convolution(geometry, input, output) &&
         all_are(geometry.kernel, 3) && all_are(geometry.dilation, 1) && can_turn(geometry) &&
         geometry.in_channels % kLanes == 0 && geometry.out_channels % kLanes == 0 && input.count() > 0 &&
         output.count() > 0;
}

bool winograd_pays(WinogradPass pass, const ConvolutionGeometry& geometry, const Tensor& input,
                   const Tensor& output) {
  if (!winograd_applies(geometry, input, output)) return false;
  // More transformed weights would come from memory for every few tiles, and take long to transform.
  if (geometry.in_channels * geometry.out_channels > 256 * 512) return false;
  // What a tile at the end of an odd row or column computes in vain.
  const auto even = [](std::int64_t length) { return (length + 1) / 2 * 2; };
  const Shape& shape = (pass == WinogradPass::backward_data ? input : output).shape();
  return even(shape[2]) * even(shape[3]) * 3 <= shape[2] * shape[3] * 4;
}

std::int64_t winograd_weights(const ConvolutionGeometry& geometry) {
  return kPositions * geometry.in_channels * geometry.out_channels;
}

}  // namespace banyan::ops
