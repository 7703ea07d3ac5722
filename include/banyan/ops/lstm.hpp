// One time step of an LSTM (Hochreiter, Schmidhuber 1997; with forget gates, without peepholes).
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// For rows of `width` cells, `cont` having one element for each row:
///   c = cont * sigmoid(f) * before + sigmoid(i) * tanh(g),   h = sigmoid(o) * tanh(c)
/// `gates`: a row holds i, f, o, g, each of `width` elements; `activated` (like gates, or the same memory)
/// receives their sigmoids and tanh, for the backward pass.
inline constinit Operator<void(const Tensor& gates, const Tensor& cont, const Tensor& before,
                               Tensor& activated, Tensor& c, Tensor& h)>
    lstm_forward{"lstm_forward"};
/// Gradients of `gates` and `before`; none for cont. dgates may be `activated`, dbefore may be dc. Undefined
/// dc or dh: zeros; undefined dgates or dbefore: not wanted. Where `bound` is positive, dgates are held in
/// [-bound, bound].
inline constinit Operator<void(const Tensor& activated, const Tensor& cont, const Tensor& before,
                               const Tensor& c, const Tensor& dc, const Tensor& dh, Tensor& dgates,
                               Tensor& dbefore, double bound)>
    lstm_backward{"lstm_backward"};

}  // namespace banyan::ops
