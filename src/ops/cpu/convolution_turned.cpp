#include "ops/cpu/convolution_turned.hpp"

#include <algorithm>

#include "ops/cpu/convolution_choice.hpp"

namespace banyan::ops {
namespace {

bool all_are(const std::vector<std::int64_t>& lengths, std::int64_t wanted) {
  return std::ranges::all_of(lengths, [&](std::int64_t length) { return length == wanted; });
}

std::int64_t reach(const ConvolutionGeometry& geometry, std::size_t axis) {
  return geometry.dilation[axis] * (geometry.kernel[axis] - 1);
}

}  // namespace

bool can_turn(const ConvolutionGeometry& geometry) {
  for (std::size_t axis = 0; axis < geometry.pad.size(); ++axis)
    if (geometry.pad[axis] > reach(geometry, axis)) return false;
  return geometry.group == 1 && all_are(geometry.stride, 1);
}

ConvolutionGeometry turned(const ConvolutionGeometry& geometry) {
  ConvolutionGeometry other = geometry;
  for (std::size_t axis = 0; axis < geometry.pad.size(); ++axis)
    other.pad[axis] = reach(geometry, axis) - geometry.pad[axis];
  std::swap(other.in_channels, other.out_channels);
  return other;
}

bool turning_pays(const ConvolutionGeometry& geometry, const Tensor& input, const Tensor& output) {
  constexpr std::int64_t kVector = 16;
  const std::int64_t inputs = geometry.in_channels, outputs = geometry.out_channels;
  if (instruction_set() != InstructionSet::avx512 || geometry.spatial_axes() < 2 || !can_turn(geometry) ||
      all_are(geometry.kernel, 1) || !is_kernel_order(input) || !is_kernel_order(output) ||
      inputs % kVector != 0 || outputs % kVector != 0)
    return false;
  // Where rows are short, turning the weights costs more than is gained; volumes and windows with gaps gain
  // most.
  const std::int64_t row = input.shape()[input.shape().axes() - 1];
  if (geometry.spatial_axes() == 3 || !all_are(geometry.dilation, 1)) return row >= 8;
  return row >= 28 && std::min(inputs, outputs) >= 64;
}

void turn_weights(int threads, const ConvolutionGeometry& geometry, const float* from, float* to) {
  constexpr std::int64_t kTogether = 16;  // input channels: read side by side, written to few places
  const std::int64_t inputs = geometry.in_channels, outputs = geometry.out_channels;
  std::int64_t taps = 1;
  for (const std::int64_t length : geometry.kernel) taps *= length;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t first = 0; first < inputs; first += kTogether)
    for (std::int64_t o = 0; o < outputs; ++o)
      for (std::int64_t c = first; c < std::min(first + kTogether, inputs); ++c)
        std::reverse_copy(from + (o * inputs + c) * taps, from + (o * inputs + c + 1) * taps,
                          to + (c * outputs + o) * taps);
}

}  // namespace banyan::ops
