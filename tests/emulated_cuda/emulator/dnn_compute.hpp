// Convolutions as matrix products over unfolded images, in a fixed order, on one thread.
#pragma once

#include "dnn_algorithms.hpp"

namespace emulated::dnn {

/// The process's addresses of a convolution's three operands; the direction determines which is written.
template <class T>
struct Operands {
  T *x, *w, *y;
};

/// result = alpha * (convolution) + beta * result. The result is not read where beta is 0.
template <class T>
void compute(Direction direction, const Problem& problem, T alpha, T beta, const Operands<T>& operands);

}  // namespace emulated::dnn
