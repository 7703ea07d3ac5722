#include "banyan/ops/processor.hpp"

#include <oneapi/dnnl/dnnl.h>

namespace banyan::ops {

Bf16Products bf16_products() {
  const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  const auto has = [&](unsigned wanted) { return (isa & wanted) == wanted; };
  if (has(dnnl_cpu_isa_avx512_core_bf16)) return Bf16Products::units;
  return has(dnnl_cpu_isa_avx512_core) ? Bf16Products::emulated : Bf16Products::none;
}

}  // namespace banyan::ops
