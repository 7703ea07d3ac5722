// Functions of one element and the parametric ReLU for every back end (see backend.hpp).
#pragma once

#include <cmath>

#include "banyan/ops/functions.hpp"
#include "ops/common/activations.hpp"
#include "ops/common/elementwise.hpp"
#include "ops/common/optional_data.hpp"
#include "ops/common/sums.hpp"

namespace banyan::ops {
namespace detail {

// f(x), and slope(seen) of what Function::slope names.

template <class T>
struct ConstantFunction {
  T a;
  BANYAN_HOST_DEVICE T operator()(T) const { return a; }
  BANYAN_HOST_DEVICE T slope(T) const { return T(0); }
};
template <class T>
struct AffineFunction {
  T a, b;
  BANYAN_HOST_DEVICE T operator()(T x) const { return a * x + b; }
  BANYAN_HOST_DEVICE T slope(T) const { return a; }
};
template <class T>
struct PowerFunction {
  T a, b, c;
  BANYAN_HOST_DEVICE T operator()(T x) const { return std::pow(a * x + b, c); }
  BANYAN_HOST_DEVICE T slope(T x) const { return a * c * std::pow(a * x + b, c - T(1)); }
};
/// The power 2.
template <class T>
struct SquareFunction {
  T a, b;
  BANYAN_HOST_DEVICE T operator()(T x) const { return (a * x + b) * (a * x + b); }
  BANYAN_HOST_DEVICE T slope(T x) const { return T(2) * a * (a * x + b); }
};
/// The power 0.5.
template <class T>
struct RootFunction {
  T a, b;
  BANYAN_HOST_DEVICE T operator()(T x) const { return std::sqrt(a * x + b); }
  BANYAN_HOST_DEVICE T slope(T x) const { return T(0.5) * a / std::sqrt(a * x + b); }
};
/// The power -1.
template <class T>
struct ReciprocalFunction {
  T a, b;
  BANYAN_HOST_DEVICE T operator()(T x) const { return T(1) / (a * x + b); }
  BANYAN_HOST_DEVICE T slope(T x) const { return -a / ((a * x + b) * (a * x + b)); }
};
template <class T>
struct ExponentialFunction {
  T a, b;
  BANYAN_HOST_DEVICE T operator()(T x) const { return exponential(a * x + b); }
  BANYAN_HOST_DEVICE T slope(T y) const { return a * y; }
};
template <class T>
struct LogarithmFunction {
  T a, b, c;
  BANYAN_HOST_DEVICE T operator()(T x) const { return c * std::log(a * x + b); }
  BANYAN_HOST_DEVICE T slope(T x) const { return a * c / (a * x + b); }
};
template <class T>
struct AbsoluteFunction {
  BANYAN_HOST_DEVICE T operator()(T x) const { return std::fabs(x); }
  BANYAN_HOST_DEVICE T slope(T x) const { return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0); }
};
template <class T>
struct SoftplusFunction {
  BANYAN_HOST_DEVICE T operator()(T x) const {
    return (x < T(0) ? T(0) : x) + log_one_plus(exponential(-std::fabs(x)));
  }
  /// The sigmoid of x: 1 - exp(-y).
  BANYAN_HOST_DEVICE T slope(T y) const { return -exponential_less_1(-y); }
};
template <class T>
struct SwishFunction {
  T a;
  BANYAN_HOST_DEVICE T operator()(T x) const { return x * Sigmoid<T>{}(a * x); }
  BANYAN_HOST_DEVICE T slope(T x) const {
    const T s = Sigmoid<T>{}(a * x);
    return s + a * x * s * (T(1) - s);
  }
};
template <class T>
struct ThresholdFunction {
  T a;
  BANYAN_HOST_DEVICE T operator()(T x) const { return x > a ? T(1) : T(0); }
  BANYAN_HOST_DEVICE T slope(T) const { return T(0); }
};
template <class T>
struct NegativeSquareFunction {
  BANYAN_HOST_DEVICE T operator()(T x) const { return -(x * x); }
  BANYAN_HOST_DEVICE T slope(T x) const { return T(-2) * x; }
};
template <class T>
struct ScaleGroupFunction {
  BANYAN_HOST_DEVICE T operator()(T x) const {
    if (!(x >= T(1) && x < T(200))) return T(0);
    return x < T(12) ? T(1) : x < T(36) ? T(2) : x < T(80) ? T(3) : T(4);
  }
  BANYAN_HOST_DEVICE T slope(T) const { return T(0); }
};
template <class T>
struct AffinePartFunction {
  T a, b, c;
  BANYAN_HOST_DEVICE T operator()(T x) const { return x >= a || std::fabs(x) <= T(1e-4) ? T(0) : b * x + c; }
  BANYAN_HOST_DEVICE T slope(T) const { return T(0); }
};

template <class T>
struct TwoSlopesFunction {
  T a, b;
  BANYAN_HOST_DEVICE T operator()(T x) const { return slope(x) * x; }
  BANYAN_HOST_DEVICE T slope(T x) const { return x < T(0) ? a : b; }
};
template <class T>
struct HardSwishFunction {
  BANYAN_HOST_DEVICE T operator()(T x) const {
    const T share = x / T(6) + T(0.5);
    return x * (share < T(0) ? T(0) : share > T(1) ? T(1) : share);
  }
  BANYAN_HOST_DEVICE T slope(T x) const { return x < T(-3) ? T(0) : x > T(3) ? T(1) : x / T(3) + T(0.5); }
};

template <class T>
struct SignedRootFunction {
  T a;
  BANYAN_HOST_DEVICE T operator()(T x) const { return x < T(0) ? -std::sqrt(-x) : std::sqrt(x); }
  BANYAN_HOST_DEVICE T slope(T y) const {
    const T size = std::fabs(y);
    return T(0.5) / (size < a ? a : size);
  }
};

/// With t = e^-|x|, the hyperbolic tangent is c / (c + 2 f), where c = 2 t + t^2 and f = 1 below 0, and c =
/// 1 + 2 t and f = t^2 above: nothing overflows or cancels.
template <class T>
struct MishFunction {
  struct Parts {
    T t, c, sum;  ///< c + 2 f
    BANYAN_HOST_DEVICE explicit Parts(T x) : t(exponential(-std::fabs(x))) {
      const T square = t * t;
      c = T(2) * t + (x < T(0) ? square : T(1));
      sum = c + T(2) * (x < T(0) ? T(1) : square);
    }
  };
  BANYAN_HOST_DEVICE T operator()(T x) const {
    const Parts parts(x);
    return x * (parts.c / parts.sum);
  }
  BANYAN_HOST_DEVICE T slope(T x) const {
    const Parts parts(x);
    const T t = parts.t, scale = T(1) / parts.sum;
    return scale * (parts.c + T(4) * x * (x < T(0) ? t : t * t) * (T(1) + t) * scale);
  }
};

template <class T, class F>
struct ChainRule {
  F f;
  BANYAN_HOST_DEVICE T operator()(T seen, T dy) const { return dy * f.slope(seen); }
};

/// body(functor of f in arithmetic A).
template <class A, class Body>
void with_functor(const Function& f, const Body& body) {
  const A a = static_cast<A>(f.a), b = static_cast<A>(f.b), c = static_cast<A>(f.c);
  switch (f.kind) {
    case Function::Kind::constant:
      return body(ConstantFunction<A>{a});
    case Function::Kind::affine:
      return body(AffineFunction<A>{a, b});
    case Function::Kind::power:
      if (f.c == 2) return body(SquareFunction<A>{a, b});
      if (f.c == 0.5) return body(RootFunction<A>{a, b});
      if (f.c == -1) return body(ReciprocalFunction<A>{a, b});
      return body(PowerFunction<A>{a, b, c});
    case Function::Kind::exponential:
      return body(ExponentialFunction<A>{a, b});
    case Function::Kind::logarithm:
      return body(LogarithmFunction<A>{a, b, c});
    case Function::Kind::absolute:
      return body(AbsoluteFunction<A>{});
    case Function::Kind::softplus:
      return body(SoftplusFunction<A>{});
    case Function::Kind::clip:
      return body(ClipFunction<A>{a, b});
    case Function::Kind::swish:
      return body(SwishFunction<A>{a});
    case Function::Kind::threshold:
      return body(ThresholdFunction<A>{a});
    case Function::Kind::two_slopes:
      return body(TwoSlopesFunction<A>{a, b});
    case Function::Kind::hard_swish:
      return body(HardSwishFunction<A>{});
    case Function::Kind::signed_root:
      return body(SignedRootFunction<A>{a});
    case Function::Kind::mish:
      return body(MishFunction<A>{});
    case Function::Kind::negative_square:
      return body(NegativeSquareFunction<A>{});
    case Function::Kind::affine_part:
      return body(AffinePartFunction<A>{a, b, c});
    case Function::Kind::scale_group:
      return body(ScaleGroupFunction<A>{});
  }
}

/// The channels at one position.
template <class T>
struct ExpBelowLargest {
  Channels over;
  T a, b;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t first = i / over.inner * over.channels * over.inner + i % over.inner,
                       end = first + over.channels * over.inner;
    T largest = x[first];
    for (std::int64_t at = first; at < end; at += over.inner)
      if (x[at] > largest) largest = x[at];
    for (std::int64_t at = first; at < end; at += over.inner) y[at] = exponential(a * (x[at] - largest) + b);
  }
};

// Element i of x is in block d.

template <class T>
struct CreluForward {
  std::int64_t block;
  T slope;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t d) const {
    const T value = x[i];
    T* const to = y + i + d * block;
    to[0] = value > T(0) ? value : slope * value;
    to[block] = value < T(0) ? -value : -slope * value;
  }
};
template <class T>
struct CreluBackward {
  std::int64_t block;
  T slope;
  const T *x, *dy;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t d) const {
    const T value = x[i];
    const T* const from = dy + i + d * block;
    dx[i] = (value > T(0) ? from[0] : slope * from[0]) - (value < T(0) ? from[block] : slope * from[block]);
  }
};

template <class T>
struct PreluForward {
  const T* x;
  const Arithmetic<T>* slope;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t d) const {
    const Arithmetic<T> value = x[i], sloped = slope[d] * value;
    y[i] = static_cast<T>(value > 0 ? value : sloped);
  }
};
template <class T>
struct PreluGradient {
  const T *x, *dy;
  const Arithmetic<T>* slope;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t d) const {
    const Arithmetic<T> gradient = dy[i], sloped = slope[d] * gradient;
    dx[i] = static_cast<T>(x[i] > Arithmetic<T>(0) ? gradient : sloped);
  }
  /// What the element adds to the slope's gradient.
  BANYAN_HOST_DEVICE double of_parameter(std::int64_t i) const {
    const auto value = static_cast<double>(x[i]), term = value * static_cast<double>(dy[i]);
    return value > 0 ? 0 : term;
  }
};

}  // namespace detail

template <class Backend>
void apply_function_on(Context& context, const Tensor& x, const Function& f, Tensor& y) {
  require_alike("apply_function", x, y);
  dispatch_storage(x.dtype(), "apply_function", [&]<class T>() {
    detail::with_functor<Arithmetic<T>>(f, [&](auto functor) {
      Backend::for_each(context, x.count(), Unary<T, decltype(functor)>{functor, x.data<T>(), y.data<T>()});
    });
  });
}

template <class Backend>
void apply_slope_on(Context& context, const Tensor& seen, const Tensor& dy, const Function& f, Tensor& dx) {
  require_alike("apply_slope", seen, dy);
  require_alike("apply_slope", dy, dx);
  dispatch_storage(dy.dtype(), "apply_slope", [&]<class T>() {
    using A = Arithmetic<T>;
    detail::with_functor<A>(f, [&](auto functor) {
      using Rule = detail::ChainRule<A, decltype(functor)>;
      Backend::for_each(context, dy.count(),
                        Binary<T, Rule>{Rule{functor}, seen.data<T>(), dy.data<T>(), dx.data<T>()});
    });
  });
}

template <class Backend>
void exp_below_largest_on(Context& context, const Tensor& x, const Channels& over, double a, double b,
                          Tensor& y) {
  require_alike("exp_below_largest", x, y);
  require_count("exp_below_largest", x, over.outer * over.channels * over.inner);
  if (x.count() == 0) return;
  dispatch_float(x.dtype(), "exp_below_largest", [&]<class T>() {
    Backend::for_each_long(
        context, over.outer * over.inner, over.channels,
        detail::ExpBelowLargest<T>{over, static_cast<T>(a), static_cast<T>(b), x.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void crelu_forward_on(Context& context, const Tensor& x, double slope, std::int64_t block, Tensor& y) {
  require_count("crelu_forward", y, 2 * x.count());
  if (x.count() == 0) return;
  dispatch_float(x.dtype(), "crelu_forward", [&]<class T>() {
    Backend::for_each_channel(
        context, Broadcast{1, x.count() / block, block},
        detail::CreluForward<T>{block, static_cast<T>(slope), x.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void crelu_backward_on(Context& context, const Tensor& x, const Tensor& dy, double slope, std::int64_t block,
                       Tensor& dx) {
  require_count("crelu_backward", dy, 2 * x.count());
  require_alike("crelu_backward", x, dx);
  if (x.count() == 0) return;
  dispatch_float(x.dtype(), "crelu_backward", [&]<class T>() {
    Backend::for_each_channel(
        context, Broadcast{1, x.count() / block, block},
        detail::CreluBackward<T>{block, static_cast<T>(slope), x.data<T>(), dy.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
void prelu_forward_on(Context& context, const Tensor& x, const Tensor& slope, const Broadcast& over,
                      Tensor& y) {
  require_alike("prelu_forward", x, y);
  require_broadcast("prelu_forward", x, over);
  require_count("prelu_forward", slope, over.dim);
  dispatch_storage(x.dtype(), "prelu_forward", [&]<class T>() {
    Backend::for_each_channel(context, over,
                              detail::PreluForward<T>{x.data<T>(), slope.data<Arithmetic<T>>(), y.data<T>()});
  });
}

template <class Backend>
void prelu_backward_on(Context& context, const Tensor& x, const Tensor& dy, const Tensor& slope,
                       const Broadcast& over, Tensor& dx, Tensor& dslope) {
  require_alike("prelu_backward", x, dy);
  require_broadcast("prelu_backward", x, over);
  require_count("prelu_backward", slope, over.dim);
  if (dx.defined()) require_alike("prelu_backward", x, dx);
  if (dslope.defined()) require_count("prelu_backward", dslope, over.dim);
  dispatch_storage(x.dtype(), "prelu_backward", [&]<class T>() {
    using A = Arithmetic<T>;
    const detail::PreluGradient<T> input{x.data<T>(), dy.data<T>(), slope.data<A>(),
                                         detail::optional_data<T>(dx)};
    if (dx.defined() && dslope.defined())
      Backend::reduce_channels(context, over, channel_gradient<true>(input, dslope.data<A>()));
    else if (dslope.defined())
      Backend::reduce_channels(context, over, channel_gradient<false>(input, dslope.data<A>()));
    else if (dx.defined())
      Backend::for_each_channel(context, over, input);
  });
}

/// Registers all of the above for a back end.
template <class Backend>
struct DefineFunctions {
  DefineFunctions() {
    apply_function.define(Backend::kind, &apply_function_on<Backend>);
    apply_slope.define(Backend::kind, &apply_slope_on<Backend>);
    exp_below_largest.define(Backend::kind, &exp_below_largest_on<Backend>);
    crelu_forward.define(Backend::kind, &crelu_forward_on<Backend>);
    crelu_backward.define(Backend::kind, &crelu_backward_on<Backend>);
    prelu_forward.define(Backend::kind, &prelu_forward_on<Backend>);
    prelu_backward.define(Backend::kind, &prelu_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
