// Terms: a tile is 2 x 2 or 4 x 4 outputs and the inputs that they need, 4 x 4 or 6 x 6; the tiles of all
// images are numbered one after the other. A position is a place in a transformed tile. A block is a vector
// of neighbouring channels.
//
// A thread transforms the inputs of some tiles, so that they stay in its L2 cache, and then computes a group
// of output vectors after the other: for each position a product of (tiles, inputs) and (inputs, group),
// whose weights stay in the L1 cache, and the transformation back. Of few tiles, each thread computes a part
// of the outputs.
//
// What a tile's outputs are does not depend on which tiles are computed with it.
//
// For the gradient of the weights, a share of the tiles has sums of its own for all weights, as many per pair
// of channels as there are positions. Where these would leave the L2 cache, or there are few tiles, several
// threads have one share, and each of them a part of the outputs.
#include "ops/cpu/convolution_winograd.hpp"

#include <omp.h>

#include <algorithm>
#include <optional>
#include <type_traits>
#include <vector>

#include "banyan/ops/basic.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/optional_data.hpp"
#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/constant_numbers.hpp"
#include "ops/cpu/convolution_choice.hpp"
#include "ops/cpu/convolution_turned.hpp"
#include "ops/cpu/shares.hpp"

namespace banyan::ops {
namespace {

#ifdef __AVX512F__
constexpr std::int64_t kLanes = 16;
constexpr int kSums = 24;      ///< in registers, beside up to kVectors of weights and a factor
constexpr int kProducts = 16;  ///< the same for the gradient of the weights
#else
constexpr std::int64_t kLanes = 8;
constexpr int kSums = 12, kProducts = 8;
#endif
using Block = ChannelBlock<float, kLanes>;
using Vector = Block::Values;
template <class T>
using Stored = ChannelBlock<T, kLanes>;  ///< of activations
/// Sets the first `count` lanes to 0.
[[gnu::always_inline]] inline void clear_lanes(std::int64_t count, Vector& value) {
  Block::Places numbers{};
  for (std::int64_t lane = 0; lane < kLanes; ++lane) numbers[lane] = static_cast<std::int32_t>(lane);
  value = numbers < static_cast<std::int32_t>(count) ? Vector{} : value;
}
constexpr int kVectors = 2;  ///< of outputs in a group
/// At a time, if there are many: their values at one position stay in the L1 cache.
constexpr std::int64_t kTiles = 24;
/// No more than these are computed at once, by each thread a part of the outputs: otherwise every thread
/// would read all weights, for few tiles.
constexpr std::int64_t kFewTiles = 64;
constexpr std::int64_t kMostSums = std::int64_t{8} << 20;  ///< for the gradient of the weights: 32 MiB

/// Vectors of outputs that are computed together.
struct Group {
  std::int64_t first, count;
};

/// Channels in vectors of neighbouring ones. If they do not fill the last one, it begins among those of the
/// vector before it.
struct Vectors {
  std::int64_t channels;
  std::int64_t count() const { return (channels + kLanes - 1) / kLanes; }
  std::int64_t first(std::int64_t vector) const { return std::min(vector * kLanes, channels - kLanes); }
  /// How many of its lanes the vector before it has already.
  std::int64_t repeated(std::int64_t vector) const { return vector * kLanes - first(vector); }
};

/// Where the images of a tensor are. Windows with gaps see only every `gap_h`-th row and `gap_w`-th column:
/// those that belong together are an image of their own, a phase. gap_h x gap_w of them follow each other in
/// the numbers of images.
struct Planes {
  std::int64_t height, width, pixel;  ///< of all phases; pixel: channels of all groups
  std::int64_t gap_h = 1, gap_w = 1;

  std::int64_t phases() const { return gap_h * gap_w; }
  std::int64_t phase_h(std::int64_t image) const { return image / gap_w % gap_h; }
  std::int64_t phase_w(std::int64_t image) const { return image % gap_w; }
  std::int64_t rows(std::int64_t image) const { return (height - phase_h(image) + gap_h - 1) / gap_h; }
  std::int64_t columns(std::int64_t image) const { return (width - phase_w(image) + gap_w - 1) / gap_w; }
  std::int64_t row_step() const { return gap_h * width * pixel; }
  std::int64_t pixel_step() const { return gap_w * pixel; }
  /// Of a pixel of an image in memory.
  std::int64_t at(std::int64_t image, std::int64_t row, std::int64_t column) const {
    return ((image / phases() * height + phase_h(image)) * width + phase_w(image)) * pixel +
           row * row_step() + column * pixel_step();
  }
};

/// Of a volume, whose slices are images: windows see `taps` of them, whose channels are so many times as many
/// inputs of an image of outputs, those of the first slice before those of the next.
struct Slices {
  std::int64_t taps = 1, input = 1, output = 1, pad = 0;

  /// The image of inputs that an image of outputs sees at a tap; -1: what is padded.
  std::int64_t image(std::int64_t of_outputs, std::int64_t tap) const {
    const std::int64_t slice = of_outputs % output + tap - pad;
    return slice < 0 || slice >= input ? -1 : of_outputs / output * input + slice;
  }
};

/// Sizes for one call; copied into the enqueued work. H: halves of the transformations of a tile.
template <class H>
struct Sizes {
  Slices depth;
  std::int64_t inputs, outputs;  ///< of a group of the convolution; inputs: at all taps of a volume's depth
  Planes in, out;
  std::int64_t batch;                        ///< of slices and phases
  std::int64_t pad_h, pad_w, rows, columns;  ///< of tiles of the largest phase
  int threads;
  std::int64_t tasks, most;  ///< of tiles in a task
  std::int64_t parts = 1;    ///< of the groups of outputs, computed by a thread each

  Sizes(const ConvolutionGeometry& g, const Tensor& input, const Tensor& output, int team)
      : depth(slices_of(g, input, output)),
        inputs(g.in_channels / g.group * depth.taps),
        outputs(g.out_channels / g.group),
        in(planes_of(g, input, g.in_channels)),
        out(planes_of(g, output, g.out_channels)),
        batch(input.shape()[0] * depth.output * in.phases()),
        pad_h(g.pad[g.pad.size() - 2] / in.gap_h),
        pad_w(g.pad.back() / in.gap_w),
        rows((out.rows(0) + H::kStep - 1) / H::kStep),
        columns((out.columns(0) + H::kStep - 1) / H::kStep),
        threads(team) {
    if (tiles() > kFewTiles) {
      divide_among(threads);
      return;
    }
    parts = even_parts(threads, [this](std::int64_t some) { return tasks_for(some); });
    tasks = tasks_for(parts);
    most = most_of(tasks);
  }
  static Slices slices_of(const ConvolutionGeometry& g, const Tensor& input, const Tensor& output) {
    if (g.spatial_axes() == 2) return {};
    return {g.kernel[0], input.shape()[2], output.shape()[2], g.pad[0]};
  }
  static Planes planes_of(const ConvolutionGeometry& g, const Tensor& tensor, std::int64_t channels) {
    const int axes = tensor.shape().axes();
    return {tensor.shape()[axes - 2], tensor.shape()[axes - 1], channels, g.dilation[g.dilation.size() - 2],
            g.dilation.back()};
  }
  /// As many parts of the outputs, `limit` at most, that the busiest thread computes least; of equally good
  /// ones the most. shares_for(parts): the shares of the tiles.
  template <class Shares>
  std::int64_t even_parts(std::int64_t limit, const Shares& shares_for) const {
    const auto longest = [&](std::int64_t some) {
      return (groups() + some - 1) / some * most_of(shares_for(some));
    };
    std::int64_t best = 1;
    for (std::int64_t some = 2; some <= std::min(limit, groups()); ++some)
      if (longest(some) <= longest(best)) best = some;
    return best;
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

  std::int64_t channels() const { return inputs / depth.taps; }
  Vectors of_input() const { return {inputs}; }
  Vectors of_output() const { return {outputs}; }
  std::int64_t vectors() const { return of_output().count(); }
  std::int64_t groups() const { return (vectors() + kVectors - 1) / kVectors; }
  /// The last one has two vectors, if there are as many: so what the last vector repeats is of its own group,
  /// and no other thread writes it.
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
  /// Of the caller's weights between input c and output o.
  std::int64_t window(std::int64_t o, std::int64_t c) const {
    return ((o * channels() + c % channels()) * depth.taps + c / channels()) * H::kTaps;
  }
  /// The same where the caller's outputs are the inputs here, the caller's windows turned around.
  std::int64_t turned_window(std::int64_t o, std::int64_t c) const {
    return ((c % channels() * outputs + o) * depth.taps + depth.taps - 1 - c / channels()) * H::kTaps;
  }
  /// Of the caller's weights, and of the transformed ones.
  std::int64_t taps() const { return outputs * inputs * H::kTaps; }
  std::int64_t weights() const { return weights_before(vectors()); }
  /// Of the transformed weights of a group.
  std::int64_t place(const Group& g) const { return weights_before(g.first); }
  std::int64_t weights_before(std::int64_t vector) const { return H::kPositions * inputs * kLanes * vector; }
  /// From position to position. Not a multiple of the distance at which cache lines share a set.
  std::int64_t of_inputs() const { return (of_input().count() * most + 1) * kLanes; }
  std::int64_t of_gradients() const { return (vectors() * most + 1) * kLanes; }
  std::int64_t of_outputs() const { return (kVectors * most + 1) * kLanes; }
  /// Of a thread.
  std::int64_t workspace() const { return H::kPositions * (of_inputs() + of_outputs()); }
};

/// For the gradient of the weights.
template <class H>
struct WeightSizes : Sizes<H> {
  std::int64_t shares;  ///< of the tiles, with sums of their own

  WeightSizes(const ConvolutionGeometry& g, const Tensor& input, const Tensor& grad_output, int team)
      : Sizes<H>(g, input, grad_output, team) {
    const std::int64_t full = this->tiles() / kTiles, weights = this->weights();
    const auto bytes = weights * static_cast<std::int64_t>(sizeof(float));
    const std::int64_t near =
        std::clamp<std::int64_t>(l2_cache() / bytes, 1, std::max<std::int64_t>(full, 1));
    const auto shares_for = [&](std::int64_t some) {
      return std::clamp<std::int64_t>(std::min(this->threads / some, full), 1,
                                      std::max<std::int64_t>(kMostSums / weights, 1));
    };
    this->parts = this->even_parts((this->threads + near - 1) / near, shares_for);
    shares = shares_for(this->parts);
    this->divide_among(shares);
  }
  /// Of a thread.
  std::int64_t workspace() const { return H::kPositions * (this->of_inputs() + this->of_gradients()); }
  std::int64_t whole_workspace() const { return shares * (this->weights() + this->parts * workspace()); }
};

/// Neighbouring tiles in a row of an image: `count` of them from tile `column` on, the `at`-th of those that
/// are computed together.
struct Run {
  std::int64_t image, row, column, count, at;
};

/// Calls body(Run) for tiles [first, last).
template <class H, class Body>
void for_each_run(const Sizes<H>& s, std::int64_t first, std::int64_t last, const Body& body) {
  for (std::int64_t tile = first; tile < last;) {
    const std::int64_t row = tile / s.columns, column = tile % s.columns;
    const std::int64_t count = std::min(s.columns - column, last - tile);
    body(Run{row / s.rows, row % s.rows, column, count, tile - first});
    tile += count;
  }
}

// --- Transformations ----------------------------------------------------------------------------

/// Halves of the transformations of a tile, along its columns or rows. kStep: from tile to tile, a side of
/// its outputs.
template <int kSideOfOutputs, int kSideOfWindow>
struct Tile {
  static constexpr int kStep = kSideOfOutputs, kWindow = kSideOfWindow, kSide = kStep + kWindow - 1;
  static constexpr int kTaps = kWindow * kWindow, kPositions = kSide * kSide;
};

/// Polynomials at 0, 1, -1 and infinity.
struct SmallTile : Tile<2, 3> {
  struct Inputs {
    [[gnu::always_inline]] void operator()(const Vector (&from)[kSide], Vector (&to)[kSide]) const {
      to[0] = from[0] - from[2];
      to[1] = from[1] + from[2];
      to[2] = from[2] - from[1];
      to[3] = from[1] - from[3];
    }
  };
  struct Outputs {
    [[gnu::always_inline]] void operator()(const Vector (&from)[kSide], Vector (&to)[kStep]) const {
      to[0] = (from[0] + from[1]) + from[2];
      to[1] = (from[1] - from[2]) - from[3];
    }
  };
  struct Weights {
    [[gnu::always_inline]] void operator()(const Vector (&from)[kWindow], Vector (&to)[kSide]) const {
      const Vector ends = 0.5F * (from[0] + from[2]), middle = 0.5F * from[1];
      to[0] = from[0];
      to[1] = ends + middle;
      to[2] = ends - middle;
      to[3] = from[2];
    }
  };
  struct Gradients {
    [[gnu::always_inline]] void operator()(const Vector (&from)[kStep], Vector (&to)[kSide]) const {
      to[0] = from[0];
      to[1] = 0.5F * (from[0] + from[1]);
      to[2] = 0.5F * (from[0] - from[1]);
      to[3] = from[1];
    }
  };
  struct Sums {
    [[gnu::always_inline]] void operator()(const Vector (&from)[kSide], Vector (&to)[kWindow]) const {
      to[0] = (from[0] + from[1]) + from[2];
      to[1] = from[1] - from[2];
      to[2] = (from[1] + from[2]) - from[3];
    }
  };
};

/// Polynomials at 0, a, -a, b, -b and infinity, with a = sqrt(1/2) and b = sqrt(2). With 1 and 2, as usual,
/// the errors would be twice as large (root mean square of 64 channels; four times at most).
struct SixPoints {
  static constexpr int kPoints = 6;
  static constexpr float kA = 0.70710678F, kB = 1.41421356F;
  /// What a transformation of the weights would divide by at a and -a, and at b and -b: where few values are
  /// transformed, they are multiplied by this.
  static constexpr float kOfA = -2.0F / 3, kOfB = 1.0F / 6;

  /// What the values at a and -a, and at b and -b, contribute to even and odd powers, multiplied by factors.
  struct Pairs {
    Vector even_a, odd_a, even_b, odd_b;
    [[gnu::always_inline]] explicit Pairs(const Vector (&from)[kPoints], float of_a = 1, float of_b = 1)
        : even_a(of_a * (from[1] + from[2])),
          odd_a(of_a * kA * (from[1] - from[2])),
          even_b(of_b * (from[3] + from[4])),
          odd_b(of_b * kB * (from[3] - from[4])) {}
  };
  /// The other way: the values at these points, of even and odd parts.
  [[gnu::always_inline]] static void at_pairs(const Vector& even_a, const Vector& odd_a, const Vector& even_b,
                                              const Vector& odd_b, Vector (&to)[kPoints]) {
    to[1] = even_a + odd_a;
    to[2] = even_a - odd_a;
    to[3] = even_b + odd_b;
    to[4] = even_b - odd_b;
  }

  struct Inputs {
    [[gnu::always_inline]] void operator()(const Vector (&from)[kPoints], Vector (&to)[kPoints]) const {
      const Vector even_a = from[4] - 2.0F * from[2], odd_a = from[3] - 2.0F * from[1];
      const Vector even_b = from[4] - 0.5F * from[2], odd_b = from[3] - 0.5F * from[1];
      to[0] = (from[0] + from[4]) - 2.5F * from[2];
      to[1] = even_a + kA * odd_a;
      to[2] = even_a - kA * odd_a;
      to[3] = even_b + kB * odd_b;
      to[4] = even_b - kB * odd_b;
      to[5] = (from[1] + from[5]) - 2.5F * from[3];
    }
  };
  /// Its transpose.
  struct GradientOfInputs {
    [[gnu::always_inline]] void operator()(const Vector (&from)[kPoints], Vector (&to)[kPoints]) const {
      const auto [even_a, odd_a, even_b, odd_b] = Pairs(from);
      to[0] = from[0];
      to[1] = (from[5] - 2.0F * odd_a) - 0.5F * odd_b;
      to[2] = (-2.5F * from[0] - 2.0F * even_a) - 0.5F * even_b;
      to[3] = (odd_a + odd_b) - 2.5F * from[5];
      to[4] = from[0] + (even_a + even_b);
      to[5] = from[5];
    }
  };
};

struct LargeTile : Tile<4, 3>, SixPoints {
  struct Outputs {
    [[gnu::always_inline]] void operator()(const Vector (&from)[kSide], Vector (&to)[kStep]) const {
      const auto [even_a, odd_a, even_b, odd_b] = Pairs(from);
      to[0] = from[0] + (even_a + even_b);
      to[1] = odd_a + odd_b;
      to[2] = 0.5F * even_a + 2.0F * even_b;
      to[3] = (from[5] + 0.5F * odd_a) + 2.0F * odd_b;
    }
  };
  struct Weights {
    [[gnu::always_inline]] void operator()(const Vector (&from)[kWindow], Vector (&to)[kSide]) const {
      const Vector even_a = kOfA * (from[0] + 0.5F * from[2]), odd_a = kOfA * kA * from[1];
      const Vector even_b = kOfB * (from[0] + 2.0F * from[2]), odd_b = kOfB * kB * from[1];
      to[0] = from[0];
      at_pairs(even_a, odd_a, even_b, odd_b, to);
      to[5] = from[2];
    }
  };
  /// Divided at the end, with the sums.
  struct Gradients {
    [[gnu::always_inline]] void operator()(const Vector (&from)[kStep], Vector (&to)[kSide]) const {
      const Vector even_a = from[0] + 0.5F * from[2], odd_a = from[1] + 0.5F * from[3];
      const Vector even_b = from[0] + 2.0F * from[2], odd_b = from[1] + 2.0F * from[3];
      to[0] = from[0];
      to[1] = even_a + kA * odd_a;
      to[2] = even_a - kA * odd_a;
      to[3] = even_b + kB * odd_b;
      to[4] = even_b - kB * odd_b;
      to[5] = from[3];
    }
  };
  struct Sums {
    [[gnu::always_inline]] void operator()(const Vector (&from)[kSide], Vector (&to)[kWindow]) const {
      const auto [even_a, odd_a, even_b, odd_b] = Pairs(from, kOfA, kOfB);
      to[0] = from[0] + (even_a + even_b);
      to[1] = odd_a + odd_b;
      to[2] = (from[5] + 0.5F * even_a) + 2.0F * even_b;
    }
  };
};

struct WideTile : Tile<2, 5>, SixPoints {
  struct Outputs {
    [[gnu::always_inline]] void operator()(const Vector (&from)[kSide], Vector (&to)[kStep]) const {
      to[0] = from[0] + ((from[1] + from[2]) + (from[3] + from[4]));
      to[1] = (from[5] + kA * (from[1] - from[2])) + kB * (from[3] - from[4]);
    }
  };
  struct Weights {
    [[gnu::always_inline]] void operator()(const Vector (&from)[kWindow], Vector (&to)[kSide]) const {
      const Vector even_a = kOfA * ((from[0] + 0.5F * from[2]) + 0.25F * from[4]);
      const Vector even_b = kOfB * ((from[0] + 2.0F * from[2]) + 4.0F * from[4]);
      const Vector odd_a = kOfA * kA * (from[1] + 0.5F * from[3]);
      const Vector odd_b = kOfB * kB * (from[1] + 2.0F * from[3]);
      to[0] = from[0];
      at_pairs(even_a, odd_a, even_b, odd_b, to);
      to[5] = from[4];
    }
  };
  /// Divided at the end, with the sums.
  struct Gradients {
    [[gnu::always_inline]] void operator()(const Vector (&from)[kStep], Vector (&to)[kSide]) const {
      to[0] = from[0];
      to[1] = from[0] + kA * from[1];
      to[2] = from[0] - kA * from[1];
      to[3] = from[0] + kB * from[1];
      to[4] = from[0] - kB * from[1];
      to[5] = from[1];
    }
  };
  struct Sums {
    [[gnu::always_inline]] void operator()(const Vector (&from)[kSide], Vector (&to)[kWindow]) const {
      const auto [even_a, odd_a, even_b, odd_b] = Pairs(from, kOfA, kOfB);
      to[0] = from[0] + (even_a + even_b);
      to[1] = odd_a + odd_b;
      to[2] = 0.5F * even_a + 2.0F * even_b;
      to[3] = 0.5F * odd_a + 2.0F * odd_b;
      to[4] = (from[5] + 0.25F * even_a) + 4.0F * even_b;
    }
  };
};

/// How the caller's weights lead: as_they_are from the inputs to the outputs, else the other way. turned: as
/// those of a forward pass over the gradient, with turned windows.
enum class Weights : std::uint8_t { as_they_are, turned, transposed };

/// load(i, j, vector) of kFrom x kFrom, both halves, store(i, j, vector) of kTo x kTo.
template <int kFrom, int kTo, class Half, class Load, class Store>
[[gnu::always_inline]] inline void transform(const Half& half, const Load& load, const Store& store) {
  Vector lines[kTo][kFrom];
#pragma GCC unroll 6
  for (int j = 0; j < kFrom; ++j) {
    Vector from[kFrom], to[kTo];
#pragma GCC unroll 6
    for (int i = 0; i < kFrom; ++i) load(i, j, from[i]);
    half(from, to);
#pragma GCC unroll 6
    for (int i = 0; i < kTo; ++i) lines[i][j] = to[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < kTo; ++i) {
    Vector to[kTo];
    half(lines[i], to);
#pragma GCC unroll 6
    for (int j = 0; j < kTo; ++j) store(i, j, to[j]);
  }
}

/// A vector of outputs of a group, one block of inputs.
template <class H, class T>
void prepare_weights(const Sizes<H>& s, Weights weights, std::int64_t v, std::int64_t block,
                     const float* weight, float* prepared) {
  constexpr int kSide = H::kSide, kWindow = H::kWindow, kTaps = H::kTaps;
  const Group g = s.group_of(v);
  alignas(64) float taps[kTaps][kLanes];
  for (std::int64_t c = block * kLanes; c < std::min((block + 1) * kLanes, s.inputs); ++c) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const std::int64_t o = s.of_output().first(v) + lane;
      const float* from = weight + (weights == Weights::as_they_are ? s.window(o, c) : s.turned_window(o, c));
      for (std::int64_t tap = 0; tap < kTaps; ++tap)
        taps[tap][lane] = stored<T>(from[weights == Weights::turned ? kTaps - 1 - tap : tap]);
    }
    float* to = prepared + s.place(g) + (c * g.count + v - g.first) * kLanes;
    transform<kWindow, kSide>(
        typename H::Weights(),
        [&](int i, int j, Vector& value) { Block::load(taps[i * kWindow + j], value); },
        [&](int i, int j, const Vector& value) {
          Block::store(value, to + (i * kSide + j) * s.inputs * g.count * kLanes);
        });
  }
}

/// The rows of inputs that a row of tiles needs, in one block.
template <class H, class T>
class Strip {
  static constexpr int kSide = H::kSide;

 public:
  /// depth_tap: of a volume.
  Strip(const Sizes<H>& s, const Run& run, std::int64_t depth_tap, const T* x)
      : step_(s.in.pixel_step()), width_(s.in.columns(run.image)) {
    const std::int64_t image =
        s.depth.taps == 1 && s.depth.pad == 0 ? run.image : s.depth.image(run.image, depth_tap);
    const std::int64_t first = run.row * H::kStep - s.pad_h, height = image < 0 ? 0 : s.in.rows(image);
    for (std::int64_t i = 0; i < kSide; ++i) {
      inside_[i] = first + i >= 0 && first + i < height;
      rows_[i] = inside_[i] ? x + s.in.at(image, first + i, 0) : nullptr;
    }
    whole_ = inside_[0] && inside_[kSide - 1];
  }
  /// A column of a vector of channels, transformed.
  [[gnu::always_inline]] void load(std::int64_t column, std::int64_t channel, Vector (&to)[kSide]) const {
    Vector values[kSide] = {};
    if (column >= 0 && column < width_) {
      const std::int64_t at = column * step_ + channel;
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i)
        if (whole_ || inside_[i]) Stored<T>::load(rows_[i] + at, values[i]);
    }
    typename H::Inputs()(values, to);
  }

 private:
  std::int64_t step_, width_;
  const T* rows_[kSide];
  bool inside_[kSide], whole_;
};

/// The inputs of a run, of `count` tiles that are computed together. Neighbouring tiles share columns.
template <class H, class T>
void prepare_run(const Sizes<H>& s, const Run& run, std::int64_t count, const T* x, float* prepared) {
  constexpr int kSide = H::kSide, kStep = H::kStep;
  constexpr std::int64_t kTogether = 4;  // tiles, whose columns stay in the L1 cache
  alignas(64) float columns[kTogether * kStep + kSide - kStep][kSide][kLanes];
  const std::int64_t position = s.of_inputs(), blocks = s.of_input().count() / s.depth.taps;
  for (std::int64_t block = 0; block < s.of_input().count(); ++block) {
    const std::int64_t tap = block / blocks;
    const Strip<H, T> strip(s, run, tap, x);
    const std::int64_t channel = s.of_input().first(block) - tap * s.channels();
    for (std::int64_t first = 0; first < run.count; first += kTogether) {
      const std::int64_t tiles = std::min(kTogether, run.count - first);
      const std::int64_t column = (run.column + first) * kStep - s.pad_w;
      for (std::int64_t c = 0; c < tiles * kStep + kSide - kStep; ++c) {
        Vector values[kSide];
        strip.load(column + c, channel, values);
#pragma GCC unroll 6
        for (int i = 0; i < kSide; ++i) Block::store(values[i], columns[c][i]);
      }
      float* to = prepared + (block * count + run.at + first) * kLanes;
      for (std::int64_t t = 0; t < tiles; ++t, to += kLanes)
#pragma GCC unroll 6
        for (int i = 0; i < kSide; ++i) {
          Vector line[kSide], transformed[kSide];
#pragma GCC unroll 6
          for (int j = 0; j < kSide; ++j) Block::load(columns[t * kStep + j][i], line[j]);
          typename H::Inputs()(line, transformed);
#pragma GCC unroll 6
          for (int j = 0; j < kSide; ++j) Block::store(transformed[j], to + (i * kSide + j) * position);
        }
    }
  }
}

// --- Forward ------------------------------------------------------------------------------------

/// P neighbouring tiles, the N vectors of a group, one position. `next`: weights that are wanted soon, as
/// many.
template <int P, int N, class H>
void multiply(const Sizes<H>& s, std::int64_t count, const float* tiles, const float* weights,
              const float* next, float* products) {
  Vector sums[P][N] = {};
  const Vectors inputs = s.of_input();
  for (std::int64_t block = 0; block < inputs.count(); ++block, tiles += count * kLanes)
    for (std::int64_t k = inputs.repeated(block); k < kLanes;
         ++k, weights += N * kLanes, next += N * kLanes) {
      Vector weight[N];
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) __builtin_prefetch(next + n * kLanes, 0, 2);
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) Block::load_factor(weights + n * kLanes, weight[n]);
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
template <int N, class H, class T>
void write_run(const Sizes<H>& s, const Run& run, const Group& g, const float* products, const float* bias,
               float slope, T* y) {
  constexpr int kSide = H::kSide, kStep = H::kStep;
  const std::int64_t row = run.row * kStep, next = s.out.row_step();
  const std::int64_t position = s.of_outputs(), pixel = s.out.pixel_step();
  const std::int64_t height = std::min<std::int64_t>(kStep, s.out.rows(run.image) - row);
  const std::int64_t length = s.out.columns(run.image);
  const bool ends = slope != 1;
  products += run.at * N * kLanes;
  Vector added[N] = {};
  for (int n = 0; n < N && bias != nullptr; ++n)
    Block::load(bias + s.of_output().first(g.first + n), added[n]);
  std::int64_t column = run.column * kStep;
  T* to = y + s.out.at(run.image, row, column);
  for (std::int64_t t = 0; t < run.count; ++t, column += kStep, to += kStep * pixel) {
    const std::int64_t width = std::min<std::int64_t>(kStep, length - column);
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n, products += kLanes) {
      T* const vector = to + s.of_output().first(g.first + n);
      transform<kSide, kStep>(
          typename H::Outputs(),
          [&](int i, int j, Vector& value) { Block::load(products + (i * kSide + j) * position, value); },
          [&](int i, int j, Vector& value) {
            value += added[n];
            if (ends) end_with_relu(slope, value);
            if (i < height && j < width) Stored<T>::store(value, vector + i * next + j * pixel);
          });
    }
  }
}

/// The products of `count` tiles and the weights of a group, at all positions. body(constant number of its
/// vectors) then reads them.
template <class H, class Body>
void with_products(const Sizes<H>& s, const Group& g, std::int64_t count, const float* tiles,
                   const float* prepared, float* products, const Body& body) {
  with_constant<kVectors>(g.count, [&]<int N>(std::integral_constant<int, N> vectors) {
    constexpr std::int64_t kTogether = kSums / N;
    const std::int64_t parts = (count + kTogether - 1) / kTogether;
    for (std::int64_t position = 0; position < H::kPositions; ++position) {
      const float* weights = prepared + s.place(g) + position * s.inputs * N * kLanes;
      const float* from = tiles + position * s.of_inputs();
      float* to = products + position * s.of_outputs();
      for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t at = count * part / parts;
        with_constant<kTogether>(count * (part + 1) / parts - at, [&]<int P>(std::integral_constant<int, P>) {
          // Fetched during the last tiles of a position: those of the next one follow in memory.
          const float* next = part + 1 == parts ? weights + s.inputs * N * kLanes : weights;
          multiply<P, N>(s, count, from + at * kLanes, weights, next, to + at * N * kLanes);
        });
      }
    }
    body(vectors);
  });
}

struct Prepared {
  const float *weight, *bias;  ///< no bias: nullptr
};

/// Tiles [first, last), a part of their outputs.
template <class H, class T>
void compute_tiles(const Sizes<H>& s, std::int64_t first, std::int64_t last, std::int64_t part_of_outputs,
                   const T* x, const Prepared& prepared, float slope, T* y, float* memory) {
  float *const tiles = memory, *const products = memory + H::kPositions * s.of_inputs();
  const std::int64_t count = last - first;
  for_each_run(s, first, last, [&](const Run& run) { prepare_run(s, run, count, x, tiles); });
  for (std::int64_t number = s.first_group(part_of_outputs); number < s.first_group(part_of_outputs + 1);
       ++number) {
    const Group g = s.group(number);
    with_products(s, g, count, tiles, prepared.weight, products, [&]<int N>(std::integral_constant<int, N>) {
      for_each_run(s, first, last,
                   [&](const Run& run) { write_run<N>(s, run, g, products, prepared.bias, slope, y); });
    });
  }
}

/// By all threads of a parallel region.
template <class H, class T>
void prepare_all_weights(const Sizes<H>& s, Weights weights, const float* weight, float* prepared) {
  const std::int64_t blocks = s.of_input().count();
#pragma omp for schedule(static)
  for (std::int64_t i = 0; i < s.vectors() * blocks; ++i)
    prepare_weights<H, T>(s, weights, i / blocks, i % blocks, weight, prepared);
}

/// weight: the caller's; nullptr: `prepared` are filled.
template <class H, class T>
void run_forward(const Sizes<H>& s, Weights weights, const T* x, const float* weight, const float* bias,
                 float slope, T* y, float* prepared, float* workspace) {
  Shares shares(s.threads, s.tasks * s.parts, 1);
#pragma omp parallel num_threads(s.threads)
  {
    if (weight != nullptr) prepare_all_weights<H, T>(s, weights, weight, prepared);
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

/// The gradients at the outputs of a run, in the vectors [first, first + count) of their channels. planes: of
/// dy.
template <class H, class T>
void prepare_gradients(const Run& run, std::int64_t count, const Vectors& channels, const Group& vectors,
                       const Planes& planes, const T* dy, std::int64_t position, float* prepared) {
  constexpr int kSide = H::kSide, kStep = H::kStep;
  const std::int64_t next = planes.row_step(), pixel = planes.pixel_step(), row = run.row * kStep;
  const std::int64_t height = std::min<std::int64_t>(kStep, planes.rows(run.image) - row);
  const std::int64_t length = planes.columns(run.image);
  for (std::int64_t vector = vectors.first; vector < vectors.first + vectors.count; ++vector) {
    float* to = prepared + (vector * count + run.at) * kLanes;
    std::int64_t column = run.column * kStep;
    const T* from = dy + planes.at(run.image, row, column) + channels.first(vector);
    for (std::int64_t t = 0; t < run.count; ++t, column += kStep, from += kStep * pixel, to += kLanes) {
      const std::int64_t width = std::min<std::int64_t>(kStep, length - column);
      transform<kStep, kSide>(
          typename H::Gradients(),
          [&](int i, int j, Vector& value) {
            value = Vector{};
            if (i < height && j < width) Stored<T>::load(from + i * next + j * pixel, value);
          },
          [&](int i, int j, const Vector& value) { Block::store(value, to + (i * kSide + j) * position); });
    }
  }
}

// --- Gradient of the inputs, by the transposed forward pass -------------------------------------

/// Adds what a run's products contribute to the N vectors of a group. Of windows without gaps.
template <int N, class H>
void add_run(const Sizes<H>& s, const Run& run, const Group& g, const float* products, float* dx) {
  constexpr int kSide = H::kSide, kStep = H::kStep;
  const std::int64_t height = s.in.height, width = s.in.width;
  const std::int64_t position = s.of_outputs(), pixel = s.out.pixel, next = width * pixel;
  const std::int64_t row = run.row * kStep - s.pad_h;
  products += run.at * N * kLanes;
  for (std::int64_t t = 0; t < run.count; ++t) {
    const std::int64_t column = (run.column + t) * kStep - s.pad_w;
    float* const to = dx + (run.image * height * width + row * width + column) * pixel;
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n, products += kLanes) {
      float* const vector = to + s.of_output().first(g.first + n);
      const std::int64_t repeated = s.of_output().repeated(g.first + n);
      transform<kSide, kSide>(
          typename H::GradientOfInputs(),
          [&](int i, int j, Vector& value) { Block::load(products + (i * kSide + j) * position, value); },
          [&](int i, int j, Vector& value) {
            if (row + i < 0 || row + i >= height || column + j < 0 || column + j >= width) return;
            float* const at = vector + i * next + j * pixel;
            Vector sum;
            Block::load(at, sum);
            if (repeated > 0) clear_lanes(repeated, value);
            Block::store(sum + value, at);
          });
    }
  }
}

/// Adds to dx. s: inputs are the channels of dy, outputs those of dx; tiles are those of dy.
template <class H>
void run_transposed(const Sizes<H>& s, const float* dy, const float* weight, float* dx, float* prepared,
                    float* workspace) {
  const std::int64_t tiles = s.rows * s.columns;
#pragma omp parallel num_threads(s.threads)
  {
    prepare_all_weights<H, float>(s, Weights::transposed, weight, prepared);
    float* const memory = workspace + omp_get_thread_num() * s.workspace();
    float *const gradients = memory, *const products = memory + H::kPositions * s.of_inputs();
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < s.batch * s.parts; ++i) {
      const std::int64_t image = i / s.parts, part = i % s.parts;
      for (std::int64_t at = 0; at < tiles; at += s.most) {
        const std::int64_t first = image * tiles + at, count = std::min(s.most, tiles - at);
        for_each_run(s, first, first + count, [&](const Run& run) {
          prepare_gradients<H>(run, count, s.of_input(), {0, s.of_input().count()},
                               {s.out.height, s.out.width, s.in.pixel}, dy, s.of_inputs(), gradients);
        });
        for (std::int64_t number = s.first_group(part); number < s.first_group(part + 1); ++number) {
          const Group g = s.group(number);
          with_products(s, g, count, gradients, prepared, products,
                        [&]<int N>(std::integral_constant<int, N>) {
                          for_each_run(s, first, first + count,
                                       [&](const Run& run) { add_run<N>(s, run, g, products, dx); });
                        });
        }
      }
    }
  }
}

// --- Gradient of the weights --------------------------------------------------------------------

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
    for (int n = 0; n < N; ++n) Block::load_factor(gradients + n * count * kLanes, gradient[n]);
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
template <class H, class T>
void add_tiles(const WeightSizes<H>& s, std::int64_t first, std::int64_t last, std::int64_t part,
               const Group& outputs, const T* x, const T* dy, float* kept, float* memory) {
  float *const inputs = memory, *const gradients = memory + H::kPositions * s.of_inputs();
  const std::int64_t count = last - first;
  for_each_run(s, first, last, [&](const Run& run) {
    prepare_run(s, run, count, x, inputs);
    prepare_gradients<H>(run, count, s.of_output(), outputs, s.out, dy, s.of_gradients(), gradients);
  });
  for (std::int64_t number = s.first_group(part); number < s.first_group(part + 1); ++number) {
    const Group g = s.group(number);
    with_constant<kVectors>(g.count, [&]<int N>(std::integral_constant<int, N>) {
      constexpr std::int64_t kMost = kProducts / N;
      for (std::int64_t position = 0; position < H::kPositions; ++position) {
        const float* from = inputs + position * s.of_inputs();
        const float* with = gradients + position * s.of_gradients() + g.first * count * kLanes;
        float* to = kept + s.place(g) + position * s.inputs * N * kLanes;
        for (std::int64_t block = 0; block < s.of_input().count(); ++block, from += count * kLanes)
          for (std::int64_t lane = s.of_input().repeated(block); lane < kLanes;) {
            const std::int64_t together = std::min(kMost, kLanes - lane);
            with_constant<kMost>(together, [&]<int K>(std::integral_constant<int, K>) {
              add_products<K, N>(count, from + lane, with, to);
            });
            lane += together;
            to += together * N * kLanes;
          }
      }
    });
  }
}

/// A share of the tiles, for a part of the outputs.
template <class H, class T>
void add_share(const WeightSizes<H>& s, std::int64_t share, std::int64_t part, const T* x, const T* dy,
               float* kept, float* memory) {
  const Group first_group = s.group(s.first_group(part)), last_group = s.group(s.first_group(part + 1) - 1);
  const Group outputs{first_group.first, last_group.first + last_group.count - first_group.first};
  std::fill_n(kept + s.place(outputs), s.weights() / s.vectors() * outputs.count, 0.0f);
  const std::int64_t end = s.tiles() * (share + 1) / s.shares;
  for (std::int64_t first = s.tiles() * share / s.shares; first < end; first += s.most)
    add_tiles(s, first, std::min(first + s.most, end), part, outputs, x, dy, kept, memory);
}

/// The sums of a vector of outputs and a block of inputs over the shares, in their order, transformed back.
template <class H>
void write_weights(const WeightSizes<H>& s, std::int64_t v, std::int64_t block, const float* kept, bool adds,
                   float* dw) {
  constexpr int kSide = H::kSide, kWindow = H::kWindow, kTaps = H::kTaps;
  const Group g = s.group_of(v);
  alignas(64) float taps[kTaps][kLanes];
  for (std::int64_t c = block * kLanes; c < std::min((block + 1) * kLanes, s.inputs); ++c) {
    const float* from = kept + s.place(g) + (c * g.count + v - g.first) * kLanes;
    const std::int64_t position = s.inputs * g.count * kLanes;
    transform<kSide, kWindow>(
        typename H::Sums(),
        [&](int i, int j, Vector& sum) {
          const float* at = from + (i * kSide + j) * position;
          Block::load(at, sum);
          for (std::int64_t share = 1; share < s.shares; ++share) {
            Vector other;
            Block::load(at + share * s.weights(), other);
            sum += other;
          }
        },
        [&](int i, int j, const Vector& value) { Block::store(value, taps[i * kWindow + j]); });
    for (std::int64_t lane = s.of_output().repeated(v); lane < kLanes; ++lane) {
      float* to = dw + s.window(s.of_output().first(v) + lane, c);
      for (std::int64_t tap = 0; tap < kTaps; ++tap)
        to[tap] = adds ? to[tap] + taps[tap][lane] : taps[tap][lane];
    }
  }
}

template <class H, class T>
void run_backward_weight(const WeightSizes<H>& s, const T* x, const T* dy, bool adds, float* dw,
                         float* workspace) {
  float *const kept = workspace, *const memories = workspace + s.shares * s.weights();
#pragma omp parallel num_threads(s.threads)
  {
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < s.shares * s.parts; ++i) {
      const std::int64_t share = i / s.parts;
      add_share(s, share, i % s.parts, x, dy, kept + share * s.weights(), memories + i * s.workspace());
    }
    const std::int64_t blocks = s.of_input().count();
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < s.vectors() * blocks; ++i)
      write_weights(s, i / blocks, i % blocks, kept, adds, dw);
  }
}

// ------------------------------------------------------------------------------------------------

/// body(tile, T()) for activations of type T.
template <class Body>
void with_types(WinogradTile tile, const Tensor& activation, const Body& body) {
  if (tile == WinogradTile::wide_of_2) return body(WideTile(), float());
  const auto with_tile = [&](auto type) {
    if (tile == WinogradTile::of_2)
      body(SmallTile(), type);
    else
      body(LargeTile(), type);
  };
  if (activation.dtype() == DType::bf16)
    with_tile(BFloat16());
  else
    with_tile(float());
}

void forward_on_cpu(Context& context, WinogradTile tile, const ConvolutionGeometry& geometry,
                    const Tensor& input, const Tensor& weight, const Tensor& bias, double slope,
                    const Tensor& kept, bool is_filled, Tensor& output) {
  with_types(tile, output, [&]<class H, class T>(H, T) {
    const Sizes<H> sizes(geometry, input, output, context.device().threads());
    const bool keeps = kept.defined();
    auto* workspace =
        context.workspace_of<float>((keeps ? 0 : sizes.weights()) + sizes.threads * sizes.workspace());
    float* prepared = keeps ? const_cast<float*>(kept.data<float>()) : workspace;
    if (!keeps) workspace += sizes.weights();
    context.run([sizes, count = geometry.group, x = input.data<T>(),
                 w = is_filled ? nullptr : weight.data<float>(), b = detail::optional_data<float>(bias),
                 slope = static_cast<float>(slope), y = output.data<T>(), prepared, is_kept = keeps,
                 workspace] {
      for (std::int64_t group = 0; group < count; ++group)
        run_forward(sizes, Weights::as_they_are, x + group * sizes.channels(),
                    w == nullptr ? nullptr : w + group * sizes.taps(),
                    b == nullptr ? nullptr : b + group * sizes.outputs, slope, y + group * sizes.outputs,
                    prepared + (is_kept ? group * sizes.weights() : 0), workspace);
    });
  });
}

/// Where windows leave out the borders, dy has fewer tiles than dx, and the gradient of inputs is computed by
/// the transposed forward pass, whose tiles overlap.
bool transposes(WinogradTile tile, const ConvolutionGeometry& geometry) {
  return tile == WinogradTile::wide_of_2 && geometry.pad[0] < 2 && geometry.pad[1] < 2;
}

void transposed_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& grad_output,
                       const Tensor& weight, Tensor& grad_input) {
  ConvolutionGeometry back = geometry;
  std::swap(back.in_channels, back.out_channels);
  Sizes<WideTile> sizes(back, grad_input, grad_output, context.device().threads());
  sizes.most = std::min(kTiles, sizes.rows * sizes.columns);
  // An image's tiles overlap, so they are added up by one thread; of few images, by one for a part of the
  // channels.
  const std::int64_t idle = (sizes.threads + sizes.batch - 1) / sizes.batch;
  sizes.parts = std::min(sizes.groups(), idle);
  auto* prepared = context.workspace_of<float>(sizes.weights() + sizes.threads * sizes.workspace());
  fill(context, grad_input, 0);
  context.run([sizes, count = geometry.group, dy = grad_output.data<float>(), w = weight.data<float>(),
               dx = grad_input.data<float>(), prepared] {
    for (std::int64_t group = 0; group < count; ++group)
      run_transposed(sizes, dy + group * sizes.channels(), w + group * sizes.taps(),
                     dx + group * sizes.outputs, prepared, prepared + sizes.weights());
  });
}

void backward_data_on_cpu(Context& context, WinogradTile tile, const ConvolutionGeometry& geometry,
                          const Tensor& grad_output, const Tensor& weight, Tensor& grad_input) {
  if (transposes(tile, geometry))
    return transposed_on_cpu(context, geometry, grad_output, weight, grad_input);
  with_types(tile, grad_input, [&]<class H, class T>(H, T) {
    const Sizes<H> sizes(turned(geometry), grad_output, grad_input, context.device().threads());
    auto* prepared = context.workspace_of<float>(sizes.weights() + sizes.threads * sizes.workspace());
    context.run([sizes, count = geometry.group, dy = grad_output.data<T>(), w = weight.data<float>(),
                 dx = grad_input.data<T>(), prepared] {
      for (std::int64_t group = 0; group < count; ++group)
        run_forward(sizes, Weights::turned, dy + group * sizes.channels(), w + group * sizes.taps(), nullptr,
                    1, dx + group * sizes.outputs, prepared, prepared + sizes.weights());
    });
  });
}

void backward_weight_on_cpu(Context& context, WinogradTile tile, const ConvolutionGeometry& geometry,
                            const Tensor& input, const Tensor& grad_output, bool adds, Tensor& grad_weight) {
  with_types(tile, input, [&]<class H, class T>(H, T) {
    const WeightSizes<H> sizes(geometry, input, grad_output, context.device().threads());
    auto* workspace = context.workspace_of<float>(sizes.whole_workspace());
    context.run([sizes, count = geometry.group, x = input.data<T>(), dy = grad_output.data<T>(), adds,
                 dw = grad_weight.data<float>(), workspace] {
      for (std::int64_t group = 0; group < count; ++group)
        run_backward_weight(sizes, x + group * sizes.channels(), dy + group * sizes.outputs, adds,
                            dw + group * sizes.taps(), workspace);
    });
  });
}

const Define define_forward(forward_by_winograd, DeviceKind::cpu, &forward_on_cpu);
const Define define_backward_data(backward_data_by_winograd, DeviceKind::cpu, &backward_data_on_cpu);
const Define define_backward_weight(backward_weight_by_winograd, DeviceKind::cpu, &backward_weight_on_cpu);

bool all_are(const std::vector<std::int64_t>& lengths, std::int64_t wanted) {
  return std::ranges::all_of(lengths, [&](std::int64_t length) { return length == wanted; });
}

/// Of a vector of the kernels that run: these here, or those of a library for AVX-512.
std::int64_t lanes() { return instruction_set() == InstructionSet::avx512 ? 16 : kLanes; }

ConvolutionGeometry of_a_group(ConvolutionGeometry geometry) {
  geometry.in_channels /= geometry.group;
  geometry.out_channels /= geometry.group;
  geometry.group = 1;
  return geometry;
}

std::int64_t positions_of(WinogradTile tile) {
  switch (tile) {
    case WinogradTile::of_2:
      return SmallTile::kPositions;
    case WinogradTile::of_4:
      return LargeTile::kPositions;
    case WinogradTile::wide_of_2:
      break;
  }
  return WideTile::kPositions;
}

std::int64_t in_vectors(std::int64_t channels) { return (channels + lanes() - 1) / lanes() * lanes(); }

}  // namespace

bool winograd_applies(WinogradTile tile, const ConvolutionGeometry& geometry, const Tensor& input,
                      const Tensor& output) {
  const auto is_image = [](const Tensor& tensor) {
    return (tensor.dtype() == DType::f32 || tensor.dtype() == DType::bf16) &&
           tensor.layout() == Layout::channels_last && tensor.count() > 0;
  };
  const int axes = geometry.spatial_axes();
  if (instruction_set() < InstructionSet::avx2 || axes < 2 || axes > 3 || !is_image(input) ||
      !is_image(output) || input.dtype() != output.dtype() || !can_turn(of_a_group(geometry)))
    return false;
  // Windows with gaps are some without, if what is padded is as much for each.
  const bool has_gaps = !all_are(geometry.dilation, 1), is_volume = axes == 3;
  for (std::size_t axis = 0; axis < geometry.pad.size(); ++axis)
    if (geometry.pad[axis] % geometry.dilation[axis] != 0) return false;
  const ConvolutionGeometry group = of_a_group(geometry);
  if (std::min(group.in_channels, group.out_channels) < lanes()) return false;
  // The channels of a slice fill their vectors.
  if (is_volume && (has_gaps || group.in_channels % lanes() != 0 || group.out_channels % lanes() != 0))
    return false;
  if (tile == WinogradTile::wide_of_2)
    return !has_gaps && !is_volume && all_are(geometry.kernel, WideTile::kWindow) &&
           input.dtype() == DType::f32;
  return all_are({geometry.kernel.end() - 2, geometry.kernel.end()}, LargeTile::kWindow);
}

std::optional<WinogradTile> winograd_tile(WinogradPass pass, const ConvolutionGeometry& geometry,
                                          const Tensor& input, const Tensor& output) {
  using enum WinogradTile;
  const bool is_wide = winograd_applies(wide_of_2, geometry, input, output);
  if (!is_wide && !winograd_applies(of_2, geometry, input, output)) return std::nullopt;
  if (input.dtype() == DType::bf16 && has_bf16_tiles()) return std::nullopt;
  const bool is_forward = pass == WinogradPass::forward, is_data = pass == WinogradPass::backward_data;
  const bool is_avx2 = instruction_set() == InstructionSet::avx2;
  // The threads meet in each group.
  const auto side = [](const Tensor& tensor, int axis) {
    return tensor.shape()[tensor.shape().axes() - 2 + axis];
  };
  const bool is_small = side(output, 0) * side(output, 1) < 14 * 14;
  if (geometry.group > (!is_avx2 || (is_data && is_small) ? 8 : 32)) return std::nullopt;
  const bool is_of_input = is_data && !(is_wide && transposes(wide_of_2, geometry));
  const Tensor& tiled = is_of_input ? input : output;
  const std::int64_t height = side(tiled, 0), width = side(tiled, 1), pixels = height * width;
  const std::int64_t gap_h = geometry.dilation[geometry.dilation.size() - 2],
                     gap_w = geometry.dilation.back();
  const auto products = [&](WinogradTile tile) {
    const std::int64_t step = tile == of_4 ? LargeTile::kStep : SmallTile::kStep;
    const auto tiles = [step](std::int64_t length, std::int64_t gap) {
      return ((length + gap - 1) / gap + step - 1) / step * gap;
    };
    return positions_of(tile) * tiles(height, gap_h) * tiles(width, gap_w);
  };
  const std::int64_t small = products(is_wide ? wide_of_2 : of_2), large = products(of_4);
  const std::int64_t least = is_wide ? small : std::min(small, large);
  // At the end of rows and columns, tiles compute in vain, and in the last vector of channels lanes do.
  const ConvolutionGeometry group = of_a_group(geometry);
  const std::int64_t channels = is_data ? group.in_channels : group.out_channels;
  const std::int64_t depth = geometry.spatial_axes() == 3 ? geometry.kernel[0] : 1;
  const std::int64_t taps = geometry.kernel.back() * geometry.kernel.back();
  if (least * in_vectors(channels) * 5 > pixels * taps * channels * 3) return std::nullopt;
  // More transformed weights take long to transform and to read, which few pixels are not worth; gradients
  // are of many images. Those for large tiles are more than twice as many. With AVX2 products take longer.
  const std::int64_t pairs = depth * geometry.in_channels * group.out_channels, most = 512 * 1024;
  const std::int64_t worth = is_forward ? 14 * 14 : 7 * 7;
  const bool is_big = pixels >= 28 * 28;
  const std::int64_t many = is_big                                                 ? 4 * most
                            : depth > 1 && (!is_small || !(is_forward || is_data)) ? 2 * most
                                                                                   : most;
  if (pairs > (pixels < worth ? 256 * 512 : many)) return std::nullopt;
  if (is_wide) return wide_of_2;
  const std::int64_t near = is_avx2                                 ? (depth > 1 ? 256 * 256 : most)
                            : pass == WinogradPass::backward_weight ? 256 * 256
                                                                    : 128 * 256;
  if (large < small && (pairs <= near || (is_big && (pairs <= 2 * most || !is_forward)))) return of_4;
  // For bf16, units for it make oneDNN's kernels as fast.
  return input.dtype() == DType::bf16 ? std::nullopt : std::optional(of_2);
}

std::int64_t winograd_weights(WinogradTile tile, const ConvolutionGeometry& geometry) {
  const std::int64_t depth = geometry.spatial_axes() == 3 ? geometry.kernel[0] : 1;
  return positions_of(tile) * depth * geometry.in_channels * in_vectors(of_a_group(geometry).out_channels);
}

}  // namespace banyan::ops
