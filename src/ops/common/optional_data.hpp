// Tensors that operators are given or not.
#pragma once

#include "banyan/tensor/tensor.hpp"

namespace banyan::ops::detail {

/// Data of a tensor that may be undefined.
template <class T>
const T* optional_data(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}
template <class T>
T* optional_data(Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

}  // namespace banyan::ops::detail
