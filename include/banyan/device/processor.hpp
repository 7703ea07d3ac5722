// What this machine's processor offers to CPU devices. ONEDNN_MAX_CPU_ISA can hide some of it, as from
// oneDNN: ONEDNN_MAX_CPU_ISA=AVX2 makes a processor with AVX-512 compute as one without.
#pragma once

#include <cstdint>

namespace banyan {

/// Those that CPU kernels are compiled for and chosen by, in ascending order.
enum class InstructionSet : std::uint8_t {
  baseline,  ///< what every program of the build's architecture may use
  avx2,      ///< with FMA, BMI and BMI2
  avx512,    ///< with F, BW, CD, DQ and VL
};
/// "AVX2"
const char* name_of(InstructionSet set);

/// What CPU kernels use in this process: the best instruction set that the processor has and for which the
/// build has kernels. The first call, before the first CPU device exists, loads kernels that are in a library
/// of their own.
InstructionSet instruction_set();
/// Does oneDNN multiply bf16 values faster than f32 here? (AVX512_BF16 or AMX)
bool has_bf16_units();

}  // namespace banyan
