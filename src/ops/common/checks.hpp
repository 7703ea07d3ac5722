// What operators require of their tensors. A violation is the caller's mistake, not the user's: a runtime
// failure.
#pragma once

#include "banyan/base/error.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan::ops {

/// Both have the same logical order of elements when memory is walked linearly.
inline bool same_order(const Tensor& a, const Tensor& b) {
  return a.layout() == b.layout() || (a.is_contiguous() && b.is_contiguous());
}

inline void require_count(const char* op, const Tensor& a, std::int64_t count) {
  if (a.count() != count)
    runtime_failure(op, ": expected ", count, " elements, found ", a.shape().to_string());
}

inline void require_type(const char* op, const Tensor& a, DType dtype) {
  if (a.dtype() != dtype) runtime_failure(op, ": expected ", name_of(dtype), ", found ", name_of(a.dtype()));
}

/// Same count and layout.
inline void require_alike(const char* op, const Tensor& a, const Tensor& b) {
  if (a.count() != b.count() || !same_order(a, b))
    runtime_failure(op, ": tensors differ: ", a.shape().to_string(), " ", name_of(a.layout()), " and ",
                    b.shape().to_string(), " ", name_of(b.layout()));
}

}  // namespace banyan::ops
