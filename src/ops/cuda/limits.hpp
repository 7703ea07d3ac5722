// Sizes from which on kernels work otherwise. Tests, which cannot have tensors of such sizes, set smaller
// ones; they must not change while operators run.
#pragma once

#include <cstdint>

namespace banyan::ops {

/// From this many elements on, kernels use 64-bit indices: 2^31, so that adding a grid's step to an unsigned
/// index does not overflow. (64-bit division is slow on GPUs.)
std::int64_t small_index_limit();
extern "C" void banyan_set_small_index_limit(std::int64_t elements);

/// Of images that are unfolded at a time (convolution_columns.hpp): 128 MiB. Twice as much makes ResNet-50's
/// convolutions 1 % faster, half as much 4 % slower (an H200).
std::int64_t most_columns_bytes();
extern "C" void banyan_set_most_columns_bytes(std::int64_t bytes);

}  // namespace banyan::ops
