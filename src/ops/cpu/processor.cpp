#include "banyan/ops/processor.hpp"

#include <oneapi/dnnl/dnnl.h>

namespace banyan::ops {

/// oneDNN multiplies f32 tensors in bf16 on the tile units (AMX). With AVX512_BF16 alone it takes the wish
/// and computes in f32.
std::string missing_for_bf16() {
  constexpr unsigned kTiles = dnnl_cpu_isa_avx512_core_amx;
  const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  if ((isa & kTiles) == kTiles) return "";
  return "the processor has no units for it that oneDNN uses on f32 tensors (AMX), or ONEDNN_MAX_CPU_ISA "
         "hides them";
}

}  // namespace banyan::ops
