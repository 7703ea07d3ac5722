// What the processor can compute in.
#pragma once

#include <string>

namespace banyan::ops {

/// What this machine lacks for Math::bf16 on CPU devices, or "" if it lacks nothing. The library would
/// multiply in f32 without a word, so whoever asks for bf16 must look here first.
std::string missing_for_bf16();

}  // namespace banyan::ops
