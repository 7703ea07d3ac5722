// Activation functions and their gradients, as functors of one element, for every back end.
#pragma once

#include <cmath>

#include "ops/common/backend.hpp"

namespace banyan::ops {

template <class T>
struct Relu {
  T slope;
  /// Adding 0 turns -0 into 0, as in a library that takes the maximum of x and 0.
  BANYAN_HOST_DEVICE T operator()(T x) const { return x > T(0) ? x : slope * x + T(0); }
};
template <class T>
struct ReluGradient {
  T slope;
  BANYAN_HOST_DEVICE T operator()(T x, T dy) const { return x > T(0) ? dy : slope * dy; }
};
template <class T>
struct Sigmoid {  // for very negative x, exp overflows to infinity and the quotient is 0, as it should be
  BANYAN_HOST_DEVICE T operator()(T x) const { return T(1) / (T(1) + std::exp(-x)); }
};
template <class T>
struct SigmoidGradient {
  BANYAN_HOST_DEVICE T operator()(T y, T dy) const { return dy * y * (T(1) - y); }
};
template <class T>
struct Tanh {
  BANYAN_HOST_DEVICE T operator()(T x) const { return std::tanh(x); }
};
template <class T>
struct TanhGradient {
  BANYAN_HOST_DEVICE T operator()(T y, T dy) const { return dy * (T(1) - y * y); }
};
/// `floor` is alpha * lambda, the limit of -y.
template <class T>
struct Elu {
  T floor, lambda;
  BANYAN_HOST_DEVICE T operator()(T x) const { return x > T(0) ? lambda * x : floor * std::expm1(x); }
};
template <class T>
struct EluGradient {
  T floor, lambda;
  BANYAN_HOST_DEVICE T operator()(T y, T dy) const { return dy * (y > T(0) ? lambda : y + floor); }
};

/// Inverses. Dividing undoes the rounding of the product better than multiplying by 1 / slope.
template <class T>
struct LeakyReluInverse {
  T slope;
  BANYAN_HOST_DEVICE T operator()(T y) const { return y > T(0) ? y : y / slope; }
};
template <class T>
struct EluInverse {
  T floor, lambda;
  T lowest;  ///< of y / floor: above -1
  BANYAN_HOST_DEVICE T operator()(T y) const {
    const T below = y / floor;
    return y > T(0) ? y / lambda : std::log1p(below > lowest ? below : lowest);
  }
};

}  // namespace banyan::ops
