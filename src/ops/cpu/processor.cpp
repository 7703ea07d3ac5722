#include "banyan/ops/processor.hpp"

#include <oneapi/dnnl/dnnl.h>

namespace banyan::ops {

bool has_bf16_units() {
  constexpr unsigned kUnits = dnnl_cpu_isa_avx512_core_bf16;
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & kUnits) == kUnits;
}

}  // namespace banyan::ops
