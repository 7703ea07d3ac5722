// What the CPU devices' libraries can do on this machine's processor.
#pragma once

namespace banyan::ops {

/// Does oneDNN multiply bf16 values faster than f32 here? (AVX512_BF16 or AMX; ONEDNN_MAX_CPU_ISA can hide
/// them.)
bool has_bf16_units();

}  // namespace banyan::ops
