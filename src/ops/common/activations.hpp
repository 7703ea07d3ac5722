// Activation functions and their gradients, as functors of one element, for every back end.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "ops/common/backend.hpp"
#include "ops/common/exponential.hpp"

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
/// 1 / (1 + e^-x); in f32 never less than 2^-125.5.
template <class T>
struct Sigmoid {
  BANYAN_HOST_DEVICE T operator()(T x) const { return T(1) / (T(1) + detail::bounded_exponential(-x)); }
};
template <class T>
struct SigmoidGradient {
  BANYAN_HOST_DEVICE T operator()(T y, T dy) const { return dy * y * (T(1) - y); }
};
template <class T>
struct ClipFunction {
  T a, b;
  BANYAN_HOST_DEVICE T operator()(T x) const { return x < a ? a : x > b ? b : x; }
  BANYAN_HOST_DEVICE T slope(T x) const { return x >= a && x <= b ? T(1) : T(0); }
};
/// a b + c, with one rounding where that is an instruction: written out, because the compiler must not choose
/// differently in two places.
BANYAN_HOST_DEVICE inline float multiply_add(float a, float b, float c) {
#if defined(__FP_FAST_FMAF) || defined(__CUDA_ARCH__)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}
BANYAN_HOST_DEVICE inline double multiply_add(double a, double b, double c) { return a * b + c; }
/// e^x - 1 for x <= 0, within 2 units in the last place, NaN for NaN; in arithmetic that compilers vectorize,
/// where the library's function would be called once per number. With n the integer nearest to x / ln 2 and r
/// = x - n ln 2 in +-0.35, it is 2^n (e^r - 1) + (2^n - 1), of which 2^n - 1 is exact where it matters; e^r -
/// 1 is its Taylor series up to r^7. ln 2 is split into two parts; n times the first is exact.
BANYAN_HOST_DEVICE inline float exponential_less_1(float x) {
  constexpr float kWhole = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  x = x < -18 ? -18.0f : x;              // from there on it is -1
  const float shifted = multiply_add(x, 1.44269504f, kWhole), n = shifted - kWhole;
  const float r = multiply_add(n, -1.42860677e-6f, multiply_add(n, -0.693145752f, x));
  float series = multiply_add(r, 1.0f / 5040, 1.0f / 720);
  series = multiply_add(series, r, 1.0f / 120);
  series = multiply_add(series, r, 1.0f / 24);
  series = multiply_add(series, r, 1.0f / 6);
  series = multiply_add(series, r, 1.0f / 2);
  const float of_rest = multiply_add(series, r * r, r);
  // 2^n: the bits of n become the exponent, all above them vanish.
  const float power = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) + (127u << 23));
  return multiply_add(power, of_rest, power - 1);
}
BANYAN_HOST_DEVICE inline double exponential_less_1(double x) { return std::expm1(x); }
/// Within 4 units in the last place, NaN for NaN: by e^(-2|x|) - 1.
BANYAN_HOST_DEVICE inline float hyperbolic_tangent(float x) {
  const float less_1 = exponential_less_1(-2 * std::fabs(x));
  return std::copysign(less_1 / (2 + less_1), x);
}
BANYAN_HOST_DEVICE inline double hyperbolic_tangent(double x) { return std::tanh(x); }
template <class T>
struct Tanh {
  BANYAN_HOST_DEVICE T operator()(T x) const { return hyperbolic_tangent(x); }
};
template <class T>
struct TanhGradient {
  BANYAN_HOST_DEVICE T operator()(T y, T dy) const { return dy * (T(1) - y * y); }
};
/// `floor` is alpha * lambda, the limit of -y.
template <class T>
struct Elu {
  T floor, lambda;
  BANYAN_HOST_DEVICE T operator()(T x) const { return x > T(0) ? lambda * x : floor * exponential_less_1(x); }
};
template <class T>
struct EluGradient {
  T floor, lambda;
  BANYAN_HOST_DEVICE T operator()(T y, T dy) const { return dy * (y > T(0) ? lambda : y + floor); }
};
template <class T>
struct EluGradientByInput {
  T floor, lambda;
  BANYAN_HOST_DEVICE T operator()(T x, T dy) const {
    return dy * (x > T(0) ? lambda : floor * exponential_less_1(x) + floor);
  }
};

// The last step of another operator on activations stored as T. For a value that the operator alone would
// store: the result (), and its gradient from that of the result, dy; and the gradient by the stored result
// y. Gradients are as stored.

template <class T>
struct NoEnd {
  using A = Arithmetic<T>;
  static constexpr bool by_output = false;
  BANYAN_HOST_DEVICE A operator()(A value) const { return value; }
  BANYAN_HOST_DEVICE A gradient(A, A dy) const { return dy; }
};

/// The largest value that is stored as 0: 2^-134 rounds to the even neighbour in bf16.
template <class T>
inline constexpr Arithmetic<T> kStoredAs0 = std::is_same_v<T, BFloat16> ? 0x1p-134F : 0;

template <class T>
struct ReluEnd {
  using A = Arithmetic<T>;
  static constexpr bool by_output = false;
  A slope;
  BANYAN_HOST_DEVICE A operator()(A value) const { return Relu<A>{slope}(stored<T>(value)); }
  BANYAN_HOST_DEVICE A gradient(A value, A dy) const {
    return stored<T>(value > kStoredAs0<T> ? dy : slope * dy);
  }
  BANYAN_HOST_DEVICE A gradient_by_output(A y, A dy) const {
    return stored<T>(ReluGradient<A>{slope}(y, dy));
  }
};
/// Slope 0 and T of 16 bits: nothing is rounded on the way.
template <class T>
struct PlainReluEnd {
  using A = Arithmetic<T>;
  static constexpr bool by_output = false;
  BANYAN_HOST_DEVICE A operator()(A value) const { return Relu<A>{0}(value); }
  BANYAN_HOST_DEVICE A gradient(A value, A dy) const { return value > kStoredAs0<T> ? dy : A(0) * dy; }
  BANYAN_HOST_DEVICE A gradient_by_output(A y, A dy) const { return ReluGradient<A>{0}(y, dy); }
};
template <class T>
struct EluEnd {
  using A = Arithmetic<T>;
  /// Is its gradient better taken from the output, where reading that costs less than an exponential?
  static constexpr bool by_output = true;
  A floor, lambda;
  BANYAN_HOST_DEVICE A operator()(A value) const { return Elu<A>{floor, lambda}(stored<T>(value)); }
  BANYAN_HOST_DEVICE A gradient(A value, A dy) const {
    return gradient_by_output(stored<T>((*this)(value)), dy);
  }
  BANYAN_HOST_DEVICE A gradient_by_output(A y, A dy) const {
    return stored<T>(EluGradient<A>{floor, lambda}(y, dy));
  }
};
template <class T>
struct ClipEnd {
  using A = Arithmetic<T>;
  static constexpr bool by_output = false;
  ClipFunction<A> clip;
  BANYAN_HOST_DEVICE A operator()(A value) const { return clip(stored<T>(value)); }
  BANYAN_HOST_DEVICE A gradient(A value, A dy) const { return stored<T>(clip.slope(stored<T>(value)) * dy); }
  /// Not asked for: the output does not tell.
  BANYAN_HOST_DEVICE A gradient_by_output(A y, A dy) const { return gradient(y, dy); }
};

/// body(end) with the activation's.
template <class T, class Body>
void with_activation(const Activation& activation, const Body& body) {
  using A = Arithmetic<T>;
  const EluShape& elu = activation.elu;
  switch (activation.kind) {
    case Activation::Kind::none:
      return body(NoEnd<T>{});
    case Activation::Kind::relu:
      if constexpr (!std::is_same_v<T, A>)
        if (activation.slope == 0) return body(PlainReluEnd<T>{});
      return body(ReluEnd<T>{static_cast<A>(activation.slope)});
    case Activation::Kind::elu:
      return body(EluEnd<T>{static_cast<A>(elu.alpha * elu.lambda), static_cast<A>(elu.lambda)});
    case Activation::Kind::clip:
      return body(ClipEnd<T>{{static_cast<A>(activation.low), static_cast<A>(activation.high)}});
  }
}

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
