// Which gradients share memory because one would be a copy of the other. Pure.
#pragma once

#include "banyan/net/lifetimes.hpp"

namespace banyan {

/// Writes grad_of: the inputs of layers that pass their gradient on get the output's (a sum hands its
/// gradient to each of its terms), layers that work in place on data do so on its gradient, and layers that
/// gather gradients (Split) add them up in the memory of one of them. Gradients that another layer writes are
/// left alone: those of tensors that a layer works on in place or that have a loss weight.
void share_gradients(TensorUses& uses);

}  // namespace banyan
