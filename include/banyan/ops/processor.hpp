// What this machine's processor offers to CPU devices. ONEDNN_MAX_CPU_ISA can hide some of it, as from
// oneDNN: ONEDNN_MAX_CPU_ISA=AVX2 makes a processor with AVX-512 compute as one without.
#pragma once

#include <cstdint>

namespace banyan::ops {

/// Those that CPU kernels are compiled for and chosen by, in ascending order.
enum class InstructionSet : std::uint8_t {
  baseline,  ///< what every program of the build's architecture may use
  avx2,      ///< with FMA, BMI and BMI2
  avx512,    ///< with F, BW, CD, DQ and VL
};
/// "AVX-512", "AVX2", "any processor"
const char* name_of(InstructionSet set);

/// What CPU kernels use in this process: the best instruction set that the processor has and for which the
/// build has kernels. The first call, made before there is a CPU device, loads kernels that are in a library
/// of their own.
InstructionSet instruction_set();
/// Does oneDNN multiply bf16 values faster than f32 here? (AVX512_BF16 or AMX)
bool has_bf16_units();
/// Is that by AMX, sixteen times as fast instead of twice?
bool has_bf16_tiles();
/// Bytes of a core's L2 cache, by which kernels choose how much they compute at a time: 256 KiB to 2 MiB,
/// whatever the system says; 1 MiB if it says nothing.
std::int64_t l2_cache();
/// Bytes that a device of so many threads may take to be in caches between one operator and the next: a
/// quarter of the last level, which others use too, at most 8 MiB, or the L2 caches of the threads' cores.
std::int64_t shared_cache(int threads);

}  // namespace banyan::ops
