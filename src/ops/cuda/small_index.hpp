// When kernels use 32-bit indices: 64-bit division is slow on GPUs.
#pragma once

#include <cstdint>

namespace banyan::ops {

/// From this many elements on, kernels use 64-bit indices: 2^31, so that adding a grid's step to an unsigned
/// index does not overflow.
std::int64_t small_index_limit();
/// For tests, which cannot have tensors of 2^31 elements. Must not change while operators run.
extern "C" void banyan_set_small_index_limit(std::int64_t limit);

}  // namespace banyan::ops
