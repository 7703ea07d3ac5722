// Convolution of channels-last images, stored in f32 or bf16, with windows of 3 x 3, or in f32 of 5 x 5, in
// steps of 1, those of 3 x 3 with gaps or without, and in volumes at several slices, by Winograd's minimal
// filtering (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks"): forward pass and gradients
// of input and weights.
//
// A tile of 2 x 2 outputs is computed from 16 products per pair of channels instead of 36 (windows of 5 x 5:
// 36 instead of 100), one of 4 x 4 from 36 instead of 144: inputs and weights are transformed, multiplied at
// each position, and transformed back. Of small tiles, transformed weights have factors of 1/2 and 1/4 only,
// and an error of a few roundings. With 36 positions the error of outputs is about twice that of adding up
// the windows' products one by one. An infinite input makes all outputs of its tiles NaN, while the windows'
// own sums have it in as many outputs as a window has places.
#pragma once

#include <optional>

#include "banyan/ops/convolution.hpp"

namespace banyan::ops {

enum class WinogradPass : std::uint8_t { forward, backward_data, backward_weight };
/// The side of a tile's outputs, and wide ones for windows of 5 x 5.
enum class WinogradTile : std::uint8_t { of_2, of_4, wide_of_2 };
/// Such images, of which a group's channels fill a vector of the instruction set, at least AVX2, with windows
/// for that tile, and what is padded is a multiple of the dilation; of volumes, channels fill their last
/// vector, too; not empty.
bool winograd_applies(WinogradTile tile, const ConvolutionGeometry& geometry, const Tensor& input,
                      const Tensor& output);
/// Where it applies, the faster tile; none where oneDNN's kernels are faster. A rule based only on channels,
/// the sides of an image, their type and the instruction set: measurements could differ between runs, and an
/// image has the same bits in any batch.
std::optional<WinogradTile> winograd_tile(WinogradPass pass, const ConvolutionGeometry& geometry,
                                          const Tensor& input, const Tensor& output);
/// Number of transformed weights.
std::int64_t winograd_weights(WinogradTile tile, const ConvolutionGeometry& geometry);

/// Ends with a ReLU of that slope; 1: with none. `kept`: memory for the transformed weights from call to
/// call; empty: they are not kept. `is_filled`: they are there.
inline constinit Operator<void(WinogradTile tile, const ConvolutionGeometry& geometry, const Tensor& input,
                               const Tensor& weight, const Tensor& bias, double slope, const Tensor& kept,
                               bool is_filled, Tensor& output)>
    forward_by_winograd{"forward_by_winograd"};
inline constinit Operator<void(WinogradTile tile, const ConvolutionGeometry& geometry,
                               const Tensor& grad_output, const Tensor& weight, Tensor& grad_input)>
    backward_data_by_winograd{"backward_data_by_winograd"};
/// `adds`: to grad_weight, as Convolution::backward_weight does; otherwise overwrites it. Needs workspace for
/// up to 32 MiB of sums, or one sum for each transformed weight if that is more, and for each thread's tiles.
/// Bit-identical for the same number of threads.
inline constinit Operator<void(WinogradTile tile, const ConvolutionGeometry& geometry, const Tensor& input,
                               const Tensor& grad_output, bool adds, Tensor& grad_weight)>
    backward_weight_by_winograd{"backward_weight_by_winograd"};

}  // namespace banyan::ops
