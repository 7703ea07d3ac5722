// For every group, y (pixels x N) = x (pixels x K) * w (K x N), rows of x and y being the channels of all
// groups.
//
// The weights are packed for vectors of N. The sums of a few pixels and up to three vectors stay in registers
// while K is gone through; a strip of pixels stays in the cache while the vectors of a group are. The last
// vector begins among the channels of the one before, if they do not fill it, and computes those again.
#include "ops/cpu/convolution_pointwise.hpp"

#include <algorithm>

#include "ops/common/optional_data.hpp"
#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/convolution_choice.hpp"
#include "ops/cpu/convolution_products.hpp"

namespace banyan::ops {
namespace {

constexpr std::int64_t kLanes = kRegisterBytes / sizeof(float);
using Block = ChannelBlock<float, kLanes>;
using Vector = Block::Values;
/// Pixels whose sums are in registers at a time, for so many vectors each: 12 of 16 registers, or 24 of 32.
template <int kVectors>
constexpr int kPixels = (kLanes == 16 ? 24 : 12) / kVectors;
constexpr std::int64_t kStrip = 2 * kPixels<1>;
/// At a time: the more, the fewer loads there are for each product.
constexpr int kMostVectors = 3;

/// Sizes for one call; plain values, copied into the enqueued work.
struct Pointwise {
  std::int64_t pixels, groups, in, out;  ///< channels of a group that are read and written
  bool turned;                           ///< the weights are (groups in) x out, else (groups out) x in
  int threads;

  std::int64_t vectors() const { return (out + kLanes - 1) / kLanes; }
  std::int64_t first(std::int64_t vector) const { return std::min(vector * kLanes, out - kLanes); }
  std::int64_t packed_vector() const { return in * kLanes; }
  std::int64_t packed() const { return groups * vectors() * packed_vector(); }
  std::int64_t in_pixel() const { return groups * in; }
  std::int64_t out_pixel() const { return groups * out; }
};

/// Vector `vector` of all groups' vectors: (in, lanes).
void pack(const Pointwise& s, std::int64_t vector, const float* w, float* to) {
  const std::int64_t group = vector / s.vectors(), first = s.first(vector % s.vectors());
  w += group * s.in * s.out;
  for (std::int64_t i = 0; i < s.in; ++i, to += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane)
      to[lane] = s.turned ? w[i * s.out + first + lane] : w[(first + lane) * s.in + i];
}

/// What is added to the sums of a group, and their ReLU.
struct End {
  const float* bias;  ///< nullptr: none
  float slope;
  bool on;
};

void finish(const End& end, std::int64_t channel, Vector& sum, float* y) {
  if (end.bias != nullptr) {
    Vector bias;
    Block::load(end.bias + channel, bias);
    sum += bias;
  }
  if (end.on) end_with_relu(end.slope, sum);
  Block::store(sum, y + channel);
}

/// Of neighbouring vectors, and the channels of the group at which they begin.
template <int kVectors>
struct Ends {
  End end;
  std::int64_t channels[kVectors];
};

template <int kCount, int kVectors>
void multiply(const Pointwise& s, const float* x, const float* w, const Ends<kVectors>& ends, float* y) {
  Vector sums[kCount][kVectors] = {}, weights[kVectors];
  for (std::int64_t i = 0; i < s.in; ++i) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) Block::load_factor(w + v * s.packed_vector() + i * kLanes, weights[v]);
#pragma GCC unroll 12
    for (int p = 0; p < kCount; ++p) {
      const float value = x[p * s.in_pixel() + i];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sums[p][v] += value * weights[v];
    }
  }
#pragma GCC unroll 12
  for (int p = 0; p < kCount; ++p)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) finish(ends.end, ends.channels[v], sums[p][v], y + p * s.out_pixel());
}

/// Vectors `vector` and the next ones of a group, for `count` pixels.
template <int kVectors>
void multiply_strip(const Pointwise& s, std::int64_t count, std::int64_t vector, const float* x,
                    const float* w, const End& end, float* y) {
  Ends<kVectors> ends{end, {}};
  for (int v = 0; v < kVectors; ++v) ends.channels[v] = s.first(vector + v);
  w += vector * s.packed_vector();
  std::int64_t pixel = 0;
  for (; pixel + kPixels<kVectors> <= count; pixel += kPixels<kVectors>)
    multiply<kPixels<kVectors>, kVectors>(s, x + pixel * s.in_pixel(), w, ends, y + pixel * s.out_pixel());
  for (; pixel < count; ++pixel)
    multiply<1, kVectors>(s, x + pixel * s.in_pixel(), w, ends, y + pixel * s.out_pixel());
}

/// All vectors of a group.
void multiply_group(const Pointwise& s, std::int64_t count, const float* x, const float* w, const End& end,
                    float* y) {
  std::int64_t vector = 0;
  while (vector < s.vectors()) {
    const std::int64_t left = s.vectors() - vector;
    if (left == 1) {
      multiply_strip<1>(s, count, vector, x, w, end, y);
      vector += 1;
    } else if (left == 2 || left == 4) {
      multiply_strip<2>(s, count, vector, x, w, end, y);
      vector += 2;
    } else {
      multiply_strip<kMostVectors>(s, count, vector, x, w, end, y);
      vector += kMostVectors;
    }
  }
}

void run(const Pointwise& s, const float* x, const float* w, const float* bias, float slope, float* y,
         float* packed) {
#pragma omp parallel num_threads(s.threads)
  {
#pragma omp for schedule(static)
    for (std::int64_t vector = 0; vector < s.groups * s.vectors(); ++vector)
      pack(s, vector, w, packed + vector * s.packed_vector());
    const std::int64_t strips = (s.pixels + kStrip - 1) / kStrip;
#pragma omp for schedule(static)
    for (std::int64_t strip = 0; strip < strips; ++strip) {
      const std::int64_t pixel = strip * kStrip, count = std::min(kStrip, s.pixels - pixel);
      for (std::int64_t group = 0; group < s.groups; ++group) {
        const End end{bias == nullptr ? nullptr : bias + group * s.out, slope, slope != 1};
        multiply_group(s, count, x + pixel * s.in_pixel() + group * s.in,
                       packed + group * s.vectors() * s.packed_vector(), end,
                       y + pixel * s.out_pixel() + group * s.out);
      }
    }
  }
}

void enqueue(Context& context, const Pointwise& sizes, const Tensor& x, const Tensor& weight,
             const float* bias, double slope, Tensor& y) {
  auto* packed = context.workspace_of<float>(sizes.packed());
  context.run([sizes, from = x.data<float>(), w = weight.data<float>(), bias,
               slope = static_cast<float>(slope), to = y.data<float>(),
               packed] { run(sizes, from, w, bias, slope, to, packed); });
}

std::int64_t pixels_of(const Tensor& images) { return images.count() / images.shape()[1]; }

void forward_on_cpu(Context& context, const ConvolutionGeometry& g, const Tensor& input, const Tensor& weight,
                    const Tensor& bias, double slope, Tensor& output) {
  const Pointwise sizes{pixels_of(input),         g.group, g.in_channels / g.group,
                        g.out_channels / g.group, false,   context.device().threads()};
  enqueue(context, sizes, input, weight, detail::optional_data<float>(bias), slope, output);
}

void backward_data_on_cpu(Context& context, const ConvolutionGeometry& g, const Tensor& grad_output,
                          const Tensor& weight, Tensor& grad_input) {
  const Pointwise sizes{pixels_of(grad_output),  g.group, g.out_channels / g.group,
                        g.in_channels / g.group, true,    context.device().threads()};
  enqueue(context, sizes, grad_output, weight, nullptr, 1, grad_input);
}

const Define define_forward(forward_pointwise, DeviceKind::cpu, &forward_on_cpu);
const Define define_backward_data(backward_data_pointwise, DeviceKind::cpu, &backward_data_on_cpu);

}  // namespace

bool pointwise_applies(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output) {
  const std::int64_t few = std::min(geometry.in_channels, geometry.out_channels) / geometry.group;
  return instruction_set() != InstructionSet::baseline && is_product(geometry) && few >= kLanes &&
         is_kernel_order(input) && is_kernel_order(output) && input.count() > 0 && output.count() > 0;
}

bool pointwise_pays(PointwisePass, const ConvolutionGeometry& geometry, const Tensor& input,
                    const Tensor& output) {
  return instruction_set() == InstructionSet::avx2 && geometry.group > 1 &&
         pointwise_applies(geometry, input, output);
}

}  // namespace banyan::ops
