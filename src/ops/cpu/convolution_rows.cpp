// Terms: an output pixel's value for output channel o is the sum of value times weight over the kernel's
// rows, and within each over `row` = kernel width x input channels values that are adjacent in the image. A
// position is one such place in the kernel. Output channels are divided into vectors, the last of which
// starts early rather than being short, or, if that would leave most of it empty, into vectors and a few
// leftover channels.
//
// Every loop over an array of vectors is unrolled by a pragma: GCC otherwise leaves some of them loops, which
// ones depends on the processor it compiles for, and the array is then in memory.
#include "ops/cpu/convolution_rows.hpp"

#include <algorithm>
#include <vector>

#include "ops/common/optional_data.hpp"
#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/constant_numbers.hpp"
#include "ops/cpu/convolution_choice.hpp"
#include "ops/cpu/shares.hpp"

namespace banyan::ops {
namespace {

/// What fits in the vector registers: `sums`, the operands that share them (up to `vectors`), and a factor.
template <std::int64_t kLanes>
struct Tile;
template <>
struct Tile<16> {  // AVX-512: 28 of 32 registers
  static constexpr int sums = 24, vectors = 3;
};
template <>
struct Tile<8> {  // AVX2: 15 of 16 registers
  static constexpr int sums = 12, vectors = 2;
};
constexpr int kDots = 8;  ///< dot products at a time

constexpr int kMostPositions = 8;  ///< of the kernel at a time: more addresses would not stay in registers
constexpr std::int64_t kRowsAtATime = 8;  ///< of output pixels

/// Vectors whose values for one position are adjacent.
struct Group {
  std::int64_t first, count;
};

/// Sizes for one call; copied into the enqueued work.
template <std::int64_t kLanes>
struct Rows {
  using Block = ChannelBlock<float, kLanes>;
  using Vector = typename Block::Values;
  static constexpr std::int64_t kLongRow = 2 * kLanes;  ///< below that, dot products do not pay off

  std::int64_t batch, channels, outputs, kernel_h, kernel_w, in_h, in_w, out_h, out_w;
  std::int64_t stride_h, stride_w, dilation_h;
  int threads;
  std::int64_t left = 0, vectors = 0;  ///< leftover output channels; vectors of the others
  std::vector<Group> groups;

  Rows(const ConvolutionGeometry& g, const Tensor& input, const Tensor& output, int team,
       std::int64_t most_left)
      : batch(input.shape()[0]),
        channels(g.in_channels),
        outputs(g.out_channels),
        kernel_h(g.kernel[0]),
        kernel_w(g.kernel[1]),
        in_h(input.shape()[2]),
        in_w(input.shape()[3]),
        out_h(output.shape()[2]),
        out_w(output.shape()[3]),
        stride_h(g.stride[0]),
        stride_w(g.stride[1]),
        dilation_h(g.dilation[0]),
        threads(team) {
    const std::int64_t rest = outputs % kLanes;
    if (rest <= most_left && row() >= kLongRow) left = rest;
    vectors = (in_vectors() + kLanes - 1) / kLanes;
    constexpr std::int64_t kVectors = Tile<kLanes>::vectors;
    const std::int64_t parts = (vectors + kVectors - 1) / kVectors;
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t first = vectors * part / parts;
      groups.push_back({first, vectors * (part + 1) / parts - first});
    }
  }

  std::int64_t taps() const { return kernel_h * kernel_w; }
  std::int64_t row() const { return kernel_w * channels; }
  std::int64_t depth() const { return kernel_h * row(); }
  std::int64_t pixels() const { return out_h * out_w; }
  std::int64_t image_row() const { return in_w * channels; }
  std::int64_t kernel_row_step() const { return dilation_h * image_row(); }
  std::int64_t pixel_step() const { return stride_w * channels; }

  std::int64_t in_vectors() const { return outputs - left; }
  std::int64_t first_output(std::int64_t vector) const {
    return std::min(vector * kLanes, in_vectors() - kLanes);
  }
  /// Blocks of a row for dot products; the last starts early rather than being short.
  std::int64_t blocks() const { return (row() + kLanes - 1) / kLanes; }
  std::int64_t first_in_row(std::int64_t block) const { return std::min(block * kLanes, row() - kLanes); }

  /// The values of each position and vector, then those of each leftover channel.
  std::int64_t vector_values() const { return vectors * depth() * kLanes; }
  std::int64_t left_values() const { return kernel_h * blocks() * kLanes; }
  std::int64_t values() const { return vector_values() + left * left_values(); }
  std::int64_t place(const Group& group, std::int64_t v, std::int64_t position) const {
    return (group.first * depth() + position * group.count + v - group.first) * kLanes;
  }
  std::int64_t left_place(std::int64_t l, std::int64_t kernel_row, std::int64_t block) const {
    return vector_values() + l * left_values() + (kernel_row * blocks() + block) * kLanes;
  }

  /// body(lane 0's weight, place) for every position of vector v; the lanes' weights are depth() apart.
  template <class Body>
  void for_positions(std::int64_t v, const Body& body) const {
    const Group& group =
        *std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return v < g.first + g.count; });
    for (std::int64_t tap = 0; tap < taps(); ++tap)
      for (std::int64_t c = 0; c < channels; ++c)
        body(first_output(v) * depth() + c * taps() + tap, place(group, v, tap * channels + c));
  }
  /// body(weight, place) for every weight of leftover channel l, once each.
  template <class Body>
  void for_left(std::int64_t l, const Body& body) const {
    const std::int64_t first = (in_vectors() + l) * depth();
    for (std::int64_t r = 0; r < kernel_h; ++r)
      for (std::int64_t k = 0; k < row(); ++k) {
        const std::int64_t block = k / kLanes, lane = k - first_in_row(block);
        body(first + k % channels * taps() + r * kernel_w + k / channels, left_place(l, r, block) + lane);
      }
  }
};

/// Halves are added until two lanes are left.
float sum_of_lanes(const ChannelBlock<float, 8>::Values& values) {
  auto sum = values;
  sum += __builtin_shufflevector(sum, sum, 4, 5, 6, 7, 0, 1, 2, 3);
  sum += __builtin_shufflevector(sum, sum, 2, 3, 0, 1, 6, 7, 4, 5);
  return sum[0] + sum[1];
}
[[maybe_unused]] float sum_of_lanes(const ChannelBlock<float, 16>::Values& values) {
  const ChannelBlock<float, 8>::Values sum =
      __builtin_shufflevector(values, values, 0, 1, 2, 3, 4, 5, 6, 7) +
      __builtin_shufflevector(values, values, 8, 9, 10, 11, 12, 13, 14, 15);
  return sum_of_lanes(sum);
}

// --- Forward ------------------------------------------------------------------------------------

/// Weights and bias in loop order.
struct Ordered {
  const float *weight, *bias;
};

/// P neighbouring output pixels, all N vectors of a group.
template <int P, int N, std::int64_t kLanes>
void vectors_of(const Rows<kLanes>& s, const Ordered& ordered, const Group& group, const float* x,
                float slope, float* y) {
  using Block = typename Rows<kLanes>::Block;
  using Vector = typename Rows<kLanes>::Vector;
  const std::int64_t v = group.first;
  Vector sums[P][N];
#pragma GCC unroll 3
  for (int n = 0; n < N; ++n) Block::load(ordered.bias + (v + n) * kLanes, sums[0][n]);
#pragma GCC unroll 24
  for (int p = 1; p < P; ++p)
#pragma GCC unroll 3
    for (int n = 0; n < N; ++n) sums[p][n] = sums[0][n];
  // Few addresses stay in registers: of every eighth pixel, and the distances of the next seven.
  constexpr int kNear = 8;
  std::int64_t distance[kNear];
  for (int p = 0; p < kNear; ++p) distance[p] = p * s.pixel_step();
  const float* weights = ordered.weight + s.place(group, v, 0);
  const std::int64_t row = s.row(), next = s.kernel_row_step(), far = kNear * s.pixel_step();
  for (std::int64_t r = 0; r < s.kernel_h; ++r, x += next) {
    for (std::int64_t k = 0; k < row; ++k, weights += N * kLanes) {
      Vector weight[N];
#pragma GCC unroll 3
      for (int n = 0; n < N; ++n) Block::load_factor(weights + n * kLanes, weight[n]);
#pragma GCC unroll 24
      for (int p = 0; p < P; ++p) {
        const float value = x[k + p / kNear * far + distance[p % kNear]];
#pragma GCC unroll 3
        for (int n = 0; n < N; ++n) sums[p][n] += value * weight[n];
      }
    }
  }
#pragma GCC unroll 24
  for (int p = 0; p < P; ++p)
#pragma GCC unroll 3
    for (int n = 0; n < N; ++n) {
      if (slope != 1) end_with_relu(slope, sums[p][n]);
      Block::store(sums[p][n], y + p * s.outputs + s.first_output(v + n));
    }
}

/// The same pixels, leftover channel l.
template <int P, std::int64_t kLanes>
void dot_products(const Rows<kLanes>& s, const Ordered& ordered, std::int64_t l, const float* x, float slope,
                  float* y) {
  using Block = typename Rows<kLanes>::Block;
  using Vector = typename Rows<kLanes>::Vector;
  Vector sums[P] = {}, weight, values;
  for (std::int64_t r = 0; r < s.kernel_h; ++r)
    for (std::int64_t b = 0; b < s.blocks(); ++b) {
      Block::load(ordered.weight + s.left_place(l, r, b), weight);
      const float* at = x + r * s.kernel_row_step() + s.first_in_row(b);
      for (int p = 0; p < P; ++p) {
        Block::load(at + p * s.pixel_step(), values);
        sums[p] += values * weight;
      }
    }
  for (int p = 0; p < P; ++p) {
    float sum = ordered.bias[s.vectors * kLanes + l] + sum_of_lanes(sums[p]);
    if (slope != 1) end_with_relu(slope, sum);
    y[p * s.outputs + s.in_vectors() + l] = sum;
  }
}

/// One row of output pixels.
template <std::int64_t kLanes>
void forward_row(const Rows<kLanes>& s, const Ordered& ordered, const float* x, float slope, float* y) {
  for (const Group& group : s.groups)
    with_constant<Tile<kLanes>::vectors>(group.count, [&]<int N>(std::integral_constant<int, N>) {
      in_parts<Tile<kLanes>::sums / N>(
          s.out_w, [&]<int P>(std::int64_t column, std::integral_constant<int, P>) {
            vectors_of<P, N>(s, ordered, group, x + column * s.pixel_step(), slope, y + column * s.outputs);
          });
    });
  for (std::int64_t l = 0; l < s.left; ++l)
    in_parts<kDots>(s.out_w, [&]<int P>(std::int64_t column, std::integral_constant<int, P>) {
      dot_products<P>(s, ordered, l, x + column * s.pixel_step(), slope, y + column * s.outputs);
    });
}

template <std::int64_t kLanes>
void run_forward(const Rows<kLanes>& s, const float* x, const float* weight, const float* bias, float slope,
                 float* y, float* workspace) {
  float *const ordered_weight = workspace, *const ordered_bias = workspace + s.values();
  Shares shares(s.threads, s.batch * s.out_h, kRowsAtATime);
#pragma omp parallel num_threads(s.threads)
  {
#pragma omp for schedule(static)
    for (std::int64_t v = 0; v < s.vectors + s.left; ++v) {
      const std::int64_t l = v - s.vectors;
      if (l < 0) {
        s.for_positions(v, [&](std::int64_t from, std::int64_t to) {
          for (std::int64_t lane = 0; lane < kLanes; ++lane)
            ordered_weight[to + lane] = weight[from + lane * s.depth()];
        });
        for (std::int64_t lane = 0; lane < kLanes; ++lane)
          ordered_bias[v * kLanes + lane] = bias == nullptr ? 0 : bias[s.first_output(v) + lane];
      } else {
        std::fill_n(ordered_weight + s.left_place(l, 0, 0), s.left_values(), 0.0f);
        s.for_left(l, [&](std::int64_t from, std::int64_t to) { ordered_weight[to] = weight[from]; });
        ordered_bias[s.vectors * kLanes + l] = bias == nullptr ? 0 : bias[s.in_vectors() + l];
      }
    }
    shares.run([&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t image = i / s.out_h, row = i % s.out_h;
        forward_row(s, {ordered_weight, ordered_bias},
                    x + (image * s.in_h + row * s.stride_h) * s.image_row(), slope,
                    y + i * s.out_w * s.outputs);
      }
    });
  }
}

// --- Gradient of the weights --------------------------------------------------------------------

/// Adds one image to the sums of K positions, at `offset` in the image, and the N vectors of a group.
template <int K, int N, std::int64_t kLanes>
void add_vectors(const Rows<kLanes>& s, const std::int64_t* offset, const Group& group, const float* x,
                 const float* dy, float* kept) {
  using Block = typename Rows<kLanes>::Block;
  using Vector = typename Rows<kLanes>::Vector;
  Vector sums[K][N];
  const float* at[K];
  std::int64_t first[N];
  for (int n = 0; n < N; ++n) first[n] = s.first_output(group.first + n);
#pragma GCC unroll 8
  for (int k = 0; k < K; ++k)
#pragma GCC unroll 3
    for (int n = 0; n < N; ++n) Block::load(kept + (k * N + n) * kLanes, sums[k][n]);
  const std::int64_t step = s.pixel_step(), end = s.out_w * step, outputs = s.outputs;
  for (std::int64_t r = 0; r < s.out_h; ++r) {
    for (int k = 0; k < K; ++k) at[k] = x + r * s.stride_h * s.image_row() + offset[k];
    for (std::int64_t column = 0; column < end; column += step, dy += outputs) {
      Vector gradient[N];
#pragma GCC unroll 3
      for (int n = 0; n < N; ++n) Block::load_factor(dy + first[n], gradient[n]);
#pragma GCC unroll 8
      for (int k = 0; k < K; ++k) {
        const float value = at[k][column];
#pragma GCC unroll 3
        for (int n = 0; n < N; ++n) sums[k][n] += value * gradient[n];
      }
    }
  }
#pragma GCC unroll 8
  for (int k = 0; k < K; ++k)
#pragma GCC unroll 3
    for (int n = 0; n < N; ++n) Block::store(sums[k][n], kept + (k * N + n) * kLanes);
}

/// The same for K blocks of positions and one leftover channel, whose gradients start at `dy`.
template <int K, std::int64_t kLanes>
void add_left(const Rows<kLanes>& s, const std::int64_t* offset, const float* x, const float* dy,
              float* kept) {
  using Block = typename Rows<kLanes>::Block;
  using Vector = typename Rows<kLanes>::Vector;
  Vector sums[K], values;
  for (int k = 0; k < K; ++k) Block::load(kept + k * kLanes, sums[k]);
  for (std::int64_t r = 0; r < s.out_h; ++r)
    for (std::int64_t column = 0; column < s.out_w; ++column, dy += s.outputs) {
      const float* at = x + r * s.stride_h * s.image_row() + column * s.pixel_step();
      for (int k = 0; k < K; ++k) {
        Block::load(at + offset[k], values);
        sums[k] += *dy * values;
      }
    }
  for (int k = 0; k < K; ++k) Block::store(sums[k], kept + k * kLanes);
}

/// Where positions and blocks start in an image, relative to an output pixel's place, in order.
struct Offsets {
  std::vector<std::int64_t> positions, blocks;
  template <std::int64_t kLanes>
  explicit Offsets(const Rows<kLanes>& s) {
    for (std::int64_t r = 0; r < s.kernel_h; ++r) {
      for (std::int64_t k = 0; k < s.row(); ++k) positions.push_back(r * s.kernel_row_step() + k);
      for (std::int64_t b = 0; b < s.blocks() && s.left > 0; ++b)
        blocks.push_back(r * s.kernel_row_step() + s.first_in_row(b));
    }
  }
};

template <std::int64_t kLanes>
void add_image(const Rows<kLanes>& s, const Offsets& offsets, const float* x, const float* dy, float* kept) {
  const auto positions = static_cast<std::int64_t>(offsets.positions.size());
  for (const Group& group : s.groups)
    with_constant<Tile<kLanes>::vectors>(group.count, [&]<int N>(std::integral_constant<int, N>) {
      in_parts<std::min(kMostPositions, Tile<kLanes>::sums / N)>(
          positions, [&]<int K>(std::int64_t first, std::integral_constant<int, K>) {
            add_vectors<K, N>(s, offsets.positions.data() + first, group, x, dy,
                              kept + s.place(group, group.first, first));
          });
    });
  for (std::int64_t l = 0; l < s.left; ++l)
    in_parts<kDots>(static_cast<std::int64_t>(offsets.blocks.size()),
                    [&]<int K>(std::int64_t first, std::integral_constant<int, K>) {
                      add_left<K>(s, offsets.blocks.data() + first, x, dy + s.in_vectors() + l,
                                  kept + s.left_place(l, 0, first));
                    });
}

void add_pixels(std::int64_t pixels, std::int64_t channels, const float* from, float* sums) {
  for_channel_blocks<float>(channels, [&]<class Some>(std::int64_t first, Some) {
    typename Some::Values value, sum{};
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      Some::load(from + pixel * channels + first, value);
      sum += value;
    }
    Some::store(sum, sums + first);
  });
}

template <std::int64_t kLanes>
void run_backward_weight(const Rows<kLanes>& s, const float* x, const float* dy, float* dw, float* db,
                         float* workspace) {
  const Offsets offsets(s);
  const std::int64_t share_values = s.values() + 2 * s.outputs;
  // The sum for one place over all threads, in thread order.
  const auto sum_at = [&](std::int64_t place) {
    float sum = workspace[place];
    for (int share = 1; share < s.threads; ++share) sum += workspace[share * share_values + place];
    return sum;
  };
#pragma omp parallel num_threads(s.threads)
  {
#pragma omp for schedule(static)
    for (int share = 0; share < s.threads; ++share) {
      float *const own = workspace + share * share_values, *const bias = own + s.values();
      std::fill_n(own, s.values() + s.outputs, 0.0f);
      for (std::int64_t i = s.batch * share / s.threads; i < s.batch * (share + 1) / s.threads; ++i) {
        const float* gradient = dy + i * s.pixels() * s.outputs;
        add_image(s, offsets, x + i * s.in_h * s.image_row(), gradient, own);
        if (db == nullptr) continue;
        add_pixels(s.pixels(), s.outputs, gradient, bias + s.outputs);
        for (std::int64_t o = 0; o < s.outputs; ++o) bias[o] += bias[s.outputs + o];
      }
    }
#pragma omp for schedule(static)
    for (std::int64_t v = 0; v < s.vectors + s.left; ++v) {
      if (v >= s.vectors) {
        s.for_left(v - s.vectors, [&](std::int64_t to, std::int64_t from) { dw[to] += sum_at(from); });
        continue;
      }
      // Channels already in the previous vector are not added again.
      const std::int64_t lanes_before = v == 0 ? 0 : s.first_output(v - 1) + kLanes - s.first_output(v);
      s.for_positions(v, [&](std::int64_t to, std::int64_t from) {
        for (std::int64_t lane = lanes_before; lane < kLanes; ++lane)
          dw[to + lane * s.depth()] += sum_at(from + lane);
      });
    }
#pragma omp single
    for (std::int64_t o = 0; db != nullptr && o < s.outputs; ++o) db[o] += sum_at(s.values() + o);
  }
}

enum class Pass : std::uint8_t { forward, backward_weight };

/// Leftover channels; for more, a vector is cheaper.
constexpr std::int64_t most_left(Pass pass, std::int64_t lanes) {
  return pass == Pass::forward && lanes == 16 ? 3 : lanes / 4;
}

std::int64_t taps(const ConvolutionGeometry& geometry) { return geometry.kernel[0] * geometry.kernel[1]; }

/// Of the vectors for the instruction set.
std::int64_t lanes() { return instruction_set() == InstructionSet::avx512 ? 16 : 8; }

/// body(Rows) with the vectors of the instruction set.
template <class Body>
void with_rows(Pass pass, const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output,
               int threads, const Body& body) {
  with_f32_lanes(geometry.out_channels,
                 [&]<std::int64_t kLanes>(std::integral_constant<std::int64_t, kLanes>) {
                   body(Rows<kLanes>(geometry, input, output, threads, most_left(pass, kLanes)));
                 });
}

void forward_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& input,
                    const Tensor& weight, const Tensor& bias, double slope, Tensor& output) {
  const float* b = detail::optional_data<float>(bias);
  with_rows(Pass::forward, geometry, input, output, context.device().threads(),
            [&]<std::int64_t kLanes>(const Rows<kLanes>& sizes) {
              float* workspace =
                  context.workspace_of<float>(sizes.values() + sizes.vectors * kLanes + sizes.left);
              context.run([sizes, x = input.data<float>(), w = weight.data<float>(), b,
                           slope = static_cast<float>(slope), y = output.data<float>(),
                           workspace] { run_forward(sizes, x, w, b, slope, y, workspace); });
            });
}

void backward_weight_on_cpu(Context& context, const ConvolutionGeometry& geometry, const Tensor& input,
                            const Tensor& grad_output, Tensor& grad_weight, Tensor& grad_bias) {
  float* db = detail::optional_data<float>(grad_bias);
  with_rows(Pass::backward_weight, geometry, input, grad_output, context.device().threads(),
            [&]<std::int64_t kLanes>(const Rows<kLanes>& sizes) {
              float* workspace =
                  context.workspace_of<float>(sizes.threads * (sizes.values() + 2 * sizes.outputs));
              context.run([sizes, x = input.data<float>(), dy = grad_output.data<float>(),
                           dw = grad_weight.data<float>(), db,
                           workspace] { run_backward_weight(sizes, x, dy, dw, db, workspace); });
            });
}

const Define define_forward(forward_by_rows, DeviceKind::cpu, &forward_on_cpu);
const Define define_backward_weight(backward_weight_by_rows, DeviceKind::cpu, &backward_weight_on_cpu);

}  // namespace

bool rows_apply(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output) {
  return geometry.out_channels >= lanes() && is_plain_convolution(geometry, input, output) &&
         geometry.pad[0] == 0 && geometry.pad[1] == 0 && geometry.dilation[1] == 1;
}

bool rows_pay_forward(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output) {
  if (!rows_apply(geometry, input, output) || taps(geometry) == 1) return false;
  const std::int64_t in = geometry.in_channels, depth = taps(geometry) * in;
  switch (instruction_set()) {
    case InstructionSet::avx512:
      return geometry.out_channels % 16 != 0 && (depth >= 64 || in == 1);
    case InstructionSet::avx2:
      return geometry.out_channels % 8 != 0 && depth >= 128;
    case InstructionSet::baseline:
      break;
  }
  return false;
}

bool rows_pay_backward_weight(const ConvolutionGeometry& geometry, const Tensor& input,
                              const Tensor& output) {
  if (!rows_apply(geometry, input, output)) return false;
  const std::int64_t in = geometry.in_channels, rest = geometry.out_channels % 16;
  switch (instruction_set()) {
    case InstructionSet::avx512:
      if (taps(geometry) == 1) return in <= 64;
      return in <= 16 || (rest > 0 && rest <= (in <= 32 ? 4 : 2));
    case InstructionSet::avx2:
      // Every thread has sums of all weights, which should leave room in the cache.
      return taps(geometry) > 1 &&
             taps(geometry) * in * geometry.out_channels * static_cast<std::int64_t>(sizeof(float)) <=
                 l2_cache() / 4;
    case InstructionSet::baseline:
      break;
  }
  return false;
}

}  // namespace banyan::ops
