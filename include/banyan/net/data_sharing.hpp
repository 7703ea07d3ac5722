// Layers that work in place, whether or not the file says so. Pure.
#pragma once

#include "banyan/net/lifetimes.hpp"

namespace banyan {

/// Lets output 0 of a layer share the memory of its input 0 (TensorUses::data_of) where the layer can work in
/// place, is the only reader of that input, and no backward pass reads what it overwrites.
void share_data(TensorUses& uses);

}  // namespace banyan
