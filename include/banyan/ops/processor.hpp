// What the CPU devices' library can do on this machine's processor.
#pragma once

#include <cstdint>

namespace banyan::ops {

/// How Math::bf16 is computed on CPU devices.
enum class Bf16Products : std::uint8_t {
  none,      ///< not at all: the processor has no AVX-512, or ONEDNN_MAX_CPU_ISA hides it
  emulated,  ///< with AVX-512 for f32: the values of bf16 products, but slower than f32's
  units      ///< with AVX512_BF16 or AMX
};
Bf16Products bf16_products();

}  // namespace banyan::ops
