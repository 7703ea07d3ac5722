// Rows that oneDNN's sgemm reads badly where they lie, and so are copied.
//
// With AVX2 it uses a quarter of a cache line of each of a few hundred rows before the next quarter. Where
// they are a multiple of 512 bytes apart, they share so few sets of the caches that the lines are gone by
// then, which can halve its speed with one thread, and cost more with several. tests/bench/kernels.cpp
// measures it (parts convolution, weights and data of 1 x 1 windows, and gemm).
#pragma once

#include <algorithm>
#include <cstdint>

#include "banyan/ops/processor.hpp"

namespace banyan::ops {

/// Are rows of so many floats, one after another, such rows?
inline bool shares_sets(std::int64_t row) {
  return instruction_set() == InstructionSet::avx2 && row % 128 == 0;
}

/// The distance of a row to the next one in a copy: of such a row a cache line more.
inline std::int64_t padded(std::int64_t row) { return row + (shares_sets(row) ? 16 : 0); }
/// That, if such rows are to be copied; 0: others are read where they are.
inline std::int64_t copied_stride(std::int64_t row) { return shares_sets(row) ? padded(row) : 0; }

/// `count` rows of `length` floats each, `from_stride` apart.
inline void copy_rows_apart(std::int64_t count, std::int64_t length, const float* from,
                            std::int64_t from_stride, float* to, std::int64_t to_stride) {
  for (std::int64_t row = 0; row < count; ++row)
    std::copy_n(from + row * from_stride, length, to + row * to_stride);
}

}  // namespace banyan::ops
