// Runtime element types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "banyan/base/error.hpp"
#include "banyan/tensor/bfloat16.hpp"

namespace banyan {

enum class DType : std::uint8_t { f32, f64, bf16, f16, i32, u8 };

std::size_t size_of(DType dtype);
const char* name_of(DType dtype);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};

/// Calls `body.template operator()<T>()` with T = float or double; any other dtype is a runtime failure that
/// names `what`.
template <class Body>
void dispatch_float(DType dtype, const char* what, Body&& body) {
  switch (dtype) {
    case DType::f32:
      body.template operator()<float>();
      return;
    case DType::f64:
      body.template operator()<double>();
      return;
    default:
      runtime_failure(what, " does not support ", name_of(dtype), " tensors (f32 and f64 only)");
  }
}

/// The same for all types in which activations are stored: with T = BFloat16 too.
template <class Body>
void dispatch_storage(DType dtype, const char* what, Body&& body) {
  if (dtype == DType::bf16)
    body.template operator()<BFloat16>();
  else
    dispatch_float(dtype, what, body);
}

}  // namespace banyan
