// When kernels use 32-bit indices: 64-bit division is slow on GPUs.
#pragma once

#include <cstdint>

namespace banyan::ops {

/// From this many elements on, kernels use 64-bit indices: 2^31, so that an unsigned index does not overflow
/// when a grid's step is added.
std::int64_t small_index_limit();
/// For tests, which cannot have tensors of 2^31 elements. Not to be changed while operators run.
extern "C" void banyan_set_small_index_limit(std::int64_t limit);

}  // namespace banyan::ops
