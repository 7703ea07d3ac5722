// Blob: a named value of the net with its gradient. Layers set shape and layout in reshape(); the Net's
// memory plan then binds the storage.
#pragma once

#include <string>

#include "banyan/tensor/tensor.hpp"

namespace banyan {

struct Blob {
  std::string name;
  Shape shape;
  Layout layout = Layout::contiguous;
  DType dtype = DType::f32;
  Tensor data;  ///< bound before forward()
  Tensor grad;  ///< bound if the blob takes part in backward, otherwise undefined
};

}  // namespace banyan
