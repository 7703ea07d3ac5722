#include "banyan/train/run_precision.hpp"

#include <glog/logging.h>

#include "banyan/base/error.hpp"
#include "banyan/ops/processor.hpp"

namespace banyan {

const char* name_of(RunPrecision precision) {
  constexpr const char* kNames[] = {"f32", "f64", "bf16", "tf32"};
  return kNames[static_cast<std::size_t>(precision)];
}

void check_precision(RunPrecision precision, DeviceKind kind) {
  if (precision == RunPrecision::tf32 && kind == DeviceKind::cpu)
    bad_input("--precision=tf32 is for GPUs; use --gpu=N with it");
  if (precision == RunPrecision::bf16 && kind == DeviceKind::cpu && !ops::has_bf16_units())
    LOG(WARNING)
        << "--precision=bf16: the processor has no units for it (AVX512_BF16 or AMX): factors are rounded "
           "to bf16 and multiplied in f32, which is not faster than f32";
}

Math math_of(RunPrecision precision, DeviceKind kind) {
  if (precision == RunPrecision::tf32) return Math::tf32;
  if (precision != RunPrecision::bf16) return Math::full;
  return kind == DeviceKind::cuda || ops::has_bf16_units() ? Math::bf16 : Math::bf16_in_f32;
}

}  // namespace banyan
