// --precision: what a run computes in.
#pragma once

#include <cstdint>

#include "banyan/device/device.hpp"
#include "banyan/tensor/dtype.hpp"

namespace banyan {

/// f32 and f64: in full. bf16: products of factors rounded to bf16, stored activations where the net does not
/// say otherwise. tf32, on GPUs: products and convolutions of factors rounded to TF32 (10 bits of mantissa);
/// their sums and everything else are f32.
enum class RunPrecision : std::uint8_t { f32, f64, bf16, tf32 };

const char* name_of(RunPrecision precision);

/// Type of a run's parameters, and of its other tensors where the net does not store them in 16 bits.
inline DType tensor_type(RunPrecision precision) {
  return precision == RunPrecision::f64 ? DType::f64 : DType::f32;
}

/// Throws bad_input for what such devices, or this processor, cannot compute in.
void check_precision(RunPrecision precision, DeviceKind kind);
/// The part that concerns the device.
Math math_of(RunPrecision precision, DeviceKind kind);

}  // namespace banyan
