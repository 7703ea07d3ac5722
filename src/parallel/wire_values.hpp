// f32 values on their way between processes as 16-bit ones, and sums in a fixed order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "banyan/tensor/dtype.hpp"

namespace banyan::parallel {

/// Bytes of `count` packed values of type bf16 or f16.
std::size_t packed_bytes(std::int64_t count, DType type);
/// Each to the nearest. f16 has few exponents: the values are divided by a power of two that brings the
/// largest of them to the upper end, and which is packed along. Infinities and NaNs stay what they are.
void pack(const float* values, std::int64_t count, DType type, char* packed);
void unpack(const char* packed, std::int64_t count, DType type, float* values);

/// One process's part of a sum: f32 or f64 as they are, or packed.
struct SumPart {
  const char* data = nullptr;
  bool packed = false;
};
/// out[i] = ((parts[0][i] + parts[1][i]) + parts[2][i]) + ...; `out` may be a part that is not packed. Packed
/// parts are of type `packed` and have `count` values.
void sum_parts(const std::vector<SumPart>& parts, std::int64_t count, DType type, DType packed, char* out);

}  // namespace banyan::parallel
